"""Which work the bindings of some teams lead to, for narrowing a query before ownership is asked. Input: who owns what,
teams, clusters; output: `Reach`. One query, of the LocalQueues in question only.

Invariant: `work` takes all work that the index gives to these teams, and maybe more: a more exact binding of another
team may give some of it away, so the index decides about each place that was found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from django.db.models import Q
from django.db.models.fields.json import KT

from apps.fleet.models import TeamBinding
from apps.fleet.selectors import BindingIndex, BoundThing
from apps.observations.models import ClusterObject, Workload

Kind = TeamBinding.Kind
Place = tuple[int, str, str, str, str]
"""(cluster id, kind, namespace, queue name, ClusterQueue or ""): what ownership of a Workload or PodGroup rests on."""
PLACE = ("cluster_id", "kind", "namespace", "queue_name", "cluster_queue")
LocalQueue = tuple[int, str, str]


class Reach:
    """`work`: a condition on Workload; `leads_to`: (cluster, namespace, LocalQueue) → ClusterQueue of the work in reach."""

    def __init__(self, bindings: BindingIndex, team_ids: Collection[int]) -> None:
        self.bindings = bindings
        self.things = bindings.things_of(team_ids)
        self.leads_to = _local_queues(self.things)
        self.work = _condition(self.things, self.leads_to)

    def queue_of(self, place: Place) -> str:
        """The ClusterQueue or Volcano queue, "" when it cannot be told."""
        cluster_id, kind, namespace, queue_name, cluster_queue = place
        if kind == Workload.Kind.POD_GROUP:
            return queue_name
        return cluster_queue or self.leads_to.get((cluster_id, namespace, queue_name), "")

    def team_of(self, place: Place) -> int | None:
        cluster_id, kind, namespace, queue_name, _cluster_queue = place
        return self.bindings.team_id_for(
            cluster_id,
            namespace=namespace,
            queue_name=queue_name,
            queue=self.queue_of(place),
            volcano=kind == Workload.Kind.POD_GROUP,
        )


def _local_queues(things: Collection[BoundThing]) -> dict[LocalQueue, str]:
    """Bound LocalQueues, those of bound namespaces, and those that lead to bound ClusterQueues."""
    if not things:
        return {}
    wanted = Q(pk__in=[])
    for (cluster_id, kind, namespace), names in _grouped(things).items():
        here = Q(cluster_id=cluster_id)
        if kind == Kind.LOCAL_QUEUE:
            wanted |= here & Q(namespace=namespace, name__in=names)
        elif kind == Kind.NAMESPACE:
            wanted |= here & Q(namespace__in=names)
        elif kind == Kind.CLUSTER_QUEUE:
            wanted |= here & Q(spec__cluster_queue__in=names)
    clusters = {thing.cluster_id for thing in things}
    rows = ClusterObject.objects.filter(wanted, cluster_id__in=clusters, kind="LocalQueue", gone_at=None)
    found = rows.order_by("id").values_list("cluster_id", "namespace", "name", KT("spec__cluster_queue"))
    return {(cluster_id, namespace, name): queue or "" for cluster_id, namespace, name, queue in found}


def _grouped(things: Iterable[BoundThing]) -> dict[tuple[int, str, str], list[str]]:
    """Names by (cluster, kind, namespace)."""
    found: dict[tuple[int, str, str], list[str]] = defaultdict(list)
    for thing in things:
        found[thing.cluster_id, thing.kind, thing.namespace].append(thing.name)
    return found


def _condition(things: Collection[BoundThing], leads_to: Mapping[LocalQueue, str]) -> Q:
    """One condition per cluster and kind, however many things are bound: building and planning one each costs more than
    the work read."""
    groups = _grouped(things)
    unsaid: dict[tuple[int, str], list[str]] = defaultdict(list)
    for (cluster_id, namespace, name), queue in leads_to.items():
        if BoundThing(cluster_id, Kind.CLUSTER_QUEUE, "", queue) in things:
            unsaid[cluster_id, namespace].append(name)
    condition = Q(pk__in=[])
    for (cluster_id, kind, namespace), names in groups.items():
        here = Q(cluster_id=cluster_id)
        if kind == Kind.NAMESPACE:
            condition |= here & Q(namespace__in=names)
        elif kind == Kind.VOLCANO_QUEUE:
            condition |= here & Q(kind=Workload.Kind.POD_GROUP, queue_name__in=names)
        elif kind == Kind.LOCAL_QUEUE:
            condition |= here & Q(namespace=namespace, queue_name__in=names)
        else:
            condition |= here & Q(cluster_queue__in=names)
    for (cluster_id, namespace), names in unsaid.items():
        condition |= Q(cluster_id=cluster_id, cluster_queue="", namespace=namespace, queue_name__in=names)
    return condition
