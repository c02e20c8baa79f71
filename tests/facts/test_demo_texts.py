"""The demo's texts through the real collectors: no rule is missing for any of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.admissions.selectors import Criteria, waiting
from apps.admissions.unknown import unknown_texts
from apps.core.windows import Window
from apps.fleet.models import Cluster
from apps.observations.models import Source
from apps.observations.retention import keep_observation_partitions
from simcluster.testing import Running, running
from worker.collectors.run import collect_source

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def sim() -> Iterator[Running]:
    with running(scenario=True, days=2) as made:
        yield made


def test_no_text_of_the_demo_is_unknown(sim: Running) -> None:
    now = timezone.now()
    keep_observation_partitions(now=now)
    demo = Cluster.objects.create(slug="demo", name="Demo", kubeconfig_path=str(sim.kubeconfig))
    for source in (Source.NODES, Source.PODS, Source.EVENTS, Source.KUEUE, Source.VOLCANO):
        assert collect_source(cluster=demo, source=source, now=timezone.now(), seconds=60).outcome == "ok"
    now = timezone.now()
    rows = list(waiting(now=now, team_ids=None, criteria=Criteria(deactivated=True)))
    # How many wait depends on the hour of the demo's day; never so few that nothing is tried.
    assert len(rows) >= 5
    assert [row.message for row in rows if row.cause == "unknown"] == []
    window = Window(now - timedelta(days=7), now)
    assert [row.group for row in unknown_texts(clusters=[demo], window=window, now=now)] == []
