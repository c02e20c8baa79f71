"""The golden fleet card by card: as many rows in each bucket as the hand-computed numbers, and the traps of telemetry.

The expected numbers are those of tests/data/golden, which know nothing of cards."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from apps.capacity.cards import CardRow, card_rows
from apps.capacity.selectors import node_rows

from .golden import AT, BOTH, collected_fleet, nodes

pytestmark = pytest.mark.django_db
FLEET = nodes(*BOTH)


def by_node() -> dict[str, list[CardRow]]:
    cluster = collected_fleet()
    found: dict[str, list[CardRow]] = defaultdict(list)
    for row in card_rows(now=AT, clusters=[cluster]):
        found[row.node].append(row)
    return found


def test_cards_are_the_numbers_that_were_worked_out_by_hand() -> None:
    rows = by_node()
    for name, node in FLEET.items():
        expected: Counter[tuple[str, str, str]] = Counter()
        cards = 0
        for group in node["expect"]:
            cards += group["cards"]
            for bucket, count in (group.get("out") or {}).items():
                expected[group["model"], group["mode"], bucket] += count
        found = Counter((row.model, row.sharing_mode, row.bucket) for row in rows[name] if row.bucket)
        assert len(rows[name]) == cards, name
        assert found == expected, name


def test_cards_are_the_rows_of_the_capacity_page() -> None:
    cluster = collected_fleet()
    cards = card_rows(now=AT, clusters=[cluster])
    counted = Counter((row.node, row.model, row.sharing_mode, row.bucket) for row in cards)
    for row in node_rows(now=AT, clusters=[cluster]):
        for bucket, count in row.buckets.items():
            counted[row.node, row.model, row.sharing_mode, bucket] -= count
        counted[row.node, row.model, row.sharing_mode, ""] -= row.allocatable_devices
    assert not +counted
    assert not -counted


def test_no_card_is_there_twice() -> None:
    names = [(row.node, row.device) for rows in by_node().values() for row in rows if row.device]
    assert [name for name, times in Counter(names).items() if times > 1] == []


def test_what_telemetry_sees_has_its_name() -> None:
    """A node never shows more names than cards, and all of telemetry's as far as they fit."""
    for name, rows in by_node().items():
        seen = (FLEET[name].get("telemetry") or {}).get("cards", 0)
        named = sum(row.origin == "telemetry" or row.sampled_at is not None for row in rows)
        assert named <= len(rows)
        assert named == min(seen, len(rows)), name


def test_whole_cards_are_held_and_free_as_worked_out_by_hand() -> None:
    """held: {resource: [held, free]}; what is neither cannot be taken."""
    rows, checked = by_node(), 0
    for name, node in FLEET.items():
        if "held" not in node or any(group["mode"] != "exclusive" for group in node["expect"]):
            continue
        held, free = (sum(int(amounts[n]) for amounts in node["held"].values()) for n in (0, 1))
        states = Counter(row.state for row in rows[name])
        usable = sum(group["usable"] for group in node["expect"])
        assert (states["held"], states["free"]) == (held, free), name
        assert states["stranded"] == usable - held - free, name
        checked += 1
    assert checked >= 4
