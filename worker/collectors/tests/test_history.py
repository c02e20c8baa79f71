"""The demo's past through the live parsers and writers: complete, resumable, and the same when repeated."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from apps.core.windows import Window
from apps.fleet.models import Cluster
from apps.observations.models import (
    CollectionRun,
    DeviceSample,
    Event,
    Pod,
    SourceState,
    StateSpan,
    Transition,
    Workload,
)
from apps.quotas.history import SOURCE_KIND, quota_series
from apps.quotas.models import QuotaPoint
from apps.usage.feed import finished_hours, finished_until
from apps.usage.fleet import fleet_capacity_series
from simcluster.testing import Running, running
from worker.collectors import history
from worker.collectors.run import collect_source

from .conftest import T0

LIVE = {"gone_at": None}


def line(minute: float, name: str, event: str = "ADDED", **status: Any) -> bytes:
    meta = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(minute)}
    body = {"metadata": meta, "spec": {"queueName": "lq"}, "status": status}
    at = (T0 + timedelta(minutes=minute)).isoformat()
    return msgspec.json.encode(
        {"at": at, "kind": "Workload", "version": "v1beta2", "event": {"type": event, "object": body}}
    )


def replay(cluster: Cluster, *lines: bytes) -> history.Imported:
    done = history.Imported()
    for batch in history.batches(lines):
        history.import_batch(cluster_id=cluster.pk, batch=batch, done=done)
    return done


ADMITTED = {
    "admission": {"clusterQueue": "cq", "podSetAssignments": []},
    "conditions": [
        {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved"},
        {"type": "Admitted", "status": "True", "reason": "Admitted"},
    ],
}


@pytest.fixture
def bare(db: None) -> Cluster:
    return Cluster.objects.create(slug="past", name="Past", kubeconfig_path="/nowhere")


def test_changes_keep_the_times_at_which_they_happened(bare: Cluster) -> None:
    done = replay(
        bare, line(0, "w1"), line(7.5, "w1", "MODIFIED", **ADMITTED), line(90, "w1", "DELETED", **ADMITTED)
    )
    spans = StateSpan.objects.order_by("started_at").values_list("state", "started_at", "ended_at")
    at = [T0 + timedelta(minutes=m) for m in (0, 7.5, 90)]
    assert list(spans) == [("pending", at[0], at[1]), ("admitted", at[1], at[2])]
    assert (done.lines, done.bad) == (3, 0)
    assert [t.to_value for t in Transition.objects.order_by("id")] == ["pending", "admitted", "gone"]


def test_batches_end_on_the_clock_and_never_within_an_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    day = [line(minute, "w") for minute in (0, 60, 11 * 60, 13 * 60, 13 * 60, 14 * 60)]
    assert [len(batch) for batch in history.batches(day)] == [2, 4]
    assert list(history.batches([])) == []
    monkeypatch.setattr(history, "BATCH_LINES", 2)
    crowd = [line(minute, f"w{number}") for number, minute in enumerate((0, 0, 0, 0, 1, 2, 3))]
    assert [len(batch) for batch in history.batches(crowd)] == [4, 2, 1]


def test_lines_that_cannot_be_read_are_counted_and_set_aside(bare: Cluster) -> None:
    broken = line(1, "w2").replace(b'"uid":"w2"', b'"uid":7')
    unknown = line(2, "x").replace(b'"kind":"Workload"', b'"kind":"ConfigMap"')
    done = replay(bare, line(0, "w1"), broken, unknown)
    assert (done.rows, done.bad) == (1, 1)


# ------------------------------------------------------------------ the command, against a simulated cluster
@pytest.fixture(scope="module")
def sim() -> Iterator[Running]:
    with running(scenario=True, days=1.5) as made:
        yield made


@pytest.fixture
def demo(transactional_db: None, sim: Running) -> Cluster:
    return Cluster.objects.create(
        slug="demo",
        name="Demo",
        kubeconfig_path=str(sim.kubeconfig),
        prometheus_url=sim.prometheus_url,
        is_demo=True,
    )


def content() -> dict[str, Any]:
    return {
        "pods": set(Pod.objects.values_list("uid", "resource_version", "gone_at")),
        "workloads": set(Workload.objects.values_list("uid", "state", "observed_at", "gone_at")),
        "spans": set(StateSpan.objects.values_list("uid", "state", "started_at", "ended_at")),
        "events": Event.objects.count(),
        "transitions": Transition.objects.count(),
        "quota": QuotaPoint.objects.exclude(kind=SOURCE_KIND).count(),
        # Time goes on between two imports, and with it the last minutes' samples.
        "samples": DeviceSample.objects.filter(sampled_at__minute=0).count(),
    }


def test_import_ends_where_a_live_pull_goes_on(demo: Cluster, sim: Running) -> None:
    call_command("import_history", api=sim.url)

    assert Workload.objects.filter(**LIVE).count() == sim.store.count("Workload") + sim.store.count(
        "PodGroup"
    )
    assert Pod.objects.filter(**LIVE).count() == sim.store.count("Pod")
    assert StateSpan.objects.filter(ended_at=None).count() == Workload.objects.filter(**LIVE).count()
    days = Window(timezone.now() - timedelta(days=2), timezone.now())
    assert finished_hours(cluster=demo, until=finished_until(cluster=demo), team_ids=None).exists()
    kinds = set(QuotaPoint.objects.values_list("kind", flat=True))
    assert kinds == {"ClusterQueue", "Cohort", "VolcanoQueue", SOURCE_KIND}
    week = quota_series(
        cluster=demo,
        kind="ClusterQueue",
        queue="vision-cq",
        flavor="h100",
        resource="nvidia.com/gpu",
        window="week",
    )
    assert sum(point.mean["reserved"] is not None for point in week) >= 2 * 34
    assert any(fleet_capacity_series(window=days, cluster_ids=[demo.pk]).held)
    assert DeviceSample.objects.values("sampled_at").distinct().count() >= 36 + 35
    lately = DeviceSample.objects.filter(sampled_at__gt=timezone.now() - timedelta(minutes=30))
    assert lately.values("sampled_at").distinct().count() >= 28
    assert not CollectionRun.objects.exists()
    before = content()

    for source in ("pods", "kueue", "volcano"):
        result = collect_source(cluster=demo, source=source, now=datetime.now(UTC), seconds=60)
        assert (result.outcome, result.rows_gone) == ("ok", 0), source
        assert result.rows_written < result.objects_seen / 10 + 50, source
    after = content()
    assert (after["pods"], after["workloads"]) == (before["pods"], before["workloads"])
    assert after["spans"] == before["spans"]


def test_import_twice_is_the_same_as_once_even_when_the_first_was_forgotten(
    demo: Cluster, sim: Running
) -> None:
    call_command("import_history", api=sim.url)
    once = content()
    call_command("import_history", api=sim.url)
    assert content() == once
    SourceState.objects.filter(source=history.SOURCE).delete()
    call_command("import_history", api=sim.url)
    again = content()
    assert (again["events"], again["samples"]) == (once["events"], once["samples"])
    assert {row[:2] for row in again["workloads"]} == {row[:2] for row in once["workloads"]}


def test_import_says_what_is_wrong_in_one_line(demo: Cluster, sim: Running) -> None:
    with pytest.raises(CommandError, match=r"127\.0\.0\.1:1"):
        call_command("import_history", api="http://127.0.0.1:1")
    with pytest.raises(CommandError, match=r"answered 40[14]"):
        call_command("import_history", api=f"{sim.url}/elsewhere")
    with pytest.raises(CommandError, match="--cluster"):
        call_command("import_history", api=sim.url, cluster="nobody")
