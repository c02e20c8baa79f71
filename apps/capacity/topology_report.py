"""Room by topology: which jobs fit where. Input: clock and clusters; output: the rows of `topology_rows.py`.

A constant number of queries: the fleet, Topologies, HyperNodes. Domains come from labels of all nodes with whole
cards, whichever flavor reaches them: where a card stands does not depend on quota.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.capacity.capacity_types import has_numa_label, has_rdma_label
from apps.capacity.facts import Fleet, NodeState, load_fleet
from apps.capacity.notes_topology import hypernode, topology_notes
from apps.capacity.notes_work import work_notes
from apps.capacity.topology import (
    CLIQUE,
    HOSTNAME,
    JOB_SIZES,
    Cards,
    HyperNode,
    Layout,
    Path,
    Sum,
    blocks,
    domains,
    hypernode_layout,
    jobs,
    jobs_in,
    label_layout,
    total,
)
from apps.capacity.topology_rows import SCOPES, DomainRow, FitRow, PlaceRow, TopologyReport
from apps.core.gpu import SharingMode, model_label
from apps.fleet.models import Cluster
from apps.observations.selectors import live_objects

Labels = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class _Pool:
    """Whole cards of one model whose nodes were bought in one way."""

    cluster: Cluster
    model: str
    capacity_type: str
    cards: tuple[Cards, ...]

    @property
    def columns(self) -> dict[str, Any]:
        return {
            "cluster": self.cluster,
            "model": self.model,
            "model_label": model_label(self.model),
            "sharing_mode": str(SharingMode.EXCLUSIVE),
            "capacity_type": self.capacity_type,
        }


def topology_report(
    *, now: datetime, clusters: Iterable[Cluster] | None = None, pod: int = 1
) -> TopologyReport:
    """`pod`: how many cards each pod of a job takes from one node (a power of two)."""
    return topology_of(load_fleet(now=now, clusters=clusters), pod=pod)


def topology_of(fleet: Fleet, *, pod: int = 1) -> TopologyReport:
    """The same from a fleet that is already read."""
    pools = _pools(fleet)
    layouts = fleet_layouts(fleet)
    fits = [row for pool in pools for row in _fit_rows(pool, layouts[pool.cluster.pk], pod)]
    rows = [row for pool in pools for row in _domain_rows(pool, layouts[pool.cluster.pk], pod)]
    with_cards = {pool.cluster.pk for pool in pools}
    return TopologyReport(
        fits=tuple(fits),
        domains=tuple(rows),
        nodes=tuple(_place_rows(fleet, layouts)),
        layouts=tuple((cluster, layout) for pk, cluster in fleet.clusters.items() for layout in layouts[pk]),
        without=tuple(
            cluster
            for pk, cluster in fleet.clusters.items()
            if pk in with_cards and not any("rack" in layout.scopes() for layout in layouts[pk])
        ),
        missing=fleet.missing,
        as_of=fleet.as_of,
        notes=(*topology_notes(fleet), *work_notes(fleet)),
    )


def _pools(fleet: Fleet) -> list[_Pool]:
    """By cluster, largest pool first."""
    found: dict[tuple[int, str, str], list[Cards]] = defaultdict(list)
    for node in fleet.nodes:
        for index, item in enumerate(node.falls):
            if item.group.mode is SharingMode.EXCLUSIVE:
                found[node.cluster.pk, item.group.model, node.bought].append(_cards(node, index))
    order = {pk: place for place, pk in enumerate(fleet.clusters)}
    pools = [
        _Pool(fleet.clusters[pk], model, bought, tuple(cards)) for (pk, model, bought), cards in found.items()
    ]
    return sorted(
        pools,
        key=lambda pool: (
            order[pool.cluster.pk],
            -sum(item.physical for item in pool.cards),
            pool.model,
            pool.capacity_type,
        ),
    )


def _cards(node: NodeState, index: int) -> Cards:
    """A group of whole cards; parts of a card that only claims can hold do not count as free."""
    item = node.falls[index]
    shares = None if node.shares is None else node.shares[index]
    return Cards(
        node=node.name,
        physical=item.physical,
        allocatable=int(sum(unit.allocatable for unit in item.units)),
        held=None if shares is None else int(sum(share.held for share in shares)),
        free=None if shares is None else int(sum(share.free for share in shares)),
        stranded=None if shares is None else int(sum(share.stranded for share in shares)),
    )


# ---- layouts --------------------------------------------------------------------------------------------------


def fleet_layouts(fleet: Fleet) -> dict[int, list[Layout]]:
    """What groups the nodes of each cluster: Topologies by name, HyperNodes, NVLink cliques; where there is nothing
    of the kind, every node by itself. Only nodes with accelerators are placed."""
    labels: dict[int, dict[str, Mapping[str, str]]] = {pk: {} for pk in fleet.clusters}
    for node in fleet.nodes:
        if node.falls:
            labels[node.cluster.pk][node.name] = node.health.labels
    clusters = list(fleet.clusters.values())
    found: dict[int, list[Layout]] = {pk: [] for pk in fleet.clusters}
    topologies = live_objects(kind="Topology", clusters=clusters).order_by("name")
    for pk, name, spec in topologies.values_list("cluster_id", "name", "spec"):
        if levels := [str(level) for level in spec.get("levels") or ()]:
            found[pk].append(label_layout("kueue", name, levels, labels[pk]))
    for pk, hypernodes in _hypernodes(clusters).items():
        if layout := hypernode_layout(hypernodes, labels[pk]):
            found[pk].append(layout)
    for pk, nodes in labels.items():
        if not found[pk]:
            found[pk].append(label_layout("hostname", "", (HOSTNAME,), nodes))
        cliques = label_layout("nvlink", CLIQUE, (CLIQUE,), nodes)
        if cliques.paths:
            found[pk].append(cliques)
    return found


def _hypernodes(clusters: Sequence[Cluster]) -> dict[int, list[HyperNode]]:
    found: dict[int, list[HyperNode]] = defaultdict(list)
    rows = live_objects(kind="HyperNode", clusters=clusters)
    for pk, name, labels, spec in rows.values_list("cluster_id", "name", "labels", "spec"):
        found[pk].append(hypernode(name, spec, labels))
    return found


# ---- rows -----------------------------------------------------------------------------------------------------


def _fit_rows(pool: _Pool, layouts: Iterable[Layout], pod: int) -> Iterator[FitRow]:
    """One row per scope and layout that says something about this pool; a scope of which none does is not known."""
    yield _fit_row(pool, "node", None, 0, pod)
    for scope in SCOPES[1:]:
        known = [
            (layout, layout.scopes()[scope])
            for layout in layouts
            if scope in layout.scopes() and _places(pool, layout, layout.scopes()[scope])
        ]
        for layout, level in known:
            yield _fit_row(pool, scope, layout, level, pod)
        if not known and scope != "nvlink":
            yield _unknown_row(pool, scope)


def _places(pool: _Pool, layout: Layout, level: int) -> bool:
    return any(layout.domain(item.node, level) is not None for item in pool.cards)


def _fit_row(pool: _Pool, scope: str, layout: Layout | None, level: int, pod: int) -> FitRow:
    parts, whole = blocks(pool.cards, layout, level), total(pool.cards)
    return FitRow(
        **pool.columns,
        scope=scope,
        kind=layout.kind if layout else "",
        topology=layout.name if layout else "",
        level=layout.levels[level] if layout else "",
        domains=len(parts),
        nodes=whole.nodes,
        allocatable=whole.allocatable,
        held=whole.held,
        free=whole.free,
        stranded=whole.stranded,
        broken=whole.broken,
        largest_free=None if whole.free is None else max((part.free or 0 for part in parts), default=0),
        fits={size: jobs(parts, size, pod) for size in JOB_SIZES},
    )


def _unknown_row(pool: _Pool, scope: str) -> FitRow:
    whole = total(pool.cards)
    return FitRow(
        **pool.columns,
        scope=scope,
        kind="",
        topology="",
        level="",
        domains=None,
        nodes=whole.nodes,
        allocatable=whole.allocatable,
        held=whole.held,
        free=whole.free,
        stranded=whole.stranded,
        broken=whole.broken,
        largest_free=None,
        fits=dict.fromkeys(JOB_SIZES),
        known=False,
    )


def _domain_rows(pool: _Pool, layouts: Iterable[Layout], pod: int) -> Iterator[DomainRow]:
    """By layout, each domain before those inside it, nodes in no domain of a level at the end."""
    for layout in layouts:
        rows: list[tuple[int, Path | None, Sum]] = []
        for level in range(len(layout.levels)):
            found = domains(pool.cards, layout, level)
            if set(found) != {None}:
                rows += [(level, path, part) for path, part in found.items()]
        for level, path, part in sorted(rows, key=lambda row: (row[1] is None, row[1] or (), row[0])):
            yield _domain_row(pool, layout, level, path, part, pod)


def _domain_row(pool: _Pool, layout: Layout, level: int, path: Path | None, part: Sum, pod: int) -> DomainRow:
    parts = [step for step in path or () if step]
    return DomainRow(
        **pool.columns,
        kind=layout.kind,
        topology=layout.name,
        level=layout.levels[level],
        level_index=level,
        domain="/".join(parts),
        parent="/".join(parts[:-1]),
        name=parts[-1] if parts else "",
        depth=max(0, len(parts) - 1),
        node=part.names[0] if part.nodes == 1 else "",
        nodes=part.nodes,
        allocatable=part.allocatable,
        held=part.held,
        free=part.free,
        stranded=part.stranded,
        broken=part.broken,
        largest_free_node=part.largest_node,
        fits={size: part.jobs(size, pod) if path else _apart(part, size, pod) for size in JOB_SIZES},
    )


def _apart(part: Sum, size: int, pod: int) -> int | None:
    """Jobs on nodes that no domain joins, each on one of them."""
    return None if part.free is None else sum(jobs_in((free,), size, pod) for free in part.free_by_node)


# ---- nodes ----------------------------------------------------------------------------------------------------


def _place_rows(fleet: Fleet, layouts: Mapping[int, Sequence[Layout]]) -> Iterator[PlaceRow]:
    """Every node with accelerators, by cluster and name."""
    for node in fleet.nodes:
        if node.falls:
            yield _place_row(node, layouts[node.cluster.pk])


def _place_row(node: NodeState, layouts: Iterable[Layout]) -> PlaceRow:
    labels = node.health.labels
    racks = (
        layout.paths[node.name]
        for layout in layouts
        if "rack" in layout.scopes() and node.name in layout.paths
    )
    devices = [device for item in node.falls for device in item.group.devices]
    models = tuple(dict.fromkeys(item.group.model for item in node.falls))
    return PlaceRow(
        cluster=node.cluster,
        node=node.name,
        models=models,
        model_labels=tuple(model_label(model) for model in models),
        capacity_type=node.bought,
        domain="/".join(step for step in next(racks, ()) if step and step != node.name),
        clique=labels.get(CLIQUE, ""),
        rdma=dict(sorted(node.rdma.items())),
        rdma_said=has_rdma_label(labels),
        numa=dict(sorted(Counter(device.numa for device in devices if device.numa).items())),
        numa_said=has_numa_label(labels),
        pcie=tuple(sorted({device.pcie for device in devices if device.pcie})),
    )
