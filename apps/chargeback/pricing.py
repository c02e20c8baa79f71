"""Which rate applies, and what it makes of unit-seconds. Input: rates and usage; output: exact and rounded amounts.

Pure. Invariants
- Of the rates whose flavor and cluster match, the most specific key wins: cluster and flavor, then flavor, then
  cluster, then neither; within a key the one that started last. A rate ends where the next of its key starts.
- No rate is "unpriced" (None), never a price of 0. A rate of 0 is a price.
- Amounts keep full precision until the end and are rounded once per currency; the rounded rows add up to the
  rounded total (apps.core.money.round_parts).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, localcontext

from apps.core.money import EXACT, round_money, round_parts

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class RateLine:
    """The price of one unit-hour. `cluster_id` None and `flavor` "" mean any."""

    id: int
    cluster_id: int | None
    flavor: str
    resource: str
    currency: str
    price_per_hour: Decimal
    valid_from: datetime


@dataclass(frozen=True, slots=True)
class Priced:
    """One piece of usage with its rate (None: unpriced)."""

    unit_seconds: Decimal
    rate: RateLine | None


@dataclass(frozen=True, slots=True)
class Charge:
    """`exact` is the unrounded amount, `amount` the row's share of the rounded total; both None when unpriced."""

    currency: str
    exact: Decimal | None
    amount: Decimal | None


class RateCard:
    """Rates by key, each key's rates in order of their start."""

    def __init__(self, rates: Iterable[RateLine]) -> None:
        self._by_key: defaultdict[tuple[int | None, str, str], list[RateLine]] = defaultdict(list)
        for rate in sorted(rates, key=lambda rate: (rate.valid_from, rate.id)):
            self._by_key[rate.cluster_id, rate.flavor, rate.resource].append(rate)

    def rate_at(self, *, cluster_id: int, flavor: str, resource: str, at: datetime) -> RateLine | None:
        """The rate in force at `at` for this usage, None when there is none."""
        for key in _keys(cluster_id, flavor, resource):
            started = [rate for rate in self._by_key.get(key, ()) if rate.valid_from <= at]
            if started:
                return started[-1]
        return None

    def changes(self, start: datetime, end: datetime) -> list[datetime]:
        """The instants inside (start, end) at which some rate starts."""
        starts = {rate.valid_from for rates in self._by_key.values() for rate in rates}
        return sorted(at for at in starts if start < at < end)


def _keys(cluster_id: int, flavor: str, resource: str) -> list[tuple[int | None, str, str]]:
    return [
        (cluster_id, flavor, resource),
        (None, flavor, resource),
        (cluster_id, "", resource),
        (None, "", resource),
    ]


def exact_amount(unit_seconds: Decimal, price_per_hour: Decimal) -> Decimal:
    """Unrounded: 80 digits, so that only the division by 3600 can fall short, far below any minor unit."""
    with localcontext(EXACT):
        return unit_seconds * price_per_hour / SECONDS_PER_HOUR


def charge(pieces: Sequence[Priced]) -> tuple[list[Charge], Mapping[str, Decimal]]:
    """One charge per piece, in their order, and the totals per currency, each rounded once."""
    charges = [Charge("", None, None)] * len(pieces)
    by_currency: defaultdict[str, list[int]] = defaultdict(list)
    for index, piece in enumerate(pieces):
        if piece.rate is not None:
            by_currency[piece.rate.currency].append(index)
    totals: dict[str, Decimal] = {}
    for currency, indexes in sorted(by_currency.items()):
        products = [_product(pieces[index]) for index in indexes]
        with localcontext(EXACT):
            exact = [product / SECONDS_PER_HOUR for product in products]
            totals[currency] = round_money(sum(products, Decimal(0)) / SECONDS_PER_HOUR, currency)
        rounded = round_parts(exact, currency)
        for index, unrounded, amount in zip(indexes, exact, rounded, strict=True):
            charges[index] = Charge(currency, unrounded, amount)
    return charges, totals


def _product(piece: Priced) -> Decimal:
    with localcontext(EXACT):
        return piece.unit_seconds * piece.rate.price_per_hour if piece.rate is not None else Decimal(0)
