"""The form of a change request: what it shows of each kind, what it makes of posted fields, where faults stand. By hand."""

from __future__ import annotations

from typing import Any

import pytest

from apps.changes.edits import parse_edits
from apps.changes.form import Edited, Place, entries, input_of, merged, with_fields
from apps.quotas.tests.what_if_world import GPU, a_queue
from apps.quotas.what_if_form import Target


def red() -> Edited:
    """8 of h100 in cohort all, which may borrow 4."""
    queue = a_queue("red-cq", 8, borrow=4)
    return Edited(Place("ClusterQueue", "", "red-cq"), node=Target("ClusterQueue", queue.node, queue))


LOCAL = Edited(Place("LocalQueue", "red-ns", "red-lq"), spec={"cluster_queue": "red-cq", "stop_policy": None})
VOLCANO = Edited(
    Place("VolcanoQueue", "", "red-vq"),
    spec={"weight": 2, "capability": {GPU: "16"}, "deserved": {GPU: "8"}, "guarantee": {}, "priority": None},
    state="Open",
)


def posted(target: Edited, **changed: str) -> dict[str, str]:
    """The form sent as a browser does: every field, boxes only when ticked."""
    found = {entry.name: entry.value for entry in entries(target, ()) if not entry.box}
    return found | {name.replace("__", ":"): value for name, value in changed.items()}


@pytest.mark.parametrize(
    "target", [red(), LOCAL, VOLCANO], ids=["ClusterQueue", "LocalQueue", "VolcanoQueue"]
)
def test_a_form_sent_as_it_came_asks_for_nothing(target: Edited) -> None:
    assert with_fields([], target, posted(target)) == []


CASES: list[tuple[str, Edited, dict[str, str], dict[str, Any]]] = [
    (
        "nominal",
        red(),
        {f"nominal:h100:{GPU}": "12"},
        {"kind": "ClusterQueue", "name": "red-cq", "set": {"quotas": [{"flavor": "h100", "resource": GPU, "nominal": "12"}]}},
    ),
    (
        "a limit taken away",
        red(),
        {f"borrowing_limit:h100:{GPU}": ""},
        {"kind": "ClusterQueue", "name": "red-cq", "set": {"quotas": [{"flavor": "h100", "resource": GPU, "borrowing_limit": None}]}},
    ),
    (
        "a flavor and a resource taken away",
        red(),
        {"remove:h100": "1", f"remove-resource:{GPU}": "1"},
        {"kind": "ClusterQueue", "name": "red-cq", "set": {"remove": [{"flavor": "h100"}, {"resource": GPU}]}},
    ),
    (
        "a flavor added",
        red(),
        {"new_flavor": "a100", "new_resource": GPU, "new_nominal": "4"},
        {"kind": "ClusterQueue", "name": "red-cq", "set": {"quotas": [{"flavor": "a100", "resource": GPU, "nominal": "4"}]}},
    ),
    (
        "stopped and moved",
        red(),
        {"stop_policy": "Hold", "parent": "other"},
        {"kind": "ClusterQueue", "name": "red-cq", "set": {"cohort": "other", "stop_policy": "Hold"}},
    ),
    (
        "a LocalQueue stopped",
        LOCAL,
        {"stop_policy": "HoldAndDrain"},
        {"kind": "LocalQueue", "namespace": "red-ns", "name": "red-lq", "set": {"stop_policy": "HoldAndDrain"}},
    ),
    (
        "Volcano's numbers",
        VOLCANO,
        {"weight": "3", "priority": "5", "state": "Closed"},
        {"kind": "VolcanoQueue", "name": "red-vq", "set": {"weight": "3", "priority": "5", "state": "Closed"}},
    ),
    (
        "Volcano's amounts: changed, taken away, added",
        VOLCANO,
        {
            f"capability:{GPU}": "24",
            f"deserved:{GPU}": "",
            "new_resource": "cpu",
            "new_guarantee": "4",
        },
        {
            "kind": "VolcanoQueue",
            "name": "red-vq",
            "set": {"capability": {GPU: "24"}, "deserved": {GPU: None}, "guarantee": {"cpu": "4"}},
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize(("what", "target", "fields", "edit"), CASES, ids=[case[0] for case in CASES])
def test_what_is_filled_in_becomes_the_edit(
    what: str, target: Edited, fields: dict[str, str], edit: dict[str, Any]
) -> None:
    found = with_fields([], target, posted(target) | fields)
    assert found == [edit]
    parse_edits(found)


@pytest.mark.parametrize(("what", "target", "fields", "edit"), CASES, ids=[case[0] for case in CASES])
def test_the_form_shows_an_edit_as_it_was_filled_in(
    what: str, target: Edited, fields: dict[str, str], edit: dict[str, Any]
) -> None:
    """Sent again it is the same edit: nothing typed is lost on the way through the edit language."""
    shown = {entry.name: entry.value for entry in entries(target, [edit]) if not entry.box or entry.value}
    assert with_fields([edit], target, shown) == [edit]


@pytest.mark.parametrize(
    ("target", "name", "typed"),
    [
        (red(), f"nominal:h100:{GPU}", "many"),
        (VOLCANO, f"capability:{GPU}", "8 cards"),
        (VOLCANO, "weight", "heavy"),
    ],
)
def test_what_is_no_amount_stays_as_it_was_typed(target: Edited, name: str, typed: str) -> None:
    edits = with_fields([], target, posted(target) | {name: typed})
    assert {entry.name: entry.value for entry in entries(target, edits)}[name] == typed


def test_other_objects_of_a_request_stay() -> None:
    stop = {"kind": "LocalQueue", "namespace": "blue-ns", "name": "red-lq", "set": {"stop_policy": "Hold"}}
    edits = with_fields([stop], LOCAL, posted(LOCAL, stop_policy="HoldAndDrain"))
    assert [Place.of(edit).key for edit in edits] == ["LocalQueue/blue-ns/red-lq", "LocalQueue/red-ns/red-lq"]
    assert edits[0] == stop


def test_a_closing_queue_counts_as_closed() -> None:
    closing = Edited(VOLCANO.place, spec=VOLCANO.spec, state="Closing")
    assert {entry.name: entry.present for entry in entries(closing, ())}["state"] == "Closed"


def test_unset_amounts_are_empty_and_not_zero() -> None:
    found = {entry.name: entry.present for entry in entries(VOLCANO, ())}
    assert (found[f"guarantee:{GPU}"], found["priority"]) == ("", "")


@pytest.mark.parametrize(
    ("target", "edit", "path", "name"),
    [
        (red(), CASES[0][3], "edits.0.set.quotas.0.nominal", f"nominal:h100:{GPU}"),
        (red(), CASES[2][3], "edits.0.set.remove.1", f"remove-resource:{GPU}"),
        (red(), CASES[4][3], "edits.0.set.cohort", "parent"),
        (LOCAL, CASES[5][3], "edits.0.set.stop_policy", "stop_policy"),
        (VOLCANO, CASES[6][3], "edits.0.set.weight", "weight"),
        (VOLCANO, CASES[7][3], f"edits.0.set.capability.{GPU}", f"capability:{GPU}"),
        (VOLCANO, CASES[7][3], "edits.0.set.capability", ""),
    ],
)
def test_a_fault_stands_at_its_input(target: Edited, edit: dict[str, Any], path: str, name: str) -> None:
    assert input_of(path, [edit], target) == (name, 0)


def test_a_fault_of_an_object_that_is_not_open_stands_at_its_line() -> None:
    assert input_of("edits.0.set.weight", [CASES[6][3]], red()) == ("", 0)
    assert input_of("edits", [], red()) == ("", None)
    assert input_of("edits.4.set", [], None) == ("", None)


def test_edits_of_one_object_become_one_as_if_laid_one_after_the_other() -> None:
    def quota(flavor: str, **more: str | None) -> dict[str, Any]:
        return {"flavor": flavor, "resource": GPU, **more}

    first = {
        "kind": "ClusterQueue",
        "name": "red-cq",
        "set": {
            "cohort": "a",
            "quotas": [quota("h100", nominal="1"), quota("a100", nominal="2")],
            "remove": [{"flavor": "l4"}],
            "preemption": {"within_cluster_queue": "Never"},
        },
    }
    local = {"kind": "LocalQueue", "namespace": "n", "name": "red-cq", "set": {"stop_policy": "Hold"}}
    second = {
        "kind": "ClusterQueue",
        "name": "red-cq",
        "set": {
            "cohort": "b",
            "quotas": [quota("h100", nominal="3", borrowing_limit=None)],
            "remove": [{"resource": "cpu"}],
            "preemption": {"reclaim_within_cohort": "Any"},
        },
    }
    assert merged([first, local, second]) == [
        {
            "kind": "ClusterQueue",
            "name": "red-cq",
            "set": {
                "cohort": "b",
                "quotas": [quota("h100", nominal="3", borrowing_limit=None), quota("a100", nominal="2")],
                "remove": [{"flavor": "l4"}, {"resource": "cpu"}],
                "preemption": {"within_cluster_queue": "Never", "reclaim_within_cohort": "Any"},
            },
        },
        local,
    ]
    assert merged([local]) == [local]
