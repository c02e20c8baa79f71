"""Reads of the software stack. Input: clock and clusters; output: the rows of `stack.py`.

A constant number of queries: accelerator nodes with their labels and nodeInfo, DRA devices and newest samples only
of nodes whose labels name no driver, the operators' policies where the operator's vendor has cards. Clusters whose
nodes were never read are in no row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.capacity.selectors import node_rows
from apps.capacity.stack import (
    NodeSoftware,
    NodeVersion,
    Said,
    Skew,
    StackRow,
    from_devices,
    from_node,
    kubelet_skews,
    node_versions,
    operator_rows,
    stack_rows,
    under_operator,
)
from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, DeviceSample, Node
from apps.observations.selectors import live_nodes, live_objects, stale_after

NodeKey = tuple[int, str]
FEW = 100
"""Up to so many nodes a query names each."""


@dataclass(frozen=True, slots=True)
class OperatorState:
    """What a GPU operator says of itself; `state` as it writes it ("ready", "notReady", "ignored", "")."""

    cluster: Cluster
    name: str
    state: str


@dataclass(frozen=True, slots=True)
class StackReport:
    """`versions`: one per node and component; `rows`: grouped by version, an operator's last."""

    rows: tuple[StackRow, ...]
    versions: tuple[NodeVersion, ...]
    skews: tuple[Skew, ...]
    operators: tuple[OperatorState, ...]
    nodes: int

    @property
    def outliers(self) -> int:
        """Nodes that differ from most of their model in at least one component."""
        return len({(row.cluster.pk, row.node) for row in self.versions if row.is_outlier})


def stack_report(*, now: datetime, clusters: Sequence[Cluster]) -> StackReport:
    """The software of every accelerator node of the clusters."""
    models: dict[NodeKey, list[str]] = defaultdict(list)
    vendors: dict[int, set[str]] = defaultdict(set)
    for row in node_rows(now=now, clusters=clusters):
        models[row.cluster.pk, row.node].append(row.model_label)
        vendors[row.cluster.pk].add(row.vendor)
    stored = live_nodes(clusters=clusters).values_list("cluster_id", "name", "labels", "info")
    facts = [row for row in stored.order_by("cluster_id", "name") if (row[0], row[1]) in models]
    software = _software(facts, models, now=now, clusters=clusters)
    policies = _policies([cluster for cluster in clusters if under_operator(vendors[cluster.pk])])
    by_id = {cluster.pk: cluster for cluster in clusters}
    versions = node_versions(software)
    return StackReport(
        rows=(*stack_rows(versions), *_operators(by_id, policies)),
        versions=tuple(versions),
        skews=tuple(kubelet_skews(software)),
        operators=tuple(
            OperatorState(by_id[policy.cluster_id], policy.name, policy.status.get("state") or "")
            for policy in policies
        ),
        nodes=len(software),
    )


def node_stack(*, now: datetime, cluster: Cluster, node: Node) -> list[NodeVersion]:
    """One node's own components."""
    facts = [(cluster.pk, node.name, node.labels, node.info)]
    return node_versions(_software(facts, {(cluster.pk, node.name): []}, now=now, clusters=[cluster]))


def node_operators(*, cluster: Cluster, vendors: Iterable[str]) -> list[StackRow]:
    """The components that the cluster's operator chooses for a node with cards of these vendors."""
    return _operators({cluster.pk: cluster}, _policies([cluster])) if under_operator(vendors) else []


def _policies(clusters: Sequence[Cluster]) -> list[ClusterObject]:
    return list(live_objects(kind="ClusterPolicy", clusters=clusters)) if clusters else []


def _operators(clusters: Mapping[int, Cluster], policies: Iterable[ClusterObject]) -> list[StackRow]:
    return [
        row
        for policy in policies
        for row in operator_rows(clusters[policy.cluster_id], policy.spec.get("components") or {})
    ]


def _software(
    facts: Sequence[tuple[int, str, Mapping[str, str], Mapping[str, str]]],
    models: Mapping[NodeKey, Sequence[str]],
    *,
    now: datetime,
    clusters: Sequence[Cluster],
) -> list[NodeSoftware]:
    by_id = {cluster.pk: cluster for cluster in clusters}
    said = {(cluster_id, name): from_node(labels, info) for cluster_id, name, labels, info in facts}
    devices = _devices(clusters, said)
    samples = _sampled_drivers(now, [key for key in said if "driver" not in said[key] and key not in devices])
    found = []
    for key, own in said.items():
        more = {**devices.get(key, {}), **({"driver": samples[key]} if key in samples else {})}
        sayings = {
            component: (*own.get(component, ()), *((more[component],) if component in more else ()))
            for component in {*own, *more}
        }
        names = tuple(dict.fromkeys(models[key]))
        found.append(NodeSoftware(by_id[key[0]], key[1], names, sayings))
    return found


def _devices(clusters: Iterable[Cluster], nodes: Collection[NodeKey]) -> dict[NodeKey, dict[str, Said]]:
    """What DRA devices of these nodes say, by node."""
    attributes: dict[NodeKey, list[Mapping[str, Any]]] = defaultdict(list)
    slices = live_objects(kind="ResourceSlice", clusters=clusters).values_list("cluster_id", "spec")
    for cluster_id, spec in slices:
        for device in spec.get("devices") or ():
            key = cluster_id, spec.get("node") or device.get("node") or ""
            if key in nodes:
                attributes[key].append(device.get("attributes") or {})
    return {key: said for key, found in attributes.items() if (said := from_devices(found))}


def _sampled_drivers(now: datetime, nodes: Collection[NodeKey]) -> dict[NodeKey, Said]:
    """The drivers that exporters of these nodes name in a fresh sample."""
    if not nodes:
        return {}
    wanted = frozenset(nodes)
    newest = (
        DeviceSample.objects.filter(
            cluster_id__in={cluster_id for cluster_id, _name in nodes},
            sampled_at__gt=now - 2 * stale_after(),
            sampled_at__lte=now,
        )
        .exclude(driver="")
        .order_by("cluster_id", "node_name", "-sampled_at")
        .distinct("cluster_id", "node_name")
    )
    if len(wanted) <= FEW:
        newest = newest.filter(node_name__in=[name for _cluster, name in wanted])
    found = newest.values_list("cluster_id", "node_name", "driver")
    return {
        (cluster_id, name): Said(driver, "telemetry")
        for cluster_id, name, driver in found
        if (cluster_id, name) in wanted
    }
