"""What keeps waiting work from being admitted however much quota is free: its queue admits nothing, or another piece of
work must go first. Input: primary keys of Workloads; output: `Gate`s. One query, by name, of the work in question only.

Invariants: a ClusterQueue counts before the LocalQueue that leads to it; only a head that stands before it and is not in
backoff can block work (Kueue keeps what is in backoff outside of the line), so that work whose position is not known is
never said to be behind one. Kueue calls a queue below a circle of cohorts active, and skips it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from django.db import connection

Blocked = Literal[
    "", "cluster_queue_stopped", "cluster_queue_inactive", "cohort_cycle", "local_queue_stopped", "behind_head"
]  # fmt: skip
CODES: tuple[Blocked, ...] = (
    "cluster_queue_stopped",
    "cluster_queue_inactive",
    "cohort_cycle",
    "local_queue_stopped",
    "behind_head",
)


@dataclass(frozen=True, slots=True)
class Gate:
    """Of one piece of work. `closed`: why nothing of its queue is admitted, "" when it is. `strict`: the head of its queue
    blocks what stands behind it (StrictFIFO)."""

    closed: Blocked = ""
    strict: bool = False

    def blocked(self, *, behind: bool, lacks: bool) -> Blocked:
        """`behind`: whether work that is not in backoff stands before it. `lacks`: whether something is short for it, or
        not known; then it would not start as the head either."""
        if self.closed:
            return self.closed
        return "behind_head" if self.strict and not lacks and behind else ""


OPEN = Gate()

_OBJECT = """
  SELECT o.spec, o.status FROM observations_clusterobject o
  WHERE o.cluster_id = w.cluster_id AND o.kind = {kind} AND o.namespace = {namespace} AND o.name = {name}
    AND o.gone_at IS NULL ORDER BY o.id DESC LIMIT 1
"""
_LOCAL = _OBJECT.format(kind="'LocalQueue'", namespace="w.namespace", name="w.queue_name")
_QUEUE = _OBJECT.format(
    kind="CASE WHEN w.kind = 'PodGroup' THEN 'VolcanoQueue' ELSE 'ClusterQueue' END",
    namespace="''",
    name="CASE WHEN w.kind = 'PodGroup' THEN w.queue_name "
    "ELSE coalesce(nullif(w.cluster_queue, ''), l.spec->>'cluster_queue') END",
)
# Whether the way up from the queue's cohort comes back to where it was.
_CIRCLE = """
  WITH RECURSIVE above(name) AS (
    SELECT q.spec->>'cohort' WHERE w.kind = 'Workload' AND q.spec->>'cohort' <> ''
    UNION ALL
    SELECT o.spec->>'parent' FROM above JOIN observations_clusterobject o ON o.cluster_id = w.cluster_id
      AND o.kind = 'Cohort' AND o.namespace = '' AND o.name = above.name AND o.gone_at IS NULL
    WHERE o.spec->>'parent' <> ''
  ) CYCLE name SET again USING path
  SELECT coalesce(bool_or(again), false) AS found FROM above
"""
# What is stopped says so in its spec at once; why else a queue is not active only Kueue says, afterwards.
_GATES = f"""
SELECT w.id, CASE
    WHEN w.kind = 'PodGroup' THEN
      CASE WHEN q.status->>'state' IN ('Closed', 'Closing') THEN 'cluster_queue_stopped' ELSE '' END
    WHEN coalesce(q.spec->>'stop_policy', 'None') <> 'None' THEN 'cluster_queue_stopped'
    WHEN q.status->'conditions'->'Active'->>'status' = 'False'
      AND q.status->'conditions'->'Active'->>'reason' <> 'Stopped' THEN 'cluster_queue_inactive'
    WHEN circle.found THEN 'cohort_cycle'
    WHEN coalesce(l.spec->>'stop_policy', 'None') <> 'None' THEN 'local_queue_stopped'
    ELSE '' END,
  w.kind = 'Workload' AND coalesce(q.spec->>'strategy', '') = 'StrictFIFO'
FROM observations_workload w
LEFT JOIN LATERAL ({_LOCAL}) l ON w.kind = 'Workload'
LEFT JOIN LATERAL ({_QUEUE}) q ON true
LEFT JOIN LATERAL ({_CIRCLE}) circle ON true
WHERE w.id = ANY(%s)
"""  # noqa: S608 - constants


def gates(keys: Collection[int]) -> dict[int, Gate]:
    """By primary key. Work whose queue is not known has an open gate: nothing is said of it."""
    if not keys:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_GATES, [list(keys)])
        return {key: Gate(closed, strict) for key, closed, strict in cursor.fetchall()}
