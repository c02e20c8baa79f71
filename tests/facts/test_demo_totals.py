"""The demo's fleet through the real collectors: what the portal says of it is what its scenario was written to have."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.utils import timezone

from apps.capacity.coverage import coverage
from apps.capacity.rows import CapacityReport
from apps.capacity.selectors import capacity_and_nodes, capacity_report
from apps.capacity.topology_report import topology_report
from apps.fleet.models import Cluster
from apps.observations.models import NodeCards, Source
from apps.observations.retention import keep_observation_partitions
from simcluster.testing import Running, running
from worker.collectors.run import collect_source

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(180)]
POOLS: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[1] / "data" / "demo" / "pools.yaml").read_text("utf-8")
)


@pytest.fixture(scope="module")
def sim() -> Iterator[Running]:
    """The demo as it is first shown: fourteen days old."""
    with running(scenario=True, days=14) as made:
        yield made


@pytest.fixture
def demo(sim: Running) -> Cluster:
    cluster = Cluster.objects.create(
        slug="demo",
        name="Demo",
        kubeconfig_path=str(sim.kubeconfig),
        prometheus_url=sim.prometheus_url,
        is_demo=True,
    )
    keep_observation_partitions(now=timezone.now())
    for source in Source.values:
        result = collect_source(cluster=cluster, source=source, now=timezone.now(), seconds=60)
        assert result.outcome == "ok", result
        # One old exporter prints blanks, which is said and no fault of the pull.
        assert ("blank" in result.error) == (source == Source.DCGM), result
    return cluster


def said(report: CapacityReport) -> list[dict[str, Any]]:
    """The pools as the file writes them, with the units that the file asks for."""
    found = []
    asked = {(pool["model"], pool["mode"]): pool.get("units") for pool in POOLS}
    for pool in report.pools:
        row: dict[str, Any] = {"model": pool.model, "mode": pool.sharing_mode, "cards": pool.physical_devices}
        row["out"] = {bucket: cards for bucket, cards in pool.buckets.items() if cards}
        units = asked.get((pool.model, pool.sharing_mode))
        if units is not None:
            sums: dict[str, int] = {}
            for unit in pool.units:
                if unit.resource in units:
                    sums[unit.resource] = sums.get(unit.resource, 0) + int(unit.allocatable)
            row["units"] = sums
        if pool.stranded:
            row["stranded"] = int(pool.stranded)
        found.append(row)
    return sorted(found, key=lambda row: (row["model"], row["mode"]))


def test_the_demo_has_the_pools_of_its_scenario(demo: Cluster) -> None:
    report = capacity_report(now=timezone.now(), clusters=[demo])
    assert said(report) == sorted(POOLS, key=lambda pool: (pool["model"], pool["mode"]))
    assert report.totals.physical_devices == sum(pool["cards"] for pool in POOLS) == 384
    codes = {note.code for note in report.notes}
    assert codes >= {
        "dual_advertised",
        "mig_invalid",
        "mixed_units",
        "no_flavor",
        "over_committed",
        "unregistered",
        "unused_flavor",
    }


def test_no_card_of_the_demo_is_lost_when_prometheus_falls_silent(demo: Cluster) -> None:
    """Labels alone would have it seven cards smaller."""
    report, rows = capacity_and_nodes(now=timezone.now() + timedelta(days=1), clusters=[demo])
    assert report.totals.physical_devices == 384
    silent = {row.node for row in rows if row.cards_seen_at is not None}
    assert silent >= {row.node for row in rows if "MIG geometry is invalid" in " ".join(row.notes)} != set()
    NodeCards.objects.all().delete()
    assert capacity_report(now=timezone.now(), clusters=[demo]).totals.physical_devices == 377


def test_what_telemetry_and_the_api_know_of_each_other(demo: Cluster) -> None:
    """Not seen: a node that does not answer 8, one without its exporter 4, a card that fell off the bus. Not counted:
    two cards of a node whose plugin is switched off."""
    (found,) = coverage(now=timezone.now(), clusters=[demo])
    assert (found.counted, found.seen, found.matched) == (384, 384 - 13 + 2, 384 - 13)
    gaps = {one.node: (one.unseen, len(one.beyond)) for one in found.differing}
    assert gaps == {"a100-06": (8, 0), "h100-09": (1, 0), "l4-renamed-02": (4, 0), "l4-studio-01": (0, 2)}


def test_the_demo_has_a_job_over_spot_nodes_and_one_without_rdma(demo: Cluster) -> None:
    notes = {note.code: note for note in topology_report(now=timezone.now(), clusters=[demo]).notes}
    (job,) = notes["spans_capacity_types"].objects
    assert job.startswith("foundation-models/nvl-pretrain-")
    assert any(name.startswith("climate/ocean-reanalysis-") for name in notes["no_rdma"].objects)
