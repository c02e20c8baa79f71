"""What needs attention now, across all layers. Input: the other apps' selectors; output: `Finding` rows.

Findings are computed when asked for, from set-based queries; nothing is stored. A reader restricted to teams
sees findings about these teams' work and queues, and about sources (old numbers concern everybody)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from apps.fleet.models import Cluster

Severity = Literal["bad", "warn", "note"]
Target = Literal["sources", "node", "capacity", "queues", "queue", "admissions", "team", ""]


@dataclass(frozen=True, slots=True)
class Finding:
    """`text` is a sentence in the active language. `target` and `args` say where its link leads: console maps
    "sources" {cluster, source}, "node" {cluster, name}, "capacity" {cluster, model, sharing_mode},
    "queue" {cluster, kind, name}, "admissions" {cluster, team, queue, cause, …}, "team" {slug}.
    `key` is stable for the same finding over time; `count` how many objects it sums up."""

    key: str
    severity: Severity
    text: str
    target: Target
    args: Mapping[str, str]
    since: datetime | None
    cluster_id: int | None
    count: int = 1


def findings(
    *,
    now: datetime,
    clusters: Collection[Cluster] | None = None,
    team_ids: Collection[int] | None = None,
) -> list[Finding]:
    """Worst first, then oldest first."""
    raise NotImplementedError
