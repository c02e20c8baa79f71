"""Sequences by hand, and by chance: between a valid start and a valid end every step leaves a valid cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.changes.edits import AMOUNTS, ChangeError, Edit, parse_edits
from apps.changes.planning import PlannedStep, goals_of, plan, volcano_part
from apps.changes.rules import broken
from apps.changes.rules_volcano import broken_volcano
from apps.changes.specs import ObjectSeen
from apps.changes.tests.json_patch import apply_patch
from apps.changes.tests.strategies import kueue_edits, kueue_seen

GPU = "nvidia.com/gpu"


def volcano(name: str, parent: str, state: str = "Open", **parts: str) -> ObjectSeen:
    spec: dict[str, Any] = {"parent": parent} if parent else {}
    for part, text in parts.items():
        spec[part] = {"resource": {GPU: text}} if part == "guarantee" else {GPU: text}
    api = "scheduling.volcano.sh/v1beta1"
    return ObjectSeen("VolcanoQueue", "", name, f"u-{name}", "1", api, f"/q/{name}", spec, (), state)


def queue(name: str, cohort: str, nominal: str, **more: str) -> ObjectSeen:
    kind = "Cohort" if more.pop("kind", "") else "ClusterQueue"
    cell = {"name": GPU, "nominalQuota": nominal, **more}
    groups = [{"coveredResources": [GPU], "flavors": [{"name": "h100", "resources": [cell]}]}]
    parent = {"cohortName" if kind == "ClusterQueue" else "parentName": cohort} if cohort else {}
    spec = {**parent, "resourceGroups": groups}
    return ObjectSeen(kind, "", name, f"u-{name}", "1", "kueue.x-k8s.io/v1beta2", f"/{name}", spec)


def nominal(kind: str, name: str, amount: str, **more: Any) -> dict[str, Any]:
    quotas = [{"flavor": "h100", "resource": GPU, "nominal": amount}]
    return {"kind": kind, "name": name, "set": {"quotas": quotas, **more}}


def planned(seen: Iterable[ObjectSeen], edits: Sequence[Edit]) -> tuple[PlannedStep, ...]:
    objects = {one.key: one for one in seen}
    return plan(objects, goals_of(objects, edits))


def said(steps: tuple[PlannedStep, ...]) -> list[str]:
    return [f"{step.method} {step.name}" for step in steps]


# ---- by hand --------------------------------------------------------------------------------------------------------


def amounts(name: str, **parts: str) -> dict[str, Any]:
    return {"kind": "VolcanoQueue", "name": name, "set": {part: {GPU: text} for part, text in parts.items()}}


TREE = (
    volcano("root", ""),
    volcano("eng", "root", capability="40", deserved="20", guarantee="8"),
    volcano("a", "eng", capability="20", deserved="10", guarantee="4"),
    volcano("b", "eng", capability="20", deserved="10", guarantee="4"),
)
VOLCANO: list[tuple[str, list[dict[str, Any]], list[str]]] = [
    ("growing: the parent first", [amounts("a", capability="60"), amounts("eng", capability="60")], ["eng", "a"]),
    ("shrinking: the child first", [amounts("eng", capability="10"), amounts("a", capability="10"), amounts("b", capability="10")], ["a", "b", "eng"]),
    ("from one to another: who gives first", [amounts("a", guarantee="6"), amounts("b", guarantee="2")], ["b", "a"]),
    ("both at once are two writes", [amounts("a", guarantee="6", capability="18"), amounts("b", guarantee="2")], ["a", "b", "a"]),
    ("alone it is one write", [amounts("a", guarantee="3", capability="24")], ["a"]),
]  # fmt: skip


@pytest.mark.parametrize(("words", "edits", "order"), VOLCANO, ids=[row[0] for row in VOLCANO])
def test_volcano_by_hand(words: str, edits: list[dict[str, Any]], order: list[str]) -> None:
    assert said(planned(TREE, parse_edits(edits))) == [f"patch {name}" for name in order]


def test_kueue_by_hand() -> None:
    seen = (queue("org", "", "4", kind="Cohort"), queue("red", "org", "8"), queue("blue", "org", "8"))
    give = [nominal("ClusterQueue", "blue", "12"), nominal("ClusterQueue", "red", "4")]
    assert said(planned(seen, parse_edits(give))) == ["patch red", "patch blue"]
    grow = [nominal("ClusterQueue", "blue", "12"), nominal("Cohort", "org", "8")]
    assert said(planned(seen, parse_edits(grow))) == ["patch org", "patch blue"]
    shrink = [nominal("Cohort", "org", "0"), nominal("ClusterQueue", "blue", "2")]
    assert said(planned(seen, parse_edits(shrink))) == ["patch blue", "patch org"]


def test_a_queue_moves_in_after_its_new_cohort_is_as_wanted() -> None:
    seen = (queue("lab", "", "0", kind="Cohort"), queue("red", "org", "8"))
    move = {"kind": "ClusterQueue", "name": "red", "set": {"cohort": "lab"}}
    steps = planned(seen, parse_edits([move, nominal("Cohort", "lab", "4")]))
    assert said(steps) == ["patch lab", "patch red"]


def test_leaving_is_one_write_with_the_limits() -> None:
    seen = (queue("red", "org", "8", borrowingLimit="4", lendingLimit="2"),)
    (step,) = planned(seen, parse_edits([{"kind": "ClusterQueue", "name": "red", "set": {"cohort": None}}]))
    assert isinstance(step.body, list)
    assert sorted(operation["path"].rpartition("/")[2] for operation in step.body) == [
        "borrowingLimit", "cohortName", "lendingLimit",
    ]  # fmt: skip


def test_open_from_the_top_and_close_from_below_after_the_patches() -> None:
    seen = (
        volcano("root", ""),
        volcano("eng", "root", "Closed"),
        volcano("a", "eng", "Closed"),
        volcano("b", "root"),
    )
    states = [
        {"kind": "VolcanoQueue", "name": name, "set": wanted}
        for name, wanted in [
            ("a", {"state": "Open"}),
            ("eng", {"state": "Open", "weight": 2}),
            ("b", {"state": "Closed"}),
        ]
    ]
    steps = planned(seen, parse_edits(states))
    assert said(steps) == ["patch eng", "command b", "command eng", "command a"]
    assert [step.body for step in steps[1:]] == [
        {"action": "CloseQueue"}, {"action": "OpenQueue"}, {"action": "OpenQueue"},
    ]  # fmt: skip


def test_an_object_that_is_not_there_is_a_fault_of_its_name() -> None:
    with pytest.raises(ChangeError) as caught:
        planned((), parse_edits([nominal("Cohort", "none", "4")]))
    assert [(one.field, one.code, one.part) for one in caught.value.faults] == [
        ("edits.0.name", "unknown", "none")
    ]


# ---- by chance ------------------------------------------------------------------------------------------------------

SHAPE = {"root": "", "eng": "root", "ops": "root", "a": "eng", "b": "eng", "c": "a", "d": "a"}
RESOURCES = ("cpu", GPU)
EDITABLE = [name for name in SHAPE if name != "root"]


@st.composite
def valid_tree(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """Specs that keep every rule, built from the lowest upwards."""
    found: dict[str, dict[str, Any]] = {"root": {}}
    number = st.integers(0, 6)
    for name in reversed(EDITABLE):
        spec: dict[str, Any] = {"parent": SHAPE[name]}
        children = [found[child] for child, parent in SHAPE.items() if parent == name]
        for resource in RESOURCES:
            sums = {
                part: sum(int(volcano_part(child, part).get(resource, 0)) for child in children)
                for part in ("guarantee", "deserved")
            }
            guarantee = sums["guarantee"] + draw(number)
            deserved = max(guarantee, sums["deserved"]) + draw(number)
            below = [
                int(spec["capability"][resource])
                for spec in _all_below(found, name)
                if resource in spec.get("capability", {})
            ]
            capability = max([deserved, *below]) + draw(number)
            if deserved or draw(st.booleans()):
                spec.setdefault("deserved", {})[resource] = str(deserved)
                if guarantee or draw(st.booleans()):
                    spec.setdefault("guarantee", {"resource": {}})["resource"][resource] = str(guarantee)
            if draw(st.booleans()):
                spec.setdefault("capability", {})[resource] = str(capability)
        found[name] = spec
    return found


def _all_below(found: dict[str, dict[str, Any]], name: str) -> list[dict[str, Any]]:
    specs = []
    for child, parent in SHAPE.items():
        if parent == name and child in found:
            specs += [found[child], *_all_below(found, child)]
    return specs


def _edits(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    wanted: dict[str, Any] = {}
    for part in AMOUNTS:
        old, new = volcano_part(before, part), volcano_part(after, part)
        changed = {
            resource: new.get(resource)
            for resource in {**old, **new}
            if old.get(resource) != new.get(resource)
        }
        if changed:
            wanted[part] = changed
    return wanted


def _broken(specs: dict[str, dict[str, Any]]) -> list[Any]:
    """Every rule of every queue, as if each had just been made."""
    return [one for name in specs for one in broken_volcano(name, {}, specs)]


@settings(max_examples=400, deadline=None)
@given(valid_tree(), valid_tree(), st.just(set(EDITABLE)) | st.sets(st.sampled_from(EDITABLE), min_size=1))
def test_every_step_leaves_a_valid_tree(
    start: dict[str, dict[str, Any]], wanted: dict[str, dict[str, Any]], edited: set[str]
) -> None:
    end = {name: wanted[name] if name in edited else spec for name, spec in start.items()}
    assert _broken(start) == []
    edits = [
        {"kind": "VolcanoQueue", "name": name, "set": found}
        for name in sorted(edited)
        if (found := _edits(start[name], end[name]))
    ]
    if not edits or _broken(end):
        return
    seen = [
        ObjectSeen("VolcanoQueue", "", name, "u", "1", "", f"/{name}", spec, (), "Open")
        for name, spec in start.items()
    ]
    present = dict(start)
    for step in planned(seen, parse_edits(edits)):
        assert present[step.name] == step.before
        assert isinstance(step.body, list)
        assert step.body
        present[step.name] = apply_patch({"spec": present[step.name]}, step.body)["spec"]
        assert present[step.name] == step.after
        assert _broken(present) == [], step.name
    for name in SHAPE:
        for part in AMOUNTS:
            assert dict(volcano_part(present[name], part)) == dict(volcano_part(end[name], part))


@st.composite
def kueue_scene(draw: st.DrawFn) -> tuple[list[ObjectSeen], list[Any]]:
    seen: list[ObjectSeen] = []
    edits: list[Any] = []
    for kind, name in (
        ("Cohort", "org"),
        ("Cohort", "lab"),
        ("ClusterQueue", "red"),
        ("ClusterQueue", "blue"),
    ):
        seen.append(replace(draw(kueue_seen(kind)), name=name))
        edits.append(replace(draw(kueue_edits(kind)), name=name, field=f"edits.{len(edits)}"))
    return seen, edits


@settings(max_examples=300, deadline=None)
@given(kueue_scene())
def test_every_step_leaves_valid_kueue_objects(scene: tuple[list[ObjectSeen], list[Any]]) -> None:
    seen, edits = scene
    objects = {one.key: one for one in seen}
    try:
        goals = goals_of(objects, edits)
    except ChangeError:
        return
    valid = all(
        not broken(key[0], goal.seen.spec, goal.seen.spec, goal.seen.api_version)
        and not broken(key[0], goal.seen.spec, goal.after, goal.seen.api_version)
        for key, goal in goals.items()
    )
    present = {key: one.spec for key, one in objects.items()}
    has_spec = {key: one.has_spec for key, one in objects.items()}
    for step in planned(seen, edits):
        assert present[step.key] == step.before
        assert isinstance(step.body, list)
        assert step.body
        body = {"spec": present[step.key]} if has_spec[step.key] else {}
        present[step.key] = apply_patch(body, step.body)["spec"]
        has_spec[step.key] = True
        assert present[step.key] == step.after
        if valid:
            assert broken(step.kind, step.before, step.after, objects[step.key].api_version) == []
    assert present == {key: goals[key].after if key in goals else one.spec for key, one in objects.items()}
