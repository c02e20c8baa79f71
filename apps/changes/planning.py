"""The order in which objects are written. Input: live objects and what each is to be (its goal: by edits, or to take
something back, see `undoing`); output: the steps, each one write to one object. Pure.

First everything that shrinks, from the lowest upwards, then everything that grows, from the highest downwards, moves
into other cohorts after the cohorts are as wanted, open and close of Volcano's queues last. An object of which one
amount shrinks and another grows is written twice where an object that it is related to is edited too.
Invariants: when the cluster is valid before and would be after, it is valid after every step; a step's `before` is
what the step before it made of the object; no more is promised at any time than before or after the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from apps.changes.edits import AMOUNTS, ChangeError, ChangeFault, Edit, ObjectKey, VolcanoEdit, key_of
from apps.changes.laying import parent_field
from apps.changes.patching import Operation, lay, operations_between
from apps.changes.specs import ObjectSeen, Spec, amount, cells_of, shape_of

ZERO = Decimal(0)
COMMANDS_PATH = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """`method` "patch": `body` is the list of operations; "command": `body` is {"action": "OpenQueue" | "CloseQueue"}
    for the queue at `path`. `fields`: the edits that it serves ("edits.0")."""

    kind: str
    namespace: str
    name: str
    method: Literal["patch", "command"]
    path: str
    object_uid: str
    resource_version: str
    body: list[Operation] | dict[str, str]
    before: Spec
    after: Spec
    fields: tuple[str, ...]

    @property
    def key(self) -> ObjectKey:
        return self.kind, self.namespace, self.name


@dataclass(frozen=True, slots=True)
class Goal:
    """What an object is to be. `command`: "OpenQueue", "CloseQueue" or ""; `fields`: the edits that it serves."""

    seen: ObjectSeen
    after: Spec
    command: str
    fields: tuple[str, ...]

    @property
    def changes(self) -> bool:
        return bool(self.command) or self.after != self.seen.spec


def plan(objects: Mapping[ObjectKey, ObjectSeen], goals: Mapping[ObjectKey, Goal]) -> tuple[PlannedStep, ...]:
    """`objects`: the live objects that have goals, and others of their tree as far as they are known (their parents
    decide the order)."""
    depths = _Depths(objects, goals)
    shrinking, growing, commands = [], [], []
    for key, goal in goals.items():
        middle = _middle(goal, goals, depths)
        if middle != goal.seen.spec:
            shrinking.append((-depths.of(key), key, goal.seen.spec, middle))
        if middle != goal.after:
            growing.append((depths.of(key), key, middle, goal.after))
        if goal.command:
            opening = goal.command == "OpenQueue"
            commands.append((opening, depths.of(key) * (1 if opening else -1), key))
    steps = [
        _patch(goals[key], before, after)
        for stage in (shrinking, growing)
        for _turn_of, key, before, after in sorted(stage, key=lambda one: (one[0], one[1]))
    ]
    return (*steps, *(_command(goals[key]) for _opening, _depth, key in sorted(commands)))


def goals_of(objects: Mapping[ObjectKey, ObjectSeen], edits: Sequence[Edit]) -> dict[ObjectKey, Goal]:
    """What each edited object is to be when all edits are laid on it in their order. Raises ChangeError for an object
    that is not there and for what cannot be laid on it."""
    goals: dict[ObjectKey, Goal] = {}
    faults: list[ChangeFault] = []
    for edit in edits:
        key = key_of(edit)
        if key not in objects:
            faults.append(ChangeFault(f"{edit.field}.name", "unknown", edit.name))
            continue
        old = goals.get(key) or Goal(objects[key], objects[key].spec, "", ())
        try:
            laid = lay(replace(old.seen, spec=old.after), edit)
        except ChangeError as error:
            faults.extend(error.faults)
            continue
        command = laid.command if isinstance(edit, VolcanoEdit) and edit.state else old.command
        goals[key] = Goal(old.seen, laid.after_spec, command, (*old.fields, edit.field))
    if faults:
        raise ChangeError(faults)
    return goals


def _patch(goal: Goal, before: Spec, after: Spec) -> PlannedStep:
    has_spec = goal.seen.has_spec or before is not goal.seen.spec
    return _step(goal, "patch", operations_between(before, after, has_spec=has_spec), before, after)


def _command(goal: Goal) -> PlannedStep:
    return _step(goal, "command", {"action": goal.command}, goal.after, goal.after)


def _step(
    goal: Goal,
    method: Literal["patch", "command"],
    body: list[Operation] | dict[str, str],
    before: Spec,
    after: Spec,
) -> PlannedStep:
    seen = goal.seen
    return PlannedStep(
        kind=seen.kind,
        namespace=seen.namespace,
        name=seen.name,
        method=method,
        path=seen.path,
        object_uid=seen.uid,
        resource_version=seen.resource_version,
        body=body,
        before=before,
        after=after,
        fields=goal.fields,
    )


# ---- trees ----------------------------------------------------------------------------------------------------------


def parent_of(kind: str, spec: Spec, api_version: str = "") -> str:
    if kind == "VolcanoQueue":
        return str(spec.get("parent") or "")
    if kind == "LocalQueue":
        return str(spec.get("clusterQueue") or "")
    return str(spec.get(parent_field(kind, spec, api_version)) or "")


_ABOVE = {"VolcanoQueue": "VolcanoQueue", "LocalQueue": "ClusterQueue"}


class _Depths:
    """How far below its root an object will be; a circle ends the way up."""

    def __init__(self, objects: Mapping[ObjectKey, ObjectSeen], goals: Mapping[ObjectKey, Goal]) -> None:
        self._parents: dict[ObjectKey, ObjectKey | None] = {}
        for key, seen in objects.items():
            goal = goals.get(key)
            name = parent_of(key[0], goal.after if goal else seen.spec, seen.api_version)
            self._parents[key] = (_ABOVE.get(key[0], "Cohort"), "", name) if name else None

    def above(self, key: ObjectKey) -> list[ObjectKey]:
        found: list[ObjectKey] = []
        here = self._parents.get(key)
        while here is not None and here not in found and here != key:
            found.append(here)
            here = self._parents.get(here)
        return found

    def of(self, key: ObjectKey) -> int:
        return len(self.above(key)) + (100 if key[0] in ("ClusterQueue", "LocalQueue") else 0)

    def related(self, key: ObjectKey, other: ObjectKey) -> bool:
        """In one tree, as far as it is known."""
        return bool({key, *self.above(key)} & {other, *self.above(other)})


# ---- the step between -----------------------------------------------------------------------------------------------


def _middle(goal: Goal, goals: Mapping[ObjectKey, Goal], depths: _Depths) -> Spec:
    """The spec after what shrinks: `before` itself when nothing does, `after` itself when nothing else is left."""
    before, after, kind = goal.seen.spec, goal.after, goal.seen.kind
    if kind == "LocalQueue" or before == after:
        return before
    if kind == "VolcanoQueue":
        middle = _smaller_volcano(before, after)
    elif parent_of(kind, before) != parent_of(kind, after) or shape_of(before) != shape_of(after):
        return before
    else:
        middle = _smaller_cells(before, after)
    if middle in (before, after):
        return before if middle == before else after
    key = goal.seen.key
    alone = not any(other != key and depths.related(key, other) for other in goals)
    return before if alone else _whole_if_nothing_grows(middle, before, after, kind)


def _whole_if_nothing_grows(middle: Spec, before: Spec, after: Spec, kind: str) -> Spec:
    """What is not an amount goes with the last write: where no amount grows, that is the shrinking one."""
    return after if _amounts(kind, middle) == _amounts(kind, after) else middle


def _amounts(kind: str, spec: Spec) -> Any:
    if kind == "VolcanoQueue":
        return {part: _volcano_amounts(spec, part) for part in AMOUNTS}
    return [(flavor, resource, cell) for flavor, resource, cell in cells_of(spec)]


def _smaller_cells(before: Spec, after: Spec) -> Spec:
    """Cells of which the nominal quota falls, or a limit while it stays, as they are to be; the others as they are."""
    middle = deepcopy(before)
    wanted = {(flavor, resource): cell for flavor, resource, cell in cells_of(after)}
    for flavor, resource, cell in cells_of(middle):
        new = wanted[flavor, resource]
        if _falls(cell, new):
            cell.clear()
            cell.update(deepcopy(new))
    return middle


def _falls(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    was, now = amount(old.get("nominalQuota")) or ZERO, amount(new.get("nominalQuota")) or ZERO
    return now < was


def volcano_part(spec: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    """A Volcano queue's capability, deserved or guarantee as written; the guarantee is nested one deeper."""
    found = spec.get(part) or {}
    return (found.get("resource") or {}) if part == "guarantee" else found


def _volcano_amounts(spec: Spec, part: str) -> dict[str, Decimal]:
    return {
        resource: value
        for resource, text in volcano_part(spec, part).items()
        if (value := amount(text)) is not None
    }


def _smaller_volcano(before: Spec, after: Spec) -> Spec:
    """The lesser of both, amount by amount, and none where either has none: nothing deserved or guaranteed is nothing,
    and a limit that comes waits for what is above it, while one that goes must not stand above a lower one."""
    middle = deepcopy(before)
    for part in AMOUNTS:
        old, new = volcano_part(before, part), volcano_part(after, part)
        lesser: dict[str, Any] = {}
        for resource in {**old, **new}:
            was, now = amount(old.get(resource)), amount(new.get(resource))
            if was is not None and now is not None:
                lesser[resource] = new[resource] if now < was else old[resource]
        if lesser != dict(old):
            if part == "guarantee":
                middle["guarantee"] = {**(before.get("guarantee") or {}), "resource": lesser}
            else:
                middle[part] = lesser
    return middle
