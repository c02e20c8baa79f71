"""How a budget stands, worked out by hand, and what must hold for any."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.chargeback.budget import (
    FORECAST_AFTER,
    Course,
    Measure,
    Plan,
    Threshold,
    forecast_of,
    percent_of,
    standing,
)

D = Decimal
START, END = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)
PLAN = Plan(D("12000.00"), "USD", (50, 80, 100), 100)


def course(days: float) -> Course:
    return Course(START, END, START + timedelta(days=days))


def test_a_month_worked_out_by_hand() -> None:
    """7,320.45 of 12,000 after 18 of 31 days: 61.003 %; 7320.45 × 31 / 18 = 12607.4416… → 105.06 %."""
    found = standing(PLAN, {"USD": D("7320.45"), "EUR": D("9.00")}, course(18), at_least=True)
    assert (found.spent, found.left, found.percent) == (D("7320.45"), D("4679.55"), 61)
    assert (found.forecast, found.forecast_percent) == (D("12607.44"), 105)
    assert found.crossed == [Threshold(Measure.SPENT, 50), Threshold(Measure.FORECAST, 100)]
    assert (found.elsewhere, found.at_least) == ({"EUR": D("9.00")}, True)


@pytest.mark.parametrize(
    ("spent", "percent", "crossed"),
    [
        ("0", 0, []),
        ("5999.99", 49, []),
        ("6000", 50, [50]),
        ("9600", 80, [50, 80]),
        ("11999.99", 99, [50, 80]),
        ("12000", 100, [50, 80, 100]),
        ("30000", 250, [50, 80, 100]),
        ("-0.01", -1, []),
    ],
)
def test_a_threshold_is_crossed_at_exactly_its_share(spent: str, percent: int, crossed: list[int]) -> None:
    found = standing(PLAN, {"USD": D(spent)}, course(40))
    assert found.percent == percent
    assert found.crossed == [Threshold(Measure.SPENT, each) for each in crossed]


@pytest.mark.parametrize(
    ("days", "forecast"),
    [(0, None), (0.99, None), (1, "310.00"), (15.5, "20.00"), (30, "10.33"), (31, None), (45, None)],
)
def test_there_is_a_forecast_from_the_first_day_on_until_the_month_is_over(
    days: float, forecast: str | None
) -> None:
    assert forecast_of(D(10), course(days), "USD") == (None if forecast is None else D(forecast))


def test_what_was_spent_in_another_currency_is_not_added() -> None:
    found = standing(PLAN, {"EUR": D("99999")}, course(18))
    assert (found.spent, found.percent, found.crossed) == (D("0.00"), 0, [])


def test_without_a_threshold_of_the_forecast_none_is_crossed() -> None:
    found = standing(Plan(D(1), "USD", (), None), {"USD": D(9)}, course(18))
    assert (found.forecast_percent, found.crossed) == (1550, [])


MONEY = st.decimals(min_value=0, max_value=10**9, places=2)
AMOUNT = st.decimals(min_value=D("0.01"), max_value=10**9, places=2)
HOURS = st.integers(min_value=24, max_value=31 * 24 - 1)


@given(spent=MONEY, hours=HOURS)
def test_a_forecast_is_exact_to_half_a_cent_and_never_below_what_is_spent(spent: Decimal, hours: int) -> None:
    found = forecast_of(spent, course(hours / 24), "USD")
    assert found is not None
    assert found >= spent
    assert abs(Fraction(found) - Fraction(spent) * 744 / hours) <= Fraction(1, 200)


@given(spent=MONEY, more=MONEY, amount=AMOUNT, hours=HOURS)
def test_who_spends_more_has_crossed_no_less(
    spent: Decimal, more: Decimal, amount: Decimal, hours: int
) -> None:
    plan, at = Plan(amount, "USD", (50, 80, 100), 120), course(hours / 24)
    less, all_of_it = (standing(plan, {"USD": each}, at) for each in (spent, spent + more))
    assert set(less.crossed) <= set(all_of_it.crossed)
    assert less.spent + less.left == amount


@given(part=MONEY, whole=AMOUNT)
def test_a_percent_is_never_shown_before_it_is_reached(part: Decimal, whole: Decimal) -> None:
    percent = percent_of(part, whole)
    assert percent * whole <= part * 100 < (percent + 1) * whole


def test_a_forecast_waits_a_day() -> None:
    assert timedelta(hours=24) == FORECAST_AFTER
