"""What held quota costs. Input: usage rollups and published rates; output: charges, exact and rounded once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from apps.core.windows import Window
from apps.usage.selectors import UsageCriteria

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
    raise NotImplementedError
