"""Device objects of a real API server: pulled, stored, and counted as one counts the same objects by hand."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes.client import ApiClient, CustomObjectsApi
from kubernetes.client.exceptions import ApiException

from apps.fleet.dra import ClaimObject, ClassObject, DraView, count_slices
from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, Node, Pod
from worker.clients.kube import KubeClient

from .access import require_cluster
from .conftest import Pull

require_cluster()
pytestmark = [pytest.mark.cluster, pytest.mark.django_db]
DRA, TOPOLOGY = "resource.k8s.io", ("topology.volcano.sh", "v1alpha1", "hypernodes")


def listed(writer: ApiClient, plural: str) -> list[dict[str, Any]]:
    api: Any = CustomObjectsApi(writer)
    answer: dict[str, Any] = api.list_cluster_custom_object(DRA, "v1", plural)
    items: list[dict[str, Any]] = answer["items"]
    return items


@pytest.fixture
def slices(writer: ApiClient, client: KubeClient) -> list[dict[str, Any]]:
    """The GPU driver's slices, as the server has them in v1."""
    if "v1" not in client.served_versions(DRA):
        pytest.skip("this cluster does not serve resource.k8s.io/v1")
    chosen = [
        item
        for item in listed(writer, "resourceslices")
        if item["spec"]["driver"] == "gpu.nvidia.com" and item["spec"].get("nodeName")
    ]
    if not chosen:
        pytest.skip("no GPU driver of this cluster publishes slices")
    return chosen


def stored(cluster: Cluster, kind: str) -> list[ClusterObject]:
    return list(ClusterObject.objects.filter(cluster=cluster, kind=kind, gone_at=None))


def counted(cluster: Cluster) -> DraView:
    return count_slices(
        slices=[row.spec for row in stored(cluster, "ResourceSlice")],
        taint_rules=[row.spec for row in stored(cluster, "DeviceTaintRule")],
        classes=[ClassObject(row.name, row.created_at, row.spec) for row in stored(cluster, "DeviceClass")],
        claims=[
            ClaimObject(row.namespace, row.name, row.spec, row.status)
            for row in stored(cluster, "ResourceClaim")
        ],
        nodes=dict(Node.objects.filter(cluster=cluster, gone_at=None).values_list("name", "labels")),
    )


def string(device: dict[str, Any], name: str) -> str:
    found: str = device["attributes"].get(name, {}).get("string", "")
    return found


def test_device_objects_are_pulled(cluster: Cluster, pull: Pull, slices: list[dict[str, Any]]) -> None:
    first, second = pull("devices"), pull("devices")
    assert (first.outcome, first.error, first.quarantined) == ("ok", "", 0)
    assert (second.outcome, second.mode) == ("ok", "watch")
    ours = {row.uid: row for row in stored(cluster, "ResourceSlice")}
    assert {item["metadata"]["uid"] for item in slices} <= ours.keys()
    for item in slices:
        assert len(ours[item["metadata"]["uid"]].spec["devices"]) == len(item["spec"]["devices"])


def test_cards_and_holds_are_those_counted_from_the_same_objects(
    cluster: Cluster, pull: Pull, slices: list[dict[str, Any]], writer: ApiClient
) -> None:
    for source in ("nodes", "pods", "devices"):
        assert pull(source).outcome == "ok"
    view = counted(cluster)
    by_hand: dict[str, set[str]] = {}
    for item in slices:
        for device in item["spec"]["devices"]:
            card = string(device, "parentUUID") if string(device, "type") == "mig" else string(device, "uuid")
            by_hand.setdefault(item["spec"]["nodeName"], set()).add(card)
    assert {node: len(found.cards) for node, found in view.by_node.items()} == {
        n: len(c) for n, c in by_hand.items()
    }
    claims = listed(writer, "resourceclaims")
    allocated = Counter(
        result["pool"]
        for claim in claims
        for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
        if result["driver"] == "gpu.nvidia.com" and not result.get("adminAccess")
    )
    pools = {item["spec"]["pool"]["name"]: item["spec"]["nodeName"] for item in slices}
    held = {node: int(sum(found.held.values())) for node, found in view.by_node.items() if found.held}
    assert held == {pools[pool]: count for pool, count in allocated.items()}
    names = {(row.namespace, row.name) for row in stored(cluster, "ResourceClaim")}
    for pod in Pod.objects.filter(cluster=cluster, gone_at=None).exclude(claims=[]):
        assert {(pod.namespace, claim["claim"]) for claim in pod.claims} <= names


def test_the_test_beds_node(cluster: Cluster, pull: Pull, slices: list[dict[str, Any]]) -> None:
    """dra-01 has six whole H100 and a seventh with two 3g.40gb instances."""
    if not any(item["spec"]["nodeName"] == "dra-01" for item in slices):
        pytest.skip("not the test bed")
    pull("nodes")
    pull("devices")
    found = counted(cluster).by_node["dra-01"]
    assert len(found.cards) == 7
    assert [(str(group.mode), group.cards) for group in found.groups] == [("exclusive", 6), ("mig", 1)]
    units = {unit.resource: int(unit.capacity) for group in found.groups for unit in group.units}
    assert units == {"gpu.nvidia.com/gpu": 6, "gpu.nvidia.com/mig-3g.40gb": 2}


@pytest.fixture
def hyper_node(writer: ApiClient) -> Iterator[str]:
    api, name = CustomObjectsApi(writer), f"portal-test-{uuid.uuid4().hex[:8]}"
    members = [{"type": "Node", "selector": {"regexMatch": {"pattern": "^no-such-node-"}}}]
    body = {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": 9, "tierName": "portal-test", "members": members},
    }
    try:
        api.create_cluster_custom_object(*TOPOLOGY, body)
    except ApiException as error:
        pytest.skip(f"a HyperNode cannot be created here: {error.status} {error.reason}")
    yield name
    api.delete_cluster_custom_object(*TOPOLOGY, name)


def test_a_hyper_node_is_stored(cluster: Cluster, pull: Pull, hyper_node: str) -> None:
    assert pull("volcano").outcome == "ok"
    found = ClusterObject.objects.get(cluster=cluster, kind="HyperNode", name=hyper_node)
    assert (found.spec["tier"], found.spec["tier_name"]) == (9, "portal-test")
    assert found.spec["members"][0]["regex"] == "^no-such-node-"
