"""What queues promise on each pool. Input: a fleet; output: nominal, ceiling, reserved … per pool and unit.

A (flavor, resource) speaks of the units that the nodes it reaches offer. Where these are one pool's, its numbers
are that pool's; where they are several pools', no pool can claim them: they count in the totals when their units
weigh the same, and are reported. Volcano's shares have no flavor and are treated as one that reaches every node.

Volcano: a queue's guarantee, deserved and capability are its own where it says so (those of its children lie within),
else its children's sum; deserved is also what counts as nominal there. A queue without capability has no limit and
adds nothing to the sum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from apps.capacity.facts import Fleet, NodeState, PoolKey, pool_key
from apps.capacity.pooling import UnitKey
from apps.fleet.registry import is_device
from apps.quotas.kueue import cluster_tree
from apps.quotas.snapshot import ClusterView, Snapshot, load_snapshot
from apps.quotas.tree import QuotaTree
from apps.quotas.volcano import VolcanoCluster

ZERO = Decimal(0)
SHARES = ("guarantee", "deserved", "capability")


@dataclass(slots=True)
class Promise:
    """`nominal` … `capability` None: nobody said so (Volcano without deserved or capability; Kueue has no such
    thing). `reserved`: quota held, `admitted` the part whose checks have passed."""

    nominal: Decimal | None = None
    ceiling: Decimal | None = None
    reserved: Decimal = ZERO
    admitted: Decimal = ZERO
    guarantee: Decimal | None = None
    deserved: Decimal | None = None
    capability: Decimal | None = None

    def add(self, other: Promise) -> None:
        self.nominal = _plus(self.nominal, other.nominal)
        self.ceiling = _plus(self.ceiling, other.ceiling)
        self.reserved += other.reserved
        self.admitted += other.admitted
        self.guarantee = _plus(self.guarantee, other.guarantee)
        self.deserved = _plus(self.deserved, other.deserved)
        self.capability = _plus(self.capability, other.capability)


def _plus(total: Decimal | None, more: Decimal | None) -> Decimal | None:
    return total if more is None else (total or ZERO) + more


@dataclass(slots=True)
class Promises:
    """`by_unit`: what can be laid on one pool. `loose`: (cluster, flavor, resource) → promise and the pools that
    it spreads over (none: no node carries the flavor); `shared`: units that such promises, of which something is
    reserved, reach; `sources`: per pool the (flavor, resource) that promise on it, the most first;
    `reached`: what each (cluster, flavor, resource) reaches; `trees`: Kueue's quota by cluster. `nominal`,
    `ceiling`, `reserved`, `admitted`: everything, in whole GPUs; `unread`: clusters in which nobody knows what is
    reserved, in none of the numbers of it."""

    snapshot: Snapshot
    by_unit: dict[tuple[PoolKey, UnitKey], Promise] = field(default_factory=lambda: defaultdict(Promise))
    loose: dict[tuple[int, str, str], tuple[Promise, frozenset[PoolKey]]] = field(default_factory=dict)
    shared: set[tuple[PoolKey, UnitKey]] = field(default_factory=set)
    sources: dict[PoolKey, list[tuple[str, str, Decimal]]] = field(default_factory=lambda: defaultdict(list))
    reached: Mapping[tuple[int, str, str], frozenset[tuple[PoolKey, UnitKey]]] = field(default_factory=dict)
    trees: dict[int, QuotaTree] = field(default_factory=dict)
    nominal: Fraction | None = None
    ceiling: Fraction | None = None
    reserved: Fraction | None = None
    admitted: Fraction | None = None
    unread: frozenset[int] = frozenset()

    # What is worked out of these promises, and kept with them.
    kept: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def of_pool(self, pool: PoolKey) -> dict[UnitKey, Promise]:
        return {unit: promise for (key, unit), promise in self.by_unit.items() if key == pool}

    def reserved_of(self, pool: PoolKey, unit: UnitKey) -> Decimal | None:
        """What is reserved on a pool's units: 0 where queues were read and hold nothing; None where they were not,
        or where all that is held there lies in promises that no pool can claim."""
        found = self._held(pool, unit)
        return None if found is None else found.reserved

    def admitted_of(self, pool: PoolKey, unit: UnitKey) -> Decimal | None:
        """The part of `reserved_of` that is admitted."""
        found = self._held(pool, unit)
        return None if found is None else found.admitted

    def _held(self, pool: PoolKey, unit: UnitKey) -> Promise | None:
        if pool[0] in self.unread:
            return None
        found = self.by_unit.get((pool, unit))
        if found is not None:
            return found
        return None if (pool, unit) in self.shared else Promise()

    def total(self, promise: Promise, weight: Fraction, *, read: bool) -> None:
        if promise.nominal is not None:
            self.nominal = (self.nominal or Fraction(0)) + Fraction(promise.nominal) * weight
        if promise.ceiling is not None:
            self.ceiling = (self.ceiling or Fraction(0)) + Fraction(promise.ceiling) * weight
        if read:
            self.reserved = (self.reserved or Fraction(0)) + Fraction(promise.reserved) * weight
            self.admitted = (self.admitted or Fraction(0)) + Fraction(promise.admitted) * weight


def promises(fleet: Fleet) -> Promises:
    targets = reached_by_flavor(fleet)
    snapshot = load_snapshot(now=fleet.now, clusters=fleet.clusters.values())
    unread = frozenset(cluster.pk for cluster in fleet.quota_missing)
    nothing = Fraction(0) if fleet.clusters.keys() - unread else None
    found = Promises(snapshot, reached=targets, unread=unread, reserved=nothing, admitted=nothing)
    for cluster_id, view in snapshot.views.items():
        found.trees[cluster_id] = cluster_tree(view)
        for (flavor, resource), promise in _said(snapshot, view, found.trees[cluster_id]):
            reached = targets.get((cluster_id, flavor, resource), frozenset())
            weights = {unit[2] for _pool, unit in reached}
            if len(reached) == 1:
                only = next(iter(reached))
                found.by_unit[only].add(promise)
                if promise.nominal:
                    found.sources[only[0]].append((flavor, resource, promise.nominal))
            else:
                key = (cluster_id, flavor, resource)
                found.loose[key] = (promise, frozenset(pool for pool, _unit in reached))
                if promise.reserved:
                    found.shared |= reached
            if len(weights) == 1:
                found.total(promise, next(iter(weights)), read=cluster_id not in unread)
    for promised in found.sources.values():
        promised.sort(key=lambda item: (-item[2], item[:2]))
    return found


def reached_by_flavor(fleet: Fleet) -> Mapping[tuple[int, str, str], frozenset[tuple[PoolKey, UnitKey]]]:
    """What each (cluster, flavor, resource) reaches; flavor "" is every node."""
    found: dict[tuple[int, str, str], set[tuple[PoolKey, UnitKey]]] = defaultdict(set)
    for node, _alike in fleet.alike():
        for pool, unit in node_units(node):
            for flavor in ("", *node.flavors):
                found[node.cluster.pk, flavor, unit[0]].add((pool, unit))
    return {key: frozenset(value) for key, value in found.items()}


def node_units(node: NodeState) -> Iterator[tuple[PoolKey, UnitKey]]:
    for item in node.falls:
        for found in item.units:
            unit = found.unit
            yield pool_key(node, item.group), (unit.resource, unit.profile, unit.equivalents)


def _said(
    snapshot: Snapshot, view: ClusterView, tree: QuotaTree
) -> Iterator[tuple[tuple[str, str], Promise]]:
    """Every accelerator (flavor, resource) that queues quote or hold, with its sums."""
    yield from _kueue(view, tree)
    if view.objects["VolcanoQueue"]:
        yield from _volcano(VolcanoCluster(snapshot, view))


def _kueue(view: ClusterView, tree: QuotaTree) -> Iterator[tuple[tuple[str, str], Promise]]:
    sums: dict[tuple[str, str], Promise] = defaultdict(Promise)
    for key in tree:
        for cell, quota in tree.node(*key).cells.items():
            if is_device(cell[1]):
                ceiling = tree.potential_available(*key, cell) if key[0] == "ClusterQueue" else ZERO
                sums[cell].add(Promise(quota.nominal, ceiling))
    for (kind, name), held in view.reserved.items():
        admitted = view.admitted.get((kind, name), {})
        for cell, amount in held.items():
            if kind == "ClusterQueue" and is_device(cell[1]):
                sums[cell].add(Promise(ZERO, ZERO, amount, admitted.get(cell, ZERO)))
    yield from sorted(sums.items())


def _volcano(queues: VolcanoCluster) -> Iterator[tuple[tuple[str, str], Promise]]:
    """What work holds and may reach: of leaves only, since a parent's numbers are its children's."""
    sums: dict[str, Promise] = defaultdict(Promise)
    for name in queues.queues(None):
        for row in queues.queue_rows(name):
            if row.accelerator and not row.is_parent:
                sums[row.resource].add(Promise(None, row.ceiling, row.reserved, row.admitted))
    for name in queues.roots:
        for resource, said in _shares(queues, name).items():
            sums[resource].add(
                Promise(
                    nominal=said.get("deserved"),
                    guarantee=said.get("guarantee"),
                    deserved=said.get("deserved"),
                    capability=said.get("capability"),
                )
            )
    yield from ((("", resource), promise) for resource, promise in sorted(sums.items()))


def _shares(queues: VolcanoCluster, name: str) -> dict[str, dict[str, Decimal]]:
    """{resource: {share: amount}} that a queue and those below it promise."""
    below: dict[str, dict[str, Decimal]] = defaultdict(dict)
    for child in queues.children.get(name, ()):
        for resource, shares in _shares(queues, child).items():
            for share, amount in shares.items():
                below[resource][share] = below[resource].get(share, ZERO) + amount
    spec = queues.queues_[name].spec
    for share in SHARES:
        for resource, amount in (spec.get(share) or {}).items():
            if is_device(resource):
                below[resource][share] = Decimal(amount)
    return below
