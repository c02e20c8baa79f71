"""How many nodes could take one pod, step by step. Input: nodes as read, the pod's requests and placement; output:
`NodeFacts` for the classifier. Pure.

A scheduler names for each node the first test that it fails, in its own order: a cordoned node that also has the wrong
label says "unschedulable" in one and "Insufficient" in the other. Counting the nodes that pass each step tells which of
the reasons is of consequence. Invariants: each number is at most the one before it; taints that the cluster puts on
unhealthy nodes (node.kubernetes.io/…) make a node unusable, not intolerable.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from apps.admissions.classifier import NodeFacts
from apps.core.label_selector import node_expression_holds
from apps.core.quantity import QuantityError, parse_quantity
from apps.core.taints import KEEPS_AWAY, tolerates

_HEALTH = "node.kubernetes.io/"
_NAME = "metadata.name"


@dataclass(frozen=True, slots=True)
class NodeShape:
    """A node as far as a pod without a node cares, or `count` nodes that are alike; amounts in whole units of each
    resource. `kind`: the same for nodes that differ in name and labels alone."""

    name: str
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, Any]]
    is_ready: bool
    is_cordoned: bool
    capacity: Mapping[str, Decimal]
    allocatable: Mapping[str, Decimal]
    kind: Hashable = None
    count: int = 1


def amounts(quantities: Mapping[str, Any]) -> dict[str, Decimal]:
    """{resource: amount}; what cannot be read is left out."""
    found = {}
    for name, text in quantities.items():
        try:
            found[name] = parse_quantity(str(text))
        except QuantityError:
            continue
    return found


def keys_of(placement: Mapping[str, Any]) -> frozenset[str]:
    """The labels, and as _NAME the name, that a placement looks at."""
    terms = placement.get("affinity") or ()
    by_label = {item.get("key", "") for term in terms for item in term.get("matchExpressions") or ()}
    by_name = {_NAME for term in terms if term.get("matchFields")}
    return frozenset({*(placement.get("node_selector") or {}), *by_label, *by_name})


def merged(nodes: Iterable[NodeShape], keys: Collection[str]) -> list[NodeShape]:
    """Nodes that are alike for a placement that looks at these keys, as one with their count."""
    order = sorted(set(keys) - {_NAME})
    counts: dict[Hashable, int] = {}
    first: dict[Hashable, NodeShape] = {}
    for node in nodes:
        name = node.name if _NAME in keys else ""
        alike = (node.kind, name, tuple(node.labels.get(key) for key in order))
        counts[alike] = counts.get(alike, 0) + node.count
        first.setdefault(alike, node)
    return [replace(node, count=counts[alike]) for alike, node in first.items()]


def _matches(node: NodeShape, placement: Mapping[str, Any]) -> bool:
    """The selector, and one of the required terms (a term without expressions matches nothing)."""
    wanted = placement.get("node_selector") or {}
    if any(node.labels.get(name) != value for name, value in wanted.items()):
        return False
    terms = placement.get("affinity") or ()
    return not terms or any(_term_holds(term, node) for term in terms)


def _term_holds(term: Mapping[str, Any], node: NodeShape) -> bool:
    by_label, by_field = term.get("matchExpressions") or (), term.get("matchFields") or ()
    fields = {_NAME: node.name}
    return bool(by_label or by_field) and (
        all(node_expression_holds(item, node.labels) for item in by_label)
        and all(node_expression_holds(item, fields) for item in by_field)
    )


def _refusing(node: NodeShape, placement: Mapping[str, Any]) -> list[str]:
    """Keys of the taints that keep the pod away."""
    tolerations = placement.get("tolerations") or ()
    return [
        str(taint.get("key") or "")
        for taint in node.taints
        if taint.get("effect") in KEEPS_AWAY and not tolerates(tolerations, taint)
    ]


def facts_for(
    nodes: Iterable[NodeShape],
    *,
    devices: Mapping[str, Decimal],
    requests: Mapping[str, Decimal],
    placement: Mapping[str, Any],
) -> NodeFacts:
    """`devices`: the accelerator resources among `requests`; a pod that asks for none is carried by every node."""
    carrying = matching = tolerated = usable = large = 0
    for node in nodes:
        if not all(node.capacity.get(name, 0) > 0 for name in devices):
            continue
        carrying += node.count
        if not _matches(node, placement):
            continue
        matching += node.count
        refusing = _refusing(node, placement)
        if not all(key.startswith(_HEALTH) for key in refusing):
            continue
        tolerated += node.count
        if refusing or node.is_cordoned or not node.is_ready:
            continue
        usable += node.count
        large += node.count * all(
            node.allocatable.get(name, 0) >= amount for name, amount in requests.items()
        )
    return NodeFacts(carrying, matching, tolerated, usable, large)


def steps_of(facts: NodeFacts) -> int:
    """How many steps some node passes: each number is part of the one before."""
    return sum(
        count > 0 for count in (facts.carrying, facts.matching, facts.tolerated, facts.usable, facts.large)
    )


def facts_of_steps(steps: int) -> NodeFacts:
    """Facts that decide as those that this was made from: how many nodes pass a step decides nothing."""
    return NodeFacts(*(int(step < steps) for step in range(5)))
