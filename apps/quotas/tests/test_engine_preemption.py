"""Who is sent away under each preemption policy of a ClusterQueue, and how little of a piece of work is taken instead;
worked out by hand from Kueue's rules.

"keep" is more urgent than anybody who waits and does not go, except under reclaimWithinCohort Any.
"""

from __future__ import annotations

from typing import Any

import pytest

from apps.quotas.engine.model import PodSet, Queue, Work
from apps.quotas.engine.settle import settle

from .engine_worlds import A100, GPU, D, admitted, cohort, queue, refused, sent_away, situation, work

OWN, RECLAIM, BORROW = "InClusterQueue", "InCohortReclamation", "InCohortReclaimWhileBorrowing"
LOWER, NEWER = "LowerPriority", "LowerOrNewerEqualPriority"


# ---- withinClusterQueue ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "priority", "at", "goes"),
    [
        # what runs has priority 0 and was queued at 5
        ("Never", 9, 1, False),
        (LOWER, 1, 9, True),
        (LOWER, 0, 3, False),
        (NEWER, 1, 9, True),
        (NEWER, 0, 3, True),  # equal, and what runs is newer
        (NEWER, 0, 5, False),  # of the same moment is not newer
        (NEWER, 0, 7, False),  # what runs is older
        (NEWER, -1, 3, False),  # less urgent, however old
    ],
)
def test_within_the_queue(policy: str, priority: int, at: float, *, goes: bool) -> None:
    works = [work("runs", "q", 4, at=5, holds="a100"), work("wants", "q", 4, at=at, priority=priority)]
    found = settle(situation([queue("q", 4, within_cluster_queue=policy)], works))
    assert found.settled
    assert sent_away(found) == ([("runs", OWN)] if goes else [])
    assert refused(found) == {("runs" if goes else "wants"): "WaitingForQuota"}


def test_of_equals_the_one_reserved_last_goes() -> None:
    works = [
        work("first", "q", 2, holds="a100", reserved_at=1),
        work("last", "q", 2, holds="a100", reserved_at=2),
        work("wants", "q", 2, priority=1, at=9),
    ]
    found = settle(situation([queue("q", 4, within_cluster_queue=LOWER)], works))
    assert sent_away(found) == [("last", OWN)]


# ---- reclaimWithinCohort -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "priority", "goes"),
    [
        ("Never", 0, False),
        (LOWER, 0, True),
        (LOWER, 5, False),  # as urgent as who wants its quota back
        (LOWER, 9, False),
        ("Any", 0, True),
        ("Any", 5, True),
        ("Any", 9, True),
    ],
)
def test_own_quota_is_taken_back(policy: str, priority: int, *, goes: bool) -> None:
    """b lends its 4 to a's guest; a has none. The threshold of borrowing is of no account to who stays within its own."""
    borrowing: dict[str, Any] = {"borrow_within_cohort": LOWER, "max_priority_threshold": -9}
    owner = queue(
        "b", 4, cohort="c", reclaim_within_cohort=policy, **(borrowing if policy != "Never" else {})
    )
    works = [work("guest", "a", 4, holds="a100", priority=priority), work("wants", "b", 4, priority=5)]
    found = settle(situation([queue("a", 0, cohort="c"), owner], works))
    assert sent_away(found) == ([("guest", RECLAIM)] if goes else [])
    assert ("wants" in found.admitted) is goes


@pytest.mark.parametrize(("policy", "others"), [(LOWER, {}), ("Any", {"more": "a100"})])
def test_who_can_always_take_it_back_lends_meanwhile(policy: str, others: dict[str, str]) -> None:
    """b has 4, runs 2 that nobody may send away, and waits for 4. The other 2 are wanted by a, which has none. b keeps them
    in every cycle (its head is strict), unless it could take them back from anybody at any time."""
    owner = queue("b", 4, cohort="c", reclaim_within_cohort=policy, strategy="StrictFIFO")
    works = [
        work("keep", "b", 2, holds="a100", priority=99),
        work("wants", "b", 4, at=1, priority=5),
        work("more", "a", 2, at=2),
    ]
    found = settle(situation([queue("a", 0, cohort="c"), owner], works))
    assert (admitted(found), sent_away(found)) == (others, [])
    assert refused(found)["wants"] == "WaitingForQuota"


# ---- borrowWithinCohort ------------------------------------------------------------------------------------------------


def _lent(priority: int) -> list[Work]:
    """a runs 6 with 4 of its own, z has its 4: the 2 of "idle" are lent to y, which stands for 2."""
    return [
        work("keep", "a", 4, holds="a100", priority=99, reserved_at=1),
        work("y", "a", 2, holds="a100", priority=priority, reserved_at=2),
    ]


def _cohort(**policy: Any) -> list[Queue]:
    return [queue("a", 4, cohort="c"), queue("idle", 2, cohort="c"), queue("z", 4, cohort="c", **policy)]


@pytest.mark.parametrize(
    ("policy", "priority", "goes"),
    [
        ({"reclaim": LOWER, "borrow": LOWER, "threshold": 10}, 9, True),
        ({"reclaim": LOWER, "borrow": LOWER, "threshold": 10}, 10, True),  # at the threshold
        ({"reclaim": LOWER, "borrow": LOWER, "threshold": 10}, 11, False),  # above
        ({"reclaim": LOWER, "borrow": LOWER}, 11, True),  # no threshold
        ({"reclaim": LOWER, "borrow": LOWER}, 50, False),  # as urgent
        ({"reclaim": "Any", "borrow": LOWER}, 49, True),
        ({"reclaim": "Any", "borrow": LOWER}, 50, False),  # Any is for the own quota, not for borrowing
        ({"reclaim": "Any", "borrow": LOWER, "threshold": 60}, 50, False),
        ({"reclaim": "Any", "borrow": "Never"}, 0, False),
        ({"reclaim": LOWER, "borrow": "Never"}, 0, False),
    ],
)
def test_borrowing_from_who_borrows(policy: dict[str, Any], priority: int, *, goes: bool) -> None:
    """z holds its 4 and wants 2 more (priority 50), which only y could give."""
    queues = _cohort(
        reclaim_within_cohort=policy["reclaim"],
        borrow_within_cohort=policy["borrow"],
        max_priority_threshold=policy.get("threshold"),
    )
    works = [
        *_lent(priority),
        work("own", "z", 4, holds="a100", priority=99),
        work("wants", "z", 2, priority=50),
    ]
    found = settle(situation(queues, works))
    assert sent_away(found) == ([("y", BORROW)] if goes else [])
    assert found.kept == {"keep", "own"} | (set() if goes else {"y"})


@pytest.mark.parametrize(
    ("borrow", "priority", "why"),
    [
        (LOWER, 5, BORROW),  # below the threshold of 10: borrowing is tried first
        (LOWER, 20, RECLAIM),  # above: only without borrowing, which it is once low has gone, too
        ("Never", 5, RECLAIM),
        ("Never", 20, RECLAIM),
    ],
)
def test_others_first_then_its_own_until_it_is_enough(borrow: str, priority: int, why: str) -> None:
    """8 in all: a 4, z 4. a runs keep (4) and y (2), z runs low (2) and wants 4. Without y 2 are free, with low gone as
    well 4, and z holds no more than its own then."""
    policy: dict[str, Any] = {"within_cluster_queue": LOWER, "reclaim_within_cohort": LOWER}
    policy |= {"borrow_within_cohort": borrow, "max_priority_threshold": 10 if borrow == LOWER else None}
    queues = [
        queue("a", 4, cohort="c"),
        queue("z", 4, cohort="c", **policy),
    ]
    works = [*_lent(priority), work("low", "z", 2, holds="a100"), work("wants", "z", 4, priority=50)]
    found = settle(situation(queues, works))
    assert sent_away(found) == [("y", why), ("low", OWN)]
    assert admitted(found) == {"wants": "a100"}


def test_its_own_work_is_enough() -> None:
    """As above, and 2 idle: y is taken first, but low alone frees what is missing, so y is put back."""
    policy: dict[str, Any] = {"within_cluster_queue": LOWER, "reclaim_within_cohort": LOWER}
    works = [*_lent(5), work("low", "z", 2, holds="a100"), work("wants", "z", 4, priority=50)]
    found = settle(situation(_cohort(**policy), works))
    assert sent_away(found) == [("low", OWN)]


# ---- cohorts of cohorts ------------------------------------------------------------------------------------------------


def _two_branches(**policy: Any) -> tuple[list[Queue], list[Any]]:
    """root > left {q, near}, right {far}. left has 4 of its own, q, near and far none; right has none."""
    queues = [
        queue("q", 0, cohort="left", **policy),
        queue("near", 0, cohort="left"),
        queue("far", 0, cohort="right"),
    ]
    return queues, [
        cohort("root"),
        cohort("left", {"a100": 4}, parent="root"),
        cohort("right", parent="root"),
    ]


@pytest.mark.parametrize(
    ("policy", "priority", "goes"), [(LOWER, 4, True), (LOWER, 5, False), ("Any", 9, True)]
)
def test_the_cohorts_quota_is_taken_back_from_another_branch(
    policy: str, priority: int, *, goes: bool
) -> None:
    """far holds left's 4. q is within left's quota: it has the better claim, and need not have leave to borrow."""
    queues, cohorts = _two_branches(reclaim_within_cohort=policy)
    works = [work("guest", "far", 4, holds="a100", priority=priority), work("wants", "q", 4, priority=5)]
    found = settle(situation(queues, works, cohorts))
    assert sent_away(found) == ([("guest", RECLAIM)] if goes else [])


def test_within_the_own_branch_it_goes_by_leave_to_borrow() -> None:
    """near holds left's 4: q has no better claim to them than near has."""
    queues, cohorts = _two_branches(reclaim_within_cohort="Any")
    works = [work("mate", "near", 4, holds="a100"), work("wants", "q", 4, priority=5)]
    assert sent_away(settle(situation(queues, works, cohorts))) == []
    queues, cohorts = _two_branches(reclaim_within_cohort="Any", borrow_within_cohort=LOWER)
    assert sent_away(settle(situation(queues, works, cohorts))) == [("mate", BORROW)]


def test_a_branch_within_its_quota_is_left_alone() -> None:
    """far's branch has 4 of its own, which far holds: far borrows, but not its branch. 4 are left's, held by near."""
    queues = [
        queue("q", 0, cohort="left", reclaim_within_cohort="Any"),
        queue("near", 0, cohort="left"),
        queue("far", 0, cohort="right"),
    ]
    cohorts = [
        cohort("root"),
        cohort("left", {"a100": 4}, parent="root"),
        cohort("right", {"a100": 4}, parent="root"),
    ]
    works = [
        work("mate", "near", 4, holds="a100", priority=9),
        work("guest", "far", 4, holds="a100"),
        work("wants", "q", 4, priority=5),
    ]
    found = settle(situation(queues, works, cohorts))
    assert (sent_away(found), refused(found)) == ([], {"wants": "WaitingForQuota"})


def test_a_branch_is_left_alone_once_enough_of_it_has_gone() -> None:
    """left's 4 are lent: 2 to far, whose branch has 4 of its own (three pieces of 2), 2 to mid, whose branch has none. q
    wants the 4. far's newest piece goes; then its branch is within its quota, so the others stay though they are less
    urgent than mid's work, which goes next."""
    queues = [
        queue("q", 0, cohort="left", reclaim_within_cohort="Any"),
        queue("far", 0, cohort="right"),
        queue("mid", 0, cohort="middle"),
    ]
    cohorts = [
        cohort("root"),
        cohort("left", {"a100": 4}, parent="root"),
        cohort("right", {"a100": 4}, parent="root"),
        cohort("middle", parent="root"),
    ]
    works = [work(f"f{i}", "far", 2, holds="a100", reserved_at=i) for i in range(3)]
    works += [work("m", "mid", 2, holds="a100", priority=1), work("wants", "q", 4, priority=5)]
    found = settle(situation(queues, works, cohorts))
    assert sent_away(found) == [("f2", RECLAIM), ("m", RECLAIM)]
    assert found.kept == {"f0", "f1"}


# ---- partial admission -------------------------------------------------------------------------------------------------


def test_pod_sets_shrink_in_proportion() -> None:
    """4 (at least 2) and 8 (at least 2) pods of 1 card, 8 cards. 8 pods may be spared, 2 : 6. Sparing 4 of the 8 takes
    4·2/8 = 1 and 4·6/8 = 3: 3 + 5 = 8 fit; sparing 3 takes 0 and 2: 4 + 6 = 10 do not."""
    base = work("a", "q", 1)
    sets = (PodSet("lead", 4, {GPU: D(1)}, 2), PodSet("rest", 8, {GPU: D(1)}, 2))
    whole = Work(base.uid, base.name, base.namespace, "q", 0, 0, 0, sets)
    found = settle(situation([queue("q", 8)], [whole]))
    assert {name: part.count for name, part in found.admitted["a"].assigned.items()} == {"lead": 3, "rest": 5}
    assert found.usage == {"q": {A100: 8}}


def test_a_pod_set_without_a_least_number_stays_whole() -> None:
    # 2 + 8 pods, 7 cards: the 8 shrink to 5; with only 5 cards 2 + 3 would be below their least 4
    base = work("a", "q", 1)
    sets = (PodSet("lead", 2, {GPU: D(1)}), PodSet("rest", 8, {GPU: D(1)}, 4))
    whole = Work(base.uid, base.name, base.namespace, "q", 0, 0, 0, sets)
    found = settle(situation([queue("q", 7)], [whole]))
    assert {name: part.count for name, part in found.admitted["a"].assigned.items()} == {"lead": 2, "rest": 5}
    assert refused(settle(situation([queue("q", 5)], [whole]))) == {"a": "ExceedsMaxQuota"}


def test_others_go_for_a_larger_part() -> None:
    """8 cards: keep 2, low 4, so 2 are free. 8 pods do not fit even without low. The most that does is 6, without low,
    although 2 would fit at once."""
    works = [
        work("keep", "q", 2, holds="a100", priority=99),
        work("low", "q", 4, holds="a100"),
        work("wants", "q", 1, pods=8, least=2, priority=5),
    ]
    found = settle(situation([queue("q", 8, within_cluster_queue=LOWER)], works))
    assert sent_away(found) == [("low", OWN)]
    assert found.admitted["wants"].assigned["main"].count == 6


def test_the_whole_comes_first_when_somebody_may_go_for_it() -> None:
    works = [work("low", "q", 6, holds="a100"), work("wants", "q", 1, pods=8, least=2, priority=5)]
    found = settle(situation([queue("q", 8, within_cluster_queue=LOWER)], works))
    assert sent_away(found) == [("low", OWN)]
    assert found.admitted["wants"].assigned["main"].count == 8


def test_the_part_goes_where_most_of_it_fits() -> None:
    # 8 pods, at least 2; a100 has 4, h100 6: 6 pods in h100
    found = settle(situation([queue("q", {"a100": 4, "h100": 6})], [work("wants", "q", 1, pods=8, least=2)]))
    assert admitted(found) == {"wants": "h100"}
    assert found.admitted["wants"].assigned["main"].count == 6
