"""The demo's Volcano through the real collector: which plugin is in force, before and after somebody edits the
scheduler's configuration, and what two pages say of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.fleet.models import Cluster
from apps.observations.models import Source
from apps.observations.retention import keep_observation_partitions
from apps.observations.selectors import source_statuses
from apps.quotas.selectors import quota_rows
from simcluster.testing import ADMIN, Running, running
from worker.collectors.run import collect_source

NAME, KEY = "volcano-scheduler-configmap", "volcano-scheduler.conf"
PATH = f"/api/v1/namespaces/volcano-system/configmaps/{NAME}"
pytestmark = [pytest.mark.django_db, pytest.mark.timeout(120)]


@pytest.fixture
def sim() -> Iterator[Running]:
    with running(scenario=True, days=0.1) as made:
        yield made


@pytest.fixture
def demo(sim: Running) -> Cluster:
    keep_observation_partitions(now=timezone.now())
    return Cluster.objects.create(slug="demo", name="Demo", kubeconfig_path=str(sim.kubeconfig))


def collect(cluster: Cluster, *sources: str) -> None:
    for source in sources:
        assert collect_source(cluster=cluster, source=source, now=timezone.now(), seconds=60).outcome == "ok"


def edit(sim: Running, data: dict[str, Any]) -> None:
    answer = urllib3.request(
        "PATCH",
        sim.url + PATH,
        body=json.dumps({"data": data}).encode(),
        headers={"Authorization": f"Bearer {ADMIN}", "Content-Type": "application/merge-patch+json"},
    )
    assert answer.status == 200, answer.data


def plugins() -> set[tuple[str, str]]:
    return {
        (row.plugin, row.plugin_from) for row in quota_rows(now=timezone.now()) if row.system == "volcano"
    }


def conf(sim: Running) -> str:
    stored = sim.store.get("ConfigMap", NAME, "volcano-system")
    assert stored is not None
    return str(stored["data"][KEY])


def test_an_edit_of_the_configuration_changes_what_queues_deserve(sim: Running, demo: Cluster) -> None:
    collect(demo, Source.NODES, Source.VOLCANO)
    where = f"volcano-system/{NAME}, {KEY}"
    assert plugins() == {("capacity", where)}
    edit(sim, {KEY: conf(sim).replace("name: capacity", "name: proportion")})
    collect(demo, Source.VOLCANO)
    assert plugins() == {("proportion", where)}
    edit(sim, {KEY: None, "mine.conf": "actions: allocate"})
    collect(demo, Source.VOLCANO)
    assert plugins() == {("", f"volcano-system/{NAME}, mine.conf")}


def test_without_it_the_source_page_says_so(sim: Running, demo: Cluster, settings: Any) -> None:
    settings.VOLCANO_CONFIGMAP = ("volcano-system", "another")
    collect(demo, Source.VOLCANO)
    assert plugins() == {("", "")}
    status = next(one for one in source_statuses(now=timezone.now()) if one.source == Source.VOLCANO)
    assert "the scheduler's configuration: not known: " in status.error
    assert 'configmaps "another" not found' in status.error


def test_pages_of_queues_name_the_plugin_and_where_it_was_read(
    sim: Running, demo: Cluster, client: Client
) -> None:
    collect(demo, Source.NODES, Source.VOLCANO)
    client.force_login(User.objects.create_superuser(username="root", password="x"))
    page = client.get("/queues/demo/VolcanoQueue/robotics/").content.decode()
    assert "The capacity plugin is in force" in page
    assert f"ConfigMap volcano-system/{NAME}, {KEY}." in page
