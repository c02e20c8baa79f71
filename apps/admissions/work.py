"""Work of one team that holds quota now, and that ended lately. Input: team, clock; output: frozen rows.

Ownership is `BindingIndex`'s, as for waiting work: the team's bindings narrow the query, the index decides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import Q, QuerySet

from apps.accounts.models import Team
from apps.core.quantity import parse_quantity
from apps.fleet.models import Cluster, TeamBinding
from apps.fleet.registry import is_device
from apps.fleet.selectors import BindingIndex, BoundThing
from apps.observations.models import ClusterObject, Workload
from apps.observations.selectors import live_workloads

Kind = TeamBinding.Kind
State = Workload.State
FINISHED_WITHIN = timedelta(days=7)
FINISHED_SHOWN = 200


@dataclass(frozen=True, slots=True)
class WorkRow:
    """`devices`: accelerators of the reservation, `asked` those of the request. `held_seconds`: since quota was
    reserved, up to its end; None when the cluster does not say when it was."""

    cluster_id: int
    cluster_name: str
    kind: str
    uid: str
    namespace: str
    name: str
    queue: str
    state: str
    state_label: str
    outcome: str
    devices: Mapping[str, Decimal]
    asked: Mapping[str, Decimal]
    flavors: str
    held_since: datetime | None
    held_seconds: int | None
    finished_at: datetime | None


class Places:
    """What leads to a team's work in some clusters, read once for all the lists of a page."""

    def __init__(self, *, now: datetime, team: Team, clusters: Collection[Cluster]) -> None:
        ids = [cluster.pk for cluster in clusters]
        self.now, self.team, self.clusters = now, team, clusters
        self.index = BindingIndex.load(now, clusters=ids)
        self.things = self.index.things_of([team.pk])
        self.leads_to = _local_queues(ids) if self.things else {}
        self.reachable = _candidates(self.things, self.leads_to)


def running(places: Places) -> list[WorkRow]:
    """Reserved and admitted work, longest first."""
    states = (State.RESERVED, State.ADMITTED)
    found = live_workloads(clusters=places.clusters).filter(state__in=states).order_by("reserved_at", "id")
    return _owned(found, places)


def recently_finished(places: Places) -> list[WorkRow]:
    """What ended in the last seven days, newest first, at most FINISHED_SHOWN; also what the cluster has removed."""
    found = Workload.objects.filter(
        cluster__in=list(places.clusters),
        state=State.FINISHED,
        finished_at__gte=places.now - FINISHED_WITHIN,
    ).order_by("-finished_at", "-id")
    return _owned(found, places, limit=FINISHED_SHOWN)


def queue_of(workload: Workload) -> str:
    """The ClusterQueue or Volcano queue that the work leads to; "" when it is not known."""
    if workload.cluster_queue:
        return workload.cluster_queue
    if workload.kind == Workload.Kind.POD_GROUP:
        return workload.queue_name
    local = _local_queues([workload.cluster_id])
    return local.get((workload.cluster_id, workload.namespace, workload.queue_name), "")


def _local_queues(cluster_ids: Iterable[int]) -> dict[tuple[int, str, str], str]:
    rows = ClusterObject.objects.filter(cluster_id__in=list(cluster_ids), kind="LocalQueue", gone_at=None)
    return {
        (cluster_id, namespace, name): queue or ""
        for cluster_id, namespace, name, queue in rows.values_list(
            "cluster_id", "namespace", "name", "spec__cluster_queue"
        )
    }


def _candidates(things: Iterable[BoundThing], leads_to: Mapping[tuple[int, str, str], str]) -> Q:
    """What the team's bindings could reach; the index then refuses what a more exact binding gives away. One condition
    per cluster and kind, however many things are bound: building and planning one each costs more than the work read."""
    names: dict[tuple[int, str], set[str]] = defaultdict(set)
    local: dict[tuple[int, str], set[str]] = defaultdict(set)
    for thing in things:
        if thing.kind == Kind.LOCAL_QUEUE:
            local[thing.cluster_id, thing.namespace].add(thing.name)
        else:
            names[thing.cluster_id, thing.kind].add(thing.name)
    unsaid: dict[tuple[int, str], set[str]] = defaultdict(set)
    for (cluster_id, namespace, name), queue in leads_to.items():
        if queue in names.get((cluster_id, Kind.CLUSTER_QUEUE), ()):
            unsaid[cluster_id, namespace].add(name)
    condition = Q(pk__in=[])
    for (cluster_id, kind), found in names.items():
        here = Q(cluster_id=cluster_id)
        if kind == Kind.NAMESPACE:
            condition |= here & Q(namespace__in=found)
        elif kind == Kind.VOLCANO_QUEUE:
            condition |= here & Q(kind=Workload.Kind.POD_GROUP, queue_name__in=found)
        else:
            condition |= here & Q(cluster_queue__in=found)
    for (cluster_id, namespace), found in local.items():
        condition |= Q(cluster_id=cluster_id, namespace=namespace, queue_name__in=found)
    for (cluster_id, namespace), found in unsaid.items():
        condition |= Q(cluster_id=cluster_id, cluster_queue="", namespace=namespace, queue_name__in=found)
    return condition


def _owned(found: QuerySet[Workload], places: Places, *, limit: int | None = None) -> list[WorkRow]:
    if not places.things:
        return []
    candidates = found.filter(places.reachable).defer("pod_sets", "checks")
    rows: list[WorkRow] = []
    for work in candidates.select_related("cluster").iterator(chunk_size=500):
        at = (work.cluster_id, work.namespace, work.queue_name)
        queue = work.cluster_queue or places.leads_to.get(at, "")
        owner = places.index.team_id_for(
            work.cluster_id,
            namespace=work.namespace,
            queue_name=work.queue_name,
            queue=queue,
            volcano=work.kind == Workload.Kind.POD_GROUP,
        )
        if owner == places.team.pk:
            rows.append(work_row(work, queue=queue, now=places.now))
        if limit is not None and len(rows) >= limit:
            break
    return rows


def held_devices(usage: Sequence[Mapping[str, str]]) -> dict[str, Decimal]:
    """Accelerators of a reservation by resource, over its flavors."""
    held: dict[str, Decimal] = {}
    for cell in usage:
        if is_device(cell["resource"]):
            held[cell["resource"]] = held.get(cell["resource"], Decimal(0)) + parse_quantity(cell["quantity"])
    return held


def asked_devices(requests: Mapping[str, str]) -> dict[str, Decimal]:
    return {name: parse_quantity(amount) for name, amount in requests.items() if is_device(name)}


def work_row(work: Workload, *, queue: str, now: datetime) -> WorkRow:
    since = work.reserved_at or work.admitted_at
    end = work.finished_at or now
    usage = [cell for cell in work.usage if is_device(cell["resource"])]
    finished = (work.conditions or {}).get("Finished") or {}
    return WorkRow(
        cluster_id=work.cluster_id,
        cluster_name=work.cluster.name,
        kind=work.kind,
        uid=work.uid,
        namespace=work.namespace,
        name=work.name,
        queue=queue or work.queue_name,
        state=work.state,
        state_label=str(State(work.state).label),
        outcome=str(finished.get("message") or work.message or work.reason),
        devices=held_devices(work.usage) or asked_devices(work.requests),
        asked=asked_devices(work.requests),
        flavors=", ".join(sorted({cell["flavor"] for cell in usage if cell["flavor"]})),
        held_since=since,
        held_seconds=None if since is None else max(0, int((end - since).total_seconds())),
        finished_at=work.finished_at,
    )
