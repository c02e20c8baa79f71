"""What held time costs. Input: published versions of a rate card and use; output: exact amounts, as fractions.

Pure. Invariants
- A version holds from its start until the next one's; it is never edited, so that what it made of use stays true.
- Of the prices that fit, the closest wins: the cluster's own before its group's before any cluster's, then model with mode
  and profile, model with mode, model alone.
- What has no price is unpriced (None), never 0; a price of 0 is a price. A price per whole card needs to be told how
  much of a card a unit is; where nobody knows, there is no price.
- Nothing is rounded here: amounts are fractions until a statement rounds each line once (`apps.core.money`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import cached_property

SECONDS_PER_HOUR = 3600
ONE = Decimal(1)


class Per(StrEnum):
    """What a price is of: one unit of the resource (a card, a MIG device, a slice), or one whole card's worth."""

    UNIT = "unit"
    CARD = "card"


Where = int | str
"""A cluster's id, the name of a group of clusters, "" for any cluster."""
Key = tuple[str, Where, str, str, str]
"""Basis, where, model, sharing mode, profile."""


@dataclass(frozen=True, slots=True)
class Price:
    """`amount` for one hour of `per`. `cluster_id` None: of the clusters of `group`, or, that being "", of any;
    `sharing_mode`, `profile` "": any."""

    id: int
    basis: str
    model: str
    amount: Decimal
    per: Per = Per.UNIT
    cluster_id: int | None = None
    sharing_mode: str = ""
    profile: str = ""
    group: str = ""

    @property
    def key(self) -> Key:
        return self.basis, self.cluster_id or self.group, self.model, self.sharing_mode, self.profile


@dataclass(frozen=True, slots=True)
class Use:
    """What is priced. `equivalents`: whole cards per unit, None where not known. `borrowed`: beyond the queue's own
    quota."""

    basis: str
    cluster_id: int
    model: str
    sharing_mode: str
    profile: str
    equivalents: Fraction | None
    priority_class: str = ""
    borrowed: bool = False


@dataclass(frozen=True, slots=True)
class Applied:
    """A price with what it is multiplied by: `factor` for borrowed or prioritised use, `weight` cards per unit."""

    version_id: int
    currency: str
    price: Price
    factor: Decimal
    weight: Fraction

    def amount(self, unit_seconds: Decimal) -> Fraction:
        each = Fraction(self.price.amount) * Fraction(self.factor) * self.weight
        return Fraction(unit_seconds) * each / SECONDS_PER_HOUR


@dataclass(frozen=True)
class Version:
    """A published rate card. `borrowed_factor` and `priority_factors` (by priority class) multiply each other. `idle`: the
    policy by which idle capacity is shared out, where it has a price. `groups`: by cluster, the group it is in."""

    id: int
    valid_from: datetime
    currency: str
    prices: tuple[Price, ...]
    borrowed_factor: Decimal = ONE
    priority_factors: Mapping[str, Decimal] = field(default_factory=dict)
    idle: str = "platform"
    groups: Mapping[int, str] = field(default_factory=dict)

    @cached_property
    def bases(self) -> frozenset[str]:
        """Those of which it has a price."""
        return frozenset(price.basis for price in self.prices)

    @cached_property
    def _by_key(self) -> dict[Key, Price]:
        return {price.key: price for price in self.prices}

    def applied_to(self, use: Use) -> Applied | None:
        """None: unpriced."""
        if not use.model:
            return None
        for key in self._keys(use):
            price = self._by_key.get(key)
            if price is not None:
                weight = Fraction(1) if price.per is Per.UNIT else use.equivalents
                if weight is None:
                    return None
                return Applied(self.id, self.currency, price, self._factor(use), weight)
        return None

    def _factor(self, use: Use) -> Decimal:
        borrowed = self.borrowed_factor if use.borrowed else ONE
        return borrowed * self.priority_factors.get(use.priority_class, ONE)

    def _keys(self, use: Use) -> Iterator[Key]:
        """Of prices that fit, the closest first."""
        group = self.groups.get(use.cluster_id, "")
        places: tuple[Where, ...] = (use.cluster_id, group, "") if group else (use.cluster_id, "")
        for where in places:
            yield use.basis, where, use.model, use.sharing_mode, use.profile
            if use.profile:
                yield use.basis, where, use.model, use.sharing_mode, ""
            if use.sharing_mode:
                yield use.basis, where, use.model, "", ""


class Tariff:
    """Published versions in the order of their start."""

    def __init__(self, versions: Iterable[Version]) -> None:
        self._versions = sorted(versions, key=lambda version: (version.valid_from, version.id))
        self._starts = [version.valid_from for version in self._versions]

    def at(self, instant: datetime) -> Version | None:
        """The version in force, None before the first."""
        place = bisect_right(self._starts, instant)
        return self._versions[place - 1] if place else None

    def changes(self, start: datetime, end: datetime) -> list[datetime]:
        """When inside (start, end) another version takes over, in order."""
        return sorted({at for at in self._starts if start < at < end})
