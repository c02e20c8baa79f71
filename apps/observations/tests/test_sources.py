"""Leases, resume points, the log of pulls, the quarantine, and the statuses that people read."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings

from apps.fleet.models import Cluster
from apps.observations.advice import ADVICE, advice_for
from apps.observations.models import CollectionRun, ErrorKind, Pod, Quarantine, SourceState, StateSpan
from apps.observations.retention import drop_gone, keep_observation_partitions
from apps.observations.selectors import State, as_of, quarantined, runs, source_statuses
from apps.observations.services import (
    BadObject,
    LeaseLost,
    RunResult,
    lease_acquire,
    lease_release,
    lease_renew,
    quarantine_clear,
    quarantine_keep_only,
    quarantine_put,
    run_record,
)

from .builders import T0, make_cluster, minutes

pytestmark = pytest.mark.django_db
INTERVAL = settings.COLLECT_INTERVAL_SECONDS


@pytest.fixture
def cluster() -> Cluster:
    return make_cluster()


def record(cluster: Cluster, outcome: str = "ok", at: float = 0, source: str = "pods", **more: Any) -> None:
    options = {k: more.pop(k) for k in ("token", "cursors", "presence") if k in more}
    result = RunResult(started_at=minutes(at), ended_at=minutes(at), outcome=outcome, **more)
    run_record(cluster_id=cluster.pk, source=source, result=result, **options)


def status(cluster: Cluster, source: str = "pods", at: float = 0) -> Any:
    return next(s for s in source_statuses(now=minutes(at), clusters=[cluster]) if s.source == source)


# ------------------------------------------------------------------ leases
def lease(cluster: Cluster, at: float, seconds: float = 60) -> str | None:
    return lease_acquire(cluster_id=cluster.pk, source="pods", now=minutes(at), seconds=seconds)


def test_lease_is_held_by_one(cluster: Cluster) -> None:
    assert lease(cluster, 0)
    assert lease(cluster, 0.5) is None


def test_lease_of_a_crashed_worker_ends_by_itself(cluster: Cluster) -> None:
    first, second = lease(cluster, 0), lease(cluster, 1)
    assert second
    assert second != first


def test_lease_is_free_after_release_but_only_by_its_holder(cluster: Cluster) -> None:
    token = lease(cluster, 0)
    lease_release(cluster_id=cluster.pk, source="pods", token="somebody-else")
    assert lease(cluster, 0.1) is None
    lease_release(cluster_id=cluster.pk, source="pods", token=token or "")
    assert lease(cluster, 0.1)


def test_lease_can_be_prolonged_only_by_its_holder(cluster: Cluster) -> None:
    token = lease(cluster, 0) or ""
    where = {"cluster_id": cluster.pk, "source": "pods", "now": minutes(0.9), "seconds": 60}
    assert lease_renew(token=token, **where)  # type: ignore[arg-type]
    assert not lease_renew(token="other", **where)  # type: ignore[arg-type]
    assert lease(cluster, 1.5) is None


def test_pull_that_lost_its_lease_may_not_record(cluster: Cluster) -> None:
    old = lease(cluster, 0)
    lease(cluster, 2)
    with pytest.raises(LeaseLost):
        record(cluster, at=3, token=old, cursors={"Pod": {"resource_version": "9"}})
    assert not CollectionRun.objects.exists()
    assert SourceState.objects.get().cursors == {}


# ------------------------------------------------------------------ statuses
def test_source_that_was_never_pulled_has_no_age(cluster: Cluster) -> None:
    found = status(cluster)
    assert (found.state, found.observed_at, found.age_seconds) == (State.NEVER, None, None)


def test_good_pull_is_ok_then_stale_after_two_intervals(cluster: Cluster) -> None:
    record(cluster)
    fresh, old = 2 * INTERVAL / 60, (2 * INTERVAL + 1) / 60
    assert status(cluster, at=fresh).state is State.OK
    assert status(cluster, at=old).state is State.STALE
    assert status(cluster, at=old).age_seconds == 2 * INTERVAL + 1


def test_failure_keeps_the_age_of_the_last_good_pull(cluster: Cluster) -> None:
    record(cluster, at=0)
    record(cluster, "failed", at=0.5, error_kind=ErrorKind.FORBIDDEN, error="pods is forbidden")
    record(cluster, "failed", at=1, error_kind=ErrorKind.FORBIDDEN, error="pods is forbidden")
    found = status(cluster, at=1)
    assert (found.state, found.age_seconds, found.failures) == (State.FAILED, 60, 2)
    assert "may not read" in found.sentence
    assert "Grant" in found.action
    assert found.run.outcome == "failed"
    record(cluster, at=1.5)
    assert (status(cluster, at=1.5).state, status(cluster, at=1.5).failures) == (State.OK, 0)


def test_skipped_pull_moves_nothing(cluster: Cluster) -> None:
    record(cluster, at=0)
    record(cluster, "skipped", at=0.5)
    assert status(cluster, at=1).age_seconds == 60
    assert CollectionRun.objects.count() == 2


def test_not_installed_is_neither_failed_nor_needed(cluster: Cluster) -> None:
    record(cluster, source="kueue", presence="absent")
    record(cluster, source="nodes")
    assert status(cluster, "kueue").state is State.ABSENT
    joint = as_of(now=minutes(0), clusters=[cluster], sources=["kueue", "nodes"])
    assert (joint.state, joint.missing) == (State.OK, [])


def test_cluster_without_prometheus_has_no_dcgm(cluster: Cluster) -> None:
    assert status(cluster, "dcgm").state is State.ABSENT
    assert status(make_cluster("c2", prometheus_url="http://p:9090"), "dcgm").state is State.NEVER


def test_quarantined_object_makes_the_source_partial_until_it_is_read(cluster: Cluster) -> None:
    record(cluster)
    quarantine(cluster, "uid-1")
    found = status(cluster)
    assert (found.state, found.quarantined, found.error_kind) == (State.PARTIAL, 1, ErrorKind.BAD_VALUES)
    quarantine_clear(cluster_id=cluster.pk, source="pods", kind="Pod", keys=["uid-1", "ns/a"])
    assert status(cluster).state is State.OK


def test_joint_age_is_that_of_the_oldest_source(cluster: Cluster) -> None:
    record(cluster, at=0, source="nodes")
    record(cluster, at=0.25, source="pods")
    joint = as_of(now=minutes(0.5), clusters=[cluster], sources=["nodes", "pods"])
    assert (joint.state, joint.observed_at) == (State.OK, T0)


def test_source_that_never_came_is_missing_and_not_zero_old(cluster: Cluster) -> None:
    record(cluster, source="nodes")
    joint = as_of(now=minutes(0), clusters=[cluster], sources=["nodes", "pods"])
    assert (joint.state, [s.source for s in joint.missing]) == (State.PARTIAL, ["pods"])
    assert as_of(now=minutes(0), clusters=[cluster], sources=["pods"]).state is State.NEVER


def test_statuses_cost_the_same_for_any_number_of_clusters(
    cluster: Cluster, django_assert_num_queries: Any
) -> None:
    for number in range(3):
        record(make_cluster(f"x{number}"))
    with django_assert_num_queries(4):
        source_statuses(now=minutes(0))


@pytest.mark.parametrize("kind", ErrorKind.values)
def test_every_error_has_words_and_an_advice(kind: str) -> None:
    assert kind in ADVICE
    assert bool(str(advice_for(kind).sentence)) == bool(str(advice_for(kind).action)) == (kind != "")


def test_values_without_an_object_lead_to_no_quarantine() -> None:
    objects, values = advice_for("bad_values"), advice_for("bad_values", quarantined=False)
    assert "quarantined" in str(objects.action)
    assert "quarantine" not in f"{values.sentence} {values.action}"
    assert "exporter" in str(values.action)
    # of every other kind it makes no difference
    for kind in set(ErrorKind.values) - {"bad_values"}:
        assert advice_for(kind, quarantined=False) == advice_for(kind)


def test_a_good_pull_may_have_something_to_say() -> None:
    assert advice_for("") == ("", "")
    said = advice_for("", remarked=True)
    assert "blank at the source" in str(said.sentence)
    assert said.action == ""
    assert advice_for("timeout", remarked=True) == advice_for("timeout")


# ------------------------------------------------------------------ quarantine
def quarantine(cluster: Cluster, *keys: str, at: float = 0) -> None:
    quarantine_put(
        cluster_id=cluster.pk,
        source="pods",
        kind="Pod",
        objects=[BadObject(key, f"ns/{key}", b"{\x00" * 50_000, "no quantity") for key in keys],
        now=minutes(at),
    )


def test_object_in_quarantine_twice_is_counted_not_doubled(cluster: Cluster) -> None:
    quarantine(cluster, "a", "b")
    quarantine(cluster, "a", at=5)
    found = Quarantine.objects.get(key="a")
    assert (found.times_seen, found.first_seen_at, found.last_seen_at) == (2, T0, minutes(5))
    assert len(bytes(found.raw)) == 64 * 1024
    assert Quarantine.objects.get(key="b").times_seen == 1
    assert [item.key for item in quarantined(clusters=[cluster])] == ["a", "b"]


def test_complete_list_clears_what_it_no_longer_finds_broken(cluster: Cluster) -> None:
    quarantine(cluster, "a", "b")
    quarantine_keep_only(cluster_id=cluster.pk, source="pods", kind="Pod", keys=["b"])
    assert list(Quarantine.objects.values_list("key", flat=True)) == ["b"]


# ------------------------------------------------------------------ log and retention
def test_log_is_newest_first_and_survives_a_nul_in_an_error(cluster: Cluster) -> None:
    record(cluster, at=0)
    record(cluster, "failed", at=1, error_kind="bad_body", error="a\x00b")
    found = list(runs(clusters=[cluster], source="pods", since=T0))
    assert [run.outcome for run in found] == ["failed", "ok"]
    assert found[0].error == "a�b"


def test_retention_removes_only_what_has_been_gone_for_long(cluster: Cluster) -> None:
    common = {"cluster": cluster, "first_seen_at": T0, "observed_at": T0}
    Pod.objects.create(uid="live", name="a", **common)
    Pod.objects.create(uid="old", name="b", gone_at=T0, **common)
    Pod.objects.create(uid="new", name="c", gone_at=T0 + timedelta(days=20), **common)
    span = {"cluster": cluster, "kind": "Workload", "name": "w", "state": "pending", "started_at": T0}
    StateSpan.objects.create(uid="open", **span)
    StateSpan.objects.create(uid="ended", ended_at=T0, **span)
    now = T0 + timedelta(days=settings.GONE_RETENTION_DAYS + 1)
    assert drop_gone(now=now) == 1
    assert set(Pod.objects.values_list("uid", flat=True)) == {"live", "new"}
    drop_gone(now=T0 + timedelta(days=settings.TRANSITION_RETENTION_DAYS + 1))
    assert list(StateSpan.objects.values_list("uid", flat=True)) == ["open"]


def test_facts_of_today_go_into_partitions_of_their_own(cluster: Cluster) -> None:
    record(cluster)
    done = keep_observation_partitions(now=T0)
    assert "observations_collectionrun_p20261102" in done.created
    assert done.stranded == {}
    assert CollectionRun.objects.count() == 1
