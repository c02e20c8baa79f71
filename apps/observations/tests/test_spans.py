"""State spans: what opens one, what does not, and that any batching of the same changes gives the same spans."""

from __future__ import annotations

import itertools
from collections import defaultdict
from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.fleet.models import Cluster
from apps.observations.models import StateSpan, Transition, Workload
from apps.observations.services import Change, Row, Target, Written, apply_changes, apply_list

from .builders import POD_GROUPS, T0, WORKLOADS, make_cluster, minutes, objects, row, workload

pytestmark = pytest.mark.django_db
LOCAL_QUEUES = objects("LocalQueue")
SLUGS = itertools.count()
Step = tuple[str, str, str, bool]


@pytest.fixture
def cluster() -> Cluster:
    return make_cluster()


def changed(cluster: Cluster, *changes: tuple[float, bool, Row], target: Target = WORKLOADS) -> Written:
    made = [Change(minutes(at), gone, item) for at, gone, item in changes]
    return apply_changes(cluster_id=cluster.pk, target=target, changes=made)[0]


def listed(cluster: Cluster, rows: list[Row], at: float, target: Target = WORKLOADS) -> Written:
    return apply_list(cluster_id=cluster.pk, target=target, rows=rows, now=minutes(at))[0]


def spans(**where: object) -> list[tuple[str, float, float | None]]:
    found = StateSpan.objects.filter(**where).order_by("uid", "started_at")
    return [
        (
            span.state,
            (span.started_at - T0).total_seconds() / 60,
            (span.ended_at - T0).total_seconds() / 60 if span.ended_at else None,
        )
        for span in found
    ]


def test_state_changes_make_spans_without_gap(cluster: Cluster) -> None:
    listed(cluster, [workload("w1")], 0)
    listed(cluster, [workload("w1", 2, state="admitted")], 10)
    listed(cluster, [], 30)
    assert spans() == [("pending", 0, 10), ("admitted", 10, 30)]


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        ("insufficient quota, 3 more needed", "insufficient quota, 2 more needed", 1),
        ("insufficient quota, 10 more needed", "insufficient quota, 9 more needed", 1),
        ("memory, 1536Mi more needed", "memory, 2Gi more needed", 1),
        ("cpu, 500m more needed", "cpu, 12 more needed", 1),
        ("(3/8) nodes fit", "(4/8) nodes fit", 1),
        ("no flavor h100 fits", "no flavor h200 fits", 2),
        ("flavor a100-40g is full", "flavor a100-80g is full", 2),
        ("the queue is stopped", "the queue is gone", 2),
    ],
)
def test_numbers_in_a_message_do_not_open_a_span(
    cluster: Cluster, before: str, after: str, count: int
) -> None:
    listed(cluster, [workload("w1", message=before)], 0)
    listed(cluster, [workload("w1", 2, message=after)], 1)
    assert StateSpan.objects.count() == count
    assert StateSpan.objects.get(ended_at=None).message == after


def test_a_span_keeps_until_when_its_work_was_put_off(cluster: Cluster) -> None:
    def put_off() -> list[tuple[str, datetime | None]]:
        found = StateSpan.objects.order_by("started_at")
        return [(span.state, span.requeue_at) for span in found]

    listed(cluster, [workload("w1")], 0)
    listed(cluster, [workload("w1", 2, requeue_at=minutes(20))], 5)
    assert put_off() == [("pending", minutes(20))]
    changed(cluster, (6, False, workload("w1", 3, requeue_at=minutes(30))), (7, False, workload("w1", 4)))
    assert put_off() == [("pending", minutes(30))]
    changed(cluster, (31, False, workload("w1", 5)))
    assert put_off() == [("pending", minutes(30))]
    listed(cluster, [workload("w1", 6, state="admitted", requeue_at=minutes(30))], 40)
    assert put_off() == [("pending", minutes(30)), ("admitted", None)]
    changed(
        cluster,
        (50, False, workload("w1", 7, requeue_at=minutes(60))),
        (50, False, workload("w1", 8, message="a", requeue_at=minutes(61))),
        (55, False, workload("w1", 9, message="b", requeue_at=minutes(62))),
        (56, True, workload("w1", 9, message="b", requeue_at=minutes(62))),
    )
    assert put_off()[2:] == [("pending", minutes(61)), ("pending", minutes(62))]
    assert not StateSpan.objects.filter(ended_at=None).exists()


def test_usage_that_shrinks_opens_a_span(cluster: Cluster) -> None:
    def using(version: int, quantity: str) -> Row:
        usage = [{"flavor": "h100", "resource": "nvidia.com/gpu", "quantity": quantity}]
        return workload("w1", version, state="admitted", usage=usage)

    changed(cluster, (0, False, using(1, "8")), (5, False, using(2, "4")))
    assert spans() == [("admitted", 0, 5), ("admitted", 5, None)]


def test_change_of_labels_alone_opens_no_span(cluster: Cluster) -> None:
    changed(cluster, (0, False, workload("w1")), (1, False, workload("w1", 2, labels={"a": "b"})))
    changed(cluster, (2, False, workload("w1", 3, labels={"a": "c"})))
    assert spans() == [("pending", 0, None)]


def test_state_within_one_pull_leaves_a_transition_and_no_empty_span(cluster: Cluster) -> None:
    changed(
        cluster,
        (1, False, workload("w1")),
        (1, False, workload("w1", 2, state="reserved")),
        (1, True, workload("w1", 3, state="finished")),
    )
    assert spans() == []
    assert list(Transition.objects.order_by("id").values_list("to_value", flat=True)) == [
        "pending",
        "reserved",
        "gone",
    ]


def test_clock_that_steps_back_makes_no_overlap(cluster: Cluster) -> None:
    changed(cluster, (10, False, workload("w1")))
    changed(cluster, (20, False, workload("w1", 2, state="admitted")))
    changed(cluster, (15, False, workload("w1", 3, state="finished")))
    changed(cluster, (16, True, workload("w1", 3, state="finished")))
    changed(cluster, (17, False, workload("w1", 4, state="pending")))
    found = spans()
    assert found[0] == ("pending", 10, 20)
    assert all(end is None or start < end for _state, start, end in found)
    assert all(one[2] is not None and one[2] <= two[1] for one, two in itertools.pairwise(found))


def test_queue_is_found_through_the_local_queue_and_then_the_reservation(cluster: Cluster) -> None:
    listed(cluster, [row(LOCAL_QUEUES, "lq1", name="main", spec={"cluster_queue": "cq-a"})], 0, LOCAL_QUEUES)
    changed(cluster, (1, False, workload("w1", queue_name="main")))
    changed(cluster, (2, False, workload("w1", 2, "reserved", queue_name="main", cluster_queue="cq-b")))
    assert list(StateSpan.objects.order_by("started_at").values_list("queue", flat=True)) == ["cq-a", "cq-b"]


def test_local_queue_of_another_cluster_or_namespace_is_not_taken(cluster: Cluster) -> None:
    other = make_cluster("c2")
    spec = {"cluster_queue": "cq-x"}
    listed(other, [row(LOCAL_QUEUES, "lq1", name="main", spec=spec)], 0, LOCAL_QUEUES)
    listed(cluster, [row(LOCAL_QUEUES, "lq1", name="main", namespace="zz", spec=spec)], 0, LOCAL_QUEUES)
    changed(cluster, (1, False, workload("w1", queue_name="main")))
    assert StateSpan.objects.get().queue == ""


def test_local_queue_that_appears_later_splits_the_span(cluster: Cluster) -> None:
    changed(cluster, (1, False, workload("w1", queue_name="main")), (1, False, workload("w2")))
    queue = row(LOCAL_QUEUES, "lq1", name="main", spec={"cluster_queue": "cq-a"})
    changed(cluster, (5, False, queue), target=LOCAL_QUEUES)
    found = StateSpan.objects.order_by("uid", "started_at").values_list("uid", "queue", "ended_at")
    assert list(found) == [("w1", "", minutes(5)), ("w1", "cq-a", None), ("w2", "", None)]
    changed(cluster, (9, True, queue), target=LOCAL_QUEUES)
    assert StateSpan.objects.get(uid="w1", ended_at=None).queue == ""


def test_pod_group_waits_in_its_volcano_queue(cluster: Cluster) -> None:
    changed(cluster, (1, False, row(POD_GROUPS, "g1", queue_name="research")), target=POD_GROUPS)
    assert StateSpan.objects.get().queue == "research"


def test_object_that_comes_back_gets_a_new_span(cluster: Cluster) -> None:
    listed(cluster, [workload("w1")], 0)
    listed(cluster, [], 1)
    listed(cluster, [workload("w1", 2)], 2)
    assert spans() == [("pending", 0, 1), ("pending", 2, None)]
    assert Workload.objects.get().gone_at is None


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["w1", "w2", "w3"]),
        st.sampled_from(["pending", "reserved", "admitted"]),
        st.sampled_from(["", "3 more needed", "12 more needed", "no flavor fits"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=14,
)


def expected_spans(steps: list[Step]) -> dict[str, list[Any]]:
    """The plain reading of the rules, object by object."""
    made: defaultdict[str, list[Any]] = defaultdict(list)
    for at, (uid, state, message, gone) in enumerate(steps, 1):
        own = made[uid]
        is_open = own and own[-1][3] is None
        key = (state, "more" if "more" in message else message)
        if is_open and (gone or own[-1][0] != key):
            own[-1][3] = at
            is_open = False
        if gone:
            continue
        if is_open:
            own[-1][1] = message
        else:
            own.append([key, message, at, None])
    return {uid: [(k[0], m, s, e) for k, m, s, e in own] for uid, own in made.items() if own}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, cuts=st.sets(st.integers(1, 14)))
def test_any_batching_of_any_changes_gives_the_same_state_and_spans(
    db: None, steps: list[Step], cuts: set[int]
) -> None:
    cluster = make_cluster(f"p{next(SLUGS)}")
    changes = [
        Change(minutes(at), gone, workload(uid, at, state, message=message))
        for at, (uid, state, message, gone) in enumerate(steps, 1)
    ]
    borders = [0, *sorted(cut for cut in cuts if cut < len(changes)), len(changes)]
    for start, end in itertools.pairwise(borders):
        apply_changes(cluster_id=cluster.pk, target=WORKLOADS, changes=changes[start:end])

    last = {uid: (state, message, gone, at) for at, (uid, state, message, gone) in enumerate(steps, 1)}
    stored = {
        w.uid: (w.state, w.message, w.gone_at is not None, int(w.resource_version))
        for w in Workload.objects.filter(cluster=cluster)
    }
    assert stored == last
    found = defaultdict(list)
    for span in StateSpan.objects.filter(cluster=cluster).order_by("started_at"):
        began = (span.started_at - T0).total_seconds() / 60
        ended = (span.ended_at - T0).total_seconds() / 60 if span.ended_at else None
        found[span.uid].append((span.state, span.message, began, ended))
    assert dict(found) == expected_spans(steps)
