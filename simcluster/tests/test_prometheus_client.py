"""The unmodified `prometheus-api-client` library against the simulated API, and the exporter's text."""

from __future__ import annotations

import re
import time
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from simcluster.telemetry import ENERGY, ENGINE, FREE, METRICS, POWER, RESERVED, SM, USED, UTIL, XID
from simcluster.testing import Running
from simcluster.tests.libraries import PrometheusApiClientException, PrometheusConnect

Series = list[dict[str, Any]]


@pytest.fixture(scope="module")
def prometheus(demo: Running) -> Any:
    return PrometheusConnect(url=demo.prometheus_url)


def instant(prometheus: Any, query: str) -> Series:
    found: Series = prometheus.custom_query(query)
    return found


def test_the_connection_check_and_the_list_of_metrics(prometheus: Any) -> None:
    assert prometheus.check_prometheus_connection()
    assert set(METRICS) | {"up"} == set(prometheus.all_metrics())


def test_up_of_every_exporter(prometheus: Any) -> None:
    series = instant(prometheus, "up")
    assert len(series) == 45  # nodes with NVIDIA cards
    assert {one["metric"]["job"] for one in series} == {"nvidia-dcgm-exporter"}
    down = [one for one in series if one["value"][1] == "0"]
    assert len(down) == 1  # l4-renamed-02's


def test_selectors_choose_by_label(prometheus: Any) -> None:
    cards = instant(prometheus, 'DCGM_FI_DEV_FB_USED{Hostname="h100-01"}')
    assert sorted(one["metric"]["gpu"] for one in cards) == list("01234567")
    some = instant(prometheus, '{__name__=~"DCGM_FI_DEV_FB_(USED|FREE)",Hostname=~"h100-0[12]",gpu!="0"}')
    assert len(some) == 2 * 2 * 7
    assert instant(prometheus, 'DCGM_FI_DEV_FB_USED{Hostname="nowhere"}') == []


def test_a_mig_instance_has_no_utilisation_and_the_whole_boards_power(prometheus: Any) -> None:
    node = 'Hostname="h100-notebook-01",gpu="0"'
    engines = instant(prometheus, f"{ENGINE}{{{node}}}")
    assert len(engines) == 7
    assert {one["metric"]["GPU_I_PROFILE"] for one in engines} == {"1g.10gb"}
    assert len({one["metric"]["GPU_I_ID"] for one in engines}) == 7
    assert len({one["metric"]["UUID"] for one in engines}) == 1
    assert instant(prometheus, f"{UTIL}{{{node}}}") == []
    assert len({one["value"][1] for one in instant(prometheus, f"{POWER}{{{node}}}")}) == 1


def test_some_nodes_have_sm_activity_and_others_not(prometheus: Any) -> None:
    hosts = {one["metric"]["Hostname"] for one in instant(prometheus, SM)}
    assert "h100-01" in hosts
    assert "a100-01" not in hosts


def test_memory_adds_up_to_the_card(prometheus: Any) -> None:
    sums: dict[str, float] = {}
    for metric in (USED, FREE, RESERVED):
        for one in instant(prometheus, f'{metric}{{Hostname="a100-01"}}'):
            uuid = one["metric"]["UUID"]
            sums[uuid] = sums.get(uuid, 0) + float(one["value"][1])
    assert set(sums.values()) == {81920.0}


def test_series_follow_who_uses_a_device(demo: Running, prometheus: Any) -> None:
    """Each running pod on whole cards has as many series as it was given cards, and the pod's own name."""
    named: dict[tuple[str, str], int] = {}
    for one in instant(prometheus, USED):
        labels = one["metric"]
        assert labels["pod"].startswith("nvidia-dcgm-exporter-")
        if "exported_pod" in labels:
            key = (labels["exported_namespace"], labels["exported_pod"])
            named[key] = named.get(key, 0) + 1
    whole = [
        pod
        for pod in demo.store.objects("Pod")
        if pod["status"]["phase"] == "Running"
        and pod["spec"].get("nodeName", "").startswith(("h100-0", "a100-0"))
    ]
    assert whole
    for pod in whole:
        asked = int(pod["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"])
        assert named[pod["metadata"]["namespace"], pod["metadata"]["name"]] == asked


def test_a_range_covers_the_history_quickly(demo: Running, prometheus: Any) -> None:
    end = datetime.fromtimestamp(demo.cluster.now(), tz=UTC)
    started = time.monotonic()
    query = '{__name__=~"' + "|".join(METRICS) + '"}'
    series = prometheus.custom_query_range(query, end - timedelta(days=3), end, "3600s")
    assert time.monotonic() - started < 30
    points = [point for one in series for point in one["values"]]
    assert len(points) > 100_000
    assert min(point[0] for point in points) >= demo.cluster.epoch
    assert max(point[0] for point in points) <= demo.cluster.now()


def test_a_range_and_an_instant_agree(demo: Running, prometheus: Any) -> None:
    at = datetime.fromtimestamp(int(demo.cluster.now()) - 7200, tz=UTC)
    ranged = prometheus.custom_query_range(ENGINE, at - timedelta(hours=3), at, "1800s")
    last = {
        tuple(sorted(one["metric"].items())): one["values"][-1][1]
        for one in ranged
        if one["values"][-1][0] == at.timestamp()
    }
    now = prometheus.custom_query(ENGINE, params={"time": str(at.timestamp())})
    assert {tuple(sorted(one["metric"].items())): one["value"][1] for one in now} == last


def test_energy_never_falls(demo: Running, prometheus: Any) -> None:
    end = datetime.fromtimestamp(demo.cluster.now(), tz=UTC)
    found: dict[str, list[tuple[float, float]]] = {}
    query = f'{ENERGY}{{Hostname=~"h100-0[1-4]"}}'
    for one in prometheus.custom_query_range(query, end - timedelta(days=2), end, "900s"):
        found.setdefault(one["metric"]["UUID"], []).extend((p[0], float(p[1])) for p in one["values"])
    assert len(found) == 32
    for points in found.values():
        values = [value for _at, value in sorted(points)]
        assert values == sorted(values)


def test_values_are_in_their_range(prometheus: Any) -> None:
    assert all(0 <= float(one["value"][1]) <= 1 for one in instant(prometheus, ENGINE))
    assert all(0 <= float(one["value"][1]) <= 100 for one in instant(prometheus, UTIL))
    assert any(float(one["value"][1]) > 0.5 for one in instant(prometheus, ENGINE))
    assert all(float(one["value"][1]) >= 0 for one in instant(prometheus, XID))


def test_labels_and_their_values(prometheus: Any) -> None:
    names = prometheus.get_label_names()
    assert {"UUID", "gpu", "Hostname", "modelName", "GPU_I_PROFILE", "exported_pod"} <= set(names)
    assert "NVIDIA L4" in prometheus.get_label_values("modelName")


def test_series_endpoint(prometheus: Any, demo: Running) -> None:
    found = prometheus.get_series(
        start=datetime.fromtimestamp(demo.cluster.now() - 600, tz=UTC),
        end=datetime.fromtimestamp(demo.cluster.now(), tz=UTC),
        params={"match[]": 'up{pod=~"nvidia-.*"}'},
    )
    assert len(found) == 45


@pytest.mark.parametrize("query", ["sum(up)", "up offset 5m", "", "up{", "{}", 'up{a="1"} + 1', 'up{a=~"("}'])
def test_what_is_not_served_is_refused_like_by_prometheus(prometheus: Any, query: str) -> None:
    with pytest.raises(PrometheusApiClientException, match=r"HTTP Status Code 400 .*bad_data"):
        prometheus.custom_query(query)


def test_a_range_with_too_many_points_is_refused(prometheus: Any, demo: Running) -> None:
    end = datetime.fromtimestamp(demo.cluster.now(), tz=UTC)
    with pytest.raises(PrometheusApiClientException, match="exceeded maximum resolution"):
        prometheus.custom_query_range("up", end - timedelta(days=3), end, "1s")


# ---- the exporter -----------------------------------------------------------------------------------------------
SAMPLE = re.compile(r'([A-Za-z_:][A-Za-z0-9_:]*)\{((?:[A-Za-z_][A-Za-z0-9_]*="[^"\\]*",?)*)\} (\S+)')


def exposition(demo: Running) -> str:
    with urllib.request.urlopen(f"{demo.url}/metrics", timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return str(answer.read().decode())


def test_the_exposition_is_well_formed(demo: Running) -> None:
    """HELP and TYPE before the samples of each metric, every line parses, no series twice."""
    seen: set[str] = set()
    current = ""
    for text in exposition(demo).splitlines():
        if text.startswith("# HELP "):
            current = text.split()[2]
        elif text.startswith("# TYPE "):
            assert text.split()[2] == current
            assert text.split()[3] in ("gauge", "counter")
        else:
            found = SAMPLE.fullmatch(text)
            assert found is not None, text
            assert found[1] == current
            float(found[3])
            key = found[1] + found[2]
            assert key not in seen
            seen.add(key)
    assert len(seen) > 1000


def test_the_exporter_says_what_prometheus_says(demo: Running, prometheus: Any) -> None:
    own = {
        (found[1], re.sub(r",(container|namespace|pod)=", r",exported_\1=", found[2])): found[3]
        for found in SAMPLE.finditer(exposition(demo))
    }
    assert any('exported_pod="' in labels for _name, labels in own)
    idle = [labels for _name, labels in own if "exported_pod" not in labels]
    assert idle
    target = {"container", "instance", "job", "namespace", "pod", "__name__"}
    for one in instant(prometheus, USED):
        labels = ",".join(f'{k}="{v}"' for k, v in one["metric"].items() if k not in target)
        assert own[USED, labels] == one["value"][1]
