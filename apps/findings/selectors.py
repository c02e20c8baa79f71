"""What needs attention now, across all layers. Input: the other apps' selectors; output: `Finding` rows.

Findings are computed when asked for, from set-based queries; nothing is stored. A reader restricted to teams
sees findings about these teams' work, queues and idle cards, and about sources (old numbers concern everybody), none about
nodes or other teams."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from apps.findings.demand import queue_findings, waiting_findings
from apps.findings.idle import coverage_findings, idle_findings
from apps.findings.rows import Finding, Severity, Target
from apps.findings.sources import source_findings
from apps.findings.supply import supply_findings
from apps.fleet.models import Cluster
from apps.fleet.selectors import enabled_clusters

__all__ = ["Finding", "Severity", "Target", "findings"]

_RANK: dict[Severity, int] = {"bad": 0, "warn": 1, "note": 2}
_NO_TIME = datetime.max.replace(tzinfo=UTC)


def findings(
    *,
    now: datetime,
    clusters: Collection[Cluster] | None = None,
    team_ids: Collection[int] | None = None,
) -> list[Finding]:
    """Worst first, then oldest first (those without a known start last), then by key."""
    chosen = list(enabled_clusters() if clusters is None else clusters)
    found = [
        *source_findings(now=now, clusters=chosen),
        *queue_findings(now=now, clusters=chosen, team_ids=team_ids),
        *waiting_findings(now=now, clusters=chosen, team_ids=team_ids),
        *idle_findings(now=now, clusters=chosen, team_ids=team_ids),
    ]
    if team_ids is None:
        found += supply_findings(now=now, clusters=chosen)
        found += coverage_findings(now=now, clusters=chosen)
    return sorted(found, key=lambda item: (_RANK[item.severity], item.since or _NO_TIME, item.key))
