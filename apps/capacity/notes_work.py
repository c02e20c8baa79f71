"""What does not fit together between jobs and nodes. Input: a fleet; output: `Note`s with the jobs that cause them.

A job is the pods of one JobSet, LeaderWorkerSet group, training job or Ray cluster (labels of data/nodes.yaml), else of
one PodGroup, else of one owner. Sets of replicas (ReplicaSet, StatefulSet, DaemonSet) are no job, although queues put
them into groups: each works for itself. Only jobs on several nodes count, by their living pods that are bound and hold accelerators.
- no_rdma: it holds `rdma_from_cards` whole cards or more, and none of its nodes offers RDMA (a resource, or a label).
- spans_capacity_types: some of its nodes are spot and some are not: losing the spot ones stops the whole job.
One query over the pods that hold something: only for pages that need it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from django.db import connection
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.capacity.capacity_types import SPOT, has_rdma_label, node_table
from apps.capacity.facts import Fleet, NodeState
from apps.capacity.rows import Note, Ref
from apps.core.gpu import SharingMode
from apps.fleet.models import Cluster

NAMES_SHOWN = 3
_JOBS = """
WITH held AS (
  SELECT p.cluster_id, p.namespace, p.node_name, p.requests, p.claims <> '[]' AS claims, p.owner_kind, p.owner_name,
    p.pod_group, (SELECT p.labels ->> l.label FROM unnest(%(labels)s::text[]) WITH ORDINALITY AS l(label, place)
     WHERE p.labels ? l.label ORDER BY l.place LIMIT 1) AS labelled
  FROM observations_pod p
  WHERE p.cluster_id = ANY(%(clusters)s) AND p.gone_at IS NULL AND p.node_name <> ''
    AND p.phase NOT IN ('Succeeded', 'Failed') AND (p.devices > 0 OR p.claims <> '[]')),
named AS (
  SELECT cluster_id, namespace, coalesce(labelled, nullif(pod_group, ''), owner_name) AS job, node_name, requests, claims
  FROM held WHERE labelled IS NOT NULL
    OR (NOT owner_kind = ANY(%(replicas)s) AND (owner_kind <> '' OR pod_group <> ''))),
spread AS (
  SELECT cluster_id, namespace, job FROM named GROUP BY 1, 2, 3 HAVING count(DISTINCT node_name) > 1)
SELECT cluster_id, namespace, job, node_name, coalesce(r.key, ''),
  sum(CASE WHEN r.key IS NULL THEN claims::int ELSE r.value::numeric END)
FROM named JOIN spread USING (cluster_id, namespace, job)
LEFT JOIN LATERAL jsonb_each_text(requests) r ON strpos(r.key, '/') > 0
GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
"""


@dataclass(slots=True)
class Job:
    """`amounts`: {(node, resource): units} that its pods hold; under resource "" the pods that hold only claims."""

    cluster_id: int
    namespace: str
    name: str
    amounts: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def nodes(self) -> list[str]:
        return sorted({node for node, _resource in self.amounts})

    @property
    def ref(self) -> Ref:
        return Ref("group", self.name, self.namespace)

    def whole_cards(self, nodes: Mapping[str, NodeState]) -> int:
        """Cards that it holds whole; a pod that only holds claims counts as one."""
        return sum(
            amount
            for (node, resource), amount in self.amounts.items()
            if not resource or _offers_whole(nodes[node], resource)
        )


def _offers_whole(node: NodeState, resource: str) -> bool:
    return any(
        item.group.mode is SharingMode.EXCLUSIVE and unit.unit.resource == resource
        for item in node.falls
        for unit in item.units
    )


def jobs_over_nodes(*, cluster_ids: Sequence[int]) -> list[Job]:
    """Jobs that hold accelerators on more than one node, by cluster, namespace and name."""
    table = node_table()
    found: dict[tuple[int, str, str], Job] = {}
    with connection.cursor() as cursor:
        cursor.execute(
            _JOBS,
            {
                "clusters": list(cluster_ids),
                "labels": list(table.job_labels),
                "replicas": list(table.replica_owners),
            },
        )
        for cluster_id, namespace, name, node, resource, amount in cursor.fetchall():
            job = found.setdefault((cluster_id, namespace, name), Job(cluster_id, namespace, name))
            job.amounts[node, resource] = int(amount)
    return list(found.values())


def work_notes(fleet: Fleet) -> Iterator[Note]:
    """At most one note of each code per cluster."""
    nodes: dict[int, dict[str, NodeState]] = defaultdict(dict)
    for node in fleet.nodes:
        nodes[node.cluster.pk][node.name] = node
    without: dict[int, list[Job]] = defaultdict(list)
    spanning: dict[int, list[Job]] = defaultdict(list)
    for job in jobs_over_nodes(cluster_ids=list(fleet.clusters)):
        known = nodes[job.cluster_id]
        if any(name not in known for name in job.nodes):
            continue  # a node that is not known any more says nothing
        own = [known[name] for name in job.nodes]
        if job.whole_cards(known) >= node_table().rdma_from_cards and not any(map(has_rdma, own)):
            without[job.cluster_id].append(job)
        if len({node.bought == SPOT for node in own}) > 1:
            spanning[job.cluster_id].append(job)
    for cluster_id, found in sorted(spanning.items()):
        text = ngettext(
            "%(count)d job runs on spot and other nodes at once: %(jobs)s.",
            "%(count)d jobs run on spot and other nodes at once: %(jobs)s.",
            len(found),
        )
        yield _note("spans_capacity_types", fleet.clusters[cluster_id], text, found)
    for cluster_id, found in sorted(without.items()):
        text = ngettext(
            "%(count)d job runs on several nodes of which none offers RDMA: %(jobs)s.",
            "%(count)d jobs run on several nodes of which none offers RDMA: %(jobs)s.",
            len(found),
        )
        yield _note("no_rdma", fleet.clusters[cluster_id], text, found)


def has_rdma(node: NodeState) -> bool:
    return bool(node.rdma) or has_rdma_label(node.health.labels)


def _note(code: str, cluster: Cluster, text: str, found: Sequence[Job]) -> Note:
    names = [f"{job.namespace}/{job.name}" for job in found]
    shown = ", ".join(names[:NAMES_SHOWN])
    if len(names) > NAMES_SHOWN:
        shown = _("%(names)s and %(more)d more") % {"names": shown, "more": len(names) - NAMES_SHOWN}
    nodes = sorted({name for job in found for name in job.nodes})
    refs = (*(job.ref for job in found), *(Ref("node", name) for name in nodes))
    return Note(code, cluster, text % {"count": len(found), "jobs": shown}, tuple(names), refs)
