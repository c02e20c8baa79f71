"""Versions in use and outliers, worked out by hand on five nodes."""

from __future__ import annotations

from apps.capacity.stack import (
    NodeSoftware,
    Said,
    Skew,
    from_devices,
    from_node,
    kubelet_skews,
    node_versions,
    operator_rows,
    stack_rows,
    version_key,
)
from apps.fleet.models import Cluster

EAST, WEST = Cluster(pk=1, slug="east", name="East"), Cluster(pk=2, slug="west", name="West")


def node(
    name: str, *, cluster: Cluster = EAST, models: tuple[str, ...] = ("H100",), **said: str
) -> NodeSoftware:
    sayings = {component: (Said(text, "label"),) for component, text in said.items()}
    return NodeSoftware(cluster, name, models, sayings)


def test_versions_made_of_numbers_are_equal_whatever_their_zeros() -> None:
    assert version_key("driver", "570.124.06") == version_key("driver", "570.124.6")
    assert version_key("cuda", "12.8") == version_key("cuda", "12.8.0")
    assert version_key("driver", "570.124.06") != version_key("driver", "570.124.60")
    assert version_key("driver", "0.0") == "0"
    assert version_key("kernel", "5.15.0-106-generic") == "5.15.0-106-generic"
    assert version_key("kubelet", "v1.30.0") != version_key("kubelet", "v1.30")


def test_a_node_says_it_by_its_labels_and_its_status() -> None:
    labels = {
        "nvidia.com/cuda.driver-version.full": "570.124.06",
        "nvidia.com/cuda.runtime-version.full": "12.8",
    }
    said = from_node(labels, {"kernel": "5.15.0", "kubelet": "v1.32.4", "os": ""})
    assert said == {
        "driver": (Said("570.124.06", "label"),),
        "cuda": (Said("12.8", "label"),),
        "kernel": (Said("5.15.0", "node"),),
        "kubelet": (Said("v1.32.4", "node"),),
    }
    assert from_node({"amd.com/gpu.driver-version": "6.10.5"}, {})["driver"][0].text == "6.10.5"


def test_older_discovery_names_versions_in_parts() -> None:
    labels = {
        "nvidia.com/cuda.driver.major": "470",
        "nvidia.com/cuda.driver.minor": "57",
        "nvidia.com/cuda.driver.rev": "02",
        "nvidia.com/cuda.runtime.major": "11",
    }
    assert from_node(labels, {}) == {"driver": (Said("470.57.02", "label"),)}


def test_devices_say_it_by_their_attributes() -> None:
    found = from_devices([{"type": "gpu"}, {"driverVersion": "570.124.6", "cudaDriverVersion": "12.8.0"}])
    assert found == {"driver": Said("570.124.6", "dra"), "cuda": Said("12.8.0", "dra")}


def test_what_fewer_nodes_of_a_model_carry_is_an_outlier() -> None:
    nodes = [
        node("a", driver="570.124.06"),
        node("b", driver="570.124.6"),  # the same, as DRA writes it
        node("c", driver="550.54.15"),
        node("d", driver="550.54.15", models=("A100",)),  # the only A100: it differs from nobody
        node("e"),  # does not say
    ]
    rows = [row for row in stack_rows(node_versions(nodes)) if row.component == "driver"]
    assert [(row.version, row.nodes, row.outliers, row.of) for row in rows] == [
        ("550.54.15", ("c", "d"), ("c",), 5),
        ("570.124.06", ("a", "b"), (), 5),
        (None, ("e",), (), 5),
    ]
    assert rows[0].models == ("A100", "H100")
    differing = [row for row in node_versions(nodes) if row.is_outlier]
    assert [(row.node, row.component, row.usual) for row in differing] == [("c", "driver", "570.124.06")]


def test_an_even_split_has_no_outlier() -> None:
    nodes = [node("a", kernel="5.15"), node("b", kernel="6.8")]
    assert not any(row.is_outlier for row in node_versions(nodes))


def test_clusters_are_upgraded_apart() -> None:
    nodes = [node("a", kernel="5.15"), node("b", kernel="5.15"), node("c", kernel="6.8", cluster=WEST)]
    assert not any(row.is_outlier for row in node_versions(nodes))


def test_a_node_of_two_models_differs_when_it_differs_in_one() -> None:
    mixed = node("m", kernel="6.8", models=("A100", "H100"))
    nodes = [mixed, node("a", kernel="5.15"), node("b", kernel="5.15")]
    assert [row.node for row in node_versions(nodes) if row.is_outlier] == ["m"]


def test_two_sources_that_disagree_are_both_named() -> None:
    said = {"driver": (Said("550.54.15", "label"), Said("570.124.6", "dra"))}
    row = node_versions([NodeSoftware(EAST, "a", ("H100",), said)])[0]
    assert (row.version, row.disagrees) == ("550.54.15", (Said("570.124.6", "dra"),))
    same = {"driver": (Said("570.124.06", "label"), Said("570.124.6", "dra"))}
    assert node_versions([NodeSoftware(EAST, "a", ("H100",), same)])[0].disagrees == ()


def test_kubelets_of_several_minor_versions_are_told() -> None:
    nodes = [
        node("a", kubelet="v1.30.9"),
        node("b", kubelet="v1.32.4-eks-1"),
        node("c", kubelet="odd"),
        node("d", kubelet="v1.31.0", cluster=WEST),
        node("e", kubelet="v1.31.7", cluster=WEST),
    ]
    assert kubelet_skews(nodes) == [Skew(EAST, "v1.30.9", "v1.32.4-eks-1", 2)]


def test_an_operator_chooses_for_the_whole_cluster() -> None:
    rows = operator_rows(EAST, {"toolkit": "v1.20.0", "driver": "595.91.07", "dcgm": ""})
    assert [(row.component, row.version, row.nodes, row.of) for row in rows] == [
        ("operator/driver", "595.91.07", (), None),
        ("operator/toolkit", "v1.20.0", (), None),
    ]
