"""Windows: what people type, buckets, and the errors that they read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.window_form import WindowForm
from apps.core.windows import Bucket, Window, WindowError, choose_bucket, floor, parse_window

NOW = datetime(2026, 12, 2, 10, 30, tzinfo=UTC)


def test_a_length_counts_back_from_now() -> None:
    assert parse_window(now=NOW, text="24h") == Window(NOW - timedelta(hours=24), NOW)
    assert parse_window(now=NOW, text="14d") == Window(NOW - timedelta(days=14), NOW)
    assert parse_window(now=NOW, default="7d").length == timedelta(days=7)


def test_from_and_to_are_half_open_dates_or_times() -> None:
    window = parse_window(now=NOW, start_text="2026-12-01", end_text="2026-12-02")
    assert window == Window(datetime(2026, 12, 1, tzinfo=UTC), datetime(2026, 12, 2, tzinfo=UTC))
    assert window.end not in window
    shanghai = parse_window(now=NOW, start_text="2026-12-02T08:00:00+08:00")
    assert shanghai == Window(datetime(2026, 12, 2, tzinfo=UTC), NOW)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"text": "soon"}, "'soon' is not a length of time: write 24h or 7d."),
        ({"text": "0h"}, "'0h' is not a length of time: write 24h or 7d."),
        ({"text": "-3d"}, "'-3d' is not a length of time: write 24h or 7d."),
        ({"text": "99999d"}, "The window is longer than two years."),
        ({"text": "7d", "start_text": "2026-12-01"}, "not both"),
        ({"end_text": "2026-12-01"}, "no start"),
        ({"start_text": "2026-12-02", "end_text": "2026-12-01"}, "ends before it starts"),
        ({"start_text": "2026-12-01", "end_text": "2026-12-01"}, "ends before it starts"),
        ({"start_text": "2026-12-01T08:00:00"}, "has no time zone"),
        ({"start_text": "2026-13-01"}, "is not a time"),
        ({"start_text": "2026-02-30T00:00:00Z"}, "is not a time"),
        ({"start_text": "yesterday"}, "is not a time"),
        ({"start_text": "0001-01-01T00:00:00+14:00"}, "is out of range"),
        ({"start_text": "2020-01-01"}, "longer than two years"),
    ],
)
def test_what_names_no_window_says_why(query: dict[str, str], sentence: str) -> None:
    with pytest.raises(WindowError) as raised:
        parse_window(now=NOW, **query)
    assert sentence in str(raised.value)


def test_buckets_are_whole_hours_or_utc_days() -> None:
    window = Window(datetime(2026, 12, 1, 22, 15, tzinfo=UTC), datetime(2026, 12, 2, 1, 0, tzinfo=UTC))
    assert [piece.start.hour for piece in window.buckets(Bucket.HOUR)] == [22, 23, 0]
    assert [piece.start.day for piece in window.buckets(Bucket.DAY)] == [1, 2]
    assert choose_bucket(parse_window(now=NOW, text="3d")) is Bucket.HOUR
    assert choose_bucket(parse_window(now=NOW, text="73h")) is Bucket.DAY


def test_times_of_other_zones_become_utc() -> None:
    tokyo = timezone(timedelta(hours=9))
    window = Window(datetime(2026, 12, 2, 1, tzinfo=tokyo), datetime(2026, 12, 2, 2, tzinfo=tokyo))
    assert window.start == datetime(2026, 12, 1, 16, tzinfo=UTC)
    assert window.start.tzinfo is UTC
    assert floor(datetime(2026, 12, 2, 1, tzinfo=tokyo), Bucket.DAY) == datetime(2026, 12, 1, tzinfo=UTC)
    with pytest.raises(ValueError, match="aware"):
        Window(datetime(2026, 12, 1), datetime(2026, 12, 2))


@given(
    st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),
    st.timedeltas(timedelta(seconds=1), timedelta(days=12)),
    st.sampled_from(list(Bucket)),
)
def test_buckets_cover_the_window_without_gap(start: datetime, length: timedelta, bucket: Bucket) -> None:
    window = Window(start, start + length)
    pieces = list(window.buckets(bucket))
    assert pieces[0].start <= window.start < pieces[0].end
    assert pieces[-1].start < window.end <= pieces[-1].end
    assert all(left.end == right.start for left, right in pairwise(pieces))


@given(st.text(max_size=60))
def test_no_text_breaks_the_form(text: str) -> None:
    form = WindowForm({"window": text, "from": "", "to": ""}, now=NOW)
    assert form.is_valid() or form.errors["window"]


def test_the_form_takes_from_and_to() -> None:
    form = WindowForm({"from": "2026-12-01", "to": "2026-12-02"}, now=NOW)
    assert form.is_valid()
    assert form.time_window.length == timedelta(days=1)
    wrong = WindowForm({"from": "2026-12-03", "to": "2026-12-02"}, now=NOW)
    assert not wrong.is_valid()
    assert list(wrong.errors) == ["from"]
    with pytest.raises(ValueError, match="not valid"):
        _ = wrong.time_window
