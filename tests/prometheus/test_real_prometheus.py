"""PromClient, the exporters' parser and the collector against a real Prometheus."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from apps.fleet.models import Cluster
from apps.observations.models import CollectionRun, DeviceSample
from worker.clients.errors import ClientError
from worker.collectors.run import collect_source
from worker.parsers.exporters import (
    COLUMNS,
    Samples,
    group_by_metric,
    metrics,
    queries,
    samples,
    targets_query,
)

from .conftest import Scraped, exposition

pytestmark = pytest.mark.prometheus
MI = 1 << 20


def read(scraped: Scraped, job: str) -> Samples:
    series = scraped.client.instant(f'{{__name__=~"{"|".join(metrics())}",job="{job}"}}')
    series += scraped.client.instant(targets_query(series))
    return samples(group_by_metric(series), datetime.now(UTC).replace(microsecond=0))


def named(found: Samples) -> dict[tuple[str, str], dict[str, Any]]:
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in found.rows]
    return {(row["device"], row["instance"]): row for row in rows}


def said(text: str) -> dict[tuple[str, str], tuple[str, str]]:
    """(namespace, pod) per device and instance, read from the exposition by a regular expression; of several pods on
    a device nobody."""
    found: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for line in text.splitlines():
        if not line.startswith("DCGM_FI_DEV_FB_USED{"):
            continue
        labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
        users = found.setdefault((labels.get("UUID") or labels["uuid"], labels.get("GPU_I_ID", "")), set())
        if "pod" in labels:
            users.add((labels["namespace"], labels["pod"]))
    return {key: next(iter(users)) if len(users) == 1 else ("", "") for key, users in found.items()}


# ------------------------------------------------------------------ the simulated exporter
@pytest.mark.parametrize("job", ["dcgm-operator", "dcgm-honoring", "dcgm-plain"])
def test_users_of_devices_are_the_exporters_however_it_is_scraped(scraped: Scraped, job: str) -> None:
    exported = said(exposition(scraped.sim))
    rows = named(read(scraped, job))
    assert len(rows) > 50
    assert rows.keys() == exported.keys()
    # On one node the pod's label flips from scrape to scrape: whoever is named there may have changed since.
    flipping = {key for key, row in rows.items() if row["node_name"] == "l4-shared-03"}
    users = {key: (row["namespace"], row["pod"]) for key, row in rows.items() if key not in flipping}
    assert users == {key: user for key, user in exported.items() if key not in flipping}
    assert flipping
    assert ("", "") in users.values()
    assert any(pod for _namespace, pod in users.values())


def test_values_are_those_of_the_exporter(scraped: Scraped) -> None:
    rows = named(read(scraped, "dcgm-operator"))
    assert {row["utilisation_source"] for row in rows.values()} >= {"sm_active", "gr_engine_active"}
    for row in rows.values():
        assert row["node_name"]
        assert row["model"]
        assert row["memory_total_bytes"] >= row["memory_used_bytes"] >= 0
        assert row["utilisation_ratio"] is None or 0 <= row["utilisation_ratio"] <= 1
    powered = [device for (device, _instance), row in rows.items() if row["power_watts"] is not None]
    # One old exporter has a card whose power it does not know.
    assert len(powered) == len(set(powered)) == len({device for device, _instance in rows}) - 1


def test_three_jobs_at_once_do_not_multiply_devices(scraped: Scraped) -> None:
    query = f'{{__name__=~"{"|".join(metrics())}",job=~"dcgm-(operator|honoring|plain)"}}'
    found = samples(group_by_metric(scraped.client.instant(query)), datetime.now(UTC))
    assert len(found.rows) == len(said(exposition(scraped.sim)))


# ------------------------------------------------------------------ shapes of real exporters
def test_shapes(scraped: Scraped) -> None:
    rows = named(read(scraped, "dcgm-shapes"))
    busy = rows["GPU-8b2281de", ""]
    assert (busy["namespace"], busy["pod"], busy["node_name"]) == ("default", "train-0", "node-a")
    assert (busy["utilisation_ratio"], busy["utilisation_source"]) == (Decimal("0.4200"), "gpu_util")
    assert (busy["memory_used_bytes"], busy["memory_total_bytes"]) == (1000 * MI, 81000 * MI)
    assert (busy["power_watts"], busy["xid"]) == (None, 45)
    assert rows["GPU-15338f3e", ""]["utilisation_ratio"] == 0
    assert rows["GPU-sentinel", ""]["utilisation_ratio"] is None
    shared = rows["GPU-shared", ""]
    assert (shared["utilisation_ratio"], shared["pod"], shared["attribution"]) == (
        Decimal("0.7140"),
        "",
        "copies",
    )
    assert [share["pod"] for share in json.loads(shared["shares"])] == ["w-1", "w-2"]
    third, fourth = rows["GPU-153bdcb7", "3"], rows["GPU-153bdcb7", "4"]
    assert (third["node_name"], third["utilisation_ratio"]) == ("node-b", Decimal("0.2500"))
    assert (third["power_watts"], fourth["power_watts"]) == (Decimal("120.50"), None)
    assert fourth["utilisation_ratio"] is None


def test_unusable_values_are_reported(scraped: Scraped) -> None:
    found = {(p.metric, p.reason) for p in read(scraped, "dcgm-shapes").problems}
    assert found == {
        ("DCGM_FI_DEV_GPU_UTIL", "blank"),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "blank"),
        ("DCGM_FI_DEV_POWER_USAGE", "infinite"),
    }


# ------------------------------------------------------------------ other vendors' exporters
def everything(scraped: Scraped) -> Samples:
    """As the collector asks."""
    series = [one for query in queries() for one in scraped.client.instant(query)]
    series += scraped.client.instant(targets_query(series))
    return samples(group_by_metric(series), datetime.now(UTC).replace(microsecond=0))


def test_devices_of_other_vendors(scraped: Scraped) -> None:
    """All of one job, whose labels are not honoured and whose pod has a name that says nothing: the namespace and
    AMD's pod become exported_…, Ascend's pod_name stays, and nobody is the exporter's."""
    rows = {key: row for key, row in named(everything(scraped)).items() if row["node_name"] == "mixed-1"}
    found = {
        device: (
            row["vendor"],
            row["model"],
            row["namespace"],
            row["pod"],
            row["utilisation_ratio"],
            row["utilisation_source"],
        )
        for (device, _instance), row in rows.items()
    }
    amd, npu = "AMD INSTINCT MI300X", "910B4"
    assert found == {
        "17A43D0-C1": ("ascend", npu, "lab", "train-7", Decimal("0.6300"), "ai_core"),
        "17A43D0-C2": ("ascend", npu, "", "", Decimal("0.0000"), "ai_core"),
        "692251001124": ("amd", amd, "lab", "train-8", Decimal("0.8800"), "gfx_activity"),
        "692251001125": ("amd", amd, "", "", Decimal("0.0000"), "gfx_activity"),
        "4804027640182130321-0": ("tpu", "tpu-v5-lite-podslice", "", "", Decimal("0.4200"), "duty_cycle"),
    }
    assert {instance for _device, instance in rows} == {""}
    npu_row = rows["17A43D0-C1", ""]
    assert (npu_row["memory_used_bytes"], npu_row["memory_total_bytes"]) == (20000 * MI, 32768 * MI)


# ------------------------------------------------------------------ the client
def test_a_range_has_the_rows_of_its_instants(scraped: Scraped) -> None:
    selector = '{__name__="DCGM_FI_DEV_FB_USED",job="dcgm-shapes"}'
    deadline = time.monotonic() + 20
    while True:
        # Prometheus has only just begun to scrape: the window moves on until all of it is covered.
        end = datetime.now(UTC).replace(microsecond=0)
        matrix = scraped.client.range(selector, end - timedelta(seconds=1), end + timedelta(seconds=1), 1)
        if (matrix and len(matrix[0]["values"]) == 3) or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    rows = samples(group_by_metric(matrix)).rows
    assert [row[0] for row in rows] == [end + timedelta(seconds=offset) for offset in (-1, 0, 1)]


def test_nan_and_infinite_values_come_as_text(scraped: Scraped) -> None:
    assert scraped.client.instant("vector(0)/0")[0]["value"][1] == "NaN"
    assert scraped.client.instant("vector(1)/0")[0]["value"][1] == "+Inf"


def test_a_query_that_is_too_long_for_an_address(scraped: Scraped) -> None:
    short = scraped.client.instant('{__name__="up",job="dcgm-shapes"}')
    names = "|".join(["up", *(f"no_such_metric_{n}" for n in range(1000))])
    found = scraped.client.instant(f'{{__name__=~"{names}",job="dcgm-shapes"}}')
    assert [series["metric"] for series in found] == [series["metric"] for series in short]
    now = datetime.now(UTC)
    assert scraped.client.range(f'{{__name__=~"{names}"}}', now, now, 60)


def test_nothing_matches(scraped: Scraped) -> None:
    assert scraped.client.instant("no_such_metric") == []


@pytest.mark.parametrize(
    ("query", "kind", "status", "words"),
    [
        ("sum(", "bad_body", 400, "parse error"),
        ('label_replace(up, "a b", "x", "job", ".*")', "bad_body", 422, "invalid"),
    ],
)
def test_refused_queries_say_why(scraped: Scraped, query: str, kind: str, status: int, words: str) -> None:
    with pytest.raises(ClientError) as caught:
        scraped.client.instant(query)
    assert (caught.value.kind, caught.value.status) == (kind, status)
    assert words in caught.value.message


def test_too_many_points_are_refused(scraped: Scraped) -> None:
    now = datetime.now(UTC)
    with pytest.raises(ClientError, match="exceeded maximum resolution of 11,000 points"):
        scraped.client.range("up", now - timedelta(days=1), now, 1)


# ------------------------------------------------------------------ the collector
@pytest.mark.django_db
def test_the_collector_stores_a_sample_per_device(scraped: Scraped) -> None:
    cluster = Cluster.objects.create(
        slug="real-prom", name="P", kubeconfig_path="/none", prometheus_url=scraped.url
    )
    # The collector asks for the minute that has just ended: look from a minute later.
    now = datetime.now(UTC) + timedelta(minutes=1)
    result = collect_source(cluster=cluster, source="dcgm", now=now, seconds=30)
    stored = DeviceSample.objects.filter(cluster=cluster)
    devices = len(everything(scraped).rows)
    assert devices > len(said(exposition(scraped.sim))) + 6
    assert stored.count() == devices
    shared = stored.get(device="GPU-shared")
    assert (shared.attribution, [share["pod"] for share in shared.shares]) == ("copies", ["w-1", "w-2"])
    assert stored.get(device="17A43D0-C1").vendor == "ascend"
    # Prometheus gave an infinite value: partial, with what was left out, blanks too
    assert (result.outcome, result.error_kind) == ("partial", "bad_values")
    assert "DCGM_FI_PROF_GR_ENGINE_ACTIVE" in result.error
    again = collect_source(cluster=cluster, source="dcgm", now=now, seconds=30)
    assert (again.rows_written, stored.count()) == (0, devices)
    assert CollectionRun.objects.filter(cluster=cluster, source="dcgm").count() == 2
