"""DRA's objects and the GPU operator's: expected values read by hand from recordings and from the API's types."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from worker.parsers.base import ParseError
from worker.parsers.kinds import KINDS, kinds_of

from .recorded import as_dict, rows

META = {"name": "x", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
MI = 1024**2


def read(kind: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    raw = {"metadata": {**META, **more.pop("metadata", {})}, "spec": spec, **more}
    found = KINDS[kind]
    struct = msgspec.json.decode(msgspec.json.encode(raw), type=found.struct)
    return as_dict(kind, found.row(struct))


# ------------------------------------------------------------------ recorded
def test_the_recorded_slice() -> None:
    row = rows("kueue/resourceslices.json", "ResourceSlice")["dra-01-gpu.nvidia.com-x7k2p"]
    spec = row["spec"]
    assert {name: spec[name] for name in ("driver", "pool", "generation", "slices", "node")} == {
        "driver": "gpu.nvidia.com",
        "pool": "dra-01",
        "generation": 1,
        "slices": 1,
        "node": "dra-01",
    }
    assert (spec["all_nodes"], spec["node_selector"], spec["per_device_nodes"]) == (False, None, False)
    assert (spec["counters"], row["status"]) == ({}, {})
    assert [device["name"] for device in spec["devices"]] == [
        *(f"gpu-{n}" for n in range(6)),
        "gpu-6-mig-3g40gb-0-4",
        "gpu-6-mig-3g40gb-4-4",
    ]
    whole, part = spec["devices"][0], spec["devices"][6]
    assert whole["attributes"]["uuid"] == "GPU-ec71d869-58b6-593e-9089-7750a52d1319"
    assert whole["attributes"]["cudaComputeCapability"] == "9.0.0"
    assert whole["attributes"]["resource.kubernetes.io/pcieRoot"] == "pci0000:00"
    assert whole["capacity"] == {"memory": str(81559 * MI)}
    assert part["attributes"]["parentUUID"] == "GPU-8ac0d6a2-0135-529b-8dd9-1eba6496804e"
    assert part["capacity"] == {"memory": str(40320 * MI), "multiprocessors": "60"}
    assert (part["consumes"], part["taints"], part["multiple"]) == ([], [], False)


def test_the_recorded_classes() -> None:
    classes = rows("kueue/deviceclasses.json", "DeviceClass")
    assert classes["mig.nvidia.com"]["spec"] == {
        "extended_resource": "",
        "drivers": ["gpu.nvidia.com"],
        "types": ["mig"],
        "selectors": [
            "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"
        ],
    }
    assert classes["gpu.nvidia.com"]["spec"]["types"] == ["gpu"]


def test_the_recorded_claims() -> None:
    claims = rows("kueue/resourceclaims.json", "ResourceClaim")
    two = claims["lab/two-gpus"]
    assert two["spec"] == {
        "requests": [
            {
                "name": "gpu",
                "device_class": "gpu.nvidia.com",
                "count": 2,
                "mode": "ExactCount",
                "admin": False,
            }
        ],
        "extended": False,
        "pod_claim_name": "",
    }
    assert (two["status"]["allocated"], two["status"]["node"]) == (True, "dra-01")
    assert [result["device"] for result in two["status"]["results"]] == ["gpu-0", "gpu-1"]
    assert two["status"]["reserved_for"] == [
        {"kind": "Pod", "name": "dra-two", "uid": "a470a4dd-5a44-45d4-a735-201fe2d7849a"}
    ]
    assert two["status"]["allocated_at"].startswith("2026-12-02T03:00:22")
    waiting = claims["lab/nine-gpus"]["status"]
    assert (waiting["allocated"], waiting["results"], waiting["allocated_at"]) == (False, [], None)
    assert claims["lab/dra-mig-1-g-m9zdj"]["spec"]["pod_claim_name"] == "g"


# ------------------------------------------------------------------ versions
PART = {
    "attributes": {
        "type": {"string": "mig"},
        "gpu.nvidia.com/profile": {"string": "1g.10gb"},
        "resource.kubernetes.io/numaNode": {"int": 1},
        "healthy": {"bool": False},
        "driverVersion": {"version": "595.91.7"},
        "rings": {"ints": [0, 2]},
    },
    "consumesCounters": [
        {
            "counterSet": "gpu-0-counter-set",
            "counters": {"memory": {"value": "9728Mi"}, "slice0": {"value": "1"}},
        }
    ],
    "taints": [
        {
            "key": "gpu.nvidia.com/xid",
            "value": "79",
            "effect": "NoSchedule",
            "timeAdded": "2026-01-01T00:00:00Z",
        }
    ],
    "allowMultipleAllocations": True,
    "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]},
}
READ = {
    "name": "p0",
    "node": "",
    "all_nodes": False,
    "node_selector": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}],
    "attributes": {
        "type": "mig",
        "profile": "1g.10gb",
        "resource.kubernetes.io/numaNode": 1,
        "healthy": False,
        "driverVersion": "595.91.7",
        "rings": [0, 2],
    },
    "capacity": {"memory": str(9728 * MI)},
    "consumes": [{"set": "gpu-0-counter-set", "counters": {"memory": str(9728 * MI), "slice0": "1"}}],
    "taints": [{"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}],
    "multiple": True,
}


@pytest.mark.parametrize(
    "device",
    [
        {"name": "p0", **PART, "capacity": {"memory": {"value": "9728Mi"}}},
        {"name": "p0", "basic": {**PART, "capacity": {"memory": {"value": "9728Mi"}}}},
        {"name": "p0", "basic": {**PART, "capacity": {"gpu.nvidia.com/memory": "9728Mi"}}},
    ],
    ids=["v1", "v1beta1", "plain quantities"],
)
def test_a_device_is_the_same_in_every_version(device: dict[str, Any]) -> None:
    spec = {
        "driver": "gpu.nvidia.com",
        "pool": {"name": "rack", "generation": 3, "resourceSliceCount": 2},
        "perDeviceNodeSelection": True,
        "sharedCounters": [{"name": "gpu-0-counter-set", "counters": {"memory": {"value": "80Gi"}}}],
        "devices": [device],
    }
    read_spec = read("ResourceSlice", spec)["spec"]
    assert read_spec["devices"] == [READ]
    assert read_spec["per_device_nodes"] is True
    assert read_spec["counters"] == {"gpu-0-counter-set": {"memory": str(80 * 1024**3)}}


def test_a_slice_for_nodes_by_label_or_for_all() -> None:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    terms = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}]
    chosen = read(
        "ResourceSlice", {"driver": "d", "pool": pool, "nodeSelector": {"nodeSelectorTerms": terms}}
    )
    assert (chosen["spec"]["node_selector"], chosen["spec"]["devices"]) == (terms, [])
    assert read("ResourceSlice", {"driver": "d", "pool": pool, "allNodes": True})["spec"]["all_nodes"] is True


def test_a_bad_capacity_names_its_device() -> None:
    device = {"name": "gpu-0", "capacity": {"memory": {"value": "much"}}}
    with pytest.raises(ParseError, match=r"devices\[gpu-0\].capacity\[memory\]: 'much'"):
        read("ResourceSlice", {"driver": "d", "pool": {"name": "p"}, "devices": [device]})


@pytest.mark.parametrize(
    "request_",
    [
        {"name": "g", "exactly": {"deviceClassName": "c", "count": 3, "adminAccess": True}},
        {
            "name": "g",
            "deviceClassName": "c",
            "allocationMode": "ExactCount",
            "count": 3,
            "adminAccess": True,
        },
    ],
    ids=["v1", "v1beta1"],
)
def test_a_request_is_the_same_in_every_version(request_: dict[str, Any]) -> None:
    row = read("ResourceClaim", {"devices": {"requests": [request_]}})
    assert row["spec"]["requests"] == [
        {"name": "g", "device_class": "c", "count": 3, "mode": "ExactCount", "admin": True}
    ]


def test_requests_for_all_and_for_the_first_available() -> None:
    choices = [
        {"name": "big", "deviceClassName": "c", "count": 1},
        {"name": "small", "deviceClassName": "d", "count": 2},
    ]
    asked = [
        {"name": "a", "exactly": {"deviceClassName": "c", "allocationMode": "All"}},
        {"name": "b", "firstAvailable": choices},
    ]
    found = read("ResourceClaim", {"devices": {"requests": asked}})["spec"]["requests"]
    assert [(r["name"], r["device_class"], r["count"], r["mode"]) for r in found] == [
        ("a", "c", None, "All"),
        ("b/big", "c", 1, "ExactCount"),
        ("b/small", "d", 2, "ExactCount"),
    ]


def test_shares_consumed_capacity_and_what_reserves() -> None:
    result = {
        "request": "g",
        "driver": "gpu.nvidia.com",
        "pool": "n",
        "device": "gpu-0",
        "shareID": "4f0e",
        "adminAccess": True,
        "consumedCapacity": {"gpu.nvidia.com/memory": "8Gi"},
    }
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [
            {"resource": "pods", "name": "p", "uid": "1"},
            {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "2"},
        ],
    }
    notes = {"annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}}
    row = read("ResourceClaim", {}, status=status, metadata=notes)
    assert row["spec"]["extended"] is True
    assert row["status"]["results"] == [
        {
            "request": "g",
            "driver": "gpu.nvidia.com",
            "pool": "n",
            "device": "gpu-0",
            "admin": True,
            "share_id": "4f0e",
            "consumed": {"memory": str(8 * 1024**3)},
        }
    ]
    assert [c["kind"] for c in row["status"]["reserved_for"]] == ["Pod", "podgroups"]
    assert row["status"]["node"] == ""


# ------------------------------------------------------------------ taint rules
TAINT = {"key": "maintenance", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("selector", "selects", "named"),
    [
        (None, False, ("", "", "")),
        ({}, True, ("", "", "")),
        (
            {"driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-3"},
            True,
            ("gpu.nvidia.com", "n1", "gpu-3"),
        ),
    ],
    ids=["none", "everything", "one device"],
)
def test_a_taint_rule(selector: dict[str, str] | None, selects: bool, named: tuple[str, str, str]) -> None:
    spec = read("DeviceTaintRule", {"deviceSelector": selector, "taint": TAINT})["spec"]
    assert spec["selects"] is selects
    assert (spec["driver"], spec["pool"], spec["device"]) == named
    assert spec["taint"] == {"key": "maintenance", "value": "", "effect": "NoExecute"}


def test_an_early_taint_rule_selects_by_class_and_expression() -> None:
    selector = {"deviceClassName": "c", "selectors": [{"cel": {"expression": "device.driver == 'd'"}}]}
    spec = read("DeviceTaintRule", {"deviceSelector": selector, "taint": TAINT})["spec"]
    assert (spec["device_class"], spec["selectors"]) == ("c", ["device.driver == 'd'"])


# ------------------------------------------------------------------ GPU operator
def test_the_operators_components() -> None:
    policy = {
        "operator": {"defaultRuntime": "containerd"},
        "driver": {
            "enabled": True,
            "repository": "nvcr.io/nvidia",
            "image": "driver",
            "version": "595.91.07",
        },
        "toolkit": {"enabled": True, "version": "v1.20.0"},
        "devicePlugin": {"image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"},
        "dcgmExporter": {"version": "4.6.0-4.8.3"},
        "migManager": {"version": "v0.15.0"},
        "dcgm": {"enabled": False, "version": "4.6.0"},
        "gfd": {"image": "registry:5000/gfd"},
    }
    status = {
        "state": "notReady",
        "conditions": [{"type": "Ready", "status": "False", "reason": "OperandNotReady"}],
    }
    row = read("ClusterPolicy", policy, status=status)
    assert row["spec"]["components"] == {
        "driver": "595.91.07",
        "toolkit": "v1.20.0",
        "device-plugin": "v0.20.0",
        "dcgm-exporter": "4.6.0-4.8.3",
        "mig-manager": "v0.15.0",
    }
    assert row["status"]["state"] == "notReady"
    assert row["status"]["conditions"]["Ready"]["reason"] == "OperandNotReady"


def test_device_kinds_are_of_one_source() -> None:
    assert {kind.name for kind in kinds_of("devices")} == {
        "DeviceClass",
        "ResourceSlice",
        "ResourceClaim",
        "DeviceTaintRule",
        "ClusterPolicy",
    }
    assert KINDS["DeviceTaintRule"].path("v1beta2") == "/apis/resource.k8s.io/v1beta2/devicetaintrules"
