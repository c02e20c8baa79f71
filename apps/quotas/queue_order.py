"""By which instant Kueue orders waiting work of one priority. Input: the alias of a Workload's row in a statement;
output: an SQL expression, so that whoever ranks in the database and whoever reads rows follow one rule.

Kueue's own rule (Ordering.GetQueueOrderTimestamp of 0.17): the creation, also after a preemption; but the eviction while
the condition Evicted holds for a failed admission check, or for pods that were not ready in time. Its configuration is
not observed: its defaults count (requeuingStrategy.timestamp Eviction, gate PrioritySortingWithinCohort on). How long
work has waited is something else: that starts anew with each eviction (Workload.queued_at).
"""

from __future__ import annotations

BACK_IN_LINE = ("AdmissionCheck", "PodsReadyTimeout")
"""Reasons of Evicted after which work stands behind what came meanwhile."""

_REASONS = ", ".join(f"'{reason}'" for reason in BACK_IN_LINE)


def queue_order_sql(alias: str) -> str:
    """NULL where neither creation nor wait is known."""
    evicted = f"{alias}.conditions->'Evicted'"
    return (
        f"coalesce(CASE WHEN {evicted}->>'status' = 'True' AND {evicted}->>'reason' IN ({_REASONS}) "
        f"THEN ({evicted}->>'since')::timestamptz END, {alias}.created_at, {alias}.queued_at)"
    )
