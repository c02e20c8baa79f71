"""Reads of capacity: pools, nodes, one node. Input: clock and clusters; output: the rows of `rows.py`.

Invariants: every total is the sum of rows shown; units of different kinds are only added as GPU-equivalents; a
cluster whose nodes were never read is named in `missing` and is in no number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from apps.capacity.facts import load_fleet
from apps.capacity.nodes import NodeRows, detail
from apps.capacity.notes_topology import topology_notes
from apps.capacity.notes_work import work_notes
from apps.capacity.reports import report_of, rows_of
from apps.capacity.rows import CapacityReport, NodeDetail, NodeRow, Note
from apps.fleet.models import Cluster
from apps.fleet.selectors import enabled_clusters
from apps.observations.models import Source
from apps.observations.selectors import SourceStatus, as_of, live_nodes

__all__ = ["capacity_and_nodes", "capacity_nodes_and_work", "capacity_report", "node_detail", "node_rows"]


def capacity_report(
    *, now: datetime, clusters: Iterable[Cluster] | None = None, imported: bool = False
) -> CapacityReport:
    """Every pool of the clusters, their sums, and what needs a look. `imported`: see load_fleet."""
    return report_of(load_fleet(now=now, clusters=clusters, imported=imported))


def node_rows(*, now: datetime, clusters: Iterable[Cluster] | None = None) -> Sequence[NodeRow]:
    """Every accelerator node, one row per model and sharing mode, by cluster and name; made when looked at."""
    return rows_of(load_fleet(now=now, clusters=clusters))


def capacity_and_nodes(
    *,
    now: datetime,
    clusters: Iterable[Cluster] | None = None,
    statuses: list[SourceStatus] | None = None,
) -> tuple[CapacityReport, NodeRows]:
    """Both from one read, so that they agree. `statuses`: see load_fleet."""
    fleet = load_fleet(now=now, clusters=clusters, statuses=statuses)
    return report_of(fleet), rows_of(fleet)


def capacity_nodes_and_work(
    *, now: datetime, clusters: Iterable[Cluster] | None = None
) -> tuple[CapacityReport, NodeRows, list[Note]]:
    """The same, with what needs a look about topologies, and about jobs and the nodes that they lie on."""
    fleet = load_fleet(now=now, clusters=clusters)
    return report_of(fleet), rows_of(fleet), [*topology_notes(fleet), *work_notes(fleet)]


def node_detail(*, now: datetime, name: str, cluster: Cluster | None = None) -> NodeDetail | None:
    """One node by name (of the first cluster that has it, unless given); None when there is none."""
    candidates = list(enabled_clusters()) if cluster is None else [cluster]
    node = live_nodes(clusters=candidates).filter(name=name).order_by("cluster__name", "cluster_id").first()
    if node is None:
        return None
    home = next(found for found in candidates if found.pk == node.cluster_id)
    fresh = as_of(now=now, clusters=[home], sources=[Source.NODES, Source.PODS])
    return detail(now=now, cluster=home, node=node, fresh=fresh)
