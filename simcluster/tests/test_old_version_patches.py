"""Patches that name an older version: they are laid on the object as that version says it, and stored in the newer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import urllib3

from simcluster.kinds import KINDS
from simcluster.testing import ADMIN, Running, running
from simcluster.versions import from_version, in_version

GROUP = "/apis/kueue.x-k8s.io"
JSON_PATCH, MERGE = "application/json-patch+json", "application/merge-patch+json"
CHECK = {"name": "budget", "onFlavors": ["a100"]}
CPU = {"name": "cpu", "nominalQuota": "8"}
QUEUE: dict[str, Any] = {
    "metadata": {"name": "q"},
    "spec": {
        "cohortName": "old",
        "resourceGroups": [
            {"coveredResources": ["cpu"], "flavors": [{"name": "a100", "resources": [CPU]}]},
        ],
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "admissionChecksStrategy": {"admissionChecks": [CHECK]},
    },
}
COHORT: dict[str, Any] = {"metadata": {"name": "c"}, "spec": {"parentName": "old"}}


@pytest.fixture
def sim() -> Iterator[Running]:
    with running(objects={"ClusterQueue": [QUEUE], "Cohort": [COHORT]}) as found:
        yield found


def patch(sim: Running, path: str, body: Any) -> tuple[int, Any]:
    kind = JSON_PATCH if isinstance(body, list) else MERGE
    answer = urllib3.PoolManager(retries=False).request(
        "PATCH",
        sim.url + GROUP + path,
        body=json.dumps(body),
        headers={"Authorization": f"Bearer {ADMIN}", "Content-Type": kind},
    )
    return answer.status, json.loads(answer.data)


def stored(sim: Running, kind: str, name: str) -> dict[str, Any]:
    found = sim.store.get(kind, name)
    assert found is not None
    return dict(found["spec"])


def test_the_cohort_of_a_queue(sim: Running) -> None:
    operations = [{"op": "replace", "path": "/spec/cohort", "value": "new"}]
    status, served = patch(sim, "/v1beta1/clusterqueues/q", operations)
    assert (status, served["apiVersion"], served["spec"]["cohort"]) == (200, "kueue.x-k8s.io/v1beta1", "new")
    assert "cohortName" not in served["spec"]
    found = sim.store.get("ClusterQueue", "q")
    assert found is not None
    assert found["apiVersion"] == "kueue.x-k8s.io/v1beta2"
    # only the cohort: the check keeps the flavors that v1beta1's list of names has no word for
    assert found["spec"] == QUEUE["spec"] | {"cohortName": "new"}
    assert found["metadata"]["generation"] == 2


def test_the_parent_of_a_cohort_set_and_taken_away(sim: Running) -> None:
    assert patch(sim, "/v1beta1/cohorts/c", {"spec": {"parent": "new"}})[0] == 200
    assert stored(sim, "Cohort", "c") == {"parentName": "new"}
    assert patch(sim, "/v1beta1/cohorts/c", [{"op": "remove", "path": "/spec/parent"}])[0] == 200
    assert stored(sim, "Cohort", "c") == {}


@pytest.mark.parametrize(
    ("version", "field"), [("v1beta1", "cohortName"), ("v1beta2", "cohort")], ids=["newer word", "older word"]
)
def test_a_version_does_not_know_the_word_of_the_other(sim: Running, version: str, field: str) -> None:
    operations = [{"op": "replace", "path": f"/spec/{field}", "value": "new"}]
    assert patch(sim, f"/{version}/clusterqueues/q", operations)[0] == 422
    assert stored(sim, "ClusterQueue", "q") == QUEUE["spec"]


def test_an_unknown_word_of_a_merge_is_dropped(sim: Running) -> None:
    assert patch(sim, "/v1beta1/clusterqueues/q", {"spec": {"cohortName": "new"}})[0] == 200
    assert stored(sim, "ClusterQueue", "q") == QUEUE["spec"]


def test_checks_and_fungibility_in_words_of_v1beta1(sim: Running) -> None:
    change = {
        "admissionChecks": ["budget", "other"],
        "flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "Preempt"},
    }
    assert patch(sim, "/v1beta1/clusterqueues/q", {"spec": change})[0] == 200
    spec = stored(sim, "ClusterQueue", "q")
    assert spec["admissionChecksStrategy"] == {"admissionChecks": [CHECK, {"name": "other"}]}
    assert spec["flavorFungibility"] == {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "MayStopSearch"}
    assert patch(sim, "/v1beta1/clusterqueues/q", {"spec": {"admissionChecks": None}})[0] == 200
    assert "admissionChecksStrategy" not in stored(sim, "ClusterQueue", "q")


def test_an_old_version_with_the_version_that_was_seen(sim: Running) -> None:
    found = sim.store.get("ClusterQueue", "q")
    assert found is not None
    seen = found["metadata"]["resourceVersion"]
    operations = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": seen},
        {"op": "replace", "path": "/spec/cohort", "value": "new"},
    ]
    assert patch(sim, "/v1beta1/clusterqueues/q?dryRun=All", operations)[0] == 200
    assert stored(sim, "ClusterQueue", "q") == QUEUE["spec"]
    assert patch(sim, "/v1beta1/clusterqueues/q", operations)[0] == 200
    assert patch(sim, "/v1beta1/clusterqueues/q", operations)[0] == 409


def test_every_object_of_the_demo_comes_back_as_it_was(demo: Running) -> None:
    seen = set()
    for kind in KINDS.values():
        for version in kind.versions[1:]:
            for raw in demo.cluster.store.raws(kind):
                obj = msgspec.json.decode(raw)
                old = msgspec.json.decode(in_version(kind, version, raw))
                assert from_version(kind, version, old, obj) == obj
                seen.add(kind.name)
    wanted = {"ClusterQueue", "Cohort", "LocalQueue", "Workload", "ResourceSlice", "ResourceClaim"}
    assert seen >= wanted
