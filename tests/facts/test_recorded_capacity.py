"""Pools of the recorded cluster, with numbers worked out by hand from the same objects.

Cards: h100 8 nodes × 8 = 64, of which 8 (MIG single) + 4 (mixed) + 8 (mixed) = 20 are partitioned and 44 whole; a100
32; l4 8; l40s 4; gb200 4; t4 4; 8 each of unlabelled, MI300X, Gaudi and Ascend. Together 148.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal as D
from typing import Any

import pytest
from django.db import connection
from django.utils import translation

from apps.accounts.models import Team
from apps.capacity.filters import NodeForm
from apps.capacity.rows import CapacityReport, NodeRow, PoolRow, Ref
from apps.capacity.selectors import capacity_and_nodes, capacity_report, node_detail, node_rows
from apps.fleet.models import Cluster, Reserve, TeamBinding
from apps.observations.models import (
    ClusterObject,
    Node,
    Outcome,
    Pod,
    Presence,
    Source,
    SourceState,
    Transition,
    Workload,
)

from .recorded import collected

AT = datetime(2026, 12, 2, 3, 5, tzinfo=UTC)
FILES = [
    ("Node", "kueue/nodes.json"),
    ("Pod", "kueue/pods.json"),
    ("ClusterQueue", "kueue/clusterqueues.json"),
    ("Cohort", "kueue/cohorts.json"),
    ("LocalQueue", "kueue/localqueues.json"),
    ("ResourceFlavor", "kueue/resourceflavors.json"),
    ("Workload", "kueue/workloads.json"),
]
GPU = "nvidia.com/gpu"
H100, A100, L4 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L4"

pytestmark = pytest.mark.django_db


def read_source(cluster: Cluster, source: Source) -> None:
    SourceState.objects.create(
        cluster=cluster,
        source=source,
        presence=Presence.INSTALLED,
        last_run_at=AT,
        last_ok_at=AT,
        last_outcome=Outcome.OK,
    )


def not_installed(cluster: Cluster, source: Source) -> None:
    read_source(cluster, source)
    SourceState.objects.filter(cluster=cluster, source=source).update(presence=Presence.ABSENT)


@pytest.fixture
def cluster() -> Cluster:
    found = collected("prod", FILES, at=AT)
    for source in (Source.NODES, Source.PODS, Source.KUEUE):
        read_source(found, source)
    not_installed(found, Source.VOLCANO)
    return found


def pools(report: CapacityReport) -> dict[tuple[str, str], PoolRow]:
    return {(pool.model, pool.sharing_mode): pool for pool in report.pools}


# (model, mode): cards, out of use, usable cards | unit, physical, usable, held by pods, reserved, free, nominal, ceiling
EXPECTED = {
    # nominal 8 + 8 + 0 + 4 (cohort) + 8 (spot) + 40 (tas); ceilings 16 + 16 + 8 + 8 + 40; held 8 + 8 + 6 + 4
    (H100, "exclusive"): (44, {"device_unhealthy": 1}, 43, "card", "44", "43", "26", "26", "17", "68", "88"),
    # nominal 24 + 4 × 8; reserved 19 + 3; held 6 + 6; free 2 + 2
    (A100, "exclusive"): (
        32, {"node_not_ready": 8, "cordoned": 8}, 16, "card", "32", "16", "12", "22", "4", "56", "56",
    ),
    # in GPU-equivalents, sevenths: physical 56 + 26 + 50 = 132; held 2 + 26 + 26 = 54; reserved 28 + 24 = 52;
    # nominal and ceiling 28 + 30 = 58
    (H100, "mig"): (20, {}, 20, "gpu_equivalent", "18.857", "18.857", "7.714", "7.429", "11.143", "8.286", "8.286"),
    (L4, "time_slicing"): (8, {}, 8, "time_slice", "32", "32", "13", "12", "19", "16", "16"),
    ("NVIDIA-L40S", "mps"): (4, {}, 4, "mps_client", "40", "40", "5", "0", "35", None, None),
    ("NVIDIA-GB200", "exclusive"): (4, {}, 4, "card", "4", "4", "1", "0", "3", None, None),
    ("Tesla-T4", "exclusive"): (4, {"tainted": 4}, 0, "card", "4", "0", "0", "0", "0", None, None),
    ("", "exclusive"): (8, {}, 8, "card", "8", "8", "0", "0", "8", None, None),
    ("AMD_Instinct_MI300X_OAM", "exclusive"): (8, {}, 8, "card", "8", "8", "8", "8", "0", "8", "8"),
    ("Intel-Gaudi", "exclusive"): (8, {}, 8, "card", "8", "8", "4", "0", "4", None, None),
    ("910B3", "exclusive"): (8, {}, 8, "card", "8", "8", "8", "0", "0", None, None),
}  # fmt: skip


def seen(pool: PoolRow) -> tuple[Any, ...]:
    numbers = (
        pool.physical_units, pool.allocatable, pool.held_bound, pool.held_reserved, pool.free, pool.nominal, pool.ceiling,
    )  # fmt: skip
    texts = [None if number is None else format(number, "f") for number in numbers]
    return (pool.physical_devices, dict(pool.buckets), pool.allocatable_devices, pool.unit, *texts)


def test_every_pool_by_hand(cluster: Cluster) -> None:
    report = capacity_report(now=AT)
    assert {key: seen(pool) for key, pool in pools(report).items()} == EXPECTED
    assert pools(report)[H100, "exclusive"].allocation_ratio == D("1.581")  # 68 / 43


def test_cards_and_units_of_every_pool_add_up(cluster: Cluster) -> None:
    report = capacity_report(now=AT)
    for pool in report.pools:
        assert sum(pool.buckets.values()) + pool.allocatable_devices == pool.physical_devices
        assert sum(pool.unit_buckets.values()) + pool.allocatable == pool.physical_units
        if pool.unit != "gpu_equivalent":
            assert sum(unit.physical for unit in pool.units) == pool.physical_units


def test_mig_units_keep_their_kinds_apart(cluster: Cluster) -> None:
    units = {
        (unit.resource, unit.profile): (unit.physical, unit.held_bound, unit.held_reserved, unit.nominal)
        for unit in pools(capacity_report(now=AT))[H100, "mig"].units
    }
    assert units == {
        (GPU, "1g.10gb"): (D(56), D(2), D(0), None),  # the single-profile node, in no flavor with quota
        ("nvidia.com/mig-1g.10gb", "1g.10gb"): (D(28), D(28), D(28), D(28)),
        ("nvidia.com/mig-2g.20gb", "2g.20gb"): (D(9), D(0), D(0), None),
        ("nvidia.com/mig-3g.40gb", "3g.40gb"): (D(10), D(8), D(8), D(10)),
    }


def test_totals_by_hand(cluster: Cluster) -> None:
    # Whole GPUs. Usable: whole cards 43 + 16 + 4 + 4 × 8 = 95, MIG 132/7, L4 32/4, L40S 40/10.
    # Held: 26 + 12 + 1 + 8 + 4 + 8 = 59, 54/7, 13/4, 5/10. Free: 17 + 4 + 3 + 8 + 4 = 36, 78/7, 19/4, 35/10.
    # Reserved: 26 + 22 + 8 = 56, 52/7, 12/4. Nominal: 68 + 56 + 8 = 132, 58/7, 16/4. Ceilings: 152, 58/7, 16/4.
    found = capacity_report(now=AT).totals
    assert (found.physical_devices, found.allocatable_devices) == (148, 148 - 21)
    assert found.buckets == {"node_not_ready": 8, "device_unhealthy": 1, "cordoned": 8, "tainted": 4}
    assert (found.allocatable, found.held_bound, found.free) == (D("125.857"), D("70.464"), D("55.393"))
    assert (found.held_reserved, found.nominal, found.ceiling) == (D("66.429"), D("144.286"), D("164.286"))
    assert (found.pools, found.nodes) == (11, 21)


def test_what_needs_a_look(cluster: Cluster) -> None:
    with translation.override("en"):
        found = {note.code: note for note in capacity_report(now=AT).notes if note.code != "over_committed"}
        over = [note.text for note in capacity_report(now=AT).notes if note.code == "over_committed"]
    assert over == [
        "H100 80GB (whole cards): 68 promised, 43 usable, ratio 158.1 %.",
        "A100 80GB (whole cards): 56 promised, 16 usable, ratio 350 %.",
        # Without the spot node: 3 × 8, the 4 whole cards of h100-06, 7 of h100-08.
        f"Flavor h100-tas: 40 {GPU} promised, 35 usable on its nodes, ratio 114.3 %.",
    ]
    assert found["unused_flavor"].objects == ("h200", GPU)
    assert found["unused_flavor"].refs == (Ref("flavor", "h200"), Ref("ClusterQueue", "broken-cq"))
    # One queue quotes two MIG profiles, each under its own name: nothing is mixed anywhere.
    assert {"mixed_units", "cohort_cycle", "unregistered", "shared_flavor"}.isdisjoint(found)
    assert found["two_flavors"].objects == ("h100-01", "h100-02", "h100-03", "h100-06", "h100-08")
    assert found["two_flavors"].text == "5 nodes are counted by several flavors at once: h100, h100-tas."
    assert set(found["no_flavor"].objects) == {
        "ascend-01", "gaudi-01", "gb200-01", "h100-05", "h100-07", "l4-02", "l40s-mps-01", "nolabel-01", "t4-01",
    }  # fmt: skip
    assert found["no_model"].objects == ("nolabel-01",)
    assert found["present_without_devices"].objects == ("dra-01",)


def test_a_node_that_only_the_spot_flavor_reaches(cluster: Cluster) -> None:
    row = next(row for row in node_rows(now=AT) if row.node == "h100-04")
    assert (row.flavors, row.buckets, row.allocatable) == (("h100-spot",), {}, D(8))


def test_node_rows_say_why(cluster: Cluster) -> None:
    rows = {(row.node, row.sharing_mode): row for row in node_rows(now=AT)}
    assert len(rows) == 22  # h100-06 has two groups
    cordoned, lost, sick = (rows[name, "exclusive"] for name in ("a100-03", "a100-04", "h100-08"))
    assert [(r.bucket, r.devices, r.text) for r in cordoned.reasons] == [
        ("cordoned", 8, "spec.unschedulable")
    ]
    assert [(r.bucket, r.devices, r.text) for r in lost.reasons] == [
        ("node_not_ready", 8, "Ready=Unknown (NodeStatusUnknown)")
    ]
    assert [(r.bucket, r.devices, r.text) for r in sick.reasons] == [
        ("device_unhealthy", 1, f"7 of 8 {GPU} offered")
    ]
    assert (sick.physical_devices, sick.allocatable, sick.held_bound, sick.free) == (8, D(7), D(4), D(3))
    assert rows["h100-05", "mig"].estimated


def test_report_and_node_rows_agree(cluster: Cluster) -> None:
    report, rows = capacity_and_nodes(now=AT)
    for pool in report.pools:
        members = [row for row in rows if (row.model, row.sharing_mode) == (pool.model, pool.sharing_mode)]
        assert sum(row.physical_devices for row in members) == pool.physical_devices
        assert sum(row.allocatable_devices for row in members) == pool.allocatable_devices
        assert len({row.node for row in members}) == pool.nodes
        if pool.unit != "gpu_equivalent":
            assert sum(row.held_bound or 0 for row in members) == pool.held_bound
            assert sum(row.free or 0 for row in members) == pool.free


def test_filter_narrows_the_list_as_the_page_and_rest_do(cluster: Cluster) -> None:
    def names(**data: str) -> list[str]:
        form = NodeForm(data, now=AT)
        assert form.is_valid(), form.errors
        return [row.node for row in form.narrowed(node_rows(now=AT))]

    assert names(bucket="cordoned") == ["a100-03"]
    assert names(model=L4) == ["l4-01", "l4-02"]
    assert names(q="MPS") == ["l40s-mps-01"]
    assert names(sharing_mode="mig") == ["h100-05", "h100-06", "h100-07"]


def test_node_page_lists_its_pods_with_their_team(cluster: Cluster) -> None:
    team = Team.objects.create(slug="a", name="a")
    TeamBinding.objects.create(
        team=team,
        cluster=cluster,
        kind=TeamBinding.Kind.NAMESPACE,
        name="team-a",
        valid_from=AT - timedelta(hours=1),
    )
    found = node_detail(now=AT, name="h100-01", cluster=cluster)
    assert found is not None
    assert [(pod.namespace, pod.name, pod.team_id, dict(pod.requests)) for pod in found.pods] == [
        ("team-a", "tas-rack-ok-ncchq", team.pk, {GPU: D(2)}),
        ("team-a", "tas-rack-ok-qchjs", team.pk, {GPU: D(2)}),
        ("team-b", "b-pretrain-xzsw4", None, {GPU: D(4)}),
    ]
    (row,) = found.rows
    assert sum(pod.requests[GPU] for pod in found.pods if pod.held) == row.held_bound == D(8)
    assert node_detail(now=AT, name="no-such-node") is None


def test_a_reserve_is_taken_from_usable_cards_and_ends(cluster: Cluster) -> None:
    Reserve.objects.create(
        cluster=cluster,
        model="H100 80GB",
        devices=3,
        reason="spares",
        valid_from=AT,
        valid_to=AT + timedelta(days=1),
    )
    pool = pools(capacity_report(now=AT))[H100, "exclusive"]
    assert (pool.buckets, pool.allocatable) == ({"device_unhealthy": 1, "platform_reserve": 3}, D(40))
    rows = [row for row in node_rows(now=AT) if row.buckets.get("platform_reserve")]
    assert [(row.node, row.reasons[0].text) for row in rows] == [("h100-01", "spares")]
    page = node_detail(now=AT, name="h100-01", cluster=cluster)
    assert page is not None
    assert page.rows[0].buckets == {"platform_reserve": 3}
    after = pools(capacity_report(now=AT + timedelta(days=1)))[H100, "exclusive"]
    assert (after.buckets, after.allocatable) == ({"device_unhealthy": 1}, D(43))


def test_a_cluster_that_was_never_read_is_named_not_counted(cluster: Cluster) -> None:
    other = Cluster.objects.create(slug="new", name="new", kubeconfig_path="/nowhere")
    report = capacity_report(now=AT)
    assert report.missing == (other,)
    assert {pool.cluster for pool in report.pools} == {cluster}
    assert report.totals.physical_devices == 148


def test_a_cluster_whose_last_pull_failed_keeps_its_last_numbers(cluster: Cluster) -> None:
    SourceState.objects.filter(cluster=cluster, source=Source.NODES).update(last_outcome=Outcome.FAILED)
    report = capacity_report(now=AT)
    assert (report.missing, report.totals.physical_devices) == ((), 148)
    assert report.as_of.state == "partial"


def forget(cluster: Cluster, source: Source, *, failed: bool = False) -> None:
    """As if the source had never brought anything: not tried yet, or tried in vain."""
    SourceState.objects.filter(cluster=cluster, source=source).delete()
    if failed:
        SourceState.objects.create(
            cluster=cluster, source=source, last_run_at=AT, last_outcome=Outcome.FAILED, failures=3
        )


@pytest.mark.parametrize("failed", [False, True])
def test_pods_that_were_never_read_hold_nothing_known(cluster: Cluster, failed: bool) -> None:
    forget(cluster, Source.PODS, failed=failed)
    report, rows = capacity_and_nodes(now=AT)
    assert report.notes[0].code == "pods_missing"
    seen_rows: list[PoolRow | NodeRow] = [*report.pools, *rows]
    for row in seen_rows:
        assert {(part.held_bound, part.free) for part in (row, *row.units)} == {(None, None)}
    assert (report.totals.held_bound, report.totals.free) == (None, None)
    assert report.totals.without_pods == (cluster,)
    # What does not rest on pods stays known.
    assert (report.totals.allocatable, report.totals.held_reserved) == (D("125.857"), D("66.429"))
    form = NodeForm({"state": "free"}, now=AT)
    assert form.is_valid()
    assert form.narrowed(rows) == []
    page = node_detail(now=AT, name="h100-01", cluster=cluster)
    assert page is not None
    assert (page.pods_read, page.rows[0].held_bound) == (False, None)


def test_pods_that_were_read_and_are_none_hold_zero(cluster: Cluster) -> None:
    Pod.objects.all().delete()
    found = capacity_report(now=AT).totals
    assert (found.held_bound, found.free) == (D(0), D("125.857"))
    assert found.without_pods == ()


def test_totals_leave_out_the_cluster_whose_pods_were_never_read(cluster: Cluster) -> None:
    other = collected("second", FILES, at=AT)
    for source in (Source.NODES, Source.KUEUE):
        read_source(other, source)
    not_installed(other, Source.VOLCANO)
    found = capacity_report(now=AT).totals
    assert found.allocatable == D("251.714")  # 2 × 125 6/7
    assert (found.allocatable_of_read, found.held_bound, found.free) == (
        D("125.857"),
        D("70.464"),
        D("55.393"),
    )
    assert found.without_pods == (other,)
    # A cluster without accelerators leaves nothing out.
    Node.objects.filter(cluster=other).delete()
    assert capacity_report(now=AT).totals.without_pods == ()


@pytest.mark.parametrize("source", [Source.KUEUE, Source.VOLCANO])
@pytest.mark.parametrize("failed", [False, True])
def test_quota_that_was_never_read_reserves_nothing_known(
    cluster: Cluster, source: Source, failed: bool
) -> None:
    forget(cluster, source, failed=failed)
    report = capacity_report(now=AT)
    assert {pool.held_reserved for pool in report.pools} == {None}
    assert {unit.held_reserved for pool in report.pools for unit in pool.units} == {None}
    assert not any(pool.reserved_known for pool in report.pools)
    assert (report.totals.held_reserved, report.totals.without_quota) == (None, (cluster,))
    assert report.totals.held_bound == D("70.464")


def test_queues_that_are_not_installed_reserve_zero(cluster: Cluster) -> None:
    ClusterObject.objects.all().delete()
    Workload.objects.all().delete()
    SourceState.objects.filter(cluster=cluster, source=Source.KUEUE).delete()
    not_installed(cluster, Source.KUEUE)
    report = capacity_report(now=AT)
    assert {pool.held_reserved for pool in report.pools} == {D(0)}
    assert (report.totals.held_reserved, report.totals.nominal) == (D(0), None)
    assert report.totals.without_quota == ()


def test_a_reservation_over_several_pools_is_no_pools_zero(cluster: Cluster) -> None:
    """A flavor without labels reaches every node: what it holds is known, but not of which pool."""
    flavor = ClusterObject.objects.get(kind="ResourceFlavor", name="h100")
    flavor.spec = {**flavor.spec, "node_labels": {}}
    flavor.save()
    found = pools(capacity_report(now=AT))
    unlabelled = found["", "exclusive"]
    assert (unlabelled.held_reserved, unlabelled.reserved_known) == (None, True)
    assert found["AMD_Instinct_MI300X_OAM", "exclusive"].held_reserved == D(8)  # of another resource


def test_plugin_down_keeps_the_cards_from_our_own_history(cluster: Cluster) -> None:
    node = Node.objects.get(cluster=cluster, name="nolabel-01")
    Node.objects.filter(pk=node.pk).update(
        capacity={"cpu": "192", GPU: "0"}, allocatable={"cpu": "192", GPU: "0"}
    )
    assert ("", "exclusive") not in pools(capacity_report(now=AT))
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO observations_transition (cluster_id, observed_at, kind, uid, namespace, name, facet, from_value,"
            " to_value, reason, message) VALUES (%s, %s, 'Node', %s, '', %s, 'devices', %s, %s, '', '')",
            [cluster.pk, AT - timedelta(hours=1), node.uid, node.name, f"{GPU}=8", f"{GPU}=0"],
        )
    assert Transition.objects.count() >= 1
    pool = pools(capacity_report(now=AT))["", "exclusive"]
    assert (pool.physical_devices, pool.buckets, pool.allocatable) == (8, {"plugin_down": 8}, D(0))


def test_queries_do_not_grow_with_nodes_or_clusters(
    cluster: Cluster, django_assert_max_num_queries: Any
) -> None:
    other = collected("second", FILES, at=AT)
    read_source(other, Source.NODES)
    with django_assert_max_num_queries(26):
        capacity_and_nodes(now=AT)
    with django_assert_max_num_queries(16):
        node_rows(now=AT)
