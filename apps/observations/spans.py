"""State spans of Workloads and PodGroups, kept by SQL beside every merge.

Input: versions of objects in order of arrival (staged rows, or current rows whose LocalQueue changed) and the
spans that are open; output: spans closed, opened and refreshed. Invariants, per object: spans are half-open, do
not overlap, leave no gap while the object exists, and exactly one is open while it does. A new span starts when
state, reason, message class, queue, requests or usage differ; numbers in a message do not count ("3 more needed"
→ "2 more needed" stays one span, which keeps the newest message), nor does the time until which the cluster puts off
queueing waiting work again: a span keeps the last that it was told. Our own clock places the borders; when it
steps back, a border stays where the last one was.
"""

from __future__ import annotations

from psycopg import sql

from .staging import Staging, run

# A number, with or without a quantity's suffix, that is not part of a name such as "h100" or "a100-40g".
MESSAGE_NUMBER = r"(?<![\w.-])\d+(\.\d+)?([kMGTPE]i?|Ki|m|u|n|s|ms)?(?![\w-])"

_ATTRIBUTES = "kind, namespace, name, queue_name, queue, state, reason, message, requests, usage, requeue_at"

# What the spans of each known object say: the open one, and the time before which the next may not begin. Lookups
# per object without LIMIT: a planner that knows nothing of a fresh table would rather read all spans in order.
_STEPS = """
CREATE TEMP TABLE {steps} ON COMMIT DROP AS
WITH newest AS MATERIALIZED (
  SELECT known.uid, l.* FROM {known} CROSS JOIN LATERAL (
    SELECT max(id) FILTER (WHERE ended_at IS NULL) AS open_id, max(coalesce(ended_at, started_at)) AS floor_at
    FROM observations_statespan WHERE cluster_id = {cluster} AND uid = known.uid
  ) l
), input AS (
  SELECT open_id, seq, uid, gone, {attributes},
    greatest(max(at) OVER (PARTITION BY uid ORDER BY seq), floor_at) AS at
  FROM (
    SELECT NULL::bigint AS open_id, v.*, n.floor_at FROM ({versions}) v LEFT JOIN newest n USING (uid)
    UNION ALL
    SELECT o.id, -1, o.started_at, o.uid, false, {attributes}, NULL
    FROM newest n JOIN observations_statespan o ON o.id = n.open_id
  ) all_versions
), timed AS (
  SELECT *, coalesce(lead(at) OVER (PARTITION BY uid ORDER BY seq) <= at, false) AS empty FROM input
), compared AS (
  SELECT *,
    lag(uid) OVER w IS NULL
    OR lag(gone) OVER w IS DISTINCT FROM gone
    OR (NOT gone AND (
      (state, reason, queue_name, queue) IS DISTINCT FROM
        (lag(state) OVER w, lag(reason) OVER w, lag(queue_name) OVER w, lag(queue) OVER w)
      OR requests IS DISTINCT FROM lag(requests) OVER w
      OR usage IS DISTINCT FROM lag(usage) OVER w
      OR (message <> lag(message) OVER w AND
        regexp_replace(message, {number}, '#', 'g') <> regexp_replace(lag(message) OVER w, {number}, '#', 'g'))
    )) AS starts
  FROM timed WHERE NOT empty WINDOW w AS (PARTITION BY uid ORDER BY seq)
), stretches AS (
  SELECT *, count(*) FILTER (WHERE starts) OVER (PARTITION BY uid ORDER BY seq) AS stretch FROM compared
), worded AS (
  SELECT *, last_value(message) OVER (PARTITION BY uid, stretch ORDER BY seq
    ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS newest_message,
    max(requeue_at) OVER (PARTITION BY uid, stretch) AS last_requeue_at FROM stretches
)
SELECT open_id, seq, uid, gone, {attributes}, newest_message, last_requeue_at, empty, at,
  lead(at) OVER (PARTITION BY uid ORDER BY seq) AS ends FROM worded WHERE starts
UNION ALL
SELECT open_id, seq, uid, gone, {attributes}, message, requeue_at, empty, at, NULL FROM timed
WHERE empty AND open_id IS NOT NULL
"""

_DROP_EMPTY = "DELETE FROM observations_statespan o USING {steps} s WHERE o.id = s.open_id AND s.empty"

_CLOSE = """
UPDATE observations_statespan o SET ended_at = s.ends, message = s.newest_message,
  requeue_at = s.last_requeue_at FROM {steps} s
WHERE o.id = s.open_id AND NOT s.empty AND (s.ends IS NOT NULL OR s.newest_message <> o.message
  OR s.last_requeue_at IS DISTINCT FROM o.requeue_at)
"""

_OPEN = """
INSERT INTO observations_statespan (cluster_id, uid, {attributes}, started_at, ended_at)
SELECT {cluster}, uid, kind, namespace, name, queue_name, queue, state, reason, newest_message, requests, usage,
  last_requeue_at, at, ends FROM {steps} WHERE open_id IS NULL AND NOT gone ORDER BY seq
"""

_QUEUE_OF = """CASE WHEN {row}.cluster_queue <> '' THEN {row}.cluster_queue
  WHEN {row}.kind = 'PodGroup' THEN {row}.queue_name ELSE coalesce(q.queue, '') END"""

_LOCAL_QUEUES = """LEFT JOIN (SELECT DISTINCT ON (namespace, name) namespace, name,
  left(spec->>'cluster_queue', 253) AS queue FROM observations_clusterobject
  WHERE cluster_id = {cluster} AND kind = 'LocalQueue' AND gone_at IS NULL
  ORDER BY namespace, name, id DESC) q
  ON {row}.kind = 'Workload' AND q.namespace = {row}.namespace AND q.name = {row}.queue_name"""

_COLUMNS = """{row}.kind, {row}.namespace, {row}.name, {row}.queue_name, {queue} AS queue, {row}.state, {row}.reason,
  {row}.message, {row}.requests, {row}.usage,
  CASE WHEN {row}.state = 'pending' THEN {row}.requeue_at END AS requeue_at"""


def _selected(cluster_id: int, row: str) -> tuple[sql.Composed, sql.Composed]:
    """The columns of a version, with its ClusterQueue found, and the join that finds it."""
    alias = sql.Identifier(row)
    queue = sql.SQL(_QUEUE_OF).format(row=alias)
    joined = sql.SQL(_LOCAL_QUEUES).format(cluster=sql.Literal(cluster_id), row=alias)
    return sql.SQL(_COLUMNS).format(row=alias, queue=queue), joined


def _write(*, cluster_id: int, versions: sql.Composable, known: sql.Composable, name: str) -> int:
    """Turn `versions` (seq, at, uid, gone, attributes) into spans; `known`: the objects already stored."""
    parts = {
        "cluster": sql.Literal(cluster_id),
        "versions": versions,
        "known": known,
        "steps": sql.Identifier(f"steps_{name}"),
        "attributes": sql.SQL(_ATTRIBUTES),
        "number": sql.Literal(MESSAGE_NUMBER),
    }
    if not run(sql.SQL(_STEPS).format(**parts)):
        return 0
    written = run(sql.SQL(_DROP_EMPTY).format(**parts))
    written += run(sql.SQL(_CLOSE).format(**parts))
    written += run(sql.SQL(_OPEN).format(**parts))
    return written


def write_spans(*, cluster_id: int, staging: Staging, changed: sql.Identifier) -> int:
    """Spans for the staged versions of the changed workloads; returns the rows touched."""
    columns, joined = _selected(cluster_id, "s")
    versions = sql.SQL(
        "SELECT s.seq, s.at, s.uid, s.gone, {columns} FROM {stage} s JOIN {changed} c ON c.uid = s.uid {joined}"
    ).format(columns=columns, stage=staging.table, changed=changed, joined=joined)
    known = sql.SQL("(SELECT uid FROM {} WHERE old_id IS NOT NULL) known").format(changed)
    return _write(cluster_id=cluster_id, versions=versions, known=known, name=staging.name)


def open_spans(*, cluster_id: int, kind: str) -> int:
    """Spans for the workloads of a first list, which are all new: there is nothing to compare with."""
    columns, joined = _selected(cluster_id, "w")
    return run(
        sql.SQL(
            "INSERT INTO observations_statespan (cluster_id, uid, {attributes}, started_at)"
            " SELECT {cluster}, w.uid, {columns}, w.observed_at FROM observations_workload w {joined}"
            " WHERE w.cluster_id = {cluster} AND w.kind = {kind} ORDER BY w.id"
        ).format(
            attributes=sql.SQL(_ATTRIBUTES),
            cluster=sql.Literal(cluster_id),
            kind=sql.Literal(kind),
            columns=columns,
            joined=joined,
        )
    )


def close_spans(*, cluster_id: int, leaving: sql.Identifier) -> int:
    """End the open spans of the workloads in `leaving` (uid, at)."""
    parts = {"cluster": sql.Literal(cluster_id), "leaving": leaving}
    empty = run(
        sql.SQL(
            "DELETE FROM observations_statespan o USING {leaving} l WHERE o.cluster_id = {cluster}"
            " AND o.uid = l.uid AND o.ended_at IS NULL AND l.at <= o.started_at"
        ).format(**parts)
    )
    return empty + run(
        sql.SQL(
            "UPDATE observations_statespan o SET ended_at = l.at FROM {leaving} l"
            " WHERE o.cluster_id = {cluster} AND o.uid = l.uid AND o.ended_at IS NULL"
        ).format(**parts)
    )


def requeue_spans(*, cluster_id: int, moved: sql.Identifier, name: str) -> int:
    """Split the open spans of work whose LocalQueue in `moved` (namespace, name, at) now leads elsewhere."""
    columns, joined = _selected(cluster_id, "w")
    versions = sql.SQL(
        "SELECT 0::bigint AS seq, m.at, w.uid, false AS gone, {columns} FROM {moved} m"
        " JOIN observations_workload w ON w.cluster_id = {cluster} AND w.kind = 'Workload'"
        " AND w.namespace = m.namespace AND w.queue_name = m.name AND w.gone_at IS NULL"
        " AND w.cluster_queue = '' {joined}"
    ).format(cluster=sql.Literal(cluster_id), columns=columns, moved=moved, joined=joined)
    known = sql.SQL(
        "(SELECT w.uid FROM {moved} m JOIN observations_workload w ON w.cluster_id = {cluster}"
        " AND w.kind = 'Workload' AND w.namespace = m.namespace AND w.queue_name = m.name"
        " AND w.gone_at IS NULL AND w.cluster_queue = '') known"
    ).format(cluster=sql.Literal(cluster_id), moved=moved)
    return _write(cluster_id=cluster_id, versions=versions, known=known, name=name)
