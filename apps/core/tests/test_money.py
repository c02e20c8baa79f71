"""Money: minor units, one rounding, parts that add up."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.money import CURRENCIES, CurrencyError, minor_digits, minor_unit, round_money, round_parts

D = Decimal


def test_minor_units_follow_iso_4217() -> None:
    assert [minor_digits(code) for code in ("USD", "CNY", "JPY", "KWD", "CLF")] == [2, 2, 0, 3, 4]
    assert minor_unit("KWD") == D("0.001")
    for wrong in ("", "usd", "XXX", "DOLLAR"):
        with pytest.raises(CurrencyError):
            minor_digits(wrong)


def test_rounding_is_half_to_even() -> None:
    assert round_money(D("0.125"), "USD") == D("0.12")
    assert round_money(D("0.135"), "USD") == D("0.14")
    assert round_money(D("-0.125"), "USD") == D("-0.12")
    assert round_money(D("2.5"), "JPY") == D(2)
    assert round_money(D("12345678901234567890.125"), "USD") == D("12345678901234567890.12")


def test_left_over_cents_go_to_the_largest_remainders() -> None:
    third = D(100) / 3
    assert round_parts([third, third, third], "USD") == [D("33.34"), D("33.33"), D("33.33")]
    assert round_parts([D("0.004"), D("0.009"), D("0.007")], "USD") == [D("0.00"), D("0.01"), D("0.01")]
    assert round_parts([], "USD") == []


@given(st.lists(st.decimals("-1e9", "1e9", places=9), max_size=40), st.sampled_from(sorted(CURRENCIES)))
def test_parts_add_up_to_the_total_rounded_once(amounts: list[Decimal], currency: str) -> None:
    parts = round_parts(amounts, currency)
    unit = minor_unit(currency)
    assert sum(parts, D(0)) == round_money(sum(amounts, D(0)), currency)
    assert all(
        abs(part - amount) < 1 * unit or part == amount for part, amount in zip(parts, amounts, strict=True)
    )
    assert all(part == part.quantize(unit) for part in parts)
