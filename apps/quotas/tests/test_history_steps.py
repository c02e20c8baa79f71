"""Averages over steps of time: worked out by hand, and what holds whatever the points are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from apps.quotas.history_steps import WINDOWS, Held, averaged, steps_of

T0 = datetime(2026, 11, 2, 8, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
STEP = 10 * MINUTE


def at(minutes: float) -> datetime:
    return T0 + minutes * MINUTE


def test_mean_and_maximum_by_time() -> None:
    # 08:00 4 cards, 08:05 8 cards, 08:20 none said: (5*4 + 5*8)/10 = 6; then 8; then nothing.
    points = [
        Held(at(0), {"reserved": Decimal(4)}),
        Held(at(5), {"reserved": Decimal(8)}),
        Held(at(20), {"reserved": None}),
    ]
    found = averaged(points=points, observed=[(at(0), at(30))], starts=[at(0), at(10), at(20)], step=STEP)
    assert [p.mean["reserved"] for p in found] == [Decimal(6), Decimal(8), None]
    assert [p.max["reserved"] for p in found] == [Decimal(8), Decimal(8), None]
    assert [p.observed for p in found] == [1, 1, 1]
    assert found[0].mean["lent"] is None


def test_unobserved_time_counts_for_nothing() -> None:
    # Observed 08:00-08:02 and 08:08-08:10: (2*3 + 2*9)/4 = 6; 08:10-08:20 not at all.
    points = [Held(at(-60), {"reserved": Decimal(3)}), Held(at(5), {"reserved": Decimal(9)})]
    found = averaged(
        points=points,
        observed=[(at(0), at(2)), (at(8), at(10))],
        starts=[at(0), at(10)],
        step=STEP,
    )
    assert [p.mean["reserved"] for p in found] == [Decimal(6), None]
    assert [p.observed * 10 for p in found] == [4, 0]


def test_a_third_is_rounded_to_what_a_point_holds() -> None:
    # 08:00 1 card, 08:10 2 cards, step of half an hour: (10*1 + 20*2)/30 = 1.666…
    points = [Held(at(0), {"lent": Decimal(1)}), Held(at(10), {"lent": Decimal(2)})]
    found = averaged(points=points, observed=[(at(0), at(30))], starts=[at(0)], step=30 * MINUTE)
    assert found[0].mean["lent"] == Decimal("1.667")


def test_steps_end_with_the_one_that_holds_now() -> None:
    now = datetime(2026, 11, 2, 8, 7, 30, tzinfo=UTC)
    for window, span in WINDOWS.items():
        starts = steps_of(window, now)
        assert len(starts) == span.count <= 366
        assert starts[-1] <= now < starts[-1] + span.step
        assert {b - a for a, b in pairwise(starts)} == {span.step}
    assert steps_of("year", now)[-1] == datetime(2026, 11, 2, tzinfo=UTC)
    assert steps_of("hour", now)[0] == datetime(2026, 11, 2, 7, 8, tzinfo=UTC)


AMOUNTS = st.decimals(min_value=0, max_value=10**6, places=3)


@given(
    changes=st.lists(st.tuples(st.integers(0, 3600), AMOUNTS), min_size=1, max_size=8),
    since=st.integers(0, 3600),
    length=st.integers(0, 3600),
)
def test_a_mean_lies_between_the_least_and_the_most(
    changes: list[tuple[int, Decimal]], since: int, length: int
) -> None:
    by_second = dict(changes)
    points = [
        Held(T0 + timedelta(seconds=second), {"reserved": value})
        for second, value in sorted(by_second.items())
    ]
    begun = T0 + timedelta(seconds=since)
    found = averaged(
        points=points,
        observed=[(begun, begun + timedelta(seconds=length))],
        starts=[T0 + STEP * index for index in range(6)],
        step=STEP,
    )
    for point in found:
        mean, most = point.mean["reserved"], point.max["reserved"]
        if mean is not None and most is not None:
            assert min(by_second.values()) <= mean <= most <= max(by_second.values())
        assert 0 <= point.observed <= 1


@given(value=AMOUNTS)
def test_what_never_changes_is_its_own_mean(value: Decimal) -> None:
    found = averaged(
        points=[Held(T0 - STEP, {"nominal": value})],
        observed=[(T0, T0 + 3 * STEP)],
        starts=[T0, T0 + STEP, T0 + 2 * STEP],
        step=STEP,
    )
    assert [p.mean["nominal"] for p in found] == [value] * 3
