"""Every fault, as a client sees it, and that it ends when it is taken away."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
import urllib3

from simcluster.testing import ADMIN, Running, running
from simcluster.tests.libraries import (
    ApiException,
    PrometheusApiClientException,
    PrometheusConnect,
    client,
    watch,
)


@pytest.fixture(scope="module")
def sim() -> Iterator[Running]:
    with running(scenario=True, days=0.5) as found:
        yield found


@pytest.fixture(autouse=True)
def clean(sim: Running) -> Iterator[None]:
    yield
    sim.faults.clear()


def get(sim: Running, path: str, timeout: float = 10) -> urllib3.BaseHTTPResponse:
    return urllib3.PoolManager(retries=False).request(
        "GET", sim.url + path, headers={"Authorization": f"Bearer {ADMIN}"}, timeout=timeout
    )


NODES = "/api/v1/nodes"


@pytest.mark.parametrize("status", [401, 403, 404, 410, 429, 500, 503])
def test_a_status(sim: Running, status: int) -> None:
    sim.faults.add("Node", "list", status=status)
    answer = get(sim, NODES)
    body = json.loads(answer.data)
    assert (answer.status, body["kind"], body["code"], body["status"]) == (
        status,
        "Status",
        status,
        "Failure",
    )
    assert get(sim, "/api/v1/pods").status == 200


def test_429_says_how_long_to_wait(sim: Running) -> None:
    sim.faults.add("*", status=429, retry_after=7)
    answer = get(sim, NODES)
    assert answer.headers["Retry-After"] == "7"
    assert json.loads(answer.data)["details"]["retryAfterSeconds"] == 7


def test_a_fault_with_times_ends_by_itself(sim: Running) -> None:
    sim.faults.add("Node", status=500, times=2)
    assert [get(sim, NODES).status for _ in range(3)] == [500, 500, 200]


def test_slow(sim: Running) -> None:
    sim.faults.add("Node", delay=0.4)
    started = time.monotonic()
    assert get(sim, NODES).status == 200
    assert time.monotonic() - started >= 0.4


def test_hanging(sim: Running) -> None:
    sim.faults.add("Node", hang=True)
    with pytest.raises(urllib3.exceptions.ReadTimeoutError):
        get(sim, NODES, timeout=0.3)


def test_a_connection_cut_in_the_middle(sim: Running) -> None:
    sim.faults.add("Node", cut=0.5)
    with pytest.raises(urllib3.exceptions.ProtocolError):
        _ = get(sim, NODES).data


def test_a_truncated_body(sim: Running) -> None:
    sim.faults.add("Node", truncate=0.5)
    answer = get(sim, NODES)
    assert answer.status == 200
    with pytest.raises(json.JSONDecodeError):
        json.loads(answer.data)


def test_an_expired_continue_token(sim: Running) -> None:
    token = json.loads(get(sim, f"{NODES}?limit=5").data)["metadata"]["continue"]
    sim.faults.add("Node", "list", expire=True)
    answer = get(sim, f"{NODES}?limit=5&continue={token}")
    assert (answer.status, json.loads(answer.data)["reason"]) == (410, "Expired")
    assert get(sim, NODES).status == 200


def test_an_expired_watch(sim: Running) -> None:
    version = json.loads(get(sim, NODES).data)["metadata"]["resourceVersion"]
    sim.faults.add("Node", "watch", expire=True)
    answer = get(sim, f"{NODES}?watch=1&resourceVersion={version}&timeoutSeconds=1")
    event = json.loads(answer.data)
    assert (answer.status, event["type"], event["object"]["code"]) == (200, "ERROR", 410)


def test_a_broken_object_among_good_ones(sim: Running) -> None:
    sim.faults.add("Node", "list", break_items=2, bad_quantity=1)
    items = json.loads(get(sim, NODES).data)["items"]
    assert len(items) == 59
    assert [item["metadata"]["uid"] for item in items[:2]] == [17, 17]
    capacity = items[2]["status"]["capacity"]
    assert "eight" in capacity.values()
    assert "eight" not in items[3]["status"]["capacity"].values()


def test_a_bad_quantity_in_each_kind_that_has_one(sim: Running) -> None:
    for path in (
        "/api/v1/pods",
        "/apis/kueue.x-k8s.io/v1beta2/clusterqueues",
        "/apis/kueue.x-k8s.io/v1beta2/workloads",
        "/apis/scheduling.volcano.sh/v1beta1/podgroups",
    ):
        sim.faults.add("*", "list", bad_quantity=1, times=1)
        assert b'"eight"' in get(sim, path).data, path
        assert b'"eight"' not in get(sim, path).data


def test_a_watch_that_is_cut(sim: Running) -> None:
    sim.faults.add("Node", "watch", cut=0.7)
    with pytest.raises(urllib3.exceptions.ProtocolError):
        _ = get(sim, f"{NODES}?watch=1&timeoutSeconds=5").data


def test_a_broken_object_in_a_watch(sim: Running) -> None:
    sim.faults.add("Node", "watch", break_items=1)
    lines = get(sim, f"{NODES}?watch=1&timeoutSeconds=1").data.splitlines()
    objects = [json.loads(line)["object"] for line in lines]
    assert objects[0]["spec"] == ["broken"]
    assert objects[1]["kind"] == "Node"


def test_a_clock_that_is_ahead() -> None:
    with running(scenario=True, days=0.2) as sim:
        sim.faults.clock_skew = 900
        date = parsedate_to_datetime(get(sim, NODES).headers["Date"]).timestamp()
        assert 895 < date - time.time() < 905
        assert sim.driver is not None
        sim.driver.step()
        now = sim.driver.simulation.now
        assert 895 < now - time.time() < 905


def test_faults_by_http(sim: Running) -> None:
    def put(body: bytes) -> dict[str, Any]:
        request = urllib.request.Request(f"{sim.url}/_sim/faults", data=body, method="PUT")
        with urllib.request.urlopen(request, timeout=5) as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found

    shown = put(b'{"rules": [{"kind": "Node", "status": 500}]}')
    assert shown["rules"] == [{"kind": "Node", "status": 500}]
    assert get(sim, NODES).status == 500
    with pytest.raises(urllib.error.HTTPError) as caught:
        put(b'{"rules": [{"kind": "Node", "stats": 500}]}')
    assert caught.value.code == 400
    assert put(b'{"rules": []}')["clock_skew"] == 0
    assert get(sim, NODES).status == 200


def test_the_client_library_sees_the_faults_as_its_own_errors(sim: Running) -> None:
    configuration = client.Configuration(host=sim.url)
    configuration.api_key = {"authorization": f"Bearer {ADMIN}"}
    configuration.retries = False
    core = client.CoreV1Api(client.ApiClient(configuration))
    sim.faults.add("Node", "list", status=503)
    with pytest.raises(ApiException) as caught:
        core.list_node()
    assert caught.value.status == 503
    sim.faults.clear()
    sim.faults.add("Pod", "watch", expire=True)
    version = core.list_pod_for_all_namespaces().metadata.resource_version
    stream = watch.Watch().stream(
        core.list_pod_for_all_namespaces, resource_version=version, timeout_seconds=1
    )
    with pytest.raises(ApiException) as caught:
        list(stream)
    assert caught.value.status == 410


# ---- Prometheus -------------------------------------------------------------------------------------------------
def test_prometheus_values_that_are_none(sim: Running) -> None:
    prometheus = PrometheusConnect(url=sim.prometheus_url)
    for value in ("NaN", "+Inf"):
        sim.faults.add("prometheus", "query", value=value, times=1)
        assert {one["value"][1] for one in prometheus.custom_query("DCGM_FI_DEV_FB_USED")} == {value}
    sim.faults.add("prometheus", empty=True, times=1)
    assert prometheus.custom_query("up") == []
    assert prometheus.custom_query("up")


def test_prometheus_errors(sim: Running) -> None:
    prometheus = PrometheusConnect(url=sim.prometheus_url)
    sim.faults.add("prometheus", error="query timed out in expression evaluation", times=1)
    with pytest.raises(PrometheusApiClientException, match="query timed out"):
        prometheus.custom_query("up")
    sim.faults.add("prometheus", status=503, times=1)
    answer = get(sim, "/api/v1/query?query=up")
    assert (answer.status, json.loads(answer.data)["status"]) == (503, "error")


def test_an_exporter_with_strange_values(sim: Running) -> None:
    sim.faults.add("metrics", value="NaN", times=1)
    assert get(sim, "/metrics").data.count(b"} NaN\n") > 100
    sim.faults.add("metrics", empty=True, times=1)
    assert get(sim, "/metrics").data == b""
