"""A cluster behind HTTP, its row in the portal, and `pull` to collect one source from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from apps.fleet.models import Cluster
from apps.observations.models import CollectionRun, DeviceSample, Event, Transition
from apps.observations.selectors import SourceStatus, source_statuses
from apps.observations.services import RunResult
from worker.clients import kube
from worker.collectors.run import collect_source

from .minicluster import MiniCluster, mini_cluster

T0 = datetime(2026, 11, 2, 8, 0, tzinfo=UTC)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[MiniCluster]:
    with mini_cluster(tmp_path) as made:
        yield made
    kube._clients.clear()


@pytest.fixture
def cluster(db: None, api: MiniCluster) -> Cluster:
    return Cluster.objects.create(slug="c1", name="C1", kubeconfig_path=api.kubeconfig)


def _forget_facts() -> None:
    """Django empties only the tables that it manages itself after a test with real transactions."""
    with connection.cursor() as cursor:
        for model in (CollectionRun, DeviceSample, Event, Transition):
            cursor.execute(f"TRUNCATE {model._meta.db_table}")


@pytest.fixture(autouse=True, scope="session")
def _no_facts_of_a_killed_run(django_db_setup: None, django_db_blocker: Any) -> None:
    with django_db_blocker.unblock():
        _forget_facts()


@pytest.fixture(autouse=True)
def _no_facts_left(request: pytest.FixtureRequest, django_db_blocker: Any) -> Iterator[None]:
    yield
    marker = request.node.get_closest_marker("django_db")
    if "transactional_db" in request.fixturenames or (marker and marker.kwargs.get("transaction")):
        with django_db_blocker.unblock():
            _forget_facts()


Pull = Callable[..., RunResult]


@pytest.fixture
def pull(cluster: Cluster, settings: Any) -> Pull:
    """`pull(source, minute)`: one pull at T0 + minute."""
    settings.READ_TIMEOUT_SECONDS = 1
    settings.CONNECT_TIMEOUT_SECONDS = 1

    def act(source: str, minute: float = 0) -> RunResult:
        now = T0 + timedelta(minutes=minute)
        return collect_source(cluster=cluster, source=source, now=now, seconds=20)

    return act


@pytest.fixture
def status(cluster: Cluster) -> Callable[..., SourceStatus]:
    def act(source: str, minute: float = 0) -> SourceStatus:
        now = T0 + timedelta(minutes=minute)
        return next(s for s in source_statuses(now=now, clusters=[cluster]) if s.source == source)

    return act
