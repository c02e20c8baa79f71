"""Card rows from the database: a small cluster worked out by hand."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest

from apps.capacity.card_labels import attribution_sentence, holder_sentence
from apps.capacity.cards import CardRow, card_rows, iter_cards, without_others
from apps.capacity.selectors import node_rows
from apps.capacity.tests.card_builders import (
    T0,
    D,
    make_cluster,
    make_object,
    node,
    pod,
    read,
    sample,
    team_of,
)
from apps.fleet.models import Cluster
from apps.observations.models import Pod

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> Cluster:
    """whole: 4 cards, 1 not offered, pod a on GPU-1 · sliced: 1 card in 4, pods a2 and b2 · dark: 2 cards, no
    telemetry, cordoned, pod b on both. Pods of `web` are team blue's, the others red's."""
    made = make_cluster()
    team_of(made, "red", "ml")
    team_of(made, "blue", "web")
    read(made, "nodes", "pods")
    node(made, "whole", {"nvidia.com/gpu": "4"}, allocatable={"nvidia.com/gpu": "3"})
    sharing = {"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4"}
    node(made, "sliced", {"nvidia.com/gpu": "4"}, labels={**sharing, "nvidia.com/gpu.count": "1"})
    node(made, "dark", {"nvidia.com/gpu": "2"}, unschedulable=True)
    pod(made, "a", "whole", {"nvidia.com/gpu": "1"}, queue_name="lq")
    pod(made, "over", "whole", {"nvidia.com/gpu": "1"}, queue_name="lq", phase="Succeeded")
    pod(made, "a2", "sliced", {"nvidia.com/gpu": "1"}, queue_name="lq")
    pod(made, "b2", "sliced", {"nvidia.com/gpu": "1"}, namespace="web", queue_name="lq")
    pod(made, "b", "dark", {"nvidia.com/gpu": "2"}, namespace="web", queue_name="lq")
    mine = {"namespace": "ml", "attribution": "whole"}
    sample(made, "GPU-1", "whole", "0.5000", utilisation_source="sm_active", pod="a", **mine)
    sample(made, "GPU-2", "whole", "0.0000", pod="over", **mine)
    sample(made, "GPU-3", "whole", "0.0000", xid=79)
    sample(made, "GPU-4", "whole", "0.0000")
    parts = [
        {"namespace": "ml", "pod": "a2", "ratio": "0.1000"},
        {"namespace": "web", "pod": "b2", "ratio": "0.2000"},
    ]
    sample(made, "GPU-5", "sliced", "0.3000", attribution="per_process", shares=parts, driver="550.1")
    return made


def lines(rows: list[CardRow]) -> list[tuple[Any, ...]]:
    return [
        (
            row.node,
            row.device,
            row.bucket or row.state,
            row.identified,
            " ".join(f"{holder.pod}:{holder.how}" for holder in row.holders),
            row.utilisation_ratio,
        )
        for row in rows
    ]


def test_every_card(cluster: Cluster) -> None:
    assert lines(card_rows(now=T0, clusters=[cluster])) == [
        ("dark", "", "cordoned", True, "b:only", None),
        ("dark", "", "cordoned", True, "b:only", None),
        ("sliced", "GPU-5", "held", True, "a2:telemetry b2:telemetry", D("0.3000")),
        ("whole", "GPU-1", "held", True, "a:telemetry", D("0.5000")),
        ("whole", "GPU-2", "free", True, "", D("0.0000")),
        ("whole", "GPU-3", "device_unhealthy", False, "", D("0.0000")),
        ("whole", "GPU-4", "free", True, "", D("0.0000")),
    ]


def test_rows_of_a_bucket_are_the_waterfalls(cluster: Cluster) -> None:
    cards = card_rows(now=T0, clusters=[cluster])
    for row in node_rows(now=T0, clusters=[cluster]):
        mine = [card for card in cards if (card.node, card.model) == (row.node, row.model)]
        assert len(mine) == row.physical_devices
        assert Counter(card.bucket for card in mine if card.bucket) == dict(row.buckets)


def test_what_is_said_of_a_card(cluster: Cluster) -> None:
    whole = card_rows(now=T0, clusters=[cluster], node="whole")
    assert [row.node for row in whole] == ["whole"] * 4
    assert "nobody says of which" in whole[2].why
    assert whole[2].xid == 79
    (sliced,) = card_rows(now=T0, clusters=[cluster], node="sliced")
    assert (sliced.driver, sliced.attribution, len(sliced.shares)) == ("550.1", "per_process", 2)
    assert "by its processes" in attribution_sentence(sliced)
    assert holder_sentence(sliced) == ""


def test_teams_of_holders_and_what_others_see(cluster: Cluster) -> None:
    (sliced,) = card_rows(now=T0, clusters=[cluster], node="sliced")
    red, blue = (holder.team_id for holder in sliced.holders)
    assert red is not None
    assert blue is not None
    assert red != blue
    (shown,) = without_others([sliced], [red])
    assert [(holder.namespace, holder.pod, holder.team_id) for holder in shown.holders] == [
        ("ml", "a2", red),
        ("", "", None),
    ]
    assert [share["pod"] for share in shown.shares] == ["a2"]
    assert shown.utilisation_ratio == D("0.3000")
    assert without_others([sliced], None) == [sliced]


def test_rows_are_read_from_a_node_on_and_of_one_model(cluster: Cluster) -> None:
    after = iter_cards(now=T0, clusters=[cluster], after=(cluster.pk, "sliced"))
    assert [row.node for row in after] == ["sliced", "whole", "whole", "whole", "whole"]
    assert list(iter_cards(now=T0, clusters=[cluster], model="NVIDIA-L4")) == []
    sliced = iter_cards(now=T0, clusters=[cluster], sharing_mode="time_slicing")
    assert [row.device for row in sliced] == ["GPU-5"]


def test_the_number_of_queries_does_not_grow(cluster: Cluster, django_assert_max_num_queries: Any) -> None:
    for n in range(20):
        node(cluster, f"more-{n}", {"nvidia.com/gpu": "8"})
    with django_assert_max_num_queries(25):
        assert len(card_rows(now=T0, clusters=[cluster])) == 7 + 20 * 8


def test_clusters_do_not_mix(cluster: Cluster) -> None:
    other = make_cluster("west")
    read(other, "nodes", "pods")
    node(other, "whole", {"nvidia.com/gpu": "1"})
    rows = card_rows(now=T0, clusters=[cluster, other], node="whole")
    assert Counter(row.cluster.slug for row in rows) == {"east": 4, "west": 1}
    assert [row.device for row in rows if row.cluster == other] == [""]


def test_pods_that_are_named_in_turn_share_the_card(cluster: Cluster) -> None:
    """Two cards in four slices. The exporter names one pod at a time: on GPU-t first p, then the finished gone, then
    q; r is named nowhere, so that it may be on either card."""
    sharing = {"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4"}
    node(cluster, "turns", {"nvidia.com/gpu": "8"}, labels={**sharing, "nvidia.com/gpu.count": "2"})
    for name in ("p", "q", "r"):
        pod(cluster, name, "turns", {"nvidia.com/gpu": "1"}, queue_name="lq")
    for minute, name in enumerate(("q", "gone", "p")):
        said = {"namespace": "ml", "pod": name, "attribution": "whole"}
        sample(cluster, "GPU-t", "turns", "0.5000", ago=20 + 60 * minute, **said)
    sample(cluster, "GPU-u", "turns", "0.1000")
    rows = card_rows(now=T0, clusters=[cluster], node="turns")
    assert lines(rows) == [
        ("turns", "GPU-t", "held", True, "p:telemetry q:telemetry", D("0.5000")),
        ("turns", "GPU-u", "unknown", True, "r:perhaps", D("0.1000")),
    ]
    assert [row.attribution for row in rows] == ["flips", ""]
    assert "in turn" in attribution_sentence(rows[0])


# ------------------------------------------------------------------ partitioned cards
def test_instances_of_a_partitioned_card(cluster: Cluster) -> None:
    labels = {"nvidia.com/mig.strategy": "mixed", "nvidia.com/gpu.count": "1"}
    node(cluster, "mig", {"nvidia.com/gpu": "0", "nvidia.com/mig-3g.40gb": "2"}, labels=labels)
    pod(cluster, "m", "mig", {"nvidia.com/mig-3g.40gb": "1"}, queue_name="lq")
    gib = 1 << 30
    mine = {"namespace": "ml", "pod": "m", "attribution": "whole"}
    size = {"profile": "3g.40gb", "memory_total_bytes": 40 * gib}
    sample(
        cluster,
        "GPU-m",
        "mig",
        "0.9000",
        instance="1",
        memory_used_bytes=gib,
        power_watts=D(300),
        **mine,
        **size,
    )
    sample(cluster, "GPU-m", "mig", "0.0000", instance="2", memory_used_bytes=0, **size)
    (row,) = card_rows(now=T0, clusters=[cluster], node="mig")
    assert (row.device, row.sharing_mode, row.state) == ("GPU-m", "mig", "held")
    assert (row.utilisation_ratio, row.memory_used_bytes, row.memory_total_bytes) == (None, gib, 80 * gib)
    assert row.power_watts == D(300)
    assert [
        (part.instance, part.profile, [h.pod for h in part.holders], part.utilisation_ratio)
        for part in row.instances
    ] == [("1", "3g.40gb", ["m"], D("0.9000")), ("2", "3g.40gb", [], D("0.0000"))]


# ------------------------------------------------------------------ cards of a DRA driver
def listed(name: str, uuid: str) -> dict[str, Any]:
    attributes = {"type": "gpu", "uuid": uuid, "productName": "NVIDIA H100 80GB HBM3"}
    return {
        "name": name,
        "node": "",
        "all_nodes": False,
        "node_selector": None,
        "attributes": attributes,
        "capacity": {"memory": str(81559 << 20)},
        "consumes": [],
        "taints": [],
        "multiple": False,
    }


def test_a_claim_names_the_card_of_its_pods(cluster: Cluster) -> None:
    """Two pods share the claim on gpu-1: one card is held, by both; the other one is free."""
    node(cluster, "dra", {"cpu": "64"})
    driver = {"driver": "gpu.nvidia.com", "pool": "dra"}
    make_object(
        cluster,
        "ResourceSlice",
        "s",
        spec={
            **driver,
            "generation": 1,
            "slices": 1,
            "node": "dra",
            "all_nodes": False,
            "node_selector": None,
            "per_device_nodes": False,
            "counters": {},
            "devices": [listed("gpu-0", "GPU-d0"), listed("gpu-1", "GPU-d1")],
        },
    )
    result = {"request": "r", **driver, "device": "gpu-1", "admin": False, "share_id": "", "consumed": {}}
    make_object(
        cluster,
        "ResourceClaim",
        "c",
        namespace="ml",
        spec={"requests": [], "extended": False, "pod_claim_name": ""},
        status={
            "allocated": True,
            "node": "dra",
            "results": [result],
            "reserved_for": [{"kind": "Pod", "name": name, "uid": f"ml/{name}"} for name in ("p", "q")],
        },
    )
    for name in ("p", "q"):
        pod(cluster, name, "dra", {}, claims=[{"claim": "c", "resources": []}], queue_name="lq")
    sample(cluster, "GPU-d1", "dra", "0.7000", namespace="ml", pod="p", attribution="whole")
    rows = card_rows(now=T0, clusters=[cluster], node="dra")
    assert lines(rows) == [
        ("dra", "GPU-d0", "free", True, "", None),
        ("dra", "GPU-d1", "held", True, "p:claim q:claim", D("0.7000")),
    ]
    assert {row.origin for row in rows} == {"dra"}


@pytest.mark.parametrize(
    ("asked", "held"),
    [
        ({"aws.amazon.com/neuron": "2"}, 2),
        # 8 cores on 4 devices: 4 cores are 2 devices, and 3 are at least a part of 2
        ({"aws.amazon.com/neuroncore": "4"}, 2),
        ({"aws.amazon.com/neuroncore": "3"}, 2),
        ({"aws.amazon.com/neurondevice": "2"}, 2),
        ({"aws.amazon.com/neuron": "1", "aws.amazon.com/neuroncore": "2"}, 2),
    ],
)
def test_a_card_is_found_under_every_name_of_its_silicon(
    cluster: Cluster, asked: dict[str, str], held: int
) -> None:
    offers = {"aws.amazon.com/neuron": "4", "aws.amazon.com/neurondevice": "4"}
    node(cluster, "trn", {**offers, "aws.amazon.com/neuroncore": "8"})
    pod(cluster, "train", "trn", asked, queue_name="lq")
    rows = card_rows(now=T0, clusters=[cluster], node="trn")
    assert [(row.vendor, row.state, [holder.pod for holder in row.holders]) for row in rows] == [
        *[("neuron", "held", ["train"])] * held,
        *[("neuron", "free", [])] * (4 - held),
    ]


# ------------------------------------------------------------------ held and idle
def idle_card(cluster: Cluster, ratios: list[str | None], *, bound: datetime, **more: Any) -> CardRow:
    """One card of its own node, held by one pod, with a sample per minute of the last half hour."""
    node(cluster, "quiet", {"nvidia.com/gpu": "1"})
    pod(cluster, "q", "quiet", {"nvidia.com/gpu": "1"}, bound_at=bound, queue_name="lq")
    for minute, ratio in enumerate(ratios):
        said = {"namespace": "ml", "pod": "q", "attribution": "whole", **more}
        sample(cluster, "GPU-q", "quiet", ratio, ago=20 + 60 * minute, **said)
    (row,) = card_rows(now=T0, clusters=[cluster], node="quiet")
    return row


LONG = T0 - timedelta(hours=2)


def test_a_held_card_at_noise_level_is_idle(cluster: Cluster, settings: Any) -> None:
    settings.COLLECT_INTERVAL_SECONDS = 60
    row = idle_card(cluster, ["0.0000", "0.0100", *["0.0000"] * 28], bound=LONG)
    assert row.idle is not None
    assert (row.idle.highest_ratio, row.idle.samples, row.idle.expected) == (D("0.0100"), 30, 30)
    assert row.idle.since == T0 - timedelta(seconds=20 + 29 * 60)
    assert (row.idle.memory_ratio, row.idle.memory_held, row.is_idle) == (None, False, True)


@pytest.mark.parametrize(("used", "held"), [(5, False), (6, True)])
def test_memory_without_compute(cluster: Cluster, settings: Any, used: int, held: bool) -> None:
    settings.COLLECT_INTERVAL_SECONDS = 60
    memory = {"memory_used_bytes": used, "memory_total_bytes": 100}
    row = idle_card(cluster, ["0.0000"] * 30, bound=LONG, **memory)
    assert row.idle is not None
    assert (row.idle.memory_ratio, row.idle.memory_held) == (D(used) / 100, held)


@pytest.mark.parametrize(
    ("ratios", "bound", "why"),
    [
        (["0.0000"] * 23, LONG, "23 of 30 samples are fewer than 80 %"),
        ([None] * 30, LONG, "silence is not idleness"),
        ([*["0.0000"] * 29, "0.0200"], LONG, "it worked half an hour ago"),
        (["0.0000"] * 30, T0 - timedelta(minutes=29), "the pod came 29 minutes ago"),
    ],
)
def test_what_is_not_known_to_be_idle(
    cluster: Cluster, settings: Any, ratios: list[str | None], bound: datetime, why: str
) -> None:
    settings.COLLECT_INTERVAL_SECONDS = 60
    assert idle_card(cluster, ratios, bound=bound).idle is None, why


def test_twenty_four_of_thirty_samples_are_enough(cluster: Cluster, settings: Any) -> None:
    settings.COLLECT_INTERVAL_SECONDS = 60
    row = idle_card(cluster, ["0.0000"] * 24, bound=LONG)
    assert row.idle is not None
    assert row.idle.samples == 24


def test_a_card_that_changed_hands_was_not_held_by_its_pod(cluster: Cluster, settings: Any) -> None:
    settings.COLLECT_INTERVAL_SECONDS = 60
    sample(cluster, "GPU-q", "quiet", "0.0000", ago=1500, namespace="ml", pod="before")
    assert idle_card(cluster, ["0.0000"] * 24, bound=LONG).idle is None


def test_a_free_card_is_not_idle(cluster: Cluster, settings: Any) -> None:
    settings.COLLECT_INTERVAL_SECONDS = 60
    for minute in range(30):
        sample(cluster, "GPU-9", "dark", "0.0000", ago=20 + 60 * minute)
    Pod.objects.filter(name="b").delete()
    rows = card_rows(now=T0, clusters=[cluster], node="dark")
    assert [(row.device, row.idle) for row in rows] == [("GPU-9", None), ("", None)]


def test_fewer_pulls_expect_fewer_samples(cluster: Cluster, settings: Any) -> None:
    """A pull every two minutes gives fifteen in half an hour; twelve are enough."""
    settings.COLLECT_INTERVAL_SECONDS = 120
    row = idle_card(cluster, ["0.0000"] * 12, bound=LONG)
    assert row.idle is not None
    assert (row.idle.samples, row.idle.expected) == (12, 15)


def test_a_cluster_that_is_read_once_an_hour_is_not_judged(cluster: Cluster, settings: Any) -> None:
    settings.COLLECT_INTERVAL_SECONDS = 3600
    assert idle_card(cluster, ["0.0000"] * 4, bound=LONG).idle is None
