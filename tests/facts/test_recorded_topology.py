"""Room by topology of the recorded cluster, worked out by hand from the same objects.

Whole H100 cards (block/rack, free of usable): h100-01 b1/r1 0/8, h100-02 b1/r1 0/8, h100-03 b1/r2 2/8, h100-06 b2/r3 4/4
(its other four are partitioned), h100-08 b2/r4 3/7 (one of eight is unhealthy); spot: h100-04 b1/r2 8/8.
Whole A100 cards: a100-01 and -02 b3/r5 2/8 each; a100-03 b3/r5 is cordoned, a100-04 b3/r6 not ready: 0/0.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import translation

from apps.capacity.notes_work import jobs_over_nodes
from apps.capacity.topology import JOB_SIZES
from apps.capacity.topology_report import topology_report
from apps.capacity.topology_rows import DomainRow, FitRow
from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, Node, Source

from .recorded import collected
from .test_recorded_capacity import A100, FILES, H100, forget, not_installed, read_source

AT = datetime(2026, 12, 2, 3, 5, tzinfo=UTC)

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> Cluster:
    found = collected("prod", [*FILES, ("Topology", "kueue/topologies.json")], at=AT)
    for source in (Source.NODES, Source.PODS, Source.KUEUE):
        read_source(found, source)
    not_installed(found, Source.VOLCANO)
    return found


def fits(model: str, bought: str, **more: Any) -> dict[str, FitRow]:
    rows = topology_report(now=AT, **more).fits
    return {row.scope: row for row in rows if (row.model, row.capacity_type) == (model, bought)}


def numbers(row: FitRow) -> list[int | None]:
    return [row.fits[size] for size in JOB_SIZES]


def test_jobs_that_fit_by_hand(cluster: Cluster) -> None:
    found = fits(H100, "on-demand")
    assert {scope: numbers(row) for scope, row in found.items()} == {
        "node": [9, 4, 1, 0, 0, 0, 0],  # free 0 0 2 4 3
        "rack": [9, 4, 1, 0, 0, 0, 0],  # r1 0, r2 2, r3 4, r4 3
        "block": [9, 4, 1, 0, 0, 0, 0],  # b1 2, b2 7
    }
    assert {scope: (row.domains, row.largest_free, row.level) for scope, row in found.items()} == {
        "node": (5, 4, ""),
        "rack": (4, 4, "cloud.provider.com/topology-rack"),
        "block": (2, 7, "cloud.provider.com/topology-block"),
    }
    a100 = fits(A100, "on-demand")
    assert numbers(a100["node"]) == [4, 2, 0, 0, 0, 0, 0]
    assert numbers(a100["rack"]) == numbers(a100["block"]) == [4, 2, 1, 0, 0, 0, 0]
    assert (a100["rack"].kind, a100["rack"].topology) == ("kueue", "gpu-topo")


def test_spot_and_on_demand_are_apart(cluster: Cluster) -> None:
    assert numbers(fits(H100, "spot")["rack"]) == [8, 4, 2, 1, 0, 0, 0]
    assert fits(H100, "spot")["node"].allocatable == 8


def test_fragmentation_by_hand(cluster: Cluster) -> None:
    # Of 9 free cards the 2 of h100-03 and the 3 of h100-08 lie on nodes that are not wholly free: 5 / 9.
    row = fits(H100, "on-demand")["node"]
    assert (row.nodes, row.allocatable, row.held, row.free, row.broken) == (5, 35, 26, 9, 5)
    assert str(row.fragmentation_ratio) == "0.556"
    whole = fits(H100, "spot")["node"]
    assert (whole.broken, str(whole.fragmentation_ratio)) == (0, "0.000")


def domain_rows(level: str, **wanted: str) -> list[DomainRow]:
    return [
        row
        for row in topology_report(now=AT).domains
        if row.level.endswith(level) and all(getattr(row, key) == value for key, value in wanted.items())
    ]


def test_domains_by_hand(cluster: Cluster) -> None:
    def seen(level: str) -> list[tuple[Any, ...]]:
        rows = domain_rows(level, model=H100, capacity_type="on-demand")
        return [
            (row.domain, row.parent, row.nodes, row.allocatable, row.held, row.free, row.largest_free_node)
            for row in rows
        ]

    assert seen("block") == [("b1", "", 3, 24, 22, 2, 2), ("b2", "", 2, 11, 4, 7, 4)]
    assert seen("rack") == [
        ("b1/r1", "b1", 2, 16, 16, 0, 0),
        ("b1/r2", "b1", 1, 8, 6, 2, 2),
        ("b2/r3", "b2", 1, 4, 0, 4, 4),
        ("b2/r4", "b2", 1, 7, 4, 3, 3),
    ]
    assert [row[0] for row in seen("hostname")] == [
        "b1/r1/h100-01",
        "b1/r1/h100-02",
        "b1/r2/h100-03",
        "b2/r3/h100-06",
        "b2/r4/h100-08",
    ]
    (block,) = domain_rows("block", model=A100)
    assert (block.domain, block.nodes, block.allocatable, block.fits[4]) == ("b3", 4, 16, 1)


def test_an_nvlink_clique_is_a_level_of_its_own(cluster: Cluster) -> None:
    (row,) = domain_rows("clique")
    assert (row.kind, row.domain, row.allocatable, row.free) == (
        "nvlink",
        "7d5cf4e1-0d0a-4d9b-9d86-6f0d3c9b1b11.1",
        4,
        3,
    )
    assert numbers(fits("NVIDIA-GB200", "on-demand")["nvlink"]) == [3, 1, 0, 0, 0, 0, 0]
    assert "nvlink" not in fits(H100, "on-demand")


def test_a_node_without_labels_is_in_no_domain_and_still_counted(cluster: Cluster) -> None:
    node = Node.objects.get(name="h100-08")
    node.labels = {key: value for key, value in node.labels.items() if not key.startswith("cloud.provider")}
    node.save()
    rows = domain_rows("rack", model=H100, capacity_type="on-demand")
    assert [(row.domain, row.free) for row in rows] == [("b1/r1", 0), ("b1/r2", 2), ("b2/r3", 4), ("", 3)]
    assert numbers(fits(H100, "on-demand")["block"]) == [9, 4, 1, 0, 0, 0, 0]  # b1 2, b2 4, alone 3


def test_without_a_topology_only_the_node_is_known(cluster: Cluster) -> None:
    ClusterObject.objects.filter(kind="Topology").delete()
    found = fits(H100, "on-demand")
    assert numbers(found["node"]) == [9, 4, 1, 0, 0, 0, 0]
    for scope in ("rack", "block"):
        assert numbers(found[scope]) == [None] * 7
        assert (found[scope].known, found[scope].largest_free, found[scope].domains) == (False, None, None)
    report = topology_report(now=AT)
    assert report.without == (cluster,)
    assert {row.kind for row in report.domains} == {"hostname", "nvlink"}


def test_a_topology_of_one_level_knows_no_block(cluster: Cluster) -> None:
    topology = ClusterObject.objects.get(kind="Topology")
    topology.spec = {"levels": ["cloud.provider.com/topology-block"]}
    topology.save()
    found = fits(H100, "on-demand")
    assert (found["rack"].largest_free, found["block"].known) == (7, False)


def test_hypernodes_are_levels_too(cluster: Cluster) -> None:
    ClusterObject.objects.filter(kind="Topology").delete()

    def hypernode(name: str, tier: int, kind: str, **selector: Any) -> None:
        member = {"kind": kind, "exact": [], "regex": "", "labels": {}, **selector}
        ClusterObject.objects.create(
            cluster=cluster,
            kind="HyperNode",
            uid=name,
            name=name,
            spec={"tier": tier, "tier_name": "", "members": [member]},
            status={"node_count": None},
            first_seen_at=AT,
            observed_at=AT,
        )

    hypernode("leaf-a", 1, "Node", regex="^h100-0[1-4]$")
    hypernode("leaf-b", 1, "Node", labels={"match_labels": {"cloud.provider.com/topology-block": "b2"}})
    hypernode("spine", 2, "HyperNode", regex="^leaf-")
    found = fits(H100, "on-demand")
    # leaf-a 0 + 0 + 2, leaf-b 4 + 3; the spine joins them: 9
    assert numbers(found["rack"]) == [9, 4, 1, 0, 0, 0, 0]
    assert numbers(found["block"]) == [9, 4, 2, 1, 0, 0, 0]
    assert (found["block"].kind, found["block"].level, found["block"].largest_free) == (
        "volcano",
        "tier 2",
        9,
    )
    rows = domain_rows("tier 1", model=H100, capacity_type="on-demand")
    assert [(row.domain, row.parent, row.free) for row in rows] == [
        ("spine/leaf-a", "spine", 2),
        ("spine/leaf-b", "spine", 7),
    ]
    # No HyperNode names the A100 nodes: nothing is known about their racks.
    assert not fits(A100, "on-demand")["rack"].known


def test_cards_on_a_node_without_room_for_a_pod_fit_no_job(cluster: Cluster) -> None:
    Node.objects.filter(name="h100-06").update(
        allocatable={**Node.objects.get(name="h100-06").allocatable, "cpu": "500m"}
    )
    row = fits(H100, "on-demand")["node"]  # its four free cards are stranded: 2 and 3 are left
    assert (row.allocatable, row.held, row.free, row.stranded) == (35, 26, 5, 4)
    assert numbers(row) == [5, 2, 0, 0, 0, 0, 0]


def test_pods_of_whole_nodes_need_whole_nodes(cluster: Cluster) -> None:
    # In pods of 4: h100-06 only; two cards are one pod of two: 1 + 2 + 1
    assert numbers(fits(H100, "on-demand", pod=4)["block"]) == [9, 4, 1, 0, 0, 0, 0]
    assert numbers(fits(A100, "on-demand", pod=4)["block"]) == [4, 2, 0, 0, 0, 0, 0]


def test_what_fits_is_not_known_without_pods(cluster: Cluster) -> None:
    forget(cluster, Source.PODS)
    row = fits(H100, "on-demand")["rack"]
    assert (numbers(row), row.free, row.largest_free, row.fragmentation_ratio) == (
        [None] * 7,
        None,
        None,
        None,
    )
    assert (row.allocatable, row.known) == (35, True)
    assert {part.free for part in topology_report(now=AT).domains} == {None}


def test_domains_of_a_level_add_up_to_the_pool(cluster: Cluster) -> None:
    report = topology_report(now=AT)
    for whole in (row for row in report.fits if row.scope == "node"):
        pool = (whole.model, whole.capacity_type)
        rows = [row for row in report.domains if (row.model, row.capacity_type) == pool]
        assert rows
        for level in {(row.kind, row.level) for row in rows}:
            parts = [row for row in rows if (row.kind, row.level) == level]
            for name in ("nodes", "allocatable", "held", "free", "stranded", "broken"):
                assert sum(getattr(part, name) for part in parts) == getattr(whole, name), (pool, level, name)


def test_jobs_over_nodes_without_rdma_by_hand(cluster: Cluster) -> None:
    """Of the recorded pods these jobs lie on several nodes: lab-partial, lab-mig-big and lab-mig-small with MIG
    instances, a-group with 2 whole cards, a-train-vit and b-pretrain with 8. No recorded node offers RDMA."""
    with translation.override("en"):
        (note,) = topology_report(now=AT).notes
    assert (note.code, note.objects) == ("no_rdma", ("team-a/a-train-vit", "team-b/b-pretrain"))
    assert note.nodes == ("a100-01", "a100-02", "h100-01", "h100-03")
    assert [job.name for job in jobs_over_nodes(cluster_ids=[cluster.pk])] == [
        "lab-mig-big",
        "lab-mig-small",
        "lab-partial",
        "a-group",
        "a-train-vit",
        "b-pretrain",
    ]


def test_queries_do_not_grow_with_clusters(cluster: Cluster, django_assert_num_queries: Any) -> None:
    with CaptureQueriesContext(connection) as one:
        topology_report(now=AT)
    other = collected("second", [*FILES, ("Topology", "kueue/topologies.json")], at=AT)
    read_source(other, Source.NODES)
    with django_assert_num_queries(len(one)):
        topology_report(now=AT)
    assert len(one) <= 20
