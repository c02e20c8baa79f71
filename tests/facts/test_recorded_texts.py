"""Every text of the recorded clusters that says something of work has a class.

Conditions, admission checks, pods and events of all recorded lists and watch streams; what is about nodes, leases and
queues' own health is none of the classifier's business and is left out by kind, not by text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.admissions.classifier import classify

from .recorded import DATA

WORK = frozenset(
    {"Workload", "PodGroup", "Pod", "Job", "StatefulSet", "ReplicaSet", "Deployment", "ClusterQueue", "LocalQueue",
     "AdmissionCheck", "JobSet"}
)  # fmt: skip
KINDS_OF_LISTS = {
    "WorkloadList": "Workload", "PodList": "Pod", "JobList": "Job", "PodGroupList": "PodGroup",
    "ClusterQueueList": "ClusterQueue", "LocalQueueList": "LocalQueue", "AdmissionCheckList": "AdmissionCheck",
    "DeploymentList": "Deployment", "ReplicaSetList": "ReplicaSet", "StatefulSetList": "StatefulSet",
}  # fmt: skip
FOLDERS = ("kueue", "volcano-proportion", "volcano-capacity")
Said = tuple[str, str]


def documents(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".ndjson":
        for line in path.read_text().splitlines():
            yield json.loads(line).get("object", {})
        return
    try:
        yield json.loads(path.read_text())
    except ValueError:
        return  # an answer in plain text, recorded on purpose


def objects(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = document.get("kind", "")
    for item in document.get("items") or [document]:
        yield item.get("kind") or KINDS_OF_LISTS.get(kind, kind), item


def said_by(kind: str, item: dict[str, Any]) -> Iterator[Said]:
    """(reason, text) of an object or of an event about one."""
    about = item.get("involvedObject") or item.get("regarding")
    if about:
        if about.get("kind") in WORK:
            yield item.get("reason", ""), item.get("message") or item.get("note") or ""
        return
    if kind not in WORK:
        return
    status = item.get("status") or {}
    if not isinstance(status, dict):
        return
    for condition in status.get("conditions") or ():
        yield condition.get("reason", ""), condition.get("message", "")
    for container in status.get("containerStatuses") or ():
        for state in (container.get("state") or {}).values():
            yield state.get("reason", ""), state.get("message", "")
    yield status.get("reason", ""), status.get("message", "")


def texts() -> set[Said]:
    found: set[Said] = set()
    for folder in FOLDERS:
        for path in sorted((DATA / folder).iterdir()):
            if path.suffix in (".json", ".ndjson"):
                for document in documents(path):
                    for kind, item in objects(document):
                        found.update(said_by(kind, item))
    return {(reason, text) for reason, text in found if text}


def checks() -> set[str]:
    """Free text of those who answer checks: unknown by nature, and of no consequence: their state decides."""
    return {
        "budget approved",
        "budget service says try later",
        "cost center cc-1001 is over its monthly budget",
    }


def test_no_recorded_text_is_unknown() -> None:
    found = texts()
    assert len(found) > 300
    unknown = {said for said in found if classify(reason=said[0], message=said[1]).cause == "unknown"}
    assert unknown == set()


def test_no_part_of_a_recorded_text_is_unknown() -> None:
    parts = {
        part.text
        for reason, text in texts()
        for part in classify(reason=reason, message=text).parts
        if part.rule == "unknown"
    }
    assert parts == set()


@pytest.mark.parametrize("state", ["Pending", "Retry", "Rejected"])
def test_the_state_of_a_check_decides_whatever_its_text(state: str) -> None:
    for text in sorted(checks()):
        verdict = classify(state="reserved", message=f"budget-check: {state} ({text})")
        assert (verdict.cause, verdict.rule) == ("held", f"check-{state.lower()}")
