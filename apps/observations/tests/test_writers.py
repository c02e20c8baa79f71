"""The writers' promises: idempotent, last version wins, gone is marked, nothing else is touched."""

from __future__ import annotations

from typing import Any

import pytest

from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, Event, Node, StateSpan, Transition, Workload
from apps.observations.services import Change, Row, Target, Written, apply_changes, apply_list

from .builders import EVENTS, NODES, POD_GROUPS, WORKLOADS, make_cluster, minutes, objects, row, workload

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> Cluster:
    return make_cluster()


def listed(
    cluster: Cluster, rows: list[Row], at: float, target: Target = WORKLOADS, **options: Any
) -> Written:
    written, rejected = apply_list(
        cluster_id=cluster.pk, target=target, rows=rows, now=minutes(at), **options
    )
    assert rejected == []
    return written


def changed(cluster: Cluster, *changes: tuple[float, bool, Row], target: Target = WORKLOADS) -> Written:
    made = [Change(minutes(at), gone, item) for at, gone, item in changes]
    written, rejected = apply_changes(cluster_id=cluster.pk, target=target, changes=made)
    assert rejected == []
    return written


def test_same_list_twice_writes_nothing(cluster: Cluster) -> None:
    rows = [workload(f"w{i}") for i in range(5)]
    first = listed(cluster, rows, 0)
    before = list(Workload.objects.order_by("id").values())

    second = listed(cluster, rows, 1)

    assert first.rows == 5
    assert (second.rows, second.gone, second.spans, second.transitions) == (0, 0, 0, 0)
    assert list(Workload.objects.order_by("id").values()) == before


def test_object_listed_twice_in_a_first_list_counts_once_and_the_later_wins(cluster: Cluster) -> None:
    rows = [workload("w1"), workload("w2"), workload("w1", 2, state="admitted")]
    written = listed(cluster, rows, 0, record_new=False)
    assert (written.inserted, Workload.objects.get(uid="w1").state) == (2, "admitted")
    assert StateSpan.objects.filter(ended_at=None).count() == 2


def test_only_what_differs_is_written(cluster: Cluster) -> None:
    listed(cluster, [workload("w1"), workload("w2")], 0)
    written = listed(cluster, [workload("w1"), workload("w2", 2, state="admitted")], 1)
    assert (written.inserted, written.updated) == (0, 1)
    w1, w2 = Workload.objects.order_by("uid")
    assert (w1.observed_at, w2.observed_at) == (minutes(0), minutes(1))
    assert w2.first_seen_at == minutes(0)


def test_observed_at_stays_when_only_the_resource_version_moves(cluster: Cluster) -> None:
    listed(cluster, [workload("w1", 1)], 0)
    written = listed(cluster, [workload("w1", 2)], 1)
    stored = Workload.objects.get()
    assert (written.updated, stored.resource_version, stored.observed_at) == (1, "2", minutes(0))


def test_resource_versions_are_never_ordered(cluster: Cluster) -> None:
    """A restored etcd counts from a smaller number; the newest version that we were given wins."""
    listed(cluster, [workload("w1", 900, state="pending")], 0)
    changed(cluster, (1, False, workload("w1", 7, state="admitted")))
    stored = Workload.objects.get()
    assert (stored.state, stored.resource_version) == ("admitted", "7")


def test_unlisted_object_is_marked_gone_and_keeps_its_last_state(cluster: Cluster) -> None:
    listed(cluster, [workload("w1", state="admitted"), workload("w2")], 0)
    written = listed(cluster, [workload("w2")], 1)
    gone = Workload.objects.get(uid="w1")
    assert written.gone == 1
    assert (gone.gone_at, gone.state) == (minutes(1), "admitted")


def test_list_of_one_kind_leaves_other_kinds_and_clusters_alone(cluster: Cluster) -> None:
    other = make_cluster("c2")
    listed(cluster, [workload("w1")], 0)
    listed(other, [workload("w1")], 0)
    listed(cluster, [row(POD_GROUPS, "g1")], 0, target=POD_GROUPS)
    listed(cluster, [], 1)
    live = Workload.objects.filter(gone_at=None).values_list("cluster__slug", "kind")
    assert sorted(live) == [("c1", "PodGroup"), ("c2", "Workload")]


def test_object_that_was_listed_but_unreadable_is_not_gone(cluster: Cluster) -> None:
    listed(cluster, [workload("w1"), workload("w2", namespace="ns"), workload("w3")], 0)
    listed(cluster, [], 1, kept=["w1", "ns/w2"])
    assert set(Workload.objects.filter(gone_at=None).values_list("uid", flat=True)) == {"w1", "w2"}


def test_deleted_event_keeps_the_state_that_it_carries(cluster: Cluster) -> None:
    listed(cluster, [workload("w1")], 0)
    written = changed(cluster, (1, True, workload("w1", 2, state="finished")))
    stored = Workload.objects.get()
    assert written.gone == 1
    assert (stored.state, stored.gone_at) == ("finished", minutes(1))


def test_deletion_seen_twice_changes_nothing(cluster: Cluster) -> None:
    change = (1, True, workload("w1", 2, state="finished"))
    changed(cluster, change)
    written = changed(cluster, (2, True, workload("w1", 2, state="finished")))
    assert (written.rows, written.gone) == (0, 0)
    assert Workload.objects.get().gone_at == minutes(1)


def test_short_lived_object_is_kept_with_its_end(cluster: Cluster) -> None:
    changed(cluster, (1, False, workload("w1")), (1, True, workload("w1", 2)))
    assert Workload.objects.get().gone_at == minutes(1)


def test_object_created_again_under_its_name_ends_the_old_one(cluster: Cluster) -> None:
    listed(cluster, [workload("old", name="job"), workload("x", name="other")], 0)
    written = changed(cluster, (1, False, workload("new", 5, name="job")))
    assert written.gone == 1
    assert Workload.objects.get(uid="old").gone_at == minutes(1)
    assert set(Workload.objects.filter(gone_at=None).values_list("uid", flat=True)) == {"new", "x"}


def test_newest_of_several_versions_is_current(cluster: Cluster) -> None:
    written = changed(
        cluster,
        (1, False, workload("w1", 1)),
        (1, False, workload("w1", 2, state="reserved", reason="QuotaReserved")),
        (1, False, workload("w1", 3, state="admitted", reason="Admitted")),
    )
    stored = Workload.objects.get()
    assert (written.inserted, stored.state, stored.resource_version) == (1, "admitted", "3")
    steps = Transition.objects.order_by("id").values_list("from_value", "to_value")
    assert list(steps) == [("", "pending"), ("pending", "reserved"), ("reserved", "admitted")]


def test_first_list_makes_no_transitions_and_later_ones_do(cluster: Cluster) -> None:
    listed(cluster, [workload("w1")], 0, record_new=False)
    assert not Transition.objects.exists()
    listed(cluster, [workload("w1"), workload("w2")], 1)
    assert list(Transition.objects.values_list("uid", "to_value")) == [("w2", "pending")]


def test_row_that_the_database_refuses_costs_only_itself(cluster: Cluster) -> None:
    rows = [workload(f"w{i}") for i in range(9)]
    rows[3] = workload("w3", message="a\x00b")
    rows[6] = workload("w6", name="n" * 300)
    rows.append(workload("w9", labels={"a": "\u0000"}))
    written, rejected = apply_list(cluster_id=cluster.pk, target=WORKLOADS, rows=rows, now=minutes(0))
    assert written.inserted == 7
    assert {item.row[0] for item in rejected} == {"w3", "w6", "w9"}


def test_refused_row_of_a_known_object_does_not_make_it_gone(cluster: Cluster) -> None:
    listed(cluster, [workload("w1")], 0)
    apply_list(
        cluster_id=cluster.pk, target=WORKLOADS, rows=[workload("w1", 2, message="\x00")], now=minutes(1)
    )
    stored = Workload.objects.get()
    assert (stored.gone_at, stored.resource_version) == (None, "1")


def test_node_facets_make_transitions(cluster: Cluster) -> None:
    def node(version: int, ready: str = "True", cordoned: bool = False, gpus: str = "8") -> Row:
        return row(
            NODES,
            "n1",
            version,
            namespace="",
            unschedulable=cordoned,
            conditions={"Ready": {"status": ready, "reason": "KubeletReady", "message": "m"}},
            allocatable={"nvidia.com/gpu": gpus, "cpu": "64"},
        )

    changed(cluster, (0, False, node(1)), target=NODES)
    Transition.objects.all().delete()
    changed(cluster, (1, False, node(2, cordoned=True)), target=NODES)
    changed(cluster, (2, False, node(3, ready="Unknown", cordoned=True, gpus="7")), target=NODES)
    listed(cluster, [], 3, target=NODES)
    steps = Transition.objects.order_by("id").values_list("facet", "from_value", "to_value")
    assert list(steps) == [
        ("cordon", "schedulable", "cordoned"),
        ("ready", "True", "Unknown"),
        ("devices", "nvidia.com/gpu=8", "nvidia.com/gpu=7"),
        ("ready", "Unknown", "gone"),
        ("cordon", "cordoned", "gone"),
        ("devices", "nvidia.com/gpu=7", "gone"),
    ]
    assert Node.objects.get().gone_at == minutes(3)


def test_cluster_queue_that_stops_makes_a_transition(cluster: Cluster) -> None:
    def queue(version: int, status: str, reason: str) -> Row:
        conditions = {"Active": {"status": status, "reason": reason, "message": ""}}
        return row(objects("ClusterQueue"), "q1", version, namespace="", status={"conditions": conditions})

    changed(cluster, (0, False, queue(1, "True", "Ready")), target=objects("ClusterQueue"))
    changed(cluster, (1, False, queue(2, "False", "Stopped")), target=objects("ClusterQueue"))
    last = Transition.objects.latest("id")
    assert (last.facet, last.from_value, last.to_value, last.reason) == ("active", "True", "False", "Stopped")
    assert ClusterObject.objects.count() == 1


def test_events_follow_their_count_and_outlive_the_clusters_copy(cluster: Cluster) -> None:
    def event(count: int, message: str = "no room") -> Row:
        return row(EVENTS, "e1", count=count, message=message, type="Warning", reason="FailedScheduling")

    assert changed(cluster, (0, False, event(1)), target=EVENTS).rows == 1
    changed(cluster, (1, False, event(2)), (1, False, event(3)), target=EVENTS)
    assert Event.objects.get().count == 3
    changed(cluster, (2, False, event(3)), target=EVENTS)
    changed(cluster, (3, True, event(3)), target=EVENTS)
    stored = Event.objects.get()
    assert (stored.count, stored.observed_at) == (3, minutes(1))
