"""Devices of DRA: the cases of tests/data/dra, through the parsers, against what was counted by hand."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from apps.fleet.dra import ClaimObject, ClassObject, DraView, NodeDevices, count_slices
from apps.fleet.inventory import Group
from worker.parsers.kinds import KINDS
from worker.parsers.tests.recorded import as_dict, rows

DATA = Path(__file__).resolve().parents[1] / "data" / "dra"
Case = dict[str, Any]


def cases() -> list[Any]:
    found = [case for path in sorted(DATA.glob("*.yaml")) for case in yaml.safe_load(path.read_text())]
    return [pytest.param(case, id=case["name"]) for case in found]


# ------------------------------------------------------------------ the cases' short form → the API's → stored
def parsed(kind: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    meta = {"name": "x", "uid": "u", **more.pop("metadata", {})}
    found = KINDS[kind]
    raw = msgspec.json.encode({"metadata": meta, "spec": spec, **more})
    return as_dict(kind, found.row(msgspec.json.decode(raw, type=found.struct)))


def _attribute(value: Any) -> dict[str, Any]:
    return {{bool: "bool", int: "int"}.get(type(value), "string"): value}


def _counters(sets: dict[str, dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, {c: {"value": str(v)} for c, v in counters.items()}) for name, counters in sets.items()]


def slice_spec(spec: dict[str, Any]) -> dict[str, Any]:
    devices = [
        {
            **device,
            "attributes": {name: _attribute(value) for name, value in device.get("attributes", {}).items()},
            "capacity": {name: {"value": value} for name, value in device.get("capacity", {}).items()},
            "consumesCounters": [
                {"counterSet": name, "counters": c}
                for name, c in _counters(device.get("consumesCounters", {}))
            ],
        }
        for device in spec["devices"]
    ]
    shared = [{"name": name, "counters": c} for name, c in _counters(spec.get("sharedCounters", {}))]
    stored: dict[str, Any] = parsed("ResourceSlice", {**spec, "devices": devices, "sharedCounters": shared})[
        "spec"
    ]
    return stored


def claim(said: dict[str, Any]) -> ClaimObject:
    results = [{"request": "g", "driver": "gpu.nvidia.com", **result} for result in said.get("results", ())]
    pods = [{"resource": "pods", "name": name, "uid": f"uid-{name}"} for name in said.get("pods", ())]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": pods} if results else {}
    row = parsed("ResourceClaim", {}, status=status)
    return ClaimObject("lab", said["name"], row["spec"], row["status"])


def device_class(said: dict[str, Any]) -> ClassObject:
    spec = {
        "extendedResourceName": said.get("extendedResourceName"),
        "selectors": [{"cel": {"expression": text}} for text in said.get("selectors", ())],
    }
    created = said.get("created", date(2026, 1, 1))
    at = datetime(created.year, created.month, created.day, tzinfo=UTC)
    return ClassObject(said["name"], at, parsed("DeviceClass", spec)["spec"])


def counted(case: Case) -> DraView:
    return count_slices(
        slices=[slice_spec(spec) for spec in case["slices"]],
        taint_rules=[parsed("DeviceTaintRule", rule)["spec"] for rule in case.get("rules", ())],
        classes=[device_class(said) for said in case.get("classes", ())],
        claims=[claim(said) for said in case.get("claims", ())],
        nodes=case["nodes"],
        last_good=[slice_spec(spec) for spec in case.get("former", ())],
    )


# ------------------------------------------------------------------ what came out, in the cases' form
def group_shape(group: Group, wanted: dict[str, Any]) -> dict[str, Any]:
    assert group.origin == "dra"
    found: dict[str, Any] = {
        "vendor": group.vendor,
        "model": group.model,
        "mode": str(group.mode),
        "cards": group.cards,
        "unhealthy": group.unhealthy_cards,
        "stranded": [group.stranded_compute, group.stranded_memory],
        "down": group.plugin_down,
        "units": {unit.resource: [int(unit.capacity), int(unit.allocatable)] for unit in group.units},
        "out": {device.uuid: device.why for device in group.devices if not device.healthy},
    }
    assert len(group.units) == len(found["units"]), "units of one group share a name"
    assert len(group.devices) == group.cards
    if "equivalents" in wanted:
        found["equivalents"] = str(group.units[0].equivalents)
    return found


GROUP_DEFAULTS = {"vendor": "nvidia", "unhealthy": 0, "stranded": [0, 0], "down": False, "out": {}}


def check_node(found: NodeDevices, wanted: dict[str, Any]) -> None:
    assert len(found.cards) == wanted["cards"] == sum(group.cards for group in found.groups)
    groups = [{**GROUP_DEFAULTS, **group} for group in wanted["groups"]]
    assert [group_shape(g, w) for g, w in zip(found.groups, groups, strict=True)] == groups
    held = {name: Decimal(str(amount)) for name, amount in wanted.get("held", {}).items()}
    assert found.held == held
    blocked = {name: Decimal(str(amount)) for name, amount in wanted.get("held_blocked", {}).items()}
    assert found.held_blocked == blocked
    usable = sum((sum(part.values(), Decimal(0)) for part in found.held_in), Decimal(0))
    assert usable == sum(held.values()) - sum(blocked.values())
    assert found.codes == wanted.get("codes", [])


@pytest.mark.parametrize("case", cases())
def test_counted_as_by_hand(case: Case) -> None:
    view, wanted = counted(case), case["expect"]
    assert view.by_node.keys() == wanted["nodes"].keys()
    for node, expected in wanted["nodes"].items():
        check_node(view.by_node[node], expected)
    assert [f"{driver}/{pool}" for driver, pool in view.incomplete] == wanted.get("incomplete", [])
    for name in ("held_without_pod", "orphans", "admin"):
        assert [f"{c.namespace}/{c.name}" for c in getattr(view, name)] == wanted.get(name, [])
    assert view.unregistered == wanted.get("unregistered", {})
    assert len(view.shared.cards) == wanted.get("shared", 0)
    if "holders" in wanted:
        assert {key.device: [pod.name for pod in pods] for key, pods in view.holders.items()} == wanted[
            "holders"
        ]


def test_the_recorded_node() -> None:
    """dra-01: six whole H100 and one card with two 3g.40gb; a claim holds two, two claims hold one instance each."""
    view = recorded_view()
    node = view.by_node["dra-01"]
    assert len(node.cards) == 7
    whole, parts = node.groups
    assert (whole.model, whole.cards, parts.cards) == ("NVIDIA-H100-80GB-HBM3", 6, 1)
    assert whole.card_memory_bytes == 81559 * 1024**2
    assert parts.units[0].equivalents == Fraction(3, 7)
    assert (parts.stranded_compute, parts.stranded_memory) == (1, 0)
    assert node.held == {"gpu.nvidia.com/gpu": Decimal(2), "gpu.nvidia.com/mig-3g.40gb": Decimal(2)}
    assert [device.pcie for device in whole.devices] == [f"pci0000:0{n}" for n in range(6)]
    assert view.held_by_claim["lab", "two-gpus"] == {("dra-01", "gpu.nvidia.com/gpu"): Decimal(2)}
    assert not view.orphans
    assert not view.held_without_pod


def recorded_view() -> DraView:
    classes = rows("kueue/deviceclasses.json", "DeviceClass").values()
    claims = rows("kueue/resourceclaims.json", "ResourceClaim").values()
    nodes = rows("kueue/nodes.json", "Node")
    return count_slices(
        slices=[row["spec"] for row in rows("kueue/resourceslices.json", "ResourceSlice").values()],
        taint_rules=(),
        classes=[ClassObject(row["name"], row["created_at"], row["spec"]) for row in classes],
        claims=[ClaimObject(row["namespace"], row["name"], row["spec"], row["status"]) for row in claims],
        nodes={name: row["labels"] for name, row in nodes.items()},
    )
