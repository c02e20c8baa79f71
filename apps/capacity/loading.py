"""Everything that clusters' nodes are laid out from, read in a constant number of queries, and laid out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from apps.capacity.laying import NodeState, Shapes, Surroundings, asks_telemetry, lay_cluster
from apps.capacity.reading import (
    NodeFacts,
    last_offered,
    read_devices,
    read_flavors,
    read_nodes,
    read_seen,
    used_on_nodes,
)
from apps.capacity.reserves import Rule
from apps.fleet.dra import Adrift
from apps.fleet.models import Cluster


@dataclass(frozen=True, slots=True)
class Laid:
    """One cluster's nodes, by name, without and with what reserves take, and what they were laid out by."""

    around: Surroundings
    nodes: list[NodeState]


def load_nodes(
    clusters: Sequence[Cluster],
    *,
    now: datetime,
    rules: Mapping[int, tuple[Rule, ...]],
    unread: Collection[int],
    uids: Sequence[str] | None = None,
) -> list[Laid]:
    """Every node of these clusters (or those of `uids`). `unread`: clusters whose pods were never read."""
    ids = [cluster.pk for cluster in clusters]
    rows = read_nodes(cluster_ids=ids, uids=uids)
    by_cluster: dict[int, list[NodeFacts]] = {pk: [] for pk in ids}
    for row in rows:
        by_cluster[row.cluster_id].append(row)
    flavors = read_flavors(cluster_ids=ids)
    used = used_on_nodes(cluster_ids=ids, names=None if uids is None else [row.name for row in rows])
    last = last_offered(rows, now)
    labels = {pk: {row.name: row.labels for row in own} for pk, own in by_cluster.items()}
    devices = read_devices(cluster_ids=ids, nodes=labels, now=now)
    shapes = Shapes()
    asking = [
        row.name
        for row in rows
        if asks_telemetry(row, last=last.get((row.cluster_id, row.uid)), shapes=shapes)
    ]
    seen = read_seen(now=now, clusters=clusters, names=asking)
    found = []
    for cluster in clusters:
        view = devices.get(cluster.pk)
        around = Surroundings(
            cluster=cluster,
            flavors=flavors.get(cluster.pk, ()),
            rules=rules.get(cluster.pk, ()),
            pods_read=cluster.pk not in unread,
            has_slices=view is not None,
            devices={} if view is None else view.by_node,
            adrift=Adrift() if view is None else view.adrift,
            seen={name: cards for (pk, name), cards in seen.items() if pk == cluster.pk},
        )
        own = by_cluster[cluster.pk]
        found.append(Laid(around, lay_cluster(own, around, used=used, last=last, now=now, shapes=shapes)))
    return found
