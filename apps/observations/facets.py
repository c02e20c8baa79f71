"""What of an object is worth a line in its history, and the SQL that writes these lines.

Input: a staging table and the current-object table as it was before this pull; output: Transition rows, one per
step of a facet's value, in order of arrival, so that states shorter than the interval between two pulls are
kept. Invariants: an object seen for the first time makes a line only when its kind had been listed before (else
it was merely there already); one that went away makes a line to "gone".
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import models
from psycopg import sql

from .models import ClusterObject, Node, Pod, Workload
from .staging import Staging, Target, run


@dataclass(frozen=True, slots=True)
class Facet:
    """`value`: SQL over a row alias `r` giving text; a step is a change of (value, reason). `only`: which rows."""

    name: str
    value: str
    reason: str = "''"
    message: str = "''"
    only: str = "true"


# Extended resources of a node, e.g. "nvidia.com/gpu=8"; hugepages and attachable volumes carry no slash.
_DEVICES = """coalesce((SELECT string_agg(d.key || '=' || d.value, ',' ORDER BY d.key)
    FROM jsonb_each_text(r.allocatable) d WHERE position('/' IN d.key) > 0), '')"""

FACETS: dict[type[models.Model], tuple[Facet, ...]] = {
    Workload: (Facet("state", "r.state", "r.reason", "r.message"),),
    Node: (
        Facet(
            "ready",
            "coalesce(r.conditions->'Ready'->>'status', 'Unknown')",
            "coalesce(r.conditions->'Ready'->>'reason', '')",
            "coalesce(r.conditions->'Ready'->>'message', '')",
        ),
        Facet("cordon", "CASE WHEN r.unschedulable THEN 'cordoned' ELSE 'schedulable' END"),
        Facet("devices", _DEVICES),
    ),
    ClusterObject: (
        Facet(
            "active",
            "coalesce(r.status->'conditions'->'Active'->>'status', 'Unknown')",
            "coalesce(r.status->'conditions'->'Active'->>'reason', '')",
            "coalesce(r.status->'conditions'->'Active'->>'message', '')",
            "r.kind = 'ClusterQueue'",
        ),
    ),
    Pod: (Facet("phase", "r.phase", "r.reason", "r.message", "(r.devices > 0 OR r.claims <> '[]')"),),
}


def facets_of(target: Target) -> tuple[Facet, ...]:
    """The facets that rows of this target can have."""
    if target.model is ClusterObject and target.kind != "ClusterQueue":
        return ()
    return FACETS.get(target.model, ())


def _step_values(facet: Facet, *, gone: str, kind: sql.Composable) -> sql.Composed:
    text = (
        "CASE WHEN {gone} THEN 'gone' ELSE left({value}, 120) END AS value,"
        " CASE WHEN {gone} THEN '' ELSE left({reason}, 120) END AS reason, {message} AS message, {kind} AS kind"
    )
    return sql.SQL(text).format(
        gone=sql.SQL(gone),
        value=sql.SQL(facet.value),
        reason=sql.SQL(facet.reason),
        message=sql.SQL(facet.message),
        kind=kind,
    )


def write_transitions(*, cluster_id: int, staging: Staging, changed: sql.Identifier, record_new: bool) -> int:
    """Compare the staged versions of the changed objects, in order, with what is stored; must run before the
    merge. Returns the number of lines."""
    target = staging.target
    kind = sql.SQL("r.kind") if target.has_kind else sql.Literal(target.kind)
    written = 0
    for facet in facets_of(target):
        statement = sql.SQL(
            "INSERT INTO observations_transition (cluster_id, observed_at, kind, uid, namespace, name, facet,"
            " from_value, to_value, reason, message)"
            " SELECT {cluster}, at, kind, uid, namespace, name, {facet}, coalesce(was, ''), value, reason, message"
            " FROM (SELECT *, lag(value) OVER w AS was, lag(reason) OVER w AS was_reason FROM ("
            "  SELECT s.* FROM (SELECT -1::bigint AS seq, r.observed_at AS at, r.uid, r.namespace, r.name, {old}"
            "   FROM {table} r JOIN {changed} c ON c.old_id = r.id WHERE {only}) s"
            "  UNION ALL"
            "  SELECT r.seq, r.at, r.uid, r.namespace, r.name, {new} FROM {stage} r"
            "   JOIN {changed} c ON c.uid = r.uid WHERE {only}"
            " ) v WINDOW w AS (PARTITION BY uid ORDER BY seq)) steps"
            " WHERE seq >= 0 AND (value, reason) IS DISTINCT FROM (was, was_reason)"
            " AND (was IS NOT NULL OR {record_new}) ORDER BY seq"
        ).format(
            cluster=sql.Literal(cluster_id),
            facet=sql.Literal(facet.name),
            old=_step_values(facet, gone="r.gone_at IS NOT NULL", kind=kind),
            new=_step_values(facet, gone="r.gone", kind=kind),
            table=target.table,
            changed=changed,
            stage=staging.table,
            only=sql.SQL(facet.only),
            record_new=sql.Literal(record_new),
        )
        written += run(statement)
    return written


def write_leavings(*, cluster_id: int, target: Target, leaving: sql.Identifier) -> int:
    """Lines to "gone" for the stored objects in `leaving` (id, at); must run before they are marked."""
    kind = sql.SQL("r.kind") if target.has_kind else sql.Literal(target.kind)
    written = 0
    for facet in facets_of(target):
        statement = sql.SQL(
            "INSERT INTO observations_transition (cluster_id, observed_at, kind, uid, namespace, name, facet,"
            " from_value, to_value, reason, message)"
            " SELECT {cluster}, l.at, {kind}, r.uid, r.namespace, r.name, {facet}, left({value}, 120), 'gone',"
            " '', '' FROM {table} r JOIN {leaving} l ON l.id = r.id WHERE {only}"
        ).format(
            cluster=sql.Literal(cluster_id),
            kind=kind,
            facet=sql.Literal(facet.name),
            value=sql.SQL(facet.value),
            table=target.table,
            leaving=leaving,
            only=sql.SQL(facet.only),
        )
        written += run(statement)
    return written
