"""Writes in somebody's name are judged as theirs, and the audit log names who asked and in whose name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from simcluster.testing import ADMIN, VIEWER, Running, running

RECORDED = Path(__file__).parents[2] / "tests" / "data" / "kueue"
QUEUE = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/team-a-cq"
COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"
CUT = {"spec": {"stopPolicy": "Hold"}}
COMMAND = {
    "apiVersion": "bus.volcano.sh/v1alpha1",
    "kind": "Command",
    "metadata": {"name": "shut"},
    "action": "CloseQueue",
    "target": {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "name": "research",
        "uid": "u-1",
    },
}
SPEC: dict[str, Any] = {
    "resourceGroups": [
        {
            "coveredResources": ["cpu"],
            "flavors": [{"name": "a100", "resources": [{"name": "cpu", "nominalQuota": "8"}]}],
        }
    ]
}


@pytest.fixture
def sim() -> Iterator[Running]:
    objects = {"ClusterQueue": [{"metadata": {"name": "team-a-cq"}, "spec": SPEC}]}
    with running(objects=objects, editors=("zhang", "li@example.com")) as found:
        yield found


def ask(sim: Running, method: str, path: str, body: Any = None, *, name: str = "", token: str = ADMIN) -> Any:
    """(status, body) of a request, in the name of `name` where one is given."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    if method == "PATCH":
        headers["Content-Type"] = "application/merge-patch+json"
    if name:
        headers["Impersonate-User"] = name
    text = None if body is None else json.dumps(body)
    answer = urllib3.PoolManager(retries=False).request(method, sim.url + path, body=text, headers=headers)
    return answer.status, json.loads(answer.data)


def log(sim: Running) -> list[tuple[Any, ...]]:
    """(account, in whose name, verb, resource, object, code) of each event of the audit log, as it is served."""
    status, found = ask(sim, "GET", "/_sim/audit")
    assert (status, found["kind"], found["apiVersion"]) == (200, "EventList", "audit.k8s.io/v1")
    assert found["items"] == sim.audit.events()
    return [
        (
            event["user"]["username"],
            event.get("impersonatedUser", {}).get("username"),
            event["verb"],
            event["objectRef"]["resource"],
            event["objectRef"].get("name"),
            event["responseStatus"]["code"],
        )
        for event in found["items"]
    ]


@pytest.mark.parametrize("name", ["", "zhang", "li@example.com"])
def test_a_change_by_the_portal_and_in_the_name_of_an_editor(sim: Running, name: str) -> None:
    status, found = ask(sim, "PATCH", QUEUE, CUT, name=name)
    assert (status, found["spec"]["stopPolicy"]) == (200, "Hold")
    assert ask(sim, "POST", COMMANDS, COMMAND, name=name)[0] == 201
    who = ("portal-admin", name or None)
    assert log(sim) == [
        (*who, "patch", "clusterqueues", "team-a-cq", 200),
        (*who, "create", "commands", None, 201),
    ]


@pytest.mark.parametrize("query", ["", "?dryRun=All"])
def test_somebody_who_may_not_edit_is_refused_in_their_own_name(sim: Running, query: str) -> None:
    status, said = ask(sim, "PATCH", QUEUE + query, CUT, name="wang")
    words = (
        'clusterqueues.kueue.x-k8s.io "team-a-cq" is forbidden: User "wang" cannot patch resource "clusterqueues" '
        'in API group "kueue.x-k8s.io" at the cluster scope'
    )
    assert (status, said["message"], said["reason"]) == (403, words, "Forbidden")
    assert said["details"] == {"name": "team-a-cq", "group": "kueue.x-k8s.io", "kind": "clusterqueues"}
    found = sim.store.get("ClusterQueue", "team-a-cq")
    assert found is not None
    assert found["spec"] == SPEC
    assert log(sim) == [("portal-admin", "wang", "patch", "clusterqueues", "team-a-cq", 403)]


@pytest.mark.skipif(not RECORDED.is_dir(), reason="tests/data/kueue is not in this checkout")
def test_the_refusal_is_the_one_that_a_real_server_gave() -> None:
    recorded = json.loads((RECORDED / "cq-403-viewer-patch.json").read_text())
    with running(recordings=RECORDED) as sim:
        assert ask(sim, "PATCH", QUEUE, CUT, name="rig-viewer") == (403, recorded)


def test_where_nobody_is_an_editor_nobody_can_be_named() -> None:
    with running(objects={"ClusterQueue": [{"metadata": {"name": "team-a-cq"}, "spec": SPEC}]}) as sim:
        assert ask(sim, "PATCH", QUEUE, CUT, name="zhang")[0] == 403
        assert ask(sim, "PATCH", QUEUE, CUT)[0] == 200


@pytest.mark.parametrize(("name", "status"), [("portal-viewer", 200), ("wang", 403)])
def test_a_reading_is_judged_in_the_name_too_and_is_not_in_the_log(
    sim: Running, name: str, status: int
) -> None:
    assert ask(sim, "GET", QUEUE, name=name)[0] == status
    assert log(sim) == []


def test_the_viewer_may_name_nobody(sim: Running) -> None:
    status, said = ask(sim, "PATCH", QUEUE, CUT, name="zhang", token=VIEWER)
    words = (
        'users "zhang" is forbidden: User "portal-viewer" cannot impersonate resource "users" in API group "" '
        "at the cluster scope"
    )
    assert (status, said["message"]) == (403, words)
    assert log(sim) == []  # refused before it is looked at what it is about


def test_an_event_says_what_was_asked_and_when(sim: Running) -> None:
    ask(sim, "PATCH", f"{QUEUE}?dryRun=All", CUT, name="zhang")
    (event,) = sim.audit.events()
    at = event.pop("stageTimestamp")
    assert at.endswith("Z")
    assert event == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "stage": "ResponseComplete",
        "requestURI": f"{QUEUE}?dryRun=All",
        "verb": "patch",
        "user": {"username": "portal-admin"},
        "impersonatedUser": {"username": "zhang"},
        "objectRef": {
            "resource": "clusterqueues",
            "name": "team-a-cq",
            "apiGroup": "kueue.x-k8s.io",
            "apiVersion": "v1beta2",
        },
        "responseStatus": {"code": 200},
    }


def test_a_write_whose_answer_is_lost_is_in_the_log(sim: Running) -> None:
    sim.faults.add("ClusterQueue", "patch", cut=0.5, times=1)
    with pytest.raises(urllib3.exceptions.HTTPError):
        ask(sim, "PATCH", QUEUE, CUT, name="zhang")
    sim.faults.add("ClusterQueue", "patch", status=503, times=1)
    assert ask(sim, "PATCH", QUEUE, CUT)[0] == 503
    assert log(sim) == [
        ("portal-admin", "zhang", "patch", "clusterqueues", "team-a-cq", 200),
        ("portal-admin", None, "patch", "clusterqueues", "team-a-cq", 503),
    ]
