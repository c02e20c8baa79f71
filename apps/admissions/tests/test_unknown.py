"""Unknown texts: grouped by hand-made spans, events and pods of which every number is known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from apps.admissions.unknown import UnknownText, unknown_texts
from apps.core.windows import Window
from apps.fleet.models import Cluster
from apps.observations.models import Event, Pod, StateSpan

NOW = datetime(2026, 12, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
WINDOW = Window(NOW - 24 * HOUR, NOW)
KNOWN = (
    "couldn't assign flavors to pod set main: insufficient unused quota for gpu in flavor a, 4 more needed"
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def east() -> Cluster:
    return Cluster.objects.create(slug="east", name="East", kubeconfig_path="/nowhere")


def span(
    cluster: Cluster, uid: str, message: str, start: float, end: float | None, state: str = "pending"
) -> None:
    """`start`, `end`: hours before NOW."""
    StateSpan.objects.create(
        cluster=cluster,
        kind="Workload",
        uid=uid,
        name=uid,
        state=state,
        reason="Pending",
        message=message,
        started_at=NOW - start * HOUR,
        ended_at=None if end is None else NOW - end * HOUR,
    )


def event(cluster: Cluster, uid: str, message: str, *, kind: str = "Job", type_: str = "Warning") -> None:
    Event.objects.create(
        cluster=cluster,
        uid=f"event-{uid}-{len(message)}",
        object_kind=kind,
        object_uid=uid,
        type=type_,
        reason="Odd",
        message=message,
        created_at=NOW - 2 * HOUR,
        last_at=NOW - HOUR,
        observed_at=NOW,
    )


def read(cluster: Cluster, origin: str = "") -> list[UnknownText]:
    return unknown_texts(clusters=[cluster], window=WINDOW, now=NOW, origin=origin)


def test_nothing_is_unknown_where_every_text_is_known(east: Cluster) -> None:
    span(east, "a", KNOWN, 5, None)
    assert read(east) == []


def test_texts_that_differ_in_numbers_are_one_group(east: Cluster) -> None:
    span(east, "a", "the moon is 3 days late", 5, 3)  # 2 h
    span(east, "a", "the moon is 4 days late", 3, None)  # 3 h, the same work
    span(east, "b", "the moon is 4 days late", 48, 20)  # 4 h of it in the window
    span(east, "c", "the moon is 9 days late", 48, 30)  # before the window
    span(east, "d", "the moon is 9 days late", 5, None, state="finished")
    (row,) = read(east)
    assert row.group == "the moon is <n> days late"
    assert (row.decides, row.works, row.texts) == (True, 2, 2)
    assert row.seconds == Decimal(9 * 3600)
    assert (row.sample, row.reason) == ("the moon is 4 days late", "Pending")
    assert (row.origins, row.clusters, sorted(row.uids)) == (["condition"], ["east"], ["a", "b"])
    assert row.last_at == NOW


def test_an_unknown_part_of_a_known_message_does_not_decide(east: Cluster) -> None:
    span(east, "a", f"{KNOWN}, and a new thing 7", 5, None)
    span(east, "b", "entirely new", 1, None)
    first, second = read(east)
    assert (first.group, first.decides, first.seconds) == ("entirely new", True, Decimal(3600))
    assert (second.group, second.decides, second.seconds) == ("and a new thing <n>", False, Decimal(5 * 3600))


def test_the_longest_blocking_comes_first(east: Cluster) -> None:
    span(east, "a", "short", 1, None)
    span(east, "b", "long", 6, None)
    assert [row.group for row in read(east)] == ["long", "short"]


def test_an_event_has_no_length_and_a_normal_one_is_no_complaint(east: Cluster) -> None:
    event(east, "job-1", "cannot make 4 pods")
    event(east, "job-2", "cannot make 5 pods")
    event(east, "job-3", "made 5 pods nicely", type_="Normal")
    event(east, "node-1", "a node's own trouble", kind="Node")
    (row,) = read(east)
    assert (row.group, row.seconds, row.works) == ("cannot make <n> pods", None, 2)
    assert (row.origins, row.uids, row.last_at) == (["event"], (), NOW - HOUR)
    assert read(east, origin="pod") == []
    assert read(east, origin="event") == [row]


def test_waiting_pods_count_from_their_creation_to_their_node(east: Cluster) -> None:
    for uid, bound in (("p-1", None), ("p-2", NOW - 2 * HOUR)):
        Pod.objects.create(
            cluster=east,
            uid=uid,
            name=uid,
            namespace="ml",
            phase="Pending",
            devices=1,
            created_at=NOW - 3 * HOUR,
            first_seen_at=NOW - 3 * HOUR,
            observed_at=NOW,
            bound_at=bound,
            conditions={"PodScheduled": {"reason": "Unschedulable", "message": "the moon is 3 days late"}},
        )
    (row,) = read(east)
    assert (row.seconds, row.works, row.origins) == (Decimal(4 * 3600), 2, ["pod"])


def test_another_cluster_is_left_out(east: Cluster) -> None:
    west = Cluster.objects.create(slug="west", name="West", kubeconfig_path="/nowhere")
    span(west, "a", "new", 5, None)
    assert read(east) == []
    assert len(read(west)) == 1


def test_the_state_that_decides_makes_the_text_known(east: Cluster) -> None:
    """Whoever answers a check writes what they like: its state says why the work waits."""
    span(east, "a", "budget: Retry (come back when the moon is right)", 5, None, state="reserved")
    assert read(east) == []
