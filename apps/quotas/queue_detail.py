"""Everything about one queue but its work. Input: clock, cluster, kind, name and the reader's teams; output:
`QueueDetail`, or None where there is none or the reader may not see it.

Invariants
- A reader restricted to teams gets the whole of the queues that these teams own or use. Of the cohorts and Volcano
  queues above them only sums: no spec, no object as served, no conditions, no events (`whole` is False).
- A LocalQueue belongs to one team at most; the LocalQueues of others that lead to a queue are only counted.
- An object that the cluster removed has no page.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import yaml
from django.db.models import Q, QuerySet
from django.db.models.fields.json import KT
from django.utils.translation import gettext as _

from apps.fleet.models import Cluster
from apps.fleet.selectors import BindingIndex
from apps.observations.models import ClusterObject, Event
from apps.observations.selectors import live_objects
from apps.quotas.conditions import Cause, causes_of
from apps.quotas.policy_words import (
    Policy,
    cluster_queue_policy,
    cohort_policy,
    local_queue_policy,
    volcano_policy,
)
from apps.quotas.rows import QueueNode
from apps.quotas.selectors import queue_forest

KINDS = ("ClusterQueue", "Cohort", "VolcanoQueue", "LocalQueue")
KUBECTL = {
    "ClusterQueue": "clusterqueue",
    "Cohort": "cohort",
    "LocalQueue": "localqueue",
    "VolcanoQueue": "queues.scheduling.volcano.sh",
}
EVENTS_SHOWN = 50


@dataclass(frozen=True, slots=True)
class LocalQueueRow:
    """A LocalQueue that leads to the queue. The counts are its own status', None when it says none."""

    cluster: Cluster
    namespace: str
    name: str
    team_id: int | None
    stop_policy: str
    active: bool | None
    reason: str
    message: str
    pending: int | None
    reserving: int | None
    admitted: int | None


@dataclass(frozen=True, slots=True)
class QueueDetail:
    """`node`: the queue in its tree; of a LocalQueue the ClusterQueue that it leads to, None when there is none or
    it is another team's. `path`: the nodes above it, root first. `siblings_of` is the way to what lies beside it.
    `object` is None for cohorts that only queues name, and where `whole` is False."""

    cluster: Cluster
    kind: str
    name: str
    namespace: str
    node: QueueNode | None
    path: tuple[QueueNode, ...]
    whole: bool
    object: ClusterObject | None
    policies: tuple[Policy, ...] = ()
    conditions: dict[str, dict[str, Any]] = field(default_factory=dict)
    causes: tuple[Cause, ...] = ()
    local_queues: tuple[LocalQueueRow, ...] = ()
    local_queues_of_others: int = 0
    leads_to: str = ""

    @property
    def siblings(self) -> tuple[QueueNode, ...]:
        """What the reader may see of the same parent, without the queue itself."""
        if not self.path or self.node is None:
            return ()
        return tuple(child for child in self.path[-1].children if child != self.node)

    @property
    def command(self) -> str:
        """Reads the object; with the context that the portal itself uses, where one is set."""
        context = ["--context", self.cluster.kube_context] if self.cluster.kube_context else []
        inside = ["-n", self.namespace] if self.namespace else []
        return shlex.join(["kubectl", *context, "get", *inside, KUBECTL[self.kind], self.name, "-o", "yaml"])

    @property
    def raw(self) -> dict[str, Any]:
        """The object as served, {} where it was not kept or is not for the reader."""
        return dict(self.object.raw) if self.object is not None else {}

    @property
    def raw_yaml(self) -> str:
        if not self.raw:
            return ""
        text: str = yaml.safe_dump(self.raw, sort_keys=False, allow_unicode=True, width=100)
        return text


def queue_detail(
    *,
    now: datetime,
    cluster: Cluster,
    kind: str,
    name: str,
    namespace: str = "",
    team_ids: Collection[int] | None,
) -> QueueDetail | None:
    if kind not in KINDS or (kind == "LocalQueue") != bool(namespace):
        return None
    if kind == "LocalQueue":
        return _local_queue(now, cluster, namespace, name, team_ids)
    found = _place(
        queue_forest(now=now, clusters=[cluster], team_ids=team_ids),
        lambda n: (n.kind, n.name) == (kind, name),
    )
    if found is None:
        return None
    path, node = found
    whole = team_ids is None or (kind != "Cohort" and not set(node.team_ids).isdisjoint(team_ids))
    item = _object(cluster, kind, name) if whole else None
    local, others = _local_queues(now, cluster, name, team_ids) if kind == "ClusterQueue" else ((), 0)
    return QueueDetail(
        cluster=cluster,
        kind=kind,
        name=name,
        namespace="",
        node=node,
        path=tuple(path),
        whole=whole,
        object=item,
        policies=tuple(_policies(item, node)),
        conditions=_conditions(item),
        causes=tuple(_causes(cluster, node, path, item)) if whole else (),
        local_queues=tuple(local),
        local_queues_of_others=others,
    )


def _place(forest: Iterable[QueueNode], wanted: Any) -> tuple[list[QueueNode], QueueNode] | None:
    """(the nodes above, the node), found without recursion."""
    stack: list[tuple[list[QueueNode], QueueNode]] = [([], node) for node in forest]
    while stack:
        path, node = stack.pop()
        if wanted(node):
            return path, node
        stack.extend(([*path, node], child) for child in node.children)
    return None


def _object(cluster: Cluster, kind: str, name: str, namespace: str = "") -> ClusterObject | None:
    rows = live_objects(kind=kind, clusters=[cluster]).filter(name=name, namespace=namespace)
    return rows.order_by("-pk").first()


def _policies(item: ClusterObject | None, node: QueueNode) -> list[Policy]:
    if item is None:
        return []
    if node.plugin is not None:
        return volcano_policy(item.spec, plugin=node.plugin)
    return (cluster_queue_policy if node.kind == "ClusterQueue" else cohort_policy)(item.spec)


def _conditions(item: ClusterObject | None) -> dict[str, dict[str, Any]]:
    return dict((item.status or {}).get("conditions") or {}) if item is not None else {}


# ---- why it does not admit --------------------------------------------------------------------------------------


def _causes(
    cluster: Cluster, node: QueueNode, path: Iterable[QueueNode], item: ClusterObject | None
) -> list[Cause]:
    """What the condition names, and what only shows from the tree: a circle of cohorts, closed parents."""
    active = _conditions(item).get("Active") or {}
    found = causes_of(str(active.get("message") or "")) if active.get("status") == "False" else []
    if node.in_cycle:
        ring = _ring(cluster, node)
        text = _("the cohorts %(names)s form a circle: Kueue skips the queues below it") % {
            "names": " → ".join(ring)
        }
        found.append(Cause("cohort_cycle", text, tuple(ring)))
    if node.stopped and not any(cause.code == "stopped" for cause in found):
        found.append(Cause("stopped", _("is stopped")))
    for parent in path:
        if parent.stopped:
            text = _("the queue %(name)s above it is stopped") % {"name": parent.name}
            found.append(Cause("stopped_parent", text, (parent.name,)))
    return found


def _ring(cluster: Cluster, node: QueueNode) -> list[str]:
    """The cohorts of the circle, from where the way up enters it and back to it."""
    rows = live_objects(kind="Cohort", clusters=[cluster]).values_list("name", KT("spec__parent"))
    parents = {name: parent or "" for name, parent in rows}
    name, seen = (node.name if node.kind == "Cohort" else node.parent), []
    while name and name not in seen:
        seen.append(name)
        name = parents.get(name, "")
    return [*seen[seen.index(name) :], name] if name else seen


# ---- LocalQueues ------------------------------------------------------------------------------------------------


def _local_queues(
    now: datetime, cluster: Cluster, queue: str, team_ids: Collection[int] | None
) -> tuple[list[LocalQueueRow], int]:
    """(those that the reader may see, how many there are beside them)."""
    index = BindingIndex.load(now, clusters=[cluster.pk])
    rows = [
        _local_row(cluster, item, index)
        for item in live_objects(kind="LocalQueue", clusters=[cluster])
        .filter(spec__cluster_queue=queue)
        .order_by("namespace", "name")
    ]
    shown = [row for row in rows if team_ids is None or row.team_id in team_ids]
    return shown, len(rows) - len(shown)


def _local_row(cluster: Cluster, item: ClusterObject, index: BindingIndex) -> LocalQueueRow:
    status = item.status or {}
    active = (status.get("conditions") or {}).get("Active") or {}
    return LocalQueueRow(
        cluster=cluster,
        namespace=item.namespace,
        name=item.name,
        team_id=index.team_id_for(
            cluster.pk,
            namespace=item.namespace,
            queue_name=item.name,
            queue=str(item.spec.get("cluster_queue") or ""),
            volcano=False,
        ),
        stop_policy=str(item.spec.get("stop_policy") or "None"),
        active=active["status"] == "True" if active.get("status") else None,
        reason=str(active.get("reason") or ""),
        message=str(active.get("message") or ""),
        pending=status.get("pending"),
        reserving=status.get("reserving"),
        admitted=status.get("admitted"),
    )


def _local_queue(
    now: datetime, cluster: Cluster, namespace: str, name: str, team_ids: Collection[int] | None
) -> QueueDetail | None:
    item = _object(cluster, "LocalQueue", name, namespace)
    if item is None:
        return None
    row = _local_row(cluster, item, BindingIndex.load(now, clusters=[cluster.pk]))
    if team_ids is not None and row.team_id not in team_ids:
        return None
    leads_to = str(item.spec.get("cluster_queue") or "")
    found = _place(
        queue_forest(now=now, clusters=[cluster], team_ids=team_ids),
        lambda node: (node.kind, node.name) == ("ClusterQueue", leads_to),
    )
    path, node = found if found is not None else ([], None)
    return QueueDetail(
        cluster=cluster,
        kind="LocalQueue",
        name=name,
        namespace=namespace,
        node=node,
        path=tuple(path),
        whole=True,
        object=item,
        policies=tuple(local_queue_policy(item.spec)),
        conditions=_conditions(item),
        causes=tuple(_local_causes(row, node, leads_to)),
        local_queues=(row,),
        leads_to=leads_to,
    )


def _local_causes(row: LocalQueueRow, node: QueueNode | None, leads_to: str) -> list[Cause]:
    found = []
    if row.stop_policy != "None":
        found.append(Cause("stopped", _("is stopped")))
    if row.reason == "ClusterQueueDoesNotExist":
        text = _("there is no ClusterQueue %(name)s") % {"name": leads_to}
        found.append(Cause("local_queue_nowhere", text, (leads_to,)))
    if node is not None and node.stopped:
        text = _("its ClusterQueue %(name)s is stopped") % {"name": leads_to}
        found.append(Cause("stopped_parent", text, (leads_to,)))
    elif node is not None and not node.active:
        text = _("its ClusterQueue %(name)s is not active") % {"name": leads_to}
        found.append(Cause("inactive_parent", text, (leads_to,)))
    if not found and row.active is False:
        found.append(Cause("other", row.message or row.reason))
    return found


# ---- events -----------------------------------------------------------------------------------------------------


def queue_events(detail: QueueDetail) -> QuerySet[Event]:
    """What the cluster said about the object, newest first; nothing of what is not the reader's."""
    if detail.object is None:
        return Event.objects.none()
    kind = "Queue" if detail.kind == "VolcanoQueue" else detail.kind
    named = Q(object_kind=kind, object_name=detail.name, object_namespace=detail.namespace)
    about = Q(object_uid=detail.object.uid) | (named & Q(object_uid=""))
    return Event.objects.filter(about, cluster=detail.cluster.pk).order_by("-created_at", "-id")
