"""Failures between layers from the database: who is told of what, and what is just not one.

The expected findings stand beside each case; they were written down before the code."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import Team
from apps.admissions.tests.builders import (
    bind,
    hours,
    make_cluster,
    make_object,
    make_team,
    make_work,
)
from apps.findings.between import between_findings
from apps.findings.rows import Finding, Ref
from apps.fleet.models import Cluster
from apps.observations.models import Event, Node, Pod, Source, SourceState, Workload

pytestmark = pytest.mark.django_db

NOW = hours(24)
GPU = "nvidia.com/gpu"
H100 = {"pool": "h100", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
A100 = {"pool": "a100", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


@pytest.fixture
def east() -> Cluster:
    """Read well just now; two nodes of each model and a flavor for each."""
    cluster = make_cluster()
    for source in Source.values:
        SourceState.objects.create(
            cluster=cluster,
            source=source,
            presence="installed",
            last_outcome="ok",
            last_run_at=NOW,
            last_ok_at=NOW,
        )
    for model, labels in (("h100", H100), ("a100", A100)):
        make_object(cluster, "ResourceFlavor", model, spec={"node_labels": {"pool": model}})
        for number in (1, 2):
            Node.objects.create(
                cluster=cluster,
                uid=f"{model}-{number}",
                name=f"{model}-{number}",
                labels=labels,
                first_seen_at=ago(6000),
                observed_at=ago(6000),
            )
    red = make_team("red")
    bind(red, cluster, "red-q")
    bind(make_team("blue"), cluster, "blue-q")
    pod(cluster, "old", node="h100-1", created=ago(6000))  # pods have been read for days
    return cluster


def pod(
    cluster: Cluster, name: str, *, owner: str = "", node: str = "", created: datetime, **fields: Any
) -> Pod:
    placed = (
        {"status": "True"} if node else {"status": "False", "reason": "Unschedulable", "message": "0/4 nodes"}
    )
    values: dict[str, Any] = {
        "uid": f"pod-{name}",
        "namespace": "ml",
        "owner_uid": owner,
        "node_name": node,
        "phase": "Running" if node else "Pending",
        "requests": {GPU: "8"},
        "devices": 8,
        "conditions": {"PodScheduled": placed},
        "bound_at": created if node else None,
        "created_at": created,
        "first_seen_at": created,
        "observed_at": created,
        **fields,
    }
    if node and values["phase"] == "Running":
        values["conditions"] = {
            **values["conditions"],
            "Ready": {"status": "True", "since": created.isoformat()},
        }
    return Pod.objects.create(cluster=cluster, name=name, **values)


def admitted(
    cluster: Cluster, name: str, *, at: datetime, pods: int = 1, queue: str = "red-q", **fields: Any
) -> Workload:
    """A Job's Workload that holds 8 cards of flavor h100 per pod."""
    values: dict[str, Any] = {
        "state": "admitted",
        "reason": "",
        "message": "",
        "cluster_queue": queue,
        "owner_kind": "Job",
        "owner_uid": f"job-{name}",
        "requests": {GPU: str(8 * pods)},
        "usage": [{"flavor": "h100", "resource": GPU, "quantity": str(8 * pods)}],
        "pod_sets": [{"name": "main", "count": pods, "requests": {GPU: "8"}}],
        "created_at": at,
        "queued_at": at,
        "reserved_at": at,
        "admitted_at": at,
        "first_seen_at": at,
        "observed_at": at,
        **fields,
    }
    return make_work(cluster, name, **values)


def event(cluster: Cluster, uid: str, reason: str, message: str, at: datetime, **fields: Any) -> Event:
    values = {"object_kind": "Workload", "namespace": "ml", "last_at": at, "first_at": at, **fields}
    return Event.objects.create(
        cluster=cluster,
        uid=f"{uid}-{reason}-{at.isoformat()}",
        object_uid=uid,
        reason=reason,
        message=message,
        created_at=at,
        observed_at=at,
        **values,
    )


def found(cluster: Cluster, **how: Any) -> dict[str, Finding]:
    how = {"team_ids": None, **how}
    return {item.key: item for item in between_findings(now=NOW, clusters=[cluster], **how)}


def one(cluster: Cluster, code: str) -> Finding:
    (item,) = found(cluster).values()
    assert item.code == code
    assert item.key == f"between/{code}/east/ClusterQueue/red-q/red"
    return item


# ---- 1. admitted, no node came ------------------------------------------------------------------------------------


def test_no_node_came_and_the_autoscaler_says_why(east: Cluster) -> None:
    admitted(east, "train", at=ago(30))
    waiting = pod(east, "train-0", owner="job-train", created=ago(29))
    event(
        east, waiting.uid, "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached", ago(5),
        object_kind="Pod",
    )  # fmt: skip
    item = one(east, "no_node")
    assert item.text == (
        "1 piece of work in queue red-q of East was admitted, and no node came for it: ml/train · Held meanwhile: 8 × GPU."
        " · The autoscaler says: pod didn't trigger scale-up: 1 max node group size reached"
    )
    assert (item.severity, item.count, item.since, item.area) == ("warn", 1, ago(29), "work")
    assert item.objects == (Ref("ClusterQueue", "", "red-q"), Ref("Workload", "ml", "train"))
    assert (item.target, item.args) == ("workload", {"uid": "uid-train"})


@pytest.mark.parametrize(("minutes", "told"), [(10, False), (10.1, True)])
def test_ten_minutes_are_given_for_a_node(east: Cluster, minutes: float, told: bool) -> None:
    admitted(east, "train", at=ago(minutes))
    pod(east, "train-0", owner="job-train", created=ago(minutes))
    assert bool(found(east)) == told


def test_gated_pods_wait_for_no_node(east: Cluster) -> None:
    admitted(east, "train", at=ago(30))
    pod(east, "train-0", owner="job-train", created=ago(29), scheduling_gates=["kueue.x-k8s.io/topology"])
    assert found(east) == {}


def test_what_other_work_was_refused_is_taken_only_when_a_scale_up_was_begun(east: Cluster) -> None:
    admitted(east, "train", at=ago(30))
    waiting = pod(east, "train-0", owner="job-train", created=ago(29))
    event(east, "status", "FailedToScaleUpGroup", "Scale-up failed for group gpu: quota exceeded", ago(20),
          object_kind="ConfigMap")  # fmt: skip
    assert "quota exceeded" not in one(east, "no_node").text
    event(east, waiting.uid, "TriggeredScaleUp", "pod triggered scale-up", ago(25), object_kind="Pod")
    assert one(east, "no_node").text.endswith("Scale-up failed for group gpu: quota exceeded")


def test_what_the_provisioning_request_says(east: Cluster) -> None:
    admitted(east, "train", at=ago(30))
    pod(east, "train-0", owner="job-train", created=ago(29))
    event(east, "pr", "Failed", "Provisioning Request's pods cannot be scheduled", ago(20),
          object_kind="ProvisioningRequest", object_namespace="ml", object_name="train-prov-1")  # fmt: skip
    assert one(east, "no_node").text.endswith("Provisioning Request's pods cannot be scheduled")


# ---- 3. a part of the gang ------------------------------------------------------------------------------------------


def test_a_part_of_the_gang_holds_its_cards_and_waits(east: Cluster) -> None:
    admitted(east, "gang", at=ago(40), pods=3)
    pod(east, "gang-0", owner="job-gang", node="h100-1", created=ago(39))
    for number in (1, 2):
        pod(east, f"gang-{number}", owner="job-gang", created=ago(39))
    item = one(east, "partly_placed")
    assert item.text == (
        "1 piece of work in queue red-q of East has a part of its pods placed (1 of 3): ml/gang"
        " · Held meanwhile: 24 × GPU."
    )
    assert item.severity == "bad"


def test_a_gang_that_may_run_with_fewer_is_whole(east: Cluster) -> None:
    sets = [{"name": "main", "count": 2, "min_count": 1, "requests": {GPU: "8"}}]
    admitted(east, "gang", at=ago(40), pods=2, pod_sets=sets)
    pod(east, "gang-0", owner="job-gang", node="h100-1", created=ago(39))
    pod(east, "gang-1", owner="job-gang", created=ago(39))
    assert found(east) == {}


# ---- 4. refused by the node -----------------------------------------------------------------------------------------


def refused(cluster: Cluster, name: str, *, owner: str, at: datetime, node: str = "h100-2") -> Pod:
    return pod(
        cluster, name, owner=owner, node=node, created=at, phase="Failed", reason="UnexpectedAdmissionError",
        finished_at=at,
    )  # fmt: skip


def test_two_refused_pods_concern_the_work_three_the_node(east: Cluster) -> None:
    admitted(east, "train", at=ago(50))
    admitted(east, "other", at=ago(50), queue="blue-q")
    for name, owner in (("train", "job-train"), ("other", "job-other")):
        pod(east, f"{name}-runs", owner=owner, node="h100-1", created=ago(50))
        refused(east, f"{name}-0", owner=owner, at=ago(20))
    assert sorted(found(east)) == [
        "between/rejected/east/ClusterQueue/blue-q/blue",
        "between/rejected/east/ClusterQueue/red-q/red",
    ]
    refused(east, "train-1", owner="job-train", at=ago(59))
    items = found(east)
    fault = items["between/node_refuses/east/h100-2"]
    assert fault.text == "Node h100-2 of East refused 3 pods within an hour (UnexpectedAdmissionError)."
    assert (fault.severity, fault.objects, fault.since) == ("bad", (Ref("node", "", "h100-2"),), ago(59))
    mine = items["between/rejected/east/ClusterQueue/red-q/red"]
    assert "refused by the node (h100-2): ml/train" in mine.text
    assert found(east, node="h100-2").keys() == {fault.key}
    assert found(east, node="h100-1") == {}


def test_a_refusal_of_more_than_an_hour_ago_is_over(east: Cluster) -> None:
    admitted(east, "train", at=ago(90))
    pod(east, "train-runs", owner="job-train", node="h100-1", created=ago(50))
    for number in range(3):
        refused(east, f"train-{number}", owner="job-train", at=ago(61))
    assert found(east) == {}


# ---- 5. another model -----------------------------------------------------------------------------------------------


def test_it_runs_on_another_model_than_its_quota_is_for(east: Cluster) -> None:
    admitted(east, "train", at=ago(30))
    pod(east, "train-0", owner="job-train", node="a100-1", created=ago(29))
    item = one(east, "other_model")
    assert item.text.startswith(
        "1 piece of work in queue red-q of East runs on NVIDIA-A100-SXM4-80GB, its quota is for NVIDIA-H100-80GB-HBM3:"
        " ml/train"
    )


def test_same_model_elsewhere_and_second_flavors_are_right(east: Cluster) -> None:
    Node.objects.filter(name="h100-2").update(labels={**H100, "pool": "spare"})
    admitted(east, "train", at=ago(30))
    pod(east, "train-0", owner="job-train", node="h100-2", created=ago(29))
    both = [{"flavor": flavor, "resource": GPU, "quantity": "8"} for flavor in ("h100", "a100")]
    admitted(east, "both", at=ago(30), pods=2, usage=both)
    pod(east, "both-0", owner="job-both", node="h100-1", created=ago(29))
    pod(east, "both-1", owner="job-both", node="a100-1", created=ago(29))
    assert found(east) == {}


def test_a_flavor_that_no_node_carries_is_compared_by_its_own_label(east: Cluster) -> None:
    label = "nvidia.com/gpu.product"
    make_object(east, "ResourceFlavor", "gone", spec={"node_labels": {label: "NVIDIA-H200"}})
    make_object(
        east,
        "ResourceFlavor",
        "gke",
        spec={"node_labels": {"cloud.google.com/gke-accelerator": "nvidia-h200"}},
    )
    for flavor in ("gone", "gke"):
        usage = [{"flavor": flavor, "resource": GPU, "quantity": "8"}]
        admitted(east, f"on-{flavor}", at=ago(30), usage=usage)
        pod(east, f"on-{flavor}-0", owner=f"job-on-{flavor}", node="h100-1", created=ago(29))
    assert "ml/on-gone" in one(east, "other_model").text


# ---- 6. quota without pods ------------------------------------------------------------------------------------------


def test_quota_is_held_and_there_are_no_pods(east: Cluster) -> None:
    admitted(east, "empty", at=ago(16))
    item = one(east, "no_pods")
    assert item.text == (
        "1 piece of work in queue red-q of East holds quota and has no pods: ml/empty · Held meanwhile: 8 × GPU."
    )
    assert item.since == ago(16)


def test_when_the_last_pod_is_over_the_time_begins_anew(east: Cluster) -> None:
    admitted(east, "ended", at=ago(300))
    ended = pod(east, "ended-0", owner="job-ended", node="h100-1", created=ago(290), phase="Failed")
    Pod.objects.filter(pk=ended.pk).update(finished_at=ago(15))
    assert found(east) == {}
    Pod.objects.filter(pk=ended.pk).update(finished_at=ago(16), gone_at=ago(14))
    assert one(east, "no_pods").since == ago(16)


@pytest.mark.parametrize(
    "fields",
    [
        {"at": ago(15)},
        {"at": ago(60), "state": "reserved", "checks": [{"name": "prov", "state": "Pending", "message": ""}]},
        {"at": ago(60), "checks": [{"name": "afar", "state": "Ready", "message": ""}]},
        {"at": ago(60), "owner_kind": "RayJob"},
        {"at": ago(60), "requests": {"cpu": "4"}, "usage": []},
        {"at": ago(60), "state": "finished"},
    ],
)
def test_work_that_need_not_have_pods(east: Cluster, fields: dict[str, Any]) -> None:
    make_object(east, "AdmissionCheck", "afar", spec={"controller": "kueue.x-k8s.io/multikueue"})
    admitted(east, "empty", **fields)
    assert found(east) == {}


# ---- 7, 8. again and again ------------------------------------------------------------------------------------------

PREEMPTED = (
    "Preempted to accommodate a workload (UID: u-{n}, JobUID: j-{n}) due to reclamation within the cohort;"
    " preemptor path: /all/blue-q; preemptee path: /all/red-q"
)


def evicted(
    cluster: Cluster, work: Workload, reason: str, count: int, message: str = "Exceeded the timeout"
) -> None:
    for number in range(count):
        at = ago(60 * (number + 1))
        event(cluster, work.uid, f"EvictedDueTo{reason}", message.format(n=number), at)


@pytest.mark.parametrize(("count", "told"), [(1, False), (2, True)])
def test_ready_timeouts_are_a_loop_from_the_second_on(east: Cluster, count: int, told: bool) -> None:
    work = make_work(east, "slow", cluster_queue="red-q")
    evicted(east, work, "PodsReadyTimeout", count)
    assert bool(found(east)) == told
    if told:
        item = one(east, "ready_loop")
        assert "not ready in time (2 times in a day): ml/slow" in item.text
        assert "Held" not in item.text  # it waits
        assert item.since == ago(120)


@pytest.mark.parametrize(("count", "told"), [(2, False), (3, True)])
def test_preemption_by_whom(east: Cluster, count: int, told: bool) -> None:
    work = make_work(east, "victim", cluster_queue="red-q")
    evicted(east, work, "Preempted", count, PREEMPTED)
    assert bool(found(east)) == told
    if told:
        assert one(east, "preempted_again").text == (
            "1 piece of work in queue red-q of East is preempted again and again (3 times in a day): ml/victim"
            " · Preempted by work of: blue-q."
        )


def test_evictions_of_yesterday_and_of_finished_work_are_over(east: Cluster) -> None:
    old = make_work(east, "old-victim", cluster_queue="red-q")
    for number in range(4):
        event(east, old.uid, "EvictedDueToPreempted", PREEMPTED.format(n=number), ago(60 * 24 + number))
    ended = make_work(east, "ended", cluster_queue="red-q", state="finished")
    evicted(east, ended, "PodsReadyTimeout", 5)
    assert found(east) == {}


def test_one_event_can_tell_of_several_evictions(east: Cluster) -> None:
    work = make_work(east, "slow", cluster_queue="red-q")
    event(east, work.uid, "EvictedDueToPodsReadyTimeout", "Exceeded", ago(30), first_at=ago(90), count=3)
    assert "(3 times in a day)" in one(east, "ready_loop").text


# ---- copies, readers, size ------------------------------------------------------------------------------------------


def test_a_copy_is_told_of_its_original_only(east: Cluster) -> None:
    west = make_cluster("west")
    label = {"kueue.x-k8s.io/multikueue-origin": "east"}
    admitted(east, "far", at=ago(60), owner_kind="RayJob")
    admitted(west, "far", at=ago(60), labels=label, uid="uid-copy")
    admitted(west, "alone", at=ago(60), labels=label, uid="uid-alone")
    pod(west, "w", node="n", created=ago(6000))
    assert [item.objects[1].name for item in found(west).values()] == ["alone"]


def test_each_team_is_told_of_its_own_work_and_of_no_other_queue(east: Cluster) -> None:
    red, blue = (make_team_id(slug) for slug in ("red", "blue"))
    admitted(east, "red-empty", at=ago(60))
    admitted(east, "blue-empty", at=ago(60), queue="blue-q")
    victim = make_work(east, "victim", cluster_queue="red-q")
    evicted(east, victim, "Preempted", 3, PREEMPTED)
    for number in range(3):
        refused(east, f"p-{number}", owner="job-blue-empty", at=ago(5), node="h100-1")
    mine = found(east, team_ids=[red])
    assert sorted(mine) == [
        "between/no_pods/east/ClusterQueue/red-q/red",
        "between/preempted_again/east/ClusterQueue/red-q/red",
    ]
    assert not any("blue" in f"{item.text}{item.objects}" for item in mine.values())
    assert {key.rpartition("/")[2] for key in found(east, team_ids=[blue])} == {"blue"}
    assert found(east, team_ids=[]) == {}
    everything = found(east)
    assert "blue" not in everything["between/node_refuses/east/h100-1"].text
    assert found(east, uid="uid-red-empty").keys() == {"between/no_pods/east/ClusterQueue/red-q/red"}


def make_team_id(slug: str) -> int:
    return Team.objects.get(slug=slug).pk


def test_as_many_queries_for_many_as_for_one(east: Cluster) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            (item,) = found(east).values()
        assert item.count == count
        return len(seen)

    count = 1
    admitted(east, "w0", at=ago(60))
    first = queries()
    for number in range(1, 30):
        admitted(east, f"w{number}", at=ago(60))
    count = 30
    assert queries() == first
    assert first < 30
