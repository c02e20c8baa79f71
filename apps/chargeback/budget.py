"""How a budget stands. Input: what a team spent in a month, how far the month has gone, and its plan; output: what is left,
what the whole month costs at this pace, and which thresholds are crossed.

Pure. Invariants
- Percents are rounded down, so that none is shown as reached before it is; a threshold is crossed at exactly its share.
- What was spent in another currency is told and never added.
- There is no forecast of the first 24 hours, nor of a month that is over."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction

from apps.core.money import round_money, round_parts

FORECAST_AFTER = timedelta(hours=24)


class Measure(StrEnum):
    """What a threshold is of: what is spent, or what the month will have cost at the present pace."""

    SPENT = "spent"
    FORECAST = "forecast"


@dataclass(frozen=True, slots=True, order=True)
class Threshold:
    """`percent` of the amount."""

    measure: Measure
    percent: int


@dataclass(frozen=True, slots=True)
class Plan:
    """`amount` > 0 for a month. `forecast` None: nobody wants to hear of the pace."""

    amount: Decimal
    currency: str
    percents: Sequence[int] = ()
    forecast: int | None = None


@dataclass(frozen=True, slots=True)
class Course:
    """A month [start, end) in UTC, whose cost is known up to `at`."""

    start: datetime
    end: datetime
    at: datetime

    @property
    def gone(self) -> timedelta:
        return min(self.at, self.end) - self.start


@dataclass(frozen=True, slots=True)
class Standing:
    """`spent` in the plan's currency, `elsewhere` {currency: amount} in others. `at_least`: some use has no price, so that
    it is more. `forecast` None: there is none."""

    plan: Plan
    spent: Decimal
    forecast: Decimal | None
    elsewhere: Mapping[str, Decimal] = field(default_factory=dict)
    at_least: bool = False

    @property
    def left(self) -> Decimal:
        """Negative: so much is spent beyond the budget."""
        return self.plan.amount - self.spent

    @property
    def percent(self) -> int:
        return percent_of(self.spent, self.plan.amount)

    @property
    def forecast_percent(self) -> int | None:
        return None if self.forecast is None else percent_of(self.forecast, self.plan.amount)

    @property
    def crossed(self) -> list[Threshold]:
        """Those of what is spent first, each from the lowest."""
        found = [Threshold(Measure.SPENT, each) for each in self.plan.percents if self.percent >= each]
        wanted, expected = self.plan.forecast, self.forecast_percent
        if wanted is not None and expected is not None and expected >= wanted:
            found.append(Threshold(Measure.FORECAST, wanted))
        return found


def standing(
    plan: Plan, totals: Mapping[str, Decimal], course: Course, *, at_least: bool = False
) -> Standing:
    """`totals`: {currency: what the team's statement of the month comes to}."""
    spent = totals.get(plan.currency, Decimal(0))
    return Standing(
        plan=plan,
        spent=round_money(spent, plan.currency),
        forecast=forecast_of(spent, course, plan.currency),
        elsewhere={code: amount for code, amount in totals.items() if code != plan.currency},
        at_least=at_least,
    )


def forecast_of(spent: Decimal, course: Course, currency: str) -> Decimal | None:
    """What the month will have cost if it goes on as it went so far: linear over the time that is gone."""
    gone = course.gone
    if gone < FORECAST_AFTER or course.at >= course.end:
        return None
    exact = Fraction(spent) * Fraction(_microseconds(course.end - course.start), _microseconds(gone))
    return round_parts([exact], currency)[0]


def percent_of(part: Decimal, whole: Decimal) -> int:
    return math.floor(Fraction(part) * 100 / Fraction(whole))


def _microseconds(span: timedelta) -> int:
    return span // timedelta(microseconds=1)
