"""What work holds and what waits, summed in the database. Input: clusters; output: sums per (queue, resource).

Three statements whatever the number of workloads; no workload reaches Python. Invariants
- Kueue: a reservation counts as `usage` says, in whatever flavor, whether the queue's spec lists it or not.
- Volcano: what pods of a PodGroup hold on nodes is admitted; a group let in without its pods counts with what it
  asked for, less the pods it has. Where pods were never read, a running group counts with what it asked for.
- Waiting is state "pending" of active work; its resources are asked, not placed, so there is no flavor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.db import connection

WORKLOAD, POD_GROUP = "Workload", "PodGroup"

_USAGE = """
SELECT w.cluster_id, w.namespace, w.queue_name, w.cluster_queue, u.flavor, u.resource,
  sum(u.quantity), coalesce(sum(u.quantity) FILTER (WHERE w.state = 'admitted'), 0)
FROM observations_workload w
CROSS JOIN LATERAL jsonb_to_recordset(w.usage) AS u(flavor text, resource text, quantity numeric)
WHERE w.cluster_id = ANY(%(clusters)s) AND w.gone_at IS NULL AND w.kind = 'Workload' AND w.usage <> '[]'::jsonb
GROUP BY 1, 2, 3, 4, 5, 6
"""

_GROUPS = """
WITH pods AS (
  SELECT p.cluster_id, p.namespace, p.pod_group, r.key AS resource, sum(r.value::numeric) AS amount
  FROM observations_pod p CROSS JOIN LATERAL jsonb_each_text(p.requests) r
  WHERE p.cluster_id = ANY(%(clusters)s) AND p.gone_at IS NULL AND p.pod_group <> '' AND p.node_name <> ''
    AND p.phase NOT IN ('Succeeded', 'Failed')
  GROUP BY 1, 2, 3, 4),
asked AS (
  SELECT w.cluster_id, w.namespace, w.name, w.queue_name, w.state, u.resource, sum(u.quantity) AS amount
  FROM observations_workload w
  CROSS JOIN LATERAL jsonb_to_recordset(w.usage) AS u(resource text, quantity numeric)
  WHERE w.cluster_id = ANY(%(clusters)s) AND w.gone_at IS NULL AND w.kind = 'PodGroup' AND w.usage <> '[]'::jsonb
  GROUP BY 1, 2, 3, 4, 5, 6),
pods_read AS (SELECT DISTINCT cluster_id FROM observations_pod WHERE cluster_id = ANY(%(clusters)s)),
held AS (
  SELECT w.cluster_id, w.namespace, w.queue_name, p.resource, p.amount AS reserved, p.amount AS admitted
  FROM pods p JOIN observations_workload w ON w.cluster_id = p.cluster_id AND w.namespace = p.namespace
    AND w.name = p.pod_group AND w.kind = 'PodGroup' AND w.gone_at IS NULL
  UNION ALL
  SELECT a.cluster_id, a.namespace, a.queue_name, a.resource, greatest(a.amount - coalesce(p.amount, 0), 0), 0
  FROM asked a LEFT JOIN pods p ON p.cluster_id = a.cluster_id AND p.namespace = a.namespace
    AND p.pod_group = a.name AND p.resource = a.resource
  WHERE a.state = 'reserved'
  UNION ALL
  SELECT a.cluster_id, a.namespace, a.queue_name, a.resource, a.amount, a.amount
  FROM asked a WHERE a.state = 'admitted' AND a.cluster_id NOT IN (SELECT cluster_id FROM pods_read))
SELECT cluster_id, namespace, queue_name, queue_name, '', resource, sum(reserved), sum(admitted)
FROM held GROUP BY 1, 2, 3, resource HAVING sum(reserved) > 0
"""

_WAITING = """
SELECT w.cluster_id, w.kind, w.namespace, w.queue_name, r.key, sum(r.amount), count(*)
FROM observations_workload w
CROSS JOIN LATERAL (
  SELECT key, value::numeric AS amount FROM jsonb_each_text(w.requests) UNION ALL SELECT '', 0) r
WHERE w.cluster_id = ANY(%(clusters)s) AND w.gone_at IS NULL AND w.state = 'pending' AND w.active
GROUP BY 1, 2, 3, 4, 5
"""

_ADMITTED = """
SELECT CASE WHEN w.kind = 'Workload' THEN 'ClusterQueue' ELSE 'VolcanoQueue' END,
  CASE WHEN w.kind = 'Workload' THEN w.cluster_queue ELSE w.queue_name END,
  coalesce(u.flavor, ''), u.resource, count(DISTINCT w.id)
FROM observations_workload w
CROSS JOIN LATERAL jsonb_to_recordset(w.usage) AS u(flavor text, resource text, quantity numeric)
WHERE w.cluster_id = %(cluster)s AND w.gone_at IS NULL AND w.state = 'admitted' AND u.quantity > 0
GROUP BY 1, 2, 3, 4
"""
Counts = dict[tuple[str, str], dict[tuple[str, str], int]]
"""Per (kind of queue, queue) and (flavor, resource)."""


@dataclass(frozen=True, slots=True)
class Held:
    """Quota that work of one LocalQueue (or of one namespace in a Volcano queue) holds."""

    cluster_id: int
    kind: str
    namespace: str
    queue_name: str
    queue: str
    flavor: str
    resource: str
    reserved: Decimal
    admitted: Decimal


@dataclass(frozen=True, slots=True)
class Asked:
    """What waits behind one LocalQueue (or in one namespace of a Volcano queue). `resource` "" counts the work
    itself, once each, with amount 0."""

    cluster_id: int
    kind: str
    namespace: str
    queue_name: str
    resource: str
    amount: Decimal
    count: int


def held_by_queue(*, cluster_ids: Sequence[int]) -> list[Held]:
    """Every reservation, summed; see the module's invariants."""
    with connection.cursor() as cursor:
        parameters = {"clusters": list(cluster_ids)}
        cursor.execute(_USAGE, parameters)
        kueue = [Held(row[0], WORKLOAD, *row[1:]) for row in cursor.fetchall()]
        cursor.execute(_GROUPS, parameters)
        return kueue + [Held(row[0], POD_GROUP, *row[1:]) for row in cursor.fetchall()]


def asked_by_queue(*, cluster_ids: Sequence[int]) -> list[Asked]:
    """Everything that waits, summed."""
    with connection.cursor() as cursor:
        cursor.execute(_WAITING, {"clusters": list(cluster_ids)})
        return [Asked(*row) for row in cursor.fetchall()]


def admitted_counts(*, cluster_id: int) -> Counts:
    """How many pieces of admitted work a reservation of each queue, flavor and resource is for."""
    found: Counts = {}
    with connection.cursor() as cursor:
        cursor.execute(_ADMITTED, {"cluster": cluster_id})
        for kind, queue, flavor, resource, count in cursor.fetchall():
            found.setdefault((kind, queue), {})[flavor, resource] = count
    return found
