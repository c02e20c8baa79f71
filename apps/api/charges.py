"""Lines of the ledger, in the order of their sequence. Without `period` all lines of closed periods: they never change, so a
copy is kept by asking for what comes after the highest `sequence` that it has (`after_seq`). With an open period its
provisional lines, computed anew each hour and numbered within the period."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django import forms
from django.http import HttpResponse, HttpResponseBase
from django.utils.translation import gettext_lazy as _
from rest_framework import serializers
from rest_framework.request import Request

from apps.api.base import ListView, Reading
from apps.api.fields import DecimalText, Instant, Text
from apps.api.pagination import PageForm, next_link
from apps.api.period_answers import PeriodAnswers, freshness_of
from apps.api.rates import BASES
from apps.api.schema import documented
from apps.chargeback.charge_filters import ChargesForm
from apps.chargeback.charge_lines import ChargePage, charge_page, last_sequence
from apps.chargeback.models import BillingPeriod

MOST_LINES = 10_000


class LinesPageForm(PageForm):
    """Larger pages: whole ledgers are pulled."""

    page_size = forms.IntegerField(
        label=_("Page size"),
        required=False,
        min_value=1,
        max_value=MOST_LINES,
        help_text=_("How many rows a page holds at most."),
    )


class ChargeSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """`sequence` has no holes among closed periods. `corrects`: the line that a correction corrects; its unit-seconds and
    amount are then the difference. `cards_per_unit` and `weight`: exact fractions such as "1/7". `seen` "bridged": nobody
    could look, and it was there before and after. `amount` = unit_seconds × price × factor × weight / 3600, unrounded
    (18 digits); without a price currency, price and amount are null: unpriced is not free."""

    sequence = serializers.IntegerField(read_only=True)
    period = Text()
    correction = serializers.BooleanField(read_only=True)
    corrects = serializers.IntegerField(read_only=True, allow_null=True)
    cluster = Text()
    team = Text(allow_null=True, help_text="null: no team owned it")
    cost_centre = Text(allow_null=True)
    basis = serializers.ChoiceField(choices=BASES, read_only=True)
    kind = Text()
    queue = Text(allow_null=True)
    flavor = Text(allow_null=True)
    resource = Text()
    model = Text(allow_null=True)
    sharing_mode = Text(allow_null=True)
    profile = Text(allow_null=True)
    cards_per_unit = Text(allow_null=True)
    priority_class = Text(allow_null=True)
    borrowed = serializers.BooleanField(read_only=True)
    seen = serializers.ChoiceField(choices=["observed", "bridged"], read_only=True)
    starts_at = Instant()
    ends_at = Instant()
    unit_seconds = DecimalText()
    rate_card = serializers.IntegerField(read_only=True, allow_null=True)
    currency = Text(allow_null=True)
    price_per_unit_hour = DecimalText(allow_null=True)
    factor = DecimalText(allow_null=True)
    weight = Text(allow_null=True)
    amount = DecimalText(allow_null=True)


@documented(operation="charges", summary="Lines of the ledger")
class ChargesView(PeriodAnswers, ListView):
    route = "charges"
    item = ChargeSerializer
    filter_class = ChargesForm
    page_form = LinesPageForm
    extra_fields: Mapping[str, Any] = {
        "provisional": serializers.BooleanField(read_only=True),
        "last_sequence": serializers.IntegerField(
            read_only=True, help_text="The highest of the closed `period`, else of the whole ledger; 0: none."
        ),
    }

    def get(self, request: Request) -> HttpResponseBase:
        paging = self.page_form(request.query_params, route=self.route, shape=self.key_shape)
        reading = self.read(request, paging)
        period: BillingPeriod | None = reading.form.cleaned_data["period"]

        def build() -> HttpResponse:
            return self._told(request, reading, paging, period)

        return build() if period is None else self.about(request, reading, period, build)

    def _told(
        self, request: Request, reading: Reading, paging: PageForm, period: BillingPeriod | None
    ) -> HttpResponse:
        after = max((paging.cleaned_data["cursor"] or (0,))[0], reading.form.cleaned_data["after_seq"] or 0)
        page = charge_page(
            period=period,
            team_ids=reading.team_ids,
            criteria=reading.form.criteria,
            after=int(after),
            size=paging.size,
        )
        head = {
            **self.envelope(reading, freshness_of(period) if period else None),
            "provisional": period is not None and not period.is_closed,
            "last_sequence": last_sequence(period if period and period.is_closed else None),
            "next": next_link(request, None if page.last is None else (page.last,), route=self.route),
        }
        return HttpResponse(with_results(head, page), content_type="application/json")


def with_results(head: Mapping[str, Any], page: ChargePage) -> str:
    """The answer's JSON: its rows are JSON already."""
    text = json.dumps(head, ensure_ascii=False, separators=(",", ":"))
    return f'{text[:-1]},"results":[{",".join(page.rows)}]}}'
