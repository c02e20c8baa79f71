"""What waiting work lacks in its queue. Input: its pod sets' totals and what the queue's flavors offer, in the order
in which they are tried; output: one `Lack` per resource that is short. Pure.

Invariants
- A pod set goes to one flavor; the next one finds what it left. Of flavors that could ever hold it, the one that
  lacks least counts (the first of equals); one that could never hold it is no way out, however much is free in it.
- `missing` is what must come free before it fits; it grows while the queue is over-used (`available` below 0).
- `beyond`: by how much the work exceeds the highest ceiling, None where it could fit one day.
- A resource that the queue does not offer at all has `offered` False, and all of it is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Offer:
    """One flavor of a resource. None is no limit; of an `available` of a queue that admits nothing see its state."""

    flavor: str
    available: Decimal | None
    ceiling: Decimal | None


@dataclass(frozen=True, slots=True)
class Lack:
    """One resource that is short: asked in all, missing now in `flavor`, and beyond every ceiling."""

    resource: str
    asked: Decimal
    missing: Decimal
    flavor: str = ""
    beyond: Decimal | None = None
    offered: bool = True


@dataclass(slots=True)
class _Sum:
    asked: Decimal = ZERO
    missing: Decimal = ZERO
    flavor: str = ""
    beyond: Decimal | None = None
    offered: bool = True


def lacking(
    pod_sets: Sequence[Mapping[str, Decimal]],
    offers: Mapping[str, Sequence[Offer]],
    *,
    every_resource_needs_quota: bool = True,
) -> tuple[Lack, ...]:
    """By resource; () when all of it fits now. `every_resource_needs_quota` False (Volcano): a resource without a
    limit is not short."""
    sums: dict[str, _Sum] = {}
    taken: dict[tuple[str, str], Decimal] = {}
    for asked in pod_sets:
        for resource, amount in asked.items():
            found = sums.setdefault(resource, _Sum())
            found.asked += amount
            if amount <= 0:
                continue
            choices = offers.get(resource, ())
            if choices:
                _lay(resource, amount, choices, taken, found)
            elif every_resource_needs_quota:
                found.missing += amount
                found.offered = False
    return tuple(
        Lack(resource, found.asked, found.missing, found.flavor, found.beyond, found.offered)
        for resource, found in sorted(sums.items())
        if found.missing or found.beyond is not None
    )


def _lay(
    resource: str,
    amount: Decimal,
    choices: Sequence[Offer],
    taken: dict[tuple[str, str], Decimal],
    found: _Sum,
) -> None:
    """Put one pod set's total into the flavor that lacks least, and note what is short there."""

    def short(offer: Offer) -> Decimal:
        return _short(amount + taken.get((resource, offer.flavor), ZERO), offer.available)

    def above(offer: Offer) -> Decimal:
        return _short(amount + taken.get((resource, offer.flavor), ZERO), offer.ceiling)

    reachable = [offer for offer in choices if not above(offer)]
    best = min(reachable or choices, key=short)
    missing = short(best)
    if not reachable:
        found.beyond = (found.beyond or ZERO) + min(above(offer) for offer in choices)
    if missing and not found.missing:
        found.flavor = best.flavor
    # What an earlier pod set is short of is not short a second time.
    already = _short(taken.get((resource, best.flavor), ZERO), best.available)
    found.missing += missing - already
    taken[resource, best.flavor] = taken.get((resource, best.flavor), ZERO) + amount


def _short(wanted: Decimal, limit: Decimal | None) -> Decimal:
    return ZERO if limit is None or not wanted else max(ZERO, wanted - limit)
