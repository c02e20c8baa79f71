"""Probes: what they say with everything there, with a dead Redis, and how old the numbers are."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from apps.fleet.models import Cluster
from apps.observations.models import Outcome, Source, SourceState

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.objects.create(slug="a", name="A", kubeconfig_path="/nowhere", prometheus_url="http://p")


def ran(cluster: Cluster, source: str, *, seconds_ago: int, good: bool = True) -> None:
    at = timezone.now() - timedelta(seconds=seconds_ago)
    SourceState.objects.create(
        cluster=cluster,
        source=source,
        last_run_at=at,
        last_ok_at=at if good else None,
        last_outcome=Outcome.OK if good else Outcome.FAILED,
        error="the token secret-token was refused",
    )


def ready(client: Client) -> tuple[int, dict[str, Any]]:
    answer = client.get("/healthz/ready")
    assert "secret-token" not in answer.content.decode()
    return answer.status_code, answer.json()


def test_live_asks_nothing(client: Client, settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    answer = client.get("/healthz/live")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert "no-store" in answer["Cache-Control"]


def test_ready_without_a_cluster_says_that_nothing_is_collected(client: Client) -> None:
    status, body = ready(client)
    assert status == 200
    assert body["database"]["status"] == body["redis"]["status"] == "ok"
    assert body["collection"]["sources"] == 0
    assert body["collection"]["newest_good_seconds"] is None


def test_ready_is_503_when_redis_does_not_answer(client: Client, settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    status, body = ready(client)
    assert (status, body["status"], body["redis"]) == (503, "failing", {"status": "failing"})
    assert body["database"]["status"] == "ok"


def test_the_first_round_is_over_when_every_source_was_tried(client: Client, cluster: Cluster) -> None:
    first, *others = Source.values
    ran(cluster, first, seconds_ago=50)
    collection = ready(client)[1]["collection"]
    assert collection["oldest_attempt_seconds"] is None
    assert collection["newest_good_seconds"] == pytest.approx(50, abs=3)
    for number, source in enumerate(others):
        ran(cluster, source, seconds_ago=number, good=False)
    collection = ready(client)[1]["collection"]
    assert collection["oldest_attempt_seconds"] == pytest.approx(50, abs=3)
    assert collection["newest_attempt_seconds"] == pytest.approx(0, abs=3)
    assert collection["failing"] == len(others)


def test_old_numbers_are_told_but_do_not_take_the_pages_away(client: Client, cluster: Cluster) -> None:
    for source in Source.values:
        ran(cluster, source, seconds_ago=3600)
    status, body = ready(client)
    assert status == 200
    assert body["collection"]["stale"] == len(Source.values)


def test_nobody_waits_for_samples_of_a_cluster_without_prometheus(client: Client, cluster: Cluster) -> None:
    Cluster.objects.update(prometheus_url="")
    for source in Source.values:
        if source != Source.DCGM:
            ran(cluster, source, seconds_ago=5)
    assert ready(client)[1]["collection"]["oldest_attempt_seconds"] == pytest.approx(5, abs=3)


def test_only_reading_is_allowed(client: Client) -> None:
    assert client.post("/healthz/ready").status_code == 405


def test_behind_tls_pages_are_sent_to_https_but_probes_are_not(client: Client, settings: Settings) -> None:
    settings.SECURE_SSL_REDIRECT = True
    assert client.get("/healthz/live").status_code == 200
    answer = client.get("/login/")
    assert (answer.status_code, answer["Location"]) == (301, "https://testserver/login/")
