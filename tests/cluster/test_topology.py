"""Room by topology and flavors of a real cluster, counted once more from what its API server lists.

Only nodes are compared about which there is nothing to judge: NVIDIA cards offered whole, Ready, neither cordoned nor
tainted, without a device that a claim could hold."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from django.utils import timezone
from kubernetes.client import ApiClient, CoreV1Api, CustomObjectsApi

from apps.capacity.selectors import capacity_report
from apps.capacity.topology_report import topology_report
from apps.fleet.models import Cluster

from .access import require_cluster
from .conftest import KUEUE, Pull

require_cluster()
pytestmark = [pytest.mark.cluster, pytest.mark.django_db]
GPU, PRODUCT = "nvidia.com/gpu", "nvidia.com/gpu.product"


@pytest.fixture
def collected(cluster: Cluster, pull: Pull) -> Cluster:
    for source in ("nodes", "pods", "kueue", "volcano", "devices"):
        assert pull(source).outcome == "ok"
    return cluster


def listed(writer: ApiClient, version: str, plural: str) -> list[dict[str, Any]]:
    api: Any = CustomObjectsApi(writer)
    found: list[dict[str, Any]] = api.list_cluster_custom_object(KUEUE, version, plural)["items"]
    return found


def plain_nodes(writer: ApiClient) -> dict[str, tuple[dict[str, str], int]]:
    """{name: (labels, whole cards offered)}."""
    found = {}
    items: Any = CoreV1Api(writer).list_node().items
    for node in items:
        labels, offered = node.metadata.labels or {}, node.status.allocatable
        ready = next((c.status for c in node.status.conditions or () if c.type == "Ready"), "")
        apart = any("mig-" in name and amount != "0" for name, amount in offered.items())
        shared = labels.get("nvidia.com/gpu.sharing-strategy", "none") != "none"
        model = labels.get(PRODUCT, "")
        counted = labels.get("nvidia.com/gpu.count") == offered.get(GPU)
        kept_away = node.spec.unschedulable or node.spec.taints
        if (
            ready == "True"
            and model
            and "MIG" not in model
            and counted
            and not (apart or shared or kept_away)
        ):
            found[node.metadata.name] = (labels, int(offered[GPU]))
    return found


def held_by_pods(writer: ApiClient) -> Counter[str]:
    held: Counter[str] = Counter()
    items: Any = CoreV1Api(writer).list_pod_for_all_namespaces().items
    for pod in items:
        if pod.spec.node_name and pod.status.phase not in ("Succeeded", "Failed"):
            for container in pod.spec.containers:
                requests = container.resources.requests if container.resources else None
                held[pod.spec.node_name] += int((requests or {}).get(GPU, 0))
    return held


def test_domains_hold_what_the_nodes_in_them_offer(collected: Cluster, writer: ApiClient, kueue: str) -> None:
    topologies = listed(writer, kueue, "topologies")
    if not topologies:
        pytest.skip("this cluster has no Topology")
    levels = [level["nodeLabel"] for level in topologies[0]["spec"]["levels"]]
    nodes, held = plain_nodes(writer), held_by_pods(writer)
    rows = [
        row
        for row in topology_report(now=timezone.now(), clusters=[collected]).domains
        if row.topology == topologies[0]["metadata"]["name"] and row.node in nodes
    ]
    if not rows:
        pytest.skip("no node with whole cards carries the labels of the topology")
    seen = set()
    for row in rows:
        labels, cards = nodes[row.node]
        path = [labels[level] for level in levels[: row.level_index + 1]]
        assert row.domain == "/".join(path)
        assert (row.model, row.allocatable, row.held, row.free) == (
            labels[PRODUCT],
            cards,
            held[row.node],
            cards - held[row.node],
        )
        assert [row.fits[size] for size in (1, 2, 4, 8)] == [
            (cards - held[row.node]) // size for size in (1, 2, 4, 8)
        ]
        seen.add(row.node)
    carrying = {name for name, (labels, _cards) in nodes.items() if all(level in labels for level in levels)}
    assert seen == carrying


def test_domains_of_each_level_add_up(collected: Cluster) -> None:
    report = topology_report(now=timezone.now(), clusters=[collected])
    assert report.fits
    for whole in (row for row in report.fits if row.scope == "node"):
        own = [
            row
            for row in report.domains
            if (row.model, row.capacity_type) == (whole.model, whole.capacity_type)
        ]
        for level in {(row.kind, row.topology, row.level) for row in own}:
            parts = [row for row in own if (row.kind, row.topology, row.level) == level]
            assert sum(row.allocatable for row in parts) == whole.allocatable
            assert sum(row.free or 0 for row in parts) == whole.free


def test_nodes_that_several_flavors_count(collected: Cluster, writer: ApiClient, kueue: str) -> None:
    """By the flavors' node labels alone: on nodes without taints nothing else decides."""
    flavors = {
        item["metadata"]["name"]: item["spec"].get("nodeLabels") or {}
        for item in listed(writer, kueue, "resourceflavors")
    }
    quoted = {
        flavor["name"]
        for queue in [*listed(writer, kueue, "clusterqueues"), *listed(writer, kueue, "cohorts")]
        for group in queue["spec"].get("resourceGroups") or ()
        for flavor in group["flavors"]
        if any(resource["name"] == GPU for resource in flavor["resources"])
    }
    expected: dict[str, set[str]] = {}
    for name, (labels, _cards) in plain_nodes(writer).items():
        reached = {
            flavor
            for flavor in quoted & set(flavors)
            if all(labels.get(key) == value for key, value in flavors[flavor].items())
        }
        if len(reached) > 1:
            expected[name] = reached
    plain = set(plain_nodes(writer))
    found: dict[str, set[str]] = {}
    for note in capacity_report(now=timezone.now(), clusters=[collected]).notes:
        if note.code == "two_flavors":
            names = {ref.name for ref in note.refs if ref.kind == "flavor"}
            found |= {node: names for node in note.nodes if node in plain}
    assert found == expected
