"""Unit-seconds of intervals: exact, additive, cut at hours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from apps.usage.spans import Held, by_hour, clip, unit_seconds, unit_seconds_by_hour

T0 = datetime(2026, 12, 1, tzinfo=UTC)
D = Decimal


def held(start: float, end: float, quantity: int = 1) -> Held:
    return Held(T0 + timedelta(minutes=start), T0 + timedelta(minutes=end), D(quantity))


intervals = st.builds(
    lambda start, length, quantity: Held(
        T0 + timedelta(seconds=start), T0 + timedelta(seconds=start + length), D(quantity)
    ),
    st.integers(0, 200_000),
    st.integers(0, 100_000),
    st.integers(0, 64),
)


def test_ten_minutes_of_eight_gpus() -> None:
    assert unit_seconds([held(0, 10, 8)]) == D(4800)
    assert dict(by_hour(held(50, 130, 8))) == {
        T0: D(4800),
        T0 + timedelta(hours=1): D(28800),
        T0 + timedelta(hours=2): D(4800),
    }


def test_empty_and_reversed_intervals_hold_nothing() -> None:
    assert unit_seconds([held(5, 5), held(9, 3)]) == 0
    assert list(by_hour(held(5, 5))) == []
    assert clip(held(0, 10), T0 + timedelta(minutes=10), T0 + timedelta(minutes=20)) is None


@given(st.lists(intervals, max_size=20))
def test_hours_add_up_to_the_spans(found: list[Held]) -> None:
    assert sum(unit_seconds_by_hour(found).values(), D(0)) == unit_seconds(found)
    assert all(unit_seconds_by_hour(found).values())


@given(intervals, st.integers(0, 300_000))
def test_splitting_anywhere_changes_nothing(whole: Held, at: int) -> None:
    cut = T0 + timedelta(seconds=at)
    parts = [clip(whole, T0, cut), clip(whole, cut, T0 + timedelta(days=10))]
    pieces = [part for part in parts if part is not None]
    assert unit_seconds_by_hour(pieces) == unit_seconds_by_hour([whole])
