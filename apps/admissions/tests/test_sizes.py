"""Classes of size at their borders, and the same in SQL."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.db import connection

from apps.admissions.sizes import SIZES, at_least, size_class, size_sql

BORDERS = [
    ("0", "0"),
    ("0.25", "1"),
    ("1", "1"),
    ("1.5", "2-7"),
    ("2", "2-7"),
    ("7", "2-7"),
    ("7.5", "8"),
    ("8", "8"),
    ("9", "9-32"),
    ("32", "9-32"),
    ("33", "33-128"),
    ("128", "33-128"),
    ("129", "129+"),
    ("4096", "129+"),
]


@pytest.mark.parametrize(("amount", "name"), BORDERS)
def test_borders(amount: str, name: str) -> None:
    assert size_class([Decimal(amount)]) == name


def test_kinds_are_not_added_up() -> None:
    assert size_class([Decimal(4), Decimal(7)]) == "2-7"
    assert size_class([]) == "0"


def test_the_same_in_sql(db: None) -> None:
    query = f"SELECT {size_sql('a')} FROM unnest(%s::numeric[]) WITH ORDINALITY u(a, n) ORDER BY n"  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(query, [[*(Decimal(amount) for amount, _name in BORDERS), None]])
        assert [row[0] for row in cursor.fetchall()] == [*(name for _amount, name in BORDERS), "0"]


def test_larger_classes() -> None:
    assert at_least("8") == ("8", "9-32", "33-128", "129+")
    assert at_least("0") == SIZES
    assert at_least("129+") == ("129+",)
