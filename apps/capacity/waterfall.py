"""From physical to allocatable: every card of every node in exactly one bucket. Pure.

Input: a node's groups (fleet.inventory) and its verdict (health.py); output: per group whole cards by bucket, units
by bucket, and how the usable units are taken. Invariants, for cards and for units of each resource:
- Σ buckets + allocatable = physical, nothing negative;
- the first bucket that applies counts: cards that are lost, then the node as a whole not ready, then its plugin
  down (with the cards last known), then single unhealthy cards, then the node's other states, then the platform's
  reserve; a plugin that is down for too long (`lapsed`) has lost its cards;
- a card of which some units are unhealthy counts as unhealthy (⌈units / units per card⌉), since one failed
  replica of a shared card is the card's failure; its other units are still offered and count as units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction

from apps.capacity.health import Bucket, Verdict
from apps.fleet.inventory import Group, Unit

ZERO = Decimal(0)
# Buckets that come before single unhealthy cards: they take the whole node, healthy or not.
_BEFORE_UNHEALTHY = frozenset((Bucket.LOST, Bucket.NODE_NOT_READY, Bucket.PLUGIN_DOWN))


@dataclass(frozen=True, slots=True)
class UnitFall:
    """One resource's units by bucket; `physical` includes the units of lost cards."""

    unit: Unit
    physical: Decimal
    buckets: Mapping[Bucket, Decimal]
    allocatable: Decimal


@dataclass(frozen=True, slots=True)
class Fall:
    """One group's waterfall. `evidence`: per bucket, why."""

    group: Group
    buckets: Mapping[Bucket, int]
    allocatable: int
    units: tuple[UnitFall, ...]
    evidence: Mapping[Bucket, str] = field(default_factory=dict)

    @property
    def physical(self) -> int:
        return self.group.cards


def fall(group: Group, verdict: Verdict, *, lapsed: bool = False) -> Fall:
    """Lay one group's cards and units into buckets. `lapsed`: a plugin that is down has been so for too long."""
    whole = _whole_bucket(group, verdict, lapsed)
    buckets: dict[Bucket, int] = {}
    evidence: dict[Bucket, str] = {}
    left = group.cards

    def take(bucket: Bucket, cards: int, why: str) -> None:
        nonlocal left
        taken = max(0, min(cards, left))
        if taken:
            buckets[bucket] = buckets.get(bucket, 0) + taken
            evidence.setdefault(bucket, why)
            left -= taken

    take(Bucket.LOST, group.lost, f"{group.cards} known, {group.cards - group.lost} offered")
    why = verdict.evidence if whole == verdict.bucket else _group_text(group, lapsed)
    if whole in _BEFORE_UNHEALTHY:
        take(whole, left, why)
    take(Bucket.DEVICE_UNHEALTHY, unhealthy_cards(group), _unhealthy_text(group))
    if whole is not None:
        take(whole, left, why)
    return Fall(group, buckets, left, tuple(_fall_unit(group, unit, whole) for unit in group.units), evidence)


def _whole_bucket(group: Group, verdict: Verdict, lapsed: bool) -> Bucket | None:
    if group.plugin_down and verdict.bucket is not Bucket.NODE_NOT_READY:
        return Bucket.LOST if lapsed else Bucket.PLUGIN_DOWN
    if verdict.bucket is not None:
        return verdict.bucket
    return Bucket.UNINITIALISED if group.uninitialised else None


def _group_text(group: Group, lapsed: bool) -> str:
    if lapsed and group.plugin_down:
        return "the device plugin has offered nothing for too long"
    return "no valid MIG geometry" if group.uninitialised else "the device plugin offers nothing"


def unhealthy_cards(group: Group) -> int:
    """Cards with at least one unit that the plugin counts but does not offer."""
    if group.plugin_down:
        return 0
    if group.unhealthy_cards is not None:
        return group.unhealthy_cards
    if len(group.units) == 1 and (per_card := group.units_per_card):
        return math.ceil(Fraction(group.units[0].missing) / per_card)
    return math.ceil(sum((unit.equivalents * Fraction(unit.missing) for unit in group.units), Fraction(0)))


def _unhealthy_text(group: Group) -> str:
    parts = [
        f"{unit.resource}: {format(unit.allocatable.normalize(), 'f')} of {format(unit.capacity.normalize(), 'f')}"
        for unit in group.units
        if unit.missing
    ]
    return ", ".join(parts) or "the register says unhealthy"


def _fall_unit(group: Group, unit: Unit, whole: Bucket | None) -> UnitFall:
    present = group.cards - group.lost
    lost = ZERO
    if group.lost and present and len(group.units) == 1:
        lost = Decimal(math.floor(Fraction(unit.capacity) / present * group.lost))
    physical = unit.capacity + lost
    buckets: dict[Bucket, Decimal] = {Bucket.LOST: lost}
    missing = ZERO if whole in _BEFORE_UNHEALTHY else unit.missing
    buckets[Bucket.DEVICE_UNHEALTHY] = missing
    rest = unit.capacity - missing
    if whole is not None:
        buckets[whole] = buckets.get(whole, ZERO) + rest
        rest = ZERO
    return UnitFall(unit, physical, {bucket: amount for bucket, amount in buckets.items() if amount}, rest)


# ---- the platform's reserve -----------------------------------------------------------------------------------


def keep_back(item: Fall, cards: int, why: str) -> Fall:
    """Move `cards` of a group's usable cards (no more than there are) into the reserve, with their units."""
    cards = min(cards, item.allocatable)
    if cards <= 0:
        return item
    buckets = dict(item.buckets)
    buckets[Bucket.PLATFORM_RESERVE] = buckets.get(Bucket.PLATFORM_RESERVE, 0) + cards
    units = []
    for found in item.units:
        share = Fraction(found.allocatable) * cards / item.allocatable
        amount = found.allocatable if cards == item.allocatable else Decimal(math.floor(share))
        taken = dict(found.buckets)
        taken[Bucket.PLATFORM_RESERVE] = taken.get(Bucket.PLATFORM_RESERVE, ZERO) + amount
        units.append(replace(found, buckets=taken, allocatable=found.allocatable - amount))
    evidence = {**item.evidence, Bucket.PLATFORM_RESERVE: why}
    return replace(
        item, buckets=buckets, allocatable=item.allocatable - cards, units=tuple(units), evidence=evidence
    )


# ---- held, free, stranded -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Share:
    """How one resource's usable units of a group are taken: held + free + stranded = usable. `over`: what pods hold
    beyond it, on units that are out of use."""

    held: Decimal
    free: Decimal
    stranded: Decimal
    over: Decimal


def shares(
    falls: Sequence[Fall],
    held: Mapping[str, Decimal],
    *,
    stranded: bool,
    claimed: Sequence[Mapping[str, Decimal]] = (),
) -> tuple[tuple[Share, ...], ...]:
    """Per group and unit. A pod's request names a resource, not a card: where several groups of a node offer the
    same resource, the first ones are held first; what is beyond all of them is laid on the first. `claimed`: beside
    each group what claims hold of just its units."""
    left, own = dict(held), list(claimed) or [{}] * len(falls)
    rows: list[list[tuple[Decimal, Decimal]]] = []
    for item, claims in zip(falls, own, strict=True):
        row = []
        for found in item.units:
            name, usable = found.unit.resource, found.allocatable
            by_claims = claims.get(name, ZERO)
            by_name = min(left.get(name, ZERO), max(ZERO, usable - by_claims))
            if by_name:
                left[name] -= by_name
            row.append((min(usable, by_claims + by_name), max(ZERO, by_claims - usable)))
        rows.append(row)
    result = []
    for item, row in zip(falls, rows, strict=True):
        made = []
        for found, (amount, over) in zip(item.units, row, strict=True):
            rest = found.allocatable - amount
            beyond = over + left.pop(found.unit.resource, ZERO)
            made.append(Share(amount, ZERO if stranded else rest, rest if stranded else ZERO, beyond))
        result.append(tuple(made))
    return tuple(result)
