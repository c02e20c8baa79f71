"""The recorded cluster with its DRA node: dra-01 has six whole H100 and a seventh in two 3g.40gb instances; the claim
of pod dra-two holds two whole cards, those of dra-mig-1 and dra-mig-2 one instance each. By hand, beside what
test_recorded_capacity.py has for the other nodes.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from decimal import Decimal as D
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.capacity.facts import NodeState, load_fleet
from apps.capacity.selectors import capacity_report, node_detail
from apps.capacity.store import STORE
from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, Node, Presence, Source, SourceState
from simcluster.testing import running
from worker.collectors.run import collect_source

from .recorded import DATA, collected
from .test_recorded_capacity import AT, FILES, H100, not_installed, pools, read_source

DRA = [
    ("DeviceClass", "kueue/deviceclasses.json"),
    ("ResourceSlice", "kueue/resourceslices.json"),
    ("ResourceClaim", "kueue/resourceclaims.json"),
]
pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> Cluster:
    found = collected("prod", [*FILES, *DRA], at=AT)
    for source in (Source.NODES, Source.PODS, Source.KUEUE, Source.DEVICES):
        read_source(found, source)
    not_installed(found, Source.VOLCANO)
    return found


def dra_node(now: datetime = AT) -> NodeState:
    return next(node for node in load_fleet(now=now).nodes if node.name == "dra-01")


def buckets(node: NodeState) -> dict[str, int]:
    found: Counter[str] = Counter()
    for item in node.falls:
        found.update({str(bucket): count for bucket, count in item.buckets.items()})
    return dict(found)


def test_whole_cards_and_instances_join_their_pools(cluster: Cluster) -> None:
    found = pools(capacity_report(now=AT))
    whole, parts = found[H100, "exclusive"], found[H100, "mig"]
    # 44 + 6 cards, 1 of them unhealthy; held 26 + 2
    assert (whole.physical_devices, whole.allocatable, whole.held_bound) == (50, D(49), D(28))
    assert whole.free == D(21)
    # 20 + 1 cards; sevenths: 132 + 6 physical, 54 + 6 held, the rest is free as before
    assert parts.physical_devices == 21
    assert (parts.physical_units, parts.held_bound, parts.free) == (D("19.714"), D("8.571"), D("11.143"))
    units = {unit.resource: (unit.physical, unit.held_bound) for unit in parts.units}
    assert units["gpu.nvidia.com/mig-3g.40gb"] == (D(2), D(2))


def test_the_node_is_not_one_without_devices(cluster: Cluster) -> None:
    node = dra_node()
    assert node.codes == ()
    assert [(str(item.group.mode), item.group.cards, item.group.origin) for item in node.falls] == [
        ("exclusive", 6, "dra"),
        ("mig", 1, "dra"),
    ]


def test_a_taint_rule_takes_a_card_out_of_use(cluster: Cluster) -> None:
    ClusterObject.objects.create(
        cluster=cluster,
        kind="DeviceTaintRule",
        uid="rule",
        name="rule",
        first_seen_at=AT,
        observed_at=AT,
        spec={
            "selects": True,
            "driver": "gpu.nvidia.com",
            "pool": "dra-01",
            "device": "gpu-0",
            "device_class": "",
            "selectors": [],
            "taint": {"key": "repair", "value": "", "effect": "NoExecute"},
        },
    )
    node = dra_node()
    assert buckets(node) == {"device_unhealthy": 1}
    # gpu-0 is held, but no usable unit any more: of the five left the claim holds gpu-1
    assert node.shares is not None
    (share,) = node.shares[0]
    assert (share.held, share.free) == (D(1), D(4))


def test_a_driver_that_withdrew_its_slices_is_down_and_then_lost(cluster: Cluster) -> None:
    slices = ClusterObject.objects.filter(cluster=cluster, kind="ResourceSlice")
    slices.update(gone_at=AT)
    assert buckets(dra_node(AT + timedelta(minutes=2))) == {"plugin_down": 7}
    assert buckets(dra_node(AT + timedelta(minutes=15))) == {"lost": 7}
    assert dra_node(AT + timedelta(days=30)).falls == ()


def test_a_plugin_that_offers_the_same_cards_is_counted_once(cluster: Cluster) -> None:
    offered = {"nvidia.com/gpu": "7"}
    Node.objects.filter(name="dra-01").update(capacity=offered, allocatable=offered)
    node = dra_node()
    assert sum(item.group.cards for item in node.falls) == 7
    assert node.codes == ("dual_advertised",)
    ClusterObject.objects.filter(cluster=cluster, kind="ResourceSlice").update(gone_at=AT)
    assert dra_node().codes == ()


def test_the_nodes_pods_have_what_their_claims_hold(cluster: Cluster) -> None:
    detail = node_detail(now=AT, name="dra-01", cluster=cluster)
    assert detail is not None
    assert {pod.name: dict(pod.requests) for pod in detail.pods} == {
        "dra-two": {"gpu.nvidia.com/gpu": D(2)},
        "dra-mig-1": {"gpu.nvidia.com/mig-3g.40gb": D(1)},
        "dra-mig-2": {"gpu.nvidia.com/mig-3g.40gb": D(1)},
    }


def claim_notes() -> dict[str, tuple[str, ...]]:
    wanted = ("claim_without_pod", "claim_orphan", "unregistered")
    return {note.code: note.objects for note in capacity_report(now=AT).notes if note.code in wanted}


def test_claims_that_nobody_uses_or_that_hold_nothing_are_noted(cluster: Cluster) -> None:
    assert claim_notes() == {}
    claims = ClusterObject.objects.filter(cluster=cluster, kind="ResourceClaim")
    leak = claims.get(name="two-gpus")
    leak.status["reserved_for"] = []
    leak.save()
    lost = claims.filter(name__startswith="dra-mig-1").get()
    lost.status["results"][0]["pool"] = "dra-77"
    lost.save()
    assert claim_notes() == {
        "claim_without_pod": ("lab/two-gpus",),
        "claim_orphan": (f"lab/{lost.name}",),
    }
    notes = {note.code: note for note in capacity_report(now=AT).notes}
    assert (
        notes["claim_without_pod"].text == "1 ResourceClaim holds devices and no pod uses it: lab/two-gpus."
    )
    assert notes["claim_without_pod"].for_everybody() is None


def test_a_driver_that_no_file_knows_is_noted_when_it_reads_like_an_accelerators(cluster: Cluster) -> None:
    (shown,) = ClusterObject.objects.filter(cluster=cluster, kind="ResourceSlice")
    for driver in ("gpu.example.org", "dra.net"):
        shown.pk, shown.uid, shown.name = None, driver, driver
        shown.spec["driver"] = driver
        shown.save()
    assert claim_notes() == {"unregistered": ("gpu.example.org",)}


@pytest.mark.parametrize("versions", [(), ("v1beta1",)], ids=["v1", "v1beta1"])
def test_every_version_over_http_gives_the_same_node(versions: tuple[str, ...]) -> None:
    with running(recordings=DATA / "kueue", device_versions=versions) as sim:
        cluster = Cluster.objects.create(slug="sim", name="Sim", kubeconfig_path=str(sim.kubeconfig))
        for source in (Source.NODES, Source.PODS, Source.DEVICES):
            result = collect_source(cluster=cluster, source=source, now=timezone.now(), seconds=30)
            assert (result.outcome, result.error, result.quarantined) == ("ok", "", 0)
    cursors = SourceState.objects.get(cluster=cluster, source=Source.DEVICES).cursors
    assert cursors["ResourceSlice"]["api_version"] == (versions or ("v1",))[0]
    node = dra_node(timezone.now())
    assert [item.group.cards for item in node.falls] == [6, 1]
    assert [dict(held) for held in node.claimed] == [
        {"gpu.nvidia.com/gpu": D(2)},
        {"gpu.nvidia.com/mig-3g.40gb": D(2)},
    ]


def test_a_cluster_that_serves_no_device_objects_is_one_without_them() -> None:
    with running(recordings=DATA / "kueue", absent=["devices"]) as sim:
        cluster = Cluster.objects.create(slug="sim", name="Sim", kubeconfig_path=str(sim.kubeconfig))
        result = collect_source(cluster=cluster, source=Source.DEVICES, now=timezone.now(), seconds=30)
    assert (result.outcome, result.error) == ("ok", "")
    assert SourceState.objects.get(cluster=cluster, source=Source.DEVICES).presence == Presence.ABSENT


def test_what_is_kept_in_memory_reads_device_objects_only_when_they_changed(
    cluster: Cluster, settings: Any
) -> None:
    settings.CAPACITY_MEMORY = True
    STORE.clear()

    def pulled(minutes: int) -> tuple[dict[str, D], int]:
        """What claims hold on dra-01 after another pull, and how often device objects were read for that."""
        now = AT + timedelta(minutes=minutes)
        SourceState.objects.filter(cluster=cluster, source=Source.DEVICES).update(
            last_run_at=now, last_ok_at=now
        )
        with CaptureQueriesContext(connection) as queries:
            node = dra_node(now)
        held = {name: amount for part in node.claimed for name, amount in part.items()}
        return held, sum('"spec"' in query["sql"] and "ResourceSlice" in query["sql"] for query in queries)

    both = {"gpu.nvidia.com/gpu": D(2), "gpu.nvidia.com/mig-3g.40gb": D(2)}
    assert pulled(1) == (both, 1)
    assert pulled(2) == (both, 0)
    ClusterObject.objects.filter(cluster=cluster, name="two-gpus").update(gone_at=AT + timedelta(minutes=3))
    assert pulled(3) == ({"gpu.nvidia.com/mig-3g.40gb": D(2)}, 1)
    Node.objects.filter(cluster=cluster, name="dra-01").update(
        unschedulable=True, observed_at=AT + timedelta(minutes=4)
    )
    assert pulled(4) == ({"gpu.nvidia.com/mig-3g.40gb": D(2)}, 0)
    STORE.clear()
