"""What does not fit together between jobs and nodes. Input: a fleet; output: `Note`s with the jobs that cause them.

A job is the pods of one JobSet, LeaderWorkerSet group, training job or Ray cluster (labels of data/nodes.yaml), else of
one PodGroup, else of one owner that is not a set of replicas (ReplicaSet, StatefulSet, DaemonSet: these work each for
itself). Only jobs on several nodes count, by their living pods that are bound and hold accelerators.
- no_rdma: it holds `rdma_from_accelerators` or more, and none of its nodes offers RDMA (a resource, or a label).
- spans_capacity_types: some of its nodes are spot and some are not: losing the spot ones stops the whole job.
One query over the pods that hold something: only for pages that need it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.db import connection
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.capacity.capacity_types import SPOT, has_rdma_label, node_table
from apps.capacity.facts import Fleet, NodeState
from apps.capacity.rows import Note, Ref
from apps.fleet.models import Cluster

NAMES_SHOWN = 3
_JOBS = """
WITH held AS (
  SELECT p.cluster_id, p.namespace, p.node_name, p.devices, p.owner_kind, p.owner_name, p.pod_group,
    (SELECT p.labels ->> l.label FROM unnest(%(labels)s::text[]) WITH ORDINALITY AS l(label, place)
     WHERE p.labels ? l.label ORDER BY l.place LIMIT 1) AS labelled
  FROM observations_pod p
  WHERE p.cluster_id = ANY(%(clusters)s) AND p.gone_at IS NULL AND p.node_name <> ''
    AND p.phase NOT IN ('Succeeded', 'Failed') AND (p.devices > 0 OR p.claims <> '[]'))
SELECT cluster_id, namespace, coalesce(labelled, nullif(pod_group, ''), owner_name) AS job,
  array_agg(DISTINCT node_name ORDER BY node_name), sum(greatest(devices, 1))
FROM held
WHERE labelled IS NOT NULL OR pod_group <> '' OR NOT owner_kind = ANY(%(replicas)s)
GROUP BY 1, 2, 3 HAVING count(DISTINCT node_name) > 1
ORDER BY 1, 2, 3
"""


@dataclass(frozen=True, slots=True)
class Job:
    """`accelerators`: units of whatever kind its pods hold, a pod that holds claims counts at least one."""

    cluster_id: int
    namespace: str
    name: str
    nodes: tuple[str, ...]
    accelerators: int

    @property
    def ref(self) -> Ref:
        return Ref("group", self.name, self.namespace)


def jobs_over_nodes(*, cluster_ids: Sequence[int]) -> list[Job]:
    """Jobs that hold accelerators on more than one node."""
    table = node_table()
    with connection.cursor() as cursor:
        cursor.execute(
            _JOBS,
            {
                "clusters": list(cluster_ids),
                "labels": list(table.job_labels),
                "replicas": list(table.replica_owners),
            },
        )
        return [Job(row[0], row[1], row[2], tuple(row[3]), int(row[4])) for row in cursor.fetchall()]


def work_notes(fleet: Fleet) -> Iterator[Note]:
    """At most one note of each code per cluster."""
    nodes: dict[tuple[int, str], NodeState] = {(node.cluster.pk, node.name): node for node in fleet.nodes}
    without: dict[int, list[Job]] = defaultdict(list)
    spanning: dict[int, list[Job]] = defaultdict(list)
    for job in jobs_over_nodes(cluster_ids=list(fleet.clusters)):
        own = [node for name in job.nodes if (node := nodes.get((job.cluster_id, name))) is not None]
        if len(own) != len(job.nodes):
            continue  # a node that is not known any more says nothing
        if job.accelerators >= node_table().rdma_from_accelerators and not any(map(has_rdma, own)):
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
