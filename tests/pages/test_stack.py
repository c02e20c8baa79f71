"""The software page, its CSV and REST on a fleet of three nodes, of which one differs."""

from __future__ import annotations

from typing import Any

import pytest

from apps.api.tests.world import World, cluster_object
from apps.observations.models import DeviceSample, Node
from apps.observations.retention import keep_observation_partitions

from .objects import device, resource_slice
from .test_pages import download, text

DRIVER, CUDA = "nvidia.com/cuda.driver-version.full", "nvidia.com/cuda.runtime-version.full"


@pytest.fixture
def stacked(world: World) -> World:
    """gpu-1 and gpu-3 run one driver, gpu-2 another; only gpu-1 says so by label, gpu-3 by its DRA device."""
    first, second = Node.objects.filter(name__in=["gpu-1", "gpu-2"]).order_by("name")
    first.info = {"kubelet": "v1.32.4", "kernel": "6.8.0"}
    second.info = {"kubelet": "v1.31.2", "kernel": "6.8.0"}
    first.labels |= {DRIVER: "570.124.06", CUDA: "12.8"}
    first.save()
    second.save()
    third = Node.objects.get(pk=first.pk)
    third.pk, third.uid, third.name = None, "uid-gpu-3", "gpu-3"
    third.labels = {k: v for k, v in first.labels.items() if k not in (DRIVER, CUDA)}
    third.save()
    versions: dict[str, Any] = {"driverVersion": "570.124.6", "cudaDriverVersion": "12.8.0"}
    resource_slice(world, "gpu-3-slice", node="gpu-3", devices=[device("gpu-0", **versions)])
    policy = {"components": {"toolkit": "v1.20.0"}}
    cluster_object(world, "ClusterPolicy", "cluster-policy", spec=policy, status={"state": "notReady"})
    keep_observation_partitions(now=world.now)
    DeviceSample.objects.create(
        cluster=world.east,
        sampled_at=world.now,
        device="GPU-2",
        node_name="gpu-2",
        driver="550.54.15",
    )
    return world


def results(world: World, query: str = "") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = world.client("admin").get(f"/api/v1/stack/{query}").json()["results"]
    return rows


def test_versions_are_counted_whoever_names_them(stacked: World) -> None:
    drivers = results(stacked, "?component=driver")
    assert [(row["version"], row["nodes"], row["outliers"], row["said_by"]) for row in drivers] == [
        ("550.54.15", ["gpu-2"], ["gpu-2"], ["telemetry"]),
        ("570.124.06", ["gpu-1", "gpu-3"], [], ["dra", "label"]),
    ]
    cuda = {row["version"]: row["nodes"] for row in results(stacked, "?component=cuda")}
    assert cuda == {"12.8.0": ["gpu-1", "gpu-3"], None: ["gpu-2"]}
    assert [row["version"] for row in results(stacked, "?component=operator/toolkit")] == ["v1.20.0"]


def test_the_page_says_what_differs(stacked: World) -> None:
    body = text(stacked.client("viewer"), "/capacity/stack/")
    assert "<b>1</b> of 3 accelerator nodes differs" in body
    assert "kubelets are 1 minor version apart, v1.31.2 to v1.32.4" in body
    assert "says “notReady”" in body
    assert "component=driver&amp;version=550.54.15&amp;outliers=on#nodes" in body


def test_a_number_leads_to_its_nodes(stacked: World) -> None:
    client = stacked.client("admin")
    head, *rows = download(
        client, "/capacity/stack/?component=driver&version=570.124.06&format=csv&table=nodes"
    )
    assert [row[head.index("Node")] for row in rows] == ["gpu-1", "gpu-3"]
    head, *rows = download(client, "/capacity/stack/?format=csv&table=nodes")
    assert {row[head.index("Node")] for row in rows} == {"gpu-2"}
    head, *rows = download(client, "/capacity/stack/?component=driver&outliers=on&format=csv&table=versions")
    assert [row[head.index("Version")] for row in rows] == ["550.54.15"]


def test_page_and_rest_list_the_same_versions(stacked: World) -> None:
    for query in ("", "component=kubelet", "outliers=on", "q=GPU-2"):
        head, *rows = download(stacked.client("admin"), f"/capacity/stack/?format=csv&table=versions&{query}")
        listed = {(row[head.index("Component")], row[head.index("Version")]) for row in rows}
        assert listed == {(row["component"], row["version"] or "") for row in results(stacked, f"?{query}")}


# ------------------------------------------------------------------ whose operator it is
AMD = {"labels": {"amd.com/gpu.product-name": "MI300X"}, "capacity": {"amd.com/gpu": "8"}}
VOLCANO = {
    "labels": {"nvidia.com/gpu.product": "NVIDIA-A10"},
    "capacity": {"volcano.sh/vgpu-number": "20", "volcano.sh/vgpu-memory": "48000"},
}


def become(world: World, name: str, found: dict[str, Any]) -> None:
    Node.objects.filter(name=name).update(**found, allocatable=found["capacity"])


@pytest.mark.parametrize(("found", "shown"), [(AMD, False), (VOLCANO, True)])
def test_an_operators_components_are_listed_for_nodes_with_its_vendors_cards(
    stacked: World, found: dict[str, Any], shown: bool
) -> None:
    client = stacked.client("admin")
    become(stacked, "gpu-2", found)
    assert "Operator:" in text(client, "/capacity/nodes/gpu-1/")
    assert ("Operator:" in text(client, "/capacity/nodes/gpu-2/")) is shown


@pytest.mark.parametrize(("found", "shown"), [(AMD, False), (VOLCANO, True)])
def test_an_operators_components_are_listed_for_clusters_with_its_vendors_cards(
    stacked: World, found: dict[str, Any], shown: bool
) -> None:
    Node.objects.exclude(name="gpu-2").delete()
    become(stacked, "gpu-2", found)
    assert bool(results(stacked, "?component=operator/toolkit")) is shown
    assert ("says “notReady”" in text(stacked.client("viewer"), "/capacity/stack/")) is shown
