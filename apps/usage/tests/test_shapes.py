"""Waiting work by what it asks for: identical requests are one shape, whatever each of their texts says."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from apps.admissions.tests.builders import (
    bind,
    hours,
    local_queue,
    make_cluster,
    make_object,
    make_pod,
    make_team,
    make_work,
)
from apps.fleet.models import Cluster
from apps.usage.admission_reading import AdmissionCriteria
from apps.usage.shapes import Shape, blocked_shapes, never_fitting

pytestmark = pytest.mark.django_db
GPU = "nvidia.com/gpu"
D = Decimal
NOW = hours(10)


def queue_of(cluster: Cluster, name: str, nominal: str) -> None:
    quota = {"name": GPU, "nominal": nominal, "borrowing_limit": None, "lending_limit": None}
    groups = [{"covered": [GPU], "flavors": [{"name": "h100", "resources": [quota]}]}]
    spec = {"cohort": "", "resource_groups": groups, "preemption": {}, "namespace_selector": {}}
    make_object(cluster, "ClusterQueue", name, spec=spec)
    make_object(cluster, "ResourceFlavor", "h100", spec={"node_labels": {}})
    local_queue(cluster, "ml", "main", name)


def asking(count: int, gpus: str) -> dict[str, Any]:
    pod = {GPU: gpus}
    total = {GPU: str(count * int(gpus))}
    return {"requests": total, "pod_sets": [{"name": "main", "count": count, "requests": pod}]}


def named(shapes: list[Shape]) -> list[tuple[str, dict[str, Decimal], int]]:
    return [(shape.queue, dict(shape.devices), shape.count) for shape in shapes]


def test_identical_requests_are_one_shape_with_the_longest_waits_first() -> None:
    cluster = make_cluster()
    queue_of(cluster, "team-a", "16")
    for name, since in (("a", 0), ("b", 2), ("c", 4)):
        make_work(cluster, name, queued_at=hours(since), **asking(1, "8"))
    make_work(cluster, "unread", queued_at=hours(6), reason="", message="", **asking(1, "8"))
    make_work(cluster, "old", queued_at=hours(1), **asking(2, "1"))
    make_pod(cluster, "p")
    shapes = blocked_shapes(now=NOW, team_ids=None)
    assert named(shapes) == [
        ("team-a", {GPU: D(8)}, 4),
        ("", {GPU: D(1)}, 1),
        ("team-a", {GPU: D(2)}, 1),
    ]
    first = shapes[0]
    assert (first.waited_seconds, first.oldest_at) == ((10 + 8 + 6 + 4) * 3600, hours(0))
    assert list(first.causes) == [("quota", 3), ("transient", 1)]
    assert first.query == {"cluster": "east", "queue": "team-a", "kind": "Workload"}


def test_what_no_quota_could_ever_meet() -> None:
    cluster = make_cluster()
    queue_of(cluster, "team-a", "16")
    make_work(cluster, "fits", **asking(2, "8"))
    make_work(cluster, "never", **asking(3, "8"))
    make_work(cluster, "other", requests={"example.com/npu": "1"}, pod_sets=[])
    found = never_fitting(blocked_shapes(now=NOW, team_ids=None))
    assert {shape.count for shape in found} == {1}
    lacks = {lack.resource: (lack.beyond, lack.offered) for shape in found for lack in shape.beyond}
    assert lacks == {GPU: (D(8), True), "example.com/npu": (None, False)}


def test_readers_and_filters() -> None:
    cluster, ours, theirs = make_cluster(), make_team("ours"), make_team("theirs")
    queue_of(cluster, "team-a", "16")
    queue_of_theirs = {"spec": {"cluster_queue": "team-b"}, "namespace": "ml"}
    make_object(cluster, "LocalQueue", "second", **queue_of_theirs)
    bind(ours, cluster, "team-a")
    bind(theirs, cluster, "team-b")
    make_work(cluster, "mine", **asking(1, "8"))
    make_work(cluster, "foreign", queue_name="second", **asking(1, "8"))
    assert [shape.queue for shape in blocked_shapes(now=NOW, team_ids=[ours.pk])] == ["team-a"]
    assert [
        shape.queue
        for shape in blocked_shapes(now=NOW, team_ids=None, criteria=AdmissionCriteria(team="theirs"))
    ] == ["team-b"]
    assert blocked_shapes(now=NOW, team_ids=[ours.pk], criteria=AdmissionCriteria(team="theirs")) == []
    assert blocked_shapes(now=NOW, team_ids=None, criteria=AdmissionCriteria(cause="held")) == []
    assert blocked_shapes(now=NOW, team_ids=None, criteria=AdmissionCriteria(layer="placement")) == []
