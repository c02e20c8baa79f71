"""What keeps work from running in a stretch of its life: layer and cause. Input: phases, texts and what was noted of
their surroundings; output: `Block`s.

A text is classified once however often it occurs: `block_params` asks for the distinct texts of a relation in `LIFE`'s
shape and hands the answer back as arrays that `BLOCKS` joins. Work with noted surroundings (noting.py) has answers of its
own, each for the time in which the note held.

Invariants: what the text says decides, where it says anything; a phase without a text has a cause of its own; gated,
backed-off and held work is held, whatever its last message says.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import connection

from apps.admissions.classifier import classify
from apps.admissions.life_relation import BLOCKING
from apps.admissions.models import SurroundingsNote
from apps.admissions.noting import LOOKED_AROUND, UNKNOWN, Known, known_of
from apps.admissions.surroundings import Surroundings

# The relation, and the condition that joins it to stretches of life under the name `s`, which are to be cut to
# [judged_from, judged_to).
BLOCKS = """unnest(%(block_cluster)s::bigint[], %(block_queue)s::text[], %(block_phase)s::text[],
  %(block_state)s::text[], %(block_reason)s::text[], %(block_message)s::text[], %(block_noted)s::text[],
  %(block_from)s::timestamptz[], %(block_to)s::timestamptz[], %(block_layer)s::text[], %(block_cause)s::text[],
  %(block_rule)s::text[])
  AS b(cluster_id, queue, phase, state, reason, message, noted, judged_from, judged_to, layer, cause, rule)"""
_NOTED = f"CASE WHEN s.uid = ANY(%(noted_uids)s::text[]) AND {LOOKED_AROUND} THEN s.uid ELSE '' END"
BLOCKS_ON = f"""b.cluster_id = s.cluster_id AND b.queue = s.queue AND b.phase = s.phase AND b.state = s.state
  AND b.reason = s.reason AND b.message = s.message AND b.noted = {_NOTED}"""

_EVER, _NEVER = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
_HELD = frozenset({"gated", "backoff", "held"})
_SILENT = {
    "reserved": ("admission", "held"),
    "provisioning": ("provisioning", "scale_up"),
    "unplaced": ("placement", "transient"),
    "starting": ("device", "startup"),
    "evicted": ("admission", "transient"),
}
_NOTHING_SAID = frozenset({"not-evaluated", "unknown"})


@dataclass(frozen=True, slots=True)
class Block:
    """`rule`: of the classifier, or "phase" when no text said why."""

    layer: str
    cause: str
    rule: str


def block_of(
    *, phase: str, state: str, reason: str, message: str, queue_reason: str = "", known: Known = UNKNOWN
) -> Block:
    """Why work in a blocking phase does not run. `queue_reason`: why its queue is inactive, "" when it is not; `known`: what
    it stood in."""
    shown = state if phase in ("gated", "queued", "reserved", "backoff", "held") else ""
    verdict = classify(
        state=shown,
        reason=reason,
        message=message,
        queue_reason=queue_reason,
        nodes=known.nodes if "nodes are" in message else None,
        over_ceiling=known.over_ceiling,
    )
    if phase in _HELD and verdict.cause not in ("held", "configuration", "startup"):
        return Block("admission", "held", "phase")
    if phase in _SILENT and verdict.rule in _NOTHING_SAID and not message.strip():
        return Block(*_SILENT[phase], "phase")
    if phase == "provisioning" and verdict.layer == "admission":
        return Block("provisioning", "scale_up", verdict.rule)
    return Block(verdict.layer, verdict.cause, verdict.rule)


def block_params(*, clusters: Collection[int], relation: str) -> dict[str, Any]:
    """Parameters of BLOCKS for the texts of a table or subquery that has LIFE's columns."""
    given: dict[str, Any] = {"clusters": list(clusters), "phases": list(BLOCKING)}
    with connection.cursor() as cursor:
        cursor.execute(
            f"""SELECT DISTINCT n.uid FROM {SurroundingsNote._meta.db_table} n
            WHERE n.cluster_id = ANY(%(clusters)s) AND n.uid IN (SELECT uid FROM {relation} s)""",  # noqa: S608 - as below
            given,
        )
        given["noted_uids"] = [uid for (uid,) in cursor.fetchall()]
        cursor.execute(
            f"""SELECT DISTINCT cluster_id, queue, phase, state, reason, message, {_NOTED} AS noted
            FROM {relation} s WHERE phase = ANY(%(phases)s)""",  # noqa: S608 - a relation that the caller made
            given,
        )
        texts = cursor.fetchall()
    queue_reasons = Surroundings(list(clusters)).queue_reasons
    known = known_of(clusters=clusters, uids=given["noted_uids"])
    rows = []
    for text in texts:
        cluster_id, queue, phase, state, reason, message, uid = text
        for one in known.get((cluster_id, uid), (UNKNOWN,)):
            block = block_of(
                phase=phase,
                state=state,
                reason=reason,
                message=message,
                queue_reason=queue_reasons.get((cluster_id, queue), ""),
                known=one,
            )
            rows.append((*text, one.start or _EVER, one.end or _NEVER, block.layer, block.cause, block.rule))
    names = (
        *("cluster", "queue", "phase", "state", "reason", "message", "noted"),
        *("from", "to", "layer", "cause", "rule"),
    )
    columns = {f"block_{name}": [row[i] for row in rows] for i, name in enumerate(names)}
    return {**columns, "noted_uids": given["noted_uids"]}
