"""Stretches to a life: joined neighbours, waits, attempts, and who preempted whom in each version's words."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.admissions.life import Eviction, Preemption, Stretch, life_of, merged, preemption_in

from .builders import T0


def stretch(phase: str, start: int, end: int | None, state: str = "", **more: object) -> Stretch:
    until = T0 + timedelta(minutes=100 if end is None else end)
    ended = None if end is None else until
    return Stretch(phase, T0 + timedelta(minutes=start), ended, until, state=state, **more)  # type: ignore[arg-type]


PATHS = "; preemptor path: /root/research/team-b; preemptee path: /root/research/team-a"
TEXTS = [
    (
        "Preempted to accommodate a workload (UID: u1, JobUID: j1) due to reclamation within the cohort"
        + PATHS,
        Preemption("u1", "j1", "reclamation within the cohort", "team-b", "team-a"),
    ),
    (
        "Preempted to accommodate a workload (UID: u1, JobUID: j1) due to prioritization in the ClusterQueue",
        Preemption("u1", "j1", "prioritization in the ClusterQueue", "", ""),
    ),
    (
        "Preempted to accommodate a workload (UID: u1) due to Fair Sharing within the cohort",
        Preemption("u1", "", "Fair Sharing within the cohort", "", ""),
    ),
    ("Exceeded the PodsReady timeout 5m0s", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_who_preempted_whom(text: str, expected: Preemption | None) -> None:
    assert preemption_in(text) == expected


@given(st.text(max_size=2000))
def test_no_text_raises(text: str) -> None:
    preemption_in(text)
    preemption_in("(UID: " + text + ") due to " + text)


def test_a_life_of_two_attempts() -> None:
    life = life_of(
        [
            stretch("held", 0, 2, "pending"),
            stretch("queued", 2, 10, "pending", message="a"),
            stretch("queued", 10, 15, "pending", message="a"),
            stretch("reserved", 15, 16, "reserved"),
            stretch("unplaced", 16, 20, "admitted", attempt=1),
            stretch("running", 20, 50, "admitted", attempt=1),
            stretch("evicted", 50, 52, "admitted", attempt=1, reason="Preempted", message=TEXTS[0][0]),
            stretch("backoff", 52, 60, "pending", attempt=1),
            stretch("queued", 60, 70, "pending", attempt=1),
            stretch("running", 70, None, "admitted", attempt=2),
        ],
        counted_evictions=3,
    )
    assert [(each.phase, each.seconds // 60) for each in life.stretches[:3]] == [
        ("held", 2),
        ("queued", 13),
        ("reserved", 1),
    ]
    assert [(wait.which, wait.seconds // 60) for wait in life.waits] == [("first", 13), ("again", 10)]
    assert [(a.number, a.ran_seconds // 60) for a in life.attempts] == [(1, 30), (2, 30)]
    assert life.attempts[1].ended_at is None
    assert [e.preemption.by_uid for e in life.evictions if e.preemption] == ["u1"]
    # The cluster counts three; one was seen, and the others have no time.
    assert life.unseen_evictions == 2
    assert life.now is not None
    assert (life.now.phase, life.outcome) == ("running", "")


def test_an_eviction_that_an_event_tells_is_not_told_twice() -> None:
    event = Eviction(
        T0 + timedelta(minutes=50), "EvictedDueToPreempted", TEXTS[0][0], preemption_in(TEXTS[0][0])
    )
    gone = stretch("evicted", 50, 52, "admitted", attempt=1)
    life = life_of([stretch("running", 0, 50, "admitted", attempt=1), gone], evictions=[event])
    assert list(life.evictions) == [event]


def test_an_end() -> None:
    over = life_of(
        [stretch("running", 0, 5, "admitted"), stretch("finished", 5, 9, "finished", reason="Succeeded")]
    )
    assert (over.now, over.outcome) == (None, "Succeeded")
    assert life_of([]).stretches == []


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 5)), max_size=20))
def test_joining_keeps_every_second(parts: list[tuple[str, int]]) -> None:
    made, start = [], 0
    for message, length in parts:
        made.append(stretch("queued", start, start + length, "pending", message=message))
        start += length
    joined = merged(reversed(made))
    assert sum(each.seconds for each in joined) == start * 60
    assert all(one.message != two.message and one.ended_at == two.started_at for one, two in pairwise(joined))
