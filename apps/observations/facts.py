"""Writing facts that are not current objects: cluster events and device samples.

Input: staged rows; output: rows of the partitioned tables. Invariants: an Event is one row per (cluster, uid,
creation) that follows the count of its newest version and never vanishes with the cluster's own copy; a sample
is written once and never changed. The same rows twice write nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection
from psycopg import sql

from .cards import keep_cards
from .models import DeviceSample, Event
from .staging import Change, Rejected, Staging, Target, names, run
from .writers import Written

_EVENTS = """
WITH fresh AS MATERIALIZED (
  SELECT s.*, o.id IS NULL AS is_new FROM {stage} s
  JOIN (SELECT uid, created_at, max(seq) AS seq FROM {stage} WHERE NOT gone GROUP BY uid, created_at) n USING (seq)
  LEFT JOIN {table} o ON o.cluster_id = {cluster} AND o.uid = s.uid AND o.created_at = s.created_at
  WHERE o.id IS NULL OR ({old}) IS DISTINCT FROM ({new})
), put AS (
  INSERT INTO {table} AS t (cluster_id, {columns}, observed_at)
  SELECT {cluster}, {staged}, s.at FROM fresh s ORDER BY s.seq
  ON CONFLICT (cluster_id, uid, created_at) DO UPDATE SET ({columns}, observed_at) = ROW({excluded},
    EXCLUDED.observed_at)
  RETURNING 1
)
SELECT (SELECT count(*) FROM put), (SELECT min(coalesce(first_at, created_at)) FROM fresh WHERE is_new)
"""

_SAMPLES = """
INSERT INTO {table} (cluster_id, {columns}) SELECT {cluster}, {staged} FROM {stage} s ORDER BY s.seq
ON CONFLICT (cluster_id, device, instance, sampled_at) DO NOTHING
"""


def merge_events(*, cluster_id: int, staging: Staging) -> Written:
    """Store the staged Events; a DELETED one keeps its row. Rows inserted or changed are counted as updated."""
    columns = staging.target.columns
    compared = [column for column in columns if column not in ("uid", "created_at", "resource_version")]
    statement = sql.SQL(_EVENTS).format(
        table=staging.target.table,
        stage=staging.table,
        cluster=sql.Literal(cluster_id),
        columns=names(columns),
        staged=names(columns, "s"),
        excluded=names(columns, "excluded"),
        old=names(compared, "o"),
        new=names(compared, "s"),
    )
    with connection.cursor() as cursor:
        cursor.execute(statement)
        count, told_from = cursor.fetchone()
    return Written(updated=count, told_from=told_from)


def event_target(columns: Sequence[str]) -> Target:
    return Target(Event, "Event", tuple(columns))


def write_samples(
    *, cluster_id: int, columns: Sequence[str], rows: Sequence[tuple[object, ...]]
) -> tuple[int, list[Rejected]]:
    """Store device samples; those already stored for their (device, instance, instant) stay as they are. Which cards
    their nodes have is kept as well."""
    target = Target(DeviceSample, "DeviceSample", tuple(columns))
    staging = Staging(target)
    at = rows[0][target.index("sampled_at")] if rows else None
    rejected = staging.add([Change(at, False, row) for row in rows])  # type: ignore[arg-type]
    written = run(
        sql.SQL(_SAMPLES).format(
            table=target.table,
            stage=staging.table,
            cluster=sql.Literal(cluster_id),
            columns=names(columns),
            staged=names(columns, "s"),
        )
    )
    if staging.count:
        keep_cards(cluster_id=cluster_id, staging=staging)
    return written, rejected
