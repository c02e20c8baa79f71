"""The golden fleet: one node per row of the formula table and one per trap, against numbers worked out by hand.

First by the facts of each node alone, then as a collected cluster through the capacity selectors.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from apps.capacity.health import NodeHealth, node_verdict
from apps.capacity.labels import code_text
from apps.capacity.rows import CapacityReport, NodeRow
from apps.capacity.selectors import capacity_and_nodes
from apps.capacity.waterfall import Fall, fall
from apps.core.gpu import mig_weight, rounded
from apps.fleet.dra import ClaimObject, ClassObject, DeviceKey, DraView, count_slices
from apps.fleet.inventory import Group, node_inventory, shape

from .golden import (
    AT,
    BOTH,
    DRIVERS,
    PLUGINS,
    Wanted,
    claim_objects,
    class_objects,
    collected_fleet,
    fleet,
    memory,
    node_object,
    nodes,
    parsed,
    pools,
    slice_objects,
    wanted,
)

NODES = nodes(PLUGINS)


def given(node: dict[str, Any]) -> dict[str, Any]:
    """What the inventory is asked with."""
    found, seen = node_object(node), node.get("telemetry", {})
    return {
        "labels": found["metadata"]["labels"],
        "annotations": found["metadata"]["annotations"],
        "capacity": found["status"]["capacity"],
        "allocatable": found["status"]["allocatable"],
        "last_known": node.get("before"),
        "seen_cards": seen.get("cards"),
        "seen_models": seen.get("models", ()),
    }


def laid(node: dict[str, Any]) -> tuple[list[Fall], list[str]]:
    groups, codes = node_inventory(**given(node))
    found = node_object(node)
    conditions = {c["type"]: {"status": c["status"]} for c in found["status"]["conditions"]}
    health = NodeHealth(
        found["metadata"]["labels"],
        tuple(found["spec"]["taints"]),
        conditions,
        found["spec"]["unschedulable"],
        "deletionTimestamp" in found["metadata"],
    )
    verdict = node_verdict(health)
    return [fall(group, verdict) for group in groups], codes


def got(item: Fall) -> Wanted:
    group: Group = item.group
    return Wanted(
        group.model,
        str(group.mode),
        item.physical,
        {str(bucket): cards for bucket, cards in item.buckets.items()},
        item.allocatable,
        {
            found.unit.resource: (
                found.physical, found.allocatable, found.unit.equivalents, found.unit.memory_bytes,
            )
            for found in item.units
        },
        group.card_memory_bytes,
        (group.stranded_compute, group.stranded_memory),
        group.estimated,
        frozenset(group.codes),
    )  # fmt: skip


def before_reserve(expected: Wanted) -> Wanted:
    """Reserves are laid over a pool, not over one node's facts."""
    kept = expected.out.get("platform_reserve", 0)
    if not kept:
        return expected
    out = {bucket: cards for bucket, cards in expected.out.items() if bucket != "platform_reserve"}
    units = {name: (unit[0], unit[0], *unit[2:]) for name, unit in expected.units.items()}
    return replace(expected, out=out, usable=expected.usable + kept, units=units)


@pytest.mark.parametrize("name", NODES)
def test_node_by_its_facts(name: str) -> None:
    node = NODES[name]
    found, codes = laid(node)
    assert [got(item) for item in found] == [before_reserve(group) for group in wanted(node)], node["trap"]
    assert codes == node.get("codes", [])


@pytest.mark.parametrize("name", [name for name, node in NODES.items() if "devices" in node])
def test_cards_that_are_known_by_name(name: str) -> None:
    groups, _codes = node_inventory(**given(NODES[name]))
    found = [[card.uuid, card.healthy, card.numa] for group in groups for card in group.devices]
    assert found == NODES[name]["devices"]


def test_nodes_of_one_shape_have_one_inventory() -> None:
    by_shape: dict[Any, Any] = {}
    for node in NODES.values():
        facts = given(node)
        inventory = node_inventory(**facts)
        assert by_shape.setdefault(shape(**facts), inventory) == inventory, node["name"]


def test_weights_by_hand() -> None:
    for product, profile, compute, bytes_, most, name in fleet(PLUGINS)["weights"]:
        weight = mig_weight(product, profile)
        assert (weight.compute, weight.memory) == (Fraction(compute), Fraction(bytes_)), (product, profile)
        assert (weight.per_card, weight.profile, weight.known) == (most, name, True), (product, profile)


def test_pools_and_totals_by_the_facts() -> None:
    cards: dict[str, list[Any]] = {}
    for node in NODES.values():
        for item in laid(node)[0]:
            pool = cards.setdefault(f"{item.group.model}|{item.group.mode}", [0, 0, Fraction(0), Fraction(0)])
            kept = node.get("reserve", 0)
            pool[0] += item.physical
            pool[1] += item.allocatable - kept
            pool[2] += sum(u.unit.equivalents * Fraction(u.physical) for u in item.units)
            pool[3] += sum(u.unit.equivalents * Fraction(u.allocatable) for u in item.units) - kept
    found = {key: (*pool[:2], rounded(pool[2]), rounded(pool[3])) for key, pool in cards.items()}
    assert found == pools(PLUGINS)
    totals = fleet(PLUGINS)["totals"]
    assert sum(pool[0] for pool in cards.values()) == totals["cards"]
    assert sum(pool[1] for pool in cards.values()) == totals["usable"]
    assert rounded(sum((pool[3] for pool in cards.values()), Fraction(0))) == Decimal(totals["equivalents"])


# ------------------------------------------------------------------------------------------ nodes with DRA drivers

DRA = nodes(DRIVERS)


@functools.lru_cache(maxsize=1)
def counted() -> DraView:
    """All slices and claims of the golden fleet, through the parsers."""
    found = DRA.values()
    slices = parsed("ResourceSlice", [item for node in found for item in slice_objects(node)])
    claims = parsed("ResourceClaim", [item for node in found for item in claim_objects(node)])
    classes = parsed("DeviceClass", class_objects())
    return count_slices(
        slices=[row["spec"] for row in slices],
        taint_rules=[],
        classes=[ClassObject(row["name"], row["created_at"], row["spec"]) for row in classes],
        claims=[ClaimObject(row["namespace"], row["name"], row["spec"], row["status"]) for row in claims],
        nodes={name: node_object(node)["metadata"]["labels"] for name, node in DRA.items()},
    )


@pytest.mark.parametrize("name", DRA)
def test_devices_of_drivers_by_hand(name: str) -> None:
    node = DRA[name]
    found = counted().by_node[name]
    ready = NodeHealth({}, (), {"Ready": {"status": "True"}})
    assert [got(fall(group, node_verdict(ready))) for group in found.groups] == wanted(node), node["trap"]
    expected = {name: Decimal(str(amounts[0])) for name, amounts in node.get("held", {}).items()}
    assert found.held == expected


def test_claims_that_hold_in_other_ways() -> None:
    view = counted()
    assert [claim.name for claim in view.admin] == ["dra-whole-watcher"]
    assert [claim.name for claim in view.held_without_pod] == ["dra-whole-left-over"]
    assert view.orphans == []
    assert [key.pool for key in view.incomplete] == ["dra-incomplete"]
    assert [holder.name for holder in view.holders[DeviceKey("gpu.nvidia.com", "dra-whole", "gpu-0")]] == [
        "a",
        "b",
    ]


# ------------------------------------------------------------------------------------------ as a collected cluster


@pytest.fixture
def collected(db: None) -> tuple[CapacityReport, Sequence[NodeRow]]:
    collected_fleet()
    return capacity_and_nodes(now=AT)


ALL = nodes(*BOTH)
Shown = tuple[str, str, int, dict[str, int], int, dict[str, Any], tuple[int, int], bool]


def shown(row: NodeRow) -> Shown:
    units = {
        unit.resource: (unit.physical, unit.allocatable, unit.equivalents, unit.memory_bytes)
        for unit in row.units
    }
    buckets = dict(row.buckets)
    return (
        row.model, row.sharing_mode, row.physical_devices, buckets, row.allocatable_devices, units,
        row.stranded_slices, row.estimated,
    )  # fmt: skip


def expected_row(group: Wanted) -> Shown:
    units = {
        name: (physical, usable, rounded(weight), memory)
        for name, (physical, usable, weight, memory) in group.units.items()
    }
    return (
        group.model, group.mode, group.cards, group.out, group.usable, units, group.stranded, group.estimated,
    )  # fmt: skip


def test_every_node_as_it_is_shown(collected: tuple[CapacityReport, Sequence[NodeRow]]) -> None:
    _report, rows = collected
    by_node: dict[str, list[NodeRow]] = {}
    for row in rows:
        by_node.setdefault(row.node, []).append(row)
    found = {name: [shown(row) for row in by_node.get(name, ())] for name in ALL}
    expected = {name: [expected_row(group) for group in wanted(node)] for name, node in ALL.items()}
    assert {name: rows for name, rows in found.items() if rows != expected[name]} == {}, (
        "differ from the hand"
    )
    assert by_node.keys() == {name for name, node in ALL.items() if node["expect"]}
    for name, node in ALL.items():
        for group, row in zip(wanted(node), by_node.get(name, ()), strict=True):
            assert {code_text(code) for code in group.codes} <= set(row.notes), name


def test_what_pods_hold_by_hand(collected: tuple[CapacityReport, Sequence[NodeRow]]) -> None:
    _report, rows = collected
    for row in rows:
        held = ALL[row.node].get("held", {})
        for unit in row.units:
            expected = held.get(unit.resource, [0, unit.allocatable])
            assert unit.stranded == ALL[row.node].get("stranded_units", 0), row.node
            assert [unit.held_bound, unit.free] == [Decimal(amount) for amount in expected], row.node
        assert row.over_held == ALL[row.node].get("over_held", 0), row.node


def test_nodes_without_cards_are_noted(collected: tuple[CapacityReport, Sequence[NodeRow]]) -> None:
    report, _rows = collected
    noted = {(note.code, name) for note in report.notes for name in note.objects}
    for name, node in ALL.items():
        about = [(code, name) for code in (*node.get("codes", ()), *node.get("node_codes", ()))]
        about += [(code, subject) for code, subject in node.get("notes", ())]
        assert set(about) <= noted, name


def test_every_pool_and_the_totals_by_hand(collected: tuple[CapacityReport, Sequence[NodeRow]]) -> None:
    report, _rows = collected
    found = {
        f"{pool.model}|{pool.sharing_mode}": (
            pool.physical_devices,
            pool.allocatable_devices,
            pool.amounts["equivalents"].physical,
            pool.amounts["equivalents"].allocatable,
        )
        for pool in report.pools
    }
    assert found == pools(*BOTH)
    said: dict[str, Any] = {
        f"{pool.model}|{pool.sharing_mode}": (amounts.physical, amounts.allocatable)
        for pool in report.pools
        if (amounts := pool.amounts["memory"]).physical is not None
    }
    assert said == memory(*BOTH)
    by_hand = [fleet(file)["totals"] for file in BOTH]
    cards, usable = (sum(totals[name] for totals in by_hand) for name in ("cards", "usable"))
    out: Counter[str] = Counter()
    for totals in by_hand:
        out.update(totals["out"])
    assert (report.totals.physical_devices, report.totals.allocatable_devices) == (cards, usable)
    assert dict(report.totals.buckets) == out
    assert report.totals.allocatable == sum(Decimal(totals["equivalents"]) for totals in by_hand)
    assert out.total() + usable == cards
