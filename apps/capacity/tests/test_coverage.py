"""Cards of the API against cards of telemetry, counted by hand."""

from __future__ import annotations

from decimal import Decimal

import pytest

from apps.capacity.coverage import NodeCoverage, coverage, node_coverage
from apps.capacity.tests.card_builders import T0, make_cluster, node, read, sample
from apps.fleet.models import Cluster

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> Cluster:
    """full: 2 of 2 · dark: 0 of 4 · more: 1 counted, 2 seen · amd: another vendor's card beside 1 · and two cards of
    nodes that the API does not know."""
    made = make_cluster(prometheus_url="http://prom")
    read(made, "nodes", "pods", "dcgm")
    for name, cards in (("full", "2"), ("dark", "4"), ("more", "1"), ("amd", "1")):
        node(made, name, {"nvidia.com/gpu": cards})
    node(made, "plain", {"cpu": "8"}, labels={"nvidia.com/gpu.product": ""})
    for device, where in (("GPU-1", "full"), ("GPU-2", "full"), ("GPU-3", "more"), ("GPU-4", "more")):
        sample(made, device, where)
    sample(made, "S1", "amd", vendor="amd", model="AMD INSTINCT MI300X")
    sample(made, "GPU-8", "gone")
    sample(made, "GPU-9", "")
    return made


def test_a_cluster(cluster: Cluster) -> None:
    (found,) = coverage(now=T0, clusters=[cluster])
    # counted 2+4+1+1, seen 2+0+2+1 and two elsewhere, matched 2+0+1+0
    assert (found.counted, found.seen, found.matched) == (8, 7, 3)
    assert (found.unseen, found.beyond, found.unplaced) == (5, 4, 2)
    assert (found.nodes, found.dark_nodes, found.ratio) == (4, 1, Decimal("0.3750"))
    assert found.differing == (
        NodeCoverage("amd", counted=1, seen=1, matched=0, beyond=("S1",)),
        NodeCoverage("dark", counted=4, seen=0, matched=0),
        NodeCoverage("more", counted=1, seen=2, matched=1, beyond=("GPU-4",)),
    )


def test_a_node(cluster: Cluster) -> None:
    found = node_coverage(now=T0, cluster=cluster, node="full")
    assert found == NodeCoverage("full", counted=2, seen=2, matched=2)
    assert found.agrees
    dark = node_coverage(now=T0, cluster=cluster, node="dark")
    assert dark is not None
    assert dark.unseen == 4
    assert node_coverage(now=T0, cluster=cluster, node="none") is None


def test_a_cluster_without_telemetry_has_no_coverage() -> None:
    silent = make_cluster("west")
    read(silent, "nodes", "pods")
    node(silent, "n", {"nvidia.com/gpu": "2"})
    assert coverage(now=T0, clusters=[silent]) == []
    assert node_coverage(now=T0, cluster=silent, node="n") is None


def test_instances_of_a_card_are_one_card(cluster: Cluster) -> None:
    labels = {"nvidia.com/mig.strategy": "mixed", "nvidia.com/gpu.count": "1"}
    node(cluster, "mig", {"nvidia.com/gpu": "0", "nvidia.com/mig-3g.40gb": "2"}, labels=labels)
    for instance in ("1", "2"):
        sample(cluster, "GPU-m", "mig", instance=instance)
    found = node_coverage(now=T0, cluster=cluster, node="mig")
    assert found == NodeCoverage("mig", counted=1, seen=1, matched=1)
