"""Numbers that hold from one moment until the next, averaged over equal steps of time. Pure.

Input: points (each holds until the next one), the stretches that were observed, and the steps; output: mean and
maximum of every number per step. Invariants: exact until the last rounding to three decimals, which is what a point
can hold; only observed time counts, and a number that was not said counts for nothing, so that a step without either
is None and never zero; minimum ≤ mean ≤ maximum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

NUMBERS = ("nominal", "ceiling", "reserved", "admitted", "borrowed", "lent", "pending", "waiting")
_PLACES = Decimal("0.001")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
Numbers = Mapping[str, Decimal | None]


@dataclass(frozen=True, slots=True)
class Span:
    """A window's length and step: `count` points of `step` each."""

    step: timedelta
    count: int


WINDOWS: Mapping[str, Span] = {
    "hour": Span(timedelta(minutes=1), 60),
    "day": Span(timedelta(minutes=5), 288),
    "week": Span(timedelta(minutes=30), 336),
    "month": Span(timedelta(hours=2), 360),
    "year": Span(timedelta(days=1), 365),
}


@dataclass(frozen=True, slots=True)
class Held:
    """What held from `at` until the next one's `at`; no numbers at all: there was no such quota."""

    at: datetime
    numbers: Numbers


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """One step `[at, at + step)`: time-weighted mean and maximum of each of NUMBERS, None where nothing was observed
    or said. `observed`: the part of the step that was observed, 0…1."""

    at: datetime
    mean: Numbers
    max: Numbers
    observed: Fraction


@dataclass(slots=True)
class _Sum:
    weight: int = 0
    total: Fraction = Fraction(0)
    most: Decimal | None = None

    def add(self, value: Decimal, weight: int) -> None:
        self.weight += weight
        self.total += Fraction(value) * weight
        self.most = value if self.most is None else max(self.most, value)

    @property
    def mean(self) -> Decimal | None:
        if not self.weight:
            return None
        mean = self.total / self.weight
        exact = Decimal(mean.numerator) / Decimal(mean.denominator)
        return exact.quantize(_PLACES, rounding=ROUND_HALF_EVEN)


@dataclass(slots=True)
class _Step:
    sums: dict[str, _Sum] = field(default_factory=lambda: {name: _Sum() for name in NUMBERS})
    observed: int = 0


def steps_of(window: str, now: datetime) -> list[datetime]:
    """The starts of a window's steps, oldest first; steps lie on whole multiples since 1970, the last holds `now`."""
    span = WINDOWS[window]
    last = now - (now - _EPOCH) % span.step
    return [last - span.step * (span.count - 1 - index) for index in range(span.count)]


def averaged(
    *,
    points: Sequence[Held],
    observed: Iterable[tuple[datetime, datetime]],
    starts: Sequence[datetime],
    step: timedelta,
) -> list[SeriesPoint]:
    """Mean and maximum per step. `points` by time; `observed` disjoint and half-open; `starts` follow each other."""
    if not starts:
        return []
    steps = [_Step() for _ in starts]
    first, end = starts[0], starts[-1] + step
    for since, until in observed:
        since, until = max(since, first), min(until, end)
        if since >= until:
            continue
        _spread(steps, first, step, since, until, None)
        for index, held in enumerate(points):
            ends = points[index + 1].at if index + 1 < len(points) else until
            a, b = max(held.at, since), min(ends, until)
            if a < b:
                _spread(steps, first, step, a, b, held.numbers)
    whole = step // _TICK
    return [
        SeriesPoint(
            start,
            {name: found.sums[name].mean for name in NUMBERS},
            {name: found.sums[name].most for name in NUMBERS},
            Fraction(found.observed, whole),
        )
        for start, found in zip(starts, steps, strict=True)
    ]


def _spread(
    steps: Sequence[_Step],
    first: datetime,
    step: timedelta,
    since: datetime,
    until: datetime,
    numbers: Numbers | None,
) -> None:
    """Lay a stretch on the steps that it touches: numbers that held in it, or None for that it was observed."""
    index = (since - first) // step
    while since < until:
        stop = min(until, first + step * (index + 1))
        weight = (stop - since) // _TICK
        if numbers is None:
            steps[index].observed += weight
        else:
            for name, value in numbers.items():
                if value is not None:
                    steps[index].sums[name].add(value, weight)
        since, index = stop, index + 1
