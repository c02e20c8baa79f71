"""What holds for any fleet: nothing counted twice or lost, whatever a node says about itself."""

from decimal import Decimal as D
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.capacity.health import NodeHealth, node_verdict
from apps.capacity.waterfall import Fall, fall, reserve
from apps.fleet.inventory import node_inventory

PRODUCTS = [
    "",
    "NVIDIA-H100-80GB-HBM3",
    "NVIDIA-L4-SHARED",
    "NVIDIA-A30-MIG-2g.12gb",
    "NVIDIA-H100-80GB-HBM3-MIG-INVALID",
]
TAINTS = [
    "nvidia.com/gpu",
    "spot",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
    "karpenter.sh/disrupted",
    "karpenter.sh/unregistered",
]
RESOURCES = [
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/mig-1g.10gb",
    "nvidia.com/mig-3g.40gb",
    "amd.com/gpu",
    "cpu",
]
amounts = st.integers(0, 40).map(str)


@st.composite
def nodes(draw: st.DrawFn) -> dict[str, Any]:
    labels = {
        "nvidia.com/gpu.product": draw(st.sampled_from(PRODUCTS)),
        "nvidia.com/gpu.count": draw(st.sampled_from(["", "0", "4", "8", "56", "x"])),
        "nvidia.com/gpu.replicas": draw(st.sampled_from(["", "0", "1", "4"])),
        "nvidia.com/gpu.sharing-strategy": draw(st.sampled_from(["", "none", "time-slicing", "mps"])),
        "nvidia.com/mig.strategy": draw(st.sampled_from(["", "single", "mixed"])),
        "nvidia.com/gpu.memory": draw(st.sampled_from(["", "81559", "rubbish"])),
    }
    conditions = draw(
        st.sampled_from([{}, *({"Ready": {"status": s}} for s in ("True", "False", "Unknown"))])
    )
    taints = draw(st.lists(st.sampled_from(TAINTS), max_size=2))
    return {
        "labels": labels,
        "capacity": draw(st.dictionaries(st.sampled_from(RESOURCES), amounts, max_size=4)),
        "allocatable": draw(st.dictionaries(st.sampled_from(RESOURCES), amounts, max_size=4)),
        "last_known": draw(st.dictionaries(st.sampled_from(RESOURCES[:2]), amounts, max_size=1)),
        "health": NodeHealth(
            labels,
            tuple({"key": key, "effect": "NoSchedule"} for key in taints),
            conditions,
            draw(st.booleans()),
            draw(st.booleans()),
        ),
    }


def lay(node: dict[str, Any]) -> list[Fall]:
    groups, _ = node_inventory(
        labels=node["labels"],
        annotations={},
        capacity=node["capacity"],
        allocatable=node["allocatable"],
        last_known=node["last_known"],
    )
    return [fall(group, node_verdict(node["health"])) for group in groups]


def holds(item: Fall) -> None:
    assert item.allocatable >= 0
    assert all(cards > 0 for cards in item.buckets.values())
    assert sum(item.buckets.values()) + item.allocatable == item.physical
    for unit in item.units:
        assert unit.allocatable >= 0
        assert all(amount >= 0 for amount in unit.buckets.values())
        assert sum(unit.buckets.values(), D(0)) + unit.allocatable == unit.physical
        assert unit.unit.equivalents > 0


@settings(max_examples=300, deadline=None)
@given(nodes())
def test_every_card_and_unit_is_in_exactly_one_bucket(node: dict[str, Any]) -> None:
    for item in lay(node):
        holds(item)


@settings(max_examples=150, deadline=None)
@given(st.lists(nodes(), max_size=4), st.integers(0, 100))
def test_the_reserve_moves_cards_and_loses_none(fleet: list[dict[str, Any]], cards: int) -> None:
    before = [item for node in fleet for item in lay(node)]
    after = reserve(before, cards, "spares")
    for item in after:
        holds(item)
    assert sum(i.physical for i in before) == sum(i.physical for i in after)
    usable = sum(i.allocatable for i in before)
    assert sum(i.allocatable for i in after) == usable - min(cards, usable)


@settings(max_examples=100, deadline=None)
@given(st.lists(nodes(), min_size=1, max_size=4))
def test_removing_a_node_never_raises_a_total(fleet: list[dict[str, Any]]) -> None:
    def total(some: list[dict[str, Any]]) -> tuple[int, int]:
        found = [item for node in some for item in lay(node)]
        return sum(i.physical for i in found), sum(i.allocatable for i in found)

    assert all(less <= more for less, more in zip(total(fleet[1:]), total(fleet), strict=True))
