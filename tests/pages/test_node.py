"""The page of a node: its buckets and why, its cards, its software and its device objects, for whom."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from apps.api.tests.world import World, cluster_object
from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, DeviceSample, Node
from apps.observations.retention import keep_observation_partitions
from apps.observations.tests.builders import see

from .objects import DRIVER, device, resource_claim, resource_slice, taint_rule
from .test_pages import download, text

PAGE = "/capacity/nodes/gpu-1/"


def words(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def change(**fields: Any) -> None:
    Node.objects.filter(name="gpu-1").update(**fields)


def test_it_says_what_is_out_of_use_and_why(world: World) -> None:
    change(unschedulable=True)
    body = words(text(world.client("viewer"), PAGE))
    assert "8 cards, 0 of them usable." in body
    assert "8 cordoned" in body
    change(unschedulable=False, allocatable={"nvidia.com/gpu": "6"})
    assert "2 device unhealthy" in words(text(world.client("viewer"), PAGE))


def test_every_card_is_listed_with_its_state(world: World) -> None:
    head, *rows = download(world.client("admin"), f"{PAGE}?format=csv&table=cards")
    states = [row[head.index("State")] for row in rows]
    assert len(rows) == 8
    assert (states.count("held"), states.count("free")) == (4, 4)
    assert "red-ns/red-pod" in {
        name.split(" ")[0] for row in rows for name in row[head.index("Held by")].split("; ")
    }


def test_holders_of_other_teams_are_not_named(world: World) -> None:
    body = text(world.client("red_lead"), PAGE)
    assert "red-pod" in body
    assert "blue-pod" not in body
    assert "blue-ns" not in "".join(
        str(row) for row in download(world.client("red_lead"), f"{PAGE}?format=csv&table=cards")
    )


def test_numbers_are_also_equivalents_and_memory(world: World) -> None:
    change(labels={**Node.objects.get(name="gpu-1").labels, "nvidia.com/gpu.memory": "81920"})
    body = words(text(world.client("admin"), PAGE))
    assert "GPU-equivalents 8 8 4 4 0" in body
    assert "GPU memory 640 GiB 640 GiB 320 GiB 320 GiB 0" in body


def test_a_spot_node_with_rdma_says_so(world: World) -> None:
    change(
        labels={**Node.objects.get(name="gpu-1").labels, "karpenter.sh/capacity-type": "spot"},
        allocatable={"nvidia.com/gpu": "8", "rdma/hca_shared_devices_a": "63"},
    )
    body = words(text(world.client("admin"), PAGE))
    assert "whole cards · spot ·" in body
    assert "rdma/hca_shared_devices_a 63" in body


def test_its_software_leads_to_who_else_runs_it(world: World) -> None:
    change(
        labels={**Node.objects.get(name="gpu-1").labels, "nvidia.com/cuda.driver-version.full": "570.124.06"},
        info={"kubelet": "v1.32.4"},
    )
    cluster_object(world, "ClusterPolicy", "policy", spec={"components": {"toolkit": "v1.20.0"}}, status={})
    body = text(world.client("admin"), PAGE)
    assert "/capacity/stack/?cluster=east&amp;component=driver&amp;version=570.124.06#nodes" in body
    assert "Operator: toolkit v1.20.0" in words(body)


def test_telemetry_is_compared_with_the_count(world: World) -> None:
    Cluster.objects.update(prometheus_url="http://prometheus.example")
    keep_observation_partitions(now=world.now)
    for number in range(3):
        DeviceSample.objects.create(
            cluster=world.east, sampled_at=world.now, device=f"GPU-{number}", node_name="gpu-1", vendor="nvidia",
            model="NVIDIA H100 80GB HBM3",
        )  # fmt: skip
    body = words(text(world.client("admin"), PAGE))
    assert "Telemetry sees 3 of the 8 cards that the API counts." in body
    assert "node-utilisation" in text(world.client("admin"), PAGE)


def test_cards_that_telemetry_saw_last_are_said_to_be_that(world: World) -> None:
    """Eight cards without a valid geometry, of which the labels prove one, seen twelve minutes ago."""
    change(
        labels={
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-INVALID",
            "nvidia.com/mig.strategy": "single",
            "nvidia.com/gpu.count": "0",
        },
        capacity={"nvidia.com/gpu": "0"},
        allocatable={"nvidia.com/gpu": "0"},
    )
    body = words(text(world.client("admin"), PAGE))
    assert "1 × A100 40GB" in body
    assert "Telemetry is silent" not in body
    seen_at = world.now - timedelta(minutes=12)
    see(world.east, seen_at, {"gpu-1": {f"GPU-{number}": "NVIDIA A100-SXM4-40GB" for number in range(8)}})
    Node.objects.update(created_at=seen_at)
    body = words(text(world.client("admin"), PAGE))
    assert "8 × A100 40GB" in body
    assert "Telemetry is silent about this node; its cards are counted as it saw them last." in body
    assert "Cards last seen 12 m ago, at" in body


@pytest.fixture
def claimed(world: World) -> World:
    """A driver's pool of two generations; the newest has two devices, of which one is taken by a shared claim."""
    taint = {"key": "gpu.nvidia.com/xid", "value": "95", "effect": "NoSchedule"}
    resource_slice(world, "old", node="gpu-1", devices=[device("gpu-0"), device("gpu-9")])
    newest = [device("gpu-1", uuid="GPU-1", taints=(taint,)), device("gpu-0", uuid="GPU-0")]
    resource_slice(world, "new", node="gpu-1", devices=newest, generation=2)
    pods = ("blue-a", "blue-b")
    resource_claim(world, "shared", namespace="blue-ns", node="gpu-1", device="gpu-0", pods=pods)
    resource_claim(world, "monitor", namespace="ops", node="gpu-1", device="gpu-1", admin=True)
    return world


def test_device_objects_are_those_of_the_newest_generation(claimed: World) -> None:
    head, *rows = download(claimed.client("admin"), f"{PAGE}?format=csv&table=objects")
    columns = [head.index(name) for name in ("Device", "Taints", "Taken by")]
    assert [[row[i] for i in columns] for row in rows] == [
        ["gpu-0", "", "blue-ns/shared (blue-a, blue-b)"],
        ["gpu-1", "gpu.nvidia.com/xid=95:NoSchedule", ""],
    ]


def listed(world: World) -> list[tuple[str, str, str]]:
    """(device, taints, remarks) of the table."""
    head, *rows = download(world.client("admin"), f"{PAGE}?format=csv&table=objects")
    columns = [head.index(name) for name in ("Device", "Taints", "Remarks")]
    return [(row[columns[0]], row[columns[1]], row[columns[2]]) for row in rows]


def test_of_an_incomplete_generation_the_last_complete_one_is_shown(world: World) -> None:
    resource_slice(world, "old", node="gpu-1", devices=[device("gpu-0"), device("gpu-1")])
    resource_slice(world, "new", node="gpu-1", devices=[device("gpu-7")], generation=2, slices=2)
    remark = "The driver's list is not complete: this is its last whole one, or what there is of it"
    assert listed(world) == [("gpu-0", "", remark), ("gpu-1", "", remark)]
    resource_slice(world, "more", node="gpu-1", devices=[device("gpu-8")], generation=2, slices=2)
    assert listed(world) == [("gpu-7", "", ""), ("gpu-8", "", "")]


def test_devices_of_a_driver_that_went_away_are_said_to_be_gone(world: World) -> None:
    resource_slice(world, "old", node="gpu-1", devices=[device("gpu-0")])
    ClusterObject.objects.filter(kind="ResourceSlice").update(gone_at=world.now)
    assert listed(world) == [("gpu-0", "", "No longer listed by its driver: as last known")]


def test_taints_of_rules_are_taints_of_the_device(claimed: World) -> None:
    drain = {"key": "ops/drain", "value": "", "effect": "NoExecute"}
    told = {"key": "ops/told", "value": "yes", "effect": "None"}
    taint_rule(claimed, "drain", taint=drain, driver=DRIVER, pool="gpu-1", device="gpu-1")
    taint_rule(claimed, "elsewhere", taint=drain, driver="gpu.example.com")
    taint_rule(claimed, "told", taint=told)
    assert listed(claimed) == [
        ("gpu-0", "", ""),
        ("gpu-1", "gpu.nvidia.com/xid=95:NoSchedule, ops/drain:NoExecute", ""),
    ]


def test_other_things_that_drivers_list_are_no_devices(world: World) -> None:
    resource_slice(world, "cards", node="gpu-1", devices=[device("gpu-0")])
    channels = [device(f"channel-{n}", type="channel") for n in range(3)]
    resource_slice(world, "channels", node="gpu-1", devices=channels)
    spec = ClusterObject.objects.get(name="channels").spec
    ClusterObject.objects.filter(name="channels").update(spec={**spec, "driver": "compute-domain.nvidia.com"})
    assert [name for name, _taints, _remarks in listed(world)] == ["gpu-0"]


def test_claims_are_named_to_who_sees_every_team(claimed: World) -> None:
    head, *rows = download(claimed.client("red_lead"), f"{PAGE}?format=csv&table=objects")
    assert [row[head.index("Taken by")] for row in rows] == ["taken", ""]
    assert "blue-ns" not in text(claimed.client("red_lead"), PAGE)
