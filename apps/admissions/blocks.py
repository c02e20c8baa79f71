"""What keeps work from running in a stretch of its life: layer and cause. Input: phases and texts; output: `Block`s.

A text is classified once however often it occurs: `block_params` asks for the distinct texts of a relation in `LIFE`'s
shape and hands the answer back as arrays that `BLOCKS` joins.

Invariants: what the text says decides, where it says anything; a phase without a text has a cause of its own; gated,
backed-off and held work is held, whatever its last message says.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db import connection

from apps.admissions.classifier import classify
from apps.admissions.life_relation import BLOCKING
from apps.admissions.surroundings import Surroundings

# The relation, and the condition that joins it to stretches of life under the name `s`.
BLOCKS = """unnest(%(block_cluster)s::bigint[], %(block_queue)s::text[], %(block_phase)s::text[],
  %(block_state)s::text[], %(block_reason)s::text[], %(block_message)s::text[], %(block_layer)s::text[],
  %(block_cause)s::text[], %(block_rule)s::text[])
  AS b(cluster_id, queue, phase, state, reason, message, layer, cause, rule)"""
BLOCKS_ON = """b.cluster_id = s.cluster_id AND b.queue = s.queue AND b.phase = s.phase AND b.state = s.state
  AND b.reason = s.reason AND b.message = s.message"""

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


def block_of(*, phase: str, state: str, reason: str, message: str, queue_reason: str = "") -> Block:
    """Why work in a blocking phase does not run. `queue_reason`: why its queue is inactive, "" when it is not."""
    shown = state if phase in ("gated", "queued", "reserved", "backoff", "held") else ""
    verdict = classify(state=shown, reason=reason, message=message, queue_reason=queue_reason)
    if phase in _HELD and verdict.cause not in ("held", "configuration", "startup"):
        return Block("admission", "held", "phase")
    if phase in _SILENT and verdict.rule in _NOTHING_SAID and not message.strip():
        return Block(*_SILENT[phase], "phase")
    if phase == "provisioning" and verdict.layer == "admission":
        return Block("provisioning", "scale_up", verdict.rule)
    return Block(verdict.layer, verdict.cause, verdict.rule)


def block_params(*, clusters: Collection[int], relation: str) -> dict[str, Any]:
    """Parameters of BLOCKS for the texts of a table or subquery that has LIFE's columns."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""SELECT DISTINCT cluster_id, queue, phase, state, reason, message FROM {relation} l
            WHERE phase = ANY(%s)""",  # noqa: S608 - a relation that the caller made
            [list(BLOCKING)],
        )
        texts = cursor.fetchall()
    queue_reasons = Surroundings(list(clusters)).queue_reasons
    found = [
        block_of(
            phase=phase,
            state=state,
            reason=reason,
            message=message,
            queue_reason=queue_reasons.get((cluster_id, queue), ""),
        )
        for cluster_id, queue, phase, state, reason, message in texts
    ]
    names = ("cluster", "queue", "phase", "state", "reason", "message")
    return {
        **{f"block_{name}": [row[i] for row in texts] for i, name in enumerate(names)},
        "block_layer": [block.layer for block in found],
        "block_cause": [block.cause for block in found],
        "block_rule": [block.rule for block in found],
    }
