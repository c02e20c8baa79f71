"""Work like one that has just failed is not looked at again while nothing moved: that saves time and changes nothing."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.quotas.engine.model import PodSet, Preempted, Work
from apps.quotas.engine.nominate import Remembered
from apps.quotas.engine.scheduler import Decision, Scheduler

from .engine_worlds import GPU, D, cohort, queue, situation, work

KINDS = [PodSet("main", 1, {GPU: D(cards)}) for cards in (1, 2, 4, 6, 40)]
KINDS.append(PodSet("main", 1, {GPU: D(2)}, node_selector={"gpu": "h100"}))
POLICIES = ("Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any")


class Forgets(dict[Any, Any]):
    """Remembers nothing."""

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


def scheduler(chance: Random, remembered: Remembered) -> Scheduler:
    queues = [
        queue(
            name,
            {
                "a100": (chance.randint(0, 8), *limits(chance)),
                "h100": (chance.randint(0, 8), *limits(chance)),
            },
            cohort=chance.choice(["c", "below"]),
            strategy=chance.choice(["StrictFIFO", "BestEffortFIFO"]),
            within_cluster_queue=chance.choice(POLICIES),
            reclaim_within_cohort=chance.choice(POLICIES),
            borrow_within_cohort=chance.choice(POLICIES[:2]),
            when_can_borrow=chance.choice(["MayStopSearch", "TryNextFlavor"]),
            when_can_preempt=chance.choice(["MayStopSearch", "TryNextFlavor"]),
        )
        for name in ("q", "r", "s")
    ]
    here = situation(queues, [], cohorts=[cohort("c", {"a100": 2}), cohort("below", parent="c")])
    made = Scheduler(here)
    made._remembered = remembered
    return made


def limits(chance: Random) -> tuple[int | None, int | None]:
    return chance.choice([None, 0, 2]), chance.choice([None, 0, 2])


def story(seed: int, remembered: Remembered) -> list[Decision]:
    """Work comes, goes, is preempted and waits again, as chance has it."""
    chance, told = Random(seed), list[Decision]()
    here = scheduler(chance, remembered)
    going: list[str] = []
    for step in range(30):
        here.now = step
        for number in range(chance.randint(0, 3)):
            here.add(arrival(chance, step, number))
        for _ in range(chance.randint(1, 6)):
            decisions = here.cycle()
            told += decisions
            going += [one.uid for one in decisions if isinstance(one, Preempted)]
        while going and chance.random() < 0.6:
            here.release(going.pop(0))
        held = sorted(uid for uid in here.books.by_uid if uid not in going)
        if held and chance.random() < 0.5:
            here.remove(chance.choice(held))
    return told


def arrival(chance: Random, step: int, number: int) -> Work:
    made = work(f"w{step}-{number}", chance.choice("qrs"), 1, at=step, priority=chance.choice([0, 5]))
    return replace(made, pod_sets=(chance.choice(KINDS),))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 30))
def test_whoever_remembers_decides_as_whoever_looks_again(seed: int) -> None:
    assert story(seed, {}) == story(seed, Forgets())


def test_it_does_remember() -> None:
    remembered: Remembered = {}
    assert story(1, remembered)
    assert remembered
