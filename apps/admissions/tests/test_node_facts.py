"""What the nodes add to a scheduler's text: counted by hand on a few nodes, and what the classifier makes of it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.admissions.classifier import NodeFacts, classify
from apps.admissions.labels import verdict_sentence
from apps.admissions.node_facts import NodeShape, amounts, facts_for, keys_of, merged

GPU = "nvidia.com/gpu"
EIGHT = {GPU: Decimal(8), "cpu": Decimal(96)}


def node(
    name: str, *taints: str, model: str = "H100", gpus: int = 8, ready: bool = True, cordoned: bool = False
) -> NodeShape:
    return NodeShape(
        name=name,
        labels={"product": model, "kubernetes.io/hostname": name},
        taints=[{"key": key, "effect": "NoSchedule"} for key in taints],
        is_ready=ready,
        is_cordoned=cordoned,
        capacity={GPU: Decimal(gpus), "cpu": Decimal(96)},
        allocatable={GPU: Decimal(gpus), "cpu": Decimal(90)},
    )


PLACEMENTS: list[dict[str, Any]] = [
    {},
    {"node_selector": {"product": "H100"}},
    {"node_selector": {"kubernetes.io/hostname": "n-1"}},
    {"affinity": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n-1", "n-2"]}]}]},
    {"affinity": [{"matchExpressions": [{"key": "product", "operator": "NotIn", "values": ["H100"]}]}]},
    {"tolerations": [{"key": "x", "operator": "Exists"}]},
]
NODES = [
    node("h-1"),
    node("h-2", cordoned=True),
    node("h-3", "node.kubernetes.io/not-ready", ready=False),
    node("h-4", "team-a"),
    node("a-1", model="A100"),
    node("cpu-1", gpus=0),
]


@pytest.mark.parametrize(
    ("requests", "placement", "expected"),
    [
        ({GPU: 8}, {}, (5, 5, 4, 2, 2)),
        ({GPU: 8}, {"node_selector": {"product": "H100"}}, (5, 4, 3, 1, 1)),
        ({GPU: 16}, {"node_selector": {"product": "H100"}}, (5, 4, 3, 1, 0)),
        ({GPU: 8, "cpu": 95}, {}, (5, 5, 4, 2, 0)),
        ({GPU: 1}, {"node_selector": {"product": "B200"}}, (5, 0, 0, 0, 0)),
        ({GPU: 1}, {"node_selector": {"kubernetes.io/hostname": "h-2"}}, (5, 1, 1, 0, 0)),
        ({GPU: 1}, {"node_selector": {"kubernetes.io/hostname": "h-4"}}, (5, 1, 0, 0, 0)),
        ({GPU: 1}, {"node_selector": {"kubernetes.io/hostname": "h-4"}, "tolerations": [{"operator": "Exists"}]}, (5, 1, 1, 1, 1)),
        ({GPU: 1}, {"affinity": [{"matchExpressions": [{"key": "product", "operator": "In", "values": ["A100"]}]}]}, (5, 1, 1, 1, 1)),
        ({GPU: 1}, {"affinity": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["h-1"]}]}]}, (5, 1, 1, 1, 1)),
        ({GPU: 1}, {"affinity": [{}]}, (5, 0, 0, 0, 0)),
        ({"amd.com/gpu": 1}, {}, (0, 0, 0, 0, 0)),
    ],
)  # fmt: skip
def test_nodes_are_counted_step_by_step(
    requests: dict[str, int], placement: dict[str, Any], expected: tuple[int, ...]
) -> None:
    wanted = amounts(requests)
    devices = {name: amount for name, amount in wanted.items() if "gpu" in name}
    assert facts_for(NODES, devices=devices, requests=wanted, placement=placement) == NodeFacts(*expected)


@given(
    st.lists(st.builds(node, st.sampled_from(["a", "b"]), st.sampled_from(["x", "node.kubernetes.io/y"]), gpus=st.integers(0, 8), ready=st.booleans(), cordoned=st.booleans())),
    st.integers(1, 9),
    st.sampled_from([{}, {"node_selector": {"product": "H100"}}, {"tolerations": [{"key": "x", "operator": "Exists"}]}]),
)  # fmt: skip
def test_each_step_is_a_part_of_the_one_before(
    nodes: list[NodeShape], gpus: int, placement: dict[str, Any]
) -> None:
    asked = {GPU: Decimal(gpus)}
    found = facts_for(nodes, devices=asked, requests=asked, placement=placement)
    assert (
        len(nodes) >= found.carrying >= found.matching >= found.tolerated >= found.usable >= found.large >= 0
    )


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["H100", "A100"]), st.booleans(), st.integers(0, 8), st.sampled_from(["x", "y"])
        ),
        max_size=20,
    ),
    st.sampled_from(PLACEMENTS),
)
def test_nodes_that_are_alike_count_as_many(
    made: list[tuple[str, bool, int, str]], placement: dict[str, Any]
) -> None:
    nodes = [
        replace(
            node(f"n-{i}", taint, model=model, gpus=gpus, cordoned=cordoned), kind=(taint, gpus, cordoned)
        )
        for i, (model, cordoned, gpus, taint) in enumerate(made)
    ]
    asked = {GPU: Decimal(4)}
    alike = merged(nodes, keys_of(placement))
    assert sum(each.count for each in alike) == len(nodes)
    assert facts_for(alike, devices=asked, requests=asked, placement=placement) == facts_for(
        nodes, devices=asked, requests=asked, placement=placement
    )


TEXT = (
    "0/24 nodes are available: 1 node(s) were unschedulable, 2 node(s) had untolerated taint(s), 11 node(s) didn't"
    " match Pod's node affinity/selector, 10 Insufficient nvidia.com/gpu."
)
NO_DEVICE = "0/24 nodes are available: 4 node(s) had untolerated taint(s), 20 node(s) didn't match Pod's node affinity/selector."


@pytest.mark.parametrize(
    ("text", "facts", "cause", "rule", "sentence"),
    [
        # Nothing is known: the text alone.
        (TEXT, None, "capacity", "insufficient-device", "10 nodes have too few free nvidia.com/gpu"),
        (TEXT, NodeFacts(0, 0, 0, 0, 0), "capacity", "insufficient-device", "10 nodes have too few free nvidia.com/gpu"),
        # Full nodes hide that none has the label, or that its taint is not tolerated.
        (TEXT, NodeFacts(21, 0, 0, 0, 0), "model", "node-affinity", "21 nodes do not match the selector"),
        (TEXT, NodeFacts(21, 2, 0, 0, 0), "model", "node-taint", "2 nodes have a taint that is not tolerated"),
        # The nodes that fit are out of use, or too small.
        (TEXT, NodeFacts(21, 1, 1, 0, 0), "capacity", "node-out-of-use", "the nodes that would fit are out of use: 1"),
        (TEXT, NodeFacts(21, 9, 8, 7, 0), "capacity", "node-too-small", "too large for each of the 7 nodes that would fit, even when empty"),
        # Taints and labels of nodes that could not serve the request anyway are noise.
        (TEXT, NodeFacts(21, 10, 10, 10, 10), "capacity", "insufficient-device", "10 nodes have too few free nvidia.com/gpu"),
        # The text is older than the nodes: it keeps the word.
        (NO_DEVICE, NodeFacts(21, 10, 10, 10, 10), "model", "node-affinity", "20 nodes do not match the selector"),
    ],
)  # fmt: skip
def test_the_nodes_decide_which_item_counts(
    text: str, facts: NodeFacts | None, cause: str, rule: str, sentence: str
) -> None:
    verdict = classify(reason="Unschedulable", message=text, nodes=facts)
    assert (verdict.cause, verdict.rule) == (cause, rule)
    assert verdict_sentence(verdict) == sentence
    assert len(verdict.parts) == len(classify(reason="Unschedulable", message=text).parts)


def test_one_flavor_of_work_is_not_touched_by_nodes() -> None:
    text = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, 4 more needed"
    assert classify(message=text, nodes=NodeFacts(3, 0, 0, 0, 0)).rule == "quota-unused"
