"""What does not fit together between jobs and nodes. Input: a fleet; output: `Note`s with the jobs that cause them.

A job is the pods of one JobSet, LeaderWorkerSet group, training job or Ray cluster (labels of data/nodes.yaml), else of
one PodGroup, else of one owner. Sets of replicas (ReplicaSet, StatefulSet, DaemonSet) are no job, although queues put
them into groups: each works for itself. Only jobs on several nodes count, by their living pods that are bound and hold accelerators.
- no_rdma: it holds `rdma_from_cards` whole cards or more, and none of its nodes offers RDMA (a resource, or a label).
- spans_capacity_types: some of its nodes are spot and some are not: losing the spot ones stops the whole job.
One query over the pods that hold something, and the device objects where jobs have claims: only for pages that
need it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from django.db import connection
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.capacity.capacity_types import SPOT, has_rdma_label, node_table
from apps.capacity.facts import Fleet, NodeState
from apps.capacity.reading import read_devices
from apps.capacity.rows import Note, Ref
from apps.core.gpu import SharingMode
from apps.fleet.models import Cluster

NAMES_SHOWN = 3
_JOBS = """
WITH held AS (
  SELECT p.cluster_id, p.namespace, p.node_name, p.requests, p.claims, p.owner_kind, p.owner_name,
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
SELECT cluster_id, namespace, job, node_name, r.key, sum(r.value::numeric), NULL::text[]
FROM named JOIN spread USING (cluster_id, namespace, job)
CROSS JOIN LATERAL jsonb_each_text(requests) r WHERE strpos(r.key, '/') > 0
GROUP BY 1, 2, 3, 4, 5
UNION ALL
SELECT cluster_id, namespace, job, node_name, '', NULL, array_agg(DISTINCT c ->> 'claim')
FROM named JOIN spread USING (cluster_id, namespace, job)
CROSS JOIN LATERAL jsonb_array_elements(claims) c WHERE c -> 'resources' = '[]'
GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4, 5
"""


Claimed = Mapping[tuple[str, str], Mapping[tuple[str, str], Decimal]]
"""(namespace, claim) → what it holds, {(node, resource): units}."""


@dataclass(slots=True)
class Job:
    """`amounts`: {(node, resource): units} that its pods ask for by name; `claims`: {node: claims of its pods there
    that serve no such name}."""

    cluster_id: int
    namespace: str
    name: str
    amounts: dict[tuple[str, str], Decimal] = field(default_factory=dict)
    claims: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def nodes(self) -> list[str]:
        return sorted({*self.claims, *(node for node, _resource in self.amounts)})

    @property
    def ref(self) -> Ref:
        return Ref("group", self.name, self.namespace)

    def whole_cards(self, nodes: Mapping[str, NodeState], claimed: Claimed) -> Decimal:
        """Cards that it holds whole, those of a claim once however many of its pods share it."""
        amounts = list(self.amounts.items())
        for claim in {name for names in self.claims.values() for name in names}:
            amounts += claimed.get((self.namespace, claim), {}).items()
        return sum(
            (
                amount
                for (node, resource), amount in amounts
                if node in nodes and _offers_whole(nodes[node], resource)
            ),
            Decimal(0),
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
        for cluster_id, namespace, name, node, resource, amount, claims in cursor.fetchall():
            job = found.setdefault((cluster_id, namespace, name), Job(cluster_id, namespace, name))
            if claims is None:
                job.amounts[node, resource] = amount
            else:
                job.claims[node] = tuple(claims)
    return list(found.values())


def work_notes(fleet: Fleet) -> Iterator[Note]:
    """At most one note of each code per cluster."""
    nodes: dict[int, dict[str, NodeState]] = defaultdict(dict)
    for node in fleet.nodes:
        nodes[node.cluster.pk][node.name] = node
    without: dict[int, list[Job]] = defaultdict(list)
    spanning: dict[int, list[Job]] = defaultdict(list)
    jobs = jobs_over_nodes(cluster_ids=list(fleet.clusters))
    claimed = _claimed(fleet, nodes, {job.cluster_id for job in jobs if job.claims})
    for job in jobs:
        known = nodes[job.cluster_id]
        if any(name not in known for name in job.nodes):
            continue  # a node that is not known any more says nothing
        own = [known[name] for name in job.nodes]
        cards = job.whole_cards(known, claimed.get(job.cluster_id, {}))
        if cards >= node_table().rdma_from_cards and not any(map(has_rdma, own)):
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


def _claimed(
    fleet: Fleet, nodes: Mapping[int, Mapping[str, NodeState]], cluster_ids: Collection[int]
) -> dict[int, Claimed]:
    """What claims hold in these clusters, as far as drivers list it."""
    if not cluster_ids:
        return {}
    labels = {pk: {name: node.health.labels for name, node in nodes[pk].items()} for pk in cluster_ids}
    views = read_devices(cluster_ids=cluster_ids, nodes=labels, now=fleet.now)
    return {pk: view.held_by_claim for pk, view in views.items()}


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
