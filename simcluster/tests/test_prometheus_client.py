"""The unmodified `prometheus-api-client` library against the simulated API, and the exporter's text."""

from __future__ import annotations

import json
import re
import time
import urllib.parse
import urllib.request
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from simcluster.exporters import ENERGY, ENGINE, FREE, METRICS, POWER, RESERVED, SM, USED, UTIL, XID
from simcluster.testing import Running
from simcluster.tests.libraries import PrometheusApiClientException, PrometheusConnect

Series = list[dict[str, Any]]
TARGETS = {
    "nvidia-dcgm-exporter": 47,
    "device-metrics-exporter": 3,
    "npu-exporter": 2,
    "habana-metric-exporter": 1,
    "xpumanager": 1,
    "tpu-device-plugin": 1,
    "neuron-monitor": 1,
    "hami-device-plugin-monitor": 1,
}
"""Nodes with an exporter, counted in fleet.yaml."""


@pytest.fixture(scope="module")
def prometheus(demo: Running) -> Any:
    return PrometheusConnect(url=demo.prometheus_url)


def node_of(labels: dict[str, str]) -> str:
    """Newer exporters write the label small."""
    return labels.get("Hostname") or labels["hostname"]


def instant(prometheus: Any, query: str) -> Series:
    found: Series = prometheus.custom_query(query)
    return found


def test_the_connection_check_and_the_list_of_metrics(prometheus: Any) -> None:
    assert prometheus.check_prometheus_connection()
    assert set(METRICS) | {"up"} == set(prometheus.all_metrics())


def test_up_of_every_exporter(prometheus: Any) -> None:
    series = instant(prometheus, "up")
    assert dict(Counter(one["metric"]["job"] for one in series)) == TARGETS
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
    hosts = {node_of(one["metric"]) for one in instant(prometheus, SM)}
    assert "h100-01" in hosts
    assert "a100-01" not in hosts


def test_one_old_exporter_prints_a_sentinel(prometheus: Any) -> None:
    for metric in (UTIL, POWER):
        found = [one for one in instant(prometheus, metric) if one["value"][1] == "9223372036854775794"]
        assert [(node_of(one["metric"]), one["metric"]["gpu"]) for one in found] == [("v100-legacy-01", "2")]


def test_what_installations_leave_out(prometheus: Any) -> None:
    """The Helm chart's list has neither reserved memory nor the driver's version."""
    assert instant(prometheus, f'{RESERVED}{{Hostname="l40s-mps-01"}}') == []
    (one, *_) = instant(prometheus, f'{USED}{{Hostname="l40s-mps-01"}}')
    assert "DCGM_FI_DRIVER_VERSION" not in one["metric"]
    outliers = {
        node_of(one["metric"]): one["metric"]["DCGM_FI_DRIVER_VERSION"]
        for one in instant(prometheus, f'{USED}{{DCGM_FI_DRIVER_VERSION!="570.124.06",gpu="0"}}')
        if "DCGM_FI_DRIVER_VERSION" in one["metric"]
    }
    assert outliers == {"h100-08": "550.90.07", "v100-legacy-01": "535.230.02"}


# ---- pods that share a card -------------------------------------------------------------------------------------
def of_card(prometheus: Any, metric: str, uuid: str) -> Series:
    return instant(prometheus, f'{metric}{{UUID="{uuid}"}}')


def pods_on(demo: Running, node: str) -> set[str]:
    return {
        pod["metadata"]["name"]
        for pod in demo.store.objects("Pod")
        if pod["status"]["phase"] == "Running" and pod["spec"].get("nodeName") == node
    }


def shared_card(prometheus: Any, node: str, metric: str) -> Series:
    """The series of the card of a node that most of them are about."""
    label = "hostname" if node == "l4-shared-02" else "Hostname"
    by_card: dict[str, Series] = {}
    for one in instant(prometheus, f'{metric}{{{label}="{node}"}}'):
        by_card.setdefault(one["metric"]["UUID"], []).append(one)
    return max(by_card.values(), key=len)


def test_virtual_gpus_are_copies_of_the_card(demo: Running, prometheus: Any) -> None:
    found = shared_card(prometheus, "l4-shared-01", ENGINE)
    assert len(found) > 1
    assert len({one["value"][1] for one in found}) == 1
    assert len({one["metric"]["vgpu"] for one in found}) == len(found)
    assert {one["metric"]["exported_pod"] for one in found} <= pods_on(demo, "l4-shared-01")


def test_per_process_values_stand_beside_the_cards_own(demo: Running, prometheus: Any) -> None:
    found = shared_card(prometheus, "l4-shared-02", USED)
    own = [one for one in found if "exported_pod" not in one["metric"]]
    parts = [one for one in found if "exported_pod" in one["metric"]]
    assert len(own) == 1
    assert len(parts) > 1
    total, taken = float(own[0]["value"][1]), sum(float(one["value"][1]) for one in parts)
    assert total - len(parts) <= taken <= total
    assert all(one["metric"]["pod_uid"] and one["metric"]["vgpu"] for one in parts)
    engines = of_card(prometheus, ENGINE, own[0]["metric"]["UUID"])
    assert ["exported_pod" in one["metric"] for one in engines] == [False]


def test_the_pod_label_flips_between_scrapes(demo: Running, prometheus: Any) -> None:
    end = datetime.fromtimestamp(demo.cluster.now(), tz=UTC)
    query = f'{ENGINE}{{Hostname="l4-shared-03"}}'
    found = prometheus.custom_query_range(query, end - timedelta(minutes=10), end, "30s")
    by_card: dict[str, list[list[float]]] = {}
    for one in found:
        by_card.setdefault(one["metric"]["UUID"], []).append([at for at, _text in one["values"]])
    several = [times for times in by_card.values() if len(times) > 1]
    assert several
    for times in several:
        every = [at for one in times for at in one]
        assert len(every) == len(set(every))  # at each scrape one pod, never two


def test_a_renamed_resource_is_of_no_pod(demo: Running, prometheus: Any) -> None:
    assert pods_on(demo, "l4-renamed-01")
    assert all(
        "exported_pod" not in one["metric"]
        for one in instant(prometheus, f'{USED}{{Hostname="l4-renamed-01"}}')
    )


def test_a_shared_claim_shows_once_per_pod(prometheus: Any) -> None:
    found = [
        one
        for one in instant(prometheus, f'{USED}{{hostname="dra-01",gpu="0"}}')
        if "exported_pod" in one["metric"]
    ]
    assert len(found) == 2
    assert {one["metric"]["dra_claim_name"] for one in found} == {"embedder"}
    assert {one["metric"]["dra_device_name"] for one in found} == {"gpu-0"}
    assert len({one["value"][1] for one in found}) == 1


# ---- other vendors ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("query", "series"),
    [
        ("gpu_total_vram", 8 + 8 + 64),
        ("gpu_gfx_activity", 8 + 8 + 8),  # of a cut card only the first partition says it
        ("npu_chip_info_utilization", 2 * 8),
        ("habanalabs_power_mW", 8),
        ("xpum_engine_ratio", 4),
        ('tensorcore_utilization{make="cloud-tpu"}', 4),
        ("neuroncore_utilization_ratio", 2 * 16),
    ],
)
def test_each_vendors_exporter_counts_its_devices(prometheus: Any, query: str, series: int) -> None:
    found = instant(prometheus, query)
    assert len(found) == series
    assert all(one["metric"]["job"] in TARGETS for one in found)


def test_two_exporters_see_the_same_cards(prometheus: Any) -> None:
    for metric, other in (
        (USED, "hami_host_gpu_memory_used_bytes"),
        (UTIL, "hami_host_gpu_utilization_ratio"),
    ):
        scale = 1 << 20 if metric == USED else 1
        own = {
            one["metric"]["UUID"]: int(one["value"][1]) * scale
            for one in instant(prometheus, f'{metric}{{Hostname="l40s-hami-01"}}')
        }
        assert len(own) == 4
        monitor = {one["metric"]["device_uuid"]: one for one in instant(prometheus, other)}
        assert {one["metric"]["node"] for one in monitor.values()} == {"l40s-hami-01"}
        if metric == UTIL:
            assert {uuid: int(one["value"][1]) for uuid, one in monitor.items()} == own
        else:  # the driver's own part is counted by one and not by the other
            assert all(0 <= int(one["value"][1]) - own[uuid] < 400 << 20 for uuid, one in monitor.items())


def test_units_are_the_exporters_own(prometheus: Any) -> None:
    """A card of 192 GiB: MiB to AMD, bytes to Gaudi; a part of a cut card has an eighth."""
    sizes = {one["value"][1] for one in instant(prometheus, 'gpu_total_vram{hostname=~"mi300x-0."}')}
    assert sizes == {"196608"}
    assert {one["value"][1] for one in instant(prometheus, 'gpu_total_vram{hostname="mi300x-cpx-01"}')} == {
        "24576"
    }
    assert {one["value"][1] for one in instant(prometheus, "habanalabs_memory_total_bytes")} == {
        "103079215104"
    }
    assert all(float(one["value"][1]) >= 104_000 for one in instant(prometheus, "habanalabs_power_mW"))


def test_a_long_query_may_be_posted(demo: Running) -> None:
    names = "|".join([*METRICS, *(f"some_other_vendor_metric_{n}" for n in range(400))])
    body = urllib.parse.urlencode({"query": f'{{__name__=~"{names}"}}'}).encode()
    with urllib.request.urlopen(f"{demo.url}/api/v1/query", data=body, timeout=10) as answer:
        found = json.load(answer)["data"]["result"]
    assert {one["metric"]["__name__"] for one in found} == set(METRICS)


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
    shown = [one for one in instant(prometheus, UTIL) if one["value"][1] != "9223372036854775794"]
    assert all(0 <= float(one["value"][1]) <= 100 for one in shown)
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
    assert len(found) == TARGETS["nvidia-dcgm-exporter"]


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
