"""The life of a workload as lanes on one time axis. Pure. Input: state spans and now; output: lanes with shares.

Invariant: every span lies in exactly one lane; positions are shares (0 … 1) of the time from the first span to the
end of the last one (to now while one is open).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from apps.observations.models import StateSpan, Workload

# In the order in which work passes through them; the class colours the piece.
LANES = {
    Workload.State.PENDING: "f-quota",
    Workload.State.RESERVED: "f-capacity",
    Workload.State.ADMITTED: "f-ok",
    Workload.State.DEACTIVATED: "f-onhold",
}


@dataclass(frozen=True, slots=True)
class Piece:
    start: float
    width: float
    title: str

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
    style: str
    seconds: float
    pieces: tuple[Piece, ...]


def lanes_of(spans: Sequence[StateSpan], *, now: datetime) -> list[Lane]:
    live = [span for span in spans if span.state != Workload.State.FINISHED]
    if not live:
        return []
    start = min(span.started_at for span in live)
    end = max(span.ended_at or now for span in live)
    whole = max((end - start).total_seconds(), 1.0)
    lanes = []
    for state, style in LANES.items():
        mine = [span for span in live if span.state == state]
        if not mine:
            continue
        lengths = [((span.ended_at or now) - span.started_at).total_seconds() for span in mine]
        pieces = tuple(
            Piece((span.started_at - start).total_seconds() / whole, length / whole, span.reason)
            for span, length in zip(mine, lengths, strict=True)
        )
        lanes.append(Lane(str(state.label), style, sum(lengths), pieces))
    return lanes
