"""How often start estimates would have held: each wait of the past, predicted from what was known then. Pure.

Input: waits that are over or still last; output: what became of each prediction, by age of the wait and size. Invariants:
a prediction at a moment knows only waits that had begun by then, and of those that had not ended only how long they had
lasted; what gave up or still waits within its range decides nothing and is counted apart.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from apps.admissions.estimates import HORIZON, Cell, History, Waiting
from apps.admissions.sizes import at_least
from apps.admissions.statistics import Survival

AGES = (60, 600, 3600, 14_400)
"""Seconds after which a wait is predicted, if it still lasts: what starts at once nobody asks about."""
Outcome = Literal["held", "earlier", "later", "undecided", "none"]


@dataclass(frozen=True, slots=True)
class Past:
    """One wait. `until`: its end, or when it was last seen to last. `causes`: (from, cause), in order of time."""

    cell: Cell
    began: datetime
    until: datetime
    started: bool
    causes: tuple[tuple[datetime, str], ...] = ()

    def cause_at(self, at: datetime) -> str:
        found = bisect_right([since for since, _cause in self.causes], at)
        return self.causes[found - 1][1] if found else ""


@dataclass(frozen=True, slots=True)
class Tried:
    """One prediction and what became of it. `sample`: of the estimate, 0 where there was none."""

    age: int
    size: str
    sample: int
    outcome: Outcome


def backtest(waits: Collection[Past], *, first: datetime, ages: Iterable[int] = AGES) -> list[Tried]:
    """Every wait at every age that it reached after `first`."""
    by_cell: dict[Cell, list[Past]] = {}
    for wait in waits:
        by_cell.setdefault(wait.cell, []).append(wait)
    found = []
    for wait in waits:
        for age in ages:
            at = wait.began + timedelta(seconds=age)
            if first <= at < wait.until:
                found.append(_try(wait, age, at, by_cell))
    return found


def _try(wait: Past, age: int, at: datetime, by_cell: Mapping[Cell, list[Past]]) -> Tried:
    cluster_id, queue, size = wait.cell
    cells = [(cluster_id, queue, each) for each in at_least(size)]
    history = History({cell: _known(by_cell.get(cell, []), at) for cell in cells})
    estimate = history.estimate(Waiting(cluster_id, queue, size, age, wait.cause_at(at)))
    if estimate.why_not:
        return Tried(age, size, 0, "none")
    lasted = int((wait.until - at).total_seconds())
    return Tried(age, size, estimate.sample, _outcome(wait, lasted, estimate.low, estimate.high))


def _outcome(wait: Past, lasted: int, low: object, high: object) -> Outcome:
    if isinstance(high, int) and lasted > high:
        return "later"
    if not wait.started:
        return "undecided"
    return "earlier" if not isinstance(low, int) or lasted < low else "held"


def _known(waits: Iterable[Past], at: datetime) -> Survival:
    ended: dict[int, int] = {}
    cut: dict[int, int] = {}
    for wait in waits:
        if at - HORIZON <= wait.began < at:
            seconds = int((min(wait.until, at) - wait.began).total_seconds())
            into = ended if wait.started and wait.until <= at else cut
            into[seconds] = into.get(seconds, 0) + 1
    return Survival.of(ended, cut)


def coverage(tried: Iterable[Tried]) -> tuple[float | None, Counter[str]]:
    """The share of decided predictions that held, None of none; and how many of each outcome."""
    counts = Counter(str(one.outcome) for one in tried)
    decided = counts["held"] + counts["earlier"] + counts["later"]
    return (counts["held"] / decided if decided else None), counts
