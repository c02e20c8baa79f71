"""Volcano's Commands over HTTP: what is refused, and what the controller makes of them, as a real one does it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from simcluster.testing import ADMIN, VIEWER, Running, running

RECORDED = Path(__file__).parents[2] / "tests" / "data"
COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
EPOCH = 1_795_500_000


class Clock:
    """Time that moves only when told to."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class World:
    """A simulation of two days that stands still, with a clock of its own."""

    def __init__(self, sim: Running, clock: Clock) -> None:
        self.sim, self.clock = sim, clock

    def later(self, seconds: float) -> None:
        assert self.sim.driver is not None
        self.clock.now += seconds
        self.sim.driver.step()

    def queue(self, name: str) -> dict[str, Any]:
        found = self.sim.store.get("VolcanoQueue", name)
        assert found is not None
        return found

    def state(self, name: str) -> str:
        return str(self.queue(name)["status"]["state"])

    def act(self, action: str, name: str) -> None:
        """Ask and let the controller take it."""
        uid = self.queue(name)["metadata"]["uid"]
        status, body = post(self.sim, command(f"{action.lower()}-{name}-{self.clock.now}", action, name, uid))
        assert status == 201, body
        self.later(2)

    def move(self, name: str, parent: str) -> None:
        status, body = ask(self.sim, "PATCH", f"{QUEUES}/{name}", {"spec": {"parent": parent}})
        assert status == 200, body

    def said(self, name: str) -> list[tuple[str, str, str]]:
        """Type, reason and message of a queue's events, in the order of their names."""
        return [
            (event["type"], event["reason"], event["message"])
            for event in self.sim.store.objects("Event")
            if event["involvedObject"]["kind"] == "Queue" and event["involvedObject"]["name"] == name
        ]

    def groups(self, queue: str) -> list[dict[str, Any]]:
        return [one for one in self.sim.store.objects("PodGroup") if one["spec"]["queue"] == queue]


def ask(
    sim: Running, method: str, path: str, body: Any = None, *, token: str = ADMIN, **headers: str
) -> tuple[int, Any]:
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    answer = urllib3.PoolManager(retries=False).request(
        method,
        sim.url + path,
        body=None if body is None else json.dumps(body),
        headers={"Authorization": f"Bearer {token}", "Content-Type": kind, **headers},
    )
    return answer.status, json.loads(answer.data)


def post(sim: Running, body: Any, query: str = "", *, token: str = ADMIN) -> tuple[int, Any]:
    return ask(sim, "POST", COMMANDS + query, body, token=token)


def command(name: str, action: str, queue: str, uid: str = "u-1") -> dict[str, Any]:
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": name},
        "action": action,
        "target": {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": queue, "uid": uid},
        "reason": "CommandFromTest",
    }


@pytest.fixture
def world() -> Iterator[World]:
    clock = Clock(EPOCH + 2 * 86400.0)
    with running(scenario=True, days=2, seed=5, clock=clock) as sim:
        yield World(sim, clock)


@pytest.fixture
def still() -> Iterator[Running]:
    """Recorded queues and no controller: a Command stays."""
    with running(recordings=RECORDED / "volcano-capacity") as sim:
        yield sim


# ---- the API ----------------------------------------------------------------------------------------------------
def test_a_list_of_commands_has_the_recorded_shape(still: Running) -> None:
    recorded = json.loads((RECORDED / "volcano-capacity" / "commands.json").read_text())
    status, listed = ask(still, "GET", COMMANDS)
    assert (status, listed["kind"], listed["apiVersion"], listed["items"]) == (
        200,
        recorded["kind"],
        recorded["apiVersion"],
        [],
    )


def test_the_group_is_listed_with_volcano_and_goes_with_it(still: Running) -> None:
    _, found = ask(still, "GET", "/apis/bus.volcano.sh/v1alpha1")
    assert [one["name"] for one in found["resources"]] == ["commands"]
    assert found["resources"][0]["namespaced"] is True
    with running(objects={}, absent=["volcano"]) as without:
        _, groups = ask(without, "GET", "/apis")
        assert not [one for one in groups["groups"] if "volcano" in one["name"]]


def test_a_command_is_created_once_per_name(still: Running) -> None:
    status, made = post(still, command("shut", "CloseQueue", "research"))
    assert status == 201
    assert (made["action"], made["target"]["name"], made["reason"]) == (
        "CloseQueue",
        "research",
        "CommandFromTest",
    )
    assert made["metadata"].keys() >= {"uid", "creationTimestamp", "resourceVersion"}
    assert made["metadata"]["namespace"] == "default"
    assert ask(still, "GET", f"{COMMANDS}/shut") == (200, made)
    # kueue/create-409-exists.json, for another kind
    text = (RECORDED.parent / "data" / "kueue" / "create-409-exists.json").read_text()
    expected = text.replace("clusterqueues", "commands").replace("kueue.x-k8s.io", "bus.volcano.sh")
    assert post(still, command("shut", "OpenQueue", "research")) == (
        409,
        json.loads(expected.replace("team-a-cq", "shut")),
    )
    assert post(still, command("shut", "OpenQueue", "research"), "?dryRun=All")[0] == 409


def test_a_dry_run_creates_nothing(still: Running) -> None:
    status, made = post(still, command("shut", "CloseQueue", "research"), "?dryRun=All")
    assert (status, made["metadata"]["name"]) == (201, "shut")
    assert ask(still, "GET", COMMANDS)[1]["items"] == []


def test_who_may_only_read_creates_none(still: Running) -> None:
    status, said = post(still, command("shut", "CloseQueue", "research"), token=VIEWER)
    assert (status, said["reason"], said["message"]) == (
        403,
        "Forbidden",
        'commands.bus.volcano.sh is forbidden: User "portal-viewer" cannot create resource "commands" in API group '
        '"bus.volcano.sh" in the namespace "default"',
    )
    assert ask(still, "GET", COMMANDS)[1]["items"] == []


@pytest.mark.parametrize(
    ("change", "query", "status", "words"),
    [
        (
            {"spec": {}},
            "?fieldValidation=Strict",
            400,
            'Command in version "v1alpha1" cannot be handled as a Command: strict decoding error: unknown field "spec"',
        ),
        (
            {"apiVersion": "bus.volcano.sh/v1"},
            "",
            400,
            "the API version in the data (bus.volcano.sh/v1) does not match the expected API version "
            "(bus.volcano.sh/v1alpha1)",
        ),
        (
            {"metadata": {"name": "x", "namespace": "other"}},
            "",
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            {"target": {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": "research"}},
            "",
            422,
            'Command.bus.volcano.sh "x" is invalid: target.uid: Required value',
        ),
        (
            {"metadata": {}},
            "",
            422,
            'Command.bus.volcano.sh "" is invalid: metadata.name: Required value: name or generateName is required',
        ),
        (
            {"kind": "Order"},
            "",
            422,
            'Command.bus.volcano.sh "x" is invalid: kind: Invalid value: "Order": must be Command',
        ),
    ],
)
def test_a_malformed_command_is_refused(
    still: Running, change: dict[str, Any], query: str, status: int, words: str
) -> None:
    got, said = post(still, command("x", "CloseQueue", "research") | change, query)
    assert (got, said["message"]) == (status, words)
    assert ask(still, "GET", COMMANDS)[1]["items"] == []


def test_an_unknown_field_is_dropped_when_validation_is_not_strict(still: Running) -> None:
    status, made = post(still, command("x", "CloseQueue", "research") | {"spec": {}})
    assert status == 201
    assert "spec" not in made


def test_nothing_else_is_created(still: Running) -> None:
    assert ask(still, "POST", QUEUES, {})[0] == 405
    assert ask(still, "POST", "/apis/bus.volcano.sh/v1alpha1/commands", {})[0] == 405
    assert ask(still, "PUT", f"{COMMANDS}/x", {})[0] == 405


def test_a_namespace_that_is_not_there_is_named(world: World) -> None:
    path = "/apis/bus.volcano.sh/v1alpha1/namespaces/nope/commands"
    status, said = ask(world.sim, "POST", path, command("x", "CloseQueue", "robotics"))
    assert (status, said["message"]) == (404, 'namespaces "nope" not found')


# ---- the controller ---------------------------------------------------------------------------------------------
def test_a_queue_with_work_is_closing_until_its_last_pod_group_has_gone(world: World) -> None:
    assert world.groups("robotics")
    before = len(world.groups("robotics"))
    world.act("CloseQueue", "robotics")
    assert ask(world.sim, "GET", COMMANDS)[1]["items"] == []
    assert world.state("robotics") == "Closing"
    assert world.said("robotics") == [("Normal", "CloseQueue", "Close queue succeed")]
    made = {one["metadata"]["uid"] for one in world.groups("robotics")}
    assert len(made) <= before
    for _ in range(200):
        world.later(3600)
        left = {one["metadata"]["uid"] for one in world.groups("robotics")}
        assert left <= made  # a queue that is not open takes no new work
        assert world.state("robotics") == ("Closing" if left else "Closed")
        if not left:
            break
    assert world.state("robotics") == "Closed"
    world.act("OpenQueue", "robotics")
    assert world.state("robotics") == "Open"
    for _ in range(48):
        world.later(3600)
    assert world.groups("robotics")


def test_an_empty_queue_is_closed_at_once_and_opens_again(world: World) -> None:
    world.act("CloseQueue", "default")
    assert world.state("default") == "Closed"
    world.act("CloseQueue", "default")
    world.act("OpenQueue", "default")
    assert world.state("default") == "Open"
    world.act("OpenQueue", "default")
    # what is so already is no event
    assert sorted(world.said("default")) == [
        ("Normal", "CloseQueue", "Close queue succeed"),
        ("Normal", "OpenQueue", "Open queue succeed"),
    ]


def test_the_command_is_there_until_it_is_taken_and_its_name_with_it(world: World) -> None:
    body = command("shut", "CloseQueue", "default")
    assert post(world.sim, body)[0] == 201
    assert post(world.sim, body)[0] == 409
    assert world.state("default") == "Open"
    world.later(2)
    assert (ask(world.sim, "GET", f"{COMMANDS}/shut")[0], world.state("default")) == (404, "Closed")
    assert post(world.sim, body)[0] == 201


def test_the_root_queue_is_never_closed(world: World) -> None:
    world.act("CloseQueue", "root")
    assert (world.state("root"), world.said("root")) == ("Open", [])
    assert world.state("robotics") == "Open"


def test_children_close_and_open_with_their_parent(world: World) -> None:
    world.move("default", "retired")  # retired is Closed: its child is closed with it
    assert world.state("default") == "Closed"
    assert world.queue("default")["metadata"]["annotations"] == {"volcano.sh/closed-by-parent": "true"}
    world.act("OpenQueue", "retired")
    assert (world.state("retired"), world.state("default")) == ("Open", "Open")
    assert world.queue("default")["metadata"]["annotations"] == {"volcano.sh/closed-by-parent": "false"}
    world.act("CloseQueue", "retired")
    assert (world.state("retired"), world.state("default")) == ("Closed", "Closed")
    assert world.queue("default")["metadata"]["annotations"] == {"volcano.sh/closed-by-parent": "true"}


def test_a_child_that_was_closed_by_itself_stays_closed(world: World) -> None:
    world.act("OpenQueue", "retired")
    world.move("default", "retired")
    world.act("CloseQueue", "default")
    world.act("CloseQueue", "retired")
    world.act("OpenQueue", "retired")
    assert (world.state("retired"), world.state("default")) == ("Open", "Closed")


def test_below_a_closed_queue_nothing_opens_and_the_controller_says_so(world: World) -> None:
    world.move("default", "retired")
    world.act("OpenQueue", "default")
    assert world.state("default") == "Closed"
    world.later(200)
    assert world.said("default")[-1] == (
        "Warning",
        "OpenQueue",
        "OpenQueue queue failed for Failed to open queue default because its parent queue retired is closing or closed. "
        "Open the parent queue first.",
    )


def test_opening_is_tried_again_until_the_parent_is_open(world: World) -> None:
    world.act("CloseQueue", "default")
    world.move("default", "retired")
    world.act("OpenQueue", "default")
    world.act("OpenQueue", "retired")
    world.later(60)
    assert world.state("default") == "Open"
    assert all(kind == "Normal" for kind, _reason, _words in world.said("default"))


@pytest.mark.parametrize(
    "change", [{"name": "nope"}, {"kind": "Job", "apiVersion": "batch.volcano.sh/v1alpha1"}]
)
def test_a_command_for_something_else_changes_no_queue(world: World, change: dict[str, str]) -> None:
    body = command("x", "CloseQueue", "default")
    body["target"] |= change
    states = {
        one["metadata"]["name"]: one["status"]["state"] for one in world.sim.store.objects("VolcanoQueue")
    }
    assert post(world.sim, body)[0] == 201
    world.later(5)
    # only the controller of queues is simulated: what is meant for another stays
    assert world.sim.store.count("Command") == (1 if "kind" in change else 0)
    assert states == {
        one["metadata"]["name"]: one["status"]["state"] for one in world.sim.store.objects("VolcanoQueue")
    }


def test_after_a_restart_a_closed_queue_is_still_closed(tmp_path: Path) -> None:
    clock = Clock(time.time())
    with running(scenario=True, days=0.5, clock=clock, folder=tmp_path) as sim:
        world = World(sim, clock)
        world.act("CloseQueue", "default")
        epoch = int(sim.cluster.epoch)
    clock.now += 60
    with running(scenario=True, days=(clock.now - epoch) / 86400, clock=clock, folder=tmp_path) as sim:
        assert World(sim, clock).state("default") == "Closed"
        assert sim.store.count("Command") == 0
