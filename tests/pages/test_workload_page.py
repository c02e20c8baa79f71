"""The workload page: its sentence, its life, what is blocked by the same thing; the same over REST and as CSV."""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.api.tests.world import GPU, World, workload
from apps.observations.models import ClusterObject, Event, Pod, SourceState, StateSpan, Workload
from apps.usage.models import UnseenEvictions

pytestmark = pytest.mark.django_db


def body(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


def explanation(client: Client, uid: str) -> dict[str, Any]:
    response = client.get(f"/api/v1/workloads/{uid}/explanation/")
    assert response.status_code == 200
    found: dict[str, Any] = response.json()["result"]
    return found


def as_user(world: World, name: str) -> Client:
    client = Client()
    client.force_login(world.users[name])
    return client


def test_page_rest_and_csv_say_the_same(world: World) -> None:
    client = as_user(world, "admin")
    page, found = body(client, "/workloads/uid-red-waits/"), explanation(client, "uid-red-waits")
    assert found["sentence"] == "It waits in its queue: needs 4 more nvidia.com/gpu in flavor h100."
    assert found["sentence"] in page
    assert found["action"] in page
    assert (found["phase"], found["layer"], found["cause"]) == ("queued", "admission", "quota")
    assert [s["phase"] for s in found["stretches"]] == ["queued"]
    answer = client.get("/workloads/uid-red-waits/?format=csv")
    text = b"".join(answer.streaming_content).decode("utf-8-sig")  # type: ignore[attr-defined]
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["Rule"] for row in rows] == [found["rule"]]
    assert rows[0]["Message"] == found["stretches"][0]["message"]


def test_others_that_wait_for_the_same_are_named_to_those_who_may_see_them(world: World) -> None:
    workload(world, "red-second")
    workload(world, "blue-here", team="blue", queue_name="red-lq", namespace="blue-ns")
    workload(world, "other-cause", message="ClusterQueue red-cq is stopped")
    found = explanation(as_user(world, "red_lead"), "uid-red-waits")
    assert [row["name"] for row in found["same_cause"]] == ["red-second"]
    assert found["same_cause_count"] == 1
    everything = explanation(as_user(world, "admin"), "uid-red-waits")
    assert everything["same_cause_of_other_teams"] == 0


def test_what_runs_has_no_cause_and_what_is_over_its_outcome(world: World) -> None:
    Pod.objects.all().delete()
    SourceState.objects.filter(source="pods").delete()
    client = as_user(world, "admin")
    runs = explanation(client, "uid-red-runs")
    assert (runs["phase"], runs["cause"], runs["sentence"], runs["action"]) == ("running", "", "It runs.", "")
    assert "Why is it not running?" not in body(client, "/workloads/uid-red-runs/")
    done = workload(world, "done", state="finished", reason="Succeeded", finished_at=world.now)
    StateSpan.objects.filter(uid=done.uid).update(ended_at=world.now)
    Workload.objects.filter(pk=done.pk).update(gone_at=world.now)
    assert explanation(client, "uid-done")["outcome"] == "Succeeded"
    assert "The cluster removed this object" in body(client, "/workloads/uid-done/")


def test_admitted_work_without_pods_says_so(world: World) -> None:
    SourceState.objects.filter(source="pods").update(last_ok_at=world.now)
    Pod.objects.update(first_seen_at=world.now - timedelta(hours=5))
    work = workload(world, "nopods", state="admitted", owner_kind="Job", owner_uid="job-nopods")
    found = explanation(as_user(world, "admin"), work.uid)
    assert found["phase"] == "unplaced"
    assert found["sentence"] == "No queue holds it back, but not all of its pods have a node."
    assert found["action"].startswith("Look at its pods")


def test_a_pod_that_no_queue_knows_has_the_page_too(world: World) -> None:
    message = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    Pod.objects.filter(uid="pod-red").update(
        phase="Pending", node_name="", bound_at=None, queue_name="", created_at=world.now - timedelta(hours=2),
        conditions={"PodScheduled": {"status": "False", "reason": "Unschedulable", "message": message}},
    )  # fmt: skip
    client = as_user(world, "admin")
    found = explanation(client, "pod-red")
    assert (found["kind"], found["phase"], found["cause"]) == ("Pod", "unplaced", "capacity")
    assert message in body(client, "/workloads/pod-red/")


def test_a_removed_pod_is_not_shown_as_running_and_stands_behind_those_that_are_there(world: World) -> None:
    work = Workload.objects.get(uid="uid-red-runs")
    common = {"cluster": work.cluster, "namespace": work.namespace, "pod_group": work.name, "devices": 1,
              "phase": "Running", "first_seen_at": world.now, "observed_at": world.now}  # fmt: skip
    Pod.objects.create(uid="p-old", name="a-removed-one", gone_at=world.now - timedelta(minutes=5), **common)
    Pod.objects.create(uid="p-new", name="b-present-one", **common)
    page = body(as_user(world, "admin"), "/workloads/uid-red-runs/")
    panel = page[page.index('aria-labelledby="h-pods"') :].split("</section>", 1)[0]
    assert panel.index("b-present-one") < panel.index("a-removed-one")
    shown = re.sub(r"<[^>]+>", "", panel[panel.index("a-removed-one") :])
    assert "removed" in shown
    assert "last Running" in shown
    assert "&lt;time" not in panel


def test_evictions_say_who_took_the_quota(world: World) -> None:
    text = (
        "Preempted to accommodate a workload (UID: u9, JobUID: j9) due to reclamation within the cohort;"
        " preemptor path: /all/blue-cq; preemptee path: /all/red-cq"
    )
    at = world.now - timedelta(minutes=30)
    Event.objects.create(
        cluster=world.east, created_at=at, first_at=at, last_at=at, uid="e9", namespace="red-ns", object_kind="Workload",
        object_uid="uid-red-waits", type="Normal", reason="EvictedDueToPreempted", message=text, observed_at=at,
    )  # fmt: skip
    Workload.objects.filter(uid="uid-red-waits").update(evictions=3)
    client = as_user(world, "admin")
    found = explanation(client, "uid-red-waits")
    assert found["evictions"][0]["preemption"]["preemptor_queue"] == "blue-cq"
    assert found["unseen_evictions"] == 2
    page = body(client, "/workloads/uid-red-waits/")
    assert "by work of queue blue-cq, from queue red-cq" in page
    assert "The cluster counts 2 evictions more than were seen" in page


def test_attempts_that_nobody_saw_say_how_long_they_ran(world: World) -> None:
    """3 evictions by the cluster's counter, none seen; of the first two it said 20 and 10 minutes, of the last nothing."""
    client = as_user(world, "admin")
    Workload.objects.filter(uid="uid-red-waits").update(evictions=3)
    at = world.now - timedelta(minutes=30)
    silent = UnseenEvictions.objects.create(cluster=world.east, uid="uid-red-waits", noticed_at=at, count=1)
    assert explanation(client, "uid-red-waits")["unseen_run_seconds"] is None
    assert "in attempts that were not seen" not in body(client, "/workloads/uid-red-waits/")
    for minutes, seconds in ((20, 1200), (10, 600)):
        UnseenEvictions.objects.create(
            cluster=world.east, uid="uid-red-waits", noticed_at=silent.noticed_at + timedelta(minutes=minutes), count=1,
            run_seconds=seconds,
        )  # fmt: skip
    UnseenEvictions.objects.create(
        cluster=world.west, uid="uid-red-waits", noticed_at=at, count=1, run_seconds=1
    )
    assert explanation(client, "uid-red-waits")["unseen_run_seconds"] == 1800
    assert "It ran 30 m in attempts that were not seen." in body(client, "/workloads/uid-red-waits/")


@pytest.mark.parametrize(
    ("kind", "name", "change", "code", "words"),
    [
        ("ClusterQueue", "red-cq", {"stop_policy": "Hold"}, "cluster_queue_stopped", "its queue is stopped"),
        ("LocalQueue", "red-lq", {"stop_policy": "Hold"}, "local_queue_stopped", "its LocalQueue is stopped"),
        (
            "ClusterQueue",
            "red-cq",
            {"strategy": "StrictFIFO"},
            "behind_head",
            "it waits behind the head of its queue (StrictFIFO)",
        ),
    ],
)
def test_what_is_in_the_way_beside_quota_is_said_on_page_and_rest_alike(
    world: World, kind: str, name: str, change: dict[str, Any], code: str, words: str
) -> None:
    """An older piece of work of red's asks for more than there is, so that a strict queue stops at it."""
    for uid in ("uid-red-runs", "uid-blue-runs"):
        Workload.objects.filter(uid=uid).update(usage=[], state="finished")
    workload(
        world,
        "head",
        queued_at=world.now - timedelta(days=1),
        priority=5,
        pod_sets=[{"count": 8, "requests": {GPU: "8"}}],
    )
    thing = ClusterObject.objects.get(cluster=world.east, kind=kind, name=name, gone_at=None)
    ClusterObject.objects.filter(pk=thing.pk).update(spec={**thing.spec, **change})
    client = as_user(world, "red_lead")
    found = explanation(client, "uid-red-waits")
    assert found["blocked_by"] == code
    assert client.get("/api/v1/workloads/uid-red-waits/").json()["result"]["blocked_by"] == code
    assert words in body(client, "/workloads/uid-red-waits/")
    assert explanation(client, "uid-red-runs")["blocked_by"] is None


def test_a_silent_source_ends_what_is_known(world: World) -> None:
    silent = world.now - timedelta(minutes=20)
    SourceState.objects.filter(source="kueue").update(last_ok_at=silent)
    (stretch,) = explanation(as_user(world, "admin"), "uid-red-waits")["stretches"]
    assert stretch["ended_at"] is None
    assert stretch["until_at"] == silent.isoformat().replace("+00:00", "Z")
    assert stretch["seconds"] == 40 * 60


def test_the_requests_are_shown_with_their_pod_sets(world: World) -> None:
    pod_sets = [{"name": "workers", "count": 4, "min_count": None, "requests": {GPU: "2"}}]
    Workload.objects.filter(uid="uid-red-waits").update(pod_sets=pod_sets)
    page = body(as_user(world, "red_lead"), "/workloads/uid-red-waits/")
    assert "workers" in page
    assert "4 ×" in page


def test_a_pod_of_queued_work_is_explained_by_its_work(world: World) -> None:
    Workload.objects.filter(uid="uid-red-runs").update(owner_uid="job-1")
    Pod.objects.filter(uid="pod-red").update(owner_uid="job-1")
    assert explanation(as_user(world, "red_lead"), "pod-red")["uid"] == "uid-red-runs"
