"""Lengths of waits are kept to three digits, by one rule in Python and in SQL."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from apps.usage.rounding import rounded_seconds, rounded_sql

D = Decimal


@pytest.mark.parametrize(
    ("seconds", "kept"),
    [
        ("0", 0),
        ("0.499999", 0),
        ("0.5", 1),
        ("59.6", 60),
        ("999.4", 999),
        ("999.5", 1000),
        ("1004.9", 1000),
        ("1005", 1010),
        ("5399", 5400),
        ("86400", 86400),
        ("99949.999999", 99900),
        ("99950", 100000),
        ("123456", 123000),
        ("31536000", 31500000),
    ],
)
def test_three_digits_half_up(seconds: str, kept: int) -> None:
    assert rounded_seconds(D(seconds)) == kept


@given(st.decimals(0, 10**10, places=6))
def test_the_error_is_small_and_rounding_twice_is_rounding_once(seconds: Decimal) -> None:
    kept = rounded_seconds(seconds)
    assert abs(kept - seconds) <= max(D("0.5"), seconds * D("0.005"))
    assert rounded_seconds(D(kept)) == kept


@given(st.lists(st.decimals(0, 10**10, places=6), min_size=2, max_size=2).map(sorted))
def test_order_is_kept(pair: list[Decimal]) -> None:
    assert rounded_seconds(pair[0]) <= rounded_seconds(pair[1])


@pytest.mark.django_db
def test_the_database_rounds_alike() -> None:
    values = [D(n) / D(8) for n in range(0, 90_000, 7)] + [D(n) for n in range(999_000, 1_001_000, 37)]
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {rounded_sql('s')} FROM unnest(%s::numeric[]) WITH ORDINALITY t(s, n) ORDER BY n",  # noqa: S608
            [values],
        )
        assert [row[0] for row in cursor.fetchall()] == [rounded_seconds(value) for value in values]
