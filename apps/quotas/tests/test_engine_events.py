"""The scheduler between cycles: what happens to it (work arrives, goes, changes, is sent away and is gone) and what the
next cycles decide because of it. Expectations by hand from how Kueue queues work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from apps.quotas.engine.model import Admitted, Pending, Preempted, Queue, Work
from apps.quotas.engine.scheduler import Decision, Scheduler

from .engine_worlds import A100, cohort, queue, situation, work

OWN = "InClusterQueue"


def scheduler(*works: Work, queues: Sequence[Queue] | None = None, fair: bool = False) -> Scheduler:
    return Scheduler(situation(queues or [queue("q", 8)], works, fair=fair))


def said(decisions: Sequence[Decision]) -> list[str]:
    """ "+uid" admitted, "-uid by" sent away, "uid why" waits."""
    found = []
    for decision in decisions:
        match decision:
            case Admitted():
                found.append(f"+{decision.uid}")
            case Preempted():
                found.append(f"-{decision.uid} {decision.by}")
            case Pending():
                found.append(f"{decision.uid} {decision.refused}")
    return found


def until_rest(subject: Scheduler) -> list[str]:
    """All decisions until no tree has anything new."""
    found: list[str] = []
    for _ in range(50):
        decisions = subject.cycle()
        found += said(decisions)
        if not any(subject.is_restless(key) for key in subject.books.tree.roots):
            return found
    raise AssertionError(f"no rest: {found}")


# ---- arriving ----------------------------------------------------------------------------------------------------------


def test_one_head_of_a_queue_per_cycle() -> None:
    subject = scheduler(work("a", "q", 4, at=1), work("b", "q", 4, at=2), work("c", "q", 4, at=3))
    assert said(subject.cycle()) == ["+a"]
    assert said(subject.cycle()) == ["+b"]
    assert said(subject.cycle()) == ["c WaitingForQuota"]
    assert said(subject.cycle()) == []


def test_a_verdict_is_said_once() -> None:
    subject = scheduler(work("runs", "q", 6, holds="a100"), work("waits", "q", 4))
    assert until_rest(subject) == ["waits WaitingForQuota"]
    subject.remove("nobody")
    assert said(subject.cycle()) == []


def test_who_arrives_is_looked_at() -> None:
    subject = scheduler(work("runs", "q", 6, holds="a100"), work("waits", "q", 4, at=1))
    until_rest(subject)
    subject.add(work("small", "q", 2, at=2))
    assert until_rest(subject) == ["+small"]
    assert subject.books.tree.usage("ClusterQueue", "q", A100) == 8


def test_who_may_not_be_looked_at_waits_for_nothing() -> None:
    subject = scheduler()
    subject.add(replace(work("a", "q", 1), blocked="Deactivated"))
    subject.add(work("b", "nowhere", 1))
    assert {uid: found.refused for uid, found in subject.blocked.items()} == {
        "a": "Deactivated",
        "b": "QueueMissing",
    }
    assert until_rest(subject) == []
    subject.remove("a")
    assert list(subject.blocked) == ["b"]


def test_work_that_holds_quota_in_a_queue_that_is_gone_waits_outside() -> None:
    subject = scheduler(work("a", "gone", 4, holds="a100"))
    assert subject.blocked["a"].refused == "QueueMissing"


def test_a_change_in_one_tree_does_not_wake_another() -> None:
    queues = [queue("q", 8, cohort="one"), queue("r", 8, cohort="two")]
    subject = scheduler(work("a", "q", 9), work("b", "r", 9), queues=queues)
    until_rest(subject)
    subject.add(work("c", "r", 1))
    assert [subject.is_restless(("Cohort", name)) for name in ("one", "two")] == [False, True]


# ---- going -------------------------------------------------------------------------------------------------------------


def test_freed_quota_goes_to_who_was_set_aside() -> None:
    subject = scheduler(
        work("runs", "q", 6, holds="a100"), work("big", "q", 4, at=1), work("bigger", "q", 8, at=2)
    )
    assert until_rest(subject) == ["big WaitingForQuota", "bigger WaitingForQuota"]
    subject.remove("runs")
    assert until_rest(subject) == ["+big", "bigger WaitingForQuota"]  # by 4 instead of 6: said again
    subject.remove("big")
    assert until_rest(subject) == ["+bigger"]


def test_freed_quota_of_the_cohort_wakes_its_other_queues() -> None:
    queues = [queue("q", 4, cohort="c"), queue("r", 0, cohort="c")]
    subject = scheduler(work("runs", "q", 4, holds="a100"), work("waits", "r", 4), queues=queues)
    assert until_rest(subject) == ["waits WaitingForQuota"]
    subject.remove("runs")
    assert until_rest(subject) == ["+waits"]


def test_behind_a_strict_head_that_goes_the_next_has_its_turn() -> None:
    queues = [queue("q", 8, strategy="StrictFIFO")]
    subject = scheduler(
        work("runs", "q", 6, holds="a100"),
        work("big", "q", 4, at=1),
        work("small", "q", 2, at=2),
        queues=queues,
    )
    assert until_rest(subject) == ["big WaitingForQuota"]
    subject.remove("big")
    assert until_rest(subject) == ["+small"]


def test_who_waits_and_goes_is_forgotten() -> None:
    subject = scheduler(work("runs", "q", 8, holds="a100"), work("a", "q", 4, at=1), work("b", "q", 4, at=2))
    until_rest(subject)
    subject.remove("a")
    subject.remove("runs")
    assert until_rest(subject) == ["+b"]
    assert len(subject.lines["q"]) == 0


# ---- changing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_a_new_priority_is_a_new_place_in_line(strategy: str) -> None:
    """A change of priority is work that goes and comes again, with the time it was queued at."""
    subject = scheduler(
        work("runs", "q", 8, holds="a100"),
        work("a", "q", 8, at=1),
        work("b", "q", 8, at=2),
        queues=[queue("q", 8, strategy=strategy)],
    )
    until_rest(subject)
    subject.remove("b")
    subject.add(work("b", "q", 8, at=2, priority=5))
    subject.remove("runs")
    assert until_rest(subject)[0] == "+b"


def test_a_new_priority_may_send_others_away() -> None:
    subject = scheduler(
        work("runs", "q", 8, holds="a100", priority=1),
        work("a", "q", 8),
        queues=[queue("q", 8, within_cluster_queue="LowerPriority")],
    )
    assert until_rest(subject) == ["a WaitingForQuota"]
    subject.remove("a")
    subject.add(work("a", "q", 8, priority=2))
    assert said(subject.cycle()) == ["-runs a", "a WaitingForPreemption"]


# ---- sent away ---------------------------------------------------------------------------------------------------------


def _preempting(strategy: str = "BestEffortFIFO") -> Scheduler:
    return scheduler(
        work("low", "q", 8, at=0, holds="a100"),
        work("high", "q", 8, at=1, priority=5),
        queues=[queue("q", 8, strategy=strategy, within_cluster_queue="LowerPriority")],
    )


def test_a_victim_holds_its_quota_until_it_is_gone() -> None:
    subject = _preempting()
    assert said(subject.cycle()) == ["-low high", "high WaitingForPreemption"]
    assert subject.books.tree.usage("ClusterQueue", "q", A100) == 8
    subject.add(work("tiny", "q", 1, at=2))
    assert said(subject.cycle()) == []  # told to go once, and what it will free is high's
    subject.release("low")
    assert until_rest(subject) == ["+high", "low WaitingForQuota", "tiny WaitingForQuota"]


@pytest.mark.parametrize(
    ("strategy", "after"),
    [
        # who waits for its victims stays at the head
        ("BestEffortFIFO", ["+high", "-high top", "top WaitingForPreemption"]),
        # in a strict queue the more urgent passes it, and finds room
        ("StrictFIFO", ["+top", "high WaitingForQuota"]),
    ],
)
def test_who_arrives_while_victims_go(strategy: str, after: list[str]) -> None:
    subject = _preempting(strategy)
    subject.cycle()
    subject.add(work("top", "q", 8, at=2, priority=9))
    subject.release("low")
    assert until_rest(subject)[: len(after)] == after


def test_whose_victims_go_and_who_goes_itself_leaves_the_head() -> None:
    subject = _preempting()
    subject.cycle()
    subject.add(work("next", "q", 8, at=2, priority=4))
    subject.remove("high")
    subject.release("low")
    assert until_rest(subject) == ["+next", "low WaitingForQuota"]


def test_who_is_released_stands_where_it_was_created() -> None:
    """Kueue orders by creation unless checks or missing pods sent the work back. low was created at 0, other at 5."""
    subject = _preempting()
    subject.add(work("other", "q", 8, at=5))
    subject.cycle()
    subject.release("low")
    subject.remove("high")
    assert until_rest(subject)[0] == "+low"


def test_a_victim_of_two_is_told_once() -> None:
    """low holds c's 8; a and b each want 4 of their own back. b comes second: its victim is taken already, it waits."""
    queues = [
        queue("x", 0, cohort="c"),
        queue("a", 4, cohort="c", reclaim_within_cohort="Any"),
        queue("b", 4, cohort="c", reclaim_within_cohort="Any"),
    ]
    subject = scheduler(
        work("low", "x", 8, holds="a100"), work("a1", "a", 4, at=1), work("b1", "b", 4, at=2), queues=queues
    )
    assert said(subject.cycle()) == ["-low a1", "a1 WaitingForPreemption", "b1 WaitingForQuota"]
    subject.release("low")
    # low's flavor fits when the cycle begins, and no longer beside the two; then it is told how much it lacks
    assert until_rest(subject) == ["+a1", "+b1", "low WaitingForQuota", "low WaitingForQuota"]


# ---- inactive queues, and what was set aside -------------------------------------------------------------------------------


def test_who_arrives_in_a_stopped_queue_is_told_and_set_aside() -> None:
    subject = scheduler(queues=[queue("q", 8, inactive="Stopped")])
    subject.add(work("a", "q", 1))
    assert until_rest(subject) == []
    (waiter,) = subject.lines["q"]
    assert waiter.verdict is not None
    assert waiter.verdict.refused == "QueueInactive"


def test_what_was_set_aside_comes_after_who_stands_in_line() -> None:
    """Both fit alone. "old" was looked at in vain, "new" stands in line and is tried first; without that the older is."""
    works = [work("old", "q", 8, at=1), work("new", "q", 8, at=2)]
    assert said(scheduler(*works).cycle()) == ["+old"]
    subject = scheduler(*works)
    subject.set_aside({"old"})
    assert until_rest(subject)[0] == "+new"


def test_a_strict_queue_sets_nothing_aside() -> None:
    works = [work("old", "q", 8, at=1), work("new", "q", 8, at=2)]
    subject = scheduler(*works, queues=[queue("q", 8, strategy="StrictFIFO")])
    subject.set_aside()
    assert said(subject.cycle()) == ["+old"]


def test_the_clock_orders_victims() -> None:
    """What was reserved later goes first."""
    subject = scheduler(
        work("a", "q", 4, at=1),
        work("b", "q", 4, at=2),
        queues=[queue("q", 8, within_cluster_queue="LowerPriority")],
    )
    subject.now = 20
    assert said(subject.cycle()) == ["+a"]
    subject.now = 10
    assert said(subject.cycle()) == ["+b"]
    subject.add(work("high", "q", 4, at=3, priority=5))
    assert said(subject.cycle())[0] == "-a high"
    assert subject.now == 10


def test_a_situation_may_name_cohorts_without_queues() -> None:
    subject = Scheduler(situation([queue("q", 8)], [work("a", "q", 8)], [cohort("idle", {"a100": 4})]))
    assert until_rest(subject) == ["+a"]


def test_who_lost_its_quota_to_a_borrower_stands_where_it_was_created_too() -> None:
    """Kueue would put it behind the preemptor only with its gate PrioritySortingWithinCohort off, which is on by
    default: y, created at 3, is tried again at 3."""
    queues = [
        queue("a", 4, cohort="c"),
        queue("idle", 2, cohort="c"),
        queue(
            "z", 4, cohort="c", reclaim_within_cohort="LowerPriority", borrow_within_cohort="LowerPriority"
        ),
    ]
    subject = scheduler(
        work("keep", "a", 4, holds="a100", priority=99),
        work("y", "a", 2, at=3, holds="a100"),
        work("own", "z", 4, holds="a100", priority=99),
        work("wants", "z", 2, at=4, priority=50),
        queues=queues,
    )
    subject.now = 100
    assert said(subject.cycle()) == ["-y wants", "wants WaitingForPreemption"]
    subject.release("y")
    (waiter,) = subject.lines["a"]
    assert (waiter.work.uid, waiter.work.queued) == ("y", 3)
