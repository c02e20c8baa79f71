"""Billing periods: calendar months, open until finance closes them. What a closed one holds never changes again; what
arrives late is billed in a later one as a correction. `totals`, `entries` and `missing` are of all teams and null for who
reads only some; of an open period they are provisional."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.conf import settings
from django.http import HttpResponseBase
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.base import ListView, Reading
from apps.api.fields import Amounts, DecimalText, Instant, Text
from apps.api.pagination import Key, Page, page_of_ids
from apps.api.period_answers import PeriodAnswers, freshness_of, period_or_404
from apps.api.problems import BadRequest, Fault, problem
from apps.api.quota_changes_bodies import body_of
from apps.api.schema import ProblemSerializer, documented, documented_write
from apps.chargeback.close_words import refusal_text
from apps.chargeback.ledger import NotClosable, close
from apps.chargeback.models import BillingPeriod
from apps.chargeback.permissions import may_close
from apps.core.money import round_money

MOST_REASON = 2000


class MoneyTotals(Amounts):
    """{currency: amount}."""

    child = DecimalText(keep_scale=True)


class MissingSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Unit-hours per resource: without a price, and not seen by anybody."""

    unpriced = Amounts()
    left_out = Amounts()


class BillingPeriodSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`starts_at` ≤ its hours < `ends_at`, a calendar month of `zone`. `updated_at`: when its lines were computed last.
    With `state`, `created_at` and `invoice_issuer_name` these are the columns of FOCUS 1.4's BillingPeriod dataset.
    `digest`: SHA-256 over all lines of a closed one; `reason`: why what is missing was accepted."""

    month = Text()
    zone = Text()
    starts_at = Instant()
    ends_at = Instant()
    state = serializers.ChoiceField(choices=BillingPeriod.State.values, read_only=True)
    invoice_issuer_name = serializers.SerializerMethodField()
    created_at = Instant()
    updated_at = Instant()
    closed_at = Instant(allow_null=True)
    totals = serializers.SerializerMethodField()
    entries = serializers.SerializerMethodField()
    missing = serializers.SerializerMethodField()
    digest = serializers.SerializerMethodField()
    reason = serializers.SerializerMethodField()

    def _whole(self) -> bool:
        return self.context["reading"].team_ids is None

    @extend_schema_field(MoneyTotals(allow_null=True))
    def get_totals(self, period: BillingPeriod) -> dict[str, str] | None:
        return money(period.totals) if self._whole() else None

    def get_invoice_issuer_name(self, period: BillingPeriod) -> str:
        return settings.ORGANISATION

    def get_entries(self, period: BillingPeriod) -> int | None:
        return period.entries if self._whole() else None

    @extend_schema_field(MissingSerializer(allow_null=True))
    def get_missing(self, period: BillingPeriod) -> dict[str, Any] | None:
        given = {"unpriced": {}, "left_out": {}} | period.missing
        return given if self._whole() else None

    def get_digest(self, period: BillingPeriod) -> str | None:
        return (period.digest or None) if self._whole() else None

    def get_reason(self, period: BillingPeriod) -> str | None:
        return (period.reason or None) if self._whole() else None


def money(totals: dict[str, str]) -> dict[str, str]:
    """{currency: text with the currency's digits}."""
    return {code: format(round_money(Decimal(text), code), "f") for code, text in totals.items()}


@documented(operation="billing-periods", summary="Billing periods, the earliest first")
class BillingPeriodsView(ListView):
    route = "billing-periods"
    item = BillingPeriodSerializer

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[BillingPeriod]:
        return page_of_ids(BillingPeriod.objects.all(), after=after, size=size)


@documented(operation="billing-period", summary="One billing period, by its month")
class BillingPeriodView(PeriodAnswers):
    route = "billing-periods"
    item = BillingPeriodSerializer

    def get(self, request: Request, month: str) -> HttpResponseBase:
        reading = self.read(request)
        period = period_or_404(month)
        return self.about(request, reading, period, lambda: self.told(reading, period))

    def told(self, reading: Reading, period: BillingPeriod) -> Response:
        result = self.item(period, context=self.context(reading)).data
        return Response({**self.envelope(reading, freshness_of(period)), "result": result})


class CloseSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`reason`: why it is closed although something is missing; needed only then."""

    reason = serializers.CharField(required=False)


class NotClosedSerializer(ProblemSerializer):
    """`code`: running (it has not ended), before (an earlier one is open), behind (hours of a cluster are not computed
    yet), accept (something is missing and no reason is given), role. `missing`: what, depending on the code."""

    code = Text()
    missing = serializers.DictField(read_only=True)


@documented_write(
    "post",
    operation="billing-period-close",
    summary="Close a billing period, for good",
    body=CloseSerializer,
    answer=BillingPeriodSerializer,
    problems=(403, 409),
    refused_as=NotClosedSerializer,
    keyed=False,
)
class ClosePeriodView(BillingPeriodView):
    http_method_names = ("post", "options")

    def post(self, request: Request, month: str) -> Response:
        reading = self.read(request)
        period = period_or_404(month)
        if not may_close(reading.user):
            return self._refused(
                request, 403, "role", _("Only finance and platform admins close periods."), {}
            )
        reason = reason_of(request)
        try:
            closed = close(period.pk, by=reading.user, reason=reason, now=timezone.now())
        except NotClosable as error:
            return self._refused(request, 409, error.code, refusal_text(error), dict(error.missing))
        return self.told(reading, closed)

    def _refused(
        self, request: Request, status: int, code: str, detail: str, missing: dict[str, Any]
    ) -> Response:
        return problem(
            request,
            kind="not-allowed" if status == 403 else "not-closable",
            title=_("Not allowed") if status == 403 else _("Not possible now"),
            status_code=status,
            detail=detail,
            more={"code": code, "missing": missing},
        )


def reason_of(request: Request) -> str:
    reason = body_of(request, ("reason",)).get("reason", "")
    if not isinstance(reason, str) or len(reason) > MOST_REASON:
        text = _("Give a text of at most %(most)s characters.") % {"most": MOST_REASON}
        raise BadRequest([Fault("reason", "shape", text)])
    return reason
