"""From rows to what is held, free, stranded and out of use: each case with numbers worked out by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal as D
from typing import Any

import pytest
from django.db import connection
from django.utils import translation

from apps.capacity.facts import cards_taken
from apps.capacity.reading import rule_of
from apps.capacity.rows import NodeRow
from apps.capacity.selectors import capacity_and_nodes, capacity_report, node_rows
from apps.fleet.models import Cluster, Reserve
from apps.observations.models import ClusterObject, Node, Outcome, Pod, Presence, Source, SourceState

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 12, 2, 3, tzinfo=UTC)
GPU, GIB = "nvidia.com/gpu", 2**30
H100 = "NVIDIA-H100-80GB-HBM3"


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster.objects.create(slug="c", name="c", kubeconfig_path="/nowhere")
    for source in Source:
        SourceState.objects.create(
            cluster=made,
            source=source,
            presence=Presence.INSTALLED,
            last_run_at=NOW,
            last_ok_at=NOW,
            last_outcome=Outcome.OK,
        )
    return made


def node(cluster: Cluster, name: str = "a", cards: int = 8, **changes: Any) -> Node:
    offered = {"cpu": "16", "memory": str(64 * GIB), "pods": "5", GPU: str(cards)}
    labels = {
        "nvidia.com/gpu.product": H100,
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.memory": "81559",
        **changes.pop("labels", {}),
    }
    values = {
        "labels": labels,
        "capacity": offered,
        "allocatable": offered,
        "conditions": {"Ready": {"status": "True"}},
        **changes,
    }
    return Node.objects.create(
        cluster=cluster, uid=f"uid-{name}", name=name, first_seen_at=NOW, observed_at=NOW, **values
    )


def pod(cluster: Cluster, name: str, cards: int = 0, cpu: str = "1", gib: int = 1, **changes: Any) -> Pod:
    requests = {"cpu": cpu, "memory": str(gib * GIB)} | ({GPU: str(cards)} if cards else {})
    values = {"node_name": "a", "phase": "Running", "requests": requests, "devices": cards, **changes}
    return Pod.objects.create(
        cluster=cluster,
        uid=f"uid-{name}",
        namespace="n",
        name=name,
        first_seen_at=NOW,
        observed_at=NOW,
        **values,
    )


def taken(row: NodeRow) -> tuple[Any, ...]:
    """Usable, held, free, stranded, held beyond."""
    return tuple(
        None if number is None else int(number)
        for number in (row.allocatable, row.held_bound, row.free, row.stranded, row.over_held)
    )


def only(now: datetime = NOW) -> NodeRow:
    (row,) = node_rows(now=now)
    return row


# ---- held, free, stranded ---------------------------------------------------------------------------------------


def test_only_living_bound_pods_hold_something(cluster: Cluster) -> None:
    node(cluster)
    pod(cluster, "running", 1)
    pod(cluster, "bound but not started", 1, phase="Pending")
    pod(cluster, "not bound", 1, node_name="", phase="Pending")
    pod(cluster, "over", 1, phase="Succeeded")
    pod(cluster, "refused by the kubelet", 1, phase="Failed", reason="UnexpectedAdmissionError")
    pod(cluster, "gone", 1, gone_at=NOW)
    assert taken(only()) == (8, 2, 6, 0, 0)


@pytest.mark.parametrize(
    ("what", "pods"),
    [
        ("15 of 16 cores and one card: one core is left", [{"cards": 1, "cpu": "15"}]),
        ("62 of 64 GiB: two are left", [{"cards": 1, "gib": 62}]),
        ("four of five pods", [{"cards": 1}, {}, {}, {}]),
    ],
)
def test_what_still_can_be_taken_is_free(cluster: Cluster, what: str, pods: list[dict[str, Any]]) -> None:
    node(cluster)
    for number, values in enumerate(pods):
        pod(cluster, f"p{number}", **values)
    assert taken(only()) == (8, 1, 7, 0, 0)


@pytest.mark.parametrize(
    ("what", "pods"),
    [
        ("15.5 of 16 cores", [{"cards": 1, "cpu": "15.5"}]),
        ("the cores are with pods without cards", [{"cards": 1}, {"cpu": "14.5"}]),
        ("64 of 64 GiB", [{"cards": 1, "gib": 64}]),
        ("five of five pods", [{"cards": 1}, {}, {}, {}, {}]),
    ],
)
def test_what_no_pod_can_take_is_stranded(cluster: Cluster, what: str, pods: list[dict[str, Any]]) -> None:
    node(cluster)
    for number, values in enumerate(pods):
        pod(cluster, f"p{number}", **values)
    assert taken(only()) == (8, 1, 0, 7, 0)
    report = capacity_report(now=NOW)
    assert (report.pools[0].stranded, report.totals.stranded, report.totals.free) == (D(7), D(7), D(0))


def test_a_node_that_says_nothing_of_its_room_strands_nothing(cluster: Cluster) -> None:
    node(cluster, capacity={GPU: "8"}, allocatable={GPU: "8"})
    pod(cluster, "p", 1, cpu="1000")
    assert taken(only()) == (8, 1, 7, 0, 0)


def test_held_on_cards_out_of_use_is_said_beside_the_usable_ones(cluster: Cluster) -> None:
    """A held card turned unhealthy: seven usable, eight held. On a cordoned node nothing is usable."""
    offered = {"cpu": "16", "memory": str(64 * GIB), "pods": "5", GPU: "7"}
    node(cluster, allocatable=offered)
    pod(cluster, "p", 8)
    node(cluster, "b", unschedulable=True)
    pod(cluster, "q", 2, node_name="b")
    with translation.override("en"):
        report, rows = capacity_and_nodes(now=NOW)
        assert [taken(row) for row in rows] == [(7, 7, 0, 0, 1), (0, 0, 0, 0, 2)]
        assert rows[0].notes == ("Pods hold 1 more than is usable: on units that are out of use.",)
    assert (report.pools[0].held_bound, report.pools[0].over_held) == (D(7), D(3))
    assert (report.totals.held_bound, report.totals.over_held) == (D(7), D(3))


def test_amounts_in_units_equivalents_and_memory(cluster: Cluster) -> None:
    """Two cards sliced by four, three slices held."""
    shared = {
        "nvidia.com/gpu.replicas": "4",
        "nvidia.com/gpu.sharing-strategy": "mps",
        "nvidia.com/gpu.count": "2",
    }
    node(cluster, labels=shared)
    pod(cluster, "p", 3)
    amounts = only().amounts
    share = 81559 * 2**20 // 4
    seen = {
        name: (found.unit, found.physical, found.held_bound, found.free) for name, found in amounts.items()
    }
    assert seen == {
        "units": ("mps_client", D(8), D(3), D(5)),
        "equivalents": ("gpu_equivalent", D("2.000"), D("0.750"), D("1.250")),
        "memory": ("byte", D(8 * share), D(3 * share), D(5 * share)),
    }


# ---- a plugin that is down --------------------------------------------------------------------------------------


def stopped(node: Node, ago: timedelta, before: str = f"{GPU}=8", after: str = f"{GPU}=0") -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO observations_transition (cluster_id, observed_at, kind, uid, namespace, name, facet,"
            " from_value, to_value, reason, message) VALUES (%s, %s, 'Node', %s, '', %s, 'devices', %s, %s, '', '')",
            [node.cluster_id, NOW - ago, node.uid, node.name, before, after],
        )


MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("ago", "bucket"), [(MINUTE, "plugin_down"), (9 * MINUTE, "plugin_down"), (10 * MINUTE, "lost")]
)
def test_a_plugin_is_down_for_ten_minutes_then_its_cards_are_lost(
    cluster: Cluster, ago: timedelta, bucket: str
) -> None:
    stopped(node(cluster, cards=0), ago)
    row = only()
    assert (row.physical_devices, row.buckets, row.allocatable_devices) == (8, {bucket: 8}, 0)


def test_a_node_that_just_became_ready_has_its_ten_minutes(cluster: Cluster) -> None:
    since = (NOW - 2 * MINUTE).isoformat()
    stopped(
        node(cluster, cards=0, conditions={"Ready": {"status": "True", "since": since}}), timedelta(hours=5)
    )
    assert only().buckets == {"plugin_down": 8}
    assert only(NOW + 8 * MINUTE).buckets == {"lost": 8}


def test_a_drop_that_nobody_saw_has_no_end(cluster: Cluster) -> None:
    node(cluster, cards=0)
    assert only(NOW + timedelta(days=30)).buckets == {"plugin_down": 8}


def test_what_a_node_without_labels_offered_is_remembered_for_seven_days(cluster: Cluster) -> None:
    """The last line with something in it counts: the kubelet first says 0, then nothing."""
    row = node(cluster, cards=0, labels={"nvidia.com/gpu.count": "", "nvidia.com/gpu.product": ""})
    stopped(row, timedelta(hours=2), f"{GPU}=6,rdma/hca=8", f"{GPU}=0,rdma/hca=8")
    stopped(row, timedelta(hours=1), f"{GPU}=0,rdma/hca=8", "rdma/hca=8")
    assert only().buckets == {"lost": 6}
    assert list(node_rows(now=NOW + timedelta(days=7))) == []


def test_a_node_that_left_is_not_physical(cluster: Cluster) -> None:
    node(cluster, gone_at=NOW)
    assert capacity_report(now=NOW).totals.physical_devices == 0


# ---- reserves ---------------------------------------------------------------------------------------------------


def reserve(cluster: Cluster, selector: str = "", cards: int | None = None, **changes: Any) -> Reserve:
    values = {"reason": "spares", "valid_from": NOW - timedelta(hours=1), **changes}
    return Reserve.objects.create(cluster=cluster, selector=selector, devices=cards, **values)


def kept_back() -> dict[str, int]:
    return {row.node: row.buckets.get("platform_reserve", 0) for row in node_rows(now=NOW)}


def test_reserves_take_by_labels_in_the_order_of_names(cluster: Cluster) -> None:
    for name, pool in (("c", "x"), ("a", "x"), ("b", "y")):
        node(cluster, name, labels={"pool": pool})
    reserve(cluster, "pool=x", 10)
    assert kept_back() == {"a": 8, "b": 0, "c": 2}


def test_overlapping_reserves_never_take_a_card_twice(cluster: Cluster) -> None:
    node(cluster, "a", labels={"pool": "x"})
    node(cluster, "b", labels={"pool": "y"})
    reserve(cluster, "pool=x", None, reason="tests")
    reserve(cluster, "", 5)
    assert kept_back() == {"a": 8, "b": 5}
    reserve(cluster, "pool", 100)
    assert kept_back() == {"a": 8, "b": 8}
    assert [(reason.bucket, reason.text) for reason in list(node_rows(now=NOW))[1].reasons] == [
        ("platform_reserve", "spares")
    ]
    assert capacity_report(now=NOW).totals.allocatable_devices == 0


def test_reserves_of_a_model_or_a_mode_and_of_their_days(cluster: Cluster) -> None:
    node(cluster, "a")
    node(cluster, "b", labels={"nvidia.com/gpu.product": "NVIDIA-L4"})
    reserve(cluster, "", 2, model="L4")
    reserve(cluster, "", 3, model=H100, sharing_mode="exclusive")
    reserve(cluster, "", 8, sharing_mode="mig")
    reserve(cluster, "", 8, valid_from=NOW + timedelta(hours=1))
    reserve(cluster, "", 8, valid_to=NOW)
    assert kept_back() == {"a": 3, "b": 2}


def test_what_a_reserve_would_take_beside_the_others(cluster: Cluster) -> None:
    node(cluster, "a")
    old = reserve(cluster, "", 5)
    new = rule_of(Reserve(cluster=cluster, devices=6, reason="more"))
    assert cards_taken(now=NOW, rule=new, cluster=cluster) == (8, 3)
    assert cards_taken(now=NOW, rule=new, cluster=cluster, without=old.pk) == (8, 6)
    assert cards_taken(now=NOW, rule=rule_of(old), cluster=cluster) == (8, 5)


# ---- claims -----------------------------------------------------------------------------------------------------


def listed(cluster: Cluster, name: str, cards: int, *, held: int = 0, tainted: int = 0) -> None:
    """A driver lists so many cards of a node, some of them held by claims, some tainted."""
    taint = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}
    devices = [
        {
            "name": f"gpu-{number}", "node": "", "all_nodes": False, "node_selector": None,
            "attributes": {"type": "gpu", "uuid": f"GPU-{name}-{number}", "productName": "NVIDIA H100 80GB HBM3"},
            "capacity": {"memory": str(80 * GIB)}, "consumes": [], "multiple": False,
            "taints": [taint] if number >= cards - tainted else [],
        }
        for number in range(cards)
    ]  # fmt: skip
    seen = {"cluster": cluster, "first_seen_at": NOW, "observed_at": NOW}
    spec = {
        "driver": "gpu.nvidia.com", "pool": name, "generation": 1, "slices": 1, "node": name, "all_nodes": False,
        "node_selector": None, "per_device_nodes": False, "counters": {}, "devices": devices,
    }  # fmt: skip
    ClusterObject.objects.create(kind="ResourceSlice", uid=f"slice-{name}", name=name, spec=spec, **seen)
    results = [
        {
            "request": "r", "driver": "gpu.nvidia.com", "pool": name, "device": f"gpu-{number}", "admin": False,
            "share_id": "", "consumed": {},
        }
        for number in range(held)
    ]  # fmt: skip
    status = {"allocated": bool(held), "node": name, "results": results, "reserved_for": []}
    asked = {"requests": [], "extended": True, "pod_claim_name": ""}
    ClusterObject.objects.create(
        kind="ResourceClaim",
        uid=f"claim-{name}",
        namespace="n",
        name="claim",
        spec=asked,
        status=status,
        **seen,
    )


def test_a_node_that_only_a_driver_lists(cluster: Cluster) -> None:
    plain = {"cpu": "16", "memory": str(64 * GIB), "pods": "5"}
    node(
        cluster,
        labels={"nvidia.com/gpu.count": "", "nvidia.com/gpu.product": ""},
        capacity=plain,
        allocatable=plain,
    )
    listed(cluster, "a", 4, held=2, tainted=1)
    row = only()
    assert (row.origin, row.model, row.physical_devices, row.buckets) == (
        "dra",
        H100,
        4,
        {"device_unhealthy": 1},
    )
    assert taken(row) == (3, 2, 1, 0, 0)


def test_cards_that_plugin_and_driver_both_offer_are_there_once(cluster: Cluster) -> None:
    """The plugin offers six, the driver lists eight: eight cards, six units; a claim's card is held there too."""
    offered = {"cpu": "16", "memory": str(64 * GIB), "pods": "5", GPU: "6"}
    node(cluster, labels={"nvidia.com/gpu.count": "6"}, capacity=offered, allocatable=offered)
    listed(cluster, "a", 8, held=2)
    pod(cluster, "p", 1)
    row = only()
    assert (row.origin, row.physical_devices, row.buckets) == ("plugin", 8, {"lost": 2})
    assert taken(row) == (6, 3, 3, 0, 0)
    assert "dual_advertised" in {note.code for note in capacity_report(now=NOW).notes}


def test_what_a_claim_serves_is_not_held_by_the_request_as_well(cluster: Cluster) -> None:
    node(cluster)
    listed(cluster, "a", 8, held=1)
    pod(cluster, "p", 1, claims=[{"claim": "claim", "resources": [GPU]}])
    assert taken(only()) == (8, 1, 7, 0, 0)
