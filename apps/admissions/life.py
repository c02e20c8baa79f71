"""The life of one piece of work, in words that can be shown. Pure.

Input: `Stretch`es (rows of `LIFE` with the block that each is in), eviction events, the kept count of evictions;
output: a `Life`: its stretches, waits, attempts, evictions with who preempted whom, and its outcome.

Invariants: neighbours that say the same are one stretch; nothing is invented: an eviction that only a counter knows is
counted as not seen, and has neither time nor length.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

WAITING = frozenset({"gated", "queued"})
PLACED = frozenset({"unplaced", "provisioning", "starting", "running", "evicted"})

_PREEMPTED = re.compile(
    r"\(UID: (?P<uid>[^\s,()]{1,128})(?:, JobUID: (?P<job>[^\s,()]{1,128}))?\)"
    r" due to (?P<why>[^;]{1,200})(?:; preemptor path: (?P<preemptor>[^;\s]{1,1000}))?"
    r"(?:; preemptee path: (?P<preemptee>[^;\s]{1,1000}))?"
)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Time in one phase for one reason. `ended_at` None: it lasts, and was last seen at `until_at`. `layer`, `cause`
    and `rule` are "" where the phase keeps nothing from running."""

    phase: str
    started_at: datetime
    ended_at: datetime | None
    until_at: datetime
    state: str = ""
    queue: str = ""
    reason: str = ""
    message: str = ""
    evidence: str = ""
    attempt: int = 0
    layer: str = ""
    cause: str = ""
    rule: str = ""

    @property
    def length(self) -> timedelta:
        return self.until_at - self.started_at

    @property
    def seconds(self) -> int:
        return int(self.length.total_seconds())


@dataclass(frozen=True, slots=True)
class Preemption:
    """Who took the quota: the preemptor's uid and, where the text says them, both queues (the ends of their paths)."""

    by_uid: str
    by_job_uid: str
    why: str
    preemptor_queue: str
    preemptee_queue: str


@dataclass(frozen=True, slots=True)
class Eviction:
    at: datetime
    reason: str
    message: str
    preemption: Preemption | None


@dataclass(frozen=True, slots=True)
class Wait:
    """From the first stretch before quota to the reservation. `seconds`: without backoff and held."""

    which: str
    began_at: datetime
    ended_at: datetime | None
    seconds: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """One placement. `ran_seconds`: in the phase "running"."""

    number: int
    began_at: datetime
    ended_at: datetime | None
    ran_seconds: int


@dataclass(frozen=True, slots=True)
class Life:
    """`unseen_evictions`: those that the cluster counts and nobody saw happen."""

    stretches: Sequence[Stretch]
    waits: Sequence[Wait]
    attempts: Sequence[Attempt]
    evictions: Sequence[Eviction]
    unseen_evictions: int

    @property
    def now(self) -> Stretch | None:
        """The stretch that lasts; None when the work is gone."""
        last = self.stretches[-1] if self.stretches else None
        return last if last is not None and last.ended_at is None else None

    @property
    def outcome(self) -> str:
        """The reason of the end, "" while there is none."""
        last = self.stretches[-1] if self.stretches else None
        return last.reason or last.message if last is not None and last.phase == "finished" else ""


def preemption_in(text: str) -> Preemption | None:
    """The preemption that an eviction's text tells of; None for other texts."""
    found = _PREEMPTED.search(text)
    if found is None:
        return None
    return Preemption(
        by_uid=found["uid"],
        by_job_uid=found["job"] or "",
        why=found["why"].strip(),
        preemptor_queue=_last(found["preemptor"]),
        preemptee_queue=_last(found["preemptee"]),
    )


def _last(path: str | None) -> str:
    return (path or "").rstrip("/").rsplit("/", 1)[-1]


def merged(stretches: Iterable[Stretch]) -> list[Stretch]:
    """In order of time, neighbours that say the same joined."""
    found: list[Stretch] = []
    for stretch in sorted(stretches, key=lambda each: (each.started_at, each.until_at)):
        if found and found[-1].ended_at == stretch.started_at and _said(found[-1]) == _said(stretch):
            found[-1] = replace(found[-1], ended_at=stretch.ended_at, until_at=stretch.until_at)
        else:
            found.append(stretch)
    return found


def _said(stretch: Stretch) -> tuple[str, ...]:
    return (stretch.phase, stretch.reason, stretch.message, stretch.evidence, str(stretch.attempt))


def _waits(stretches: Sequence[Stretch]) -> list[Wait]:
    """Stretches in state "pending" that follow each other are one wait."""
    found: list[list[Stretch]] = []
    before = ""
    for stretch in stretches:
        if stretch.state == "pending":
            if before != "pending":
                found.append([])
            found[-1].append(stretch)
        before = stretch.state
    return [
        Wait(
            "first" if number == 0 else "again",
            wait[0].started_at,
            wait[-1].ended_at,
            sum(each.seconds for each in wait if each.phase in WAITING),
        )
        for number, wait in enumerate(found)
    ]


def _attempts(stretches: Sequence[Stretch]) -> list[Attempt]:
    numbers = sorted({each.attempt for each in stretches if each.phase in PLACED})
    made = []
    for number in numbers:
        mine = [each for each in stretches if each.attempt == number and each.phase in PLACED]
        ran = sum(each.seconds for each in mine if each.phase == "running")
        made.append(Attempt(number, mine[0].started_at, mine[-1].ended_at, ran))
    return made


def life_of(
    stretches: Iterable[Stretch], *, evictions: Iterable[Eviction] = (), counted_evictions: int = 0
) -> Life:
    """`evictions`: one event for each seen; an eviction that only a stretch shows is added from it."""
    found = merged(stretches)
    seen = sorted(evictions, key=lambda each: each.at)
    shown = [
        Eviction(each.started_at, each.reason, each.message, preemption_in(each.message))
        for each in found
        if each.phase == "evicted" and not any(each.started_at <= event.at <= each.until_at for event in seen)
    ]
    everything = sorted([*seen, *shown], key=lambda each: each.at)
    return Life(
        found, _waits(found), _attempts(found), everything, max(0, counted_evictions - len(everything))
    )
