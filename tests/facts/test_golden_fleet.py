"""The golden fleet: one node per row of the formula table and one per trap, against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from apps.capacity.health import NodeHealth, node_verdict
from apps.capacity.waterfall import Fall, fall
from apps.core.gpu import mig_weight
from apps.fleet.inventory import Group, node_inventory, shape

from .golden import Wanted, fleet, node_object, nodes, wanted

NODES = nodes()


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
    for product, profile, compute, memory, most, name in fleet()["weights"]:
        weight = mig_weight(product, profile)
        assert (weight.compute, weight.memory) == (Fraction(compute), Fraction(memory)), (product, profile)
        assert (weight.per_card, weight.profile, weight.known) == (most, name, True), (product, profile)


def test_pools_and_totals_by_hand() -> None:
    cards: dict[str, list[Any]] = {}
    for node in NODES.values():
        for item in laid(node)[0]:
            pool = cards.setdefault(f"{item.group.model}|{item.group.mode}", [0, 0, Fraction(0), Fraction(0)])
            kept = node.get("reserve", 0)
            pool[0] += item.physical
            pool[1] += item.allocatable - kept
            pool[2] += sum(u.unit.equivalents * Fraction(u.physical) for u in item.units)
            pool[3] += sum(u.unit.equivalents * Fraction(u.allocatable) for u in item.units) - kept
    rounded = {key: [*pool[:2], thousandths(pool[2]), thousandths(pool[3])] for key, pool in cards.items()}
    expected = {
        key: [*pool[:2], Decimal(pool[2]), Decimal(pool[3])] for key, pool in fleet()["pools"].items()
    }
    assert rounded == expected
    totals = fleet()["totals"]
    assert sum(pool[0] for pool in cards.values()) == totals["cards"]
    assert sum(pool[1] for pool in cards.values()) == totals["usable"]
    assert thousandths(sum(pool[3] for pool in cards.values())) == Decimal(totals["equivalents"])


def thousandths(value: Fraction | int) -> Decimal:
    found = Fraction(value)
    return (Decimal(found.numerator) / Decimal(found.denominator)).quantize(Decimal("0.001"))
