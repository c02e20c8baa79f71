"""The back-test itself, on waits of which it is written down what must come out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from apps.admissions.backtest import Past, Tried, backtest, coverage

T0 = datetime(2026, 11, 1, tzinfo=UTC)
CELL = (1, "q", "8")


def wait(began: float, lasts: float, *, started: bool = True, cause: str = "quota", size: str = "8") -> Past:
    """Times in seconds after T0."""
    at = T0 + timedelta(seconds=began)
    return Past((1, "q", size), at, at + timedelta(seconds=lasts), started, ((at, cause),))


# Twenty waits of 100, 200, … 2,000 s, all over before 10,000 s.
BEFORE = [wait(n, 100 * n) for n in range(1, 21)]
FIRST = T0 + timedelta(seconds=9000)


@pytest.mark.parametrize(
    ("last", "outcome", "sample"),
    [
        # after 60 s: the 2nd and the 19th of twenty, 200 s and 1,900 s from the beginning
        (wait(10_000, 200), "held", 20),
        (wait(10_000, 1900), "held", 20),
        (wait(10_000, 199), "earlier", 20),
        (wait(10_000, 1901), "later", 20),
        (wait(10_000, 1900, started=False), "undecided", 20),
        (wait(10_000, 1901, started=False), "later", 20),
        (wait(10_000, 500, cause="held"), "none", 0),
        (wait(10_000, 500, size="33-128"), "none", 0),
    ],
)
def test_what_became_of_a_prediction(last: Past, outcome: str, sample: int) -> None:
    assert backtest([*BEFORE, last], first=FIRST, ages=[60]) == [Tried(60, last.cell[2], sample, outcome)]  # type: ignore[arg-type]


def test_nothing_is_known_before_it_happened() -> None:
    """At 1,060 s only those that had ended by then count: n + 100 n ≤ 1,060, that is ten: too few."""
    early = wait(1000, 500)
    (tried,) = backtest([*BEFORE, early], first=T0 + timedelta(seconds=1050), ages=[60])[-1:]
    assert (tried.outcome, tried.sample) == ("none", 0)


def test_only_ages_that_a_wait_reached_are_tried() -> None:
    last = wait(10_000, 700)
    assert [one.age for one in backtest([*BEFORE, last], first=FIRST, ages=[60, 600, 700, 3600])] == [60, 600]


def test_coverage_is_of_what_was_decided() -> None:
    tried = [
        Tried(60, "8", 20, outcome) for outcome in ("held", "held", "held", "later", "undecided", "none")
    ]
    share, counts = coverage(tried)
    assert (share, counts["undecided"], counts["none"]) == (0.75, 1, 1)
    assert coverage([])[0] is None
