"""When waiting work may start: the range in which comparable work did. Pure.

Input: waits of the last HORIZON by (cluster, queue, size class) as `Survival`s, in which what gave up and what still
waits is cut off, and what a piece of work asks for and has waited; output: an `Estimate`, or why there is none.

Invariants
- Comparable is what waited in the same queue for the same class of size; where too few did, that class and larger ones,
  and it is said. Smaller work says nothing about larger: it starts in gaps in which the larger does not fit.
- Only what waited longer than the work has already counts, so that the range moves on with the clock.
- The range is one for a further wait, not of those seen: the work itself is the (n + 1)st of n, so that its bounds are
  the ⌊(n + 1)/10⌋th and the ⌈9(n + 1)/10⌉th. The plain quantiles of few waits are too narrow for one more.
- A bound that was not reached is None, never the longest wait seen.
- What does not wait for its turn (a stopped queue, a wrong selector, more than any ceiling) gets no range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Literal

from apps.admissions.sizes import at_least
from apps.admissions.statistics import Seconds, Survival

HORIZON = timedelta(days=28)
# How many comparable waits must have ended, and how many of those that lasted as long as this one.
FEWEST_ENDED = 20
FEWEST_AS_LONG = 10
LOW, HIGH = Fraction(1, 10), Fraction(9, 10)
SHARE = HIGH - LOW
# Causes that waiting alone does not end.
NOT_BY_WAITING = frozenset({"configuration", "model", "held"})

Cell = tuple[int, str, str]
"""(cluster id, ClusterQueue or Volcano queue, size class)."""
Basis = Literal["size", "size_or_larger", ""]
WhyNot = Literal["", "no_queue", "not_by_waiting", "too_few", "too_few_as_long"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A piece of work that waits. `cause`: the primary one; `can_fit` False: it asks for more than any ceiling."""

    cluster_id: int
    queue: str
    size: str
    waited: Seconds
    cause: str = ""
    can_fit: bool = True

    @property
    def cell(self) -> Cell:
        return (self.cluster_id, self.queue, self.size)


@dataclass(frozen=True, slots=True)
class Estimate:
    """`low`, `high`: seconds from now between which SHARE of comparable work started; `high` None: not even what waited
    longest shows an end. `sample`: comparable waits that lasted longer than this one has, `ended` those of them that
    ended with quota. With `why_not` there is no range; `sample` and `ended` then say how few there were."""

    low: Seconds | None = None
    high: Seconds | None = None
    sample: int = 0
    ended: int = 0
    basis: Basis = ""
    why_not: WhyNot = ""


class History:
    """What is known of waits, by cell."""

    def __init__(self, cells: Mapping[Cell, Survival]) -> None:
        self._cells = dict(cells)
        self._larger: dict[Cell, Survival] = {}

    def estimate(self, work: Waiting) -> Estimate:
        if work.cause in NOT_BY_WAITING or not work.can_fit:
            return Estimate(why_not="not_by_waiting")
        if not work.queue:
            return Estimate(why_not="no_queue")
        same = _estimate(self._same(work.cell), work.waited, "size")
        if not same.why_not:
            return same
        return _estimate(self._or_larger(work.cell), work.waited, "size_or_larger")

    def _same(self, cell: Cell) -> Survival:
        return self._cells.get(cell, _NOTHING)

    def _or_larger(self, cell: Cell) -> Survival:
        if cell not in self._larger:
            cluster_id, queue, size = cell
            parts = [self._same((cluster_id, queue, each)) for each in at_least(size)]
            self._larger[cell] = sum(parts, _NOTHING)
        return self._larger[cell]


_NOTHING = Survival.of({}, {})


def _estimate(known: Survival, waited: Seconds, basis: Basis) -> Estimate:
    ended_in_all, ended, sample = known.ended(), known.ended(after=waited), known.at_risk(after=waited)
    if ended_in_all < FEWEST_ENDED:
        return Estimate(sample=known.at_risk(), ended=ended_in_all, why_not="too_few")
    if ended < FEWEST_AS_LONG:
        return Estimate(sample=sample, ended=ended, why_not="too_few_as_long")
    low, high = known.quantiles(bounds(sample), after=waited)
    return Estimate(
        low=None if low is None else low - waited,
        high=None if high is None else high - waited,
        sample=sample,
        ended=ended,
        basis=basis,
    )


def bounds(sample: int) -> tuple[Fraction, Fraction]:
    """The shares of `sample` waits between which one more falls with SHARE. Of fewer than 9 there are none."""
    low = int(LOW * (sample + 1))
    high = -int(-HIGH * (sample + 1) // 1)
    if low < 1 or high > sample:
        raise ValueError("too few waits for a range")
    return Fraction(low, sample), Fraction(high, sample)
