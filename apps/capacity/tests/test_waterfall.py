"""A golden fleet: the recorded nodes, and one node per trap, with numbers worked out by hand beside the formula."""

import json
from collections.abc import Iterable
from decimal import Decimal as D
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from apps.capacity.health import Bucket, NodeHealth, health_table, node_verdict, warnings
from apps.capacity.waterfall import Fall, fall, keep_back, shares
from apps.fleet.inventory import node_inventory

RECORDED = Path(__file__).parents[3] / "tests" / "data" / "kueue" / "nodes.json"
H100, A100 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB"
GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
READY = {"Ready": {"status": "True", "reason": "KubeletReady"}}
MIB = 2**20
Seen = tuple[str, str, int, dict[str, int], int, dict[str, tuple[int, int]]]


def falls(
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    capacity: dict[str, str] | None = None,
    allocatable: dict[str, str] | None = None,
    last_known: dict[str, str] | None = None,
    taints: Iterable[dict[str, str]] = (),
    conditions: dict[str, dict[str, str]] = READY,
    unschedulable: bool = False,
    deleting: bool = False,
    tolerated: Iterable[dict[str, str]] = (),
    lapsed: bool = False,
) -> list[Fall]:
    groups, _ = node_inventory(
        labels=labels or {},
        annotations=annotations or {},
        capacity=capacity or {},
        allocatable=capacity or {} if allocatable is None else allocatable,
        last_known=last_known,
    )
    health = NodeHealth(labels or {}, tuple(taints), conditions, unschedulable, deleting)
    verdict = node_verdict(health, tolerated=tolerated)
    return [fall(group, verdict, lapsed=lapsed) for group in groups]


def gfd(
    product: str = H100,
    count: int = 8,
    memory: int = 81559,
    replicas: int = 1,
    sharing: str = "none",
    strategy: str = "none",
) -> dict[str, str]:
    return {
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.count": str(count),
        "nvidia.com/gpu.memory": str(memory),
        "nvidia.com/gpu.replicas": str(replicas),
        "nvidia.com/gpu.sharing-strategy": sharing,
        "nvidia.com/mig.strategy": strategy,
    }


def seen(found: list[Fall]) -> list[Seen]:
    """(model, mode, cards, {bucket: cards}, allocatable cards, {resource: (units, usable units)}) per group."""
    return [
        (
            item.group.model,
            str(item.group.mode),
            item.physical,
            {str(bucket): cards for bucket, cards in item.buckets.items()},
            item.allocatable,
            {unit.unit.resource: (int(unit.physical), int(unit.allocatable)) for unit in item.units},
        )
        for item in found
    ]


# --------------------------------------------------------------------------------------------- recorded nodes

EXCLUSIVE, MIG, SLICES, MPS = "exclusive", "mig", "time_slicing", "mps"
M1, M2, M3 = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-2g.20gb", "nvidia.com/mig-3g.40gb"
WHOLE_8 = {GPU: (8, 8)}
GOLDEN: dict[str, list[Seen]] = {
    "h100-01": [(H100, EXCLUSIVE, 8, {}, 8, WHOLE_8)],
    "h100-02": [(H100, EXCLUSIVE, 8, {}, 8, WHOLE_8)],
    "h100-03": [(H100, EXCLUSIVE, 8, {}, 8, WHOLE_8)],
    "h100-04": [(H100, EXCLUSIVE, 8, {"tainted": 8}, 0, {GPU: (8, 0)})],  # spot taint, no flavor given
    "h100-05": [(H100, MIG, 8, {}, 8, {GPU: (56, 56)})],  # single 1g.10gb: ⌈56 / 7⌉ = 8 cards
    "h100-06": [  # mixed, count 8: 4 whole, 8 − 4 = 4 partitioned into 14 × 1g and 4 × 3g
        (H100, EXCLUSIVE, 4, {}, 4, {GPU: (4, 4)}),
        (H100, MIG, 4, {}, 4, {M1: (14, 14), M3: (4, 4)}),
    ],
    "h100-07": [(H100, MIG, 8, {}, 8, {M1: (14, 14), M2: (9, 9), M3: (6, 6)})],
    "h100-08": [(H100, EXCLUSIVE, 8, {"device_unhealthy": 1}, 7, {GPU: (8, 7)})],
    "a100-01": [(A100, EXCLUSIVE, 8, {}, 8, WHOLE_8)],
    "a100-02": [(A100, EXCLUSIVE, 8, {}, 8, WHOLE_8)],
    "a100-03": [(A100, EXCLUSIVE, 8, {"cordoned": 8}, 0, {GPU: (8, 0)})],
    "a100-04": [(A100, EXCLUSIVE, 8, {"node_not_ready": 8}, 0, {GPU: (8, 0)})],
    "l4-01": [("NVIDIA-L4", SLICES, 4, {}, 4, {GPU: (16, 16)})],
    "l4-02": [("NVIDIA-L4", SLICES, 4, {}, 4, {SHARED: (16, 16)})],  # gpu "0" beside gpu.shared "16"
    "l40s-mps-01": [("NVIDIA-L40S", MPS, 4, {}, 4, {GPU: (40, 40)})],
    "gb200-01": [("NVIDIA-GB200", EXCLUSIVE, 4, {}, 4, {GPU: (4, 4)})],
    "t4-01": [("Tesla-T4", EXCLUSIVE, 4, {"tainted": 4}, 0, {GPU: (4, 0)})],
    "nolabel-01": [("", EXCLUSIVE, 8, {}, 8, WHOLE_8)],
    "mi300x-01": [("AMD_Instinct_MI300X_OAM", EXCLUSIVE, 8, {}, 8, {"amd.com/gpu": (8, 8)})],
    "gaudi-01": [("Intel-Gaudi", EXCLUSIVE, 8, {}, 8, {"habana.ai/gaudi": (8, 8)})],
    "ascend-01": [("910B3", EXCLUSIVE, 8, {}, 8, {"huawei.com/Ascend910": (8, 8)})],
    "cpu-01": [],
    "dra-01": [],
}


def recorded() -> dict[str, dict[str, Any]]:
    return {item["metadata"]["name"]: item for item in json.loads(RECORDED.read_bytes())["items"]}


def recorded_falls(item: dict[str, Any], tolerated: Iterable[dict[str, str]] = ()) -> list[Fall]:
    spec, status = item["spec"], item["status"]
    return falls(
        labels=item["metadata"]["labels"],
        capacity=status["capacity"],
        allocatable=status["allocatable"],
        taints=spec.get("taints", ()),
        conditions={c["type"]: {"status": c["status"], "reason": c["reason"]} for c in status["conditions"]},
        unschedulable=spec.get("unschedulable", False),
        tolerated=tolerated,
    )


def test_every_recorded_node_is_in_the_golden_table() -> None:
    assert recorded().keys() == GOLDEN.keys()


@pytest.mark.parametrize("name", GOLDEN)
def test_recorded_node(name: str) -> None:
    assert seen(recorded_falls(recorded()[name])) == GOLDEN[name]


def test_recorded_fleet_by_hand() -> None:
    # h100: 8·8 = 64; a100: 4·8 = 32; l4 4 + 4; l40s 4; gb200 4; t4 4; unlabelled 8; mi300x 8; gaudi 8; ascend 8
    found = [item for node in recorded().values() for item in recorded_falls(node)]
    assert sum(item.physical for item in found) == 64 + 32 + 8 + 4 + 4 + 4 + 8 + 8 + 8 + 8 == 148
    out: dict[str, int] = {}
    for item in found:
        for bucket, cards in item.buckets.items():
            out[str(bucket)] = out.get(str(bucket), 0) + cards
    assert out == {"tainted": 12, "device_unhealthy": 1, "cordoned": 8, "node_not_ready": 8}
    assert sum(item.allocatable for item in found) == 148 - 29


def test_a_flavor_that_declares_the_taint_keeps_the_spot_node_in_use() -> None:
    declared = [{"key": "spot", "value": "true", "effect": "NoSchedule"}]
    (found,) = recorded_falls(recorded()["h100-04"], tolerated=declared)
    assert (found.buckets, found.allocatable) == ({}, 8)


def test_weights_and_memory_of_the_mixed_node() -> None:
    whole, parts = recorded_falls(recorded()["h100-06"])
    assert [(u.unit.equivalents, u.unit.memory_bytes) for u in whole.units] == [(Fraction(1), 81559 * MIB)]
    assert [(u.unit.profile, u.unit.equivalents, u.unit.memory_bytes) for u in parts.units] == [
        ("1g.10gb", Fraction(1, 7), 9728 * MIB),
        ("3g.40gb", Fraction(3, 7), 40320 * MIB),
    ]


def test_memory_is_divided_for_mps_and_never_for_time_slices() -> None:
    (mps,) = recorded_falls(recorded()["l40s-mps-01"])
    (slices,) = recorded_falls(recorded()["l4-01"])
    assert mps.units[0].unit.memory_bytes == 46068 * MIB // 10
    assert mps.units[0].unit.equivalents == Fraction(1, 10)
    assert slices.units[0].unit.memory_bytes is None
    assert slices.units[0].unit.equivalents == Fraction(1, 4)


# ------------------------------------------------------------------------------------------------------ traps

TAINT = {"effect": "NoSchedule"}
TRAPS: dict[str, tuple[dict[str, Any], list[Seen]]] = {
    "plugin down: gpu 0, labels still say 8": (
        {"labels": gfd(), "capacity": {GPU: "0"}},
        [(H100, EXCLUSIVE, 8, {"plugin_down": 8}, 0, {GPU: (8, 0)})],
    ),
    "plugin down: the key is gone": (
        {"labels": gfd(), "capacity": {"cpu": "192"}},
        [(H100, EXCLUSIVE, 8, {"plugin_down": 8}, 0, {GPU: (8, 0)})],
    ),
    "plugin down without labels: last known inventory": (
        {"capacity": {GPU: "0"}, "last_known": {GPU: "6"}},
        [("", EXCLUSIVE, 6, {"plugin_down": 6}, 0, {GPU: (6, 0)})],
    ),
    "plugin down on a time-sliced node: 4 cards, not 16": (
        {"labels": gfd("NVIDIA-L4", 4, replicas=4, sharing="time-slicing"), "capacity": {GPU: "0"}},
        [("NVIDIA-L4", SLICES, 4, {"plugin_down": 4}, 0, {GPU: (16, 0)})],
    ),
    "plugin down on a node that is not ready counts as not ready": (
        {"labels": gfd(), "capacity": {GPU: "0"}, "conditions": {"Ready": {"status": "Unknown"}}},
        [(H100, EXCLUSIVE, 8, {"node_not_ready": 8}, 0, {GPU: (8, 0)})],
    ),
    "plugin down on a cordoned node in a driver upgrade: the plugin comes first": (
        {
            "labels": {**gfd(), "nvidia.com/gpu-driver-upgrade-state": "pod-restart-required"},
            "capacity": {GPU: "0"},
            "unschedulable": True,
        },
        [(H100, EXCLUSIVE, 8, {"plugin_down": 8}, 0, {GPU: (8, 0)})],
    ),
    "plugin down for longer than the table allows: lost, still physical": (
        {"labels": gfd(), "capacity": {GPU: "0"}, "lapsed": True},
        [(H100, EXCLUSIVE, 8, {"lost": 8}, 0, {GPU: (8, 0)})],
    ),
    "not ready for long: nobody can say more about the plugin": (
        {
            "labels": gfd(),
            "capacity": {GPU: "0"},
            "lapsed": True,
            "conditions": {"Ready": {"status": "Unknown"}},
        },
        [(H100, EXCLUSIVE, 8, {"node_not_ready": 8}, 0, {GPU: (8, 0)})],
    ),
    "nothing known, nothing offered": ({"capacity": {GPU: "0"}}, []),
    "one card fell off the bus": (
        {"labels": gfd(), "capacity": {GPU: "7"}},
        [(H100, EXCLUSIVE, 8, {"lost": 1}, 7, {GPU: (8, 7)})],
    ),
    "lost, unhealthy and cordoned: three buckets, eight cards": (
        {"labels": gfd(), "capacity": {GPU: "7"}, "allocatable": {GPU: "6"}, "unschedulable": True},
        [(H100, EXCLUSIVE, 8, {"lost": 1, "device_unhealthy": 1, "cordoned": 6}, 0, {GPU: (8, 0)})],
    ),
    "not ready comes before unhealthy": (
        {
            "labels": gfd(),
            "capacity": {GPU: "8"},
            "allocatable": {GPU: "5"},
            "conditions": {"Ready": {"status": "False"}},
        },
        [(H100, EXCLUSIVE, 8, {"node_not_ready": 8}, 0, {GPU: (8, 0)})],
    ),
    "all unhealthy": (
        {"labels": gfd(), "capacity": {GPU: "8"}, "allocatable": {GPU: "0"}},
        [(H100, EXCLUSIVE, 8, {"device_unhealthy": 8}, 0, {GPU: (8, 0)})],
    ),
    "one replica of 16 unhealthy is one card of 4": (
        {
            "labels": gfd("NVIDIA-L4-SHARED", 4, replicas=4, sharing="time-slicing"),
            "capacity": {GPU: "16"},
            "allocatable": {GPU: "15"},
        },
        [("NVIDIA-L4", SLICES, 4, {"device_unhealthy": 1}, 3, {GPU: (16, 15)})],
    ),
    "time slices of 3 cards where labels know 4": (
        {"labels": gfd("NVIDIA-L4-SHARED", 4, replicas=4, sharing="time-slicing"), "capacity": {GPU: "12"}},
        [("NVIDIA-L4", SLICES, 4, {"lost": 1}, 3, {GPU: (16, 12)})],
    ),
    "replicas 0 divides by one": (
        {"labels": gfd(replicas=0, sharing=""), "capacity": {GPU: "8"}},
        [(H100, EXCLUSIVE, 8, {}, 8, WHOLE_8)],
    ),
    "allocatable above capacity is clamped": (
        {"labels": gfd(), "capacity": {GPU: "8"}, "allocatable": {GPU: "9"}},
        [(H100, EXCLUSIVE, 8, {}, 8, WHOLE_8)],
    ),
    "two models on one node: capacity is trusted, not the label": (
        {"labels": gfd(count=4), "capacity": {GPU: "8"}},
        [(H100, EXCLUSIVE, 8, {}, 8, WHOLE_8)],
    ),
    "MIG-INVALID keeps the cards last known": (
        {
            "labels": gfd(f"{H100}-MIG-INVALID", 0, 0, 0, "", "single"),
            "capacity": {GPU: "0"},
            "last_known": {GPU: "8"},
        },
        [(H100, MIG, 8, {"uninitialised": 8}, 0, {})],
    ),
    "MIG single, 50 of 56 healthy: 6 missing are ⌈6/7⌉ = 1 card": (
        {
            "labels": gfd(f"{H100}-MIG-1g.10gb", 56, strategy="single"),
            "capacity": {GPU: "56"},
            "allocatable": {GPU: "50"},
        },
        [(H100, MIG, 8, {"device_unhealthy": 1}, 7, {GPU: (56, 50)})],
    ),
    "MIG single with the plugin down: ⌈56 / 7⌉": (
        {"labels": gfd(f"{H100}-MIG-1g.10gb", 56, strategy="single"), "capacity": {GPU: "0"}},
        [(H100, MIG, 8, {"plugin_down": 8}, 0, {GPU: (56, 0)})],
    ),
    "MIG mixed without a count label: ⌈(14·1 + 4·3) / 7⌉ = 4": (
        {
            "labels": {"nvidia.com/mig.strategy": "mixed", "nvidia.com/gpu.product": H100},
            "capacity": {M1: "14", M3: "4"},
        },
        [(H100, MIG, 4, {}, 4, {M1: (14, 14), M3: (4, 4)})],
    ),
    "MIG mixed, a card without any instance stays physical": (
        {"labels": gfd(strategy="mixed"), "capacity": {GPU: "4"}},
        [(H100, EXCLUSIVE, 4, {}, 4, {GPU: (4, 4)}), (H100, MIG, 4, {"uninitialised": 4}, 0, {})],
    ),
    "HAMi ×10: two cards, twenty shares": (
        {
            "labels": {},
            "annotations": {
                "hami.io/node-nvidia-register": "GPU-a,10,32768,100,NVIDIA-Tesla V100,0,true:GPU-b,10,32768,100,NVIDIA-Tesla V100,0,true:"
            },
            "capacity": {GPU: "20", "nvidia.com/gpumem": "65536"},
        },
        [("NVIDIA-Tesla V100", "vgpu", 2, {}, 2, {GPU: (20, 20)})],
    ),
    "HAMi, one of two cards unhealthy, the newer form": (
        {
            "annotations": {
                "hami.io/node-nvidia-register": json.dumps(
                    [
                        {"id": "a", "count": 10, "type": "NVIDIA A10", "health": True},
                        {"id": "b", "count": 10, "type": "NVIDIA A10", "health": False},
                    ]
                )
            },
            "capacity": {GPU: "20"},
            "allocatable": {GPU: "10"},
        },
        [("NVIDIA A10", "vgpu", 2, {"device_unhealthy": 1}, 1, {GPU: (20, 10)})],
    ),
    "Volcano vGPU without a register: ⌈20 / 10⌉": (
        {
            "labels": {"nvidia.com/gpu.product": "NVIDIA-A10"},
            "capacity": {"volcano.sh/vgpu-number": "20", "volcano.sh/vgpu-memory": "48000"},
        },
        [("NVIDIA-A10", "vgpu", 2, {}, 2, {"volcano.sh/vgpu-number": (20, 20)})],
    ),
    "AMD in CPX: 64 partitions are 8 cards": (
        {"labels": {"amd.com/gpu.product-name": "MI300X"}, "capacity": {"amd.com/cpx_nps4": "64"}},
        [("MI300X", "partition", 8, {}, 8, {"amd.com/cpx_nps4": (64, 64)})],
    ),
    "AMD in CPX under the plain name": (
        {
            "labels": {"amd.com/gpu.product-name": "MI300X", "amd.com/compute-memory-partition": "cpx_nps1"},
            "capacity": {"amd.com/gpu": "64"},
        },
        [("MI300X", "partition", 8, {}, 8, {"amd.com/gpu": (64, 64)})],
    ),
    "Intel with shared devices: the monitoring handle is no card": (
        {
            "labels": {"gpu.intel.com/product": "Flex_170", "gpu.intel.com/device.count": "2"},
            "capacity": {"gpu.intel.com/i915": "10", "gpu.intel.com/i915_monitoring": "1"},
        },
        [("Flex_170", SLICES, 2, {}, 2, {"gpu.intel.com/i915": (10, 10)})],
    ),
    "the vendor's dedicated taint keeps capacity": (
        {"labels": gfd(), "capacity": {GPU: "8"}, "taints": [{"key": GPU, "value": "present", **TAINT}]},
        [(H100, EXCLUSIVE, 8, {}, 8, WHOLE_8)],
    ),
    "a health tool's taint under the same domain does not": (
        {"labels": gfd(), "capacity": {GPU: "8"}, "taints": [{"key": "nvidia.com/gpu-xid-error", **TAINT}]},
        [(H100, EXCLUSIVE, 8, {"tainted": 8}, 0, {GPU: (8, 0)})],
    ),
    "PreferNoSchedule takes nothing": (
        {"labels": gfd(), "capacity": {GPU: "8"}, "taints": [{"key": "x", "effect": "PreferNoSchedule"}]},
        [(H100, EXCLUSIVE, 8, {}, 8, WHOLE_8)],
    ),
    "driver upgrade": (
        {
            "labels": {**gfd(), "nvidia.com/gpu-driver-upgrade-state": "drain-required"},
            "capacity": {GPU: "8"},
            "unschedulable": True,
        },
        [(H100, EXCLUSIVE, 8, {"maintenance": 8}, 0, {GPU: (8, 0)})],
    ),
    "driver upgrade done, or only wanted": (
        {
            "labels": {**gfd(), "nvidia.com/gpu-driver-upgrade-state": "upgrade-required"},
            "capacity": {GPU: "8"},
        },
        [(H100, EXCLUSIVE, 8, {}, 8, WHOLE_8)],
    ),
    "MIG reconfiguration": (
        {"labels": {**gfd(), "nvidia.com/mig.config.state": "rebooting"}, "capacity": {GPU: "8"}},
        [(H100, EXCLUSIVE, 8, {"maintenance": 8}, 0, {GPU: (8, 0)})],
    ),
    "any other state of a driver upgrade is maintenance": (
        {
            "labels": {**gfd(), "nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"},
            "capacity": {GPU: "8"},
        },
        [(H100, EXCLUSIVE, 8, {"maintenance": 8}, 0, {GPU: (8, 0)})],
    ),
    "pressure keeps work away": (
        {
            "labels": gfd(),
            "capacity": {GPU: "8"},
            "taints": [{"key": "node.kubernetes.io/memory-pressure", **TAINT}],
        },
        [(H100, EXCLUSIVE, 8, {"tainted": 8}, 0, {GPU: (8, 0)})],
    ),
    "out of service": (
        {
            "labels": gfd(),
            "capacity": {GPU: "8"},
            "taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}],
        },
        [(H100, EXCLUSIVE, 8, {"being_removed": 8}, 0, {GPU: (8, 0)})],
    ),
    "a candidate for removal may well stay, whatever the effect": (
        {
            "labels": gfd(),
            "capacity": {GPU: "8"},
            "taints": [{"key": "DeletionCandidateOfClusterAutoscaler", **TAINT}],
        },
        [(H100, EXCLUSIVE, 8, {}, 8, WHOLE_8)],
    ),
    "cordoned and tainted: cordoned comes first": (
        {"labels": gfd(), "capacity": {GPU: "8"}, "unschedulable": True, "taints": [{"key": "x", **TAINT}]},
        [(H100, EXCLUSIVE, 8, {"cordoned": 8}, 0, {GPU: (8, 0)})],
    ),
    "tainted and being removed: tainted comes first": (
        {
            "labels": gfd(),
            "capacity": {GPU: "8"},
            "taints": [{"key": "karpenter.sh/disrupted", **TAINT}, {"key": "x", **TAINT}],
        },
        [(H100, EXCLUSIVE, 8, {"tainted": 8}, 0, {GPU: (8, 0)})],
    ),
    "Karpenter waits for what its node needs": (
        {"labels": {**gfd(), "karpenter.sh/nodepool": "gpu"}, "capacity": {GPU: "8"}},
        [(H100, EXCLUSIVE, 8, {"uninitialised": 8}, 0, {GPU: (8, 0)})],
    ),
    "Karpenter has what its node needs": (
        {
            "labels": {**gfd(), "karpenter.sh/nodepool": "gpu", "karpenter.sh/initialized": "true"},
            "capacity": {GPU: "8"},
        },
        [(H100, EXCLUSIVE, 8, {}, 8, WHOLE_8)],
    ),
    "Karpenter takes it away": (
        {"labels": gfd(), "capacity": {GPU: "8"}, "taints": [{"key": "karpenter.sh/disrupted", **TAINT}]},
        [(H100, EXCLUSIVE, 8, {"being_removed": 8}, 0, {GPU: (8, 0)})],
    ),
    "deleted, but still there": (
        {"labels": gfd(), "capacity": {GPU: "8"}, "deleting": True},
        [(H100, EXCLUSIVE, 8, {"being_removed": 8}, 0, {GPU: (8, 0)})],
    ),
    "startup taint": (
        {
            "labels": gfd(),
            "capacity": {GPU: "8"},
            "taints": [{"key": "startup-taint.cluster-autoscaler.kubernetes.io/gpu", **TAINT}],
        },
        [(H100, EXCLUSIVE, 8, {"uninitialised": 8}, 0, {GPU: (8, 0)})],
    ),
    "a node that never said Ready": (
        {"labels": gfd(), "capacity": {GPU: "8"}, "conditions": {}},
        [(H100, EXCLUSIVE, 8, {"uninitialised": 8}, 0, {GPU: (8, 0)})],
    ),
    "EKS: False is bad": (
        {
            "labels": gfd(),
            "capacity": {GPU: "8"},
            "conditions": {**READY, "AcceleratedHardwareReady": {"status": "False"}},
        },
        [(H100, EXCLUSIVE, 8, {"device_unhealthy": 8}, 0, {GPU: (8, 0)})],
    ),
    "a watch that does not say which card is only noted": (
        {
            "labels": gfd(),
            "capacity": {GPU: "8"},
            "conditions": {**READY, "GpuNvlinkWatch": {"status": "True"}},
        },
        [(H100, EXCLUSIVE, 8, {}, 8, WHOLE_8)],
    ),
    "NFD label without any device": (
        {"labels": {"nvidia.com/gpu.present": "true"}, "capacity": {"cpu": "8"}},
        [],
    ),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_trap(trap: str) -> None:
    given, expected = TRAPS[trap]
    assert seen(falls(**given)) == expected


def test_buckets_in_the_order_in_which_they_count() -> None:
    assert [str(bucket) for bucket in Bucket] == [
        "lost", "node_not_ready", "plugin_down", "device_unhealthy", "maintenance", "cordoned", "tainted",
        "being_removed", "uninitialised", "platform_reserve",
    ]  # fmt: skip


@pytest.mark.parametrize("rule", health_table().conditions, ids=lambda rule: rule.type)
def test_only_the_bad_value_of_a_condition_counts(rule: Any) -> None:
    """Polarity: EKS says False when something is wrong, everybody else True."""
    good = "True" if rule.bad == "False" else "False"
    for status, bad in ((rule.bad, True), (good, False), ("Unknown", False)):
        health = NodeHealth({}, (), {**READY, rule.type: {"status": status}})
        assert (node_verdict(health).bucket is not None) == (bad and bool(rule.bucket))
        assert bool(warnings(health)) == (bad and not rule.bucket)


@pytest.mark.parametrize("rule", health_table().taints, ids=lambda rule: rule.key or rule.prefix)
def test_every_taint_of_the_table(rule: Any) -> None:
    assert bool(rule.key) != bool(rule.prefix)
    taint = {"key": rule.key or f"{rule.prefix}x", "effect": "NoExecute"}
    found = node_verdict(NodeHealth({}, (taint,), READY)).bucket
    assert str(found or "") == rule.bucket
    soft = {**taint, "effect": "PreferNoSchedule"}
    assert node_verdict(NodeHealth({}, (soft,), READY)).bucket is None


def test_conditions_that_are_only_noted() -> None:
    health = NodeHealth({}, (), {**READY, "GpuNvlinkWatch": {"status": "True", "reason": "NVLINK_DOWN"}})
    assert warnings(health) == ["GpuNvlinkWatch=True (NVLINK_DOWN)"]


def test_present_without_devices_is_said() -> None:
    _, codes = node_inventory(
        labels={"nvidia.com/gpu.present": "true"}, annotations={}, capacity={}, allocatable={}
    )
    assert codes == ["present_without_devices"]


def test_evidence_names_the_object() -> None:
    (found,) = falls(labels=gfd(), capacity={GPU: "8"}, allocatable={GPU: "7"}, unschedulable=True)
    assert found.evidence == {
        Bucket.DEVICE_UNHEALTHY: "nvidia.com/gpu: 7 of 8",
        Bucket.CORDONED: "spec.unschedulable",
    }


def test_what_is_kept_back_comes_from_usable_cards() -> None:
    (item,) = falls(labels=gfd(), capacity={GPU: "8"}, allocatable={GPU: "5"})
    kept = keep_back(item, 2, "spares")
    assert (kept.buckets, kept.allocatable) == ({Bucket.DEVICE_UNHEALTHY: 3, Bucket.PLATFORM_RESERVE: 2}, 3)
    assert [unit.allocatable for unit in kept.units] == [D(3)]
    assert kept.evidence[Bucket.PLATFORM_RESERVE] == "spares"
    # Never more than there is.
    everything = keep_back(item, 9, "spares")
    assert (everything.buckets[Bucket.PLATFORM_RESERVE], everything.allocatable) == (5, 0)


def test_what_is_kept_back_of_shared_cards_takes_their_slices() -> None:
    (item,) = falls(labels=gfd("NVIDIA-L4", 4, replicas=4, sharing="time-slicing"), capacity={GPU: "16"})
    kept = keep_back(item, 1, "spares")
    assert (kept.allocatable, [unit.allocatable for unit in kept.units]) == (3, [D(12)])


# ------------------------------------------------------------------------------------ held, free and stranded


def taken(
    found: list[Fall], held: dict[str, str], *, stranded: bool = False
) -> list[tuple[int, int, int, int]]:
    rows = shares(found, {name: D(amount) for name, amount in held.items()}, stranded=stranded)
    return [(int(s.held), int(s.free), int(s.stranded), int(s.over)) for row in rows for s in row]


def test_held_and_free_make_up_the_usable_units() -> None:
    found = falls(labels=gfd(), capacity={GPU: "8"}, allocatable={GPU: "7"})
    assert taken(found, {GPU: "4"}) == [(4, 3, 0, 0)]
    assert taken(found, {}) == [(0, 7, 0, 0)]


def test_a_node_without_room_strands_what_is_not_held() -> None:
    assert taken(falls(labels=gfd(), capacity={GPU: "8"}), {GPU: "5"}, stranded=True) == [(5, 0, 3, 0)]


def test_held_beyond_the_usable_units_is_clamped_and_said() -> None:
    """A held card turned unhealthy: 8 held, 7 usable."""
    found = falls(labels=gfd(), capacity={GPU: "8"}, allocatable={GPU: "7"})
    assert taken(found, {GPU: "8"}) == [(7, 0, 0, 1)]
    cordoned = falls(labels=gfd(), capacity={GPU: "8"}, unschedulable=True)
    assert taken(cordoned, {GPU: "3"}) == [(0, 0, 0, 3)]


def test_two_groups_that_offer_one_resource_are_held_one_after_the_other() -> None:
    one, two = (
        falls(labels=gfd(count=4), capacity={GPU: "4"}),
        falls(labels=gfd(count=2), capacity={GPU: "2"}),
    )
    assert taken([*one, *two], {GPU: "5"}) == [(4, 0, 0, 0), (1, 1, 0, 0)]
    assert taken([*one, *two], {GPU: "7"}) == [(4, 0, 0, 1), (2, 0, 0, 0)]
