"""What held quota costs, and the rates it is priced by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from apps.api.base import ListView, Reading
from apps.api.fields import Amounts, DecimalText, Text
from apps.api.pagination import Key, Page, page_of_rows
from apps.api.schema import documented
from apps.api.usage import USAGE_SOURCES, WindowSerializer, usage_key, window_of
from apps.chargeback.filters import ChargesForm
from apps.chargeback.selectors import ChargeRow, charges


class ChargeSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Use of one queue, flavor and resource by one team at one rate. Without a rate, currency, price and amount are
    null: unpriced is not free. Amounts are rounded once, to the currency's minor unit, and add up to the total."""

    cluster = Text(source="cluster_slug")
    team = serializers.SerializerMethodField(help_text="null: no team owned it")
    queue = Text()
    flavor = Text()
    resource = Text()
    unit_seconds = DecimalText()
    rate_id = serializers.IntegerField(read_only=True, allow_null=True)
    currency = serializers.SerializerMethodField()
    price_per_unit_hour = DecimalText(source="price_per_hour", allow_null=True)
    amount = DecimalText(allow_null=True, keep_scale=True)

    def get_team(self, row: ChargeRow) -> str | None:
        return row.team_slug or None

    def get_currency(self, row: ChargeRow) -> str | None:
        return row.currency or None


class MoneyTotals(Amounts):
    """{currency: amount}."""

    child = DecimalText(keep_scale=True)


def _key(row: ChargeRow) -> Key:
    return (*usage_key(row), row.rate_id or 0)


@documented(
    operation="charges",
    summary="What held quota costs over a window",
    description="Provisional: hours that are not finished still move. `totals` and `unpriced_unit_seconds` are of "
    "the whole window, not of the page.",
)
class ChargesView(ListView):
    route = "charges"
    item = ChargeSerializer
    filter_class = ChargesForm
    needs = USAGE_SOURCES
    key_shape = (int, str, str, str, str, int)
    extra_fields: Mapping[str, Any] = {
        "window": WindowSerializer(read_only=True),
        "basis": serializers.ChoiceField(choices=["reserved", "admitted"], read_only=True),
        "totals": MoneyTotals(help_text="{currency: amount}"),
        "unpriced_unit_seconds": Amounts(help_text="{resource: unit-seconds without a rate}"),
    }

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[ChargeRow]:
        form = reading.form
        self.report = charges(
            window=form.time_window,
            team_ids=reading.team_ids,
            criteria=form.criteria,
            basis=form.chosen_basis,
        )
        return page_of_rows(self.report.rows, key=_key, after=after, size=size)

    def totals(self, reading: Reading) -> Mapping[str, Any]:
        return {
            "window": window_of(self.report.window),
            "basis": self.report.basis,
            "totals": MoneyTotals().to_representation(dict(self.report.totals)),
            "unpriced_unit_seconds": Amounts().to_representation(dict(self.report.unpriced_unit_seconds)),
        }
