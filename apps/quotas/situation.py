"""One cluster as the admission engine takes it. Input: the quota snapshot of a cluster, its live Kueue workloads and
namespaces; output: `Scene`, the engine's Situation with what it does not hold: who owns what, what was approximated.

Four queries beside the snapshot. Invariants
- Work that is over or deactivated is left out: it neither holds quota nor waits.
- What a reservation holds is exact per (flavor, resource), as stored. Which of several pod sets has which flavor is
  not stored; the amounts are laid on the pod sets so that the sums stay exact (`guessed` counts such work).
- Waiting work finds its ClusterQueue through its LocalQueue; a queue is inactive for all that Kueue says and for what
  can be read from specs, so that a change that starts a queue again really starts it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import DateTimeField
from django.db.models.expressions import RawSQL

from apps.core.label_selector import selects
from apps.fleet.models import Cluster
from apps.fleet.selectors import BindingIndex
from apps.observations.models import Workload
from apps.observations.selectors import live_objects
from apps.quotas.engine.model import Assigned, Flavor, Group, PodSet, Policy, Queue, Refused, Situation, Work
from apps.quotas.gaps import BY_PAST_USE, divided_resources, remote_checks
from apps.quotas.kueue import quota_node
from apps.quotas.queue_order import queue_order_sql
from apps.quotas.snapshot import ClusterView, Item, Snapshot, load_snapshot

_COLUMNS = (
    "uid",
    "name",
    "namespace",
    "queue_name",
    "cluster_queue",
    "priority",
    "pod_sets",
    "usage",
    "created_at",
    "queue_order",
    "reserved_at",
    "checks",
    "state",
)
_SPEC_REASONS = ("", "Ready", "Stopped", "FlavorNotFound")
"""What Kueue says of a queue and what its spec says just as well."""
_BESIDE = (("AdmissionCheck", "AdmissionCheckInactive"), ("Topology", "TopologyNotFound"))


@dataclass(frozen=True, slots=True)
class Scene:
    """`beyond`: by queue, why Kueue keeps it inactive for a reason that no change of quota lifts. `local_queues`:
    (namespace, name) → (ClusterQueue, stopped). `teams`: owners and users of each ClusterQueue. `guessed`: work with
    several pod sets in several flavors. `selectors_known`: namespaces were read, so that queues' selectors count."""

    cluster: Cluster
    now: datetime
    situation: Situation
    beyond: Mapping[str, str]
    local_queues: Mapping[tuple[str, str], tuple[str, bool]]
    teams: Mapping[str, Collection[int]]
    bindings: BindingIndex
    snapshot: Snapshot
    guessed: int
    selectors_known: bool

    def team_of(self, work: Work) -> int | None:
        return self.bindings.team_id_for(
            self.cluster.pk,
            namespace=work.namespace,
            queue_name=work.local_queue,
            queue=work.queue,
            volcano=False,
        )


def load_scene(*, now: datetime, cluster: Cluster) -> Scene:
    snapshot = load_snapshot(now=now, clusters=[cluster])
    view = snapshot.views[cluster.pk]
    queues = view.objects["ClusterQueue"]
    beyond = {name: found for name, item in queues.items() if (found := _beyond(item))}
    local_queues = {
        (item.namespace, item.name): (
            str(item.spec.get("cluster_queue") or ""),
            (item.spec.get("stop_policy") or "None") != "None",
        )
        for item in view.local_queues
    }
    labels = dict(live_objects(kind="Namespace", clusters=[cluster]).values_list("name", "labels"))
    rows = (
        Workload.objects.filter(
            cluster=cluster,
            gone_at=None,
            kind=Workload.Kind.WORKLOAD,
            active=True,
            state__in=(Workload.State.PENDING, Workload.State.RESERVED, Workload.State.ADMITTED),
        )
        .annotate(queue_order=_queue_order())
        .values_list(*_COLUMNS)
    )
    reader = _WorkReader(view, local_queues, labels)
    work = tuple(reader.read(dict(zip(_COLUMNS, row, strict=True))) for row in rows.iterator(chunk_size=4000))
    remote = remote_checks(cluster)
    situation = Situation(
        queues=tuple(engine_queue(item, remote) for item in queues.values()),
        cohorts=tuple(quota_node("Cohort", item) for item in view.objects["Cohort"].values()),
        flavors={name: _flavor(item) for name, item in view.objects["ResourceFlavor"].items()},
        work=work,
        fair_sharing=any(
            item.status.get("weighted_share") is not None
            for kind in ("ClusterQueue", "Cohort")
            for item in view.objects[kind].values()
        ),
        divided=divided_resources(cluster),
    )
    return Scene(
        cluster=cluster,
        now=now,
        situation=situation,
        beyond=beyond,
        local_queues=local_queues,
        teams={name: view.teams.get(("ClusterQueue", name), set()) for name in queues},
        bindings=snapshot.bindings,
        snapshot=snapshot,
        guessed=reader.guessed,
        selectors_known=bool(labels),
    )


# ---- queues ---------------------------------------------------------------------------------------------------


def _beyond(item: Item) -> str:
    """Why Kueue keeps a queue inactive apart from its stop policy and missing flavors: it stores only the first
    reason and joins the others in the message."""
    condition = item.active
    if not condition or condition.get("status") == "True":
        return ""
    reason, message = str(condition.get("reason") or ""), str(condition.get("message") or "")
    if reason not in _SPEC_REASONS:
        return reason
    return next((name for word, name in _BESIDE if word in message), "")


def engine_queue(item: Item, remote: Collection[str] = ()) -> Queue:
    """A ClusterQueue's spec; `inactive` is left to `what_if_change.activity`, which looks at the whole tree. `remote`:
    checks that hand work to other clusters."""
    spec = item.spec
    checks = tuple(check["name"] for check in spec.get("checks") or ())
    stop = spec.get("stop_policy") or "None"
    return Queue(
        node=quota_node("ClusterQueue", item),
        groups=tuple(
            Group(tuple(group["covered"]), tuple(flavor["name"] for flavor in group["flavors"]))
            for group in spec.get("resource_groups") or ()
        ),
        policy=_policy(spec),
        drains=stop == "HoldAndDrain",
        checks=checks,
        elsewhere=not set(checks).isdisjoint(remote),
        by_past_use=spec.get("admission_mode") == BY_PAST_USE,
    )


def _policy(spec: Mapping[str, Any]) -> Policy:
    preemption, fungibility = spec.get("preemption") or {}, spec.get("fungibility") or {}
    borrow = preemption.get("borrow_within_cohort") or {}
    usual = Policy()
    return Policy(
        strategy=spec.get("strategy") or usual.strategy,
        within_cluster_queue=preemption.get("within_cluster_queue") or usual.within_cluster_queue,
        reclaim_within_cohort=preemption.get("reclaim_within_cohort") or usual.reclaim_within_cohort,
        borrow_within_cohort=borrow.get("policy") or usual.borrow_within_cohort,
        max_priority_threshold=borrow.get("max_priority_threshold"),
        when_can_borrow=fungibility.get("when_can_borrow") or usual.when_can_borrow,
        when_can_preempt=fungibility.get("when_can_preempt") or usual.when_can_preempt,
        preference=fungibility.get("preference") or usual.preference,
    )


def _flavor(item: Item) -> Flavor:
    spec = item.spec
    return Flavor(
        name=item.name,
        node_labels=spec.get("node_labels") or {},
        taints=tuple(
            (taint["key"], taint.get("value") or "", taint["effect"])
            for taint in spec.get("node_taints") or ()
        ),
        tolerations=tuple(spec.get("tolerations") or ()),
        topology=spec.get("topology") or "",
    )


# ---- work -----------------------------------------------------------------------------------------------------


def _queue_order() -> RawSQL:
    return RawSQL(queue_order_sql(Workload._meta.db_table), (), output_field=DateTimeField())  # noqa: S611 - constant


class _WorkReader:
    """Rows of workloads → Work. Numbers repeat over thousands of workloads and are read once each."""

    def __init__(
        self,
        view: ClusterView,
        local_queues: Mapping[tuple[str, str], tuple[str, bool]],
        labels: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._local_queues = local_queues
        self._labels = labels
        self._selectors = {
            name: item.spec["namespace_selector"]
            for name, item in view.objects["ClusterQueue"].items()
            if "namespace_selector" in item.spec
        }
        self._matches: dict[tuple[str, str], bool] = {}
        self._numbers: dict[str, Decimal] = {}
        self.guessed = 0

    def read(self, row: Mapping[str, Any]) -> Work:
        pod_sets = tuple(self._pod_set(found) for found in row["pod_sets"])
        target, stopped = self._local_queues.get((row["namespace"], row["queue_name"]), ("", False))
        queue = row["cluster_queue"] or target
        holds = self._holds(pod_sets, row["usage"]) if row["usage"] else None
        created = row["created_at"].timestamp() if row["created_at"] else 0.0
        admitted = row["state"] != Workload.State.RESERVED
        return Work(
            uid=row["uid"],
            name=row["name"],
            namespace=row["namespace"],
            queue=queue,
            priority=row["priority"] or 0,
            created=created,
            queued=row["queue_order"].timestamp() if row["queue_order"] else created,
            pod_sets=pod_sets,
            holds=holds,
            reserved_at=row["reserved_at"].timestamp() if row["reserved_at"] else 0.0,
            blocked=None
            if holds and admitted
            else self._blocked(row["namespace"], queue, known=bool(target), stopped=stopped),
            local_queue=row["queue_name"],
            admitted=admitted,
        )

    def _blocked(self, namespace: str, queue: str, *, known: bool, stopped: bool) -> Refused | None:
        if not known or stopped:
            return "QueueMissing"
        if not self._labels or queue not in self._selectors:
            return None
        key = (namespace, queue)
        if key not in self._matches:
            self._matches[key] = selects(self._selectors[queue], self._labels.get(namespace, {}))
        return None if self._matches[key] else "NamespaceMismatch"

    def _number(self, text: str) -> Decimal:
        if text not in self._numbers:
            self._numbers[text] = Decimal(text)
        return self._numbers[text]

    def _pod_set(self, found: Mapping[str, Any]) -> PodSet:
        return PodSet(
            name=found["name"],
            count=found["count"],
            requests={name: self._number(text) for name, text in found["requests"].items()},
            min_count=found.get("min_count"),
            node_selector=found.get("node_selector") or {},
            affinity=tuple(found.get("affinity") or ()),
            tolerations=tuple(found.get("tolerations") or ()),
            topology=bool(found.get("topology")),
            claims=bool(found.get("claims")),
            elastic=bool(found.get("elastic")),
        )

    def _holds(self, pod_sets: tuple[PodSet, ...], usage: Iterable[Mapping[str, Any]]) -> dict[str, Assigned]:
        """`usage` laid on the pod sets: one flavor per resource on each, sums as stored."""
        found = [(cell["flavor"], cell["resource"], self._number(cell["quantity"])) for cell in usage]
        names = [(pod_set.name, pod_set.count) for pod_set in pod_sets] or [("main", 1)]
        layers: list[dict[str, tuple[str, Decimal]]] = []
        for flavor, resource, amount in found:
            layer = next((one for one in layers if resource not in one), None)
            if layer is None:
                layer = {}
                layers.append(layer)
            layer[resource] = (flavor, amount)
        self.guessed += len(layers) > 1
        # More flavors than pod sets happens only when the spec changed after admission.
        names += [(f"+{number}", 0) for number in range(len(layers) - len(names))]
        return {
            name: Assigned(
                count=count,
                flavors={resource: flavor for resource, (flavor, _amount) in layer.items()},
                amounts={resource: amount for resource, (_flavor, amount) in layer.items()},
            )
            for (name, count), layer in zip(names, layers, strict=False)
        }
