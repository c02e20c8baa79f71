from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.utils import translation

from apps.core.formats import (
    bytes_text,
    duration_text,
    number_text,
    quantities_text,
    resource_text,
    show_value,
    time_text,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (Decimal("-0.01"), "0"),
        (1024, "1,024"),
        (Decimal("8.000"), "8"),
        (Decimal("1234567.25"), "1,234,567.3"),
        (Decimal("-4"), "-4"),
        (0.5, "0.5"),
        (Decimal("Infinity"), "∞"),
        (Decimal("NaN"), "–"),
    ],
)
def test_numbers_are_grouped_and_short(value: Decimal, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 m"),
        (3599, "59 m"),
        (3660, "1 h 01 m"),
        (90000, "1 d 1 h"),
        (-5, "0 s"),
    ],
)
def test_durations_show_the_two_largest_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_resources_lose_their_domain_but_not_their_meaning() -> None:
    assert [
        resource_text(name) for name in ("nvidia.com/gpu", "amd.com/gpu", "huawei.com/Ascend910", "cpu")
    ] == [
        "GPU",
        "AMD GPU",
        "Ascend910",
        "cpu",
    ]


def test_quantities_of_different_kinds_are_listed_not_added() -> None:
    asked = {"nvidia.com/gpu": Decimal(64), "nvidia.com/mig-1g.10gb": Decimal(2), "cpu": Decimal(0)}
    assert quantities_text(asked) == "64 × GPU, 2 × mig-1g.10gb"
    assert quantities_text({}) == "–"


def test_the_five_states_differ_in_words_and_in_looks() -> None:
    value, zero, absent = show_value(7), show_value(0), show_value(None)
    stale, partial = show_value(7, age_seconds=1320), show_value(7, missing=["prod-b"])
    assert "not collected" in absent
    assert "0" not in absent
    assert "v-zero" in zero
    assert "v-zero" not in value
    assert "22 m old" in stale
    assert "without prod-b" in partial
    assert len({str(shown) for shown in (value, zero, absent, stale, partial)}) == 5


def test_a_value_is_escaped() -> None:
    assert "<b>" not in show_value("<b>x</b>")
    assert "<b>" not in show_value(1, missing=["<b>"])


def test_a_time_names_its_zone_and_the_day_unless_it_is_today() -> None:
    now = datetime(2026, 12, 1, 14, 5, 20, tzinfo=UTC)
    assert time_text(now, now=now) == "14:05:20 UTC"
    assert time_text(datetime(2026, 11, 30, 9, 0, tzinfo=UTC), now=now) == "2026-11-30 09:00 UTC"


def test_both_ends_of_a_span_have_their_date_or_neither() -> None:
    now, before = datetime(2026, 12, 1, 14, 5, 20, tzinfo=UTC), datetime(2026, 11, 30, 14, 5, tzinfo=UTC)
    assert time_text(now, now=now, beside=before) == "2026-12-01 14:05 UTC"
    assert time_text(before, now=now, beside=now) == "2026-11-30 14:05 UTC"
    assert time_text(now, now=now, beside=now) == "14:05:20 UTC"


def test_bytes_read_in_binary_units() -> None:
    assert [bytes_text(size) for size in (0, 1023, 1536, 34359738368)] == [
        "0 B",
        "1,023 B",
        "1.5 KiB",
        "32 GiB",
    ]


def test_durations_are_translated() -> None:
    with translation.override("zh-hans"):
        assert "小时" in duration_text(3660)
