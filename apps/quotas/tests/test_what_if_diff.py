"""Telling two settled outcomes apart, with outcomes written down by hand: each kind of effect and every sum.

The cluster: cohort `all` of red (8 cards) and blue (4 cards)."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from apps.quotas.engine.model import Admitted, Outcome, Pending, Preempted, Reason, Situation, Work
from apps.quotas.tests.what_if_world import GPU, H100, a_queue, held, job, situation
from apps.quotas.what_if_diff import Comparison, Numbers, compare, holding, narrowed

TEAMS = {"red": 1, "blue": 2}


def outcome(
    base: Situation,
    *,
    admitted: tuple[str, ...] = (),
    kept: tuple[str, ...] = (),
    preempted: tuple[Preempted, ...] = (),
    flavors: dict[str, str] | None = None,
    **fields: Any,
) -> Outcome:
    """What a run would answer; work that is named nowhere waits for quota."""
    work = {one.uid: one for one in base.work}
    cards = {uid: int(one.pod_sets[0].requests[GPU]) for uid, one in work.items()}
    usage: dict[str, dict[tuple[str, str], Decimal]] = {}
    for uid in (*admitted, *kept):
        cell = ((flavors or {}).get(uid, "h100"), GPU)
        of_queue = usage.setdefault(work[uid].queue, {})
        of_queue[cell] = of_queue.get(cell, Decimal(0)) + cards[uid]
    return Outcome(
        admitted={
            uid: Admitted(uid, held(cards[uid], (flavors or {}).get(uid, "h100")), borrows=False)
            for uid in admitted
        },
        kept=frozenset(kept),
        preempted=preempted,
        pending={uid: Pending(uid, "WaitingForQuota") for uid in work.keys() - {*admitted, *kept}},
        usage=usage,
        cycles=fields.pop("cycles", 3),
        settled=fields.pop("settled", True),
        **fields,
    )


def team_of(work: Work) -> int | None:
    return TEAMS.get(work.queue)


def found(before: Situation, after: Situation, first: Outcome, second: Outcome) -> Comparison:
    return compare(before, after, (first, second), touched={("ClusterQueue", "red")}, team_of=team_of)


RED, BLUE = a_queue("red", 8), a_queue("blue", 4)
RUNS, WAITS = job("runs", "blue", 8, holds=True), job("waits", "red", 8)
BASE = situation(RED, BLUE, RUNS, WAITS)


def effects(comparison: Comparison) -> list[tuple[str, str]]:
    return [(effect.what, effect.work.uid) for effect in comparison.effects]


def test_nothing_happens() -> None:
    same = outcome(BASE, kept=("runs",))
    comparison = found(BASE, BASE, same, same)
    assert [*comparison.effects, *comparison.teams, *comparison.waiting] == []
    assert comparison.anyway == 0
    # Of what was touched every line is told.
    assert [(line.name, line.changed) for line in comparison.quotas] == [("red", False)]


def test_one_starts_where_another_is_preempted() -> None:
    first = outcome(BASE, kept=("runs",))
    second = outcome(
        BASE, admitted=("waits",), preempted=(Preempted("runs", "waits", "InCohortReclamation"),)
    )
    comparison = found(BASE, BASE, first, second)
    assert effects(comparison) == [("preempted", "runs"), ("starts", "waits")]
    victim = comparison.effects[0]
    assert victim.by is not None
    assert (victim.by.uid, victim.why) == ("waits", "InCohortReclamation")
    assert (victim.before, victim.after) == ({H100: Decimal(8)}, {})
    assert [(line.team_id, int(line.before), int(line.after)) for line in comparison.teams] == [
        (1, 0, 8),
        (2, 8, 0),
    ]
    assert [(line.work.uid, line.before, line.after.refused) for line in comparison.waiting] == [
        ("runs", None, "WaitingForQuota")
    ]


def test_what_would_start_anyway_is_no_effect() -> None:
    base = situation(RED, BLUE, WAITS)
    same = outcome(base, admitted=("waits",))
    comparison = found(base, base, same, same)
    assert comparison.effects == ()
    assert comparison.anyway == 1


def test_what_would_have_started_and_now_waits_misses() -> None:
    base = situation(RED, BLUE, WAITS)
    comparison = found(base, base, outcome(base, admitted=("waits",)), outcome(base))
    assert effects(comparison) == [("misses", "waits")]
    assert comparison.effects[0].by is None


def test_work_of_a_drained_queue_is_drained_whoever_else_starts() -> None:
    base = situation(RED, replace(BLUE, drains=True), RUNS, WAITS)
    second = outcome(base, admitted=("waits",))
    comparison = found(BASE, base, outcome(BASE, kept=("runs",)), second)
    assert effects(comparison) == [("drained", "runs"), ("starts", "waits")]


def test_what_a_stop_takes_back_is_drained_too_unless_it_runs() -> None:
    held = replace(BLUE, node=replace(BLUE.node, stopped=True))
    base = situation(RED, held, replace(RUNS, admitted=False), WAITS)
    comparison = found(BASE, base, outcome(BASE, kept=("runs",)), outcome(base))
    assert effects(comparison) == [("drained", "runs")]


def test_work_in_another_flavor_moves() -> None:
    base = situation(a_queue("red", 8, flavors=("h100", "a100")), WAITS)
    comparison = found(
        base,
        base,
        outcome(base, admitted=("waits",)),
        outcome(base, admitted=("waits",), flavors={"waits": "a100"}),
    )
    assert effects(comparison) == [("moves", "waits")]
    assert comparison.effects[0].after == {("a100", GPU): Decimal(8)}


def test_work_that_the_change_takes_away_is_removed_and_holds_nothing() -> None:
    after = situation(RED, BLUE, WAITS)
    comparison = found(BASE, after, outcome(BASE, kept=("runs",)), outcome(after, admitted=("waits",)))
    assert effects(comparison) == [("removed", "runs"), ("starts", "waits")]
    assert [(line.team_id, int(line.before), int(line.after)) for line in comparison.teams] == [
        (1, 0, 8),
        (2, 8, 0),
    ]


def test_a_hypothetical_job_starts_or_waits() -> None:
    new = job("new", "red", 8)
    after = replace(BASE, work=(*BASE.work, new))
    first = outcome(BASE, kept=("runs",))
    comparison = found(BASE, after, first, outcome(after, kept=("runs",)))
    assert comparison.effects == ()
    assert [(line.work.uid, line.before) for line in comparison.waiting] == [("new", None)]
    comparison = found(BASE, after, first, outcome(after, kept=("runs",), admitted=("new",)))
    assert effects(comparison) == [("starts", "new")]


def test_another_reason_to_wait_is_told_the_same_is_not() -> None:
    first = outcome(BASE, kept=("runs",))
    larger = Pending("waits", "ExceedsMaxQuota", (Reason("ExceedsMaxQuota", most=Decimal(4)),))
    second = replace(first, pending={"waits": larger})
    (line,) = found(BASE, BASE, first, second).waiting
    assert line.before is not None
    assert (line.before.refused, line.after) == ("WaitingForQuota", larger)


def test_numbers_before_and_after() -> None:
    """Blue (4) holds 8: it borrows 4 from red (8). Red is lowered to 2: the cohort has 6, so that blue is over by 2."""
    lower = replace(BASE, queues=(a_queue("red", 2), BLUE))
    kept = outcome(BASE, kept=("runs",))
    comparison = found(BASE, lower, kept, kept)
    lines = {(line.kind, line.name): line for line in comparison.quotas}
    eight, four, zero = Decimal(8), Decimal(4), Decimal(0)
    assert lines["ClusterQueue", "red"].before == Numbers(eight, Decimal(12), zero, zero, four, zero)
    assert lines["ClusterQueue", "red"].after == Numbers(Decimal(2), Decimal(6), zero, zero, Decimal(2), zero)
    assert lines["ClusterQueue", "blue"].before == Numbers(four, Decimal(12), eight, four, zero, zero)
    assert lines["ClusterQueue", "blue"].after == Numbers(four, Decimal(6), eight, four, zero, Decimal(2))
    assert lines["Cohort", "all"].after == Numbers(Decimal(6), Decimal(6), eight, zero, zero, Decimal(2))


def test_a_run_that_was_cut_says_so_and_gaps_are_gathered() -> None:
    first = outcome(BASE, kept=("runs",), gaps=frozenset({"time"}))
    second = outcome(BASE, kept=("runs",), settled=False, cycles=7, gaps=frozenset({"topology"}))
    comparison = found(BASE, BASE, first, second)
    assert (comparison.whole, comparison.cycles, comparison.gaps) == (
        False,
        10,
        frozenset({"time", "topology"}),
    )


def test_pod_sets_in_several_flavors_are_told_apart() -> None:
    work = replace(RUNS, holds={**held(4), "other": held(2, "a100")["main"], "third": held(1)["main"]})
    same = outcome(situation(BLUE, work), kept=("runs",))
    assert holding(work, same) == {H100: Decimal(5), ("a100", GPU): Decimal(2)}


class TestNarrowed:
    """Red's reader: red's work by name, blue's in sums."""

    def narrow(self, comparison: Comparison) -> Comparison:
        return narrowed(
            comparison,
            queues={"red"},
            cohorts={"all"},
            owns=lambda work: work.queue == "red",
            team_ids={1},
            root_of=lambda queue: "all",
        )

    def test_others_are_a_sum_per_tree(self) -> None:
        more = job("b2", "blue", 2)
        base = situation(RED, BLUE, RUNS, WAITS, more)
        comparison = self.narrow(
            found(
                base,
                base,
                outcome(base, kept=("runs",), admitted=("b2",)),
                outcome(
                    base,
                    admitted=("waits", "b2"),
                    preempted=(Preempted("runs", "waits", "InCohortReclamation"),),
                ),
            )
        )
        assert effects(comparison) == [("starts", "waits")]
        assert [line.team_id for line in comparison.teams] == [1]
        # The cohort holds 10 before (blue 8 + 2) and after (red 8, blue 2): no line of its own.
        assert [line.name for line in comparison.quotas] == ["red"]
        (others,) = comparison.others
        assert (others.cohort, others.starts, others.loses, others.moves) == ("all", 0, 1, 0)
        assert others.holds == (("h100", GPU, Decimal(8), Decimal(0)),)
        assert comparison.waiting == ()

    def test_whoever_takes_it_stays_unnamed(self) -> None:
        base = situation(RED, BLUE, job("mine", "red", 8, holds=True), job("theirs", "blue", 8))
        comparison = self.narrow(
            found(
                base,
                base,
                outcome(base, kept=("mine",)),
                outcome(
                    base,
                    admitted=("theirs",),
                    preempted=(Preempted("mine", "theirs", "InCohortFairSharing"),),
                ),
            )
        )
        (effect,) = comparison.effects
        assert (effect.what, effect.by, effect.why) == ("preempted", None, "InCohortFairSharing")

    def test_how_much_would_start_anyway_is_not_told(self) -> None:
        base = situation(RED, BLUE, job("b", "blue", 1))
        same = outcome(base, admitted=("b",))
        assert self.narrow(found(base, base, same, same)).anyway == 0
