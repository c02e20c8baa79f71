"""What one team may use, what it lends and borrows, from one reading. Input: clock, clusters, team; output: rows.

Invariants: the snapshot is loaded once, a tree is built once per cluster, and rows are made of the team's queues only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from apps.fleet.models import Cluster
from apps.fleet.selectors import BindingIndex
from apps.quotas.kueue import KueueCluster
from apps.quotas.lacking import Offer
from apps.quotas.loans import loans_of
from apps.quotas.rows import LoanRow, QuotaRow
from apps.quotas.selectors import systems
from apps.quotas.snapshot import load_snapshot
from apps.quotas.volcano import VolcanoCluster
from apps.quotas.volcano_plugin import QueuePlugin

QueueOfWork = tuple[int, str, str]
"""(cluster id, "ClusterQueue" or "VolcanoQueue", name)."""
Offers = Mapping[QueueOfWork, Mapping[str, list[Offer]]]


@dataclass(frozen=True, slots=True)
class TeamQuota:
    """`rows` as `quota_rows` gives them; `loans` in which the teams' queues lend or borrow; `plugins`: what decides in the
    clusters where they have Volcano queues."""

    rows: list[QuotaRow]
    loans: list[LoanRow]
    plugins: list[tuple[Cluster, QueuePlugin]]


def team_quota(
    *,
    now: datetime,
    clusters: Iterable[Cluster] | None,
    team_ids: Collection[int] | None,
    bindings: BindingIndex | None = None,
) -> TeamQuota:
    found = systems(load_snapshot(now=now, clusters=clusters, bindings=bindings))
    rows = [row for system in found for name in system.queues(team_ids) for row in system.queue_rows(name)]
    loans = loans_of((system for system in found if isinstance(system, KueueCluster)), team_ids)
    plugins = [
        (system.view.cluster, system.plugin)
        for system in found
        if isinstance(system, VolcanoCluster) and any(system.queues(team_ids))
    ]
    return TeamQuota(rows, loans, plugins)


def offers_of(rows: Iterable[QuotaRow]) -> Offers:
    """What each queue offers of a resource, flavor by flavor in the order they are tried."""
    found: dict[QueueOfWork, dict[str, list[Offer]]] = defaultdict(dict)
    for row in rows:
        queue = found[row.cluster.pk, row.kind, row.queue]
        if row.listed:
            offer = Offer(row.flavor, row.available, row.ceiling)
            queue.setdefault(row.resource, []).append(offer)
    return found


def offers_in(*, now: datetime, clusters: Iterable[Cluster], queues: Collection[QueueOfWork]) -> Offers:
    """The same for some queues, whoever owns them: for work whose reader may see it. {} costs nothing."""
    if not queues:
        return {}
    found = systems(load_snapshot(now=now, clusters=clusters))
    return offers_of(
        row for system in found for name in _known(system, queues) for row in system.queue_rows(name)
    )


def _known(system: KueueCluster | VolcanoCluster, queues: Collection[QueueOfWork]) -> list[str]:
    kind = "ClusterQueue" if isinstance(system, KueueCluster) else "VolcanoQueue"
    here = (system.view.cluster.pk, kind)
    return sorted(name for *of, name in queues if tuple(of) == here and name in system.view.objects[kind])
