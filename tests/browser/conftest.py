"""One simulated fleet, read by the real collectors, behind a live server and one Chromium.

Made once per file: the data stays as it is while its tests only look at pages. Tests carry the django_db mark, so
that the test database exists; what they write themselves is rolled back and not seen by the server's own thread.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

if TYPE_CHECKING:
    from apps.fleet.models import Cluster
    from simcluster.testing import Running

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--font-render-hinting=none",
]
# Not test-results/: pytest-playwright empties that folder whenever any test session starts.
RESULTS = Path(__file__).resolve().parents[2] / "var" / "screenshots"


@pytest.fixture(scope="module")
def fleet(
    django_db_setup: None, django_db_blocker: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SimpleNamespace]:
    from simcluster.testing import running

    with django_db_blocker.unblock():  # type: ignore[attr-defined]
        assert connection.settings_dict["NAME"].startswith("test_"), "never in anybody's real database"
        with running(scenario=True, days=0.4, folder=tmp_path_factory.mktemp("simcluster")) as sim:
            yield _collected(sim)
        _empty()


def _collected(sim: Running) -> SimpleNamespace:
    from apps.fleet.models import Cluster
    from apps.observations.models import Source, StateSpan, Workload
    from apps.observations.retention import keep_observation_partitions
    from apps.usage.services import capacity_snapshot, rollup_hours
    from worker.collectors.run import collect_source

    now = timezone.now()
    cluster = Cluster.objects.create(
        slug="demo",
        name="Demo cluster",
        kubeconfig_path=str(sim.kubeconfig),
        prometheus_url=sim.prometheus_url,
        is_demo=True,
    )
    keep_observation_partitions(now=now)
    for source in Source.values:
        result = collect_source(cluster=cluster, source=source, now=timezone.now(), seconds=120)
        assert result.outcome == "ok", (source, result.error)
    # As if the portal had watched since the work was created: the charts get a past.
    for span in StateSpan.objects.filter(ended_at=None):
        created = Workload.objects.get(cluster=cluster, uid=span.uid).created_at or span.started_at
        StateSpan.objects.filter(pk=span.pk).update(started_at=min(created, span.started_at))
    for hours in range(4):
        capacity_snapshot(cluster=cluster, at=now - timedelta(hours=hours))
    rollup_hours(cluster=cluster, now=now)
    _people(cluster)
    _charged(cluster)
    waiting = Workload.objects.filter(state="pending").order_by("queued_at").first()
    return SimpleNamespace(cluster=cluster, sim=sim, waiting=waiting)


def _charged(cluster: Cluster) -> None:
    """What was held so far, at the demo's prices; the month runs."""
    from worker.management.commands.seed_demo import seed_budgets, seed_rates
    from worker.tasks import provide_charges, rollup_held

    seed_rates(timezone.now())
    seed_budgets(timezone.now())
    rollup_held(cluster.pk)
    provide_charges()


def _people(cluster: Cluster) -> None:
    from apps.accounts.models import Membership, Team, User
    from apps.fleet.models import TeamBinding
    from apps.observations.models import ClusterObject

    start = timezone.now() - timedelta(days=30)
    namespaces = sorted(
        set(ClusterObject.objects.filter(kind="LocalQueue").values_list("namespace", flat=True))
    )
    for namespace in namespaces:
        team = Team.objects.create(slug=namespace, name=namespace.replace("-", " ").capitalize())
        TeamBinding.objects.create(
            team=team, cluster=cluster, kind="namespace", name=namespace, valid_from=start
        )
    queues = ClusterObject.objects.filter(kind="LocalQueue").values_list("namespace", "spec__cluster_queue")
    for namespace, queue in sorted(set(queues)):
        taken = TeamBinding.objects.filter(kind="cluster_queue", name=queue).exists()
        if not taken and ClusterObject.objects.filter(kind="ClusterQueue", name=queue).exists():
            TeamBinding.objects.create(
                team=Team.objects.get(slug=namespace),
                cluster=cluster,
                kind="cluster_queue",
                name=queue,
                valid_from=start,
            )
    User.objects.create_user("admin", password="demo", role="platform_admin", is_staff=True)
    lead = User.objects.create_user("lead", password="demo")
    Membership.objects.create(user=lead, team=Team.objects.get(slug="foundation-models"), role="lead")


def _empty() -> None:
    from tests.emptying import empty_database

    empty_database()
    connection.close()


@pytest.fixture(scope="module")
def server(fleet: SimpleNamespace) -> Iterator[str]:
    from pytest_django.live_server_helper import LiveServer

    live = LiveServer("127.0.0.1")
    yield live.url
    live.stop()


@pytest.fixture(scope="module")
def chromium() -> Iterator[object]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def session_cookie(fleet: SimpleNamespace) -> dict[str, str]:
    """{user: session id}: signed in once, not through the form each time."""
    from apps.accounts.models import User

    found = {}
    for name in ("admin", "lead"):
        client = Client()
        client.force_login(User.objects.get(username=name))
        found[name] = client.cookies["sessionid"].value
    return found
