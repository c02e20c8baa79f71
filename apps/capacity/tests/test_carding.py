"""Which card is in which bucket and who holds it: nodes worked out by hand, then any node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.capacity.carding import Card, HoldingPod, Seen, lay_cards, place, plain_model
from apps.capacity.health import BUCKETS, Bucket, Verdict
from apps.capacity.waterfall import Fall, fall, keep_back, shares
from apps.core.gpu import SharingMode
from apps.fleet.inventory import Device, Group, Unit
from apps.observations.selectors import Sample

D = Decimal
T0 = datetime(2026, 1, 1, 12, tzinfo=UTC)
FINE = Verdict(None)
GPU, SHARED, MIG1G = "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"


def unit(count: int, *, offered: int | None = None, resource: str = GPU, share: int = 1) -> Unit:
    return Unit(resource, "", D(count), D(count if offered is None else offered), Fraction(1, share))


def group(cards: int, *units: Unit, mode: SharingMode = SharingMode.EXCLUSIVE, **more: Any) -> Group:
    return Group("nvidia", more.pop("model", "NVIDIA-H100-80GB-HBM3"), mode, cards, units, **more)


def sample(device: str, **more: Any) -> Sample:
    said: dict[str, Any] = {
        "cluster_id": 1,
        "device": device,
        "instance": "",
        "node_name": "n1",
        "model": "NVIDIA H100 80GB HBM3",
        "namespace": "",
        "pod": "",
        "utilisation_ratio": None,
        "utilisation_source": "",
        "memory_used_bytes": None,
        "memory_total_bytes": None,
        "power_watts": None,
        "xid": None,
        "sampled_at": T0,
        "vendor": "nvidia",
        "profile": "",
        "driver": "",
        "attribution": "",
        "shares": [],
    }
    return Sample(**{**said, **more})


def seen(device: str, pod: str = "", **more: Any) -> Seen:
    return Seen(device, (sample(device, namespace="ml" if pod else "", pod=pod, **more),))


def pod(name: str, cards: int = 0, *, resource: str = GPU, devices: Iterable[str] = ()) -> HoldingPod:
    units = {resource: D(cards)} if cards else {}
    return HoldingPod("ml", name, 7, units, T0, frozenset(devices))


def lay(
    falls: Sequence[Fall],
    found: Iterable[Seen] = (),
    pods: Sequence[HoldingPod] = (),
    *,
    stranded: bool = False,
) -> list[Card]:
    held: Counter[str] = Counter()
    for one in pods:
        held.update({name: int(amount) for name, amount in one.units.items()})
    taken = shares(falls, {name: D(amount) for name, amount in held.items()}, stranded=stranded)
    return lay_cards(falls, taken, found, pods)


def short(cards: Iterable[Card]) -> list[tuple[str, str, str]]:
    """(device, bucket or state, holders with how)."""
    return [
        (
            card.device,
            str(card.bucket or card.state),
            " ".join(f"{holder.pod}:{holder.how}" for holder in card.holders),
        )
        for card in cards
    ]


# ------------------------------------------------------------------ whole cards
def test_the_exporter_names_the_holders() -> None:
    item = fall(group(4, unit(4)), FINE)
    found = [seen(f"GPU-{n}", "a" if n < 3 else "") for n in (1, 2, 3, 4)]
    assert short(lay([item], found, [pod("a", 2)])) == [
        ("GPU-1", "held", "a:telemetry"),
        ("GPU-2", "held", "a:telemetry"),
        ("GPU-3", "free", ""),
        ("GPU-4", "free", ""),
    ]


def test_without_telemetry_a_pod_that_holds_all_cards_is_the_only_one() -> None:
    item = fall(group(2, unit(2)), FINE)
    assert short(lay([item], (), [pod("a", 2)])) == [("", "held", "a:only"), ("", "held", "a:only")]


def test_without_telemetry_nobody_says_which_card_a_pod_has() -> None:
    item = fall(group(3, unit(3)), FINE)
    both = "a:perhaps b:perhaps"
    assert short(lay([item], (), [pod("a", 1), pod("b", 1)])) == [
        ("", "held", both),
        ("", "held", both),
        ("", "free", ""),
    ]


def test_when_all_cards_are_held_each_is_held_by_one_of_the_pods() -> None:
    item = fall(group(2, unit(2)), FINE)
    both = "a:one_of b:one_of"
    assert short(lay([item], (), [pod("a", 1), pod("b", 1)])) == [("", "held", both), ("", "held", both)]


def test_what_the_exporter_does_not_name_is_left_to_the_other_pods() -> None:
    item = fall(group(3, unit(3)), FINE)
    found = [seen("GPU-1", "a"), seen("GPU-2"), seen("GPU-3")]
    assert short(lay([item], found, [pod("a", 1), pod("b", 2)])) == [
        ("GPU-1", "held", "a:telemetry"),
        ("GPU-2", "held", "b:only"),
        ("GPU-3", "held", "b:only"),
    ]


def test_a_pod_that_is_over_but_still_exported_holds_nothing() -> None:
    """T15: the exporter goes on naming a completed pod."""
    item = fall(group(1, unit(1)), FINE)
    assert short(lay([item], [seen("GPU-1", "done")], [])) == [("GPU-1", "free", "")]


def test_a_pod_is_not_named_on_more_cards_than_it_asked_for() -> None:
    item = fall(group(2, unit(2)), FINE)
    found = [seen("GPU-1", "a"), seen("GPU-2", "a")]
    assert short(lay([item], found, [pod("a", 1)])) == [
        ("GPU-1", "held", "a:telemetry"),
        ("GPU-2", "free", ""),
    ]


def test_a_claim_names_its_card() -> None:
    devices = (Device("GPU-1"), Device("GPU-2"))
    item = fall(
        group(2, unit(2, resource="gpu.nvidia.com/gpu"), origin="dra", devices=devices),
        FINE,
    )
    held = shares([item], {"gpu.nvidia.com/gpu": D(1)}, stranded=False)
    pods = [pod("a", devices=["GPU-2"]), pod("b", devices=["GPU-2"])]
    cards = lay_cards([item], held, [], pods)
    assert short(cards) == [("GPU-1", "free", ""), ("GPU-2", "held", "a:claim b:claim")]
    assert {card.origin for card in cards} == {"dra"}


def test_a_claim_without_a_pod_names_its_card_too() -> None:
    """A claim that nobody uses holds GPU-3; pod a asks for a card by name, it has one of the others."""
    devices = tuple(Device(f"GPU-{number}") for number in (1, 2, 3))
    item = fall(group(3, unit(3), origin="dra", devices=devices), FINE)
    held = shares([item], {GPU: D(1)}, stranded=False, claimed=[{GPU: D(1)}])
    cards = lay_cards([item], held, [], [pod("a", 1)], {"GPU-3"})
    assert short(cards) == [("GPU-1", "held", "a:perhaps"), ("GPU-2", "free", ""), ("GPU-3", "held", "")]
    out = fall(item.group, Verdict(Bucket.CORDONED, "x"))
    held = shares([out], {GPU: D(1)}, stranded=False, claimed=[{GPU: D(1)}])
    cards = lay_cards([out], held, [], [pod("a", 1)], {"GPU-3"})
    assert [card.holders != () for card in cards] == [True, False, False]


def test_a_claimed_card_of_several_units_is_held() -> None:
    devices = (Device("GPU-1"), Device("GPU-2"))
    item = fall(group(2, unit(8, share=4), mode=SharingMode.TIME_SLICING, devices=devices), FINE)
    held = shares([item], {}, stranded=False, claimed=[{GPU: D(4)}])
    cards = lay_cards([item], held, [], [], {"GPU-2"})
    assert short(cards) == [("GPU-1", "free", ""), ("GPU-2", "held", "")]


def test_idle_cards_whose_series_vanish_stay_in_the_count() -> None:
    """T6: in DRA mode the exporter shows one allocated card of eight."""
    item = fall(group(8, unit(8)), FINE)
    cards = lay([item], [seen("GPU-5", "a")], [pod("a", 1)])
    assert len(cards) == 8
    assert short(cards)[0] == ("GPU-5", "held", "a:telemetry")
    assert set(short(cards)[1:]) == {("", "free", "")}


def test_full_nodes_strand_what_is_free() -> None:
    item = fall(group(2, unit(2)), FINE)
    assert [card.state for card in lay([item], (), [pod("a", 1)], stranded=True)] == ["held", "stranded"]


def test_where_pods_were_never_read_nobody_knows() -> None:
    item = fall(group(1, unit(1)), FINE)
    (card,) = lay_cards([item], None, [seen("GPU-1", "a")], [])
    assert (card.state, [(h.pod, h.how, h.team_id) for h in card.holders]) == (
        "unknown",
        [("a", "telemetry", None)],
    )


# ------------------------------------------------------------------ buckets
def test_one_unhealthy_card_of_which_nobody_says_which() -> None:
    item = fall(group(2, unit(2, offered=1)), FINE)
    cards = lay([item], [seen("GPU-1"), seen("GPU-2")])
    assert [(card.bucket, card.identified) for card in cards] == [
        (None, True),
        (Bucket.DEVICE_UNHEALTHY, False),
    ]


def test_a_card_with_an_error_is_the_likely_one_but_not_said_to_be() -> None:
    item = fall(group(2, unit(2, offered=1)), FINE)
    cards = lay([item], [seen("GPU-1", xid=79), seen("GPU-2", xid=0)])
    assert [(card.bucket, card.identified) for card in cards] == [
        (Bucket.DEVICE_UNHEALTHY, False),
        (None, True),
    ]


def test_a_card_that_is_named_unhealthy() -> None:
    devices = (Device("GPU-1", healthy=False, why="xid=79"), Device("GPU-2"))
    item = fall(group(2, unit(2, offered=1), devices=devices, unhealthy_cards=1), FINE)
    cards = lay([item])
    assert [(card.device, card.bucket, card.identified, card.why) for card in cards] == [
        ("GPU-1", Bucket.DEVICE_UNHEALTHY, True, "xid=79"),
        ("GPU-2", None, True, ""),
    ]


def test_the_card_that_telemetry_misses_is_the_lost_one() -> None:
    item = fall(group(3, unit(2), lost=1), FINE)
    cards = lay([item], [seen("GPU-1"), seen("GPU-2")])
    assert [(card.device, card.bucket, card.identified) for card in cards] == [
        ("GPU-1", None, True),
        ("GPU-2", None, True),
        ("", Bucket.LOST, True),
    ]


def test_a_cordoned_node_is_out_with_its_holders() -> None:
    item = fall(group(2, unit(2)), Verdict(Bucket.CORDONED, "spec.unschedulable"))
    cards = lay([item], [seen("GPU-1", "a"), seen("GPU-2")], [pod("a", 1)])
    assert short(cards) == [("GPU-1", "cordoned", "a:telemetry"), ("GPU-2", "cordoned", "")]
    assert [card.state for card in cards] == ["out", "out"]


def test_a_reserve_is_laid_on_cards_that_nobody_holds() -> None:
    item = keep_back(fall(group(2, unit(2)), FINE), 1, "spare")
    cards = lay([item], [seen("GPU-1", "a"), seen("GPU-2")], [pod("a", 1)])
    assert short(cards) == [("GPU-1", "held", "a:telemetry"), ("GPU-2", "platform_reserve", "")]


# ------------------------------------------------------------------ shared and partitioned cards
def sliced(cards: int, replicas: int) -> Fall:
    return fall(
        group(cards, unit(cards * replicas, resource=SHARED, share=replicas), mode=SharingMode.TIME_SLICING),
        FINE,
    )


def test_all_pods_of_a_node_with_one_shared_card_are_on_it() -> None:
    pods = [pod("a", 1, resource=SHARED), pod("b", 2, resource=SHARED)]
    assert short(lay([sliced(1, 4)], [seen("GPU-1", "a")], pods)) == [("GPU-1", "held", "a:telemetry b:only")]


def test_on_several_shared_cards_only_named_pods_are_placed() -> None:
    """Two cards of four slices: 5 slices are held, so both cards are; the exporter names one pod."""
    pods = [pod("a", 1, resource=SHARED), pod("b", 4, resource=SHARED)]
    assert short(lay([sliced(2, 4)], [seen("GPU-1", "a"), seen("GPU-2")], pods)) == [
        ("GPU-1", "held", "a:telemetry"),
        ("GPU-2", "held", "b:only"),
    ]


def test_a_shared_card_that_may_be_held_or_not_is_not_known() -> None:
    """Two of eight slices are held, by two pods: on one card or on both."""
    pods = [pod("a", 1, resource=SHARED), pod("b", 1, resource=SHARED)]
    both = "a:perhaps b:perhaps"
    assert short(lay([sliced(2, 4)], (), pods)) == [("", "held", both), ("", "unknown", both)]


def test_shares_name_several_pods_of_one_card() -> None:
    parts = [{"namespace": "ml", "pod": name, "ratio": None} for name in ("a", "b")]
    pods = [pod("a", 1, resource=SHARED), pod("b", 1, resource=SHARED)]
    found = [seen("GPU-1", shares=parts), seen("GPU-2")]
    assert short(lay([sliced(2, 4)], found, pods)) == [
        ("GPU-1", "held", "a:telemetry b:telemetry"),
        ("GPU-2", "free", ""),
    ]


def test_instances_of_a_card_name_its_pods() -> None:
    mig = fall(group(2, unit(14, resource=MIG1G, share=7), mode=SharingMode.MIG), FINE)
    first = Seen(
        "GPU-1",
        (sample("GPU-1", instance="7", namespace="ml", pod="a"), sample("GPU-1", instance="8")),
    )
    assert short(lay([mig], [first], [pod("a", 1, resource=MIG1G)])) == [
        ("GPU-1", "held", "a:telemetry"),
        ("", "free", ""),
    ]


# ------------------------------------------------------------------ several groups on a node
def test_cards_go_to_the_group_of_their_model_and_mode() -> None:
    whole = fall(group(1, unit(1)), FINE)
    mig = fall(group(1, unit(7, resource=MIG1G, share=7), mode=SharingMode.MIG), FINE)
    other = fall(group(1, unit(1), model="NVIDIA-L4"), FINE)
    found = [
        Seen("GPU-a", (sample("GPU-a", model="NVIDIA L4"),)),
        Seen("GPU-b", (sample("GPU-b", instance="7"),)),
        Seen("GPU-c", (sample("GPU-c"),)),
    ]
    placed = place([whole, mig, other], found)
    assert [[item.device for item in cards] for cards in placed] == [["GPU-c"], ["GPU-b"], ["GPU-a"]]


def test_cards_beyond_the_count_are_not_placed() -> None:
    (cards,) = place([fall(group(1, unit(1)), FINE)], [seen("GPU-1"), seen("GPU-2")])
    assert [item.device for item in cards] == ["GPU-1"]


BEYOND = {
    # the pod's card is one too many for the count: the other one is not told to be its
    "whole": (group(1, unit(1)), [pod("a", 1)], [("GPU-1", "held", "a:perhaps")]),
    "shared": (sliced(1, 4).group, [pod("a", 1, resource=SHARED)], [("GPU-1", "held", "a:perhaps")]),
    # who is named on no card beyond the count is told as ever
    "beside another": (
        sliced(1, 4).group,
        [pod("a", 1, resource=SHARED), pod("b", 1, resource=SHARED)],
        [("GPU-1", "held", "a:perhaps b:only")],
    ),
}


@pytest.mark.parametrize("case", BEYOND)
def test_who_is_named_on_a_card_beyond_the_count_is_certain_on_no_other(case: str) -> None:
    kind, pods, expected = BEYOND[case]
    assert short(lay([fall(kind, FINE)], [seen("GPU-1"), seen("GPU-2", "a")], pods)) == expected


def test_another_vendors_cards_are_not_placed() -> None:
    found = [Seen("x", (sample("x", vendor="amd", model="MI300X"),))]
    two = [fall(group(1, unit(1)), FINE), fall(group(1, unit(1), model="NVIDIA-L4"), FINE)]
    assert place(two, found) == [[], []]
    assert place(two[:1], found) == [[]]


def test_the_monitor_of_a_splitter_sees_the_vendors_cards() -> None:
    found = [Seen("GPU-1", (sample("GPU-1", vendor="hami", model=""),))]
    assert place([fall(group(1, unit(1)), FINE)], found) == [found]
    split = group(1, unit(4, share=4), mode=SharingMode.VGPU)
    by_dcgm = [Seen("GPU-1", (sample("GPU-1"),))]
    assert place([fall(replace(split, vendor="volcano"), FINE)], by_dcgm) == [by_dcgm]


@pytest.mark.parametrize(
    ("label", "exported"),
    [("NVIDIA-H100-80GB-HBM3", "NVIDIA H100 80GB HBM3"), ("A30", "NVIDIA A30"), ("nvidia-l4", "NVIDIA L4")],
)
def test_models_as_labels_and_exporters_write_them(label: str, exported: str) -> None:
    assert plain_model(label) == plain_model(exported)


# ------------------------------------------------------------------ any node
@st.composite
def nodes(draw: st.DrawFn) -> tuple[list[Fall], list[Seen], list[HoldingPod], bool]:
    verdict = draw(
        st.sampled_from(
            [
                FINE,
                FINE,
                *(
                    Verdict(bucket, "why")
                    for bucket in (Bucket.CORDONED, Bucket.NODE_NOT_READY, Bucket.MAINTENANCE)
                ),
            ]
        )
    )
    falls = []
    for _ in range(draw(st.integers(1, 3))):
        mode, replicas, resource = draw(
            st.sampled_from(
                [
                    (SharingMode.EXCLUSIVE, 1, GPU),
                    (SharingMode.TIME_SLICING, 4, SHARED),
                    (SharingMode.MIG, 7, MIG1G),
                ]
            )
        )
        present, lost = draw(st.integers(1, 8)), draw(st.integers(0, 2))
        offered = draw(st.integers(0, present * replicas))
        item = fall(
            group(
                present + lost,
                unit(present * replicas, offered=offered, resource=resource, share=replicas),
                mode=mode,
                lost=lost,
                model=draw(st.sampled_from(["A", "B"])),
            ),
            verdict,
        )
        falls.append(keep_back(item, draw(st.integers(0, 2)), "reserve"))
    names = st.sampled_from(["", "a", "b", "gone"])
    found = [
        Seen(
            f"GPU-{n}",
            (
                sample(
                    f"GPU-{n}",
                    model=draw(st.sampled_from(["A", "B", ""])),
                    namespace="ml",
                    pod=draw(names),
                    xid=draw(st.sampled_from([None, 0, 79])),
                ),
            ),
        )
        for n in range(draw(st.integers(0, 12)))
    ]
    pods = [
        pod(name, draw(st.integers(1, 9)), resource=draw(st.sampled_from([GPU, SHARED, MIG1G])))
        for name in ("a", "b")[: draw(st.integers(0, 2))]
    ]
    return falls, found, pods, draw(st.booleans())


@given(nodes())
def test_rows_are_the_waterfalls_cards(node: Any) -> None:
    falls, found, pods, stranded = node
    cards = lay(falls, found, pods, stranded=stranded)
    for index, item in enumerate(falls):
        rows = [card for card in cards if card.group_index == index]
        assert [card.position for card in rows] == list(range(1, item.physical + 1))
        counts = Counter(card.bucket for card in rows)
        assert {bucket: counts[bucket] for bucket in BUCKETS if counts[bucket]} == {
            bucket: count for bucket, count in item.buckets.items() if count
        }
        assert counts[None] == item.allocatable
    devices = [card.device for card in cards if card.device]
    assert len(devices) == len(set(devices))
    assert all(bool(card.bucket) is (card.state == "out") for card in cards)


@given(nodes())
def test_held_and_free_whole_cards_are_the_units(node: Any) -> None:
    falls, found, pods, stranded = node
    held = {resource: sum((one.units.get(resource, D(0)) for one in pods), D(0)) for resource in (GPU,)}
    taken = shares(falls, held, stranded=stranded)
    cards = lay(falls, found, pods, stranded=stranded)
    whole = [n for n, item in enumerate(falls) if item.group.mode is SharingMode.EXCLUSIVE]
    states = Counter(card.state for card in cards if card.group_index in whole)
    # A card that is unhealthy is one unit that is not offered, so that usable cards are usable units.
    assert states["held"] == sum(share.held for n in whole for share in taken[n])
    assert states["free"] == sum(share.free for n in whole for share in taken[n])
    assert states["stranded"] == sum(share.stranded for n in whole for share in taken[n])
    for name in ("a", "b"):
        named = sum(
            h.how == "telemetry" and h.pod == name for c in cards if c.group_index in whole for h in c.holders
        )
        assert named <= sum((one.units.get(GPU, D(0)) for one in pods if one.name == name), D(0))
    assert not any(holder.pod == "gone" for card in cards for holder in card.holders)
