"""Groups of nodes added up to pools and totals. Input: a fleet and what is promised on it; output: rows.

A pool's numbers are in its unit while all its units weigh the same, else in GPU-equivalents; sums are made of
exact fractions and rounded once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from apps.capacity.facts import Fleet, NodeState
from apps.capacity.health import BUCKETS, Bucket
from apps.capacity.promised import Promise, Promises, UnitKey
from apps.capacity.rows import PoolRow, Totals, UnitRow
from apps.capacity.waterfall import Fall, UnitFall
from apps.core.gpu import model_label, rounded, unit_of
from apps.fleet.models import Cluster

ZERO = Decimal(0)


@dataclass(slots=True)
class UnitSum:
    """One kind of unit over nodes. `held` and `free`: as far as pods were read, None where they never were."""

    physical: Decimal = ZERO
    allocatable: Decimal = ZERO
    held: Decimal | None = None
    free: Decimal | None = None
    buckets: dict[Bucket, Decimal] = field(default_factory=lambda: defaultdict(lambda: ZERO))
    memory_bytes: int | None = None

    def add(self, found: UnitFall, held: Decimal | None) -> None:
        self.physical += found.physical
        self.allocatable += found.allocatable
        if held is not None:
            self.held = (self.held or ZERO) + held
            self.free = (self.free or ZERO) + max(ZERO, found.allocatable - held)
        self.memory_bytes = found.unit.memory_bytes
        for bucket, amount in found.buckets.items():
            self.buckets[bucket] += amount


def unit_sums(members: Iterable[tuple[NodeState, Fall]]) -> dict[UnitKey, UnitSum]:
    """Units of some groups by kind. A pod's request names a resource, not a card: where two groups of a node
    offer the same resource, the first takes it."""
    sums: dict[UnitKey, UnitSum] = defaultdict(UnitSum)
    for node, item in members:
        for found in item.units:
            unit = found.unit
            sums[unit.resource, unit.profile, unit.equivalents].add(found, held_by(node, item, found))
    return sums


def held_by(node: NodeState, item: Fall, found: UnitFall) -> Decimal | None:
    """What pods hold of this group's resource on this node; None where pods were never read."""
    if node.held is None:
        return None
    offering = [
        other for other in node.falls for unit in other.units if unit.unit.resource == found.unit.resource
    ]
    return node.held.get(found.unit.resource, ZERO) if offering[0] is item else ZERO


def unit_rows(
    sums: dict[UnitKey, UnitSum],
    unit: str,
    promised: Mapping[UnitKey, Promise],
    reserved: Mapping[UnitKey, Decimal | None],
) -> tuple[UnitRow, ...]:
    rows = []
    for key in sorted(sums, key=lambda found: (found[1], found[0], found[2])):
        resource, profile, equivalents = key
        found, promise = sums[key], promised.get(key)
        rows.append(
            UnitRow(
                resource=resource,
                profile=profile,
                unit=unit,
                physical=found.physical,
                allocatable=found.allocatable,
                held_bound=found.held,
                held_reserved=reserved.get(key),
                free=found.free,
                nominal=promise.nominal if promise else None,
                ceiling=promise.ceiling if promise else None,
                equivalents=rounded(equivalents),
                memory_bytes=found.memory_bytes,
            )
        )
    return tuple(rows)


class Measure:
    """Adds amounts of several unit kinds: as they are while all weigh the same, else as GPU-equivalents."""

    def __init__(self, keys: Iterable[UnitKey], unit: str) -> None:
        self.mixed = len({key[2] for key in keys}) > 1
        self.unit = "gpu_equivalent" if self.mixed else unit

    def sum(self, amounts: Iterable[tuple[UnitKey, Decimal]]) -> Decimal:
        if not self.mixed:
            return sum((amount for _key, amount in amounts), ZERO)
        return rounded(sum((Fraction(amount) * key[2] for key, amount in amounts), Fraction(0)))

    def maybe(self, amounts: Iterable[tuple[UnitKey, Decimal | None]]) -> Decimal | None:
        said = [(key, amount) for key, amount in amounts if amount is not None]
        return self.sum(said) if said else None


def card_buckets(falls: Iterable[Fall]) -> dict[str, int]:
    """Cards by bucket in the waterfall's order, empty ones left out."""
    counts: Counter[Bucket] = Counter()
    for item in falls:
        counts.update(item.buckets)
    return {str(bucket): counts[bucket] for bucket in BUCKETS if counts[bucket]}


def unit_buckets(sums: dict[UnitKey, UnitSum], measure: Measure) -> dict[str, Decimal]:
    found = {
        str(bucket): measure.sum((key, item.buckets.get(bucket, ZERO)) for key, item in sums.items())
        for bucket in BUCKETS
    }
    return {bucket: amount for bucket, amount in found.items() if amount}


def pool_rows(fleet: Fleet, promised: Promises) -> list[PoolRow]:
    """Largest first within a cluster."""
    rows = []
    for key, members in fleet.pools.items():
        falls = [node.falls[index] for node, index in members]
        rows.append(_pool_row(fleet, key, [node for node, _index in members], falls, promised))
    order = {cluster_id: place for place, cluster_id in enumerate(fleet.clusters)}
    return sorted(
        rows, key=lambda row: (order[row.cluster.pk], -row.physical_devices, row.model, row.sharing_mode)
    )


def _pool_row(
    fleet: Fleet,
    key: tuple[int, str, str],
    nodes: Sequence[NodeState],
    falls: Sequence[Fall],
    promised: Promises,
) -> PoolRow:
    cluster_id, model, mode = key
    sums = unit_sums(zip(nodes, falls, strict=True))
    measure = Measure(sums, unit_of(mode))
    own = promised.of_pool(key)
    reserved = {unit: promised.reserved_of(key, unit) for unit in sums}

    def total(get: Callable[[UnitSum], Decimal]) -> Decimal:
        return measure.sum((unit, get(found)) for unit, found in sums.items())

    return PoolRow(
        cluster=fleet.clusters[cluster_id],
        vendor=falls[0].group.vendor,
        model=model,
        model_label=model_label(model),
        sharing_mode=mode,
        unit=measure.unit,
        physical_devices=sum(item.physical for item in falls),
        buckets=card_buckets(falls),
        allocatable_devices=sum(item.allocatable for item in falls),
        physical_units=total(lambda found: found.physical),
        unit_buckets=unit_buckets(sums, measure),
        allocatable=total(lambda found: found.allocatable),
        held_bound=measure.maybe((unit, found.held) for unit, found in sums.items()),
        held_reserved=measure.maybe(reserved.items()),
        reserved_known=cluster_id not in promised.unread,
        free=measure.maybe((unit, found.free) for unit, found in sums.items()),
        nominal=measure.maybe((unit, found.nominal) for unit, found in own.items()),
        ceiling=measure.maybe((unit, found.ceiling) for unit, found in own.items()),
        nodes=len({node.uid for node in nodes}),
        units=unit_rows(sums, unit_of(mode), own, reserved),
        estimated=any(item.group.estimated for item in falls),
    )


def totals(fleet: Fleet, promised: Promises) -> Totals:
    """Over all pools, from exact fractions. Held and free leave out the clusters whose pods were never read."""
    members = [(node, item) for node in fleet.nodes for item in node.falls]
    falls = [item for _node, item in members]
    sums = unit_sums(members)

    with_cards = {node.cluster.pk for node, _item in members}
    unread = {cluster.pk for cluster in fleet.pods_missing}
    of_read = unit_sums((node, item) for node, item in members if node.held is not None)
    nobody_read = with_cards <= unread if with_cards else not fleet.clusters

    def equivalents(get: Callable[[UnitSum], Decimal | None], over: dict[UnitKey, UnitSum] = sums) -> Decimal:
        parts = (Fraction(get(found) or 0) * key[2] for key, found in over.items())
        return rounded(sum(parts, Fraction(0)))

    def said(amount: Fraction | None) -> Decimal | None:
        return None if amount is None else rounded(amount)

    return Totals(
        physical_devices=sum(item.physical for item in falls),
        buckets=card_buckets(falls),
        allocatable_devices=sum(item.allocatable for item in falls),
        allocatable=equivalents(lambda found: found.allocatable),
        allocatable_of_read=equivalents(lambda found: found.allocatable, of_read),
        held_bound=None if nobody_read else equivalents(lambda found: found.held),
        held_reserved=said(promised.reserved),
        free=None if nobody_read else equivalents(lambda found: found.free),
        nominal=said(promised.nominal),
        ceiling=said(promised.ceiling),
        pools=len(fleet.pools),
        nodes=sum(bool(node.falls) for node in fleet.nodes),
        without_pods=_with_cards(fleet.pods_missing, with_cards),
        without_quota=_with_cards(fleet.quota_missing, with_cards),
    )


def _with_cards(clusters: Iterable[Cluster], with_cards: Collection[int]) -> tuple[Cluster, ...]:
    """Only a cluster that has accelerators is missed in a sum over them."""
    return tuple(cluster for cluster in clusters if cluster.pk in with_cards)
