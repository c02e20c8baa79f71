"""Kueue's visibility API as simulated: shapes of the recorded answers, the order, pages of it, and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import urllib3

from simcluster.testing import ADMIN, Running, running
from simcluster.tests.libraries import ApiException, client, config

DATA = Path(__file__).resolve().parents[2] / "tests/data/kueue"
GROUP = "visibility.kueue.x-k8s.io"
NAMES = ("third", "first", "second", "elsewhere")


def get(sim: Running, path: str) -> tuple[int, Any]:
    answer = urllib3.request(
        "GET", f"{sim.url}/apis/{GROUP}{path}", headers={"Authorization": f"Bearer {ADMIN}"}
    )
    try:
        return answer.status, answer.json()
    except json.JSONDecodeError:
        return answer.status, answer.data.decode()


def workload(name: str, namespace: str = "red", queue: str = "main") -> dict[str, Any]:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"uid-{name}", "controller": True}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "creationTimestamp": "2026-12-01T00:00:00Z",
            "ownerReferences": [owner],
        },
        "spec": {"queueName": queue, "priority": 100},
    }


@pytest.fixture
def three(empty: Running) -> Running:
    """Four workloads wait in cq: two in red/main, one in red/side, one in blue/main."""
    waiting = [workload("a"), workload("b", queue="side"), workload("c"), workload("d", namespace="blue")]
    empty.cluster.waiting = {"cq": waiting, "idle": []}.get
    for namespace, name, queue in (("red", "main", "cq"), ("red", "side", "cq"), ("red", "lost", "none")):
        empty.store.upsert(
            "LocalQueue",
            {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterQueue": queue}},
        )
    return empty


def told(body: Any) -> list[tuple[str, int, int]]:
    return [
        (one["metadata"]["name"], one["positionInClusterQueue"], one["positionInLocalQueue"])
        for one in body["items"]
    ]


ALL = [("a", 0, 0), ("b", 1, 0), ("c", 2, 1), ("d", 3, 2)]
# Kueue counts LocalQueues by name alone: "d" of blue/main is third of "main".
IN_MAIN = [("a", 0, 0), ("c", 2, 1), ("d", 3, 2)]


@pytest.mark.parametrize("version", ["v1beta2", "v1beta1"])
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("clusterqueues/cq/pendingworkloads", ALL),
        ("clusterqueues/cq/pendingworkloads?limit=0", ALL),
        ("clusterqueues/cq/pendingworkloads?limit=2", ALL[:2]),
        ("clusterqueues/cq/pendingworkloads?limit=2&offset=1", ALL[1:3]),
        ("clusterqueues/cq/pendingworkloads?offset=9", []),
        ("clusterqueues/idle/pendingworkloads", []),
        ("namespaces/red/localqueues/main/pendingworkloads", IN_MAIN),
        ("namespaces/red/localqueues/main/pendingworkloads?offset=1&limit=1", IN_MAIN[1:2]),
        ("namespaces/red/localqueues/side/pendingworkloads", [("b", 1, 0)]),
    ],
)
def test_order_and_pages(three: Running, version: str, path: str, expected: list[Any]) -> None:
    code, body = get(three, f"/{version}/{path}")
    assert (code, body["kind"], body["apiVersion"]) == (200, "PendingWorkloadsSummary", f"{GROUP}/{version}")
    assert told(body) == expected


def test_it_has_the_shape_of_the_recorded_answer(three: Running) -> None:
    recorded = json.loads((DATA / "visibility-team-b-cq-pending.json").read_bytes())
    _code, body = get(three, "/v1beta2/clusterqueues/cq/pendingworkloads")
    assert list(body) == list(recorded)
    ours, theirs = body["items"][0], recorded["items"][0]
    assert ours.keys() == theirs.keys()
    assert ours["metadata"].keys() == theirs["metadata"].keys()
    assert ours["metadata"]["ownerReferences"][0].keys() == theirs["metadata"]["ownerReferences"][0].keys()


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("/v1beta2/clusterqueues/nope/pendingworkloads", 404, f'clusterqueue.{GROUP} "nope" not found'),
        (
            "/v1beta2/namespaces/red/localqueues/nope/pendingworkloads",
            404,
            f'localqueue.{GROUP} "nope" not found',
        ),
        (
            "/v1beta2/namespaces/red/localqueues/lost/pendingworkloads",
            404,
            f'localqueue.{GROUP} "lost" not found',
        ),
        ("/v1beta2/clusterqueues", 404, "the server could not find the requested resource"),
        ("/v1beta2/clusterqueues/cq", 404, "the server could not find the requested resource"),
        (
            "/v1beta2/clusterqueues/cq/pendingworkloads?limit=x",
            400,
            'strconv.ParseInt: parsing "x": invalid syntax',
        ),
    ],
)
def test_refusals(three: Running, path: str, code: int, words: str) -> None:
    found, body = get(three, path)
    assert (found, body["code"], body["message"]) == (code, code, words)


def test_the_refusal_of_an_unknown_queue_is_the_recorded_one(three: Running) -> None:
    recorded = json.loads((DATA.parents[1] / "data/kueue/visibility-404.json").read_bytes())
    assert get(three, "/v1beta2/clusterqueues/nope/pendingworkloads") == (404, recorded)


def test_discovery(three: Running) -> None:
    _code, group = get(three, "")
    assert [one["version"] for one in group["versions"]] == ["v1beta2", "v1beta1"]
    _code, listed = get(three, "/v1beta1")
    assert [(one["name"], one["namespaced"], one["verbs"]) for one in listed["resources"]] == [
        ("clusterqueues", False, []),
        ("clusterqueues/pendingworkloads", False, ["get"]),
        ("localqueues", True, []),
        ("localqueues/pendingworkloads", True, ["get"]),
    ]


def test_it_is_not_served_where_nobody_knows_the_order(empty: Running) -> None:
    for path in ("", "/v1beta2", "/v1beta2/clusterqueues/cq/pendingworkloads"):
        assert get(empty, path) == (404, "404 page not found\n")


def test_only_served_versions_are_answered(three: Running) -> None:
    three.cluster.kueue_versions = ("v1beta1",)
    assert get(three, "/v1beta2/clusterqueues/cq/pendingworkloads")[0] == 404
    assert get(three, "/v1beta1/clusterqueues/cq/pendingworkloads")[0] == 200


def test_a_fault_of_its_own(three: Running) -> None:
    three.faults.add("PendingWorkloads", status=503)
    assert get(three, "/v1beta2/clusterqueues/cq/pendingworkloads")[0] == 503


def test_the_demo_tells_all_waiting_work_once_in_the_order_of_its_scheduler(demo: Running) -> None:
    assert demo.driver is not None
    quota = demo.driver.simulation.quota
    found = 0
    for name in quota.queues:
        _code, body = get(demo, f"/v1beta2/clusterqueues/{name}/pendingworkloads")
        order = [(job.namespace, job.workload) for job in quota.waiting_order(name)]
        assert [(one["metadata"]["namespace"], one["metadata"]["name"]) for one in body["items"]] == order
        said = demo.store.get("ClusterQueue", name)
        assert said is not None
        assert len(order) == said["status"]["pendingWorkloads"]
        found += len(order)
    assert found > 0


def test_a_cluster_without_kueue_has_none() -> None:
    with running(scenario=True, days=0.1, absent=["kueue"]) as sim:
        assert get(sim, "/v1beta2/clusterqueues/vision-cq/pendingworkloads")[0] == 404
        api = config.new_client_from_config(str(sim.kubeconfig))
        with pytest.raises(ApiException):
            client.CustomObjectsApi(api).get_api_resources(GROUP, "v1beta2")
