"""What was done, taken back: by hand, and by chance for edits of every kind, whole and half done."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.changes.edit_between import edit_of
from apps.changes.edits import ChangeError, Edit, ObjectKey, key_of, parse_edits
from apps.changes.patching import edited_fields, lay
from apps.changes.planning import Goal, PlannedStep, goals_of, plan
from apps.changes.specs import GROUPS, ObjectSeen
from apps.changes.tests.json_patch import apply_patch
from apps.changes.tests.strategies import pairs_of_every_kind
from apps.changes.tests.test_planning import GPU, nominal, planned, queue, volcano
from apps.changes.undoing import DoneStep, WayBack, way_back

RED = queue("red", "org", "8", lendingLimit="4")
Live = dict[ObjectKey, ObjectSeen]


def done(steps: Sequence[PlannedStep]) -> list[DoneStep]:
    return [
        DoneStep(
            step.key, step.before, step.after, step.body["action"] if isinstance(step.body, dict) else ""
        )
        for step in steps
    ]


def written(live: Live, steps: Sequence[PlannedStep]) -> Live:
    """The cluster after these writes; commands are at once in effect."""
    found = dict(live)
    for step in steps:
        seen = found[step.key]
        if isinstance(step.body, dict):
            state = "Open" if step.body["action"] == "OpenQueue" else "Closed"
            found[step.key] = replace(seen, status_state=state)
            continue
        body = {"spec": seen.spec} if seen.has_spec else {}
        spec = apply_patch(body, step.body)["spec"]
        found[step.key] = replace(seen, spec=spec, has_spec=True)
    return found


def back(live: Live, steps: Sequence[PlannedStep], edits: Sequence[Edit]) -> WayBack:
    return way_back(live, done(steps), edits)


# ---- by hand --------------------------------------------------------------------------------------------------------


def test_an_undo_puts_the_text_back_and_leaves_the_rest() -> None:
    red = queue("red", "org", "8000m")
    edits = parse_edits([nominal("ClusterQueue", "red", "12")])
    steps = planned([red], edits)
    live = written({red.key: red}, steps)
    live[red.key].spec["stopPolicy"] = "Hold"
    (step,) = plan(live, back(live, steps, edits).goals)
    assert step.body == [
        {
            "op": "replace",
            "path": "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota",
            "value": "8000m",
        }
    ]
    assert step.fields == ("edits.0",)


def test_a_resource_that_went_and_came_back_in_other_words_gets_its_text_back() -> None:
    red = queue("red", "org", "8000m")
    wanted = nominal("ClusterQueue", "red", "8", remove=[{"resource": GPU}])
    wanted["set"]["quotas"].append({"flavor": "h100", "resource": "cpu", "nominal": "4"})
    edits = parse_edits([wanted])
    steps = planned([red], edits)
    live = written({red.key: red}, steps)
    assert live[red.key].spec != red.spec
    again = written(live, plan(live, back(live, steps, edits).goals))
    assert again[red.key].spec == red.spec


CHANGED: list[tuple[str, dict[str, str], list[tuple[str, str, str, str]]]] = [
    (
        "the quota is another one now",
        {"nominalQuota": "16", "lendingLimit": "6"},
        [("edits.0.set.quotas.0.nominal", "h100/nvidia.com~1gpu/nominalQuota", "12", "16")],
    ),
    (
        "the limit is gone",
        {"nominalQuota": "12"},
        [("edits.0.set.quotas.0.lending_limit", "h100/nvidia.com~1gpu/lendingLimit", "6", "")],
    ),
    ("the same in other words is no change", {"nominalQuota": "12000m", "lendingLimit": "6000m"}, []),
    ("what is as it was before is in nobody's way", {"nominalQuota": "8", "lendingLimit": "6"}, []),
]


@pytest.mark.parametrize(("words", "cell", "expected"), CHANGED, ids=[row[0] for row in CHANGED])
def test_what_somebody_else_changed(
    words: str, cell: dict[str, str], expected: list[tuple[str, str, str, str]]
) -> None:
    wanted = nominal("ClusterQueue", "red", "12")
    wanted["set"]["quotas"][0]["lending_limit"] = "6"
    edits = parse_edits([wanted])
    steps = planned([RED], edits)
    live = written({RED.key: RED}, steps)
    live[RED.key].spec["resourceGroups"][0]["flavors"][0]["resources"][0] = {"name": GPU, **cell}
    found = back(live, steps, edits)
    assert [
        (one.field, one.params["path"], one.params["was"], one.params["now"]) for one in found.refusals
    ] == [(field, f"{GROUPS}/{path}", was, now) for field, path, was, now in expected]
    assert {one.code for one in found.refusals} <= {"changed_since"}
    if not expected:
        (step,) = plan(live, found.goals)
        assert written(live, [step])[RED.key].spec == RED.spec


def test_an_object_that_is_gone_cannot_be_put_back() -> None:
    edits = parse_edits([nominal("ClusterQueue", "red", "12")])
    (refusal,) = back({}, planned([RED], edits), edits).refusals
    assert (refusal.code, refusal.field, refusal.params) == ("unknown", "edits.0.name", {"part": "red"})


def test_children_shrink_first_on_the_way_back_too() -> None:
    seen = (queue("org", "", "4", kind="Cohort"), queue("blue", "org", "8"))
    edits = parse_edits([nominal("ClusterQueue", "blue", "12"), nominal("Cohort", "org", "8")])
    steps = planned(seen, edits)
    live = written({one.key: one for one in seen}, steps)
    assert [step.name for step in steps] == ["org", "blue"]
    assert [step.name for step in plan(live, back(live, steps, edits).goals)] == ["blue", "org"]


@pytest.mark.parametrize(
    ("state", "now", "command"),
    [("Closed", "Closing", "OpenQueue"), ("Closed", "Closed", "OpenQueue"), ("Closed", "Open", "")],
)
def test_a_command_is_answered_by_its_reverse(state: str, now: str, command: str) -> None:
    seen = volcano("q", "root", "Open")
    edits = parse_edits([{"kind": "VolcanoQueue", "name": "q", "set": {"state": state}}])
    steps = planned([seen], edits)
    live = {seen.key: replace(seen, status_state=now)}
    (goal,) = back(live, steps, edits).goals.values()
    assert (goal.command, goal.after) == (command, seen.spec)


def test_a_state_that_no_command_makes_is_in_the_way() -> None:
    seen = volcano("q", "root", "Open")
    edits = parse_edits([{"kind": "VolcanoQueue", "name": "q", "set": {"state": "Closed"}}])
    live = {seen.key: replace(seen, status_state="Unknown")}
    (refusal,) = back(live, planned([seen], edits), edits).refusals
    assert (refusal.code, refusal.field) == ("changed_since", "edits.0.set.state")


# ---- by chance ------------------------------------------------------------------------------------------------------


@st.composite
def scenes(draw: st.DrawFn) -> tuple[list[ObjectSeen], list[Edit]]:
    """Some objects of every kind, each edited once or twice."""
    seen: list[ObjectSeen] = []
    edits: list[Edit] = []
    for place, (one, edit) in enumerate(draw(st.lists(pairs_of_every_kind, min_size=1, max_size=4))):
        name = f"q{place}"
        seen.append(replace(one, name=name))
        edits.append(_named(edit, name, len(edits)))
    return seen, edits


def _named(edit: Edit, name: str, place: int) -> Edit:
    return replace(edit, name=name, field=f"edits.{place}")


def _unrelated(live: Live) -> Live:
    """Somebody else sets what no edit of these kinds names."""
    return {
        key: replace(one, spec={**deepcopy(one.spec), "admissionScope": {"x": "1"}, "note": ["a"]})
        for key, one in live.items()
    }


def _without(spec: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in spec.items() if name not in ("admissionScope", "note")}


@settings(max_examples=500, deadline=None)
@given(scenes(), st.data())
def test_whatever_was_done_is_taken_back_exactly(
    scene: tuple[list[ObjectSeen], list[Edit]], data: st.DataObject
) -> None:
    seen, edits = scene
    start = {one.key: one for one in seen}
    try:
        steps = plan(start, goals_of(start, edits))
    except ChangeError:
        return
    count = data.draw(st.integers(0, len(steps)), label="steps that were done")
    half = written(start, steps[:count])
    for live in (half, _unrelated(half)):
        found = back(live, steps[:count], edits)
        assert found.refusals == ()
        again = written(live, plan(live, found.goals))
        for key, one in start.items():
            assert _without(again[key].spec) == one.spec
            assert again[key].spec.keys() - one.spec.keys() <= live[key].spec.keys() - half[key].spec.keys()
            if key[0] == "VolcanoQueue":
                assert (again[key].status_state or "Open") == (one.status_state or "Open")


@settings(max_examples=500, deadline=None)
@given(scenes())
def test_a_way_back_as_edits_leads_there(scene: tuple[list[ObjectSeen], list[Edit]]) -> None:
    seen, edits = scene
    start = {one.key: one for one in seen}
    try:
        steps = plan(start, goals_of(start, edits))
    except ChangeError:
        return
    live = written(start, steps)
    for key, goal in back(live, steps, edits).goals.items():
        edit = edit_of(goal)
        if edit is None:
            assert goal.after == live[key].spec
            continue
        assert key_of(edit) == key
        laid = lay(live[key], edit)
        assert _lowest(goal, laid.after_spec) == []
        assert laid.command == goal.command


def _lowest(goal: Goal, after: dict[str, Any]) -> list[str]:
    """Fields that the edit leaves other than they are to be. What is usual may stand there or be absent, and an empty
    group of maps says nothing; the order of flavors is not the edit's to say."""
    usual = {"None", "BestEffortFIFO", "Never", "MayStopSearch", "TryNextFlavor", "1", 1}
    return [
        change.path
        for change in edited_fields(goal.after, after)
        if not (change.path == GROUPS and _sorted(change.before) == _sorted(change.after))
        and not (None in (change.before, change.after) and (change.before or change.after) in usual)
    ]


def _sorted(shape: Any) -> Any:
    return sorted(
        (sorted(one["coveredResources"]), sorted(name.partition(" (")[0] for name in one["flavors"]))
        for one in shape or ()
    )
