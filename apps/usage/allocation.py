"""Who held which devices when. Input: spells of holding, owners, what units are, what could not be seen; output: `Interval`s.

Pure. Invariants
- The result says only what the spells say: their order, repeats of them, and cutting one in two anywhere change nothing.
- Everything is half-open and keyed by UID: work that takes over an old name is other work.
- Inside a stretch in which the cluster could not be seen, what the same object held both before and after counts
  (`BRIDGED`, the smaller of the two); the rest is `LEFT_OUT`: reported, never charged.
- Of pods that together ask for more than their node has, the later ones' surplus is `BEYOND`: flagged, never charged.
- What nobody knows the unit of has no model and no GPU-equivalents (None), never zero.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from typing import TypeVar

from apps.usage.limits import Beyond, Limit, Member, beyond
from apps.usage.spans import seconds_between

ZERO = Decimal(0)


class Basis(StrEnum):
    """`RESERVED`: quota reserved … released. `POD`: pod bound … terminal. `NOMINAL`: promised to a queue, used or not."""

    RESERVED = "reserved"
    POD = "pod"
    NOMINAL = "nominal"


class Seen(StrEnum):
    """How sure an interval is."""

    OBSERVED = "observed"
    BRIDGED = "bridged"
    LEFT_OUT = "left_out"
    BEYOND = "beyond"

    @property
    def counts(self) -> bool:
        """Whether it is held as far as money is concerned."""
        return self in (Seen.OBSERVED, Seen.BRIDGED)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """What an owner is told by. `kind`: "Workload" (Kueue) or "PodGroup" (Volcano); `queue`: ClusterQueue or Volcano
    queue."""

    cluster_id: int
    kind: str
    namespace: str
    queue_name: str
    queue: str


@dataclass(frozen=True, slots=True)
class Spell:
    """One object was observed to hold `quantity` units of `resource` during [start, end). `on`: the flavor of reserved
    or nominal quota, the node of a pod. `since`: when the object was first seen, the same for all of its spells: who came first
    has what there is. `watched`: the kind of object that has to be seen for it, "" the pod or the work itself."""

    basis: Basis
    uid: str
    place: Place
    on: str
    resource: str
    quantity: Decimal
    start: datetime
    end: datetime
    since: datetime
    priority_class: str = ""
    watched: str = ""


@dataclass(frozen=True, slots=True)
class Stretch:
    """[start, end)."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Owned:
    """`team_id` None: nobody's."""

    team_id: int | None
    cost_centre: str
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Unit:
    """What one unit is. `equivalents`: whole cards per unit; None: not known."""

    model: str = ""
    sharing_mode: str = ""
    profile: str = ""
    equivalents: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Interval:
    """`quantity` units held during [start, end). `borrowed`: beyond the queue's own quota."""

    basis: Basis
    uid: str
    place: Place
    on: str
    resource: str
    quantity: Decimal
    start: datetime
    end: datetime
    since: datetime
    priority_class: str
    seen: Seen = Seen.OBSERVED
    borrowed: bool = False
    team_id: int | None = None
    cost_centre: str = ""
    unit: Unit = Unit()
    watched: str = ""

    @property
    def unit_seconds(self) -> Decimal:
        return seconds_between(self.start, self.end) * self.quantity

    @property
    def gpu_equivalents(self) -> Fraction | None:
        """Whole cards that are held; None: not known."""
        each = self.unit.equivalents
        return None if each is None else Fraction(self.quantity) * each


Part = TypeVar("Part", Stretch, Owned)
Group = tuple[int, str, str, str]
"""Nominal quota: (cluster, queue, flavor, resource); a node's cards: (cluster, "", node, resource)."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What spells are judged by. `gaps`: when the objects of a kind ("Workload", "PodGroup", "Pod", "ResourceClaim") could
    not be seen; `owners`: gapless; `units`: by (basis, cluster, flavor or node, resource); `nominal`, `node_units`: in order."""

    owners: Mapping[Place, Sequence[Owned]]
    units: Mapping[tuple[Basis, int, str, str], Unit]
    gaps: Mapping[str, Sequence[Stretch]]
    nominal: Mapping[Group, Sequence[Limit]]
    node_units: Mapping[Group, Sequence[Limit]]


def intervals(spells: Iterable[Spell], around: Surroundings) -> list[Interval]:
    """In the order of their start; nothing in it could be joined."""
    found = list(_seen(_held(spells), around.gaps))
    found = _beyond(found, around.nominal, _quota_group, lambda item: replace(item, borrowed=True))
    found = _beyond(found, around.node_units, _node_group, lambda item: replace(item, seen=Seen.BEYOND))
    owned = (part for item in found for part in _by_owner(item, around.owners.get(item.place, ())))
    known = (replace(item, unit=_unit(item, around.units)) for item in owned)
    return _joined(known)


def clip(items: Iterable[Interval], start: datetime, end: datetime) -> list[Interval]:
    """What of them lies in [start, end)."""
    cut = (replace(item, start=max(item.start, start), end=min(item.end, end)) for item in items)
    return [item for item in cut if item.start < item.end]


def gaps_between(pulls: Iterable[datetime], *, longest: float) -> list[Stretch]:
    """Between two good pulls more than `longest` seconds apart nobody looked."""
    times = sorted(set(pulls))
    return [Stretch(low, high) for low, high in pairwise(times) if (high - low).total_seconds() > longest]


def _held(spells: Iterable[Spell]) -> list[Interval]:
    """One step function per thing that an object holds: repeats and overlaps of it count once, the largest."""
    groups: defaultdict[tuple[object, ...], list[Spell]] = defaultdict(list)
    for spell in spells:
        if spell.start < spell.end and spell.quantity > 0:
            key = (spell.basis, spell.uid, spell.place, spell.on, spell.resource, spell.priority_class)
            groups[key].append(spell)
    found: list[Interval] = []
    for own in groups.values():
        since = min(spell.since for spell in own)
        edges = sorted({edge for spell in own for edge in (spell.start, spell.end)})
        for low, high in pairwise(edges):
            most = max((s.quantity for s in own if s.start <= low and s.end >= high), default=ZERO)
            if most:
                found.append(_interval(own[0], most, low, high, since))
    return _joined(found)


def _interval(spell: Spell, quantity: Decimal, start: datetime, end: datetime, since: datetime) -> Interval:
    return Interval(
        basis=spell.basis,
        uid=spell.uid,
        place=spell.place,
        on=spell.on,
        resource=spell.resource,
        quantity=quantity,
        start=start,
        end=end,
        since=since,
        priority_class=spell.priority_class,
        watched=spell.watched or ("Pod" if spell.basis is Basis.POD else spell.place.kind),
    )


def _seen(held: Sequence[Interval], gaps: Mapping[str, Sequence[Stretch]]) -> Iterator[Interval]:
    """Cut at the edges of what could not be seen, and judged inside of it."""
    by_object: defaultdict[tuple[object, ...], list[Interval]] = defaultdict(list)
    for item in held:
        by_object[(item.basis, item.uid, item.place, item.on, item.resource)].append(item)
    for own in by_object.values():
        for item in own:
            yield from _judged(item, own, gaps.get(item.watched, ()))


def _judged(item: Interval, own: Sequence[Interval], gaps: Sequence[Stretch]) -> Iterator[Interval]:
    for part, gap in _cut(item, gaps):
        if gap is None:
            yield part
            continue
        sure = min(part.quantity, _quantity_at(own, gap.start), _quantity_at(own, gap.end))
        if sure:
            yield replace(part, quantity=sure, seen=Seen.BRIDGED)
        if part.quantity > sure:
            yield replace(part, quantity=part.quantity - sure, seen=Seen.LEFT_OUT)


def _cut(item: Interval, stretches: Sequence[Part]) -> Iterator[tuple[Interval, Part | None]]:
    """The pieces of `item`, each with the stretch that it lies in. `stretches`: in order, apart from each other."""
    at = item.start
    for stretch in stretches:
        low, high = max(stretch.start, at), min(stretch.end, item.end)
        if low >= high:
            continue
        if at < low:
            yield replace(item, start=at, end=low), None
        yield replace(item, start=low, end=high), stretch
        at = high
    if at < item.end:
        yield replace(item, start=at), None


def _quantity_at(own: Sequence[Interval], at: datetime) -> Decimal:
    return sum((item.quantity for item in own if item.start <= at < item.end), ZERO)


def _quota_group(item: Interval) -> Group | None:
    place = item.place
    return (place.cluster_id, place.queue, item.on, item.resource) if item.basis is Basis.RESERVED else None


def _node_group(item: Interval) -> Group | None:
    return (item.place.cluster_id, "", item.on, item.resource) if item.basis is Basis.POD else None


def _beyond(
    items: Sequence[Interval],
    limits: Mapping[Group, Sequence[Limit]],
    group_of: Callable[[Interval], Group | None],
    mark: Callable[[Interval], Interval],
) -> list[Interval]:
    """What is beyond a limit is marked, partly where need be."""
    groups: defaultdict[Group, list[Interval]] = defaultdict(list)
    kept: list[Interval] = []
    for item in items:
        group = group_of(item)
        if group is None or group not in limits or not item.seen.counts:
            kept.append(item)
        else:
            groups[group].append(item)
    for group, members in groups.items():
        held = [
            Member(
                (item.since, item.uid, item.priority_class, item.start),
                n,
                item.start,
                item.end,
                item.quantity,
            )
            for n, item in enumerate(members)
        ]
        cuts: defaultdict[int, list[Beyond]] = defaultdict(list)
        for one in beyond(held, limits[group]):
            cuts[one.n].append(one)
        for n, item in enumerate(members):
            kept += _marked(item, cuts[n], mark)
    return kept


def _marked(
    item: Interval, cuts: Sequence[Beyond], mark: Callable[[Interval], Interval]
) -> Iterator[Interval]:
    at = item.start
    for cut in cuts:
        if at < cut.start:
            yield replace(item, start=at, end=cut.start)
        part = replace(item, start=cut.start, end=cut.end)
        if cut.quantity < item.quantity:
            yield replace(part, quantity=item.quantity - cut.quantity)
        yield mark(replace(part, quantity=cut.quantity))
        at = cut.end
    if at < item.end:
        yield replace(item, start=at)


def _by_owner(item: Interval, owners: Sequence[Owned]) -> Iterator[Interval]:
    for part, owned in _cut(item, owners):
        if owned is None:
            yield part
        else:
            yield replace(part, team_id=owned.team_id, cost_centre=owned.cost_centre)


def _unit(item: Interval, units: Mapping[tuple[Basis, int, str, str], Unit]) -> Unit:
    return units.get((item.basis, item.place.cluster_id, item.on, item.resource), Unit())


def _joined(items: Iterable[Interval]) -> list[Interval]:
    """Those that follow each other and differ in nothing else are one."""
    alike: defaultdict[Interval, list[Interval]] = defaultdict(list)
    for item in items:
        alike[replace(item, start=item.since, end=item.since)].append(item)
    found: list[Interval] = []
    for own in alike.values():
        own.sort(key=lambda item: item.start)
        run = own[0]
        for item in own[1:]:
            if item.start <= run.end:
                run = replace(run, end=max(run.end, item.end))
            else:
                found.append(run)
                run = item
        found.append(run)
    return sorted(found, key=_order)


def _order(item: Interval) -> tuple[object, ...]:
    return (
        *(item.start, item.uid, item.basis, item.place, item.on, item.resource, item.seen, item.borrowed),
        *(item.priority_class, item.team_id is None, item.team_id or 0, item.end, item.quantity),
    )
