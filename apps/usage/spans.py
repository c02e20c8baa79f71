"""Unit-seconds of intervals, cut at hours. Input: half-open intervals and quantities; output: exact Decimals.

Pure: the definition that the rollup's SQL is tested against. Splitting an interval anywhere changes no sum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

_HOUR = timedelta(hours=1)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Held:
    """`quantity` units held during [start, end)."""

    start: datetime
    end: datetime
    quantity: Decimal


def seconds_between(start: datetime, end: datetime) -> Decimal:
    """Exact seconds, 0 when the interval is empty or reversed."""
    return max(Decimal((end - start) // _MICROSECOND), Decimal(0)) / 1_000_000


def clip(held: Held, start: datetime, end: datetime) -> Held | None:
    """The part of `held` inside [start, end); None when there is none."""
    low, high = max(held.start, start), min(held.end, end)
    return Held(low, high, held.quantity) if low < high else None


def by_hour(held: Held) -> Iterator[tuple[datetime, Decimal]]:
    """(hour, unit-seconds) for every UTC hour that the interval touches."""
    hour = held.start.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    while hour < held.end:
        part = clip(held, hour, hour + _HOUR)
        if part is not None:
            yield hour, seconds_between(part.start, part.end) * part.quantity
        hour += _HOUR


def unit_seconds(intervals: Iterable[Held]) -> Decimal:
    return sum((seconds_between(held.start, held.end) * held.quantity for held in intervals), Decimal(0))


def unit_seconds_by_hour(intervals: Iterable[Held]) -> dict[datetime, Decimal]:
    """Hours with nothing in them are absent."""
    hours: defaultdict[datetime, Decimal] = defaultdict(Decimal)
    for held in intervals:
        for hour, amount in by_hour(held):
            hours[hour] += amount
    return {hour: amount for hour, amount in sorted(hours.items()) if amount}
