"""Calendar months of a time zone as stretches of UTC. Input: a month and an IANA zone; output: its bounds.

Pure. Invariants: months of one zone follow each other without a gap; one in which clocks change is an hour longer or
shorter, and its bounds say so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

_MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])")


@dataclass(frozen=True, slots=True, order=True)
class Month:
    """`zone`: IANA."""

    year: int
    number: int
    zone: str = "UTC"

    @classmethod
    def parse(cls, text: str, zone: str = "UTC") -> Month:
        """ "2026-03". Raises ValueError."""
        found = _MONTH.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is no month such as 2026-03")
        return cls(int(found[1]), int(found[2]), zone)

    @classmethod
    def of(cls, at: datetime, zone: str = "UTC") -> Month:
        """The month in which an instant lies."""
        there = at.astimezone(ZoneInfo(zone))
        return cls(there.year, there.month, zone)

    @property
    def next(self) -> Month:
        year, number = divmod(self.year * 12 + self.number, 12)
        return Month(year, number + 1, self.zone)

    @property
    def previous(self) -> Month:
        year, number = divmod(self.year * 12 + self.number - 2, 12)
        return Month(year, number + 1, self.zone)

    @property
    def start(self) -> datetime:
        return datetime(self.year, self.number, 1, tzinfo=ZoneInfo(self.zone)).astimezone(UTC)

    @property
    def end(self) -> datetime:
        return self.next.start

    def __str__(self) -> str:
        return f"{self.year:04}-{self.number:02}"


def months(start: datetime, end: datetime, zone: str) -> Iterator[Month]:
    """Those that touch [start, end), in order."""
    month = Month.of(start, zone)
    while month.start < end:
        yield month
        month = month.next
