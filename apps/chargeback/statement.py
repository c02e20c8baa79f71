"""A team's statement of a period. Input: exact amounts of what it held; output: lines rounded once, and their total.

Pure. Invariants: each line is rounded once, to whole minor units, at most one unit from its exact value, so that the
lines of a currency add up to the rounded sum of the exact amounts; what has no price is a line without an amount."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Generic, TypeVar

from apps.core.money import round_parts

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Line(Generic[Key]):
    """`amount` None: unpriced (`currency` "")."""

    key: Key
    currency: str
    exact: Fraction | None
    amount: Decimal | None


def lines(parts: Iterable[tuple[Key, str, Fraction | None]]) -> tuple[list[Line[Key]], Mapping[str, Decimal]]:
    """(key, currency, exact amount) → lines in their order, and the total per currency."""
    given = list(parts)
    amounts: dict[int, Decimal] = {}
    totals: dict[str, Decimal] = {}
    by_currency: defaultdict[str, list[int]] = defaultdict(list)
    for place, (_key, currency, exact) in enumerate(given):
        if exact is not None:
            by_currency[currency].append(place)
    for currency, places in sorted(by_currency.items()):
        rounded = round_parts([given[place][2] or Fraction(0) for place in places], currency)
        amounts |= dict(zip(places, rounded, strict=True))
        totals[currency] = sum(rounded, Decimal(0))
    found = [
        Line(key, "" if exact is None else currency, exact, amounts.get(place))
        for place, (key, currency, exact) in enumerate(given)
    ]
    return found, totals
