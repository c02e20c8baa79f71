"""The topology page: what it says with and without a topology, its filters, and that its CSV and REST agree.

Two nodes of 8 H100 in world `east`: gpu-1 with 4 held and 4 free, gpu-2 with 8 free.
"""

from __future__ import annotations

from typing import Any

import pytest

from apps.api.tests.world import World, cluster_object
from apps.observations.models import Node, Pod

from .test_pages import download, text
from .test_same_lists import answered, listed

RACK = "example.com/rack"


@pytest.fixture
def racks(world: World) -> World:
    """Both nodes in one rack; the second one is spot only where a test says so."""
    for node in Node.objects.all():
        node.labels = {**node.labels, RACK: "r1"}
        node.save()
    cluster_object(world, "Topology", "racks", spec={"levels": [RACK, "kubernetes.io/hostname"]}, status={})
    return world


def fit_rows(world: World, query: str = "") -> dict[str, dict[str, str]]:
    rows = listed(world, f"/capacity/topology/?format=csv&table=fits&{query}")
    return {row["All cards in the"]: row for row in rows}


def test_without_a_topology_it_says_what_to_create(world: World) -> None:
    body = text(world.client("admin"), "/capacity/topology/")
    assert "East: nothing says which nodes share a rack or block" in body
    assert "create a Kueue Topology" in body
    rows = fit_rows(world)
    assert [rows["node"][size] for size in ("k = 1", "k = 8", "k = 16")] == ["12", "1", "0"]  # 4 + 8 free
    assert [rows["rack"][size] for size in ("k = 1", "k = 8", "k = 16")] == ["", "", ""]
    assert "not known" in body


def test_a_rack_joins_what_is_free_on_its_nodes(racks: World) -> None:
    body = text(racks.client("viewer"), "/capacity/topology/")
    assert "nothing says which nodes share a rack" not in body
    rows = fit_rows(racks)
    # In the rack 12 free cards: 12, 6, 3, 1; on one node 4 and 8: 12, 6, 3, 1.
    assert [rows["rack"][size] for size in ("k = 1", "k = 2", "k = 4", "k = 8", "k = 16")] == [
        "12",
        "6",
        "3",
        "1",
        "0",
    ]
    assert rows["rack"]["Largest free block"] == "12"
    assert rows["node"]["Largest free block"] == "8"
    assert rows["node"]["Fragmented"] == "0.333"  # 4 of 12
    assert rows["block"]["Largest free block"] == ""


def test_the_domains_are_a_tree_that_leads_to_nodes(racks: World) -> None:
    rows = listed(racks, "/capacity/topology/?format=csv&table=domains")
    assert [(row["Domain"], row["Nodes"], row["Held"], row["Free"]) for row in rows] == [
        ("r1", "2", "4", "12"),
        ("r1/gpu-1", "1", "4", "4"),
        ("r1/gpu-2", "1", "0", "8"),
    ]
    body = text(racks.client("viewer"), "/capacity/topology/")
    assert 'href="/capacity/nodes/gpu-1/?cluster=east"' in body
    assert '<div class="indent-1">' in body


def test_spot_is_a_pool_of_its_own(racks: World) -> None:
    node = Node.objects.get(name="gpu-2")
    node.labels = {**node.labels, "karpenter.sh/capacity-type": "spot"}
    node.save()
    assert fit_rows(racks, "capacity_type=spot")["rack"]["k = 8"] == "1"
    assert fit_rows(racks, "capacity_type=-")["rack"]["k = 8"] == "0"
    assert "spot" in text(racks.client("viewer"), "/capacity/topology/")


def test_pods_of_eight_need_whole_nodes(racks: World) -> None:
    Pod.objects.update(node_name="gpu-1", requests={"nvidia.com/gpu": "0"}, devices=0)
    assert fit_rows(racks)["rack"]["k = 16"] == fit_rows(racks, "pod=8")["rack"]["k = 16"] == "1"
    Pod.objects.filter(uid="pod-red").update(requests={"nvidia.com/gpu": "1"}, devices=1)
    assert (fit_rows(racks)["rack"]["k = 8"], fit_rows(racks, "pod=8")["rack"]["k = 8"]) == ("1", "1")
    assert fit_rows(racks)["rack"]["k = 16"] == "0"


@pytest.mark.parametrize(
    "query",
    [
        "",
        "level=example.com/rack",
        "kind=kueue",
        "kind=volcano",
        "q=GPU-2",
        "model=none",
        "capacity_type=spot",
        "pod=8",
    ],
)
def test_page_and_rest_answer_the_same(racks: World, query: str) -> None:
    page = listed(racks, f"/capacity/topology/?format=csv&table=domains&{query}")
    rest = answered(racks, f"topology/?{query}")
    assert {(row["Domain"], row["Level"], row["Free"]) for row in page} == {
        (row["domain"], row["level"], str(row["free"])) for row in rest
    }
    body: Any = racks.client("admin").get(f"/api/v1/topology/?{query}").json()
    fits = listed(racks, f"/capacity/topology/?format=csv&table=fits&{query}")
    assert [(row["All cards in the"], row["k = 8"]) for row in fits] == [
        (row["scope"], "" if row["fits"]["8"] is None else str(row["fits"]["8"])) for row in body["fits"]
    ]


def test_rest_names_clusters_without_a_topology(world: World) -> None:
    body: Any = world.client("admin").get("/api/v1/topology/").json()
    assert body["clusters_without_topology"] == ["east"]
    assert [row["is_known"] for row in body["fits"]] == [True, False, False]
    assert {row["kind"] for row in body["results"]} == {"hostname"}
    assert world.client("admin").get("/api/v1/topology/?pod=3").status_code == 400


def test_a_wrong_filter_shows_the_page_with_its_error(world: World) -> None:
    body = text(world.client("admin"), "/capacity/topology/?pod=3")
    assert "f-pod" in body
    assert download(world.client("admin"), "/capacity/topology/?pod=3&format=csv&table=fits")[1:] == []


def test_nodes_say_what_connects_them(racks: World) -> None:
    node = Node.objects.get(name="gpu-1")
    node.allocatable = {**node.allocatable, "rdma/hca": "8"}
    node.capacity = {**node.capacity, "rdma/hca": "8"}
    node.labels = {
        **node.labels,
        "nvidia.com/gpu.clique": "abc.1",
        "feature.node.kubernetes.io/memory-numa": "true",
    }
    node.save()
    other = Node.objects.get(name="gpu-2")
    other.labels = {**other.labels, "feature.node.kubernetes.io/rdma.available": "true"}
    other.save()
    rows = {row["Node"]: row for row in listed(racks, "/capacity/topology/?format=csv&table=nodes")}
    seen = {name: (row["Domain"], row["NVLink clique"], row["RDMA"]) for name, row in rows.items()}
    assert seen == {"gpu-1": ("r1", "abc.1", "rdma/hca=8"), "gpu-2": ("r1", "", "label")}
    assert rows["gpu-1"]["Cards by NUMA node"] == "several"
    body = text(racks.client("viewer"), "/capacity/topology/")
    assert "rdma/hca × 8" in body
    rest = {row["node"]: row for row in answered(racks, "topology/nodes/")}
    assert rest["gpu-1"]["rdma"] == {"rdma/hca": "8"}
    assert (rest["gpu-2"]["says_rdma"], rest["gpu-2"]["rdma"], rest["gpu-1"]["says_several_numa"]) == (
        True,
        {},
        True,
    )
    assert [row["node"] for row in answered(racks, "topology/nodes/?q=gpu-2")] == ["gpu-2"]


@pytest.fixture
def spread(racks: World) -> World:
    """A job of two teams' cards each over both nodes, without RDMA."""
    Pod.objects.filter(uid="pod-red").update(
        owner_kind="Job", owner_name="red-job", requests={"nvidia.com/gpu": "4"}, devices=4
    )
    pod = Pod.objects.get(uid="pod-red")
    pod.pk, pod.uid, pod.name, pod.node_name = None, "pod-red-2", "red-pod-2", "gpu-2"
    pod.save()
    return racks


def test_jobs_are_named_only_to_who_sees_every_team(spread: World) -> None:
    sentence = "runs on several nodes of which none offers RDMA: red-ns/red-job"
    assert sentence in text(spread.client("admin"), "/capacity/topology/")
    found: Any = spread.client("finance").get("/api/v1/topology/").json()["notes"]
    assert [note["code"] for note in found] == ["no_rdma"]
    for role in ("blue_lead", "red_lead", "viewer"):
        assert "red-job" not in text(spread.client(role), "/capacity/topology/")
        assert spread.client(role).get("/api/v1/topology/").json()["notes"] == []


@pytest.mark.parametrize("role", ["guest", "viewer", "red_lead"])
def test_causes_of_notes_name_no_queue_to_who_may_not_see_it(world: World, role: str) -> None:
    Node.objects.filter(name="gpu-2").delete()  # 16 promised, 8 usable
    body = text(world.client(role), "/capacity/")
    assert "16 promised, 8 usable" in body
    assert "blue-cq" not in body
    notes = world.client(role).get("/api/v1/capacity/").json()["notes"]
    assert {ref["kind"] for note in notes for ref in note["refs"]} == {"pool", "flavor"}
    body = text(world.client("admin"), "/capacity/")
    assert 'href="/queues/east/ClusterQueue/blue-cq/"' in body
