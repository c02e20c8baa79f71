"""What quota views are made of. Input: clusters; output: what was read of each, and a cluster's view.

A constant number of queries: six kinds of objects, flavors' reach, three sums of work. Objects are plain tuples; nothing
here knows about Kueue's or Volcano's arithmetic. Invariant: a view is not changed once it is made; readers only fill
`made`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar

from apps.fleet.models import Cluster, TeamBinding
from apps.fleet.selectors import BindingIndex
from apps.observations.models import ClusterObject
from apps.quotas.flavors import Reach, Reached, flavor_reach
from apps.quotas.held import POD_GROUP, Asked, Held, asked_by_queue, held_by_queue
from apps.quotas.volcano_reading import VolcanoSupply, volcano_supply

ZERO = Decimal(0)
Amounts = dict[tuple[str, str], Decimal]
QueueKey = tuple[str, str]
"""(kind, name) of a queue."""
MOST_MADE = 48
_WITHOUT_STATUS = frozenset({"LocalQueue", "ResourceFlavor"})
Key = TypeVar("Key")
Value = TypeVar("Value")
Made = TypeVar("Made")
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


class Filled(dict[Key, Value]):
    """What is missing reads as empty, and reading stores nothing: threads share it."""

    def __init__(self, empty: Callable[[], Value], found: Mapping[Key, Value]) -> None:
        super().__init__(found)
        self._empty = empty

    def __missing__(self, key: Key) -> Value:
        return self._empty()


@dataclass(slots=True)
class TeamWork:
    """One team's own work by (cluster, flavor, resource), and what it waits for by (cluster, resource)."""

    reserved: dict[tuple[int, str, str], Decimal] = field(default_factory=lambda: defaultdict(lambda: ZERO))
    admitted: dict[tuple[int, str, str], Decimal] = field(default_factory=lambda: defaultdict(lambda: ZERO))
    asked: dict[tuple[int, str, str, str], Decimal] = field(default_factory=lambda: defaultdict(lambda: ZERO))
    counts: dict[tuple[int, str, str, str], int] = field(default_factory=lambda: defaultdict(int))

    def add(self, other: TeamWork) -> None:
        """Work of another cluster: the keys differ."""
        self.reserved.update(other.reserved)
        self.admitted.update(other.admitted)
        self.asked.update(other.asked)
        self.counts.update(other.counts)


@dataclass(slots=True)
class ClusterView:
    """One cluster's share of the snapshot; queues are keyed by name, `teams` by queue, `work` by team.

    `made`: what was computed from a view that is kept, by whatever tells such values apart; None of a view that
    lives for one reading."""

    cluster: Cluster
    objects: Mapping[str, Mapping[str, Item]]
    local_queues: Sequence[Item]
    reserved: Mapping[QueueKey, Amounts]
    admitted: Mapping[QueueKey, Amounts]
    demand: Mapping[QueueKey, Demand]
    teams: Mapping[QueueKey, set[int]]
    work: Mapping[int | None, TeamWork]
    volcano: VolcanoSupply
    reach: Reach
    made: dict[Hashable, Any] | None = None

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What `make` computes from this view and `key`, kept as long as the view is."""
        if self.made is None:
            return make()
        if key not in self.made:
            if len(self.made) >= MOST_MADE:
                self.made.clear()
            made = make()
            self.made[key] = made
            return made
        found: Made = self.made[key]
        return found


# ---- reading --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reading:
    """What one cluster's view is made of: objects by kind, what its flavors reach, sums of work."""

    objects: Mapping[str, Sequence[Item]]
    reach: Reach
    held: Sequence[Held]
    asked: Sequence[Asked]
    volcano: VolcanoSupply


def read_clusters(clusters: Sequence[Cluster]) -> dict[int, Reading]:
    """A constant number of queries."""
    ids = [cluster.pk for cluster in clusters]
    objects = read_objects(clusters, KINDS)
    reach = read_reach(objects)
    supply = volcano_supply(cluster_ids=[pk for pk in ids if objects[pk]["VolcanoQueue"]])
    held: dict[int, list[Held]] = {pk: [] for pk in ids}
    for row in held_by_queue(cluster_ids=ids):
        held[row.cluster_id].append(row)
    asked: dict[int, list[Asked]] = {pk: [] for pk in ids}
    for waiting in asked_by_queue(cluster_ids=ids):
        asked[waiting.cluster_id].append(waiting)
    return {
        pk: Reading(objects[pk], reach[pk], held[pk], asked[pk], supply.get(pk) or VolcanoSupply())
        for pk in ids
    }


def read_objects(clusters: Sequence[Cluster], kinds: Collection[str]) -> dict[int, dict[str, list[Item]]]:
    """(cluster → kind → living objects), two queries at most. The status of some kinds is not used, and LocalQueues
    are many."""
    found: dict[int, dict[str, list[Item]]] = {
        cluster.pk: {kind: [] for kind in kinds} for cluster in clusters
    }
    columns = ("cluster_id", "kind", "namespace", "name", "spec")
    rows = ClusterObject.objects.filter(cluster__in=list(clusters), gone_at=None)
    if bare := _WITHOUT_STATUS.intersection(kinds):
        for cluster_id, kind, namespace, name, spec in rows.filter(kind__in=bare).values_list(*columns):
            found[cluster_id][kind].append(Item(name, namespace, spec, {}))
    if whole := set(kinds) - bare:
        for cluster_id, kind, namespace, name, spec, status in rows.filter(kind__in=whole).values_list(
            *columns, "status"
        ):
            found[cluster_id][kind].append(Item(name, namespace, spec, status))
    return found


def read_reach(objects: Mapping[int, Mapping[str, Sequence[Item]]]) -> dict[int, Reach]:
    """What the flavors among these objects reach, by cluster; one query."""
    flavors = {
        (pk, item.name): item.spec for pk, by_kind in objects.items() for item in by_kind["ResourceFlavor"]
    }
    found: dict[int, dict[tuple[int, str, str], frozenset[Reached]]] = {pk: {} for pk in objects}
    for key, reached in flavor_reach(cluster_ids=list(objects), flavors=flavors).items():
        found[key[0]][key] = reached
    return dict(found)


# ---- one cluster ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Filling:
    """A view while it is made."""

    bindings: BindingIndex
    reserved: dict[QueueKey, Amounts] = field(default_factory=lambda: defaultdict(dict))
    admitted: dict[QueueKey, Amounts] = field(default_factory=lambda: defaultdict(dict))
    demand: dict[QueueKey, Demand] = field(default_factory=lambda: defaultdict(Demand))
    teams: dict[QueueKey, set[int]] = field(default_factory=lambda: defaultdict(set))
    work: dict[int | None, TeamWork] = field(default_factory=lambda: defaultdict(TeamWork))


def view_of(
    cluster: Cluster, reading: Reading, bindings: BindingIndex, *, made: dict[Hashable, Any] | None = None
) -> ClusterView:
    """A cluster's view from what was read of it, and from who owns what. `made`: {} of a view that is kept."""
    filling = _Filling(bindings)
    _own_queues(filling, cluster.pk, reading.objects)
    leads_to = {
        (item.namespace, item.name): str(item.spec.get("cluster_queue") or "")
        for item in reading.objects["LocalQueue"]
    }
    _add_held(filling, reading.held)
    _add_asked(filling, reading.asked, leads_to)
    return ClusterView(
        cluster=cluster,
        objects=Filled(
            dict,
            {
                kind: {item.name: item for item in items}
                for kind, items in reading.objects.items()
                if kind != "LocalQueue"
            },
        ),
        local_queues=reading.objects["LocalQueue"],
        reserved=Filled(dict, filling.reserved),
        admitted=Filled(dict, filling.admitted),
        demand=Filled(Demand, filling.demand),
        teams=Filled(set, filling.teams),
        work=filling.work,
        volcano=reading.volcano,
        reach=reading.reach,
        made=made,
    )


def _own_queues(filling: _Filling, cluster_id: int, objects: Mapping[str, Sequence[Item]]) -> None:
    """A queue's teams: its own owner, and the owners of the LocalQueues that lead to it."""
    index = filling.bindings
    for kind, binding in (
        ("ClusterQueue", TeamBinding.Kind.CLUSTER_QUEUE),
        ("VolcanoQueue", TeamBinding.Kind.VOLCANO_QUEUE),
    ):
        for item in objects[kind]:
            owner = index.owner_of(cluster_id, binding, item.name)
            if owner is not None:
                filling.teams[kind, item.name].add(owner)
    for item in objects["LocalQueue"]:
        queue = str(item.spec.get("cluster_queue") or "")
        team = index.team_id_for(
            cluster_id, namespace=item.namespace, queue_name=item.name, queue=queue, volcano=False
        )
        if team is not None:
            filling.teams["ClusterQueue", queue].add(team)


def _add_held(filling: _Filling, rows: Iterable[Held]) -> None:
    for row in rows:
        volcano = row.kind == POD_GROUP
        key = ("VolcanoQueue" if volcano else "ClusterQueue", row.queue)
        cell = (row.flavor, row.resource)
        for amounts, amount in ((filling.reserved[key], row.reserved), (filling.admitted[key], row.admitted)):
            amounts[cell] = amounts.get(cell, ZERO) + amount
        team = filling.bindings.team_id_for(
            row.cluster_id,
            namespace=row.namespace,
            queue_name=row.queue_name,
            queue=row.queue,
            volcano=volcano,
        )
        if team is not None:
            filling.teams[key].add(team)
        work = filling.work[team]
        work.reserved[row.cluster_id, row.flavor, row.resource] += row.reserved
        work.admitted[row.cluster_id, row.flavor, row.resource] += row.admitted


def _add_asked(filling: _Filling, rows: Iterable[Asked], leads_to: Mapping[tuple[str, str], str]) -> None:
    for row in rows:
        volcano = row.kind == POD_GROUP
        queue = row.queue_name if volcano else leads_to.get((row.namespace, row.queue_name), "")
        kind = "VolcanoQueue" if volcano else "ClusterQueue"
        if queue:
            filling.demand[kind, queue].add(row)
        team = filling.bindings.team_id_for(
            row.cluster_id,
            namespace=row.namespace,
            queue_name=row.queue_name,
            queue=queue,
            volcano=volcano,
        )
        if team is not None and queue:
            filling.teams[kind, queue].add(team)
        key = (row.cluster_id, kind, queue, row.resource)
        filling.work[team].asked[key] += row.amount
        filling.work[team].counts[key] += row.count
