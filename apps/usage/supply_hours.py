"""What one kind of unit on one node was during a stretch. Input: what the node offered, what pods held there, when nobody
looked; output: unit-seconds by `Bucket` name.

Pure: the definition that the rollup's SQL is tested against. Invariants, exact
- Everything that is known to be there lies in one place: out of use (by the waterfall's buckets) + held + idle +
  unobserved = physical × time.
- Everything that pods hold lies in one place: held + held_out_of_use + held_unobserved = what they hold × time. So what
  pods hold, less the last two, + idle = allocatable × time.
- Time in which pods or nodes could not be seen, or before a node was first noted, is unobserved on both sides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import pairwise

from apps.usage.allocation import Stretch
from apps.usage.spans import Held, seconds_between

HELD, IDLE, UNOBSERVED = "held", "idle", "unobserved"
OUT_OF_USE, HELD_UNOBSERVED = "held_out_of_use", "held_unobserved"
NOT_SUPPLY = (OUT_OF_USE, HELD_UNOBSERVED)
"""Held by pods, and no part of what can be allocated: on units that are out of use, more than the node has, unobserved."""


@dataclass(frozen=True, slots=True)
class Offer:
    """From `at` on until the next: `physical` units, of which `out_of_use` by bucket cannot be allocated."""

    at: datetime
    physical: Decimal
    out_of_use: Mapping[str, Decimal]

    @property
    def usable(self) -> Decimal:
        return self.physical - sum(self.out_of_use.values(), Decimal(0))


def supply_seconds(
    offers: Sequence[Offer],
    taken: Sequence[Held],
    unseen: Sequence[Stretch],
    start: datetime,
    end: datetime,
) -> dict[str, Decimal]:
    """Of [start, end). `offers` in order; `unseen` apart from each other. What is zero is absent."""
    inside = {edge for edge in _edges(offers, taken, unseen) if start < edge < end}
    sums: defaultdict[str, Decimal] = defaultdict(Decimal)
    for low, high in pairwise(sorted({start, *inside, end})):
        offer = next((one for one in reversed(offers) if one.at <= low), None)
        held = sum((one.quantity for one in taken if one.start <= low < one.end), Decimal(0))
        hidden = any(gap.start <= low < gap.end for gap in unseen)
        for bucket, units in _now(offer, held, hidden).items():
            sums[bucket] += units * seconds_between(low, high)
    return {bucket: amount for bucket, amount in sums.items() if amount}


def _now(offer: Offer | None, held: Decimal, hidden: bool) -> Mapping[str, Decimal]:
    if offer is None:
        return {HELD_UNOBSERVED: held}
    if hidden:
        return {HELD_UNOBSERVED: held, UNOBSERVED: offer.physical}
    within = min(offer.usable, held)
    return {**offer.out_of_use, HELD: within, IDLE: offer.usable - within, OUT_OF_USE: held - within}


def _edges(offers: Iterable[Offer], taken: Iterable[Held], unseen: Iterable[Stretch]) -> Iterable[datetime]:
    yield from (one.at for one in offers)
    for one in taken:
        yield from (one.start, one.end)
    for gap in unseen:
        yield from (gap.start, gap.end)


def merged(stretches: Iterable[Stretch], start: datetime, end: datetime) -> list[Stretch]:
    """What they cover of [start, end), in order and apart from each other."""
    found: list[Stretch] = []
    for one in sorted(stretches, key=lambda one: one.start):
        low, high = max(one.start, start), min(one.end, end)
        if low >= high:
            continue
        if found and low <= found[-1].end:
            found[-1] = Stretch(found[-1].start, max(found[-1].end, high))
        else:
            found.append(Stretch(low, high))
    return found


def between(stretches: Sequence[Stretch], start: datetime, end: datetime) -> list[Stretch]:
    """What merged stretches leave of [start, end)."""
    edges = [start, *(edge for one in stretches for edge in (one.start, one.end)), end]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return [Stretch(low, high) for low, high in pairs if low < high]
