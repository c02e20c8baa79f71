"""A closed billing period as a FOCUS 1.2 file; for finance and platform admins only, to others there is no such address.

Every column of FOCUS 1.2, then our own (`x_`); a row for each priced line of the ledger, whose amounts add up to the
ledger's. Lines without a price have no row: `X-Unpriced-Lines` counts them. The file of a closed period never changes."""

from __future__ import annotations

from typing import Any

from django.http import Http404, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response, patch_vary_headers
from django.utils.translation import gettext as _
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import User
from apps.accounts.selectors import sees_all_teams
from apps.api.period_answers import PeriodAnswers
from apps.api.problems import problem
from apps.api.schema import documented_file
from apps.chargeback.focus_export import Export, Format, closed_export
from apps.chargeback.focus_filters import FocusForm
from apps.chargeback.models import BillingPeriod


@documented_file(
    operation="focus",
    summary="A closed billing period as a FOCUS file",
    media_types=("text/csv", "application/vnd.apache.parquet"),
    problems={409: "The period is not closed yet."},
)
class FocusView(PeriodAnswers):
    route = "focus"
    item = serializers.Serializer
    filter_class = FocusForm

    def get(self, request: Request) -> HttpResponseBase:
        if not (isinstance(request.user, User) and sees_all_teams(request.user)):
            raise Http404
        form = self.read(request).form
        period: BillingPeriod = form.cleaned_data["period"]
        if not period.is_closed:
            return _not_closed(request, period)
        self.period = period
        return _answer(request, period, closed_export(period, form.chosen_format))

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        answer = super().finalize_response(request, response, *args, **kwargs)
        if answer.status_code in (200, 304):
            # What one person may keep is not for the next one at the same browser.
            patch_vary_headers(answer, ["Authorization", "Cookie"])
        return answer


def _not_closed(request: Request, period: BillingPeriod) -> Response:
    return problem(
        request,
        kind="not-closed",
        title=_("Not closed"),
        status_code=409,
        detail=_("%(month)s is not closed yet: what it costs still moves.") % {"month": period.month},
    )


def _answer(request: Request, period: BillingPeriod, export: Export) -> HttpResponseBase:
    """The file, or 304 to whoever has it."""
    etag = f'"{export.tag}"'
    response: HttpResponseBase | None = get_conditional_response(request._request, etag=etag)
    if response is None:
        response = StreamingHttpResponse(export.pieces(), content_type=export.format.media_type)
        response["Content-Disposition"] = f'attachment; filename="{_file_name(period, export.format)}"'
        response["X-Unpriced-Lines"] = str(export.unpriced)
    response["ETag"] = etag
    return response


def _file_name(period: BillingPeriod, format_: Format) -> str:
    return f"focus-1.2-{period.month}.{format_.value}"
