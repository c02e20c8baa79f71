"""Merging staged versions into the current objects, with their history, in the caller's transaction.

Input: a Staging with rows of one kind of one cluster; output: what was written. Invariants: the same rows twice
write nothing; the last version in order of arrival is the current state; an object that a complete list no
longer holds is marked gone, never deleted; an object that came back under its old name with a new uid ends the
old one; `observed_at` moves only when something other than the resourceVersion changed. resourceVersions are
compared for equality only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from psycopg import sql

from .facets import facets_of, write_leavings, write_transitions
from .models import Event, Pod, Workload
from .spans import close_spans, requeue_spans, write_spans
from .staging import Staging, Target, names, run, tell_planner, value


@dataclass(slots=True)
class Written:
    """What a merge did. `rows` counts objects inserted or changed, `gone` those newly marked gone; `told_from` is the
    earliest moment that it told of for the first time, known of GPU pods and events."""

    inserted: int = 0
    updated: int = 0
    gone: int = 0
    transitions: int = 0
    spans: int = 0
    told_from: datetime | None = None

    @property
    def rows(self) -> int:
        return self.inserted + self.updated

    def __iadd__(self, other: Written) -> Written:
        self.inserted += other.inserted
        self.updated += other.updated
        self.gone += other.gone
        self.transitions += other.transitions
        self.spans += other.spans
        self.told_from = min(filter(None, (self.told_from, other.told_from)), default=None)
        return self


_CHANGED = """
CREATE TEMP TABLE {changed} ON COMMIT DROP AS
SELECT s.uid, s.seq, n.first_at, t.id AS old_id, {differs} AS differs, {moved} AS moved
FROM (SELECT uid, max(seq) AS seq, min(at) AS first_at FROM {stage} GROUP BY uid) n
JOIN {stage} s USING (seq)
LEFT JOIN {table} t ON t.cluster_id = {cluster} AND t.uid = s.uid
WHERE t.id IS NULL OR s.gone <> (t.gone_at IS NOT NULL) OR t.resource_version <> s.resource_version OR {differs}
"""

_INSERT = """
INSERT INTO {table} (cluster_id, {columns}, first_seen_at, observed_at, gone_at)
SELECT {cluster}, {staged}, c.first_at, s.at, CASE WHEN s.gone THEN s.at END
FROM {changed} c JOIN {stage} s USING (seq) WHERE c.old_id IS NULL ORDER BY c.seq
"""

_UPDATE = """
UPDATE {table} t SET ({columns}, observed_at, gone_at) = ROW({staged},
  CASE WHEN c.differs OR s.gone <> (t.gone_at IS NOT NULL) THEN s.at ELSE t.observed_at END,
  CASE WHEN s.gone THEN coalesce(t.gone_at, s.at) END)
FROM {changed} c JOIN {stage} s USING (seq) WHERE t.id = c.old_id
"""

# Of GPU pods: what they do is part of the life of work.
_TOLD = """
SELECT min(least(
  CASE WHEN t.id IS NULL THEN coalesce(s.created_at, s.at) END,
  CASE WHEN s.bound_at IS DISTINCT FROM t.bound_at THEN s.bound_at END,
  CASE WHEN s.started_at IS DISTINCT FROM t.started_at THEN s.started_at END,
  CASE WHEN s.finished_at IS DISTINCT FROM t.finished_at THEN s.finished_at END,
  CASE WHEN s.conditions->'Ready'->>'status' = 'True' AND s.conditions->'Ready' IS DISTINCT FROM t.conditions->'Ready'
    THEN (s.conditions->'Ready'->>'since')::timestamptz END))
FROM {changed} c JOIN {stage} s USING (seq) LEFT JOIN {table} t ON t.id = c.old_id
WHERE (s.devices > 0 OR s.claims <> '[]') AND (t.id IS NOT NULL OR {record_new})
"""

_NEWLY_GONE = """
SELECT count(*) FROM {changed} c JOIN {stage} s USING (seq) LEFT JOIN {table} t ON t.id = c.old_id
WHERE s.gone AND (t.id IS NULL OR t.gone_at IS NULL)
"""

_REPLACED = """
CREATE TEMP TABLE {leaving} ON COMMIT DROP AS
SELECT o.id, o.uid, o.namespace, o.name, max(s.at) AS at FROM {changed} c JOIN {stage} s USING (seq)
JOIN {table} o ON o.cluster_id = {cluster} AND {same_kind} AND o.namespace = s.namespace AND o.name = s.name
  AND o.uid <> s.uid AND o.gone_at IS NULL
WHERE c.old_id IS NULL AND NOT s.gone GROUP BY o.id
"""

# Everything listed is stored by now: when as many are live as were listed, they are the same.
_MORE_THAN_LISTED = """
SELECT (SELECT count(*) FROM {table} o WHERE o.cluster_id = {cluster} AND {same_kind} AND o.gone_at IS NULL)
  > (SELECT count(*) FROM (SELECT uid FROM {stage} GROUP BY uid) listed)
"""

_UNLISTED = """
CREATE TEMP TABLE {leaving} ON COMMIT DROP AS
SELECT o.id, o.uid, o.namespace, o.name, {at}::timestamptz AS at FROM {table} o
WHERE o.cluster_id = {cluster} AND {same_kind} AND o.gone_at IS NULL
AND NOT EXISTS (SELECT 1 FROM {stage} s WHERE s.uid = o.uid)
AND o.uid <> ALL({kept}) AND o.namespace || '/' || o.name <> ALL({kept})
"""

_MOVED = """
CREATE TEMP TABLE {target} ON COMMIT DROP AS SELECT namespace, name, max(at) AS at FROM (
  SELECT s.namespace, s.name, s.at FROM {changed} c JOIN {stage} s USING (seq) WHERE c.moved {gone}
) m GROUP BY namespace, name
"""


def _parts(staging: Staging, cluster_id: int) -> dict[str, sql.Composable]:
    target = staging.target
    content = [column for column in target.columns if column not in ("uid", "resource_version")]
    differs = sql.SQL(" OR ").join(
        sql.SQL("{} IS DISTINCT FROM {}").format(sql.Identifier("t", column), sql.Identifier("s", column))
        for column in content
    )
    same_kind: sql.Composable = sql.SQL("true")
    if target.has_kind:
        same_kind = sql.SQL("o.kind = {}").format(sql.Literal(target.kind))
    # A LocalQueue whose counters changed leads where it led before.
    leads = "(t.id IS NULL OR s.gone OR t.spec IS DISTINCT FROM s.spec)"
    return {
        "moved": sql.SQL(leads) if target.kind == "LocalQueue" else sql.SQL("false"),
        "cluster": sql.Literal(cluster_id),
        "table": target.table,
        "stage": staging.table,
        "changed": sql.Identifier(f"changed_{staging.name}"),
        "leaving": sql.Identifier(f"leaving_{staging.name}"),
        "columns": names(target.columns),
        "staged": names(target.columns, "s"),
        "differs": sql.SQL("({})").format(differs),
        "same_kind": same_kind,
    }


def _leave(*, cluster_id: int, staging: Staging, parts: dict[str, sql.Composable]) -> int:
    """Mark the objects in the `leaving` table gone, with their history."""
    target = staging.target
    leaving = parts["leaving"]
    assert isinstance(leaving, sql.Identifier)  # noqa: S101  narrows the type of a part made above
    write_leavings(cluster_id=cluster_id, target=target, leaving=leaving)
    if target.model is Workload:
        close_spans(cluster_id=cluster_id, leaving=leaving)
    return run(
        sql.SQL("UPDATE {table} o SET gone_at = l.at FROM {leaving} l WHERE o.id = l.id").format(**parts)
    )


def _moved_local_queues(
    staging: Staging, parts: dict[str, sql.Composable], *, cluster_id: int, left: bool
) -> int:
    """After a merge of LocalQueues: waiting work of those that lead elsewhere now waits for another queue."""
    moved = sql.Identifier(f"moved_{staging.name}")
    gone = "UNION ALL SELECT namespace, name, at FROM {leaving}" if left else ""
    named = parts | {"target": moved, "gone": sql.SQL(gone).format(**parts)}
    count = run(sql.SQL(_MOVED).format(**named))
    return requeue_spans(cluster_id=cluster_id, moved=moved, name=staging.name) if count else 0


def _merge(
    *, cluster_id: int, staging: Staging, unlisted_at: datetime | None, kept: Iterable[str], record_new: bool
) -> Written:
    target = staging.target
    parts = _parts(staging, cluster_id)
    staging.prepare()
    count = run(sql.SQL(_CHANGED).format(**parts))
    written = Written()
    if count:
        written = _write_changed(
            cluster_id=cluster_id, staging=staging, parts=parts, count=count, record_new=record_new
        )
    left = 0
    if unlisted_at is not None:
        if value(sql.SQL(_MORE_THAN_LISTED).format(**parts)):
            parts |= {"at": sql.Literal(unlisted_at), "kept": sql.Literal(list(kept) or [""])}
            left = run(sql.SQL(_UNLISTED).format(**parts))
    elif written.inserted:
        left = run(sql.SQL(_REPLACED).format(**parts))
    if left:
        written.gone += _leave(cluster_id=cluster_id, staging=staging, parts=parts)
    if target.kind == "LocalQueue" and (left or written.rows):
        written.spans += _moved_local_queues(staging, parts, cluster_id=cluster_id, left=bool(left))
    return written


def _write_changed(
    *, cluster_id: int, staging: Staging, parts: dict[str, sql.Composable], count: int, record_new: bool
) -> Written:
    """History first, which compares with what is stored; then the rows themselves."""
    target, written, changed = staging.target, Written(), parts["changed"]
    assert isinstance(changed, sql.Identifier)  # noqa: S101  narrows the type of a part made above
    if staging.is_bulk:
        run(sql.SQL("ANALYZE {changed}").format(**parts))
    known = value(sql.SQL("SELECT count(old_id) FROM {changed}").format(**parts))
    if facets_of(target) and (known or record_new):
        written.transitions = write_transitions(
            cluster_id=cluster_id, staging=staging, changed=changed, record_new=record_new
        )
    if target.model is Workload:
        written.spans = write_spans(cluster_id=cluster_id, staging=staging, changed=changed)
    if target.model is Pod:
        written.told_from = value(sql.SQL(_TOLD).format(**parts, record_new=sql.Literal(record_new)))
    if staging.gone:
        written.gone = value(sql.SQL(_NEWLY_GONE).format(**parts))
    if known < count:
        written.inserted = run(sql.SQL(_INSERT).format(**parts))
    if known:
        written.updated = run(sql.SQL(_UPDATE).format(**parts))
    tell_planner(target, written.inserted)
    return written


def merge_list(
    *, cluster_id: int, staging: Staging, now: datetime, kept: Iterable[str] = (), record_new: bool = True
) -> Written:
    """The staged rows are everything that exists of this kind: what is missing is marked gone at `now`.

    `kept`: uids or "namespace/name" of objects that were listed but could not be read; they stay as they are.
    `record_new` False: the first list ever, whose objects were there already and make no transitions."""
    return _merge(cluster_id=cluster_id, staging=staging, unlisted_at=now, kept=kept, record_new=record_new)


def merge_changes(*, cluster_id: int, staging: Staging, record_new: bool = True) -> Written:
    """The staged rows are what changed; everything else is as before."""
    return _merge(cluster_id=cluster_id, staging=staging, unlisted_at=None, kept=(), record_new=record_new)


_NAMED = """
CREATE TEMP TABLE {leaving} ON COMMIT DROP AS
SELECT o.id, o.uid, o.namespace, o.name, {at}::timestamptz AS at FROM {table} o
WHERE o.cluster_id = {cluster} AND {same_kind} AND o.gone_at IS NULL AND o.uid = ANY({uids})
"""


def mark_gone(*, cluster_id: int, target: Target, uids: Iterable[str], now: datetime) -> Written:
    """These objects were deleted, though their last state could not be read. Events stay as they are."""
    if target.model is Event:
        return Written()
    staging = Staging(target)
    parts = _parts(staging, cluster_id) | {"at": sql.Literal(now), "uids": sql.Literal(list(uids))}
    run(sql.SQL(_NAMED).format(**parts))
    gone = _leave(cluster_id=cluster_id, staging=staging, parts=parts)
    return Written(gone=gone)
