"""Reads of quota: one row per (queue, flavor, resource), the forest of queues, and each team's summary.

Input: the clock, clusters and the teams that the reader may see (None: all); output: the rows of `rows.py`.
Invariants: a constant number of queries; usage is recomputed from live work, status only cross-checked; a
reader restricted to teams gets the queues these teams own or use, and above them only sums of cohorts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from functools import partial

from django.utils.translation import get_language

from apps.fleet.models import Cluster
from apps.quotas.kueue import KueueCluster
from apps.quotas.rows import QueueNode, QuotaRow, TeamSummary
from apps.quotas.snapshot import ClusterView, Snapshot, load_snapshot
from apps.quotas.teams import summaries
from apps.quotas.volcano import VolcanoCluster

__all__ = ["queue_forest", "quota_rows", "systems", "team_summaries"]


System = KueueCluster | VolcanoCluster


def systems(snapshot: Snapshot) -> list[System]:
    """What computes the rows of each cluster, one for Kueue and one for Volcano where it has queues of it. Of a view
    that is kept they are, too, by language: rows have words."""
    found: list[System] = []
    language = get_language()
    for pk, view in snapshot.views.items():
        alone = partial(snapshot.alone, pk)
        if view.objects["ClusterQueue"] or view.objects["Cohort"]:
            found.append(view.once(("kueue", language), partial(_system, KueueCluster, alone, view)))
        if view.objects["VolcanoQueue"]:
            found.append(view.once(("volcano", language), partial(_system, VolcanoCluster, alone, view)))
    return found


def _system(
    build: Callable[[Snapshot, ClusterView], System], alone: Callable[[], Snapshot], view: ClusterView
) -> System:
    return build(alone(), view)


def _forest(system: System, team_ids: Collection[int] | None) -> list[QueueNode]:
    who = None if team_ids is None else frozenset(team_ids)
    key = ("forest", type(system), get_language(), who)
    return system.view.once(key, lambda: system.forest(team_ids))


def quota_rows(
    *,
    now: datetime,
    clusters: Iterable[Cluster] | None = None,
    team_ids: Collection[int] | None = None,
) -> list[QuotaRow]:
    """Rows of all visible queues: by cluster and queue, accelerators first, in the order flavors are tried."""
    snapshot = load_snapshot(now=now, clusters=clusters)
    return [
        row
        for system in systems(snapshot)
        for name in system.queues(team_ids)
        for row in system.queue_rows(name)
    ]


def queue_forest(
    *,
    now: datetime,
    clusters: Iterable[Cluster] | None = None,
    team_ids: Collection[int] | None = None,
) -> list[QueueNode]:
    """The roots of every cluster's cohort trees and Volcano hierarchy, with children nested."""
    return forest_of(load_snapshot(now=now, clusters=clusters), team_ids)


def forest_of(snapshot: Snapshot, team_ids: Collection[int] | None = None) -> list[QueueNode]:
    """The same of what was read already."""
    return [node for system in systems(snapshot) for node in _forest(system, team_ids)]


def team_summaries(
    *,
    now: datetime,
    team_ids: Collection[int] | None = None,
    clusters: Iterable[Cluster] | None = None,
) -> list[TeamSummary]:
    """Every visible team that owns a queue or has work, the largest unit kind first."""
    snapshot = load_snapshot(now=now, clusters=clusters)
    rows = [
        row
        for system in systems(snapshot)
        for name in system.queues(team_ids)
        for row in system.queue_rows(name)
        if row.accelerator
    ]
    return summaries(snapshot, rows, team_ids)
