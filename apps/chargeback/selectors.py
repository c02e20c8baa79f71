"""What held quota costs. Input: usage rollups and published rates; output: charges, exact and rounded once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Literal, NamedTuple

from django.db.models import QuerySet

from apps.chargeback.models import Rate
from apps.chargeback.pricing import Charge, Priced, RateCard, RateLine, charge
from apps.core.windows import HOUR, Bucket, Window, floor_hour
from apps.usage.selectors import UsageCriteria, UsageRow, usage_rows

Basis = Literal["reserved", "admitted"]


@dataclass(frozen=True, slots=True)
class ChargeRow:
    """One team's use of one queue, flavor and resource at one rate. An unpriced row has no currency, price or
    amount (None, never 0). `amount` is in whole minor units; all rows of a currency add up to its total."""

    cluster_id: int
    cluster_slug: str
    cluster_name: str
    team_id: int | None
    team_slug: str
    team_name: str
    queue: str
    flavor: str
    resource: str
    unit_seconds: Decimal
    rate_id: int | None
    currency: str
    price_per_hour: Decimal | None
    exact_amount: Decimal | None
    amount: Decimal | None

    @property
    def unit_hours(self) -> Decimal:
        return self.unit_seconds / 3600

    @property
    def is_priced(self) -> bool:
        return self.amount is not None


@dataclass(frozen=True, slots=True)
class ChargeReport:
    """`totals`: {currency: amount rounded once}; `window`: the whole hours that were read;
    `unpriced_unit_seconds`: {resource: unit-seconds without a rate}."""

    window: Window
    basis: Basis
    rows: Sequence[ChargeRow]
    totals: Mapping[str, Decimal]
    unpriced_unit_seconds: Mapping[str, Decimal]


def charges(
    *,
    window: Window,
    team_ids: Collection[int] | None,
    criteria: UsageCriteria | None = None,
    basis: Basis = "reserved",
) -> ChargeReport:
    """Charges of the window's whole hours. Provisional: rollups of unfinished hours still move. The rate of an hour
    is the one in force at its start; a row per rate, so that a price change inside the window shows as two."""
    hours = window.aligned(Bucket.HOUR)
    card = RateCard(_rate_lines())
    sums: dict[tuple[RowKey, RateLine | None], Decimal] = {}
    edges = [hours.start, *card.changes(hours.start, hours.end), hours.end]
    for start, end in pairwise(edges):
        # Hours that begin inside the stretch; a rate that starts within an hour takes over with the next.
        for usage in _usage(start, end, team_ids, criteria):
            rate = card.rate_at(
                cluster_id=usage.cluster_id, flavor=usage.flavor, resource=usage.resource, at=start
            )
            units = usage.reserved_unit_seconds if basis == "reserved" else usage.admitted_unit_seconds
            if units:
                item = (_key(usage), rate)
                sums[item] = sums.get(item, Decimal(0)) + units
    order = sorted(sums, key=_order)
    charged, totals = charge([Priced(sums[item], item[1]) for item in order])
    unpriced: dict[str, Decimal] = {}
    for key, rate in order:
        if rate is None:
            unpriced[key.resource] = unpriced.get(key.resource, Decimal(0)) + sums[key, None]
    return ChargeReport(
        window=hours,
        basis=basis,
        rows=[_row(item, sums[item], line) for item, line in zip(order, charged, strict=True)],
        totals=totals,
        unpriced_unit_seconds=unpriced,
    )


class RowKey(NamedTuple):
    """What a charge row is about."""

    cluster_slug: str
    team_slug: str
    queue: str
    flavor: str
    resource: str
    cluster_id: int
    cluster_name: str
    team_id: int | None
    team_name: str


def _key(usage: UsageRow) -> RowKey:
    return RowKey(*(getattr(usage, name) for name in RowKey._fields))


def _order(item: tuple[RowKey, RateLine | None]) -> tuple[str, bool, str, str, str, str, str, str]:
    key, rate = item
    started = rate.valid_from.isoformat() if rate else ""
    return (
        key.cluster_slug,
        key.team_id is None,
        key.team_slug,
        key.queue,
        key.flavor,
        key.resource,
        started,
        rate.currency if rate else "",
    )


def _usage(
    start: datetime, end: datetime, team_ids: Collection[int] | None, criteria: UsageCriteria | None
) -> list[UsageRow]:
    first = start if start == floor_hour(start) else floor_hour(start) + HOUR
    last = end if end == floor_hour(end) else floor_hour(end) + HOUR
    if first >= last:
        return []
    return usage_rows(window=Window(first, last), team_ids=team_ids, criteria=criteria)


def _rate_lines() -> list[RateLine]:
    fields = ("pk", "cluster_id", "flavor", "resource", "currency", "price_per_hour", "valid_from")
    return [RateLine(*row) for row in Rate.objects.values_list(*fields)]


def _row(item: tuple[RowKey, RateLine | None], units: Decimal, line: Charge) -> ChargeRow:
    key, rate = item
    return ChargeRow(
        **key._asdict(),
        unit_seconds=units,
        rate_id=rate.id if rate else None,
        currency=line.currency,
        price_per_hour=rate.price_per_hour if rate else None,
        exact_amount=line.exact,
        amount=line.amount,
    )


def rates() -> QuerySet[Rate]:
    """Every rate, in a stable order."""
    return Rate.objects.select_related("cluster").order_by(
        "resource", "flavor", "cluster", "valid_from", "pk"
    )
