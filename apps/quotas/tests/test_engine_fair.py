"""Fair sharing by hand: whose head comes first, and who is sent away under each strategy. Shares are fractions of what the
parent could lend, compared at the children of the lowest common cohort, always with the request laid on the tree.

LessThanOrEqualToFinalShare: the preemptor's share with the request ≤ the victim's after it lost the piece.
LessThanInitialShare: the preemptor's share with the request < the victim's before. In the default order the second is
tried on whom the first refused.
"""

from __future__ import annotations

import pytest

from apps.quotas.engine.model import Queue
from apps.quotas.engine.settle import settle

from .engine_worlds import (
    FINAL,
    INITIAL,
    Strategy,
    admitted,
    cohort,
    queue,
    refused,
    sent_away,
    situation,
    work,
)

FAIR, OWN, RECLAIM = "InCohortFairSharing", "InClusterQueue", "InCohortReclamation"
BOTH = (FINAL, INITIAL)
CPU = "cpu"


def _a_and_b(**nominal: int) -> list[Queue]:
    """Two queues of c; b may take from anybody."""
    return [
        queue("a", nominal.get("a", 0), cohort="c"),
        queue("b", nominal.get("b", 0), cohort="c", reclaim_within_cohort="Any"),
    ]


# ---- strategies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("strategies", "goes"), [((FINAL,), False), ((INITIAL,), True), (BOTH, True)])
def test_a_piece_larger_than_the_difference(strategies: tuple[Strategy, ...], *, goes: bool) -> None:
    """12 cards, a holds them in one piece, b wants 4. b's share would be 4/12; a's is 1 before and 0 after: only the
    share before lets it go."""
    works = [work("a1", "a", 12, holds="a100"), work("b1", "b", 4)]
    found = settle(
        situation(_a_and_b(), works, [cohort("c", {"a100": 12})], fair=True, strategies=strategies)
    )
    assert sent_away(found) == ([("a1", FAIR)] if goes else [])
    assert refused(found) == {("a1" if goes else "b1"): "WaitingForQuota"}


@pytest.mark.parametrize(("strategies", "goes"), [((FINAL,), True), ((INITIAL,), False), (BOTH, True)])
def test_a_piece_of_what_does_not_make_the_share(strategies: tuple[Strategy, ...], *, goes: bool) -> None:
    """12 cards and 12 cpu. a holds 4 cards and 6 cpu: its share is 6/12 with or without the cards. d holds 4 cards (4/12).
    b wants 6 cards of which 4 are free: its share would be 6/12. That is not more than a's after it lost the cards, and
    not less than a's before. d's is smaller than b's in any case."""
    both = {"a100": 0, "a100 cpu": 0}
    queues = [
        queue("a", both, cohort="c"),
        queue("b", both, cohort="c", reclaim_within_cohort="Any"),
        queue("d", both, cohort="c"),
    ]
    works = [
        work("cards", "a", 4, holds="a100"),
        work("cpus", "a", 0, holds="a100", more={CPU: 6}),
        work("d1", "d", 4, holds="a100"),
        work("b1", "b", 6),
    ]
    quota = cohort("c", {"a100": 12, "a100 cpu": 12})
    found = settle(situation(queues, works, [quota], fair=True, strategies=strategies))
    assert sent_away(found) == ([("cards", FAIR)] if goes else [])
    assert ("b1" in found.admitted) is goes


@pytest.mark.parametrize(("strategies", "victim"), [((FINAL,), "a2"), (BOTH, "a2"), ((INITIAL,), "a1")])
def test_shares_are_compared_where_the_branches_part(strategies: tuple[Strategy, ...], victim: str) -> None:
    """root (12) > left {a, d}, right {b}. a1 is 6 cards of a, a2 3 of d; b wants 6 of which 3 are free, so right's share
    would be 6/12; left's is 9/12. Without a1 it would be 3/12 (less than 6/12), without a2 6/12 (not less). a has the
    larger share in left and is asked first; before it lost anything left's share is larger than right's."""
    queues = [
        queue("a", 0, cohort="left"),
        queue("d", 0, cohort="left"),
        queue("b", 0, cohort="right", reclaim_within_cohort="Any"),
    ]
    cohorts = [
        cohort("root", {"a100": 12}),
        cohort("left", parent="root"),
        cohort("right", parent="root"),
    ]
    works = [
        work("a1", "a", 6, holds="a100", reserved_at=1),
        work("a2", "d", 3, holds="a100", reserved_at=2),
        work("b1", "b", 6),
    ]
    found = settle(situation(queues, works, cohorts, fair=True, strategies=strategies))
    assert sent_away(found)[0] == (victim, FAIR)
    assert "b1" in found.admitted


def test_the_second_strategy_takes_one_piece_of_a_queue() -> None:
    """13 cards: a holds two pieces of 5, d one of 3; b wants 6. Shares: a 10/13, d 3/13, b 6/13.
    First strategy: a without a piece would have 5/13 < 6/13: refused, twice; d without its piece 0: refused.
    Second: 6/13 < 10/13: the newer piece of a goes, which leaves 5 free, and a is out of it; d: 6/13 > 3/13. Not enough."""
    queues = [*_a_and_b(), queue("d", 0, cohort="c")]
    works = [
        work("a1", "a", 5, holds="a100", reserved_at=1),
        work("a2", "a", 5, holds="a100", reserved_at=2),
        work("d1", "d", 3, holds="a100"),
        work("b1", "b", 6),
    ]
    found = settle(situation(queues, works, [cohort("c", {"a100": 13})], fair=True))
    assert (sent_away(found), refused(found)) == ([], {"b1": "WaitingForQuota"})
    # One card more is idle: the one piece is enough
    found = settle(situation(queues, works, [cohort("c", {"a100": 14})], fair=True))
    assert sent_away(found) == [("a2", FAIR)]


def test_the_largest_share_gives_first_and_the_next_piece_is_of_whoever_leads_then() -> None:
    """12 cards: a 4 + 3, d 5. b wants 4. Shares a 7/12, d 5/12, b 4/12. a gives its newer piece (3): 4/12 is left, not
    less than b's. Then d leads with 5/12, but without its piece it has 0: refused by the first strategy. a again:
    without the 4 it has 0: refused. 3 are not enough; the second strategy: d, 4/12 < 5/12: goes. a need not go then:
    the 5 of d are enough."""
    queues = [*_a_and_b(), queue("d", 0, cohort="c")]
    works = [
        work("a1", "a", 4, holds="a100", reserved_at=1),
        work("a2", "a", 3, holds="a100", reserved_at=2),
        work("d1", "d", 5, holds="a100"),
        work("b1", "b", 4),
    ]
    found = settle(situation(queues, works, [cohort("c", {"a100": 12})], fair=True))
    assert sent_away(found) == [("d1", FAIR)]


# ---- who is entitled ---------------------------------------------------------------------------------------------------


def test_own_quota_is_taken_back_whatever_the_shares_say() -> None:
    """b has 4 cards of its own and holds all 12 cpu of the cohort, so its share is 1. a holds 12 cards in one piece, 4 of
    them b's. In cards b stays within its own: a's piece goes."""
    both = {"a100": 0, "a100 cpu": 0}
    queues = [
        queue("a", both, cohort="c"),
        queue("b", {**both, "a100": 4}, cohort="c", reclaim_within_cohort="Any"),
    ]
    works = [
        work("a1", "a", 12, holds="a100"),
        work("cpus", "b", 0, holds="a100", more={CPU: 12}),
        work("b1", "b", 4),
    ]
    quota = cohort("c", {"a100": 8, "a100 cpu": 12})
    found = settle(situation(queues, works, [quota], fair=True))
    assert sent_away(found) == [("a1", RECLAIM)]
    # With 3 of its own it borrows the 4th: its share of 1 is not less than anybody's
    queues[1] = queue("b", {**both, "a100": 3}, cohort="c", reclaim_within_cohort="Any")
    quota = cohort("c", {"a100": 9, "a100 cpu": 12})
    assert sent_away(settle(situation(queues, works, [quota], fair=True))) == []


def test_who_is_within_its_own_quota_gives_nothing() -> None:
    """12 cards: a holds the 8 that are its own, b 4 of the cohort's and wants 4 more."""
    works = [
        work("a1", "a", 8, holds="a100"),
        work("b0", "b", 4, holds="a100", priority=9),
        work("b1", "b", 4),
    ]
    found = settle(situation(_a_and_b(a=8), works, [cohort("c", {"a100": 4})], fair=True))
    assert (sent_away(found), refused(found)) == ([], {"b1": "WaitingForQuota"})


@pytest.mark.parametrize("policy", ["LowerPriority", "Any"])
def test_priorities_count_beside_shares(policy: str) -> None:
    """a holds 12 in pieces of 4 that are as urgent as b's work."""
    queues = [queue("a", 0, cohort="c"), queue("b", 0, cohort="c", reclaim_within_cohort=policy)]
    works = [work(f"a{i}", "a", 4, holds="a100", reserved_at=i) for i in range(3)]
    found = settle(situation(queues, [*works, work("b1", "b", 4)], [cohort("c", {"a100": 12})], fair=True))
    assert sent_away(found) == ([("a2", FAIR)] if policy == "Any" else [])


def test_a_borrower_of_weight_nothing_gives_first() -> None:
    """a (weight 0) holds 4 and d (weight 1) 8; b wants 4: a's share counts as infinite, so it gives although d has more."""
    queues = [
        queue("a", 0, cohort="c", weight="0"),
        queue("d", 0, cohort="c"),
        queue("b", 0, cohort="c", reclaim_within_cohort="Any"),
    ]
    works = [
        work("a1", "a", 2, holds="a100", reserved_at=1),
        work("a2", "a", 2, holds="a100", reserved_at=2),
        work("d1", "d", 4, holds="a100", reserved_at=3),
        work("d2", "d", 4, holds="a100", reserved_at=4),
        work("b1", "b", 2),
    ]
    found = settle(situation(queues, works, [cohort("c", {"a100": 12})], fair=True))
    assert sent_away(found) == [("a2", FAIR)]


# ---- its own work ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parent", [None, "c"])
def test_its_own_less_urgent_work_goes(parent: str | None) -> None:
    own = queue("q", 8, cohort=parent, within_cluster_queue="LowerPriority")
    works = [
        work("keep", "q", 4, holds="a100", priority=9),
        work("low", "q", 4, holds="a100"),
        work("wants", "q", 4, priority=5),
    ]
    found = settle(situation([own], works, fair=True))
    assert sent_away(found) == [("low", OWN)]


def test_its_own_work_gives_when_its_own_share_is_the_largest() -> None:
    """12 cards: b holds 8 and wants 4 more urgently, a holds 4: with the request b's share is 12/12, the largest."""
    queues = [
        queue("a", 0, cohort="c"),
        queue("b", 0, cohort="c", reclaim_within_cohort="Any", within_cluster_queue="LowerPriority"),
    ]
    works = [
        work("a1", "a", 4, holds="a100"),
        work("b0", "b", 8, holds="a100"),
        work("b1", "b", 4, priority=5),
    ]
    found = settle(situation(queues, works, [cohort("c", {"a100": 12})], fair=True))
    assert sent_away(found) == [("b0", OWN)]


# ---- whose head comes first --------------------------------------------------------------------------------------------


def test_the_branch_with_the_smaller_share_comes_first() -> None:
    """root (12) > left {a, d}, right {b}. a holds 4. d wants 4, b 6. d's own share would be 4/12, less than b's 6/12, but
    left's 8/12: b comes first, and 2 are left."""
    queues = [queue("a", 0, cohort="left"), queue("d", 0, cohort="left"), queue("b", 0, cohort="right")]
    cohorts = [
        cohort("root", {"a100": 12}),
        cohort("left", parent="root"),
        cohort("right", parent="root"),
    ]
    works = [work("a1", "a", 4, holds="a100"), work("d1", "d", 4, at=1), work("b1", "b", 6, at=2)]
    assert admitted(settle(situation(queues, works, cohorts, fair=True))) == {"b1": "a100"}
    flat = [queue(name, 0, cohort="root") for name in ("a", "d", "b")]
    assert admitted(settle(situation(flat, works, cohorts[:1], fair=True))) == {"d1": "a100"}


def test_who_does_not_borrow_what_it_asks_for_comes_first() -> None:
    """b has 4 cards of its own and borrows cpu (share 1); a borrows what it asks for, with a share of 6/8 at most. In cards
    b borrows nothing, so it comes first: 8 in all, 4 for b, and a's 6 no longer fit."""
    both = {"a100": 0, "a100 cpu": 0}
    queues = [queue("a", both, cohort="c"), queue("b", {**both, "a100": 4}, cohort="c")]
    works = [
        work("cpus", "b", 0, holds="a100", more={CPU: 12}),
        work("a1", "a", 6, at=1, priority=9),
        work("b1", "b", 4, at=2),
    ]
    quota = cohort("c", {"a100": 4, "a100 cpu": 12})
    assert admitted(settle(situation(queues, works, [quota], fair=True))) == {"b1": "a100"}


@pytest.mark.parametrize(
    ("weights", "first"),
    [
        (("1", "0"), "a1"),  # b of weight 0 comes last although it would have less
        (("0", "0"), "b1"),  # both of weight 0: by what they borrow: 6 and 4
        (("0", "1"), "b1"),
    ],
)
def test_weight_nothing_comes_last(weights: tuple[str, str], first: str) -> None:
    # 8 cards; a wants 6, b 4: one of them
    queues = [
        queue("a", 0, cohort="c", weight=weights[0]),
        queue("b", 0, cohort="c", weight=weights[1]),
    ]
    works = [work("a1", "a", 6, at=2), work("b1", "b", 4, at=2)]
    found = settle(situation(queues, works, [cohort("c", {"a100": 8})], fair=True))
    assert admitted(found) == {first: "a100"}


@pytest.mark.parametrize(
    ("a", "b", "first"),
    [
        ({"priority": 1, "at": 9}, {"priority": 0, "at": 1}, "a1"),  # equal shares: the more urgent
        ({"priority": 0, "at": 9}, {"priority": 0, "at": 1}, "b1"),  # then the older
    ],
)
def test_equal_shares(a: dict[str, int], b: dict[str, int], first: str) -> None:
    queues = [queue("a", 0, cohort="c"), queue("b", 0, cohort="c")]
    works = [
        work("a1", "a", 6, at=a["at"], priority=a["priority"]),
        work("b1", "b", 6, at=b["at"], priority=b["priority"]),
    ]
    found = settle(situation(queues, works, [cohort("c", {"a100": 8})], fair=True))
    assert admitted(found) == {first: "a100"}
