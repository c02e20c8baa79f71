"""What waiting work lacks in its queue. Input: its pod sets' totals and what the queue's flavors offer, in the order
in which they are tried; output: one `Lack` per resource that is short. Pure.

Invariants
- A pod set goes to one flavor for all resources that share their flavors (a flavor lies in one resource group); the next
  pod set finds what it left. Of flavors that could ever hold it, the one counts that lacks the smallest part of what
  is asked (the first of equals); one that could never hold it is no way out, however much is free in it.
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
        groups: dict[tuple[str, ...], dict[str, Decimal]] = {}
        for resource, amount in asked.items():
            found = sums.setdefault(resource, _Sum())
            found.asked += amount
            choices = offers.get(resource, ())
            if amount > 0 and choices:
                groups.setdefault(tuple(offer.flavor for offer in choices), {})[resource] = amount
            elif amount > 0 and every_resource_needs_quota:
                found.missing += amount
                found.offered = False
        for flavors, wanted in groups.items():
            _lay(flavors, wanted, offers, taken, sums)
    return tuple(
        Lack(resource, found.asked, found.missing, found.flavor, found.beyond, found.offered)
        for resource, found in sorted(sums.items())
        if found.missing or found.beyond is not None
    )


def _lay(
    flavors: Sequence[str],
    wanted: Mapping[str, Decimal],
    offers: Mapping[str, Sequence[Offer]],
    taken: dict[tuple[str, str], Decimal],
    sums: Mapping[str, _Sum],
) -> None:
    """Put what one pod set asks of one group into the flavor that lacks least, and note what is short there."""
    places = {
        flavor: {resource: offers[resource][index] for resource in wanted}
        for index, flavor in enumerate(flavors)
    }

    def held(resource: str, flavor: str) -> Decimal:
        return taken.get((resource, flavor), ZERO)

    def part(flavor: str, limit: str) -> Decimal:
        """How much of what is asked is over a limit, at its worst resource; 0 when nothing is."""
        return max(
            _short(amount + held(resource, flavor), getattr(places[flavor][resource], limit)) / amount
            for resource, amount in wanted.items()
        )

    reachable = [flavor for flavor in flavors if not part(flavor, "ceiling")]
    best = min(reachable or flavors, key=lambda flavor: part(flavor, "available"))
    highest = best if reachable else min(flavors, key=lambda flavor: part(flavor, "ceiling"))
    for resource, amount in wanted.items():
        found, offer = sums[resource], places[best][resource]
        before = held(resource, best)
        # What an earlier pod set is short of is not short a second time.
        missing = _short(amount + before, offer.available) - _short(before, offer.available)
        if missing and not found.missing:
            found.flavor = best
        found.missing += missing
        if not reachable:
            ceiling, earlier = places[highest][resource].ceiling, held(resource, highest)
            above = _short(amount + earlier, ceiling) - _short(earlier, ceiling)
            if above:
                found.beyond = (found.beyond or ZERO) + above
        taken[resource, best] = before + amount


def _short(wanted: Decimal, limit: Decimal | None) -> Decimal:
    return ZERO if limit is None or not wanted else max(ZERO, wanted - limit)
