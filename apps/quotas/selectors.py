"""Reads of quota: one row per (queue, flavor, resource), the forest of queues, and each team's summary.

Input: the clock, clusters and the teams that the reader may see (None: all); output: the rows of `rows.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from apps.fleet.models import Cluster
from apps.quotas.rows import QueueNode, QuotaRow, TeamSummary


def quota_rows(
    *,
    now: datetime,
    clusters: Iterable[Cluster] | None = None,
    team_ids: Collection[int] | None = None,
) -> list[QuotaRow]:
    """Rows of all visible queues: by cluster and queue, accelerators first."""
    raise NotImplementedError


def queue_forest(
    *,
    now: datetime,
    clusters: Iterable[Cluster] | None = None,
    team_ids: Collection[int] | None = None,
) -> list[QueueNode]:
    """The roots of every cluster's cohort trees and Volcano hierarchy, with children nested."""
    raise NotImplementedError


def team_summaries(*, now: datetime, team_ids: Collection[int] | None = None) -> list[TeamSummary]:
    """Every visible team, also those without any quota."""
    raise NotImplementedError
