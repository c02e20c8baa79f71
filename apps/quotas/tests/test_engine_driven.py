"""What whoever drives a scheduler adds to it: queues are stopped, specs are edited, nodes matter, time runs out. Every
expectation was worked out by hand."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from decimal import Decimal

import pytest

from apps.quotas.engine.budget import STEPS, Budget, OutOfTime
from apps.quotas.engine.model import Admitted, Flavor, Pending, PodSet, Preempted, Reason, Work
from apps.quotas.engine.scheduler import Decision, Scheduler
from apps.quotas.engine.settle import settle

from .engine_worlds import A100, FLAVORS, GPU, queue, situation, work

D = Decimal


def at_rest(scheduler: Scheduler) -> list[Decision]:
    """Cycles until nothing moves."""
    decisions: list[Decision] = []
    for _ in range(100):
        if scheduler.at_rest:
            return decisions
        decisions += scheduler.cycle()
    raise AssertionError("does not come to rest")


def starts(decisions: list[Decision]) -> list[str]:
    return [one.uid for one in decisions if isinstance(one, Admitted)]


# ---- stopped queues ----------------------------------------------------------------------------------------------------


def test_hold_takes_back_what_is_reserved_and_not_admitted_yet() -> None:
    """Kueue takes the reservation of work that waits for its checks; what runs stays. 8 cards: 3 run, 5 are reserved."""
    works = [
        work("runs", "q", 3, holds="a100"),
        replace(work("checked", "q", 5, holds="a100"), admitted=False),
    ]
    held = settle(situation([queue("q", 8, inactive="Stopped")], works))
    assert held.kept == {"runs"}
    assert held.usage == {"q": {A100: D(3)}}
    assert held.pending["checked"].refused == "QueueInactive"
    # a queue that is inactive for another reason takes nothing back
    broken = queue("q", 8, inactive="FlavorNotFound")
    broken = replace(broken, node=replace(broken.node, stopped=False))
    assert settle(situation([broken], works)).kept == {"runs", "checked"}


def test_a_reservation_in_a_stopped_local_queue_is_taken_back_for_others() -> None:
    works = [
        replace(work("checked", "q", 5, holds="a100"), admitted=False, blocked="QueueMissing"),
        work("next", "q", 8),
    ]
    found = settle(situation([queue("q", 8)], works))
    assert list(found.admitted) == ["next"]
    assert found.pending["checked"].refused == "QueueMissing"


# ---- sent away by others, finished, deleted ------------------------------------------------------------------------------


def test_a_victim_that_takes_time_keeps_its_quota_from_those_behind() -> None:
    """`high` (4) sends `low` (4 of 4) away; until it is gone neither `high` nor the smaller `late` starts."""
    scheduler = Scheduler(
        situation(
            [queue("q", 4, within_cluster_queue="LowerPriority")], [work("low", "q", 4, holds="a100", at=1)]
        )
    )
    scheduler.add(work("high", "q", 4, at=2, priority=5))
    first = at_rest(scheduler)
    assert [one for one in first if isinstance(one, Preempted)] == [
        Preempted("low", "high", "InClusterQueue")
    ]
    (said,) = [one for one in first if isinstance(one, Pending)]
    assert (said.refused, said.victims) == ("WaitingForPreemption", 1)
    scheduler.add(work("late", "q", 1, at=3))
    assert starts(at_rest(scheduler)) == []
    assert scheduler.release("low").queued == 1
    assert starts(at_rest(scheduler)) == ["high"]


def test_who_was_told_to_go_by_others_is_not_told_again() -> None:
    works = [work("a", "q", 4, holds="a100", at=1), work("b", "q", 4, holds="a100", at=1)]
    scheduler = Scheduler(situation([queue("q", 8, within_cluster_queue="LowerPriority")], works))
    scheduler.evict("a")
    scheduler.add(work("high", "q", 4, at=2, priority=5))
    decisions = at_rest(scheduler)
    assert not [one for one in decisions if isinstance(one, Preempted)]
    scheduler.remove("a")
    assert starts(at_rest(scheduler)) == ["high"]


# ---- edits ---------------------------------------------------------------------------------------------------------------


def test_an_edit_tries_what_was_set_aside_again_and_keeps_who_is_going() -> None:
    small = situation(
        [queue("q", 4, within_cluster_queue="LowerPriority")], [work("low", "q", 4, holds="a100", at=1)]
    )
    scheduler = Scheduler(small)
    scheduler.add(work("high", "q", 4, at=2, priority=5))
    scheduler.add(work("large", "q", 6, at=3))
    at_rest(scheduler)
    assert scheduler.lines["q"].sticky == "high"
    scheduler.respecify(situation([queue("q", 10, within_cluster_queue="LowerPriority")], []))
    # 10 − 4 (low, still going): high fits at once; then 2 are left for large, 8 when low is gone
    assert starts(at_rest(scheduler)) == ["high"]
    assert scheduler.books.by_uid["low"].evicted
    scheduler.remove("low")
    assert starts(at_rest(scheduler)) == ["large"]


def test_a_queue_that_comes_and_one_that_goes() -> None:
    scheduler = Scheduler(situation([queue("a", 4), queue("b", 4)], [work("runs", "a", 2, holds="a100")]))
    with pytest.raises(ValueError, match="a is gone and has work"):
        scheduler.respecify(situation([queue("b", 4)], []))
    scheduler.respecify(situation([queue("a", 4), queue("c", 1)], []))
    scheduler.add(work("new", "c", 1))
    assert starts(at_rest(scheduler)) == ["new"]
    assert scheduler.books.tree.usage("ClusterQueue", "a", A100) == 2


def test_a_strict_queue_that_is_edited_lets_others_past_its_head() -> None:
    works = [work("big", "q", 6, at=1), work("small", "q", 2, at=2), work("runs", "q", 4, holds="a100")]
    scheduler = Scheduler(situation([queue("q", 8, strategy="StrictFIFO")], works))
    assert starts(at_rest(scheduler)) == []
    scheduler.respecify(situation([queue("q", 8)], []))
    assert starts(at_rest(scheduler)) == ["small"]


# ---- placement -------------------------------------------------------------------------------------------------------------


class Nodes:
    """So many pods find a place in each flavor, whatever they ask for."""

    def __init__(self, **room: int) -> None:
        self.room = room

    def __call__(self, work: Work, pod_set: PodSet, count: int, flavors: Collection[str]) -> Reason | None:
        (flavor,) = flavors
        if count <= self.room[flavor]:
            return None
        return Reason("NoPlacement", pod_set.name, flavor, most=D(self.room[flavor]))


def test_without_a_place_there_is_no_start_until_one_looks_again() -> None:
    nodes = Nodes(a100=2)
    scheduler = Scheduler(situation([queue("q", 8)], [work("a", "q", 1, pods=3)]), placement=nodes)
    (said,) = at_rest(scheduler)
    assert said == Pending("a", "NoPlacement", (Reason("NoPlacement", "main", "a100", most=D(2)),))
    nodes.room["a100"] = 3
    assert at_rest(scheduler) == []
    scheduler.look_again()
    assert starts(at_rest(scheduler)) == ["a"]


def test_the_next_flavor_is_tried_when_the_first_has_no_place() -> None:
    here = situation([queue("q", {"a100": 8, "h100": 8})], [work("a", "q", 1, pods=3)])
    scheduler = Scheduler(here, placement=Nodes(a100=2, h100=3))
    (started,) = [one for one in at_rest(scheduler) if isinstance(one, Admitted)]
    assert started.assigned["main"].flavors == {GPU: "h100"}


def test_a_place_is_only_asked_for_when_the_quota_is_there() -> None:
    def asked(work: Work, pod_set: PodSet, count: int, flavors: Collection[str]) -> Reason | None:
        raise AssertionError("no quota, no question")

    scheduler = Scheduler(situation([queue("q", 8)], [work("a", "q", 9)]), placement=asked)
    (said,) = at_rest(scheduler)
    assert isinstance(said, Pending)
    assert said.refused == "ExceedsMaxQuota"


def test_fewer_pods_may_find_a_place() -> None:
    here = situation([queue("q", 8)], [work("a", "q", 1, pods=6, least=2)])
    scheduler = Scheduler(here, placement=Nodes(a100=4))
    (started,) = at_rest(scheduler)
    assert isinstance(started, Admitted)
    assert started.assigned["main"].count == 4


# ---- what is said ------------------------------------------------------------------------------------------------------------


def test_a_taint_is_told_from_labels() -> None:
    spot = ("spot", "true", "NoSchedule")
    flavors = {"a100": Flavor("a100", {"gpu": "a100"}, (spot,)), "h100": FLAVORS["h100"]}
    here = situation([queue("q", {"a100": 4, "h100": 4})], [work("a", "q", 1, selector={"gpu": "a100"})])
    assert settle(replace(here, flavors=flavors)).pending["a"].reasons == (
        Reason("NoMatchingFlavor", "main", "a100", taint=spot),
        Reason("NoMatchingFlavor", "main", "h100"),
    )


def test_who_loses_the_turn_is_told_why() -> None:
    """Two heads of one cohort want the same 4 cards: the second is told that they are gone."""
    queues = [queue("a", 2, cohort="c"), queue("b", 2, cohort="c")]
    scheduler = Scheduler(situation(queues, [work("x", "a", 4, at=1), work("y", "b", 4, at=2)]))
    first, said = scheduler.cycle()
    assert isinstance(first, Admitted)
    assert first.uid == "x"
    assert said == Pending("y", "WaitingForQuota", (), skipped="no_longer_fits")


# ---- time ----------------------------------------------------------------------------------------------------------------------


def test_a_budget_asks_now_and_then() -> None:
    answers = iter([False, False, True])
    budget = Budget(enough=lambda: next(answers))
    for _ in range(3 * STEPS - 1):
        budget.spend()
    with pytest.raises(OutOfTime):
        budget.spend()


@pytest.mark.parametrize("fair", [False, True])
def test_one_long_cycle_ends_when_time_is_up_and_leaves_the_tree_as_it_was(*, fair: bool) -> None:
    """One head looks for victims among 400: a single cycle of some hundred steps. The clock strikes within it."""
    queues = [queue("q", 400, cohort="c", within_cluster_queue="LowerPriority")]
    works = [work(f"v{n:03}", "q", 1, holds="a100", at=1) for n in range(400)]
    works.append(work("high", "q", 390, at=2, priority=5))
    struck = iter([False, False, False, *[True] * 1000])
    found = settle(situation(queues, works, fair=fair), enough=lambda: next(struck))
    assert (found.settled, found.cycles) == (False, 1)
    assert found.pending["high"].refused == "NotEvaluated"
    assert len(found.kept) == 400
    assert found.usage["q"] == {A100: D(400)}
