"""Lives written down by hand, in minutes: every phase, several attempts, copies, and sources that fell silent."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from apps.admissions.life_relation import BEFORE_QUOTA, LIFE, life_params, waits_of
from apps.fleet.models import Cluster
from apps.observations.models import Event, Pod, SourceState, Workload

from .builders import T0, make_cluster, make_object, make_pod, make_span, make_work

pytestmark = pytest.mark.django_db
NOW = 100


def at(minutes: float) -> datetime:
    return T0 + timedelta(minutes=minutes)


@pytest.fixture
def east() -> Cluster:
    return collected("east")


def collected(slug: str, *, kueue: float = NOW, pods: float = NOW) -> Cluster:
    """A cluster whose sources were last read at these minutes, and whose pods were known from the start."""
    cluster = make_cluster(slug)
    for source, minute in (("kueue", kueue), ("volcano", kueue), ("pods", pods)):
        SourceState.objects.create(
            cluster=cluster, source=source, last_ok_at=at(minute), presence="installed"
        )
    return cluster


def work_of(cluster: Cluster, name: str, *spans: tuple[Any, ...], **fields: Any) -> Workload:
    """`spans`: (state, from, to or None, fields)."""
    values = {
        "owner_uid": f"job-{name}",
        "owner_kind": "Job",
        "pod_sets": [{"name": "main", "count": 1}],
        **fields,
    }
    work = make_work(cluster, name, gone_at=at(0), **values)
    Workload.objects.filter(pk=work.pk).update(gone_at=None)
    for state, start, end, *more in spans:
        said = {"reason": "", "message": "", **(more[0] if more else {})}
        make_span(work, start=at(start), end=None if end is None else at(end), state=state, **said)
    return work


def member(
    work: Workload,
    name: str,
    *,
    created: float,
    bound: float | None = None,
    ready: float | None = None,
    **more: Any,
) -> Pod:
    conditions: dict[str, Any] = {"PodScheduled": {"status": "True"}}
    if bound is None:
        conditions = {"PodScheduled": {"status": "False", "reason": "Unschedulable", "message": "0/4 nodes"}}
    if ready is not None:
        conditions["Ready"] = {"status": "True", "since": at(ready).isoformat()}
    values = {
        "owner_uid": work.owner_uid,
        "created_at": at(created),
        "first_seen_at": at(created),
        "bound_at": None if bound is None else at(bound),
        "conditions": conditions,
        "phase": "Pending" if ready is None else "Running",
        **more,
    }
    return make_pod(work.cluster, name, **values)


def event(cluster: Cluster, uid: str, reason: str, minute: float, message: str = "") -> Event:
    return Event.objects.create(
        cluster=cluster, created_at=at(minute), first_at=at(minute), last_at=at(minute), uid=f"e-{uid}-{reason}-{minute}",
        namespace="ml", object_uid=uid, reason=reason, message=message, observed_at=at(minute), type="Normal",
    )  # fmt: skip


def rows(
    *clusters: Cluster, relation: str = LIFE, start: float = -10_000, end: float = 10_000, **more: Any
) -> list[dict[str, Any]]:
    params = life_params([c.pk for c in clusters], start=at(start), end=at(end), now=at(NOW), **more)
    with connection.cursor() as cursor:
        order = "uid, started_at" if relation is LIFE else "uid, began_at"
        cursor.execute(f"SELECT * FROM {relation} l ORDER BY {order}", params)  # noqa: S608 - constants
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def minutes(moment: datetime | None) -> str:
    return "…" if moment is None else f"{(moment - T0).total_seconds() / 60:g}"


def life(work: Workload | Pod, **more: Any) -> str:
    found = [row for row in rows(work.cluster, uids=[work.uid], **more) if row["uid"] == work.uid]
    return ", ".join(f"{r['phase']} {minutes(r['started_at'])}-{minutes(r['ended_at'])}" for r in found)


def test_from_creation_to_running(east: Cluster) -> None:
    work = work_of(east, "a", ("pending", 2, 10), ("reserved", 10, 15), ("admitted", 15, None))
    member(work, "a-0", created=16, bound=20, ready=24)
    assert life(work) == "queued 0-10, reserved 10-15, unplaced 15-20, starting 20-24, running 24-…"


GATES = [
    ({"reason": "AdmissionGated"}, "gated"),
    ({"message": "Admission is gated by: example.com/gate"}, "gated"),
    ({"reason": "OnHold"}, "held"),
    ({"reason": "Inadmissible", "message": "ClusterQueue team-a is stopped"}, "held"),
    ({"reason": "Inadmissible", "message": "LocalQueue main is inactive"}, "held"),
    ({"reason": "Pending", "message": "couldn't assign flavors"}, "queued"),
]


@pytest.mark.parametrize(("said", "phase"), GATES)
def test_before_quota(east: Cluster, said: dict[str, str], phase: str) -> None:
    work = work_of(east, "a", ("pending", 0, None, said))
    assert life(work) == f"{phase} 0-…"


def test_deactivated_is_held_and_finished_ends_with_the_object(east: Cluster) -> None:
    work = work_of(east, "a", ("pending", 0, 5), ("deactivated", 5, 9), ("finished", 9, 20))
    assert life(work) == "queued 0-5, held 5-9, finished 9-20"


def test_a_queue_that_is_broken_holds_nothing_on_purpose(east: Cluster) -> None:
    broken = {"conditions": {"Active": {"status": "False", "reason": "FlavorNotFound"}}}
    make_object(east, "ClusterQueue", "team-a", status=broken)
    work = work_of(east, "a", ("pending", 0, None, {"message": "ClusterQueue team-a is inactive"}))
    assert life(work) == "queued 0-…"


def test_a_check_that_asks_for_nodes_is_provisioning(east: Cluster) -> None:
    controller = {"controller": "kueue.x-k8s.io/provisioning-request"}
    make_object(east, "AdmissionCheck", "nodes", spec=controller)
    work = work_of(
        east, "a", ("pending", 0, 4),
        ("reserved", 4, 6, {"message": "budget: Pending"}),
        ("reserved", 6, None, {"message": "budget: Pending; nodes: Pending (wait)"}),
    )  # fmt: skip
    assert life(work) == "queued 0-4, reserved 4-6, provisioning 6-…"


def test_half_a_gang_is_not_placed(east: Cluster) -> None:
    work = work_of(east, "a", ("pending", 0, 5), ("admitted", 5, None), pod_sets=[{"name": "w", "count": 4}])
    for number in range(2):
        member(work, f"bound-{number}", created=6, bound=7, ready=8)
    for number in range(2):
        member(work, f"waits-{number}", created=6)
    assert life(work) == "queued 0-5, unplaced 5-…"
    (row,) = [row for row in rows(east) if row["phase"] == "unplaced"]
    assert (row["message"], row["evidence"]) == ("0/4 nodes", "pod")


def test_a_gang_is_placed_with_its_last_pod_and_a_replaced_pod_moves_nothing(east: Cluster) -> None:
    work = work_of(east, "a", ("pending", 0, 5), ("admitted", 5, None), pod_sets=[{"name": "w", "count": 2}])
    gone = {"gone_at": at(30), "finished_at": at(30), "phase": "Failed", "started_at": at(9)}
    member(work, "one", created=6, bound=7, ready=8)
    failed = member(work, "two", created=6, bound=9)
    Pod.objects.filter(pk=failed.pk).update(**gone)
    member(work, "two-again", created=31, bound=33, ready=34)
    assert life(work) == "queued 0-5, unplaced 5-9, running 9-…"
    # The same from every window that it touches.
    assert life(work, start=40, end=50) == "running 9-…"


def test_nodes_that_were_asked_for(east: Cluster) -> None:
    work = work_of(east, "a", ("pending", 0, 5), ("admitted", 5, None))
    pod = member(work, "a-0", created=6, bound=20, ready=24)
    event(east, pod.uid, "FailedScheduling", 7, "0/4 nodes are available: 4 Insufficient nvidia.com/gpu.")
    event(east, pod.uid, "TriggeredScaleUp", 8, "pod triggered scale-up: [{h100 0->1 (max: 4)}]")
    assert life(work) == "queued 0-5, unplaced 5-8, provisioning 8-20, starting 20-24, running 24-…"
    by_phase = {row["phase"]: row for row in rows(east)}
    assert by_phase["unplaced"]["message"].startswith("0/4 nodes are available")
    assert by_phase["provisioning"]["evidence"] == "event"


def test_two_attempts_with_an_eviction_between(east: Cluster) -> None:
    work = work_of(
        east, "a", ("pending", 0, 5), ("admitted", 5, 30), ("pending", 30, 40, {"message": "Preempted"}),
        ("admitted", 40, None),
    )  # fmt: skip
    first = member(work, "a-0", created=6, bound=8, ready=9)
    Pod.objects.filter(pk=first.pk).update(gone_at=at(29))
    member(work, "a-1", created=41, bound=42, ready=43)
    event(east, work.uid, "EvictedDueToPreempted", 25, "Preempted to accommodate a workload (UID: x)")
    assert life(work) == (
        "queued 0-5, unplaced 5-8, starting 8-9, running 9-25, evicted 25-30, queued 30-40,"
        " unplaced 40-42, starting 42-43, running 43-…"
    )


def test_the_cluster_waits_before_it_queues_again(east: Cluster) -> None:
    work = work_of(
        east, "a", ("pending", 0, 5), ("admitted", 5, 30), ("pending", 30, None), requeue_at=at(45)
    )
    assert life(work).endswith("backoff 30-45, queued 45-…")
    Workload.objects.filter(pk=work.pk).update(requeue_at=at(200))
    assert life(work).endswith("backoff 30-…")


def test_past_backoff_is_a_phase_of_its_own(east: Cluster) -> None:
    work = work_of(
        east, "a", ("pending", 0, 5), ("admitted", 5, 30), ("pending", 30, 50, {"requeue_at": at(45)}),
        ("pending", 50, 55, {"requeue_at": at(45)}), ("pending", 55, 60, {"requeue_at": at(70)}), ("admitted", 60, None),
    )  # fmt: skip
    # What was put off beyond the end of its wait was put off to its end; a time that had passed puts nothing off.
    assert life(work) == (
        "queued 0-5, unplaced 5-30, backoff 30-45, queued 45-50, queued 50-55, backoff 55-60, unplaced 60-…"
    )
    # While it lasts, what the work says now counts, and what it said before when it says nothing any more.
    late = work_of(east, "b", ("pending", 0, None, {"requeue_at": at(20)}))
    assert life(late) == "backoff 0-20, queued 20-…"
    Workload.objects.filter(pk=late.pk).update(requeue_at=at(30))
    assert life(late) == "backoff 0-30, queued 30-…"


def test_work_that_was_first_met_running(east: Cluster) -> None:
    work = work_of(
        east,
        "a",
        ("admitted", 50, None),
        created_at=at(0),
        queued_at=at(0),
        reserved_at=at(10),
        admitted_at=at(12),
    )
    member(work, "a-0", created=13, bound=14, ready=15)
    assert life(work) == "queued 0-10, reserved 10-12, running 12-50, running 50-…"


def test_no_pod_of_quota_that_is_held(east: Cluster) -> None:
    work = work_of(east, "a", ("pending", 0, 5), ("admitted", 5, None))
    other = work_of(east, "b", ("pending", 0, 5))
    member(other, "b-0", created=0)
    assert life(work) == "queued 0-5, unplaced 5-…"


def test_without_knowledge_of_pods_admitted_work_runs() -> None:
    cluster = make_cluster("bare")
    work = work_of(cluster, "a", ("pending", 0, 5), ("admitted", 5, None))
    assert life(work) == "queued 0-5, running 5-…"


def test_nothing_reaches_beyond_the_last_good_pull() -> None:
    cluster = collected("silent", kueue=60, pods=50)
    waits = work_of(cluster, "waits", ("pending", 0, None))
    runs = work_of(cluster, "runs", ("pending", 0, 5), ("admitted", 5, None))
    member(runs, "runs-0", created=6, bound=7, ready=8)
    found = {(row["uid"], row["phase"]): (row["ended_at"], row["until_at"]) for row in rows(cluster)}
    assert found[waits.uid, "queued"] == (None, at(60))
    assert found[runs.uid, "running"] == (None, at(50))


def test_a_volcano_group_is_unplaced_once_it_is_let_in(east: Cluster) -> None:
    work = work_of(
        east, "gang", ("pending", 0, 5), ("reserved", 5, 9, {"reason": "NotEnoughResources", "message": "2/2 tasks"}),
        ("admitted", 9, None), kind="PodGroup", queue_name="research", pod_sets=[{"name": "", "count": 2}],
    )  # fmt: skip
    for number in range(2):
        member(work, f"gang-{number}", created=6, bound=8, ready=12, pod_group="gang", owner_uid="job")
    assert life(work) == "queued 0-5, unplaced 5-8, starting 8-9, starting 9-12, running 12-…"


def test_a_plain_pod(east: Cluster) -> None:
    pod = make_pod(
        east, "p", created_at=at(0), bound_at=at(10), phase="Running",
        conditions={"PodScheduled": {"status": "True"}, "Ready": {"status": "True", "since": at(12).isoformat()}},
    )  # fmt: skip
    assert life(pod) == "unplaced 0-10, starting 10-12, running 12-…"
    event(east, pod.uid, "Nominated", 4, "Pod should schedule on: nodeclaim/x")
    assert life(pod) == "unplaced 0-4, provisioning 4-10, starting 10-12, running 12-…"
    Pod.objects.update(finished_at=at(30), phase="Succeeded", started_at=at(11), gone_at=at(40))
    Pod.objects.update(conditions={"PodScheduled": {"status": "True"}})
    assert life(pod) == "unplaced 0-4, provisioning 4-10, starting 10-11, running 11-30, finished 30-40"


def test_a_gated_pod_and_pods_of_queued_work(east: Cluster) -> None:
    pod = make_pod(east, "p", scheduling_gates=["example.com/wait"], conditions={})
    assert life(pod) == "gated 0-…"
    work = work_of(east, "a", ("pending", 0, None))
    mine = member(work, "mine", created=1)
    assert life(mine) == ""


def test_copies_on_workers_and_variants_are_one_piece() -> None:
    manager, worker = collected("manager"), collected("worker")
    original = work_of(manager, "job-a", ("pending", 0, 5), ("reserved", 5, None), uid="m")
    copy = work_of(
        worker, "job-a", ("pending", 6, None), uid="w", owner_uid="remote",
        labels={"kueue.x-k8s.io/multikueue-origin": "multikueue"},
    )  # fmt: skip
    variant = work_of(manager, "variant", ("pending", 1, None), owner_kind="Workload", owner_uid=original.uid)
    assert {row["uid"] for row in rows(manager, worker)} == {"m"}
    everything = rows(manager, worker, copies=True)
    assert {row["uid"] for row in everything} == {original.uid, copy.uid, variant.uid}
    assert {row["piece"] for row in everything} == {"job-job-a"}
    # Where the manager is not collected, its copy is all that is known.
    Workload.objects.filter(pk=original.pk).delete()
    assert {row["uid"] for row in rows(worker)} == {"w"}


def test_slices_and_re_created_workloads_are_one_piece_and_groups_of_one_owner_several(east: Cluster) -> None:
    work_of(
        east,
        "old",
        ("admitted", 0, 5),
        ("finished", 5, None, {"reason": "WorkloadSliceReplaced"}),
        owner_uid="j",
    )
    work_of(east, "new", ("pending", 3, 5), ("admitted", 5, None), owner_uid="j")
    for number in range(2):
        work_of(east, f"group-{number}", ("pending", 0, None), owner_uid="lws", owner_kind="LeaderWorkerSet")
    label = {"kueue.x-k8s.io/workload-slice-name": "by-label"}
    for number in range(2):
        work_of(east, f"label-{number}", ("pending", 0, None), owner_uid="", labels=label)
        work_of(
            east,
            f"slice-{number}",
            ("pending", 0, None),
            owner_uid="",
            slice_name="by-annotation",
            labels=label,
        )
    pieces = {row["uid"]: row["piece"] for row in rows(east)}
    assert pieces == {
        "uid-label-0": "by-label",
        "uid-label-1": "by-label",
        "uid-slice-0": "by-annotation",
        "uid-slice-1": "by-annotation",
        "uid-old": "j",
        "uid-new": "j",
        "uid-group-0": "uid-group-0",
        "uid-group-1": "uid-group-1",
    }


def test_waits_first_and_again_without_backoff(east: Cluster) -> None:
    work_of(
        east, "a", ("pending", 0, 5), ("reserved", 5, 6), ("admitted", 6, 30), ("pending", 30, None),
        requeue_at=at(45),
    )  # fmt: skip
    work_of(east, "b", ("pending", 0, 7), ("deactivated", 7, None))
    found = [
        (r["uid"], r["which"], r["ended"], r["seconds"] / 60, r["backoff_seconds"] / 60)
        for r in rows(east, relation=waits_of())
    ]
    assert found == [
        ("uid-a", "first", "reserved", 5, 0),
        ("uid-a", "again", "open", 55, 15),
        ("uid-b", "first", "gave_up", 7, 0),
    ]


def test_what_began_with_the_last_pull_is_there_without_a_length() -> None:
    cluster = collected("fresh", kueue=60, pods=50)
    again = work_of(cluster, "again", ("pending", 0, 5), ("reserved", 5, 60), ("pending", 60, None))
    admitted = work_of(cluster, "admitted", ("pending", 0, 55), ("admitted", 55, None))
    member(admitted, "later", created=56)
    pod = make_pod(cluster, "p", created_at=at(50), first_seen_at=at(50))
    assert life(again) == "queued 0-5, reserved 5-60, queued 60-…"
    assert life(admitted) == "queued 0-55, unplaced 55-…"
    assert life(pod) == "unplaced 50-…"


def test_pods_that_fell_silent_leave_no_hole() -> None:
    cluster = collected("silent", kueue=90, pods=50)
    work = work_of(cluster, "a", ("admitted", 0, 60), ("admitted", 60, None, {"message": "less is held"}))
    member(work, "a-0", created=1, bound=2, ready=3)
    assert life(work) == "unplaced 0-2, starting 2-3, running 3-60, running 60-…"


STATES = ("pending", "reserved", "admitted", "deactivated", "finished")
STEPS = st.lists(st.tuples(st.sampled_from(STATES), st.integers(1, 9)), min_size=1, max_size=8)
PODS = st.lists(st.tuples(*[st.integers(0, 60)] * 2, st.integers(0, 20), st.booleans()), max_size=5)


class NoHoleTest(TestCase):
    @effort(max_examples=40, deadline=None)
    @given(
        steps=STEPS, pods=PODS, need=st.integers(1, 3), is_open=st.booleans(), evicted=st.none() | st.integers(0, 60),
        scaled=st.none() | st.integers(0, 60), kind=st.sampled_from(["Workload", "PodGroup"]),
        requeue=st.none() | st.integers(0, 120), silent=st.integers(0, NOW),
    )  # fmt: skip
    def test_phases_leave_no_hole_and_do_not_overlap(self, steps: Any, pods: Any, need: int, is_open: bool, evicted: int | None, scaled: int | None, kind: str, requeue: int | None, silent: int) -> None:  # fmt: skip
        cluster = collected("east", pods=silent)
        spans, start = [], 0
        for place, (state, length) in enumerate(steps):
            last = place == len(steps) - 1
            put_off = {} if requeue is None else {"requeue_at": at(requeue)}
            spans.append((state, start, None if last and is_open else start + length, put_off))
            start += length
        fields: dict[str, Any] = {"kind": kind, "pod_sets": [{"name": "w", "count": need}]}
        work = work_of(cluster, "a", *spans, requeue_at=None if requeue is None else at(requeue), **fields)
        for number, (created, bound, ready, is_bound) in enumerate(pods):
            where = created + bound
            member(
                work,
                f"p-{number}",
                created=created,
                bound=where if is_bound else None,
                ready=where + ready if is_bound else None,
            )
            if scaled is not None:
                event(cluster, f"pod-p-{number}", "TriggeredScaleUp", scaled)
        if evicted is not None:
            event(cluster, work.uid, "EvictedDueToPreempted", evicted)
        found = rows(cluster)
        borders = [(row["started_at"], row["until_at"]) for row in found]
        assert borders[0][0] == at(0)
        if not is_open or found[-1]["phase"] in BEFORE_QUOTA:
            assert borders[-1][1] == (at(NOW) if is_open else at(start))
        assert all(low < high for low, high in borders[:-1])
        assert [low for low, _high in borders[1:]] == [high for _low, high in borders[:-1]]
        assert all(row["ended_at"] == row["until_at"] for row in found[:-1])
        assert (found[-1]["ended_at"] is None) is is_open
