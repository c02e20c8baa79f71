"""Kaplan–Meier: vectors worked out by hand (or printed in the literature), and properties over every sample."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.admissions.statistics import Seconds, Survival

F = Fraction

# Five waits: 10 s ended, 10 s given up, 20 s ended, 30 s still waiting, 40 s ended.
# At 10 five are at risk (the one given up at 10 is: ends count before), S = 4/5. At 20 three are, S = 4/5 · 2/3 = 8/15.
# At 40 one is, S = 0.
FIVE = ({10: 1, 20: 1, 40: 1}, {10: 1, 30: 1})
FIVE_CURVE = [(9, F(1)), (10, F(4, 5)), (19, F(4, 5)), (20, F(8, 15)), (39, F(8, 15)), (40, F(0)), (99, F(0))]
FIVE_QUANTILES = [
    (F(1, 100), 10),
    (F(1, 5), 10),  # F(10) is exactly 1/5
    (F(21, 100), 20),
    (F(7, 15), 20),
    (F(1, 2), 40),
    (F(9, 10), 40),
    (F(1), 40),
]

# Freireich et al. 1963, remission under 6-MP in weeks, the textbooks' example: 21 patients, 9 relapses. At 6 three of 21
# relapse, at 7 one of 17, at 10 of 15, at 13 of 12, at 16 of 11, at 22 of 7, at 23 of 6.
REMISSION = (
    {6: 3, 7: 1, 10: 1, 13: 1, 16: 1, 22: 1, 23: 1},
    {6: 1, 9: 1, 10: 1, 11: 1, 17: 1, 19: 1, 20: 1, 25: 1, 32: 2, 34: 1, 35: 1},
)
# 18/21; · 16/17; · 14/15; · 11/12; · 10/11; · 6/7; · 5/6
REMISSION_CURVE = [
    (6, F(6, 7)),
    (7, F(96, 119)),
    (10, F(64, 85)),
    (13, F(176, 255)),
    (16, F(32, 51)),
    (22, F(64, 119)),
    (23, F(160, 357)),
    (35, F(160, 357)),
]
# As printed: 0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448; median 23 weeks.
PRINTED = [0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448]


@pytest.mark.parametrize(("at", "survives"), FIVE_CURVE)
def test_survival_of_five_waits(at: int, survives: Fraction) -> None:
    assert Survival.of(*FIVE).survives(at) == survives


@pytest.mark.parametrize(("p", "seconds"), FIVE_QUANTILES)
def test_quantiles_of_five_waits(p: Fraction, seconds: int) -> None:
    assert Survival.of(*FIVE).quantile(p) == seconds


def test_what_has_waited_already_is_compared_with_what_waited_longer() -> None:
    five = Survival.of(*FIVE)
    # Three waited longer than 10 s: one ended at 20 (1/3), one is open at 30, one ended at 40 (all of it).
    assert [five.quantile(p, after=10) for p in (F(1, 10), F(1, 3), F(1, 2), F(1))] == [20, 20, 40, 40]
    # Two waited longer than 20 s, of which one is known to have ended.
    assert (five.at_risk(after=20), five.ended(after=20)) == (2, 1)
    assert (five.at_risk(), five.ended()) == (5, 3)
    assert (five.at_risk(after=10), five.ended(after=10)) == (3, 2)
    # Nothing waited longer than 40 s.
    assert five.quantile(F(1, 2), after=40) is None
    assert (five.at_risk(after=40), five.ended(after=40)) == (0, 0)


def test_the_textbook_example() -> None:
    found = Survival.of(*REMISSION)
    assert [(at, found.survives(at)) for at, _s in REMISSION_CURVE] == REMISSION_CURVE
    assert [round(float(found.survives(at)), 3) for at, _s in REMISSION_CURVE[:-1]] == PRINTED
    assert found.quantile(F(1, 2)) == 23
    assert found.quantile(F(1, 4)) == 13  # S(10) = 0.753 > 3/4 ≥ S(13)
    assert found.quantile(F(9, 10)) is None  # more than half never relapsed
    assert (found.at_risk(), found.ended(), found.censored()) == (21, 9, 12)


def test_a_quantile_that_was_not_reached_is_none() -> None:
    # One of four started, after 5 s; three still wait after 100 s. F never goes beyond 1/4.
    found = Survival.of({5: 1}, {100: 3})
    assert (found.quantile(F(1, 4)), found.quantile(F(26, 100)), found.quantile(F(1))) == (5, None, None)


def test_nothing_known_has_no_quantile() -> None:
    for empty in (Survival.of({}, {}), Survival.of({}, {7: 4}), Survival.of({3: 0}, {3: 0})):
        assert empty.quantile(F(1, 10)) is None
        assert empty.survives(10**9) == 1
    assert Survival.of({3: 0}, {}).at_risk() == 0


def test_waits_of_no_length_count() -> None:
    found = Survival.of({0: 3, 60: 1}, {})
    assert [found.quantile(p) for p in (F(1, 2), F(3, 4), F(76, 100))] == [0, 0, 60]
    assert found.quantile(F(1, 10), after=0) == 60


@pytest.mark.parametrize("p", [F(0), F(-1), F(3, 2)])
def test_only_shares_of_the_whole_are_quantiles(p: Fraction) -> None:
    with pytest.raises(ValueError, match="between"):
        Survival.of(*FIVE).quantile(p)


@pytest.mark.parametrize("bad", [({5: -1}, {}), ({-5: 1}, {}), ({}, {5: -1}), ({}, {-1: 1})])
def test_neither_lengths_nor_counts_are_negative(bad: tuple[dict[int, int], dict[int, int]]) -> None:
    with pytest.raises(ValueError, match="negative"):
        Survival.of(*bad)


def test_several_quantiles_are_those_asked_one_by_one() -> None:
    found = Survival.of(*REMISSION)
    asked = [F(9, 10), F(1, 10), F(1, 2), F(1, 2)]
    assert found.quantiles(asked) == [found.quantile(p) for p in asked] == [None, 6, 23, 23]


def test_added_up_samples_are_one_sample() -> None:
    left, right = Survival.of({10: 1}, {30: 1}), Survival.of({20: 1, 40: 1}, {10: 1})
    assert left + right == Survival.of(*FIVE)


# ---------------------------------------------------------------- properties
LENGTHS = st.integers(min_value=0, max_value=40)
COUNTS = st.dictionaries(LENGTHS, st.integers(min_value=0, max_value=4), max_size=12)
SHARES = st.fractions(min_value=F(1, 50), max_value=1, max_denominator=50)
HISTOGRAMS = st.tuples(COUNTS, COUNTS)


def listed(counts: dict[int, int]) -> list[int]:
    return sorted(length for length, count in counts.items() for _n in range(count))


def redistributed(ended: dict[int, int], censored: dict[int, int]) -> dict[int, Fraction]:
    """The same estimate in another way (Efron 1967): everything weighs 1/n; going from short to long, what was cut off
    hands its weight in equal parts to all that lasted longer. Gives the weight that ended at each length."""
    items = [(t, 0) for t in listed(ended)] + [(t, 1) for t in listed(censored)]
    items.sort()
    weights = [F(1, len(items) or 1)] * len(items)
    for i, (_length, cut) in enumerate(items):
        left = len(items) - i - 1
        if cut and left:
            for j in range(i + 1, len(items)):
                weights[j] += weights[i] / left
            weights[i] = F(0)
    found: dict[int, Fraction] = {}
    for (length, cut), weight in zip(items, weights, strict=True):
        if not cut:
            found[length] = found.get(length, F(0)) + weight
    return found


@given(HISTOGRAMS)
def test_it_is_what_redistribution_to_the_right_gives(sample: tuple[dict[int, int], dict[int, int]]) -> None:
    found, mass = Survival.of(*sample), redistributed(*sample)
    for at in range(42):
        assert found.survives(at) == 1 - sum((w for t, w in mass.items() if t <= at), F(0))


@given(st.lists(LENGTHS, min_size=1, max_size=40), SHARES)
def test_where_nothing_is_cut_off_it_is_the_plain_quantile(lengths: list[int], p: Fraction) -> None:
    lengths = sorted(lengths)
    smallest = next(t for t in lengths if F(sum(x <= t for x in lengths), len(lengths)) >= p)
    assert Survival.of(Counter(lengths), {}).quantile(p) == smallest


@given(st.lists(st.tuples(LENGTHS, st.booleans()), max_size=30), st.randoms(), SHARES)
def test_the_order_of_a_sample_does_not_matter(
    sample: list[tuple[int, bool]], chance: object, p: Fraction
) -> None:
    def of(items: list[tuple[int, bool]]) -> Survival:
        ended: dict[int, int] = {}
        censored: dict[int, int] = {}
        for length, was_seen in items:
            into = ended if was_seen else censored
            into[length] = into.get(length, 0) + 1
        return Survival.of(ended, censored)

    mixed = list(sample)
    chance.shuffle(mixed)  # type: ignore[attr-defined]
    assert of(mixed) == of(sample)
    assert of(mixed).quantile(p) == of(sample).quantile(p)


def at_least(new: Seconds | None, old: Seconds | None) -> bool:
    return new is None or (old is not None and new >= old)


@given(HISTOGRAMS, LENGTHS, SHARES)
def test_one_more_that_still_waits_lowers_no_quantile(
    sample: tuple[dict[int, int], dict[int, int]], length: int, p: Fraction
) -> None:
    ended, censored = sample
    more = {**censored, length: censored.get(length, 0) + 1}
    assert at_least(Survival.of(ended, more).quantile(p), Survival.of(ended, censored).quantile(p))


@given(HISTOGRAMS, LENGTHS, SHARES)
def test_whoever_turns_out_to_have_started_raises_no_quantile(
    sample: tuple[dict[int, int], dict[int, int]], length: int, p: Fraction
) -> None:
    ended, censored = sample
    waits = Survival.of(ended, {**censored, length: censored.get(length, 0) + 1})
    started = Survival.of({**ended, length: ended.get(length, 0) + 1}, censored)
    assert at_least(waits.quantile(p), started.quantile(p))


@given(HISTOGRAMS, SHARES, SHARES)
def test_quantiles_rise_with_their_share_and_lie_on_what_ended(
    sample: tuple[dict[int, int], dict[int, int]], p: Fraction, q: Fraction
) -> None:
    found = Survival.of(*sample)
    low, high = (found.quantile(share) for share in sorted((p, q)))
    assert at_least(high, low)
    assert low is None or sample[0].get(int(low), 0) > 0


@given(HISTOGRAMS, LENGTHS, SHARES)
def test_conditional_is_the_ratio_of_two_survivals(
    sample: tuple[dict[int, int], dict[int, int]], waited: int, p: Fraction
) -> None:
    found = Survival.of(*sample)
    start = found.survives(waited)
    expected = next((t for t in range(waited + 1, 42) if start and 1 - found.survives(t) / start >= p), None)
    assert found.quantile(p, after=waited) == expected


@given(HISTOGRAMS, st.integers(min_value=2, max_value=5), SHARES)
def test_the_same_sample_several_times_says_the_same(
    sample: tuple[dict[int, int], dict[int, int]], times: int, p: Fraction
) -> None:
    ended, censored = ({t: n * times for t, n in counts.items()} for counts in sample)
    assert Survival.of(ended, censored).quantile(p) == Survival.of(*sample).quantile(p)


@given(HISTOGRAMS, st.one_of(st.none(), LENGTHS))
def test_all_are_counted(sample: tuple[dict[int, int], dict[int, int]], waited: int | None) -> None:
    ended, censored = sample
    low = -1 if waited is None else waited
    found = Survival.of(ended, censored)
    seen = sum(n for t, n in ended.items() if t > low)
    cut = sum(n for t, n in censored.items() if t > low)
    assert (found.ended(after=waited), found.censored(after=waited)) == (seen, cut)
    assert found.at_risk(after=waited) == seen + cut


def test_many_different_lengths_are_exact_and_quick() -> None:
    """Ten thousand lengths, each once ended and once cut off: no rounding decides at a border. S after k of n pairs is
    Π (2m − 1) / 2m, which has k factors that do not cancel."""
    n = 10_000
    found = Survival.of(dict.fromkeys(range(1, n + 1), 1), dict.fromkeys(range(1, n + 1), 1))
    exact = F(1)
    for k in range(30):
        exact *= F(2 * (n - k) - 1, 2 * (n - k))
    assert found.survives(30) == exact
    assert found.quantile(1 - exact) == 30
    assert found.quantile(1 - exact + F(1, 10**60)) == 31
    assert found.quantile(F(99, 100)) is not None


def test_what_may_be_said_where_a_percentile_was_not_reached() -> None:
    """A quarter started; of the rest it is only known that they outlast 100 s."""
    found = Survival.of({5: 1}, {100: 3})
    assert (found.reached, found.longest) == (F(1, 4), 100)
    assert (Survival.of(*FIVE).reached, Survival.of(*FIVE).longest) == (F(1), 40)
    assert (Survival.of({}, {}).reached, Survival.of({}, {}).longest) == (F(0), None)
