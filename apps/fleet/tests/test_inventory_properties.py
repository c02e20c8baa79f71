"""What holds for the inventory of any node, whatever its plugin, its labels and its register say."""

import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.core.gpu import SharingMode
from apps.fleet.inventory import Group, node_inventory, shape
from apps.fleet.registry import registry

H100, A40 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-40GB"
PRODUCTS = [
    "",
    H100,
    A40,
    "NVIDIA-L4-SHARED",
    "NVIDIA-A30-MIG-2g.12gb",
    f"{H100}-MIG-1g.10gb",
    f"{H100}-MIG-3g.40gb-SHARED",
    f"{H100}-MIG-INVALID",
    "NVIDIA-X900-MIG-2g.99gb",
    "-MIG-",
]
REGISTERS = [
    "",
    "rubbish",
    "GPU-a,10,32768,100,NVIDIA-Tesla V100,0,true:GPU-b,10,32768,100,NVIDIA-Tesla V100,0,false:",
    "GPU-a,0,x,100,NVIDIA-A,0,true:GPU-b,4,16384,100,NVIDIA-B,1,true:",
    '[{"id": "a", "count": 10, "devmem": 23028, "type": "NVIDIA A10", "health": true}]',
    "[1, null]",
    "GPU-e,10,24576,NVIDIA-NVIDIA A10,true,hami-core:",
]
RESOURCES = [
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/mig-1g.10gb",
    "nvidia.com/mig-1g.10gb.shared",
    "nvidia.com/mig-3g.40gb",
    "nvidia.com/mig-9g.99gb",
    "nvidia.com/gpumem",
    "amd.com/gpu",
    "amd.com/cpx_nps4",
    "gpu.intel.com/i915",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "volcano.sh/vgpu-number",
    "huawei.com/Ascend910",
    "huawei.com/Ascend310P-2c",
    "hygon.com/dcunum",
    "hygon.com/dcu",
    "hygon.com/dcu-share-30c-16g",
    "cpu",
]
ANNOTATIONS = sorted(registry().annotations)
amounts = st.integers(0, 70).map(str)
resources = st.dictionaries(st.sampled_from(RESOURCES), amounts, max_size=4)


@st.composite
def labels(draw: st.DrawFn) -> dict[str, str]:
    chosen = {
        "nvidia.com/gpu.product": draw(st.sampled_from(PRODUCTS)),
        "nvidia.com/gpu.count": draw(st.sampled_from(["", "0", "1", "4", "8", "56", "x", "²"])),
        "nvidia.com/gpu.replicas": draw(st.sampled_from(["", "0", "1", "4"])),
        "nvidia.com/gpu.sharing-strategy": draw(st.sampled_from(["", "none", "time-slicing", "mps"])),
        "nvidia.com/gpu.memory": draw(st.sampled_from(["", "0", "81559", "rubbish"])),
        "nvidia.com/mig.strategy": draw(st.sampled_from(["", "none", "single", "mixed"])),
        "nvidia.com/mig-1g.10gb.replicas": draw(st.sampled_from(["", "0", "2", "3"])),
        "nvidia.com/gpu.present": draw(st.sampled_from(["", "true"])),
        "nvidia.com/gpu.workload.config": draw(st.sampled_from(["", "container", "vm-passthrough"])),
        "cloud.google.com/gke-gpu-partition-size": draw(st.sampled_from(["", "1g.5gb"])),
        "gpu.intel.com/device.count": draw(st.sampled_from(["", "2"])),
        "amd.com/gpu.vram": draw(st.sampled_from(["", "192G", "64"])),
        "unrelated": draw(st.sampled_from(["a", "b"])),
    }
    return {key: value for key, value in chosen.items() if value}


@st.composite
def nodes(draw: st.DrawFn) -> dict[str, Any]:
    register = draw(st.sampled_from(ANNOTATIONS))
    return {
        "labels": draw(labels()),
        "annotations": {register: text} if (text := draw(st.sampled_from(REGISTERS))) else {},
        "capacity": draw(resources),
        "allocatable": draw(resources),
        "last_known": draw(st.none() | resources),
        "seen_cards": draw(st.none() | st.integers(0, 16)),
        "seen_models": draw(st.sampled_from([(), ("NVIDIA L4",), ("NVIDIA L4", "NVIDIA H100 80GB HBM3")])),
    }


def compute(group: Group) -> Fraction:
    return sum((unit.equivalents * Fraction(unit.capacity) for unit in group.units), Fraction(0))


@settings(max_examples=500, deadline=None)
@given(nodes())
def test_cards_and_units_are_never_negative_and_never_more_offered_than_there_are(
    node: dict[str, Any],
) -> None:
    groups, codes = node_inventory(**node)
    assert len(codes) == len(set(codes))
    for group in groups:
        assert group.cards >= 1
        assert 0 <= group.lost <= group.cards
        assert group.unhealthy_cards is None or 0 <= group.unhealthy_cards <= group.cards
        assert group.card_memory_bytes is None or group.card_memory_bytes > 0
        assert len(group.codes) == len(set(group.codes))
        for unit in group.units:
            assert 0 <= unit.allocatable <= unit.capacity
            assert 0 < unit.equivalents <= 1
            assert unit.memory_bytes is None or unit.memory_bytes > 0
            assert unit.memory_equivalents is None or 0 < unit.memory_equivalents <= 1


@settings(max_examples=500, deadline=None)
@given(nodes())
def test_units_and_what_is_stranded_fit_on_the_cards(node: dict[str, Any]) -> None:
    for group in node_inventory(**node)[0]:
        assert compute(group) <= group.cards
        if group.mode is not SharingMode.MIG or not group.compute_slices:
            assert (group.stranded_compute, group.stranded_memory) == (0, 0)
            continue
        assert compute(group) + Fraction(group.stranded_compute, group.compute_slices) <= group.cards
        if group.memory_slices:
            memory = sum(
                ((unit.memory_equivalents or 0) * Fraction(unit.capacity) for unit in group.units),
                Fraction(0),
            )
            assert memory + Fraction(group.stranded_memory, group.memory_slices) <= group.cards
        else:
            assert group.stranded_memory == 0


@settings(max_examples=300, deadline=None)
@given(labels(), st.sampled_from(REGISTERS), st.none() | st.integers(0, 16), st.none() | resources)
def test_labels_registers_telemetry_and_memories_alone_offer_nothing(
    found: dict[str, str], register: str, seen: int | None, last_known: dict[str, str] | None
) -> None:
    groups, _codes = node_inventory(
        labels=found,
        annotations={"hami.io/node-nvidia-register": register, "volcano.sh/node-vgpu-register": register},
        capacity={"cpu": "64", "nvidia.com/gpu": "0"},
        allocatable={"cpu": "64", "nvidia.com/gpu": "8"},
        last_known=last_known,
        seen_cards=seen,
    )
    assert sum((unit.allocatable for group in groups for unit in group.units), Decimal(0)) == 0
    assert all(group.plugin_down or group.uninitialised for group in groups)


@settings(max_examples=300, deadline=None)
@given(nodes(), labels())
def test_a_label_never_adds_allocatable_units(node: dict[str, Any], other: dict[str, str]) -> None:
    offered = {
        resource: min(Decimal(node["allocatable"].get(resource, "0")), Decimal(amount))
        for resource, amount in node["capacity"].items()
    }
    for found in (node["labels"], {**node["labels"], **other}):
        for group in node_inventory(**{**node, "labels": found})[0]:
            for unit in group.units:
                assert unit.allocatable <= offered.get(unit.resource, Decimal(0))


@settings(max_examples=300, deadline=None)
@given(nodes())
def test_each_resource_is_counted_once(node: dict[str, Any]) -> None:
    counted = [unit.resource for group in node_inventory(**node)[0] for unit in group.units]
    assert len(counted) == len(set(counted))


@settings(max_examples=300, deadline=None)
@given(nodes(), st.randoms(use_true_random=False))
def test_the_order_of_what_a_node_says_is_irrelevant(node: dict[str, Any], chance: random.Random) -> None:
    def shuffled(found: dict[str, str] | None) -> dict[str, str] | None:
        items = list((found or {}).items())
        chance.shuffle(items)
        return None if found is None else dict(items)

    turned: dict[str, Any] = {
        key: shuffled(value) if isinstance(value, dict) else value for key, value in node.items()
    }
    assert node_inventory(**turned) == node_inventory(**node)
    assert shape(**turned) == shape(**node)


@settings(max_examples=200, deadline=None)
@given(st.lists(nodes(), min_size=2, max_size=6))
def test_nodes_of_one_shape_have_one_inventory(fleet: list[dict[str, Any]]) -> None:
    fleet = [*fleet, *({**node, "labels": {**node["labels"], "unrelated": "c"}} for node in fleet)]
    known: dict[Any, Any] = {}
    for node in fleet:
        found = node_inventory(**node)
        assert known.setdefault(shape(**node), found) == found
    assert len(known) <= len(fleet) // 2
