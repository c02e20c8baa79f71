"""Ranges worked out by hand from few waits, the steps back, and what is never promised."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.admissions.estimates import Estimate, History, Waiting, bounds
from apps.admissions.sizes import SIZES
from apps.admissions.statistics import Survival

F = Fraction
CELL = (1, "q", "8")
WORK = Waiting(cluster_id=1, queue="q", size="8", waited=0)


def lasted(seconds: range, *, still: dict[int, int] | None = None) -> Survival:
    return Survival.of(dict.fromkeys(seconds, 1), still or {})


# n, the place of the lower and of the upper bound among n waits in order: ⌊(n+1)/10⌋ and ⌈9(n+1)/10⌉.
PLACES = [
    (9, 1, 9),
    (10, 1, 10),
    (18, 1, 18),
    (19, 2, 18),
    (20, 2, 19),
    (29, 3, 27),
    (99, 10, 90),
    (124, 12, 113),
]


@pytest.mark.parametrize(("sample", "low", "high"), PLACES)
def test_bounds_are_those_of_one_wait_more(sample: int, low: int, high: int) -> None:
    assert bounds(sample) == (F(low, sample), F(high, sample))


@pytest.mark.parametrize("sample", [0, 1, 8])
def test_of_few_waits_there_are_no_bounds(sample: int) -> None:
    with pytest.raises(ValueError, match="too few"):
        bounds(sample)


def test_the_range_of_twenty_waits() -> None:
    """100 s, 200 s, … 2000 s: the 2nd and the 19th of 20."""
    found = History({CELL: lasted(range(100, 2001, 100))}).estimate(WORK)
    assert found == Estimate(low=200, high=1900, sample=20, ended=20, basis="size")


def test_the_range_moves_on_with_what_was_waited_already() -> None:
    """After 1000 s ten of the twenty remain, 1100 … 2000: the 1st and the 10th, from now on 100 s and 1000 s."""
    history = History({CELL: lasted(range(100, 2001, 100))})
    at_1000 = Waiting(cluster_id=1, queue="q", size="8", waited=1000)
    assert history.estimate(at_1000) == Estimate(low=100, high=1000, sample=10, ended=10, basis="size")


def test_what_still_waits_is_cut_off_and_pushes_the_end_away() -> None:
    """Twenty started after 100 … 2000 s and five still wait since 5000 s. n = 25: ⌊26/10⌋ = 2nd, ⌈23.4⌉ = 24th of 25,
    which is not reached: 5 of 25 go on."""
    found = History({CELL: lasted(range(100, 2001, 100), still={5000: 5})}).estimate(WORK)
    assert found == Estimate(low=200, high=None, sample=25, ended=20, basis="size")


def test_one_that_gave_up_early_weighs_on_those_that_lasted_longer() -> None:
    """One was cut off at 50 s, before anything started: it is one of 21, and its weight goes to the others in equal
    parts. 1/21 of 1 → F after the k-th of twenty is k/20 still. n = 21: shares 2/21 and 20/21: the 2nd (2/20 ≥ 2/21),
    and the 20th (19/20 < 20/21)."""
    found = History({CELL: lasted(range(100, 2001, 100), still={50: 1})}).estimate(WORK)
    assert found == Estimate(low=200, high=2000, sample=21, ended=20, basis="size")


def test_too_few_step_back_to_the_larger_of_the_same_queue_and_say_so() -> None:
    """Nineteen of its size, one larger: together twenty. Smaller ones, of which there are many, do not count."""
    history = History(
        {
            CELL: lasted(range(100, 2000, 100)),
            (1, "q", "9-32"): lasted(range(2000, 2001)),
            (1, "q", "1"): Survival.of({1: 5000}, {}),
        }
    )
    assert history.estimate(WORK) == Estimate(low=200, high=1900, sample=20, ended=20, basis="size_or_larger")


def test_not_enough_history_says_how_much_there_is() -> None:
    history = History({CELL: lasted(range(100, 2000, 100), still={7: 3})})
    assert history.estimate(WORK) == Estimate(sample=22, ended=19, why_not="too_few")


def test_hardly_anything_waited_as_long() -> None:
    """Twenty started, but only nine of them after more than 1100 s."""
    history = History({CELL: lasted(range(100, 2001, 100), still={9999: 2})})
    at_1100 = Waiting(cluster_id=1, queue="q", size="8", waited=1100)
    assert history.estimate(at_1100) == Estimate(sample=11, ended=9, why_not="too_few_as_long")


@pytest.mark.parametrize("other", [(2, "q", "8"), (1, "p", "8"), (1, "q", "2-7")])
def test_neither_clusters_nor_queues_nor_smaller_work_are_mixed(other: tuple[int, str, str]) -> None:
    history = History({other: lasted(range(100, 2001, 100))})
    assert history.estimate(WORK) == Estimate(why_not="too_few")


@pytest.mark.parametrize("cause", ["configuration", "model", "held"])
def test_what_waiting_does_not_end_gets_no_range(cause: str) -> None:
    history = History({CELL: lasted(range(100, 2001, 100))})
    work = Waiting(cluster_id=1, queue="q", size="8", waited=0, cause=cause)
    assert history.estimate(work) == Estimate(why_not="not_by_waiting")


def test_what_exceeds_every_ceiling_gets_no_range() -> None:
    history = History({CELL: lasted(range(100, 2001, 100))})
    work = Waiting(cluster_id=1, queue="q", size="8", waited=0, cause="quota", can_fit=False)
    assert history.estimate(work) == Estimate(why_not="not_by_waiting")


def test_without_a_queue_nothing_is_comparable() -> None:
    assert History({}).estimate(Waiting(1, "", "8", 0)) == Estimate(why_not="no_queue")


# ---------------------------------------------------------------- properties
COUNTS = st.dictionaries(st.integers(0, 60), st.integers(0, 8), max_size=12)


@given(COUNTS, COUNTS, st.integers(0, 60), st.sampled_from(SIZES))
def test_a_range_is_ahead_and_in_order(
    ended: dict[int, int], cut: dict[int, int], waited: int, size: str
) -> None:
    found = History({(1, "q", size): Survival.of(ended, cut)}).estimate(Waiting(1, "q", size, waited))
    if found.why_not:
        assert (found.low, found.high, found.basis) == (None, None, "")
        return
    assert found.sample >= found.ended >= 10
    assert found.low is None or found.low > 0
    assert found.high is None or (found.low is not None and found.high >= found.low)


@pytest.mark.parametrize("sample", [10, 20, 50, 200])
def test_one_more_of_the_same_kind_falls_into_the_range_as_often_as_it_says(sample: int) -> None:
    """Of n + 1 waits from one distribution each is the last with equal chance: the share that falls between the l-th and
    the h-th of the others is (h − l)/(n + 1) for the open range. Drawn 4,000 times with a fixed seed; three standard
    errors are less than 2 %."""
    low, high = (int(share * sample) for share in bounds(sample))
    expected = (high - low) / (sample + 1)
    chance = random.Random(20261202)
    hits = 0
    for _n in range(4000):
        seen = sorted(chance.expovariate(1) for _n in range(sample))
        hits += seen[low - 1] < chance.expovariate(1) <= seen[high - 1]
    assert abs(hits / 4000 - expected) < 0.02
    assert 0.78 < expected < 0.83
