"""Where waiting work stands in its queue: what Kueue itself says, else computed by its rule and labelled so.

Input: primary keys of Workloads; output: `Position`s of those that wait for quota. One query, over the queues in
question only. Invariants: 1 is next; Kueue's word counts while it is not older than FRESH; the computed order is
priority (highest first), Kueue's instant (queue_order.py), uid, and knows nothing of fair sharing between queues.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from django.db import connection

from apps.quotas.queue_order import queue_order_sql

FRESH = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Position:
    """`position` in the ClusterQueue or Volcano queue, `local_position` in the LocalQueue. `source`: "kueue" as said
    by its visibility API, "computed" by us. `behind`: work that is not in backoff stands before it, by the computed
    order."""

    position: int
    local_position: int
    source: Literal["kueue", "computed"]
    behind: bool = False


_POSITIONS = f"""
WITH asked AS MATERIALIZED (
  SELECT DISTINCT w.cluster_id, CASE WHEN w.kind = 'PodGroup' THEN w.queue_name
    ELSE coalesce(nullif(w.cluster_queue, ''), l.queue, '') END AS queue
  FROM observations_workload w
  LEFT JOIN LATERAL (
    SELECT o.spec->>'cluster_queue' AS queue FROM observations_clusterobject o
    WHERE o.cluster_id = w.cluster_id AND o.kind = 'LocalQueue' AND o.namespace = w.namespace AND o.name = w.queue_name
      AND o.gone_at IS NULL ORDER BY o.id DESC LIMIT 1) l ON true
  WHERE w.id = ANY(%(keys)s)
), leads_to AS MATERIALIZED (
  SELECT DISTINCT ON (cluster_id, namespace, name) cluster_id, namespace, name, spec->>'cluster_queue' AS queue,
    coalesce(spec->>'stop_policy', 'None') <> 'None' AS stopped
  FROM observations_clusterobject
  WHERE kind = 'LocalQueue' AND gone_at IS NULL AND cluster_id IN (SELECT cluster_id FROM asked)
    AND (cluster_id, spec->>'cluster_queue') IN (SELECT cluster_id, queue FROM asked)
  ORDER BY cluster_id, namespace, name, id DESC
), waiting AS MATERIALIZED (
  SELECT w.id, w.cluster_id, w.kind, w.namespace, w.name, w.queue_name, w.uid, coalesce(w.priority, 0) AS priority,
    {queue_order_sql("w")} AS queued, coalesce(w.requeue_at > %(now)s, false) AS backs_off,
    CASE WHEN w.kind = 'PodGroup' THEN w.queue_name ELSE coalesce(nullif(w.cluster_queue, ''), l.queue, '') END AS queue
  FROM observations_workload w
  LEFT JOIN leads_to l ON (l.cluster_id, l.namespace, l.name) = (w.cluster_id, w.namespace, w.queue_name)
  WHERE w.cluster_id IN (SELECT cluster_id FROM asked) AND w.state = 'pending' AND w.gone_at IS NULL
    AND (w.kind = 'PodGroup' OR l.stopped IS NOT TRUE)
    AND (w.cluster_id, CASE WHEN w.kind = 'PodGroup' THEN w.queue_name
      ELSE coalesce(nullif(w.cluster_queue, ''), l.queue) END) IN (SELECT cluster_id, queue FROM asked)
), ranked AS (
  SELECT id, cluster_id, kind, namespace, name, queue,
    row_number() OVER (PARTITION BY cluster_id, kind, queue
      ORDER BY priority DESC, queued NULLS LAST, uid) AS position,
    row_number() OVER (PARTITION BY cluster_id, kind, queue, namespace, queue_name
      ORDER BY priority DESC, queued NULLS LAST, uid) AS local_position,
    coalesce(bool_or(NOT backs_off) OVER (PARTITION BY cluster_id, kind, queue
      ORDER BY priority DESC, queued NULLS LAST, uid ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), false) AS behind
  FROM waiting
  WHERE queue <> '' AND (cluster_id, kind, queue) IN (
    SELECT cluster_id, kind, queue FROM waiting WHERE id = ANY(%(keys)s))
), told AS (
  SELECT r.id, r.position, r.local_position, r.behind, q.position AS said, q.local_position AS said_local,
    bool_and(q.position IS NOT NULL) OVER (PARTITION BY r.cluster_id, r.kind, r.queue) AS all_said
  FROM ranked r LEFT JOIN observations_queueposition q ON r.kind = 'Workload' AND q.observed_at >= %(fresh)s
    AND (q.cluster_id, q.cluster_queue, q.namespace, q.name) = (r.cluster_id, r.queue, r.namespace, r.name)
)
SELECT id, position, local_position, CASE WHEN all_said THEN said + 1 END, CASE WHEN all_said THEN said_local + 1 END, behind
FROM told WHERE id = ANY(%(keys)s)
"""  # noqa: S608 - constants


def positions(*, now: datetime, keys: Collection[int]) -> dict[int, Position]:
    """By primary key. Work that has quota, or whose queue cannot be told, has no position, nor has
    work of a stopped LocalQueue: Kueue takes it out of the queue, and it is in nobody's way."""
    if not keys:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_POSITIONS, {"keys": list(keys), "now": now, "fresh": now - FRESH})
        return {
            key: Position(position, local, "computed", behind)
            if said is None
            else Position(said, said_local, "kueue", behind)
            for key, position, local, said, said_local, behind in cursor.fetchall()
        }
