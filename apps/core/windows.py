"""Windows of time, half-open and in UTC. Input: a query's text; output: `Window` and its buckets.

Invariants: `start < end`, both aware and in UTC; `end` itself is never inside; the buckets of a window lie on
whole hours or whole UTC days, follow each other without a gap and cover it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from django.utils.dateparse import parse_date, parse_datetime
from django.utils.translation import gettext as _

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
LONGEST = timedelta(days=731)
# Up to this length a chart shows hours, above it days: at most 72 hourly points.
HOURLY_UP_TO = timedelta(days=3)
PRESETS = ("24h", "3d", "7d", "14d", "30d", "90d")

_RELATIVE = re.compile(r"([0-9]{1,5})([hd])")


class WindowError(ValueError):
    """The text names no window; the message is a translated sentence for the person who typed it."""


class Bucket(StrEnum):
    HOUR = "hour"
    DAY = "day"

    @property
    def length(self) -> timedelta:
        return HOUR if self is Bucket.HOUR else DAY


@dataclass(frozen=True, slots=True)
class Window:
    """`[start, end)` in UTC."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError("a window needs aware times")
        if self.start >= self.end:
            raise ValueError("a window ends after it starts")
        object.__setattr__(self, "start", self.start.astimezone(UTC))
        object.__setattr__(self, "end", self.end.astimezone(UTC))

    @property
    def length(self) -> timedelta:
        return self.end - self.start

    def __contains__(self, at: datetime) -> bool:
        return self.start <= at < self.end

    def aligned(self, bucket: Bucket) -> Window:
        """The smallest window of whole buckets that covers this one."""
        start, end = floor(self.start, bucket), floor(self.end, bucket)
        return Window(start, end if end == self.end else end + bucket.length)

    def buckets(self, bucket: Bucket) -> Iterator[Window]:
        """The whole buckets that cover the window, oldest first; the first and last may stick out."""
        covered = self.aligned(bucket)
        start = covered.start
        while start < covered.end:
            yield Window(start, start + bucket.length)
            start += bucket.length


def floor(at: datetime, bucket: Bucket) -> datetime:
    """The start of the UTC hour or day that `at` lies in."""
    at = at.astimezone(UTC)
    hour = 0 if bucket is Bucket.DAY else at.hour
    return at.replace(hour=hour, minute=0, second=0, microsecond=0)


def floor_hour(at: datetime) -> datetime:
    return floor(at, Bucket.HOUR)


def choose_bucket(window: Window) -> Bucket:
    """Hours up to three days, days beyond."""
    return Bucket.HOUR if window.length <= HOURLY_UP_TO else Bucket.DAY


def parse_window(
    *, now: datetime, text: str = "", start_text: str = "", end_text: str = "", default: str = "24h"
) -> Window:
    """`text` like "24h" or "14d" counts back from `now`; otherwise `start_text`/`end_text` are RFC 3339 times or
    dates (a date is its UTC midnight), the end exclusive and `now` when empty. Raises WindowError."""
    if start_text or end_text:
        if text:
            raise WindowError(_("Give either a length such as 7d, or from and to; not both."))
        window = _absolute(now=now, start_text=start_text, end_text=end_text)
    else:
        window = _relative(now=now, text=text or default)
    if window.length > LONGEST:
        raise WindowError(_("The window is longer than two years."))
    return window


def _relative(*, now: datetime, text: str) -> Window:
    match = _RELATIVE.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise WindowError(_("%(text)r is not a length of time: write 24h or 7d.") % {"text": text[:40]})
    length = int(match[1]) * (HOUR if match[2] == "h" else DAY)
    if length > LONGEST:
        raise WindowError(_("The window is longer than two years."))
    return Window(now - length, now)


def _absolute(*, now: datetime, start_text: str, end_text: str) -> Window:
    if not start_text:
        raise WindowError(_("The window has an end but no start: add from."))
    start = parse_instant(start_text)
    end = parse_instant(end_text) if end_text else now
    if start >= end:
        raise WindowError(_("The window ends before it starts."))
    return Window(start, end)


def parse_instant(text: str) -> datetime:
    """An RFC 3339 time, or a date as its UTC midnight. A time without zone is refused: it would be a guess."""
    text = text.strip()[:64]
    try:
        date = parse_date(text)
        moment = None if date else parse_datetime(text)
    except ValueError:
        moment = date = None
    if date is not None:
        return datetime(date.year, date.month, date.day, tzinfo=UTC)
    if moment is None:
        raise WindowError(
            _("%(text)r is not a time: write 2026-12-01 or 2026-12-01T08:00:00Z.") % {"text": text[:40]}
        )
    if moment.tzinfo is None:
        raise WindowError(_("%(text)r has no time zone: end it with Z or +08:00.") % {"text": text[:40]})
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise WindowError(_("%(text)r is out of range.") % {"text": text[:40]}) from error
