"""How long waits last when some are cut off: Kaplan–Meier's product-limit estimate, exact. Pure.

Input: how many waits ended after how many seconds, and how many were cut off ("censored": still waiting, or given up:
all that is known is that they lasted longer); output: `Survival` with its quantiles and sample sizes.

Invariants
- Survival falls at lengths at which something ended, by (1 − ended / at risk); whoever was cut off at the same
  length is still at risk there. Without censoring a quantile is the plain empirical one.
- A quantile is the smallest length that the share p did not outlast: F(t) ≥ p. It is None where it was not reached,
  never the longest length seen. Comparisons are between whole numbers: no rounding decides.
- Conditional on having waited t, only what lasted longer than t counts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate

Seconds = int | Decimal
Counts = Mapping[Seconds, int] | Mapping[int, int] | Mapping[Decimal, int]


@dataclass(frozen=True, slots=True)
class Survival:
    """`lengths` (seconds) rise; of each, how many ended and were cut off at it; `risks`: how many lasted so long."""

    lengths: tuple[Seconds, ...]
    ends: tuple[int, ...]
    cuts: tuple[int, ...]
    risks: tuple[int, ...]

    @classmethod
    def of(cls, ended: Counts, censored: Counts) -> Survival:
        """From histograms {seconds: how many}."""
        sample: dict[Seconds, tuple[int, int]] = {length: (count, 0) for length, count in ended.items()}
        for length, count in censored.items():
            sample[length] = (sample.get(length, (0, 0))[0], count)
        if any(length < 0 or min(counts) < 0 for length, counts in sample.items()):
            raise ValueError("neither lengths nor counts are negative")
        rows = sorted((length, *counts) for length, counts in sample.items() if any(counts))
        return cls._of_rows(rows)

    @classmethod
    def _of_rows(cls, rows: Collection[tuple[Seconds, int, int]]) -> Survival:
        ends = tuple(row[1] for row in rows)
        cuts = tuple(row[2] for row in rows)
        left = accumulate(reversed([end + cut for end, cut in zip(ends, cuts, strict=True)]))
        return cls(tuple(row[0] for row in rows), ends, cuts, tuple(left)[::-1])

    def __add__(self, other: Survival) -> Survival:
        """Both samples as one."""
        sums: dict[Seconds, tuple[int, int]] = {}
        for part in (self, other):
            for length, end, cut in zip(part.lengths, part.ends, part.cuts, strict=True):
                before = sums.get(length, (0, 0))
                sums[length] = before[0] + end, before[1] + cut
        return self._of_rows(sorted((length, *counts) for length, counts in sums.items()))

    # ---- sample sizes -------------------------------------------------------------------------------------
    def _from(self, after: Seconds | None) -> int:
        return 0 if after is None else bisect_right(self.lengths, after)

    def at_risk(self, *, after: Seconds | None = None) -> int:
        """How many lasted longer than `after`; None: all."""
        start = self._from(after)
        return self.risks[start] if start < len(self.risks) else 0

    def ended(self, *, after: Seconds | None = None) -> int:
        return sum(self.ends[self._from(after) :])

    def censored(self, *, after: Seconds | None = None) -> int:
        return sum(self.cuts[self._from(after) :])

    @property
    def longest(self) -> Seconds | None:
        """The longest that anything was seen to last, ended or not."""
        return self.lengths[-1] if self.lengths else None

    # ---- the estimate -------------------------------------------------------------------------------------
    def _falls(self, after: Seconds | None) -> Iterator[tuple[Seconds, int, int]]:
        """(length, numerator, denominator) of survival wherever it falls, among what lasted longer than `after`. Not
        reduced but for what cancels from step to step: multiplying by a small number is all that a step costs."""
        up, down, kept = 1, 1, 1
        for i in range(self._from(after), len(self.lengths)):
            if not self.ends[i]:
                continue
            # After a step without a cut, `kept` of before are exactly those at risk now.
            if kept != self.risks[i]:
                up, down = up * kept, down * self.risks[i]
            kept = self.risks[i] - self.ends[i]
            yield self.lengths[i], up * kept, down
            if not kept:
                return

    def survives(self, length: Seconds) -> Fraction:
        """The share that lasts longer than `length`; 1 where nothing is known."""
        up, down = 1, 1
        for at, over, under in self._falls(None):
            if at > length:
                break
            up, down = over, under
        return Fraction(up, down)

    @property
    def reached(self) -> Fraction:
        """The largest share of which a quantile is known."""
        return 1 - self.survives(self.lengths[-1]) if self.lengths else Fraction(0)

    def quantile(self, p: Fraction, *, after: Seconds | None = None) -> Seconds | None:
        """The length (from the beginning, in seconds) that the share p does not outlast, among what lasted longer than
        `after`; None: not reached."""
        return self.quantiles([p], after=after)[0]

    def quantiles(
        self, shares: Collection[Fraction], *, after: Seconds | None = None
    ) -> list[Seconds | None]:
        """Several at once, in the order of `shares`."""
        if not all(0 < p <= 1 for p in shares):
            raise ValueError("a quantile's share lies between 0 (excluded) and 1")
        found: dict[Fraction, Seconds] = {}
        left = sorted(set(shares), reverse=True)
        for length, up, down in self._falls(after):
            while left and up * left[-1].denominator <= down * (left[-1].denominator - left[-1].numerator):
                found[left.pop()] = length
            if not left:
                break
        return [found.get(p) for p in shares]
