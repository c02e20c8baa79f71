"""Statements: what each team held in a period and what it costs, line by line. Each line is rounded once, so that the lines
of a currency add up to the statement's total; a period's total is the sum of its statements. Of an open period they are
provisional."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpResponseBase
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Team
from apps.accounts.selectors import visible_teams
from apps.api.base import ListView, Reading
from apps.api.billing_periods import MoneyTotals
from apps.api.fields import Amounts, DecimalText, Text
from apps.api.kinds import KindSerializer
from apps.api.pagination import Key, PageForm, next_link, page_of_rows
from apps.api.period_answers import PeriodAnswers, freshness_of, period_or_404
from apps.api.rates import BASES
from apps.api.schema import documented
from apps.chargeback.charge_filters import StatementsForm
from apps.chargeback.models import BillingPeriod
from apps.chargeback.statements import Statement, StatementLine, statement_of, statements
from apps.chargeback.team_use import use_of
from apps.fleet.selectors import UNBOUND


class StatementLineSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Of one kind of unit at one price and factor; `entries`: how many lines of the ledger it sums. Without a price,
    currency, price, factor, weight and amount are null."""

    model = serializers.SerializerMethodField()
    sharing_mode = serializers.SerializerMethodField()
    profile = serializers.SerializerMethodField()
    resource = Text(source="charged.resource")
    basis = serializers.ChoiceField(choices=BASES, source="charged.basis", read_only=True)
    correction = serializers.BooleanField(source="charged.correction", read_only=True)
    entries = serializers.IntegerField(read_only=True)
    unit_seconds = DecimalText()
    currency = serializers.SerializerMethodField()
    price_per_unit_hour = DecimalText(source="charged.price_per_hour", allow_null=True)
    factor = DecimalText(source="charged.factor", allow_null=True)
    weight = serializers.SerializerMethodField(help_text="An exact fraction such as 1/7.")
    amount = DecimalText(allow_null=True, keep_scale=True)

    def get_model(self, line: StatementLine) -> str | None:
        return line.charged.model or None

    def get_sharing_mode(self, line: StatementLine) -> str | None:
        return line.charged.sharing_mode or None

    def get_profile(self, line: StatementLine) -> str | None:
        return line.charged.profile or None

    def get_currency(self, line: StatementLine) -> str | None:
        return line.currency or None

    def get_weight(self, line: StatementLine) -> str | None:
        weight = line.charged.weight
        return None if weight is None else f"{weight.numerator}/{weight.denominator}"


class StatementItemSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`unpriced`: unit-hours without a price, which are in no total."""

    period = Text(source="period.month")
    provisional = serializers.SerializerMethodField()
    team = serializers.SerializerMethodField()
    totals = MoneyTotals(help_text="{currency: amount}")
    unpriced = Amounts(help_text="{resource: unit-hours without a price}")

    def get_provisional(self, statement: Statement) -> bool:
        return not statement.period.is_closed

    def get_team(self, statement: Statement) -> str | None:
        return statement.slug or None


class UsedSerializer(KindSerializer):
    """What the team held of one kind of unit and how busy it was, all in seconds; `measured`, `busy` and `held_idle` are of
    devices. Null: not measured. `bridged`: part of `reserved` in which nobody could look and the same work was there before
    and after; `left_out`: beside it, seen by nobody and not charged; `unbound`: reserved while no pod had it."""

    reserved_unit_seconds = DecimalText(source="reserved")
    bridged_unit_seconds = DecimalText(source="bridged")
    left_out_unit_seconds = DecimalText(source="left_out")
    bound_unit_seconds = DecimalText(source="bound")
    unbound_unit_seconds = DecimalText(source="unbound")
    measured_device_seconds = DecimalText(source="measured", allow_null=True)
    busy_device_seconds = DecimalText(source="busy", allow_null=True)
    held_idle_device_seconds = DecimalText(source="held_idle", allow_null=True)
    efficiency = DecimalText(allow_null=True, help_text="Busy / measured, 0…1.")
    memory_gib_seconds = DecimalText(allow_null=True)
    energy_joules = DecimalText(allow_null=True)


class StatementSerializer(StatementItemSerializer):
    lines = StatementLineSerializer(many=True, read_only=True)
    use = serializers.SerializerMethodField()

    @extend_schema_field(UsedSerializer(many=True))
    def get_use(self, statement: Statement) -> Any:
        return UsedSerializer(use_of(statement.period, statement.team), many=True).data


@documented(operation="statements", summary="Statements of a period, one per team; that of nobody last")
class StatementsView(PeriodAnswers, ListView):
    route = "statements"
    item = StatementItemSerializer
    filter_class = StatementsForm
    key_shape = (int, str)

    def get(self, request: Request) -> HttpResponseBase:
        paging = self.page_form(request.query_params, route=self.route, shape=self.key_shape)
        reading = self.read(request, paging)
        period: BillingPeriod = reading.form.cleaned_data["period"]
        return self.about(request, reading, period, lambda: self._told(request, reading, paging, period))

    def _told(self, request: Request, reading: Reading, paging: PageForm, period: BillingPeriod) -> Response:
        found = page_of_rows(
            self._chosen(reading, period), key=_key, after=paging.cleaned_data["cursor"], size=paging.size
        )
        return Response(
            {
                **self.envelope(reading, freshness_of(period)),
                "next": next_link(request, found.last, route=self.route),
                "results": self.item(found.rows, many=True).data,
            }
        )

    def _chosen(self, reading: Reading, period: BillingPeriod) -> list[Statement]:
        found = statements(period, team_ids=reading.team_ids)
        team = reading.form.cleaned_data["team"]
        if not team:
            return found
        wanted = None if team == UNBOUND else Team.objects.get(slug=team)
        return [one for one in found if one.team == wanted]


def _key(statement: Statement) -> Key:
    return (int(statement.team is None), statement.slug)


@documented(
    operation="statement", summary="One team's statement of a period; the team - is what belonged to nobody"
)
class StatementView(PeriodAnswers):
    route = "statements"
    item = StatementSerializer

    def get(self, request: Request, month: str, team: str) -> HttpResponseBase:
        reading = self.read(request)
        period = period_or_404(month)
        owner = self._owner(reading, team)
        return self.about(request, reading, period, lambda: self._told(reading, period, owner))

    def _owner(self, reading: Reading, slug: str) -> Team | None:
        if slug == UNBOUND:
            if reading.team_ids is not None:
                raise Http404
            return None
        return get_object_or_404(visible_teams(reading.user), slug=slug)

    def _told(self, reading: Reading, period: BillingPeriod, owner: Team | None) -> Response:
        found = statement_of(period, owner)
        return Response({**self.envelope(reading, freshness_of(period)), "result": self.item(found).data})
