"""Budgets of teams and how they stand in one month: spent, left, and what the whole month will have cost at the present pace
(linear over the time that is gone, from the first 24 hours on until its end). Percents are rounded down. Budgets can be
changed, those of closed months too: what is told here is no part of the ledger."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers

from apps.api.base import ListView, Reading
from apps.api.billing_periods import MoneyTotals
from apps.api.fields import DecimalText, Instant, Text
from apps.api.pagination import Key, Page, page_of_rows
from apps.api.schema import documented
from apps.chargeback.budget import Measure
from apps.chargeback.budgets import TeamBudget, team_budgets
from apps.chargeback.charge_filters import BudgetsForm


class ThresholdSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`measure`: of what is spent, or of the forecast."""

    measure = serializers.ChoiceField(choices=[one.value for one in Measure], read_only=True)
    percent = serializers.IntegerField(read_only=True)


@extend_schema_serializer(
    examples=[
        OpenApiExample(
            "A budget at 61 %",
            value={
                "period": "2026-03",
                "team": "vision",
                "provisional": True,
                "as_of": "2026-03-19T00:00:00Z",
                "amount": "12000.00",
                "currency": "USD",
                "spent": "7320.45",
                "at_least": False,
                "left": "4679.55",
                "percent": 61,
                "forecast": "12607.44",
                "forecast_percent": 105,
                "thresholds": [50, 80, 100],
                "forecast_threshold": 100,
                "crossed": [
                    {"measure": "spent", "percent": 50},
                    {"measure": "forecast", "percent": 100},
                ],
                "elsewhere": {},
            },
        )
    ]
)
class BudgetSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`at_least`: some of the use has no price, so that more is spent. `left` is negative where more was spent. `forecast`
    is null in the first 24 hours and once the month is over. `crossed`: of the thresholds, those reached as things stand.
    `elsewhere`: what was spent in other currencies, which is in no other figure."""

    period = Text(source="period.month")
    team = Text(source="team.slug")
    provisional = serializers.SerializerMethodField()
    as_of = Instant(source="period.updated_at")
    amount = DecimalText(source="standing.plan.amount", keep_scale=True)
    currency = Text(source="standing.plan.currency")
    spent = DecimalText(source="standing.spent", keep_scale=True)
    at_least = serializers.BooleanField(source="standing.at_least", read_only=True)
    left = DecimalText(source="standing.left", keep_scale=True)
    percent = serializers.IntegerField(source="standing.percent", read_only=True)
    forecast = DecimalText(source="standing.forecast", keep_scale=True, allow_null=True)
    forecast_percent = serializers.IntegerField(
        source="standing.forecast_percent", read_only=True, allow_null=True
    )
    thresholds = serializers.ListField(
        child=serializers.IntegerField(), source="standing.plan.percents", read_only=True
    )
    forecast_threshold = serializers.IntegerField(
        source="standing.plan.forecast", read_only=True, allow_null=True
    )
    crossed = ThresholdSerializer(source="standing.crossed", many=True, read_only=True)
    elsewhere = MoneyTotals(source="standing.elsewhere", help_text="{currency: amount}")

    def get_provisional(self, found: TeamBudget) -> bool:
        return not found.period.is_closed


@documented(operation="budgets", summary="Budgets of a month, one per team that has one")
class BudgetsView(ListView):
    route = "budgets"
    item = BudgetSerializer
    filter_class = BudgetsForm
    key_shape = (str,)

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[Any]:
        period = reading.form.cleaned_data["period"]
        rows = team_budgets(period, team_ids=reading.form.narrowed_team_ids())
        return page_of_rows(rows, key=_key, after=after, size=size)


def _key(found: TeamBudget) -> Key:
    return (found.team.slug,)
