"""Ownership at an instant: precedence, half-open periods, pieces of a window, and one query each."""

from typing import Any

import pytest

from apps.fleet.selectors import (
    BindingIndex,
    BoundThing,
    bindings_of_team,
    enabled_clusters,
    owner_of,
    ownership_pieces,
    queues_of_team,
    queues_of_teams,
)
from apps.fleet.tests.builders import HOUR, NOON, bound, cluster, team

pytestmark = pytest.mark.django_db


@pytest.fixture
def fleet() -> int:
    bound("ns-team", "lab", kind="namespace")
    bound("lq-team", "train", kind="local_queue", namespace="lab")
    bound("cq-team", "shared", kind="cluster_queue")
    bound("vq-team", "batch", kind="volcano_queue")
    return cluster().pk


@pytest.mark.parametrize(
    ("work", "owner"),
    [
        ({"namespace": "lab", "queue_name": "train", "queue": "shared", "volcano": False}, "lq-team"),
        ({"namespace": "lab", "queue_name": "other", "queue": "shared", "volcano": False}, "cq-team"),
        ({"namespace": "lab", "queue_name": "other", "queue": "", "volcano": False}, "ns-team"),
        ({"namespace": "lab", "volcano": False}, "ns-team"),
        ({"namespace": "else", "queue_name": "train", "queue": "unbound", "volcano": False}, None),
        ({"namespace": "lab", "queue_name": "batch", "queue": "batch", "volcano": True}, "vq-team"),
        ({"namespace": "lab", "queue_name": "batch", "volcano": True}, "vq-team"),
        ({"namespace": "lab", "queue_name": "shared", "queue": "shared", "volcano": True}, "ns-team"),
        ({"namespace": "lab", "queue_name": "batch", "queue": "batch", "volcano": False}, "ns-team"),
        ({"volcano": False}, None),
    ],
)
def test_the_most_exact_binding_owns_the_work(
    fleet: int, django_assert_num_queries: Any, work: dict[str, Any], owner: str | None
) -> None:
    with django_assert_num_queries(1):
        index = BindingIndex.load(NOON)
    with django_assert_num_queries(0):
        found = index.team_id_for(fleet, **work)
    assert found == (team(owner).pk if owner else None)


def test_a_name_in_another_cluster_is_another_thing(fleet: int) -> None:
    other = cluster("west").pk
    assert BindingIndex.load(NOON).team_id_for(other, namespace="lab", queue="shared", volcano=False) is None


def test_periods_are_half_open() -> None:
    bound("first", "q", NOON - HOUR, NOON)
    bound("second", "q", NOON)
    key: dict[str, Any] = {"cluster_id": cluster().pk, "kind": "cluster_queue", "name": "q"}
    assert owner_of(**key, at=NOON - HOUR) == team("first").pk
    assert owner_of(**key, at=NOON) == team("second").pk
    assert owner_of(**key, at=NOON - 2 * HOUR) is None
    assert BindingIndex.load(NOON).owner_of(cluster().pk, "cluster_queue", "q") == team("second").pk


def test_a_window_is_cut_where_the_owner_changes() -> None:
    bound("first", "q", NOON - 5 * HOUR, NOON + HOUR)
    bound("second", "q", NOON + 2 * HOUR)
    pieces = ownership_pieces(start=NOON, end=NOON + 4 * HOUR)
    assert [(p.start, p.end) for p in pieces] == [
        (NOON, NOON + HOUR),
        (NOON + HOUR, NOON + 2 * HOUR),
        (NOON + 2 * HOUR, NOON + 4 * HOUR),
    ]
    owners = [p.index.owner_of(cluster().pk, "cluster_queue", "q") for p in pieces]
    assert owners == [team("first").pk, None, team("second").pk]


def test_a_window_without_changes_is_one_piece(django_assert_num_queries: Any) -> None:
    bound("first", "q", NOON - HOUR, NOON)
    with django_assert_num_queries(1):
        pieces = ownership_pieces(start=NOON, end=NOON + HOUR)
    assert [(p.start, p.end, p.index.owners) for p in pieces] == [(NOON, NOON + HOUR, {})]


def test_pieces_can_be_asked_for_one_cluster() -> None:
    bound("first", "q", NOON + HOUR, cluster=cluster("west"))
    window = {"start": NOON, "end": NOON + 2 * HOUR}
    assert len(ownership_pieces(**window, clusters=[cluster().pk])) == 1
    assert len(ownership_pieces(**window, clusters=[cluster("west").pk])) == 2
    assert BindingIndex.load(NOON + HOUR, clusters=[cluster().pk]).owners == {}


def test_queues_of_teams_leave_namespaces_out(fleet: int) -> None:
    ids = [team(slug).pk for slug in ("ns-team", "lq-team", "vq-team")]
    assert queues_of_teams(ids, NOON) == {
        BoundThing(fleet, "local_queue", "lab", "train"),
        BoundThing(fleet, "volcano_queue", "", "batch"),
    }
    assert queues_of_team(team("ns-team").pk, NOON) == set()
    assert BindingIndex.load(NOON).things_of([team("ns-team").pk]) == {
        BoundThing(fleet, "namespace", "", "lab")
    }
    assert [b.name for b in bindings_of_team(team("cq-team").pk, NOON)] == ["shared"]
    assert not bindings_of_team(team("cq-team").pk, NOON - HOUR).exists()


def test_clusters_switched_off_are_not_collected() -> None:
    cluster("west")
    off = cluster("off")
    off.enabled = False
    off.save()
    assert [c.slug for c in enabled_clusters()] == ["west"]
