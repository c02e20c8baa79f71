"""What is beyond what there is. Input: those who hold of one group (a queue's nominal quota, a node's cards) and the group's
limits; output: whose surplus it is, and when.

Pure. Invariant: at every instant what is beyond is the surplus, taken from those who came last; a limit that is not known is
none."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Limit:
    """`units` from `at` on until the next limit of the same group; None: no limit is known."""

    at: datetime
    units: Decimal | None


@dataclass(frozen=True, slots=True)
class Member:
    """One that holds `quantity` of what its group shares; `order`: whoever is first has what there is."""

    order: tuple[datetime, str, str, datetime]
    n: int
    start: datetime
    end: datetime
    quantity: Decimal


@dataclass(frozen=True, slots=True)
class Beyond:
    """`quantity` of member `n` is beyond the limit during [start, end)."""

    n: int
    start: datetime
    end: datetime
    quantity: Decimal


def beyond(members: Iterable[Member], limits: Sequence[Limit]) -> list[Beyond]:
    """What of a group's members is beyond its limit: at every instant that of those who came last. In order of its start
    for each member; what is alike and follows each other is one. Time: n log n, and what is beyond."""
    starts: defaultdict[datetime, list[Member]] = defaultdict(list)
    ends: defaultdict[datetime, list[Member]] = defaultdict(list)
    for one in members:
        starts[one.start].append(one)
        ends[one.end].append(one)
    steps = {limit.at: limit.units for limit in limits}
    active: list[tuple[tuple[datetime, str, str, datetime], int, Decimal]] = []
    found: list[Beyond] = []
    since: dict[int, tuple[datetime, Decimal]] = {}
    total, units = ZERO, None
    for at in sorted(starts.keys() | ends.keys() | steps.keys()):
        for one in ends.get(at, ()):
            active.pop(bisect_left(active, (one.order, one.n, one.quantity)))
            total -= one.quantity
        for one in starts.get(at, ()):
            insort(active, (one.order, one.n, one.quantity))
            total += one.quantity
        units = steps.get(at, units)
        now = _last(active, total - units) if units is not None and total > units else {}
        for n, (start, quantity) in list(since.items()):
            if now.get(n) != quantity:
                found.append(Beyond(n, start, at, quantity))
                del since[n]
        for n, quantity in now.items():
            since.setdefault(n, (at, quantity))
    return sorted(found, key=lambda one: (one.start, one.n))


def _last(
    active: Sequence[tuple[tuple[datetime, str, str, datetime], int, Decimal]], surplus: Decimal
) -> dict[int, Decimal]:
    """The surplus, taken from those who came last."""
    taken: dict[int, Decimal] = {}
    for _order, n, quantity in reversed(active):
        if surplus <= 0:
            break
        taken[n] = min(quantity, surplus)
        surplus -= taken[n]
    return taken
