"""Everything the quota views compute from, read once. Input: clock and clusters; output: one `Snapshot`.

A constant number of queries: five kinds of objects, flavors' reach, three sums of work, ownership. Objects are plain
tuples; nothing here knows about Kueue's or Volcano's arithmetic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from apps.fleet.models import Cluster, TeamBinding
from apps.fleet.selectors import BindingIndex, enabled_clusters
from apps.observations.selectors import live_objects
from apps.quotas.flavors import Meaning, Reach, flavor_reach, meaning
from apps.quotas.held import POD_GROUP, Asked, Held, asked_by_queue, held_by_queue
from apps.quotas.volcano_reading import VolcanoSupply, volcano_supply

ZERO = Decimal(0)
Amounts = dict[tuple[str, str], Decimal]
KINDS = ("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor", "VolcanoQueue", "VolcanoScheduler")


@dataclass(frozen=True, slots=True)
class Item:
    """A current object, as its parser normalised it."""

    name: str
    namespace: str
    spec: Mapping[str, Any]
    status: Mapping[str, Any]

    @property
    def active(self) -> Mapping[str, Any]:
        """The Active condition, {} when the object has none yet."""
        found: Mapping[str, Any] = (self.status.get("conditions") or {}).get("Active") or {}
        return found


@dataclass(frozen=True, slots=True)
class Demand:
    """What waits for one queue: amounts and pieces of work by resource, and all pieces once."""

    amounts: dict[str, Decimal] = field(default_factory=lambda: defaultdict(lambda: ZERO))
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def waiting(self) -> int:
        return self.counts.get("", 0)

    def add(self, asked: Asked) -> None:
        self.amounts[asked.resource] += asked.amount
        self.counts[asked.resource] += asked.count


@dataclass(slots=True)
class ClusterView:
    """One cluster's share of the snapshot; queues are keyed by name, `teams` by queue."""

    cluster: Cluster
    objects: dict[str, dict[str, Item]] = field(default_factory=lambda: defaultdict(dict))
    local_queues: list[Item] = field(default_factory=list)
    reserved: dict[tuple[str, str], Amounts] = field(default_factory=lambda: defaultdict(dict))
    admitted: dict[tuple[str, str], Amounts] = field(default_factory=lambda: defaultdict(dict))
    demand: dict[tuple[str, str], Demand] = field(default_factory=lambda: defaultdict(Demand))
    teams: dict[tuple[str, str], set[int]] = field(default_factory=lambda: defaultdict(set))
    volcano: VolcanoSupply = field(default_factory=VolcanoSupply)


@dataclass(slots=True)
class TeamWork:
    """One team's own work by (cluster, flavor, resource), and what it waits for by (cluster, resource)."""

    reserved: dict[tuple[int, str, str], Decimal] = field(default_factory=lambda: defaultdict(lambda: ZERO))
    admitted: dict[tuple[int, str, str], Decimal] = field(default_factory=lambda: defaultdict(lambda: ZERO))
    asked: dict[tuple[int, str, str, str], Decimal] = field(default_factory=lambda: defaultdict(lambda: ZERO))
    counts: dict[tuple[int, str, str, str], int] = field(default_factory=lambda: defaultdict(int))


@dataclass(slots=True)
class Snapshot:
    """`views` by cluster id, in the clusters' order. `work` by team; the key None is work of nobody."""

    now: datetime
    views: dict[int, ClusterView]
    reach: Reach
    bindings: BindingIndex
    work: dict[int | None, TeamWork] = field(default_factory=lambda: defaultdict(TeamWork))
    _meanings: dict[tuple[int, str, str], Meaning] = field(default_factory=dict)

    def meaning(self, cluster_id: int, flavor: str, resource: str) -> Meaning:
        """What units of this (flavor, resource) are."""
        key = (cluster_id, flavor, resource)
        if key not in self._meanings:
            item = self.views[cluster_id].objects["ResourceFlavor"].get(flavor)
            reached = self.reach.get(key, frozenset())
            self._meanings[key] = meaning(
                reached=reached, resource=resource, flavor=item.spec if item else None
            )
        return self._meanings[key]


def load_snapshot(*, now: datetime, clusters: Iterable[Cluster] | None = None) -> Snapshot:
    chosen = list(enabled_clusters() if clusters is None else clusters)
    views = {cluster.pk: ClusterView(cluster) for cluster in chosen}
    ids = list(views)
    flavors = _load_objects(views, chosen)
    snapshot = Snapshot(
        now=now,
        views=views,
        reach=flavor_reach(cluster_ids=ids, flavors=flavors),
        bindings=BindingIndex.load(at=now, clusters=ids),
    )
    leads_to = {
        (cluster_id, item.namespace, item.name): str(item.spec.get("cluster_queue") or "")
        for cluster_id, view in views.items()
        for item in view.local_queues
    }
    with_volcano = [cluster_id for cluster_id, view in views.items() if view.objects["VolcanoQueue"]]
    for cluster_id, supply in volcano_supply(cluster_ids=with_volcano).items():
        views[cluster_id].volcano = supply
    _own_queues(snapshot)
    _add_held(snapshot, held_by_queue(cluster_ids=ids))
    _add_asked(snapshot, asked_by_queue(cluster_ids=ids), leads_to)
    return snapshot


def _load_objects(
    views: Mapping[int, ClusterView], clusters: Sequence[Cluster]
) -> dict[tuple[int, str], Mapping[str, Any]]:
    flavors: dict[tuple[int, str], Mapping[str, Any]] = {}
    for kind in KINDS:
        rows = live_objects(kind=kind, clusters=clusters)
        columns = ("cluster_id", "namespace", "name", "spec")
        if kind in ("LocalQueue", "ResourceFlavor"):  # their status is not used, and LocalQueues are many
            found = [(*row, {}) for row in rows.values_list(*columns)]
        else:
            found = list(rows.values_list(*columns, "status"))
        for cluster_id, namespace, name, spec, status in found:
            item = Item(name, namespace, spec, status)
            if kind == "LocalQueue":
                views[cluster_id].local_queues.append(item)
            else:
                views[cluster_id].objects[kind][name] = item
            if kind == "ResourceFlavor":
                flavors[cluster_id, name] = spec
    return flavors


def _own_queues(snapshot: Snapshot) -> None:
    """A queue's teams: its own owner, and the owners of the LocalQueues that lead to it."""
    index = snapshot.bindings
    for cluster_id, view in snapshot.views.items():
        for kind, binding in (
            ("ClusterQueue", TeamBinding.Kind.CLUSTER_QUEUE),
            ("VolcanoQueue", TeamBinding.Kind.VOLCANO_QUEUE),
        ):
            for name in view.objects[kind]:
                owner = index.owner_of(cluster_id, binding, name)
                if owner is not None:
                    view.teams[kind, name].add(owner)
        for item in view.local_queues:
            queue = str(item.spec.get("cluster_queue") or "")
            team = index.team_id_for(
                cluster_id, namespace=item.namespace, queue_name=item.name, queue=queue, volcano=False
            )
            if team is not None:
                view.teams["ClusterQueue", queue].add(team)


def _add_held(snapshot: Snapshot, rows: Iterable[Held]) -> None:
    for row in rows:
        view, volcano = snapshot.views[row.cluster_id], row.kind == POD_GROUP
        key = ("VolcanoQueue" if volcano else "ClusterQueue", row.queue)
        cell = (row.flavor, row.resource)
        for amounts, amount in ((view.reserved[key], row.reserved), (view.admitted[key], row.admitted)):
            amounts[cell] = amounts.get(cell, ZERO) + amount
        team = snapshot.bindings.team_id_for(
            row.cluster_id,
            namespace=row.namespace,
            queue_name=row.queue_name,
            queue=row.queue,
            volcano=volcano,
        )
        if team is not None:
            view.teams[key].add(team)
        work = snapshot.work[team]
        work.reserved[row.cluster_id, row.flavor, row.resource] += row.reserved
        work.admitted[row.cluster_id, row.flavor, row.resource] += row.admitted


def _add_asked(
    snapshot: Snapshot, rows: Iterable[Asked], leads_to: Mapping[tuple[int, str, str], str]
) -> None:
    for row in rows:
        view, volcano = snapshot.views[row.cluster_id], row.kind == POD_GROUP
        queue = (
            row.queue_name if volcano else leads_to.get((row.cluster_id, row.namespace, row.queue_name), "")
        )
        kind = "VolcanoQueue" if volcano else "ClusterQueue"
        if queue:
            view.demand[kind, queue].add(row)
        team = snapshot.bindings.team_id_for(
            row.cluster_id,
            namespace=row.namespace,
            queue_name=row.queue_name,
            queue=queue,
            volcano=volcano,
        )
        if team is not None and queue:
            view.teams[kind, queue].add(team)
        key = (row.cluster_id, kind, queue, row.resource)
        snapshot.work[team].asked[key] += row.amount
        snapshot.work[team].counts[key] += row.count
