"""Domains and jobs that fit, by hand.

The hand-made pool: nodes of 8 cards, free cards in brackets.
  block A: rack 1: a1 (8), a2 (3)   rack 2: a3 (8), a4 (8)
  block B: rack 1: b1 (5), b2 (0)   (a rack 1 as well: another one, since a domain is its full path)
  no labels: x1 (8)
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.capacity.topology import (
    CLIQUE,
    HOSTNAME,
    JOB_SIZES,
    Cards,
    HyperNode,
    Layout,
    blocks,
    domains,
    hypernode_layout,
    jobs,
    jobs_in,
    label_layout,
    selects,
    total,
    unreadable,
)

FREE = {"a1": 8, "a2": 3, "a3": 8, "a4": 8, "b1": 5, "b2": 0, "x1": 8}
WHERE = {"a1": "A/1", "a2": "A/1", "a3": "A/2", "a4": "A/2", "b1": "B/1", "b2": "B/1"}
BLOCK, RACK = "example.com/block", "example.com/rack"
LABELS: dict[str, dict[str, str]] = {
    name: dict(zip((BLOCK, RACK), WHERE[name].split("/"), strict=True)) | {HOSTNAME: name}
    if name in WHERE
    else {}
    for name in FREE
}
CARDS = [Cards(name, 8, 8, 8 - free, free) for name, free in FREE.items()]
LAYOUT = label_layout("kueue", "topo", (BLOCK, RACK, HOSTNAME), LABELS)


def fits(level: int | None, pod: int = 1) -> list[int | None]:
    parts = blocks(CARDS, None if level is None else LAYOUT, level or 0)
    return [jobs(parts, size, pod) for size in JOB_SIZES]


def test_the_levels_above_the_host_are_rack_and_block() -> None:
    assert LAYOUT.scopes() == {"rack": 1, "block": 0}
    deep = Layout("kueue", "deep", ("zone", BLOCK, RACK, HOSTNAME), {})
    assert deep.scopes() == {"rack": 2, "block": 1}
    assert Layout("kueue", "flat", (RACK,), {}).scopes() == {"rack": 0}
    assert Layout("hostname", "", (HOSTNAME,), {}).scopes() == {}
    assert Layout("nvlink", CLIQUE, (CLIQUE,), {}).scopes() == {"nvlink": 0}


def test_jobs_on_one_node() -> None:
    # free 8 3 8 8 5 0 8 = 40: ones 40; twos 4+1+4+4+2+0+4 = 19; fours 2+0+2+2+1+0+2 = 9; eights 4; more: none
    assert fits(None) == [40, 19, 9, 4, 0, 0, 0]


def test_jobs_in_one_rack() -> None:
    # racks A/1 11, A/2 16, B/1 5, x1 alone 8
    # twos 5+8+2+4 = 19; fours 2+4+1+2 = 9; eights 1+2+0+1 = 4; 16: 0+1+0+0 = 1
    assert fits(1) == [40, 19, 9, 4, 1, 0, 0]


def test_jobs_in_one_block() -> None:
    # blocks A 27, B 5, x1 alone 8: twos 13+2+4 = 19; fours 6+1+2 = 9; eights 3+0+1 = 4; 16: 1
    assert fits(0) == [40, 19, 9, 4, 1, 0, 0]
    wide = [Cards(name, 8, 8, 0, 8) for name in ("a1", "a2", "a3", "a4")]
    parts = blocks(wide, LAYOUT, 0)  # one block of 32 free cards
    assert [jobs(parts, size) for size in JOB_SIZES] == [32, 16, 8, 4, 2, 1, 0]


def test_cards_spread_over_two_domains_serve_no_job_of_both() -> None:
    # 6 free in one rack and 2 in another are no place for a job of 8.
    cards = [Cards("a1", 8, 8, 2, 6), Cards("a3", 8, 8, 6, 2)]
    assert jobs(blocks(cards, LAYOUT, 1), 8) == 0
    assert jobs(blocks(cards, LAYOUT, 0), 8) == 1


def test_pods_of_a_whole_node_take_only_whole_nodes() -> None:
    # in pods of 8: whole nodes a1 | a3 a4 | – | x1. 16 cards: rack A/2 1. In the block A three whole nodes: 1.
    assert fits(1, pod=8) == [40, 19, 9, 4, 1, 0, 0]
    assert fits(0, pod=8) == [40, 19, 9, 4, 1, 0, 0]
    # in pods of 4: A/1 2+0 pods, A/2 2+2, B/1 1+0, x1 2: 8 cards are two pods: 1 + 2 + 0 + 1
    assert fits(1, pod=4)[3] == 4
    assert jobs_in([5, 3], 8) == 1
    assert jobs_in([5, 3], 8, pod=4) == 0


def test_a_domain_is_its_full_path_and_nodes_without_labels_are_in_none() -> None:
    found = domains(CARDS, LAYOUT, 1)
    assert {key: (part.nodes, part.free, part.largest_node) for key, part in found.items()} == {
        ("A", "1"): (2, 11, 8),
        ("A", "2"): (2, 16, 8),
        ("B", "1"): (2, 5, 5),
        None: (1, 8, 8),
    }


def test_broken_nodes_hold_the_free_cards_of_nodes_that_are_not_wholly_free() -> None:
    found = total(CARDS)
    assert (found.nodes, found.allocatable, found.held, found.free) == (7, 56, 16, 40)
    assert (found.broken, found.largest_node) == (8, 8)  # a2 and b1: 3 + 5
    sick = total([Cards("a1", 8, 7, 0, 7)])  # one card is out of use: no job of 8 fits
    assert sick.broken == 7


def test_what_pods_hold_is_not_known() -> None:
    cards = [*CARDS, Cards("y1", 8, 8, None, None)]
    found = total(cards)
    assert (found.allocatable, found.held, found.free, found.broken, found.largest_node) == (
        64,
        None,
        None,
        None,
        None,
    )
    assert jobs(blocks(cards, None, 0), 1) is None
    assert total([Cards("y1", 8, 8, None, None), Cards("a1", 8, 8, 0, 8)]).free is None


def test_a_node_needs_every_label_of_a_topology() -> None:
    found = label_layout("kueue", "t", (BLOCK, RACK), {"a": {BLOCK: "A", RACK: "1"}, "b": {BLOCK: "A"}})
    assert found.paths == {"a": ("A", "1")}


def test_nvlink_cliques() -> None:
    found = label_layout(
        "nvlink", CLIQUE, (CLIQUE,), {"g1": {CLIQUE: "u.1"}, "g2": {CLIQUE: "u.1"}, "g3": {}}
    )
    assert found.paths == {"g1": ("u.1",), "g2": ("u.1",)}


# ---- HyperNodes -----------------------------------------------------------------------------------------------


def node_member(**selector: object) -> dict[str, object]:
    return {"kind": "Node", "exact": [], "regex": "", "labels": {}, **selector}


def hyper_member(**selector: object) -> dict[str, object]:
    return {**node_member(**selector), "kind": "HyperNode"}


def hypernode(name: str, tier: int, *members: dict[str, object], **labels: str) -> HyperNode:
    return HyperNode(name, tier, "", members, labels)


NODES: dict[str, dict[str, str]] = {
    "node-0": {"rack": "r1"},
    "node-1": {"rack": "r1"},
    "node-2": {"rack": "r2"},
    "node-3": {"rack": "r2"},
    "other-1": {"rack": "r3"},
}


def test_members_by_exact_name_regex_and_labels() -> None:
    found = hypernode_layout(
        [
            hypernode("s0", 1, node_member(exact=["node-0"]), node_member(exact=["node-1", "gone"])),
            hypernode("s1", 1, node_member(regex="^node-[23]$")),
            hypernode("s2", 1, node_member(labels={"match_labels": {"rack": "r3"}, "match_expressions": []})),
            hypernode("s3", 2, hyper_member(exact=["s0"]), hyper_member(regex="s1")),
            hypernode("s4", 2, hyper_member(labels={"match_labels": {"side": "east"}})),
            hypernode("s9", 3, hyper_member(regex="^s[34]$")),
        ],
        NODES,
    )
    assert found is not None
    assert found.levels == ("tier 3", "tier 2", "tier 1")
    assert found.scopes() == {"rack": 2, "block": 1}
    assert found.paths == {
        "node-0": ("s9", "s3", "s0"),
        "node-1": ("s9", "s3", "s0"),
        "node-2": ("s9", "s3", "s1"),
        "node-3": ("s9", "s3", "s1"),
        "other-1": ("", "", "s2"),  # nobody names s2
    }
    # s2 stands for itself at the wider tiers.
    assert found.block_of("other-1", 1) == found.block_of("other-1", 2)
    assert found.domain("other-1", 1) is None


def test_a_pattern_is_found_anywhere_and_a_broken_one_selects_nothing() -> None:
    found = hypernode_layout(
        [hypernode("s0", 1, node_member(regex="ode-0")), hypernode("s1", 1, node_member(regex="node-("))],
        NODES,
    )
    assert found is not None
    assert found.paths == {"node-0": ("s0",)}


@pytest.mark.parametrize("pattern", ["(a+)+$", "^(a|aa)+$", "(a*)*b", "(.*)*=", "(a?){50}a{50}="])
def test_no_pattern_of_a_cluster_keeps_a_page(pattern: str) -> None:
    nodes: dict[str, Mapping[str, str]] = {"a" * 240 + f"-{number}": {} for number in range(200)}
    begin = time.process_time()
    assert hypernode_layout([hypernode("s0", 1, node_member(regex=pattern))], nodes) is not None
    assert time.process_time() - begin < 5


def test_patterns_that_cannot_be_read_are_named() -> None:
    items = [
        hypernode("fine", 1, node_member(regex="^node-[0-9]+$")),
        hypernode("broken", 1, node_member(regex="node-(")),
        hypernode("python", 2, hyper_member(exact=["fine"]), hyper_member(regex="(?=fine)")),
        hypernode("exact", 2, node_member(exact=["node-0"], regex="node-(")),
    ]
    assert unreadable(items) == {"broken": "node-(", "python": "(?=fine)"}


def test_a_node_named_twice_belongs_to_the_lowest_and_a_circle_ends() -> None:
    found = hypernode_layout(
        [
            hypernode("b", 1, node_member(regex="^node"), hyper_member(exact=["a"])),
            hypernode("a", 1, node_member(exact=["node-0"]), hyper_member(exact=["b"])),
            hypernode("top", 2, node_member(regex="node"), hyper_member(exact=["a"])),
        ],
        NODES,
    )
    assert found is not None
    assert found.paths["node-0"] == ("top", "a")
    assert found.paths["node-1"] == ("", "b")
    assert hypernode_layout([], NODES) is None


def test_a_tier_goes_by_the_name_that_all_its_members_give() -> None:
    found = hypernode_layout(
        [
            HyperNode("s0", 1, "leaf", (node_member(regex="node"),), {}),
            HyperNode("s1", 2, "spine", (hyper_member(exact=["s0"]),), {}),
            HyperNode("s2", 2, "core", (), {}),
        ],
        NODES,
    )
    assert found is not None
    assert found.levels == ("tier 2", "leaf")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"key": "rack", "operator": "In", "values": ["r1", "r2"]}, True),
        ({"key": "rack", "operator": "NotIn", "values": ["r1"]}, False),
        ({"key": "row", "operator": "NotIn", "values": ["r1"]}, True),
        ({"key": "row", "operator": "In", "values": ["r1"]}, False),
        ({"key": "rack", "operator": "Exists", "values": []}, True),
        ({"key": "row", "operator": "Exists"}, False),
        ({"key": "row", "operator": "DoesNotExist"}, True),
        ({"key": "rack", "operator": "DoesNotExist"}, False),
    ],
)
def test_label_expressions(expression: dict[str, object], expected: bool) -> None:
    assert selects({"match_labels": {}, "match_expressions": [expression]}, {"rack": "r1"}) is expected


# ---- for any fleet --------------------------------------------------------------------------------------------


@st.composite
def fleets(draw: st.DrawFn) -> tuple[list[Cards], Layout]:
    count = draw(st.integers(1, 14))
    cards, labels = [], {}
    for index in range(count):
        physical = draw(st.sampled_from((1, 2, 4, 8)))
        allocatable = draw(st.integers(0, physical))
        held = draw(st.integers(0, allocatable))
        stranded = draw(st.sampled_from((0, allocatable - held)))
        name = f"n{index}"
        cards.append(Cards(name, physical, allocatable, held, allocatable - held - stranded, stranded))
        place = {BLOCK: draw(st.sampled_from(("A", "B", ""))), RACK: draw(st.sampled_from(("1", "2", "")))}
        labels[name] = {key: value for key, value in place.items() if value}
    if draw(st.booleans()):
        return cards, label_layout("kueue", "t", (BLOCK, RACK, HOSTNAME), labels)
    hypernodes = [
        hypernode(
            f"leaf{index}", 1, node_member(labels={"match_labels": {RACK: str(index)}}), side=str(index)
        )
        for index in (1, 2)
    ]
    upper = hypernode("top", 2, hyper_member(exact=draw(st.lists(st.sampled_from(("leaf1", "leaf2", "x"))))))
    layout = hypernode_layout([*hypernodes, upper], labels)
    assert layout is not None
    return cards, layout


PODS = st.sampled_from((1, 2, 4, 8))


@given(fleets(), PODS)
def test_domains_of_a_level_add_up_to_the_pool(fleet: tuple[list[Cards], Layout], pod: int) -> None:
    cards, layout = fleet
    whole = total(cards)
    for level in range(len(layout.levels)):
        parts = list(domains(cards, layout, level).values())
        for name in ("nodes", "physical", "allocatable", "held", "free", "stranded", "broken"):
            assert sum(getattr(part, name) for part in parts) == getattr(whole, name), name
        assert (whole.held or 0) + (whole.free or 0) + (whole.stranded or 0) == whole.allocatable
        assert max(part.largest_node or 0 for part in parts) == whole.largest_node
        assert jobs(parts, 1, pod) == whole.free


@given(fleets(), PODS)
def test_fewer_jobs_of_more_cards_and_more_in_a_wider_scope(
    fleet: tuple[list[Cards], Layout], pod: int
) -> None:
    cards, layout = fleet
    scopes = layout.scopes()
    node = [jobs(blocks(cards, None, 0), size, pod) or 0 for size in JOB_SIZES]
    rack = [jobs(blocks(cards, layout, scopes["rack"]), size, pod) or 0 for size in JOB_SIZES]
    block = [jobs(blocks(cards, layout, scopes["block"]), size, pod) or 0 for size in JOB_SIZES]
    for found in (node, rack, block):
        assert found == sorted(found, reverse=True)
    for size, (narrow, middle, wide) in zip(JOB_SIZES, zip(node, rack, block, strict=True), strict=True):
        assert narrow <= middle <= wide
        assert wide * size <= sum(item.free or 0 for item in cards)


@given(fleets(), PODS, st.randoms(use_true_random=False))
def test_the_order_of_nodes_does_not_matter(
    fleet: tuple[list[Cards], Layout], pod: int, chance: random.Random
) -> None:
    cards, layout = fleet
    mixed = list(cards)
    chance.shuffle(mixed)
    for level in range(len(layout.levels)):
        assert {
            key: (part.free, part.held, part.largest_node, part.jobs(4, pod))
            for key, part in domains(cards, layout, level).items()
        } == {
            key: (part.free, part.held, part.largest_node, part.jobs(4, pod))
            for key, part in domains(mixed, layout, level).items()
        }
