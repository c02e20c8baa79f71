"""What capacity is computed from, read once. Input: clock and clusters; output: one `Fleet`.

A constant number of queries, whatever the number of nodes; what queues promise is read only where it is asked for.
Clusters whose nodes were never read are `missing` and in no number. Where the process keeps fleets in memory
(store.py), only what changed since is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from apps.capacity.laying import (
    NodeState,
    PoolKey,
    Shapes,
    Surroundings,
    asks_telemetry,
    lay_cluster,
    usable_groups,
)
from apps.capacity.pooling import PoolSum, sums_of
from apps.capacity.reading import (
    NodeFacts,
    last_offered,
    read_devices,
    read_flavors,
    read_nodes,
    rules_in_force,
    used_on_nodes,
)
from apps.capacity.reserves import Rule, lay
from apps.fleet.inventory import Group
from apps.fleet.models import Cluster
from apps.fleet.selectors import enabled_clusters
from apps.observations.models import Source
from apps.observations.selectors import AsOf, SourceStatus, as_of, seen_cards

__all__ = ["Fleet", "NodeState", "PoolKey", "load_fleet", "load_node", "pool_key"]
_OF_WORK = (Source.PODS, Source.KUEUE, Source.VOLCANO)


@dataclass(slots=True)
class Fleet:
    """`pools`: (node, index into its falls) of every group, by pool; `sums`: the same added up. `pods_missing`:
    clusters whose pods were never read, where nobody knows what is held; `quota_missing`: those where an installed
    Kueue or Volcano was never read, where nobody knows what is reserved."""

    now: datetime
    clusters: dict[int, Cluster]
    missing: tuple[Cluster, ...]
    pods_missing: tuple[Cluster, ...]
    quota_missing: tuple[Cluster, ...]
    as_of: AsOf
    nodes: Sequence[NodeState]
    pools: dict[PoolKey, list[tuple[NodeState, int]]] = field(default_factory=dict)
    sums: dict[PoolKey, PoolSum] = field(default_factory=dict)


def load_fleet(
    *,
    now: datetime,
    clusters: Iterable[Cluster] | None = None,
    uids: Sequence[str] | None = None,
    imported: bool = False,
) -> Fleet:
    """`uids`: only these nodes (their rows are the list's rows as long as no reserve is laid on them).
    `imported`: the rows come from an imported past, which no pull has read; no cluster is missing."""
    chosen = list(enabled_clusters() if clusters is None else clusters)
    fresh = as_of(now=now, clusters=chosen, sources=[Source.NODES])
    left_out = set() if imported else {status.cluster.pk for status in fresh.missing}
    read = [cluster for cluster in chosen if cluster.pk not in left_out]
    never = [] if imported else as_of(now=now, clusters=read, sources=_OF_WORK).missing
    pods = _clusters_of(read, never, Source.PODS)
    fleet = Fleet(
        now=now,
        clusters={cluster.pk: cluster for cluster in read},
        missing=tuple(cluster for cluster in chosen if cluster.pk in left_out),
        pods_missing=pods,
        quota_missing=_clusters_of(read, never, Source.KUEUE, Source.VOLCANO),
        as_of=fresh,
        nodes=lay_nodes(read, now=now, uids=uids, unread={cluster.pk for cluster in pods}),
    )
    for node in fleet.nodes:
        for index, item in enumerate(node.falls):
            fleet.pools.setdefault(pool_key(node, item.group), []).append((node, index))
    fleet.sums = {key: sums_of(members) for key, members in fleet.pools.items()}
    return fleet


def _clusters_of(
    clusters: Sequence[Cluster], statuses: Sequence[SourceStatus], *sources: Source
) -> tuple[Cluster, ...]:
    """The clusters that statuses of one of these sources are about."""
    found = {status.cluster.pk for status in statuses if status.source in sources}
    return tuple(cluster for cluster in clusters if cluster.pk in found)


def load_node(*, now: datetime, cluster: Cluster, uid: str) -> NodeState | None:
    """One node as the list shows it: alone, unless the cluster keeps reserves, which are laid over all its nodes."""
    alone = not rules_in_force(now=now, cluster_ids=[cluster.pk])
    fleet = load_fleet(now=now, clusters=[cluster], uids=[uid] if alone else None)
    return next((node for node in fleet.nodes if node.uid == uid), None)


def pool_key(node: NodeState, group: Group) -> PoolKey:
    return node.cluster.pk, group.model, str(group.mode)


def lay_nodes(
    clusters: Sequence[Cluster], *, now: datetime, uids: Sequence[str] | None, unread: set[int]
) -> list[NodeState]:
    """Every node of these clusters (or those of `uids`), reserves included, by cluster and name."""
    ids = [cluster.pk for cluster in clusters]
    rows = read_nodes(cluster_ids=ids, uids=uids)
    names = None if uids is None else [row.name for row in rows]
    by_cluster: dict[int, list[NodeFacts]] = {pk: [] for pk in ids}
    for row in rows:
        by_cluster[row.cluster_id].append(row)
    flavors, rules = read_flavors(cluster_ids=ids), rules_in_force(now=now, cluster_ids=ids)
    used, last = used_on_nodes(cluster_ids=ids, names=names), last_offered(rows, now)
    labels = {pk: {row.name: row.labels for row in own} for pk, own in by_cluster.items()}
    devices = read_devices(cluster_ids=ids, nodes=labels, now=now)
    shapes = Shapes()
    asking = [
        row.name
        for row in rows
        if asks_telemetry(row, last=last.get((row.cluster_id, row.uid)), shapes=shapes)
    ]
    seen = seen_cards(now=now, clusters=clusters, nodes=asking) if asking else {}
    nodes: list[NodeState] = []
    for cluster in clusters:
        around = Surroundings(
            cluster=cluster,
            flavors=flavors.get(cluster.pk, ()),
            rules=rules.get(cluster.pk, ()),
            pods_read=cluster.pk not in unread,
            devices=devices[cluster.pk].by_node if cluster.pk in devices else {},
            seen={name: found for (pk, name), found in seen.items() if pk == cluster.pk},
        )
        nodes.extend(
            lay_cluster(by_cluster[cluster.pk], around, used=used, last=last, now=now, shapes=shapes)
        )
    return nodes


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
