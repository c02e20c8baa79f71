"""What holds for every situation of the admission engine, whatever its numbers."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.quotas.engine.model import Flavor, Group, PodSet, Policy, Queue, Situation, Work
from apps.quotas.engine.settle import settle
from apps.quotas.tree import Cell, QuotaNode, QuotaTree

GPU = "nvidia.com/gpu"
CELL = ("h100", GPU)
limits = st.none() | st.integers(0, 6).map(Decimal)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """Up to five queues in two trees, without preemption, and up to twelve workloads that wait."""
    queues = []
    for number in range(draw(st.integers(1, 5))):
        nominal = Decimal(draw(st.integers(0, 8)))
        cell = Cell(nominal, draw(limits), draw(limits))
        node = QuotaNode(f"q{number}", "ClusterQueue", draw(st.sampled_from(["a", "b"])), {CELL: cell})
        strategy: Literal["BestEffortFIFO", "StrictFIFO"] = draw(
            st.sampled_from(["BestEffortFIFO", "StrictFIFO"])
        )
        queues.append(Queue(node, (Group((GPU,), ("h100",)),), Policy(strategy=strategy)))
    work = tuple(
        Work(
            uid=f"u{number:02}",
            name=f"w{number}",
            namespace="ns",
            queue=draw(st.sampled_from(queues)).name,
            priority=draw(st.integers(0, 2)),
            created=0.0,
            queued=float(draw(st.integers(0, 3))),
            pod_sets=(PodSet("main", 1, {GPU: Decimal(draw(st.integers(1, 6)))}),),
        )
        for number in range(draw(st.integers(0, 12)))
    )
    return Situation(tuple(queues), (), {"h100": Flavor("h100")}, work)


@settings(max_examples=60, deadline=None)
@given(situations())
def test_the_order_of_the_input_does_not_matter(given_one: Situation) -> None:
    turned = replace(given_one, queues=given_one.queues[::-1], work=given_one.work[::-1])
    first, second = settle(given_one), settle(turned)
    assert (first.admitted, first.pending, first.usage) == (second.admitted, second.pending, second.usage)


@settings(max_examples=60, deadline=None)
@given(situations())
def test_nobody_holds_more_than_the_ceiling_and_all_work_is_accounted_for(given_one: Situation) -> None:
    outcome = settle(given_one)
    tree = QuotaTree(queue.node for queue in given_one.queues)
    for name, held in outcome.usage.items():
        for fr, amount in held.items():
            assert amount <= tree.potential_available("ClusterQueue", name, fr)
    assert outcome.settled
    assert {*outcome.admitted, *outcome.pending} == {work.uid for work in given_one.work}
    assert not set(outcome.admitted) & set(outcome.pending)


@settings(max_examples=60, deadline=None)
@given(situations())
def test_a_tree_settles_the_same_without_the_others(given_one: Situation) -> None:
    mine = tuple(queue for queue in given_one.queues if queue.node.parent == "a")
    names = {queue.name for queue in mine}
    alone = settle(replace(given_one, queues=mine, work=tuple(w for w in given_one.work if w.queue in names)))
    together = settle(given_one)
    assert alone.admitted == {
        uid: found
        for uid, found in together.admitted.items()
        if next(w for w in given_one.work if w.uid == uid).queue in names
    }
