"""Do telemetry and the API speak of the same cards? Input: clock and clusters; output: numbers per cluster and node.

A card is covered when telemetry sees it on the node whose waterfall counts it. Invariants: per node
counted = matched + unseen and seen = matched + beyond; a cluster without telemetry has no coverage, which is not 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db import connection

from apps.capacity.carding import place
from apps.capacity.facts import NodeState, load_fleet, load_node
from apps.core.working_memory import sorted_in_memory
from apps.fleet.models import Cluster
from apps.fleet.selectors import enabled_clusters
from apps.observations.models import Source
from apps.observations.selectors import as_of, live_nodes, sample_window

_SEEN = """
SELECT DISTINCT cluster_id, node_name, device, vendor, model, instance <> '' FROM observations_devicesample
WHERE cluster_id = ANY(%(clusters)s) AND sampled_at > %(since)s AND sampled_at <= %(now)s
  AND (%(nodes)s::text[] IS NULL OR node_name = ANY(%(nodes)s))
"""


@dataclass(frozen=True, slots=True)
class SeenDevice:
    """A card of which telemetry has fresh samples."""

    device: str
    vendor: str
    model: str
    partitioned: bool


@dataclass(frozen=True, slots=True)
class NodeCoverage:
    """`counted`: physical cards of the API; `seen`: cards of telemetry; `matched`: both. `beyond`: names of the cards
    that only telemetry sees."""

    node: str
    counted: int
    seen: int
    matched: int
    beyond: tuple[str, ...] = ()

    @property
    def unseen(self) -> int:
        """Cards that the API counts and telemetry does not see."""
        return self.counted - self.matched

    @property
    def agrees(self) -> bool:
        return not self.unseen and not self.beyond


@dataclass(frozen=True, slots=True)
class ClusterCoverage:
    """The sums over a cluster's nodes, and what telemetry says of nodes that the API does not know. `differing`: the
    nodes where both do not agree."""

    cluster: Cluster
    counted: int
    seen: int
    matched: int
    nodes: int
    dark_nodes: int
    unplaced: int
    differing: tuple[NodeCoverage, ...]

    @property
    def unseen(self) -> int:
        return self.counted - self.matched

    @property
    def beyond(self) -> int:
        return self.seen - self.matched

    @property
    def ratio(self) -> Decimal | None:
        """The part of the counted cards that telemetry sees; None without any."""
        return (Decimal(self.matched) / self.counted).quantize(Decimal("0.0001")) if self.counted else None


def coverage(*, now: datetime, clusters: Iterable[Cluster] | None = None) -> list[ClusterCoverage]:
    """The clusters that have both nodes and telemetry, in their order."""
    chosen = list(enabled_clusters() if clusters is None else clusters)
    told = _with_telemetry(now, chosen)
    if not told:
        return []
    fleet = load_fleet(now=now, clusters=told)
    seen = _seen(now, told)
    by_cluster: defaultdict[int, list[NodeState]] = defaultdict(list)
    for state in fleet.nodes:
        by_cluster[state.cluster.pk].append(state)
    return [
        _of_cluster(cluster, by_cluster[cluster.pk], seen.get(cluster.pk, {}))
        for cluster in told
        if cluster.pk in fleet.clusters
    ]


def node_coverage(*, now: datetime, cluster: Cluster, node: str) -> NodeCoverage | None:
    """One node's; None where the cluster has no telemetry or the node is not there."""
    if not _with_telemetry(now, [cluster]):
        return None
    uid = live_nodes(clusters=[cluster]).filter(name=node).values_list("uid", flat=True).first()
    state = load_node(now=now, cluster=cluster, uid=uid) if uid else None
    if state is None:
        return None
    return _of_node(state, _seen(now, [cluster], node).get(cluster.pk, {}).get(node, ()))


def _with_telemetry(now: datetime, clusters: Sequence[Cluster]) -> list[Cluster]:
    """Those whose exporters were ever read: silence of others says nothing."""
    statuses = as_of(now=now, clusters=clusters, sources=[Source.DCGM]).statuses
    read = {status.cluster.pk for status in statuses if status.has_data}
    return [cluster for cluster in clusters if cluster.pk in read]


def _seen(
    now: datetime, clusters: Sequence[Cluster], node: str = ""
) -> dict[int, dict[str, list[SeenDevice]]]:
    found: defaultdict[int, defaultdict[str, dict[str, SeenDevice]]] = defaultdict(lambda: defaultdict(dict))
    with sorted_in_memory(), connection.cursor() as cursor:
        cursor.execute(_SEEN, sample_window(now=now, clusters=clusters, nodes=[node] if node else None))
        for cluster_id, name, *said in cursor.fetchall():
            cards, one = found[cluster_id][name], SeenDevice(*said)
            cards[one.device] = _same(cards[one.device], one) if one.device in cards else one
    return {
        cluster_id: {name: list(cards.values()) for name, cards in nodes.items()}
        for cluster_id, nodes in found.items()
    }


def _same(one: SeenDevice, other: SeenDevice) -> SeenDevice:
    """A card of which samples say different things: instances, or a name that changed lately."""
    return SeenDevice(
        one.device,
        max(one.vendor, other.vendor),
        max(one.model, other.model),
        one.partitioned or other.partitioned,
    )


def _of_cluster(
    cluster: Cluster, states: Sequence[NodeState], seen: Mapping[str, Sequence[SeenDevice]]
) -> ClusterCoverage:
    nodes = [
        _of_node(state, seen.get(state.name, ())) for state in states if state.falls or seen.get(state.name)
    ]
    names = {state.name for state in states}
    unplaced = {device.device for name, found in seen.items() if name not in names for device in found}
    return ClusterCoverage(
        cluster=cluster,
        counted=sum(node.counted for node in nodes),
        seen=sum(node.seen for node in nodes) + len(unplaced),
        matched=sum(node.matched for node in nodes),
        nodes=len(nodes),
        dark_nodes=sum(bool(node.counted) and not node.seen for node in nodes),
        unplaced=len(unplaced),
        differing=tuple(node for node in nodes if not node.agrees),
    )


def _of_node(state: NodeState, seen: Sequence[SeenDevice]) -> NodeCoverage:
    placed = {device.device for found in place(state.falls, seen) for device in found}
    return NodeCoverage(
        node=state.name,
        counted=sum(item.physical for item in state.falls),
        seen=len(seen),
        matched=len(placed),
        beyond=tuple(sorted(device.device for device in seen if device.device not in placed)),
    )
