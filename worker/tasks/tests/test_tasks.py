"""The tasks' limits and schedule, and what they do when called as functions."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from apps.core.partitions import existing
from apps.fleet.models import Cluster
from apps.observations.models import DeviceSample
from apps.observations.retention import partitioned_tables
from gpuportal.celery import INTERVAL, QUEUES, VISIBILITY_SECONDS, app, collect_limits
from worker import tasks
from worker.tasks.collecting import sources_of


@pytest.mark.parametrize("interval", [5, 10, 30, 60, 300, 3600])
def test_limits_lie_inside_the_interval(interval: int) -> None:
    soft, hard = collect_limits(interval)
    assert 0 < soft < hard < interval


def test_nothing_outlives_what_the_broker_waits_for() -> None:
    for name in ("collect", "dispatch", "rollup", "rollup_waiting", "dispatch_rollups", "upkeep"):
        task = getattr(tasks, name)
        assert task.soft_time_limit < task.time_limit < VISIBILITY_SECONDS, name
        assert task.name == f"worker.tasks.{name}"


def test_every_entry_expires_before_the_next_one_is_due() -> None:
    entries = app.conf.beat_schedule
    assert entries["dispatch"]["schedule"] == INTERVAL
    assert 0 < entries["dispatch"]["options"]["expires"] < INTERVAL
    assert entries["rollups"]["options"]["expires"] < 600
    assert all("expires" in entry["options"] for entry in entries.values())
    assert {entry["task"] for entry in entries.values()} <= set(app.conf.task_routes)


def test_broker_and_worker_settings_are_those_that_survive_restarts() -> None:
    conf = app.conf
    assert conf.task_acks_late
    assert conf.task_ignore_result
    assert conf.worker_prefetch_multiplier == 1
    assert conf.broker_connection_retry_on_startup
    assert conf.worker_cancel_long_running_tasks_on_connection_loss
    assert conf.broker_transport_options["visibility_timeout"] == VISIBILITY_SECONDS
    assert {queue.name if hasattr(queue, "name") else queue for queue in conf.task_queues} == set(QUEUES)
    assert conf.beat_schedule_filename.endswith("/celerybeat-schedule")


@pytest.mark.django_db
def test_cluster_without_prometheus_is_not_asked_for_samples() -> None:
    bare = Cluster.objects.create(slug="a", name="A", kubeconfig_path="/nowhere")
    full = Cluster.objects.create(slug="b", name="B", kubeconfig_path="/nowhere", prometheus_url="http://p")
    assert "dcgm" not in sources_of(bare)
    assert sources_of(full)[-1] == "dcgm"


@pytest.mark.django_db
def test_pull_of_a_cluster_that_was_taken_away_is_skipped() -> None:
    cluster = Cluster.objects.create(slug="a", name="A", kubeconfig_path="/nowhere", enabled=False)
    assert tasks.collect("nodes", cluster.pk) == "skipped"
    assert tasks.collect("nodes", 0) == "skipped"
    assert tasks.rollup(0) == 0
    assert tasks.rollup_waiting(0) == 0


@pytest.mark.django_db
def test_upkeep_makes_missing_partitions_once() -> None:
    tasks.upkeep()  # a pipeline test in this database may have made them before
    samples = next(table for table in partitioned_tables() if table.table == DeviceSample._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE {existing(samples)[-1].name}")
    assert tasks.upkeep() == {"created": 1, "dropped": 0, "removed": 0}
    assert tasks.upkeep() == {"created": 0, "dropped": 0, "removed": 0}


@pytest.mark.django_db
def test_collect_command_says_what_failed(capsys: Any) -> None:
    with pytest.raises(CommandError, match="no cluster is enabled"):
        call_command("collect")
    Cluster.objects.create(slug="a", name="A", kubeconfig_path="/nowhere")
    with pytest.raises(CommandError, match="1 of the pulls failed"):
        call_command("collect", cluster="a", source="nodes")
    assert "a nodes: failed" in capsys.readouterr().out
