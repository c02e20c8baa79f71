"""Rarely taken turns of the engine, each by hand: pods as a resource, affinity, resource groups, fair sharing without
a cohort, searches that end half way and what is said then."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from apps.quotas.engine.budget import STEPS
from apps.quotas.engine.eligible import why_not
from apps.quotas.engine.fair import next_by_share
from apps.quotas.engine.model import Group, Pending, PodSet, Reason, Work
from apps.quotas.engine.scheduler import Scheduler
from apps.quotas.engine.settle import settle, settle_again

from .engine_worlds import FLAVORS, GPU, D, admitted, cohort, queue, refused, sent_away, situation, work

FAIR, OWN, RECLAIM = "InCohortFairSharing", "InClusterQueue", "InCohortReclamation"


# ---- pods and groups ---------------------------------------------------------------------------------------------------


def test_pods_count_where_the_queue_covers_them() -> None:
    """8 cards and 3 pods. 2 pods of a card each fit; 2 more would be 4 pods; 4 at once are more than there ever are."""
    works = [
        work("two", "q", 1, pods=2, at=1),
        work("more", "q", 1, pods=2, at=2),
        work("four", "q", 1, pods=4),
    ]
    found = settle(situation([queue("q", {"a100": 8, "a100 pods": 3})], works))
    assert admitted(found) == {"two": "a100"}
    assert refused(found) == {"more": "WaitingForQuota", "four": "ExceedsMaxQuota"}
    assert found.pending["more"].reasons == (Reason("WaitingForQuota", "main", "a100", "pods", more=D(1)),)
    assert found.usage["q"] == {("a100", GPU): D(2), ("a100", "pods"): D(2)}


def test_each_resource_group_has_its_own_flavor() -> None:
    """Cards in a100, cpu in l4: 3 of 4 cpu are taken, so that 2 more want one."""
    one = queue("q", {"a100": 8, "l4 cpu": 4})
    one = replace(one, groups=(Group((GPU,), ("a100",)), Group(("cpu",), ("l4",))))
    works = [work(f"w{n}", "q", 1, at=n, more={"cpu": cpu}) for n, cpu in ((1, 3), (2, 2))]
    found = settle(situation([one], works))
    assert found.admitted["w1"].assigned["main"].flavors == {GPU: "a100", "cpu": "l4"}
    assert found.pending["w2"].reasons == (Reason("WaitingForQuota", "main", "l4", "cpu", more=D(1)),)


# ---- affinity ----------------------------------------------------------------------------------------------------------


def term(*rules: tuple[str, str, list[str]]) -> dict[str, Any]:
    return {
        "matchExpressions": [{"key": key, "operator": how, "values": values} for key, how, values in rules]
    }


A, H = ("gpu", "In", ["a100"]), ("gpu", "In", ["h100"])
ELSEWHERE = ("zone", "In", ["west"])  # a key that no flavor of the group names


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        ((term(A),), True),
        ((term(H),), False),
        ((term(H), term(A)), True),  # terms are alternatives
        ((term(A, H),), False),  # expressions are not
        ((term(("gpu", "NotIn", ["h100"])),), True),
        ((term(ELSEWHERE, H),), False),  # of a term only known keys count
        ((term(ELSEWHERE, A),), True),
        ((term(H), term(ELSEWHERE)), True),  # a term without any known key matches everything
        (({},), True),
    ],
)
def test_affinity_is_held_against_a_flavors_labels(terms: tuple[dict[str, Any], ...], *, fits: bool) -> None:
    pods = PodSet("main", 1, {GPU: D(1)}, affinity=terms)
    wrong = why_not(FLAVORS["a100"], pods, frozenset({"gpu"}))
    assert wrong == (None if fits else Reason("NoMatchingFlavor", "main", "a100"))


# ---- fair sharing ------------------------------------------------------------------------------------------------------


def test_fair_sharing_without_a_cohort_takes_from_its_own_queue_or_not_at_all() -> None:
    """4 cards, "low" holds 1 and "high" 3. "wants" asks for 2 and may only send "low" away, which is one too few."""
    works = [
        work("low", "q", 1, holds="a100"),
        work("high", "q", 3, holds="a100", priority=9),
        work("wants", "q", 2, priority=5),
    ]
    here = situation([queue("q", 4, within_cluster_queue="LowerPriority")], works, fair=True)
    found = settle(here)
    assert sent_away(found) == []
    assert refused(found) == {"wants": "WaitingForQuota"}
    found = settle(replace(here, work=(*works[:2], work("wants", "q", 1, priority=5))))
    assert sent_away(found) == [("low", OWN)]


def test_who_is_within_its_quota_takes_piece_after_piece() -> None:
    """a and b have 4 each, a holds all 8 in pieces of 2. b wants its 4: two pieces, the last reserved first."""
    queues = [queue("a", 4, cohort="c"), queue("b", 4, cohort="c", reclaim_within_cohort="Any")]
    works = [work(f"a{n}", "a", 2, holds="a100", reserved_at=n) for n in range(4)]
    found = settle(situation(queues, [*works, work("b1", "b", 4)], fair=True))
    assert sorted(sent_away(found)) == [("a2", RECLAIM), ("a3", RECLAIM)]
    assert admitted(found) == {"b1": "a100"}


def test_a_cohort_that_borrows_nothing_gives_nothing() -> None:
    """r has 4 of its own, side 4 by its queue s. s2 borrows 4 inside side, a borrows r's 4; b wants 2. b would be at 2/8, a
    after it lost 2 at 2/8 too, so the last of a goes; side takes nothing from outside and s2 stays."""
    queues = [
        queue("a", 0, cohort="r"),
        queue("b", 0, cohort="r", reclaim_within_cohort="Any"),
        queue("s", 4, cohort="side"),
        queue("s2", 0, cohort="side"),
    ]
    works = [work(f"a{n}", "a", 2, holds="a100", reserved_at=n) for n in (1, 2)]
    works += [work("s2", "s2", 4, holds="a100", reserved_at=9), work("b1", "b", 2)]
    found = settle(
        situation(queues, works, [cohort("r", {"a100": 4}), cohort("side", parent="r")], fair=True)
    )
    assert sent_away(found) == [("a2", FAIR)]
    assert admitted(found) == {"b1": "a100"}


def test_a_turn_needs_somebody_whose_turn_it_can_be() -> None:
    scheduler = Scheduler(situation([queue("a", 4, cohort="c")], [], fair=True))
    with pytest.raises(ValueError, match="no entry below"):
        next_by_share(scheduler.books, ("Cohort", "c"), {})


# ---- ends and beginnings -----------------------------------------------------------------------------------------------


def test_who_was_set_aside_comes_after_the_heads_of_strict_queues() -> None:
    """4 cards for both. Seen for the first time q1 comes first, as it is older; set aside before, s1 does."""
    queues = [queue("q", 0, cohort="c"), queue("s", 0, cohort="c", strategy="StrictFIFO")]
    here = situation(queues, [work("q1", "q", 4, at=1), work("s1", "s", 4, at=9)], [cohort("c", {"a100": 4})])
    assert admitted(settle(here)) == {"q1": "a100"}
    assert admitted(settle_again(here)) == {"s1": "a100"}
    assert admitted(settle_again(here, aside=["s1"])) == {"q1": "a100"}


def test_a_search_that_is_ended_within_a_cycle_leaves_what_was_before() -> None:
    """One piece of work and more flavors than a search may try between two questions."""
    names = [f"f{n}" for n in range(STEPS + 1)]
    flavors = {name: replace(FLAVORS["a100"], name=name, node_labels={}) for name in names}
    here = replace(situation([queue("q", dict.fromkeys(names, 1))], [work("w", "q", 2)]), flavors=flavors)
    asked: list[int] = []

    def enough() -> bool:
        asked.append(1)
        return len(asked) > 1  # not before the first cycle

    found = settle(here, enough=enough)
    assert not found.settled
    assert (found.cycles, found.admitted, len(asked)) == (1, {}, 2)
    assert refused(found) == {"w": "NotEvaluated"}


def test_work_that_takes_from_each_other_in_turn_never_comes_to_rest() -> None:
    """a owns 4 x, b 4 y, d 4 z. a1 asks for x and borrows y, b1 asks for y and borrows z, 4 of each: when both wait their
    shares are 4/4, so that the older a1 is first. b takes its y back in the first cycle, a1 starts again in the second,
    b takes it back in the third: as it was before, so that it ends there."""
    own = {"a": "x", "b": "y", "d": "z"}
    queues = [
        queue(
            name,
            {f"a100 {resource}": 4 * (own[name] == resource) for resource in "xyz"},
            cohort="c",
            reclaim_within_cohort="Any",
        )
        for name in own
    ]
    works = [
        work("a1", "a", 0, at=1, more={"x": 4, "y": 4}, holds="a100"),
        work("b1", "b", 0, at=2, more={"y": 4, "z": 4}),
    ]
    found = settle(situation(queues, works, fair=True))
    assert not found.settled
    assert found.cycles == 3
    assert sent_away(found) == [("a1", RECLAIM)]


# ---- what is said ------------------------------------------------------------------------------------------------------


class NoRoom:
    def __call__(self, work: Work, pod_set: PodSet, count: int, flavors: Collection[str]) -> Reason | None:
        (flavor,) = flavors
        return Reason("NoPlacement", pod_set.name, flavor)


def test_a_search_that_goes_on_says_what_was_found_before_too() -> None:
    """No place in a100 in the first cycle, none in h100 in the second: both are named, in this order."""
    here = situation([queue("q", {"a100": 8, "h100": 8})], [work("a", "q", 1)])
    scheduler = Scheduler(here, placement=NoRoom())
    said: list[Pending] = []
    for _cycle in range(3):
        said += [one for one in scheduler.cycle() if isinstance(one, Pending)]
    a100, h100 = (Reason("NoPlacement", "main", flavor) for flavor in ("a100", "h100"))
    assert said == [Pending("a", "NoPlacement", (a100,)), Pending("a", "NoPlacement", (a100, h100))]


def test_flavors_before_one_whose_quota_is_enough_are_not_spoken_of() -> None:
    """Work of 5: a100 has 4, which Kueue forgets once h100 has quota enough; there is no place in h100, nor then in l4."""
    here = situation([queue("q", {"a100": 4, "h100": 8, "l4": 8})], [work("a", "q", 5)])
    scheduler = Scheduler(here, placement=NoRoom())
    for _cycle in range(4):
        scheduler.cycle()
    (said,) = [waiter.verdict for waiter in scheduler.lines["q"]]
    assert said is not None
    assert said.refused == "NoPlacement"
    assert [reason.flavor for reason in said.reasons] == ["h100", "l4"]
