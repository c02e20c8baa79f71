"""Reads of capacity: pools, nodes, one node. Input: clock and clusters; output: the rows of `rows.py`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from apps.capacity.rows import CapacityReport, NodeDetail, NodeRow
from apps.fleet.models import Cluster


def capacity_report(*, now: datetime, clusters: Iterable[Cluster] | None = None) -> CapacityReport:
    """Every pool of the clusters, their sums, and what needs a look."""
    raise NotImplementedError


def node_rows(*, now: datetime, clusters: Iterable[Cluster] | None = None) -> list[NodeRow]:
    """Every accelerator node, one row per model and sharing mode."""
    raise NotImplementedError


def node_detail(*, now: datetime, name: str, cluster: Cluster | None = None) -> NodeDetail | None:
    """One node by name (of the first cluster that has it, unless given); None when there is none."""
    raise NotImplementedError
