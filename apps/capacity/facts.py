"""What capacity is computed from, read once. Input: clock and clusters; output: one `Fleet`.

A constant number of queries, whatever the number of nodes; what queues promise is read only where it is asked for.
Clusters whose nodes were never read are `missing` and in no number. Where the process keeps fleets in memory
(PORTAL_CAPACITY_MEMORY, store.py), only what changed since is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from django.conf import settings

from apps.capacity.laying import Kind, NodeState, PoolKey, pool_key, usable_groups
from apps.capacity.loading import load_nodes
from apps.capacity.pooling import PoolSum
from apps.capacity.reading import laid_together, rules_in_force
from apps.capacity.reserves import Rule, lay
from apps.capacity.store import STORE, Kept, kept_of
from apps.fleet.dra import Adrift
from apps.fleet.models import Cluster
from apps.fleet.selectors import enabled_clusters
from apps.observations.keeping import Marks
from apps.observations.models import Source
from apps.observations.selectors import AsOf, SourceStatus, as_of, as_of_statuses, source_runs

__all__ = ["Fleet", "NodeState", "PoolKey", "load_fleet", "load_node", "pool_key"]
_OF_WORK = (Source.PODS, Source.KUEUE, Source.VOLCANO)
Version = tuple[tuple[int, int], ...]
"""(cluster, number) of each cluster: equal for fleets that are the same."""


@dataclass(slots=True)
class Fleet:
    """`sums`: pools, added up; `kinds`: nodes that quota and notes cannot tell apart, but for their names, by uid; `usable`: their usable units.
    `pods_missing`: clusters whose pods were never read, where nobody knows what is held; `quota_missing`: those where
    an installed Kueue or Volcano was never read, where nobody knows what is reserved. `version`, `kinds_version`,
    `quota_version`: None where nothing is kept in memory, else equal for fleets with the same nodes, the same kinds
    (names included), and queues that were not read since. `adrift`: claims and DRA drivers that need a look."""

    now: datetime
    clusters: dict[int, Cluster]
    missing: tuple[Cluster, ...]
    pods_missing: tuple[Cluster, ...]
    quota_missing: tuple[Cluster, ...]
    as_of: AsOf
    nodes: Sequence[NodeState]
    sums: dict[PoolKey, PoolSum] = field(default_factory=dict)
    kinds: dict[Kind, dict[str, NodeState]] = field(default_factory=dict)
    usable: dict[Kind, dict[str, Decimal]] = field(default_factory=dict)
    version: Version | None = None
    kinds_version: Version | None = None
    quota_version: tuple[object, ...] | None = None
    adrift: dict[int, Adrift] = field(default_factory=dict)

    def usable_alike(self) -> Iterator[tuple[NodeState, Mapping[str, Decimal]]]:
        """Each kind of node once: one of them, and the usable units of all by resource."""
        for kind, members in self.kinds.items():
            yield next(iter(members.values())), self.usable[kind]

    def alike(self) -> Iterator[tuple[NodeState, Mapping[str, NodeState]]]:
        """Each kind of node once: one of them, and all by uid."""
        for members in self.kinds.values():
            yield next(iter(members.values())), members


def load_fleet(
    *,
    now: datetime,
    clusters: Iterable[Cluster] | None = None,
    uids: Sequence[str] | None = None,
    imported: bool = False,
    statuses: list[SourceStatus] | None = None,
) -> Fleet:
    """`uids`: only these nodes (their rows are the list's rows as long as no reserve and no DRA driver is there).
    `imported`: the rows come from an imported past, which no pull has read; no cluster is missing. `statuses`:
    where every source of these clusters stands, where somebody has just read it."""
    chosen = list(enabled_clusters() if clusters is None else clusters)
    fresh = as_of(now=now, clusters=chosen) if statuses is None else as_of_statuses(statuses, now=now)
    nodes = _only(fresh, now, (Source.NODES,))
    left_out = set() if imported else {status.cluster.pk for status in nodes.missing}
    read = [cluster for cluster in chosen if cluster.pk not in left_out]
    never = [] if imported else [s for s in fresh.missing if s.source in _OF_WORK]
    pods = _clusters_of(read, never, Source.PODS)
    rules = rules_in_force(now=now, cluster_ids=[cluster.pk for cluster in read])
    unread = {cluster.pk for cluster in pods}
    remembered = settings.CAPACITY_MEMORY and not imported and uids is None
    if remembered:
        kept = _remembered(read, fresh.statuses, rules=rules, unread=unread, now=now)
    else:
        kept = _read(read, rules=rules, unread=unread, now=now, uids=uids)
    fleet = Fleet(
        now=now,
        clusters={cluster.pk: cluster for cluster in read},
        missing=tuple(cluster for cluster in chosen if cluster.pk in left_out),
        pods_missing=pods,
        quota_missing=_clusters_of(read, never, Source.KUEUE, Source.VOLCANO),
        as_of=nodes,
        nodes=kept[0].nodes if len(kept) == 1 else [node for one in kept for node in one.nodes],
    )
    for one in kept:
        fleet.adrift[one.around.cluster.pk] = one.around.adrift
        fleet.sums.update(one.sums)
        fleet.kinds.update(one.kinds)
        fleet.usable.update(one.usable)
    if remembered:
        fleet.version = tuple((one.around.cluster.pk, one.version) for one in kept)
        fleet.kinds_version = tuple((one.around.cluster.pk, one.kinds_version) for one in kept)
        fleet.quota_version = tuple(
            (one.around.cluster.pk, one.marks.runs.get(Source.KUEUE), one.marks.runs.get(Source.VOLCANO))
            for one in kept
        )
    return fleet


def _only(fresh: AsOf, now: datetime, sources: Collection[Source]) -> AsOf:
    return as_of_statuses([status for status in fresh.statuses if status.source in sources], now=now)


def _remembered(
    clusters: Sequence[Cluster],
    statuses: Iterable[SourceStatus],
    *,
    rules: Mapping[int, tuple[Rule, ...]],
    unread: Collection[int],
    now: datetime,
) -> list[Kept]:
    """`statuses`: read before anything else."""
    runs: dict[int, dict[str, datetime | None]] = {cluster.pk: {} for cluster in clusters}
    for status in statuses:
        if status.cluster.pk in runs and status.last_run_at is not None:
            runs[status.cluster.pk][status.source] = status.last_run_at

    def get(cluster: Cluster) -> Kept:
        read = cluster.pk not in unread
        return STORE.get(
            cluster,
            marks=Marks(runs[cluster.pk], read),
            rules=rules.get(cluster.pk, ()),
            now=now,
            again=lambda: Marks(source_runs(clusters=[cluster])[cluster.pk], read),
        )

    return [get(cluster) for cluster in clusters]


def _read(
    clusters: Sequence[Cluster],
    *,
    rules: Mapping[int, tuple[Rule, ...]],
    unread: Collection[int],
    now: datetime,
    uids: Sequence[str] | None,
) -> list[Kept]:
    laid = load_nodes(clusters, now=now, rules=rules, unread=unread, uids=uids)
    return [kept_of(one, marks=Marks({}, one.around.pods_read), now=now, until=(now, now)) for one in laid]


def _clusters_of(
    clusters: Sequence[Cluster], statuses: Sequence[SourceStatus], *sources: Source
) -> tuple[Cluster, ...]:
    """The clusters that statuses of one of these sources are about."""
    found = {status.cluster.pk for status in statuses if status.source in sources}
    return tuple(cluster for cluster in clusters if cluster.pk in found)


def load_node(*, now: datetime, cluster: Cluster, uid: str) -> NodeState | None:
    """One node as the list shows it. Alone, unless something is laid over all nodes of the cluster: reserves, and the
    slices of DRA drivers, that may reach nodes by their labels."""
    alone = not settings.CAPACITY_MEMORY and not laid_together(now=now, cluster_id=cluster.pk)
    fleet = load_fleet(now=now, clusters=[cluster], uids=[uid] if alone else None)
    return next((node for node in fleet.nodes if node.uid == uid), None)


def cards_taken(
    *, now: datetime, rule: Rule, cluster: Cluster, without: int | None = None
) -> tuple[int, int]:
    """How many usable cards a reserve selects now, and how many it would take beside the other reserves in force
    (`without`: one that it takes the place of)."""
    found = rules_in_force(now=now, cluster_ids=[cluster.pk]).get(cluster.pk, ())
    others = [other for other in found if other.pk not in (rule.pk, without)]
    rules = sorted([*others, rule], key=lambda item: (item.pk == 0, item.pk))
    groups = [
        group
        for node in load_fleet(now=now, clusters=[cluster]).nodes
        for group in usable_groups(node.uid, node.health.labels, node.before_reserves, rules)
    ]
    _taken, by_rule = lay(rules, groups)
    return sum(group.cards for group in groups if rule.pk in group.rules), by_rule[rule.pk]
