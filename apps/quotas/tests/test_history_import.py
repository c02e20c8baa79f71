"""Quota history of an imported past. The day of the first test was worked out by hand:

red and blue have 8 cards each in one cohort. w1 of red waits from 8:10 and runs with 12 cards from 8:50 until 10:00. w2
of red asks for 6 cards from 9:30 on. w3 of blue reserves 3 cards from 10:00 until 11:30 and waits for its checks.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, Source, SourceState, StateSpan, Workload
from apps.quotas.history import SOURCE_KIND, note_quotas, quota_series
from apps.quotas.history_import import note_past
from apps.quotas.history_steps import NUMBERS
from apps.quotas.models import QuotaPoint

pytestmark = pytest.mark.django_db
GPU = "nvidia.com/gpu"
T0 = datetime(2026, 11, 2, tzinfo=UTC)


def at(hour: int, minute: int = 0) -> datetime:
    return T0 + timedelta(hours=hour, minutes=minute)


def thing(cluster: Cluster, kind: str, name: str, spec: dict[str, Any], namespace: str = "") -> None:
    ClusterObject.objects.create(
        cluster=cluster,
        kind=kind,
        uid=f"{cluster.slug}/{kind}/{name}",
        name=name,
        namespace=namespace,
        spec=spec,
        status={"conditions": {}},
        first_seen_at=T0,
        observed_at=T0,
    )


def quota(name: str, nominal: str) -> dict[str, Any]:
    return {"name": name, "nominal": nominal, "borrowing_limit": None, "lending_limit": None}


def world(slug: str) -> Cluster:
    cluster = Cluster.objects.create(slug=slug, name=slug, kubeconfig_path="/nowhere")
    for name in ("red", "blue"):
        flavor = {"name": "h100", "resources": [quota(GPU, "8"), quota("cpu", "64")]}
        groups = [{"covered": [GPU, "cpu"], "flavors": [flavor]}]
        spec = {"cohort": "all", "resource_groups": groups, "stop_policy": "None"}
        thing(cluster, "ClusterQueue", name, spec)
        thing(cluster, "LocalQueue", f"lq-{name}", {"cluster_queue": name}, "ns")
    return cluster


def facts(uid: str, queue: str, state: str, cards: int) -> dict[str, Any]:
    """What a span and a workload say alike."""
    usage = [
        {"flavor": "h100", "resource": GPU, "quantity": str(cards)},
        {"flavor": "h100", "resource": "cpu", "quantity": "4"},
    ]
    return {
        "kind": "Workload",
        "uid": uid,
        "name": uid,
        "namespace": "ns",
        "queue_name": f"lq-{queue}",
        "state": state,
        "requests": {GPU: str(cards), "cpu": "4"},
        "usage": usage if state in ("reserved", "admitted") else [],
    }


def span(
    cluster: Cluster, uid: str, queue: str, state: str, cards: int, start: datetime, end: datetime | None
) -> None:
    StateSpan.objects.create(
        cluster=cluster,
        queue=queue if state != "pending" else "",
        started_at=start,
        ended_at=end,
        **facts(uid, queue, state, cards),
    )


@pytest.fixture
def cluster() -> Cluster:
    made = world("east")
    span(made, "w1", "red", "pending", 12, at(8, 10), at(8, 50))
    span(made, "w1", "red", "admitted", 12, at(8, 50), at(10))
    span(made, "w1", "red", "finished", 12, at(10), None)
    span(made, "w2", "red", "pending", 6, at(9, 30), None)
    span(made, "w3", "blue", "reserved", 3, at(10), at(11, 30))
    span(made, "w3", "blue", "finished", 3, at(11, 30), None)
    return made


def points(cluster: Cluster) -> dict[tuple[str, str, datetime], tuple[int | None, ...]]:
    rows = QuotaPoint.objects.filter(cluster=cluster).exclude(kind=SOURCE_KIND)
    assert set(rows.values_list("resource", flat=True)) <= {GPU}
    return {
        (row.kind, row.queue, row.at): tuple(
            None if getattr(row, name) is None else int(getattr(row, name)) for name in NUMBERS
        )
        for row in rows
    }


def test_the_hours_of_a_day_worked_out_by_hand(cluster: Cluster) -> None:
    assert note_past(cluster=cluster, now=at(11, 40)) == 6
    # nominal, ceiling, reserved, admitted, borrowed, lent, pending, waiting; at 11:00 nothing had changed
    assert points(cluster) == {
        ("ClusterQueue", "red", at(9)): (8, 16, 12, 12, 4, 0, 0, 0),
        ("ClusterQueue", "blue", at(9)): (8, 16, 0, 0, 0, 4, 0, 0),
        ("Cohort", "all", at(9)): (16, 16, 12, 12, 0, 0, 0, 0),
        ("ClusterQueue", "red", at(10)): (8, 16, 0, 0, 0, 0, 6, 1),
        ("ClusterQueue", "blue", at(10)): (8, 16, 3, 0, 0, 0, 0, 0),
        ("Cohort", "all", at(10)): (16, 16, 3, 0, 0, 0, 6, 1),
    }


def test_it_reads_as_one_stretch_with_the_live_notings_that_follow(cluster: Cluster) -> None:
    note_past(cluster=cluster, now=at(11, 40))
    SourceState.objects.create(
        cluster=cluster, source=Source.KUEUE, last_outcome="ok", last_ok_at=at(11, 41), last_run_at=at(11, 41)
    )
    assert note_quotas(cluster=cluster, now=at(11, 41)) == 3  # nothing holds and nothing waits any more
    found = quota_series(
        cluster=cluster,
        kind="ClusterQueue",
        queue="red",
        flavor="h100",
        resource=GPU,
        window="day",
        now=at(11, 44),
    )
    reserved = {point.at: point.mean["reserved"] for point in found}
    assert (reserved[at(8, 55)], reserved[at(9)], reserved[at(9, 55)]) == (None, Decimal(12), Decimal(12))
    assert {reserved[at(hour, minute)] for hour in (10, 11) for minute in (0, 20, 40)} == {Decimal(0)}
    assert QuotaPoint.objects.filter(kind=SOURCE_KIND).count() == 2


def test_what_was_noted_already_is_not_written_again(cluster: Cluster) -> None:
    note_past(cluster=cluster, now=at(11, 40))
    before = points(cluster)
    assert note_past(cluster=cluster, now=at(11, 50)) == 0
    assert points(cluster) == before
    # What was missed meanwhile is: w3 has ended.
    assert note_past(cluster=cluster, now=at(12, 10)) == 2
    added = points(cluster).keys() - before.keys()
    assert added == {("ClusterQueue", "blue", at(12)), ("Cohort", "all", at(12))}


def test_a_cluster_without_a_past_has_none() -> None:
    assert note_past(cluster=world("west"), now=at(12)) == 0
    assert not QuotaPoint.objects.exists()


def test_the_past_is_told_as_the_present_is(cluster: Cluster) -> None:
    """The same work, once as spans that reach over 9:00 and once as it is stored at that time."""
    works = [("w1", "red", "admitted", 12), ("w2", "red", "pending", 6), ("w3", "blue", "reserved", 3)]
    then, now = world("then"), world("now")
    for uid, queue, state, cards in works:
        span(then, uid, queue, state, cards, at(8, 30), None)
        Workload.objects.create(
            cluster=now,
            cluster_queue=queue if state != "pending" else "",
            first_seen_at=T0,
            observed_at=T0,
            **facts(uid, queue, state, cards),
        )
    SourceState.objects.create(
        cluster=now, source=Source.KUEUE, last_outcome="ok", last_ok_at=at(9), last_run_at=at(9)
    )
    note_past(cluster=then, now=at(9))
    note_quotas(cluster=now, now=at(9))
    assert points(then) == points(now) != {}
    marks = QuotaPoint.objects.filter(cluster=then, kind=SOURCE_KIND).order_by("at")
    assert [(mark.at, mark.ended) for mark in marks] == [
        (at(9), False),
        (at(9) + timedelta(microseconds=1), True),
    ]


def test_volcano_queues_count_what_their_groups_held() -> None:
    cluster = Cluster.objects.create(slug="v", name="V", kubeconfig_path="/nowhere")
    spec = {"parent": "", "weight": 1, "capability": {GPU: "8"}, "deserved": {GPU: "4"}, "guarantee": {}}
    thing(cluster, "VolcanoQueue", "batch", spec)
    usage = [{"resource": GPU, "quantity": "3"}]
    for state, start, end in (("admitted", at(8, 30), at(9, 30)), ("pending", at(9, 30), None)):
        StateSpan.objects.create(
            cluster=cluster,
            kind="PodGroup",
            uid="g",
            name="g",
            namespace="ns",
            queue_name="batch",
            queue="batch",
            state=state,
            requests={GPU: "3"},
            usage=usage if state == "admitted" else [],
            started_at=start,
            ended_at=end,
        )
    assert note_past(cluster=cluster, now=at(10)) == 2
    assert points(cluster).keys() == {("VolcanoQueue", "batch", at(9)), ("VolcanoQueue", "batch", at(10))}
    rows = QuotaPoint.objects.filter(kind="VolcanoQueue").order_by("at")
    found = [[row.at, row.reserved, row.admitted, row.pending, row.waiting] for row in rows]
    assert found == [[at(9), 3, 3, 0, 0], [at(10), 0, 0, 3, 1]]
