"""What capacity is computed from, read once. Input: clock and clusters; output: one `Fleet`.

A constant number of queries: nodes, flavors, what pods hold per node, last known inventories, reserves; what queues
promise is read only where it is asked for. Clusters whose nodes were never read are `missing` and in no number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import connection
from django.db.models import Q, QuerySet

from apps.capacity.health import NodeHealth, Verdict, keeps_work_away, node_verdict, tolerates
from apps.capacity.waterfall import Fall, fall, reserve
from apps.core.gpu import short_model
from apps.fleet.inventory import Group, node_inventory, shape
from apps.fleet.models import Cluster, Reserve
from apps.fleet.registry import classify_resource
from apps.fleet.selectors import enabled_clusters
from apps.observations.models import Source
from apps.observations.selectors import AsOf, SourceStatus, as_of, live_nodes, live_objects
from apps.quotas.flavors import carries

ZERO = Decimal(0)
REMEMBER = timedelta(days=7)
PoolKey = tuple[int, str, str]
_OF_WORK = (Source.PODS, Source.KUEUE, Source.VOLCANO)
Flavor = tuple[str, Mapping[str, Any]]

_HELD = """
SELECT p.cluster_id, p.node_name, r.key, sum(r.value::numeric)
FROM observations_pod p CROSS JOIN LATERAL jsonb_each_text(p.requests) r
WHERE p.cluster_id = ANY(%(clusters)s) AND p.gone_at IS NULL AND p.devices > 0 AND p.node_name <> ''
  AND (%(names)s::text[] IS NULL OR p.node_name = ANY(%(names)s)) AND p.phase NOT IN ('Succeeded', 'Failed') AND strpos(r.key, '/') > 0
GROUP BY 1, 2, 3
"""
_LAST_OFFERED = """
SELECT DISTINCT ON (cluster_id, uid) cluster_id, uid, from_value
FROM observations_transition
WHERE cluster_id = ANY(%s) AND uid = ANY(%s) AND kind = 'Node' AND facet = 'devices' AND from_value <> ''
  AND observed_at > %s AND observed_at <= %s
ORDER BY cluster_id, uid, observed_at DESC
"""
_COLUMNS = (
    "cluster_id", "uid", "name", "labels", "annotations", "capacity", "allocatable", "taints", "conditions",
    "unschedulable", "deleting_since", "observed_at",
)  # fmt: skip


@dataclass(slots=True)
class NodeState:
    """One node: its waterfalls per group, what its pods hold by resource (None: pods were never read), and the
    flavors that reach it."""

    cluster: Cluster
    uid: str
    name: str
    health: NodeHealth
    verdict: Verdict
    falls: list[Fall]
    codes: list[str]
    held: Mapping[str, Decimal] | None
    flavors: tuple[str, ...]
    observed_at: datetime


@dataclass(slots=True)
class Fleet:
    """`pools`: (node, index into its falls) of every group, by pool. `pods_missing`: clusters whose pods were never
    read, where nobody knows what is held; `quota_missing`: those where an installed Kueue or Volcano was never
    read, where nobody knows what is reserved."""

    now: datetime
    clusters: dict[int, Cluster]
    missing: tuple[Cluster, ...]
    pods_missing: tuple[Cluster, ...]
    quota_missing: tuple[Cluster, ...]
    as_of: AsOf
    nodes: list[NodeState]
    pools: dict[PoolKey, list[tuple[NodeState, int]]] = field(default_factory=dict)


def load_fleet(
    *,
    now: datetime,
    clusters: Iterable[Cluster] | None = None,
    uids: Sequence[str] | None = None,
    imported: bool = False,
) -> Fleet:
    """`uids`: only these nodes (their rows are the list's rows as long as no reserve is laid on their pools).
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
        nodes=_nodes(read, now, uids, unread={cluster.pk for cluster in pods}),
    )
    for node in fleet.nodes:
        for index, item in enumerate(node.falls):
            fleet.pools.setdefault(pool_key(node, item.group), []).append((node, index))
    _apply_reserves(fleet)
    return fleet


def _clusters_of(
    clusters: Sequence[Cluster], statuses: Sequence[SourceStatus], *sources: Source
) -> tuple[Cluster, ...]:
    """The clusters that statuses of one of these sources are about."""
    found = {status.cluster.pk for status in statuses if status.source in sources}
    return tuple(cluster for cluster in clusters if cluster.pk in found)


def load_node(*, now: datetime, cluster: Cluster, uid: str) -> NodeState | None:
    """One node as the list shows it: alone, unless the cluster keeps reserves, which are laid over all its nodes."""
    alone = not _reserves(now, [cluster.pk]).exists()
    fleet = load_fleet(now=now, clusters=[cluster], uids=[uid] if alone else None)
    return next((node for node in fleet.nodes if node.uid == uid), None)


def pool_key(node: NodeState, group: Group) -> PoolKey:
    return node.cluster.pk, group.model, str(group.mode)


def _nodes(
    clusters: Sequence[Cluster], now: datetime, uids: Sequence[str] | None, *, unread: Collection[int]
) -> list[NodeState]:
    by_id = {cluster.pk: cluster for cluster in clusters}
    found = live_nodes(clusters=clusters)
    if uids is not None:
        found = found.filter(uid__in=uids)
    rows = list(found.order_by("cluster_id", "name").values_list(*_COLUMNS))
    flavors: dict[int, list[Flavor]] = defaultdict(list)
    for cluster_id, name, spec in live_objects(kind="ResourceFlavor", clusters=clusters).values_list(
        "cluster_id", "name", "spec"
    ):
        flavors[cluster_id].append((name, spec))
    held = held_on_nodes(cluster_ids=list(by_id), names=None if uids is None else [row[2] for row in rows])
    last = _last_offered([row for row in rows if not _offers(row[5])], now)
    shapes = _Shapes()
    return [
        _node(
            by_id[row[0]],
            row,
            held=None if row[0] in unread else held.get((row[0], row[2]), {}),
            last_known=last.get((row[0], row[1])),
            flavors=flavors.get(row[0], ()),
            shapes=shapes,
        )
        for row in rows
    ]


class _Shapes:
    """Inventories and waterfalls of one load, made once per shape of node: thousands of nodes are few shapes."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, tuple[list[Group], list[str]]] = {}
        self._falls: dict[tuple[Hashable, Verdict], list[Fall]] = {}

    def groups(self, key: Hashable, facts: Mapping[str, Any]) -> tuple[list[Group], list[str]]:
        if key not in self._groups:
            self._groups[key] = node_inventory(**facts)
        return self._groups[key]

    def falls(self, key: Hashable, groups: list[Group], verdict: Verdict) -> list[Fall]:
        if (key, verdict) not in self._falls:
            self._falls[key, verdict] = [fall(group, verdict) for group in groups]
        return list(self._falls[key, verdict])


def _offers(capacity: Mapping[str, str]) -> bool:
    """Whether a node's capacity names an accelerator with more than nothing."""
    for resource, amount in capacity.items():
        known = classify_resource(resource)
        if known is not None and known.counted and amount != "0":
            return True
    return False


def held_on_nodes(
    *, cluster_ids: Sequence[int], names: Sequence[str] | None = None
) -> dict[tuple[int, str], dict[str, Decimal]]:
    """What pods hold per node and extended resource: bound and not over; nothing else holds a card."""
    held: dict[tuple[int, str], dict[str, Decimal]] = defaultdict(dict)
    with connection.cursor() as cursor:
        cursor.execute(
            _HELD, {"clusters": list(cluster_ids), "names": None if names is None else list(names)}
        )
        for cluster_id, node, resource, amount in cursor.fetchall():
            held[cluster_id, node][resource] = amount
    return held


def _last_offered(rows: Sequence[Sequence[Any]], now: datetime) -> dict[tuple[int, str], dict[str, str]]:
    """What nodes that offer nothing now offered before, from our own history."""
    if not rows:
        return {}
    ids, uids = list({row[0] for row in rows}), [row[1] for row in rows]
    with connection.cursor() as cursor:
        cursor.execute(_LAST_OFFERED, [ids, uids, now - REMEMBER, now])
        found = cursor.fetchall()
    return {
        (cluster_id, uid): dict(part.split("=", 1) for part in text.split(",") if "=" in part)
        for cluster_id, uid, text in found
    }


def _node(
    cluster: Cluster,
    row: Sequence[Any],
    *,
    held: Mapping[str, Decimal] | None,
    last_known: Mapping[str, str] | None,
    flavors: Iterable[Flavor],
    shapes: _Shapes,
) -> NodeState:
    (
        _,
        uid,
        name,
        labels,
        annotations,
        capacity,
        allocatable,
        taints,
        conditions,
        cordoned,
        deleting,
        seen,
    ) = row
    facts = {
        "labels": labels,
        "annotations": annotations,
        "capacity": capacity,
        "allocatable": allocatable,
        "last_known": last_known,
    }
    key = shape(**facts)
    groups, codes = shapes.groups(key, facts)
    health = NodeHealth(labels, tuple(taints), conditions, cordoned, deleting is not None)
    carried = [(flavor, spec) for flavor, spec in flavors if groups and carries(labels, spec)]
    verdict = node_verdict(health, tolerated=[item for _name, spec in carried for item in _accepts(spec)])
    return NodeState(
        cluster=cluster,
        uid=uid,
        name=name,
        health=health,
        verdict=verdict,
        falls=shapes.falls(key, groups, verdict),
        codes=codes,
        held=held,
        flavors=tuple(sorted(flavor for flavor, spec in carried if _reaches(spec, health))),
        observed_at=seen,
    )


def _accepts(flavor: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Taints that a flavor declares as its nodes' own, and its tolerations, both as tolerations."""
    return [*(flavor.get("node_taints") or ()), *(flavor.get("tolerations") or ())]


def _reaches(flavor: Mapping[str, Any], node: NodeHealth) -> bool:
    """Whether the flavor's own terms let work onto the node: every foreign taint is declared or tolerated."""
    foreign = [t for t in node.taints if t.get("effect") != "PreferNoSchedule" and keeps_work_away(t)]
    return all(tolerates(_accepts(flavor), taint) for taint in foreign)


def _reserves(now: datetime, cluster_ids: Sequence[int]) -> QuerySet[Reserve]:
    in_force = Q(valid_to__isnull=True) | Q(valid_to__gt=now)
    return Reserve.objects.filter(cluster_id__in=cluster_ids, valid_from__lte=now).filter(in_force)


def _apply_reserves(fleet: Fleet) -> None:
    for row in _reserves(fleet.now, list(fleet.clusters)).order_by("pk"):
        for key, members in fleet.pools.items():
            named = row.model in (key[1], short_model(key[1]))
            if key[0] != row.cluster_id or key[2] != row.sharing_mode or not named:
                continue
            changed = reserve([node.falls[index] for node, index in members], row.devices, row.reason)
            for (node, index), item in zip(members, changed, strict=True):
                node.falls[index] = item
            break
