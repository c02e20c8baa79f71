"""Edits that were made on a real API server with Kueue's webhooks: the simulated one gives the same answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from simcluster.testing import ADMIN, VIEWER, Running, running

RECORDED = Path(__file__).parents[2] / "tests" / "data" / "kueue"
NOT_SERVED = {
    "apply-409-field-manager.json": "server-side apply",
    "cq-422-unknown-field-strict.json": "fieldValidation=Strict",
    "job-403-queue-label.json": "batch/v1 Jobs",
    "job-200-unsuspend.json": "batch/v1 Jobs",
    "kueue-down-500-patch.json": "a webhook that is down is a fault: status 500",
}
pytestmark = pytest.mark.skipif(not RECORDED.is_dir(), reason="tests/data/kueue is not in this checkout")


def edits() -> list[dict[str, Any]]:
    if not RECORDED.is_dir():
        return []
    lines = [json.loads(line) for line in (RECORDED / "index.jsonl").read_text().splitlines()]
    return [line for line in lines if line["method"] == "PATCH" and line["file"] not in NOT_SERVED]


@pytest.fixture(scope="module")
def sim() -> Iterator[Running]:
    with running(recordings=RECORDED) as found:
        yield found


@pytest.mark.parametrize("edit", edits(), ids=lambda edit: edit["file"])
def test_an_edit_is_answered_as_it_was(sim: Running, edit: dict[str, Any]) -> None:
    request = edit["request"]
    if "with-rv" in edit["file"]:  # this edit named the version that the object had at the time
        name = edit["path"].split("?")[0].rsplit("/", 1)[1]
        found = sim.store.get("ClusterQueue", name)
        assert found is not None
        request["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
    answer = urllib3.PoolManager(retries=False).request(
        "PATCH",
        sim.url + edit["path"],
        body=json.dumps(request),
        headers={
            "Authorization": f"Bearer {VIEWER if 'viewer' in edit['file'] else ADMIN}",
            "Content-Type": edit["contentType"],
        },
    )
    recorded = json.loads((RECORDED / edit["file"]).read_text().replace("rig-viewer", "portal-viewer"))
    assert answer.status == edit["status"]
    if edit["status"] != 200:
        assert json.loads(answer.data) == recorded
    else:
        assert json.loads(answer.data)["spec"].keys() == recorded["spec"].keys()


def test_there_are_edits_to_compare() -> None:
    assert len(edits()) > 15
