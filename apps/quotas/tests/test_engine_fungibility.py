"""Which flavor work gets under each of the flavorFungibility settings, worked out by hand from Kueue's rules.

A flavor that fits or can be freed ends the search unless a setting says to go on: whenCanPreempt where something has to
go for it, whenCanBorrow where more than the own quota is used (after those went). A flavor that does not fit, or in which
nobody may be sent away, never ends it. When nothing ended the search the best of all is taken: by default one that fits
before one in which all victims are of other queues before any other, then the nearer quota; with
PreemptionOverBorrowing the nearer quota counts first. (Kueue takes a preference only with TryNextFlavor for both.)

q tries a100, then h100. "low" cannot move to another flavor, so that it waits once it is sent away.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from apps.quotas.engine.model import Queue, Work
from apps.quotas.engine.settle import settle

from .engine_worlds import admitted, cohort, queue, refused, sent_away, situation, work

STOP, NEXT = "MayStopSearch", "TryNextFlavor"
WANTS = work("wants", "q", 4, at=9, priority=5)
OWN, RECLAIM = "InClusterQueue", "InCohortReclamation"


def low(flavor: str, owner: str = "q", gpus: int = 4) -> Work:
    return work("low", owner, gpus, holds=flavor, selector={"gpu": flavor})


def lender(**quotas: int) -> Queue:
    return queue("lender", quotas, cohort="c")


def q(a100: int, h100: int, borrow: str, preempt: str, preference: str = "", **policy: Any) -> Queue:
    policy = {"within_cluster_queue": "LowerPriority", "preference": preference, **policy}
    policy |= {"when_can_borrow": borrow, "when_can_preempt": preempt}
    return queue("q", {"a100": a100, "h100": h100}, cohort="c", **policy)


def check(queues: list[Queue], works: list[Work], flavor: str, victims: list[tuple[str, str]]) -> None:
    found = settle(situation(queues, works))
    assert (admitted(found), sent_away(found)) == ({"wants": flavor}, victims)
    assert set(refused(found)) == {uid for uid, _ in victims}


# ---- borrowing in the first flavor, quota of its own in the second -----------------------------------------------------


@pytest.mark.parametrize(("borrow", "preempt"), product((STOP, NEXT), repeat=2))
def test_borrows_in_the_first_or_has_its_own_in_the_second(borrow: str, preempt: str) -> None:
    # a100: 0 own, 4 of the lender: fits, borrowing. h100: 4 own: fits. Nobody need go: only whenCanBorrow matters.
    flavor = "a100" if borrow == STOP else "h100"
    check([q(0, 4, borrow, preempt), lender(a100=4)], [WANTS], flavor, [])


# ---- somebody must go in the first flavor ------------------------------------------------------------------------------


@pytest.mark.parametrize(("borrow", "preempt"), product((STOP, NEXT), repeat=2))
def test_sends_away_in_the_first_or_has_its_own_in_the_second(borrow: str, preempt: str) -> None:
    # a100: 4 own, held by low: can be freed, nothing is borrowed then. h100: 4 own, free. Only whenCanPreempt matters.
    victims = [("low", OWN)] if preempt == STOP else []
    flavor = "a100" if preempt == STOP else "h100"
    check([q(4, 4, borrow, preempt)], [WANTS, low("a100")], flavor, victims)


@pytest.mark.parametrize(
    ("borrow", "preempt", "preference", "flavor"),
    [
        (STOP, STOP, "", "a100"),  # can be freed: the search ends there
        (NEXT, STOP, "", "a100"),  # and nothing is borrowed after low went
        (STOP, NEXT, "", "h100"),  # goes on; h100 fits, and borrowing ends the search
        (NEXT, NEXT, "", "h100"),  # nothing ends it: what fits comes before what must be freed
        (NEXT, NEXT, "BorrowingOverPreemption", "h100"),
        (NEXT, NEXT, "PreemptionOverBorrowing", "a100"),  # the own quota comes before the lender's
    ],
)
def test_sends_away_in_the_first_or_borrows_in_the_second(
    borrow: str, preempt: str, preference: str, flavor: str
) -> None:
    queues = [q(4, 0, borrow, preempt, preference), lender(h100=4)]
    victims = [("low", OWN)] if flavor == "a100" else []
    check(queues, [WANTS, low("a100")], flavor, victims)


@pytest.mark.parametrize(
    ("borrow", "preempt", "preference", "flavor"),
    [
        (STOP, STOP, "", "a100"),  # fits, and borrowing ends the search
        (STOP, NEXT, "", "a100"),
        (NEXT, STOP, "", "h100"),  # goes on; h100 can be freed, which ends it, though a100 would fit
        (NEXT, NEXT, "", "a100"),  # nothing ends it: what fits comes first
        (NEXT, NEXT, "BorrowingOverPreemption", "a100"),
        (NEXT, NEXT, "PreemptionOverBorrowing", "h100"),
    ],
)
def test_borrows_in_the_first_or_sends_away_in_the_second(
    borrow: str, preempt: str, preference: str, flavor: str
) -> None:
    queues = [q(0, 4, borrow, preempt, preference), lender(a100=4)]
    victims = [("low", OWN)] if flavor == "h100" else []
    check(queues, [WANTS, low("h100")], flavor, victims)


@pytest.mark.parametrize(
    ("borrow", "preempt", "flavor"),
    [
        (STOP, STOP, "a100"),
        (
            NEXT,
            STOP,
            "h100",
        ),  # low may go, and 2 of the 4 are borrowed then: the search goes on
        (STOP, NEXT, "h100"),
        (NEXT, NEXT, "h100"),
    ],
)
def test_somebody_must_go_and_it_borrows_as_well(borrow: str, preempt: str, flavor: str) -> None:
    """a100: 2 own and 2 of the lender, all held by low (4). With borrowWithinCohort it may be freed although 4 > 2."""
    while_borrowing = {"reclaim_within_cohort": "LowerPriority", "borrow_within_cohort": "LowerPriority"}
    queues = [q(2, 4, borrow, preempt, **while_borrowing), lender(a100=2)]
    victims = [("low", OWN)] if flavor == "a100" else []
    check(queues, [WANTS, low("a100")], flavor, victims)


def test_what_exceeds_the_own_quota_is_not_freed_without_leave_to_borrow() -> None:
    # As above without borrowWithinCohort: a100 is out of the question, whatever the settings
    check([q(2, 4, STOP, STOP), lender(a100=2)], [WANTS, low("a100")], "h100", [])


@pytest.mark.parametrize(("borrow", "preempt"), product((STOP, NEXT), repeat=2))
def test_a_flavor_where_nobody_may_go_never_ends_the_search(borrow: str, preempt: str) -> None:
    # a100: 4 own, held by more urgent work: nobody may go. h100 is free.
    urgent = work("urgent", "q", 4, holds="a100", priority=9)
    found = settle(situation([q(4, 4, borrow, preempt)], [WANTS, urgent]))
    assert (admitted(found), sent_away(found)) == ({"wants": "h100"}, [])


# ---- whom to send away -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("preempt", "preference", "flavor", "victim"),
    [
        (STOP, "", "a100", ("low", OWN)),
        (NEXT, "", "h100", ("guest", RECLAIM)),  # its own quota back before its own work
        (NEXT, "PreemptionOverBorrowing", "h100", ("guest", RECLAIM)),  # neither borrows: the same
    ],
)
def test_reclaims_before_it_sends_its_own_work_away(
    preempt: str, preference: str, flavor: str, victim: tuple[str, str]
) -> None:
    """a100: 4 own, held by own work; h100: 4 own, lent to a guest that has none itself."""
    queues = [
        q(4, 4, NEXT, preempt, preference, reclaim_within_cohort="Any"),
        queue("other", {"h100": 0}, cohort="c"),
    ]
    guest = work("guest", "other", 4, holds="h100", priority=9)
    check(queues, [WANTS, low("a100"), guest], flavor, [victim])


def test_the_nearer_quota_of_two_that_fit() -> None:
    """a100 comes from the whole tree, h100 from the own cohort: of two that fit while borrowing, one level up is nearer
    than two. root > c > q; a100: 4 of "far" below root; h100: 4 of "near" in c."""
    queues = [
        q(0, 0, NEXT, NEXT),
        queue("near", {"h100": 4}, cohort="c"),
        queue("far", {"a100": 4}, cohort="root"),
    ]
    found = settle(situation(queues, [WANTS], [cohort("c", parent="root")]))
    assert admitted(found) == {"wants": "h100"}
    stops = [q(0, 0, STOP, NEXT), *queues[1:]]
    assert admitted(settle(situation(stops, [WANTS], [cohort("c", parent="root")]))) == {"wants": "a100"}


# ---- several resources in a flavor -------------------------------------------------------------------------------------


def test_a_flavor_does_as_badly_as_its_worst_resource() -> None:
    # a100: 4 cards free, but only 2 of 8 cpu: low holds 6. h100: all free. The search goes on although the cards fit.
    quotas = {"a100": 4, "a100 cpu": 8, "h100": 4, "h100 cpu": 8}
    own = queue("q", quotas, within_cluster_queue="LowerPriority", when_can_preempt=NEXT)
    asks = work("wants", "q", 4, at=9, priority=5, more={"cpu": 4})
    runs = work("low", "q", 0, holds="a100", more={"cpu": 6})
    found = settle(situation([own], [asks, runs]))
    assert (admitted(found), sent_away(found)) == ({"wants": "h100"}, [])
    stops = queue("q", quotas, within_cluster_queue="LowerPriority", when_can_preempt=STOP)
    pinned = work("low", "q", 0, holds="a100", more={"cpu": 6}, selector={"gpu": "a100"})
    found = settle(situation([stops], [asks, pinned]))
    assert (admitted(found), sent_away(found)) == ({"wants": "a100"}, [("low", OWN)])
