"""The demo's failures between layers, through the real collectors: nodes without their devices. Its scheduler places
gangs whole and at once, on the flavor's nodes, and its kubelets refuse nothing; how often work was preempted within a day
depends on how long it has run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.utils import timezone

from apps.findings.selectors import findings
from apps.fleet.models import Cluster
from apps.observations.models import Source
from apps.observations.retention import keep_observation_partitions
from simcluster.testing import Running, running
from worker.collectors.run import collect_source

_READ = (Source.NODES, Source.PODS, Source.EVENTS, Source.KUEUE, Source.VOLCANO, Source.DEVICES)
pytestmark = [pytest.mark.django_db, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def sim() -> Iterator[Running]:
    with running(scenario=True, days=2) as made:
        yield made


def test_what_the_demo_gives(sim: Running) -> None:
    now = timezone.now()
    keep_observation_partitions(now=now)
    demo = Cluster.objects.create(slug="demo", name="Demo", kubeconfig_path=str(sim.kubeconfig))
    for source in _READ:
        assert collect_source(cluster=demo, source=source, now=timezone.now(), seconds=60).outcome == "ok"
    found = [
        item for item in findings(now=timezone.now(), clusters=[demo]) if item.key.startswith("between/")
    ]
    # a100-07 lost its plugin (8 cards), the studio's node is labelled and never offered any.
    (missing,) = [item for item in found if item.code == "device_unregistered"]
    assert [ref.name for ref in missing.objects] == ["a100-07", "l4-studio-01"]
    assert "8 devices are missing" in missing.text
    assert {item.code for item in found} <= {"device_unregistered", "preempted_again", "ready_loop"}
