"""The rollup of waiting work: the same rows however often, in what pieces, and in what order the past arrived."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.admissions.tests.builders import T0, bind, hours, make_cluster, make_pod, make_team
from apps.fleet.models import Cluster
from apps.observations.models import SourceState, StateSpan, Workload
from apps.observations.services import Change, Row, RunResult, Target, apply_changes, run_record
from apps.observations.tests.builders import EVENTS, PODS, row
from apps.usage import admission_rollup
from apps.usage.admission_reading import REACH, ROLLUP, floor_step
from apps.usage.admission_rollup import compute_hours, rollup_admissions
from apps.usage.models import BlockHour, OutcomeHour, Step, UnseenEvictions, WaitHour, Watermark
from apps.usage.services import REDO_AT_MOST
from apps.usage.spans import Held, unit_seconds_by_hour

pytestmark = pytest.mark.django_db
D = Decimal
GPU = "nvidia.com/gpu"
QUOTA = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, 8 more needed"
TABLES = (BlockHour, WaitHour, OutcomeHour)


@dataclass(frozen=True, slots=True)
class Life:
    """Minutes of waiting and running in turn, from `begin` on (minutes after T0), and whether the last one lasts."""

    begin: int
    minutes: tuple[int, ...]
    gpus: int
    lasts: bool
    ends: str

    @property
    def spans(self) -> list[tuple[str, int, int | None]]:
        found: list[tuple[str, int, int | None]] = []
        at = self.begin
        for i, length in enumerate(self.minutes):
            last = i == len(self.minutes) - 1
            found.append(
                ("admitted" if i % 2 else "pending", at, None if last and self.lasts else at + length)
            )
            at += length
        if not self.lasts and self.ends:
            found.append((self.ends, at, None))
        return found


LIVES = st.builds(
    Life,
    begin=st.integers(0, 60 * 20),
    minutes=st.lists(st.integers(1, 400), min_size=1, max_size=5).map(tuple),
    gpus=st.integers(0, 200),
    lasts=st.booleans(),
    ends=st.sampled_from(["finished", "deactivated", ""]),
)


def minutes(count: float) -> datetime:
    return T0 + timedelta(minutes=count)


def span_of(cluster: Cluster, uid: str, state: str, start: int, end: int | None, gpus: int = 8) -> StateSpan:
    reason, text = {"pending": ("Pending", QUOTA), "finished": ("Succeeded", "")}.get(state, ("", ""))
    return StateSpan.objects.create(
        cluster=cluster,
        kind="Workload",
        uid=uid,
        namespace="ml",
        name=uid,
        queue_name="main",
        queue="team-a",
        state=state,
        reason=reason,
        message=text,
        requests={GPU: str(gpus)},
        usage=[{"flavor": "h100", "resource": GPU, "quantity": str(gpus)}] if state == "admitted" else [],
        started_at=minutes(start),
        ended_at=None if end is None else minutes(end),
    )


def store(cluster: Cluster, lives: Sequence[Life], order: random.Random | None = None) -> None:
    spans = [(f"u{i}", life, *span) for i, life in enumerate(lives) for span in life.spans]
    if order is not None:
        order.shuffle(spans)
    for uid, life, state, start, end in spans:
        span_of(cluster, uid, state, start, end, life.gpus)


def rows(cluster: Cluster) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of the three tables but for its keys."""
    found = {}
    for table in TABLES:
        names = [f.attname for f in table._meta.fields if f.attname not in ("id", "cluster_id")]
        found[table.__name__] = sorted(
            table.objects.filter(cluster=cluster).values_list(*names), key=lambda row: tuple(map(str, row))
        )
    return found


SLOW = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(st.lists(LIVES, min_size=1, max_size=6), st.lists(st.integers(0, 60 * 60), max_size=6), st.randoms())
@SLOW
def test_rows_do_not_depend_on_runs_or_the_order_of_arrival(
    lives: list[Life], runs: list[int], order: random.Random
) -> None:
    with transaction.atomic():
        once, often = make_cluster("once"), make_cluster("often")
        store(once, lives)
        store(often, lives, order)
        end = hours(60)
        rollup_admissions(cluster=once, now=end)
        for run in sorted(runs):
            rollup_admissions(cluster=often, now=minutes(run))
        rollup_admissions(cluster=often, now=end)
        rollup_admissions(cluster=often, now=end)
        assert rows(often) == rows(once)
        transaction.set_rollback(True)


@given(st.lists(LIVES, min_size=1, max_size=6), st.lists(st.integers(1, 59), max_size=5))
@SLOW
def test_hours_computed_in_any_pieces_are_the_same(lives: list[Life], cuts: list[int]) -> None:
    with transaction.atomic():
        whole, parts = make_cluster("whole"), make_cluster("parts")
        store(whole, lives)
        store(parts, lives)
        end = hours(60)
        compute_hours(cluster=whole, start=T0, end=end, now=end)
        edges = sorted({0, 60, *cuts})
        pieces = list(pairwise(edges))
        for low, high in random.Random(len(cuts)).sample(pieces, len(pieces)):
            compute_hours(cluster=parts, start=hours(low), end=hours(high), now=end)
        assert rows(parts) == rows(whole)
        transaction.set_rollback(True)


@given(st.lists(LIVES, min_size=1, max_size=6))
@SLOW
def test_unit_seconds_are_those_of_the_spans(lives: list[Life]) -> None:
    with transaction.atomic():
        cluster = make_cluster()
        store(cluster, lives)
        rollup_admissions(cluster=cluster, now=hours(60))
        waits = [
            Held(minutes(start), hours(60) if end is None else minutes(end), D(life.gpus))
            for life in lives
            for state, start, end in life.spans
            if state in ("pending", "deactivated")
        ]
        waits = [held for held in waits if held.start < held.end]
        stored = BlockHour.objects.filter(cluster=cluster, resource=GPU, step=Step.HOUR)
        found: dict[datetime, Decimal] = {}
        for row in stored:
            found[row.hour] = found.get(row.hour, D(0)) + row.seconds
        assert found == unit_seconds_by_hour(waits)
        for step in Step:
            total = sum(
                row.seconds for row in BlockHour.objects.filter(cluster=cluster, resource=GPU, step=step)
            )
            assert total == sum(found.values()), step
        transaction.set_rollback(True)


def test_a_span_that_comes_late_takes_the_mark_back() -> None:
    cluster = make_cluster()
    span_of(cluster, "a", "pending", 30, None)
    rollup_admissions(cluster=cluster, now=hours(10))
    assert Watermark.objects.get(cluster=cluster, rollup=ROLLUP).done_until == hours(10)
    span_of(cluster, "b", "pending", 120, 180)
    result = rollup_admissions(cluster=cluster, now=hours(10.5))
    assert result.from_hour == hours(2)
    late = BlockHour.objects.get(cluster=cluster, step=Step.HOUR, hour=hours(2), resource="")
    assert late.seconds == 7200
    assert Watermark.objects.get(cluster=cluster, rollup=ROLLUP).done_until == hours(10)


def told(cluster: Cluster, target: Target, ended: float, *changes: Change) -> datetime | None:
    """A pull that ended at this hour and brought these rows; returns from when on it told of something new."""
    written = apply_changes(cluster_id=cluster.pk, target=target, changes=changes)[0]
    source = "pods" if target is PODS else "events"
    run_record(
        cluster_id=cluster.pk,
        source=source,
        result=RunResult(
            started_at=hours(ended), ended_at=hours(ended), outcome="ok", told_from=written.told_from
        ),
    )
    return written.told_from


def looked(cluster: Cluster, at: float) -> datetime | None:
    """A rollup after a pull that brought nothing; returns its first hour."""
    told(cluster, PODS, at)
    return rollup_admissions(cluster=cluster, now=hours(at)).from_hour


def gpu_pod(version: int = 1, **fields: Any) -> Row:
    given = {"devices": D(1), "requests": {GPU: "1"}, "phase": "Pending", "created_at": hours(1), **fields}
    return row(PODS, "p", version, **given)


def blocked_by_layer(cluster: Cluster) -> dict[str, list[Decimal]]:
    """Seconds of pieces of work per hour."""
    found: dict[str, list[Decimal]] = {}
    for block in BlockHour.objects.filter(cluster=cluster, step=Step.HOUR, resource=""):
        line = found.setdefault(block.layer, [D(0)] * 12)
        line[int((block.hour - T0) / timedelta(hours=1))] += block.seconds
    return found


def test_late_pods_take_the_mark_back_to_what_they_tell() -> None:
    cluster = make_cluster()
    span_of(cluster, "over", "finished", 0, None)
    assert told(cluster, PODS, 9, Change(hours(9), False, gpu_pod(created_at=hours(8)))) == hours(8)
    assert looked(cluster, 9) == hours(0)
    late = row(PODS, "q", devices=D(1), requests={GPU: "1"}, created_at=hours(2.5))
    assert told(cluster, PODS, 9.1, Change(hours(9.1), False, late)) == hours(2.5)
    assert looked(cluster, 9.5) == hours(2)
    assert blocked_by_layer(cluster)["placement"][2:10] == [1800, *[3600] * 5, 7200, 3600]
    # It was bound at 3 and ready at 5: the hours from 3 on say so.
    since = hours(5).isoformat()
    ready = {"PodScheduled": {"status": "True"}, "Ready": {"status": "True", "since": since}}
    bound = row(
        PODS, "q", 2, devices=D(1), requests={GPU: "1"}, created_at=hours(2.5), bound_at=hours(3), node_name="n",
        started_at=hours(4), phase="Running", conditions=ready,
    )  # fmt: skip
    assert told(cluster, PODS, 10.1, Change(hours(10.1), False, bound)) == hours(3)
    assert looked(cluster, 10.2) == hours(3)
    found = blocked_by_layer(cluster)
    assert found["placement"][2:10] == [1800, 0, 0, 0, 0, 0, 3600, 3600]
    assert found["device"][2:10] == [0, 3600, 3600, 0, 0, 0, 0, 0]
    # A change that tells of no moment, what is told again, and what is no GPU pod take nothing back.
    same = row(
        PODS, "q", 3, devices=D(1), requests={GPU: "1"}, created_at=hours(2.5), bound_at=hours(3), node_name="n",
        started_at=hours(4), phase="Running", conditions=ready, labels={"a": "b"},
    )  # fmt: skip
    assert told(cluster, PODS, 10.3, Change(hours(10.3), False, same)) is None
    assert told(cluster, PODS, 10.4, Change(hours(10.4), False, same)) is None
    plain = row(PODS, "cpu", created_at=hours(1))
    assert told(cluster, PODS, 10.5, Change(hours(10.5), False, plain)) is None
    assert looked(cluster, 10.6) == hours(10)


def test_late_events_take_the_mark_back_to_when_they_happened() -> None:
    cluster = make_cluster()
    span_of(cluster, "over", "finished", 0, None)
    told(cluster, PODS, 2, Change(hours(2), False, gpu_pod()))
    looked(cluster, 6)
    assert set(blocked_by_layer(cluster)) == {"placement"}
    seen = {
        "object_uid": "p",
        "reason": "TriggeredScaleUp",
        "message": "pod triggered scale-up: [{x 1->2 (max: 9)}]",
    }
    happened: dict[str, Any] = {"created_at": hours(3), "first_at": hours(3), "last_at": hours(3)}
    event = row(EVENTS, "e", **seen, **happened)
    assert told(cluster, EVENTS, 6.1, Change(hours(6.1), False, event)) == hours(3)
    assert looked(cluster, 6.5) == hours(3)
    found = blocked_by_layer(cluster)
    assert found["placement"][:6] == [0, 3600, 3600, 0, 0, 0]
    assert found["provisioning"][:6] == [0, 0, 0, 3600, 3600, 3600]
    # Seen once more it has another count, and tells of nothing new.
    again = row(EVENTS, "e", 2, **seen, **{**happened, "last_at": hours(6.4), "count": 2})
    assert told(cluster, EVENTS, 6.6, Change(hours(6.6), False, again)) is None
    assert looked(cluster, 6.7) == hours(6)


def test_pods_later_than_the_window_of_late_data_stay_out() -> None:
    cluster = make_cluster()
    now = hours(240)
    told(cluster, PODS, 200, Change(hours(200), False, gpu_pod(created_at=hours(0))))
    rollup_admissions(cluster=cluster, now=now)
    late = row(PODS, "q", devices=D(1), requests={GPU: "1"}, created_at=hours(1))
    told(cluster, PODS, 240.2, Change(hours(240.2), False, late))
    result = rollup_admissions(cluster=cluster, now=hours(240.5))
    assert result.from_hour == floor_step(hours(240.5) - REDO_AT_MOST, Step.HOUR)


def test_what_comes_later_than_the_window_of_late_data_stays_out() -> None:
    cluster = make_cluster()
    span_of(cluster, "a", "pending", 30, None)
    now = hours(240)
    rollup_admissions(cluster=cluster, now=now)
    span_of(cluster, "b", "pending", 120, 180)
    result = rollup_admissions(cluster=cluster, now=now + timedelta(minutes=30))
    assert result.from_hour == floor_step(now + timedelta(minutes=30) - REDO_AT_MOST, Step.HOUR)
    assert BlockHour.objects.get(cluster=cluster, step=Step.HOUR, hour=hours(2), resource="").seconds == 3600


def test_an_hour_that_was_begun_and_not_finished_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = make_cluster()
    span_of(cluster, "a", "pending", 30, None)
    end = hours(24 * 20)
    real, calls = admission_rollup.compute_hours, []

    def dies_in_the_second(**given: Any) -> int:
        calls.append(given["start"])
        if len(calls) == 2:
            real(**given)
            raise RuntimeError("the worker was killed")
        return real(**given)

    with monkeypatch.context() as patched:
        patched.setattr(admission_rollup, "compute_hours", dies_in_the_second)
        with pytest.raises(RuntimeError):
            rollup_admissions(cluster=cluster, now=end)
    mark = Watermark.objects.get(cluster=cluster, rollup=ROLLUP)
    assert (mark.done_until, mark.started_until) == (hours(24 * 7), end)
    assert Watermark.objects.get(cluster=cluster, rollup=REACH).done_until == hours(24 * 7)
    result = rollup_admissions(cluster=cluster, now=end)
    assert result.from_hour == hours(24 * 7)
    mark.refresh_from_db()
    assert (mark.done_until, mark.started_until) == (end, None)
    work = BlockHour.objects.filter(cluster=cluster, step=Step.HOUR, resource="")
    assert sum(row.seconds for row in work) == 3600 * (24 * 20 - D("0.5"))


def test_much_work_is_computed_in_shorter_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission_rollup, "SPANS_AT_ONCE", 3)
    quiet, busy = make_cluster("quiet"), make_cluster("busy")
    for cluster, count in ((quiet, 3), (busy, 12)):
        for i in range(count):
            span_of(cluster, f"u{i}", "pending", i * 30, None)
    ends = [high for _low, high in admission_rollup.chunks(quiet, hours(0), hours(200))]
    assert ends == [hours(168), hours(200)]
    ends = [high for _low, high in admission_rollup.chunks(busy, hours(0), hours(30))]
    assert ends == [hours(n) for n in (1, 2, 3, 4, 5, 30)]
    rollup_admissions(cluster=busy, now=hours(30))
    found = rows(busy)
    monkeypatch.undo()
    Watermark.objects.filter(cluster=busy).delete()
    rollup_admissions(cluster=busy, now=hours(30))
    assert rows(busy) == found


def test_an_outage_holds_the_mark_back_and_lasts_no_longer_than_it_was_seen() -> None:
    cluster = make_cluster()
    span_of(cluster, "a", "pending", 0, None)
    state = SourceState.objects.create(
        cluster=cluster, source="kueue", last_ok_at=hours(2.5), presence="installed"
    )
    rollup_admissions(cluster=cluster, now=hours(6))
    assert Watermark.objects.get(cluster=cluster, rollup=ROLLUP).done_until == hours(2)
    work = BlockHour.objects.filter(cluster=cluster, step=Step.HOUR, resource="")
    assert sum(row.seconds for row in work) == 3600 * D("2.5")
    state.last_ok_at = hours(7)
    state.save()
    rollup_admissions(cluster=cluster, now=hours(7))
    assert sum(row.seconds for row in work.all()) == 3600 * 7


@pytest.mark.parametrize("source", ["kueue", "volcano", "pods", "events"])
def test_an_hour_is_not_done_before_every_source_has_told_of_it(source: str) -> None:
    cluster = make_cluster()
    span_of(cluster, "a", "pending", 0, None)
    for name in ("kueue", "volcano", "pods", "events"):
        seen = hours(2.5) if name == source else hours(6)
        SourceState.objects.create(cluster=cluster, source=name, last_ok_at=seen, presence="installed")
    rollup_admissions(cluster=cluster, now=hours(6))
    assert Watermark.objects.get(cluster=cluster, rollup=ROLLUP).done_until == hours(2)
    SourceState.objects.filter(source=source).update(presence="absent")
    rollup_admissions(cluster=cluster, now=hours(6))
    assert Watermark.objects.get(cluster=cluster, rollup=ROLLUP).done_until == hours(6)


def test_a_wait_counts_in_the_hour_in_which_it_began_once_it_ended() -> None:
    cluster, team = make_cluster(), make_team("vision")
    bind(team, cluster, "team-a")
    first = span_of(cluster, "a", "pending", 30, None)
    rollup_admissions(cluster=cluster, now=hours(50))
    assert not WaitHour.objects.exists()
    first.ended_at = hours(50.25)
    first.save()
    span_of(cluster, "a", "admitted", 50 * 60 + 15, None)
    rollup_admissions(cluster=cluster, now=hours(51))
    row = WaitHour.objects.get(step=Step.HOUR)
    assert (row.hour, row.ended_in, row.seconds, row.count) == (hours(0), hours(50), 179000, 1)
    assert (row.which, row.ended, row.flavor, row.size, row.team) == ("first", "reserved", "h100", "8", team)


def test_unseen_evictions_are_noted_once_and_in_the_hour_of_the_counter() -> None:
    cluster = make_cluster()
    span_of(cluster, "a", "pending", 0, 60)
    span_of(cluster, "a", "admitted", 60, None)
    work = Workload.objects.create(
        cluster=cluster, kind="Workload", uid="a", namespace="ml", name="a", state="admitted", created_at=T0,
        first_seen_at=T0, observed_at=hours(1),
    )  # fmt: skip
    rollup_admissions(cluster=cluster, now=hours(2))
    work.evictions, work.observed_at = 2, hours(3.5)
    work.save()
    rollup_admissions(cluster=cluster, now=hours(4))
    rollup_admissions(cluster=cluster, now=hours(9))
    note = UnseenEvictions.objects.get()
    assert (note.noticed_at, note.count) == (hours(3.5), 2)
    found = OutcomeHour.objects.filter(step=Step.HOUR, reason="not_seen").values_list("hour", "what", "count")
    assert sorted(found) == [(hours(3), "evicted", 2), (hours(3), "retried", 2)]


def test_of_two_workloads_of_one_piece_that_wait_at_once_one_counts() -> None:
    cluster = make_cluster()
    for uid, start, end in (("old", 0, 180), ("new", 60, 240)):
        span_of(cluster, uid, "pending", start, end)
        Workload.objects.create(
            cluster=cluster, kind="Workload", uid=uid, namespace="ml", name=uid, state="pending",
            created_at=minutes(start), queued_at=minutes(start), first_seen_at=minutes(start),
            observed_at=minutes(start), owner_kind="Job", owner_uid="job",
        )  # fmt: skip
    rollup_admissions(cluster=cluster, now=hours(6))
    work = BlockHour.objects.filter(step=Step.HOUR, resource="").order_by("hour")
    assert [row.seconds for row in work] == [3600, 3600, 3600, 3600]


def test_plain_pods_are_blocked_work_too() -> None:
    cluster = make_cluster()
    make_pod(cluster, "p")
    rollup_admissions(cluster=cluster, now=hours(2))
    row = BlockHour.objects.get(step=Step.HOUR, hour=hours(1), resource=GPU)
    assert (row.layer, row.cause, row.seconds) == ("placement", "capacity", D(3600))


def test_nothing_seen_yet_is_nothing_done() -> None:
    cluster = make_cluster()
    assert rollup_admissions(cluster=cluster, now=hours(4)).until is None
    assert not Watermark.objects.exists()


def test_temporary_tables_do_not_outlive_a_run() -> None:
    cluster = make_cluster()
    span_of(cluster, "a", "pending", 0, 60)
    rollup_admissions(cluster=cluster, now=hours(2))
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'rollup\\_%%'")
        assert cursor.fetchone()[0] == 0
