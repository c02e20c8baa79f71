"""Answers about a billing period: of a closed one the same bytes for ever, of an open one provisional.

Invariants: the strong ETag of a closed period's answer is made of the period's digest and of what was asked by whom, so
that it never changes whatever arrives later, and `as_of` is when it was closed; an open one's ETag is weak and moves each
time its lines are computed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import Http404, HttpResponseBase
from django.utils.cache import get_conditional_response, patch_cache_control
from django.utils.translation import get_language
from rest_framework.request import Request

from apps.api.base import Reading, ReadView
from apps.chargeback.models import BillingPeriod
from apps.chargeback.overview import period_of
from apps.observations.selectors import AsOf, State

FORM = "3"
"""Goes up when what is told of a closed period takes another form."""
KEPT_SECONDS = 3600
"""For how long a client may use what it has of a closed period without asking again."""


def period_or_404(month: str) -> BillingPeriod:
    found = period_of(month)
    if found is None:
        raise Http404
    return found


def freshness_of(period: BillingPeriod) -> AsOf:
    return AsOf(observed_at=period.closed_at or period.updated_at, state=State.OK)


class PeriodAnswers(ReadView):
    """A view whose answer is about one period."""

    period: BillingPeriod | None = None

    def about(
        self,
        request: Request,
        reading: Reading,
        period: BillingPeriod,
        build: Callable[[], HttpResponseBase],
    ) -> HttpResponseBase:
        """What `build` gives, or that nothing has changed."""
        self.period = period
        tag = etag_of(request, reading, period)
        unchanged = get_conditional_response(request._request, etag=tag)
        answer: HttpResponseBase = unchanged if unchanged is not None else build()
        answer.headers["ETag"] = tag
        return answer

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        answer = super().finalize_response(request, response, *args, **kwargs)
        if self.period is not None and self.period.is_closed and answer.status_code in (200, 304):
            del answer.headers["Cache-Control"]
            patch_cache_control(answer, private=True, max_age=KEPT_SECONDS)
        return answer


def etag_of(request: Request, reading: Reading, period: BillingPeriod) -> str:
    """Of what was asked, by whom it is read, and what the period and its issuer are."""
    state = period.digest if period.is_closed else period.updated_at.isoformat()
    teams = "all" if reading.team_ids is None else ",".join(map(str, sorted(reading.team_ids)))
    asked = (
        *(FORM, settings.ORGANISATION, period.month, state),
        *(request.get_full_path(), teams, get_language() or ""),
    )
    digest = hashlib.sha256("\n".join(asked).encode()).hexdigest()[:32]
    return f'"{digest}"' if period.is_closed else f'W/"{digest}"'
