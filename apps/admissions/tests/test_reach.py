"""What is read for one team is what all of the work holds of it: narrowing by bindings takes nothing away and adds nothing.

World, whose is what by hand (the most exact binding wins):
  ns/lq-1 → cq-a   cq-a bound to red                      red
  ns/lq-2 → cq-a   LocalQueue ns/lq-2 bound to blue       blue
  ns/lq-3 → cq-x   namespace ns bound to blue             blue
  ns/lq-4 → cq-g   cq-g bound to green                    green
  far/lq-1 → cq-b  LocalQueue far/lq-1 bound to red       red
  far/lost         leads nowhere                          nobody
  ns/lost          leads nowhere, namespace ns            blue
  group in vq      Volcano queue vq bound to red          red
  group in wq, ns  no binding of wq, namespace ns         blue
  ns/lq-1, cq-g    reserved in cq-g, of green             green
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from apps.accounts.models import Team
from apps.admissions.selectors import Criteria, waiting
from apps.admissions.work import Places, WorkList, WorkRow, recently_finished, running
from apps.fleet.models import Cluster
from apps.fleet.selectors import BindingIndex

from .builders import bind, hours, local_queue, make_cluster, make_pod, make_team, make_work

pytestmark = pytest.mark.django_db

NOW = hours(5)
PLACES = {
    "a": ("ns", "lq-1", "", "Workload", "red"),
    "b": ("ns", "lq-2", "", "Workload", "blue"),
    "c": ("ns", "lq-3", "", "Workload", "blue"),
    "d": ("ns", "lq-4", "", "Workload", "green"),
    "e": ("far", "lq-1", "", "Workload", "red"),
    "f": ("far", "lost", "", "Workload", None),
    "g": ("ns", "lost", "", "Workload", "blue"),
    "h": ("far", "vq", "", "PodGroup", "red"),
    "i": ("ns", "wq", "", "PodGroup", "blue"),
    "j": ("ns", "lq-1", "cq-g", "Workload", "green"),
}
TEAMS = ("red", "blue", "green")


def of_team(team: str | None) -> list[str]:
    return [name for name, place in PLACES.items() if place[4] == team]


@pytest.fixture
def cluster() -> Cluster:
    east = make_cluster()
    red, blue, green = map(make_team, TEAMS)
    bind(red, east, "cq-a")
    bind(red, east, "lq-1", "local_queue", namespace="far")
    bind(red, east, "vq", "volcano_queue")
    bind(blue, east, "lq-2", "local_queue", namespace="ns")
    bind(blue, east, "ns", "namespace")
    bind(green, east, "cq-g")
    for name, queue in (("lq-1", "cq-a"), ("lq-2", "cq-a"), ("lq-3", "cq-x"), ("lq-4", "cq-g")):
        local_queue(east, "ns", name, queue)
    local_queue(east, "far", "lq-1", "cq-b")
    # The same names in another cluster are nobody's.
    west = make_cluster("west")
    local_queue(west, "ns", "lq-1", "cq-a")
    make_work(west, "elsewhere", namespace="ns", queue_name="lq-1")
    return east


def fill(cluster: Cluster, state: str, **fields: object) -> None:
    for name, (namespace, queue_name, cluster_queue, kind, _team) in PLACES.items():
        make_work(
            cluster,
            name,
            namespace=namespace,
            queue_name=queue_name,
            cluster_queue=cluster_queue,
            kind=kind,
            state=state,
            **fields,
        )


def places(cluster: Cluster, team: str, queue: str = "") -> Places:
    bindings = BindingIndex.load(NOW, clusters=[cluster.pk])
    found = Team.objects.get(slug=team)
    return Places(now=NOW, team=found, clusters=[cluster], bindings=bindings, queue=queue)


def names(rows: Sequence[WorkRow]) -> list[str]:
    return sorted(row.name for row in rows)


def test_waiting_work_of_each_team(cluster: Cluster) -> None:
    fill(cluster, "pending")
    make_pod(cluster, "pod", namespace="ns")
    every = waiting(now=NOW, team_ids=None)
    assert len(every) == len(PLACES) + 2
    for team in TEAMS:
        expected = sorted([*of_team(team), *(["pod"] if team == "blue" else [])])
        pk = Team.objects.get(slug=team).pk
        for found in (
            waiting(now=NOW, team_ids=[pk]),
            waiting(now=NOW, team_ids=None, criteria=Criteria(team=team)),
            waiting(now=NOW, team_ids=[pk], criteria=Criteria(team=team)),
        ):
            assert sorted(item.name for item in found.found) == expected
            # The queue that it leads to is told as where all of it is read.
            known = {item.key: item.queue for item in every.found if item.kind != "Pod"}
            assert all(known[item.key] == item.queue for item in found.found if item.kind != "Pod")
    red, blue = (Team.objects.get(slug=slug).pk for slug in ("red", "blue"))
    assert not waiting(now=NOW, team_ids=[red], criteria=Criteria(team="blue")).found
    both = waiting(now=NOW, team_ids=[red, blue])
    assert sorted(item.name for item in both.found) == sorted([*of_team("red"), *of_team("blue"), "pod"])
    nobody = waiting(now=NOW, team_ids=None, criteria=Criteria(team="-", cluster="east"))
    assert [item.name for item in nobody.found] == of_team(None)


@pytest.mark.parametrize("state", ["reserved", "admitted"])
def test_work_of_each_team_that_holds_quota(cluster: Cluster, state: str) -> None:
    fill(cluster, state, reserved_at=hours(1))
    for team in TEAMS:
        found = running(places(cluster, team))
        assert (len(found), names(found)) == (len(of_team(team)), of_team(team))
    # One queue of a team: by the ClusterQueue that it leads to, or where none is known by the name that it carries.
    assert names(running(places(cluster, "red", "cq-a"))) == ["a"]
    assert names(running(places(cluster, "blue", "cq-a"))) == ["b"]
    assert names(running(places(cluster, "blue", "lost"))) == ["g"]
    assert names(running(places(cluster, "red", "vq"))) == ["h"]


def test_ended_work_of_each_team(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(cluster, "finished", finished_at=hours(4), reserved_at=hours(1))
    for team in TEAMS:
        assert names(recently_finished(places(cluster, team))) == of_team(team)
    # At most so many are shown, counted and exported.
    monkeypatch.setattr("apps.admissions.work.FINISHED_SHOWN", 2)
    found = recently_finished(places(cluster, "blue"))
    assert (len(found), len(list(found)), len(found[:50])) == (2, 2, 2)


def test_a_list_is_counted_and_sliced_without_reading_the_rest(
    cluster: Cluster, django_assert_num_queries: object
) -> None:
    for number in range(30):
        since = hours(1 + number / 100)
        make_work(
            cluster, f"w{number:02}", namespace="ns", queue_name="lq-1", state="admitted", reserved_at=since
        )
    at = places(cluster, "red")
    with django_assert_num_queries(1):  # type: ignore[operator]
        found: WorkList = running(at)
        assert len(found) == 30
    with django_assert_num_queries(1):  # type: ignore[operator]
        assert [row.name for row in found[10:13]] == ["w10", "w11", "w12"]
    assert (found[29].name, found[30:], [row.name for row in found][:2]) == ("w29", [], ["w00", "w01"])
    bare = Places(now=NOW, team=make_team("bare"), clusters=[cluster], bindings=BindingIndex(NOW, {}))
    with django_assert_num_queries(0):  # type: ignore[operator]
        assert list(running(bare)) == []
