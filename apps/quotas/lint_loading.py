"""What lint.py judges, of one cluster. Input: a snapshot and a cluster in it; output: `Facts`.

Three statements beside the snapshot: admission checks, namespaces, waiting work. Namespaces that were never read
leave selectors unjudged. Work that Kueue itself refused for its size is left to the findings about waiting work.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from apps.fleet.models import Cluster
from apps.observations.models import Workload
from apps.observations.selectors import live_objects
from apps.quotas.kueue import cluster_tree
from apps.quotas.lint_model import Ask, Facts, QueueFacts, VolcanoFacts
from apps.quotas.snapshot import Amounts, ClusterView, Item, Snapshot
from apps.quotas.volcano import KIND as VOLCANO
from apps.quotas.volcano import VolcanoCluster

_TOO_LARGE = "maximum capacity"


def lint_facts(snapshot: Snapshot, cluster: Cluster) -> Facts:
    view = snapshot.views[cluster.pk]
    local_queues = tuple(
        (item.namespace, item.name, str(item.spec.get("cluster_queue") or "")) for item in view.local_queues
    )
    said, counted = _kueue_counts(view)
    volcano_said, volcano_counted = _volcano_counts(snapshot, view)
    return Facts(
        tree=cluster_tree(view),
        queues={name: _queue(item) for name, item in view.objects["ClusterQueue"].items()},
        local_queues=local_queues,
        flavors=frozenset(view.objects["ResourceFlavor"]),
        checks=_checks(cluster),
        namespaces=_namespaces(cluster),
        volcano={name: _volcano(item) for name, item in view.objects[VOLCANO].items()},
        asks=_asks(cluster, {(namespace, name): queue for namespace, name, queue in local_queues}),
        said={**said, **volcano_said},
        counted={**counted, **volcano_counted},
    )


def _queue(item: Item) -> QueueFacts:
    checks = tuple(str(check["name"]) for check in item.spec.get("checks") or ())
    return QueueFacts(item.spec.get("namespace_selector"), checks)


def _checks(cluster: Cluster) -> dict[str, bool]:
    rows = live_objects(kind="AdmissionCheck", clusters=[cluster]).values_list("name", "status")
    return {name: _is_active(status) for name, status in rows}


def _is_active(status: Mapping[str, Any]) -> bool:
    """Kueue takes a check that says nothing, because no controller looks after it, for inactive."""
    return bool(((status.get("conditions") or {}).get("Active") or {}).get("status") == "True")


def _namespaces(cluster: Cluster) -> dict[str, Mapping[str, str]] | None:
    found = dict(live_objects(kind="Namespace", clusters=[cluster]).values_list("name", "labels"))
    return found or None


def _amounts(share: Mapping[str, str] | None) -> dict[str, Decimal]:
    return {resource: Decimal(amount) for resource, amount in (share or {}).items()}


def _volcano(item: Item) -> VolcanoFacts:
    return VolcanoFacts(
        parent=str(item.spec.get("parent") or ""),
        state=str(item.status.get("state") or ""),
        capability=_amounts(item.spec.get("capability")),
        deserved=_amounts(item.spec.get("deserved")),
        guarantee=_amounts(item.spec.get("guarantee")),
    )


def _asks(cluster: Cluster, leads_to: Mapping[tuple[str, str], str]) -> tuple[Ask, ...]:
    rows = Workload.objects.filter(
        cluster=cluster, kind="Workload", state="pending", active=True, gone_at__isnull=True
    ).exclude(message__contains=_TOO_LARGE)
    return tuple(
        Ask(
            namespace,
            name,
            leads_to.get((namespace, queue), ""),
            tuple(_least(pods) for pods in pod_sets),
            queue,
        )
        for namespace, name, queue, pod_sets in rows.values_list(
            "namespace", "name", "queue_name", "pod_sets"
        ).iterator()
    )


def _least(pods: Mapping[str, Any]) -> dict[str, Decimal]:
    """What a pod set asks for with as few pods as it accepts."""
    count = pods.get("min_count") or pods.get("count") or 0
    return {name: amount * int(count) for name, amount in _amounts(pods.get("requests")).items()}


Counts = dict[tuple[str, str], Amounts]


def _kueue_counts(view: ClusterView) -> tuple[Counts, Counts]:
    said: Counts = {}
    counted: Counts = {}
    for name, item in view.objects["ClusterQueue"].items():
        key = ("ClusterQueue", name)
        said[key] = {
            (row["flavor"], row["resource"]): Decimal(row["total"])
            for row in item.status.get("reservation") or ()
        }
        counted[key] = view.reserved.get(key, {})
    return said, counted


def _volcano_counts(snapshot: Snapshot, view: ClusterView) -> tuple[Counts, Counts]:
    """Accelerators only: a queue's status also counts cpu and memory that pods use without asking for."""
    said: Counts = {}
    counted: Counts = {}
    if not view.objects[VOLCANO]:
        return said, counted
    volcano = VolcanoCluster(snapshot, view)
    for name in volcano.queues(None):
        key = (VOLCANO, name)
        for row in volcano.queue_rows(name):
            if row.accelerator and row.status_reserved is not None:
                said.setdefault(key, {})["", row.resource] = row.status_reserved
                counted.setdefault(key, {})["", row.resource] = row.admitted
    return said, counted
