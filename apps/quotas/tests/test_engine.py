"""What the engine admits, refuses and sends away. Every expectation was worked out by hand before it ran; the agreement
with a real Kueue is in tests/facts/test_agreement.py."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from apps.quotas.engine.model import Flavor, Group, Pending, Queue, Reason, Work
from apps.quotas.engine.settle import settle
from apps.quotas.engine.verdicts import verdict_of

from .engine_worlds import A100, GPU, H100, admitted, cohort, queue, refused, situation, work

D = Decimal


# ---- one queue -------------------------------------------------------------------------------------------------------


def test_the_more_urgent_goes_first_then_the_older() -> None:
    # 8 cards: c (priority 5) 4, then a (at 1) 4; b (at 2) has nothing left
    found = settle(
        situation(
            [queue("q", 8)],
            [work("a", "q", 4, at=1), work("b", "q", 4, at=2), work("c", "q", 4, at=3, priority=5)],
        )
    )
    assert admitted(found) == {"a": "a100", "c": "a100"}
    assert refused(found) == {"b": "WaitingForQuota"}
    assert found.pending["b"].reasons[0].more == 4
    assert found.usage == {"q": {A100: 8}}


def test_best_effort_goes_on_behind_a_head_that_cannot_start() -> None:
    works = [work("big", "q", 6, at=1), work("small", "q", 2, at=2), work("runs", "q", 4, holds="a100")]
    found = settle(situation([queue("q", 8)], works))
    assert admitted(found) == {"small": "a100"}
    assert refused(found) == {"big": "WaitingForQuota"}
    assert found.kept == {"runs"}


def test_strict_waits_behind_the_head() -> None:
    works = [work("big", "q", 6, at=1), work("small", "q", 2, at=2), work("runs", "q", 4, holds="a100")]
    found = settle(situation([queue("q", 8, strategy="StrictFIFO")], works))
    assert admitted(found) == {}
    assert refused(found) == {"big": "WaitingForQuota", "small": "BehindHead"}


def test_what_is_larger_than_the_ceiling_never_fits() -> None:
    found = settle(situation([queue("q", 8)], [work("a", "q", 9)]))
    assert found.pending["a"].refused == "ExceedsMaxQuota"
    assert found.pending["a"].reasons[0].most == 8


def test_a_stopped_queue_admits_nothing_and_a_drained_one_sends_its_work_away() -> None:
    works = [work("waits", "q", 1), work("runs", "q", 2, holds="a100")]
    held = settle(situation([queue("q", 8, inactive="Stopped")], works))
    assert held.kept == {"runs"}
    assert refused(held) == {"waits": "QueueInactive"}
    drained = settle(situation([queue("q", 8, inactive="Stopped", drains=True)], works))
    assert drained.kept == frozenset()
    assert refused(drained) == {"waits": "QueueInactive", "runs": "QueueInactive"}
    assert drained.usage == {"q": {}}


def test_work_that_cannot_be_looked_at_keeps_its_reason() -> None:
    works = [replace(work("a", "q", 1), blocked="NamespaceMismatch"), work("b", "nowhere", 1)]
    assert refused(settle(situation([queue("q", 8)], works))) == {
        "a": "NamespaceMismatch",
        "b": "QueueMissing",
    }


def test_below_a_circle_of_cohorts_nothing_starts() -> None:
    found = settle(situation([queue("q", 8, cohort="x")], [work("a", "q", 1)], [cohort("x", parent="x")]))
    assert refused(found) == {"a": "QueueInactive"}


def test_a_resource_that_the_queue_does_not_list() -> None:
    asks = work("a", "q", 1)
    (pods,) = asks.pod_sets
    found = settle(
        situation([queue("q", 8)], [replace(asks, pod_sets=(replace(pods, requests={"amd.com/gpu": D(1)}),))])
    )
    assert refused(found) == {"a": "ResourceNotCovered"}


# ---- flavors ---------------------------------------------------------------------------------------------------------


def test_the_first_flavor_that_fits_is_taken() -> None:
    # a100 has 4, h100 8: a 4 → a100; b 4 → h100
    works = [work("a", "q", 4, at=1), work("b", "q", 4, at=2)]
    assert admitted(settle(situation([queue("q", {"a100": 4, "h100": 8})], works))) == {
        "a": "a100",
        "b": "h100",
    }


def test_labels_decide_which_flavors_come_into_question() -> None:
    works = [work("a", "q", 1, selector={"gpu": "h100"}), work("b", "q", 1, selector={"gpu": "b200"})]
    found = settle(situation([queue("q", {"a100": 4, "h100": 8})], works))
    assert admitted(found) == {"a": "h100"}
    assert refused(found) == {"b": "NoMatchingFlavor"}


def test_a_label_that_no_flavor_of_the_queue_names_does_not_count() -> None:
    found = settle(situation([queue("q", 4)], [work("a", "q", 1, selector={"zone": "b"})]))
    assert admitted(found) == {"a": "a100"}


def test_a_taint_keeps_away_who_does_not_tolerate_it() -> None:
    here = situation([queue("q", 4)], [work("a", "q", 1)])
    tainted = {"a100": Flavor("a100", {}, (("spot", "true", "NoSchedule"),))}
    assert refused(settle(replace(here, flavors=tainted))) == {"a": "NoMatchingFlavor"}
    soft = {"a100": Flavor("a100", {}, (("spot", "true", "PreferNoSchedule"),))}
    assert admitted(settle(replace(here, flavors=soft))) == {"a": "a100"}
    own = {"a100": replace(tainted["a100"], tolerations=({"key": "spot", "operator": "Exists"},))}
    assert admitted(settle(replace(here, flavors=own))) == {"a": "a100"}


@pytest.mark.parametrize(("borrow", "flavor"), [("MayStopSearch", "a100"), ("TryNextFlavor", "h100")])
def test_borrowing_before_or_after_the_next_flavor(borrow: str, flavor: str) -> None:
    # q has no a100 of its own and 4 h100; its cohort has 8 a100 to lend
    queues = [
        queue("q", {"a100": 0, "h100": 4}, cohort="c", when_can_borrow=borrow),
        queue("lender", {"a100": 8}, cohort="c"),
    ]
    found = settle(situation(queues, [work("a", "q", 4)]))
    assert admitted(found) == {"a": flavor}
    assert found.admitted["a"].borrows is (flavor == "a100")


def test_two_pod_sets_share_a_flavor_as_far_as_it_goes() -> None:
    # driver 2 and workers 4 × 2 = 8 of 10 and 4 h100: driver a100 (2 of 10), workers a100 (10 of 10)
    base = work("a", "q", 2, pods=4)
    (pods,) = base.pod_sets
    both = (replace(pods, name="driver", count=1), pods)
    found = settle(situation([queue("q", {"a100": 10, "h100": 8})], [replace(base, pod_sets=both)]))
    assert found.usage == {"q": {A100: 10}}
    # with 9 a100 the workers go to h100
    found = settle(situation([queue("q", {"a100": 9, "h100": 8})], [replace(base, pod_sets=both)]))
    assert found.usage == {"q": {A100: 2, H100: 8}}


def test_part_of_the_pods_is_better_than_none() -> None:
    # 5 cards; 8 pods of 1, at least 2: 5 pods
    found = settle(situation([queue("q", 5)], [work("a", "q", 1, pods=8, least=2)]))
    assert found.admitted["a"].assigned["main"].count == 5
    assert found.usage == {"q": {A100: 5}}
    # at least 6: none
    found = settle(situation([queue("q", 5)], [work("a", "q", 1, pods=8, least=6)]))
    assert found.admitted == {}


def test_the_verdict_is_that_of_the_best_flavor_of_the_worst_group() -> None:
    """In a100 only the cards are short now; h100 can never give the cards, nor the network: the work waits for quota. A
    second group with nothing to offer outweighs that."""
    waits = Reason("WaitingForQuota", "main", "a100", GPU, more=D(4))
    never = Reason("ExceedsMaxQuota", "main", "h100", GPU, most=D(0))
    network = Reason("ExceedsMaxQuota", "main", "h100", "nic", most=D(0))
    groups = (Group((GPU, "nic"), ("a100", "h100")), Group(("cpu",), ("any",)))
    assert verdict_of([waits, never, network], groups) == "WaitingForQuota"
    cpu = Reason("ExceedsMaxQuota", "main", "any", "cpu", most=D(1))
    assert verdict_of([waits, never, network, cpu], groups) == "ExceedsMaxQuota"
    assert (
        verdict_of([waits, Reason("ResourceNotCovered", "main", "", "tpu")], groups) == "ResourceNotCovered"
    )


# ---- cohorts ---------------------------------------------------------------------------------------------------------


def test_what_others_leave_idle_is_borrowed_up_to_the_limits() -> None:
    # a: 4 own, may borrow 3; b lends 2 of 8: 4 + 2 = 6 for a
    queues = [queue("a", {"a100": (4, 3, None)}, cohort="c"), queue("b", {"a100": (8, None, 2)}, cohort="c")]
    found = settle(situation(queues, [work(f"w{i}", "a", 1, at=i) for i in range(8)]))
    assert sorted(admitted(found)) == ["w0", "w1", "w2", "w3", "w4", "w5"]
    assert found.pending["w6"].refused == "WaitingForQuota"


def test_who_stays_within_the_own_quota_comes_before_who_borrows() -> None:
    # one cycle: a's head would borrow (4 > 2), b's stays within 4; 6 in all, so a's no longer fits beside it
    queues = [queue("a", 2, cohort="c"), queue("b", 4, cohort="c")]
    found = settle(situation(queues, [work("x", "a", 4, at=1, priority=9), work("y", "b", 4, at=2)]))
    assert admitted(found) == {"y": "a100"}
    assert refused(found) == {"x": "WaitingForQuota"}


@pytest.mark.parametrize(("strategy", "taken"), [("StrictFIFO", False), ("BestEffortFIFO", True)])
def test_a_blocked_head_keeps_its_nominal_quota_from_borrowers(strategy: str, *, taken: bool) -> None:
    """b waits for 4 of its 4, of which a has borrowed 2. In the same cycle the 2 that are left do not go to a, too; a
    strict head is there in every cycle, any other is set aside after the first."""
    queues = [queue("a", 4, cohort="c"), queue("b", 4, cohort="c", strategy=strategy)]
    works = [work("runs", "a", 6, holds="a100"), work("wants", "b", 4, at=1), work("more", "a", 2, at=2)]
    found = settle(situation(queues, works))
    assert found.settled
    assert admitted(found) == ({"more": "a100"} if taken else {})
    assert refused(found)["wants"] == "WaitingForQuota"


def test_trees_do_not_touch_each_other() -> None:
    queues = [queue("a", 4, cohort="c"), queue("b", 4, cohort="d")]
    found = settle(situation(queues, [work("x", "a", 6), work("y", "b", 4)]))
    assert (admitted(found), refused(found)) == ({"y": "a100"}, {"x": "ExceedsMaxQuota"})


# ---- preemption ------------------------------------------------------------------------------------------------------


def test_less_urgent_work_of_the_own_queue_goes() -> None:
    works = [
        work("low", "q", 4, holds="a100", reserved_at=1),
        work("lower", "q", 4, holds="a100", priority=-1, reserved_at=2),
        work("high", "q", 4, priority=5),
    ]
    found = settle(situation([queue("q", 8, within_cluster_queue="LowerPriority")], works))
    assert [(p.uid, p.by, p.why) for p in found.preempted] == [("lower", "high", "InClusterQueue")]
    assert admitted(found) == {"high": "a100"}
    assert refused(found) == {"lower": "WaitingForQuota"}
    assert found.kept == {"low"}


def test_nobody_goes_when_it_would_not_help() -> None:
    works = [work("low", "q", 4, holds="a100"), work("high", "q", 9, priority=5)]
    found = settle(situation([queue("q", 8, within_cluster_queue="LowerPriority")], works))
    assert (found.preempted, refused(found)) == ((), {"high": "ExceedsMaxQuota"})


def test_who_need_not_go_is_put_back() -> None:
    # candidates in order: newest first of equal priority: c (2), b (2), a (4). For 6 of 8: c, b and a are taken in turn;
    # then b need not go (c + a = 6)… but c and b were needed only as long as a was not: a alone is 4, so one of the two
    # goes with it: putting back runs from the second last taken, b, and then c stays needed.
    works = [
        work("a", "q", 4, holds="a100", reserved_at=1),
        work("b", "q", 2, holds="a100", reserved_at=2),
        work("c", "q", 2, holds="a100", reserved_at=3),
        work("high", "q", 6, priority=5),
    ]
    found = settle(situation([queue("q", 8, within_cluster_queue="LowerPriority")], works))
    assert {p.uid for p in found.preempted} == {"a", "c"}
    assert found.kept == {"b"}
    assert admitted(found) == {"high": "a100"}


@pytest.mark.parametrize(("policy", "goes"), [("Never", False), ("LowerPriority", False), ("Any", True)])
def test_what_was_lent_is_reclaimed_as_the_policy_says(policy: str, *, goes: bool) -> None:
    # a holds 8 with 4 of its own; b wants its 4 back; both have priority 0
    queues = [queue("a", 4, cohort="c"), queue("b", 4, cohort="c", reclaim_within_cohort=policy)]
    works = [
        work("x", "a", 4, holds="a100", reserved_at=1),
        work("y", "a", 4, holds="a100", reserved_at=2),
        work("z", "b", 4),
    ]
    found = settle(situation(queues, works))
    expected = [("y", "z", "InCohortReclamation")] if goes else []
    assert [(p.uid, p.by, p.why) for p in found.preempted] == expected
    assert ("z" in found.admitted) is goes


def test_only_borrowers_are_reclaimed_from() -> None:
    queues = [
        queue("a", 4, cohort="c"),
        queue("b", 4, cohort="c"),
        queue("z", 4, cohort="c", reclaim_within_cohort="Any"),
    ]
    works = [
        work("own", "a", 4, holds="a100", reserved_at=9),
        work("first", "b", 4, holds="a100", reserved_at=1),
        work("second", "b", 4, holds="a100", reserved_at=2),
        work("wants", "z", 4),
    ]
    found = settle(situation(queues, works))
    assert [p.uid for p in found.preempted] == ["second"]


def test_reclaiming_while_borrowing_takes_only_from_below_the_threshold() -> None:
    # z holds its 4 and wants 2 more, which is borrowing: only from work of at most priority 10
    queues = [
        queue("a", 4, cohort="c"),
        queue(
            "z",
            4,
            cohort="c",
            reclaim_within_cohort="LowerPriority",
            borrow_within_cohort="LowerPriority",
            max_priority_threshold=10,
        ),
    ]
    works = [
        work("x", "a", 4, holds="a100"),
        work("low", "a", 0, holds="a100"),
        work("z1", "z", 4, holds="a100", priority=50),
        work("z2", "z", 2, priority=50),
    ]
    # a is within its nominal quota: nothing to take although the priority would allow it
    assert settle(situation(queues, works)).preempted == ()
    borrowing = [*works[2:], work("x", "a", 2, holds="a100"), work("y", "a", 4, holds="a100", priority=5)]
    queues.append(queue("idle", 2, cohort="c"))
    found = settle(situation(queues, borrowing))
    assert [(p.uid, p.why) for p in found.preempted] == [("x", "InCohortReclaimWhileBorrowing")]


def test_work_that_sends_each_other_away_does_not_settle() -> None:
    """Fair sharing can go round in circles when one piece is too large for both shares; the run ends and says so."""
    queues = [
        queue("a", 0, cohort="c", reclaim_within_cohort="Any"),
        queue("b", 0, cohort="c", reclaim_within_cohort="Any"),
    ]
    found = settle(
        situation(
            queues, [work("x", "a", 4), work("y", "b", 4, at=1)], [cohort("c", {"a100": 4})], fair=True
        ),
        max_cycles=200,
    )
    assert found.cycles <= 200
    assert len(found.admitted) == 1


# ---- fair sharing ----------------------------------------------------------------------------------------------------


def test_the_smaller_share_comes_first() -> None:
    # the cohort has 12; a holds 4 already. Heads want 4 each: a's share would be 8/12, b's 4/12: b first, then a.
    queues = [queue("a", 0, cohort="c"), queue("b", 0, cohort="c")]
    works = [
        work("a0", "a", 4, holds="a100"),
        work("a1", "a", 8, at=1),
        work("b1", "b", 8, at=2),
    ]
    found = settle(situation(queues, works, [cohort("c", {"a100": 12})], fair=True))
    assert admitted(found) == {"b1": "a100"}
    classic = settle(situation(queues, works, [cohort("c", {"a100": 12})]))
    assert admitted(classic) == {"a1": "a100"}


def test_a_larger_weight_counts_as_a_smaller_share() -> None:
    # a 4 of 12 held and 4 more wanted: 8/12/4 = 1/6; b: 4/12/1 = 1/3: a comes first, and 4 are left for b
    queues = [queue("a", 0, cohort="c", weight="4"), queue("b", 0, cohort="c")]
    works = [work("a0", "a", 4, holds="a100"), work("a1", "a", 4, at=1), work("b1", "b", 8, at=0)]
    found = settle(situation(queues, works, [cohort("c", {"a100": 12})], fair=True))
    assert admitted(found) == {"a1": "a100"}


def test_shares_are_brought_closer_by_preemption() -> None:
    # a holds 12 of 12 in three pieces, b wants 4: a would keep 8/12, b have 4/12: the newest piece of a goes.
    queues = [queue("a", 0, cohort="c"), queue("b", 0, cohort="c", reclaim_within_cohort="Any")]
    works = [work(f"a{i}", "a", 4, holds="a100", reserved_at=i) for i in range(3)]
    found = settle(situation(queues, [*works, work("b1", "b", 4)], [cohort("c", {"a100": 12})], fair=True))
    assert [(p.uid, p.by, p.why) for p in found.preempted] == [("a2", "b1", "InCohortFairSharing")]
    assert admitted(found) == {"b1": "a100"}


def test_nobody_is_preempted_to_make_it_less_fair() -> None:
    # a holds 4 of 12, b wants 12 of which only 8 are free: b's share would be 1, a's less: nothing goes
    queues = [queue("a", 0, cohort="c"), queue("b", 0, cohort="c", reclaim_within_cohort="Any")]
    works = [work("a0", "a", 4, holds="a100"), work("b1", "b", 12)]
    found = settle(situation(queues, works, [cohort("c", {"a100": 12})], fair=True))
    assert (found.preempted, refused(found)) == ((), {"b1": "WaitingForQuota"})


# ---- what is not modelled ---------------------------------------------------------------------------------------------


def test_gaps_are_named() -> None:
    here = situation([replace(queue("q", 4), checks=("budget",))], [work("a", "q", 1)])
    assert settle(here).gaps == {"time", "admission_checks"}


def gaps(here: Queue, asks: Work, divided: frozenset[str] = frozenset()) -> set[str]:
    """Beside "time", which always counts."""
    return set(settle(replace(situation([here], [asks]), divided=divided)).gaps) - {"time"}


def with_pod_sets(found: Work, **changes: Any) -> Work:
    return replace(found, pod_sets=tuple(replace(one, **changes) for one in found.pod_sets))


def test_a_plain_situation_has_no_gap_but_time() -> None:
    assert gaps(queue("q", 4), work("a", "q", 1)) == set()


def test_each_gap_is_named_where_it_plays_a_part() -> None:
    plain, one = queue("q", 4), work("a", "q", 1)
    assert gaps(replace(plain, elsewhere=True), one) == {"multikueue"}
    assert gaps(replace(plain, by_past_use=True), one) == {"afs"}
    assert gaps(plain, with_pod_sets(one, elastic=True)) == {"elastic"}
    assert gaps(plain, with_pod_sets(one, topology=True)) == {"topology"}
    asked = next(iter(one.pod_sets[0].requests))
    assert gaps(plain, one, frozenset({asked})) == {"dra_counters"}
    assert gaps(plain, one, frozenset({"other"})) == set()
    assert gaps(plain, with_pod_sets(one, claims=True), frozenset({"other"})) == {"dra_counters"}
    # Claims of whole devices are counted right.
    assert gaps(plain, with_pod_sets(one, claims=True)) == set()


def test_a_run_that_is_cut_says_so() -> None:
    found = settle(situation([queue("q", 8)], [work("a", "q", 1), work("b", "q", 1)]), max_cycles=1)
    assert (found.settled, found.cycles) == (False, 1)
    assert found.pending["b"] == Pending("b", "NotEvaluated", found.pending["b"].reasons)


def test_who_asks_can_end_a_run() -> None:
    asked = iter([False, True])
    found = settle(
        situation([queue("q", 8)], [work("a", "q", 1), work("b", "q", 1)]), enough=lambda: next(asked, True)
    )
    assert (found.settled, list(found.admitted)) == (False, ["a"])
