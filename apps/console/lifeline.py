"""The life of work as lanes on one time axis. Pure. Input: stretches; output: lanes with shares, and the axis.

Invariant: every stretch lies in the lane of its phase; positions are shares (0 … 1) of the time from the first stretch to
the end of the last one. What came after the end of the work (its object is merely kept) is not drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.timezone import localtime

from apps.admissions.life import Stretch
from apps.admissions.life_relation import PHASES
from apps.admissions.life_words import phase_label

TICKS = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """`number`: of the row in the table of stretches that tells the whole text."""

    number: int
    start: float
    width: float
    style: str
    stretch: Stretch

    @property
    def x(self) -> str:
        return f"{self.start * 100:.2f}%"

    @property
    def w(self) -> str:
        """At least a hairline: the shortest stay must be seen."""
        return f"{max(self.width * 100, 0.4):.2f}%"


@dataclass(frozen=True, slots=True)
class Lane:
    label: str
    seconds: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    x: str
    anchor: str
    text: str


def lanes_of(stretches: Sequence[Stretch]) -> list[Lane]:
    """In the order in which work passes through phases; `stretches` in order of time."""
    drawn = _drawn(stretches)
    if not drawn:
        return []
    start, whole = drawn[0].started_at, _whole(drawn)
    lanes = []
    for phase in PHASES:
        pieces = tuple(
            Piece(
                number, (each.started_at - start) / whole, (each.until_at - each.started_at) / whole, _style(each), each
            )
            for number, each in enumerate(stretches, start=1)
            if each.phase == phase and phase != "finished"
        )  # fmt: skip
        if pieces:
            lanes.append(Lane(phase_label(phase), sum(piece.stretch.seconds for piece in pieces), pieces))
    return lanes


def ticks_of(stretches: Sequence[Stretch]) -> list[Tick]:
    """Times along the axis; with the day where the axis reaches over more than one."""
    drawn = _drawn(stretches)
    if not drawn:
        return []
    start, whole = drawn[0].started_at, _whole(drawn)
    days = {localtime(start).date(), localtime(start + whole).date()}
    pattern = "%H:%M:%S" if whole < timedelta(minutes=TICKS) else "%H:%M" if len(days) == 1 else "%m-%d %H:%M"
    anchors = {0: "start", TICKS: "end"}
    return [
        Tick(f"{100 * n // TICKS}%", anchors.get(n, "middle"), _text(start + whole * n / TICKS, pattern))
        for n in range(TICKS + 1)
    ]


def _text(at: datetime, pattern: str) -> str:
    return localtime(at).strftime(pattern)


def _drawn(stretches: Sequence[Stretch]) -> list[Stretch]:
    return [each for each in stretches if each.phase != "finished"]


def _whole(drawn: Sequence[Stretch]) -> timedelta:
    return max(max(each.until_at for each in drawn) - drawn[0].started_at, timedelta(seconds=1))


def _style(stretch: Stretch) -> str:
    if not stretch.cause:
        return "f-ok"
    return "f-onhold" if stretch.cause == "held" else f"f-{stretch.cause}"
