"""What was done, taken back. Input: the steps of a change that were done, the objects as they are now; output: what each
of them is to be again, or the fields that are in the way. Pure.

Invariants
- Only steps that were done count: of a change that stopped half way, the half.
- Everything that was edited is put back as it was, texts of amounts and order of flavors too; everything else stays as
  it is now.
- A field that is not what the change made of it belongs to somebody else: nothing is taken back, and each such field is
  named. One that is already as it was before the change needs nothing and is in nobody's way.
- Findings name the field of the edit that the change was asked with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from apps.changes.checks_model import Finding
from apps.changes.edits import Edit, ObjectKey, key_of
from apps.changes.patching import FieldChange, changed_since, reversed_spec
from apps.changes.places import field_of, place_of
from apps.changes.planning import Goal
from apps.changes.specs import ObjectSeen, Spec, flat, same, value_text

STATE = "/status/state"
_REVERSE = {"OpenQueue": "CloseQueue", "CloseQueue": "OpenQueue"}
MADE = {"OpenQueue": ("Open",), "CloseQueue": ("Closed", "Closing")}
"""The states that a command leads to, the settled one first."""


@dataclass(frozen=True, slots=True)
class DoneStep:
    """`command`: "OpenQueue" or "CloseQueue" of Volcano; "" where the spec was written, from `before` to `after`."""

    key: ObjectKey
    before: Spec
    after: Spec
    command: str = ""


@dataclass(frozen=True, slots=True)
class WayBack:
    """`refusals`: why there is none; then `goals` says nothing."""

    goals: Mapping[ObjectKey, Goal]
    refusals: tuple[Finding, ...] = ()


@dataclass(slots=True)
class _Done:
    """All that was done to one object."""

    before: Spec | None = None
    after: Spec | None = None
    command: str = ""


def way_back(
    objects: Mapping[ObjectKey, ObjectSeen], steps: Iterable[DoneStep], edits: Sequence[Edit]
) -> WayBack:
    """`steps`: those that were done, in their order; `edits`: those of the change, for the names of fields."""
    goals: dict[ObjectKey, Goal] = {}
    refusals: list[Finding] = []
    for key, done in _by_object(steps).items():
        own = [edit for edit in edits if key_of(edit) == key]
        seen = objects.get(key)
        if seen is None:
            field = own[-1].field if own else "edits"
            refusals.append(Finding("unknown", f"{field}.name", {"part": key[2]}))
            continue
        for conflict in _conflicts(seen, done):
            refusals.append(_changed(key, own, conflict))
        goals[key] = _goal(seen, done, own)
    return WayBack({}, tuple(refusals)) if refusals else WayBack(goals)


def _by_object(steps: Iterable[DoneStep]) -> dict[ObjectKey, _Done]:
    found: dict[ObjectKey, _Done] = {}
    for step in steps:
        done = found.setdefault(step.key, _Done())
        if step.command:
            done.command = step.command
        else:
            done.before = step.before if done.before is None else done.before
            done.after = step.after
    return found


def _conflicts(seen: ObjectSeen, done: _Done) -> Iterator[FieldChange]:
    if done.before is not None and done.after is not None:
        old = flat(done.before)
        for change in changed_since(done.before, done.after, seen.spec):
            if not same(change.path, old.get(change.path), change.after):
                yield change
    if done.command:
        present, known = seen.status_state or "Open", {*MADE["OpenQueue"], *MADE["CloseQueue"]}
        if present not in known:
            yield FieldChange(STATE, MADE[done.command][0], present)


def _changed(key: ObjectKey, own: Sequence[Edit], change: FieldChange) -> Finding:
    params = {
        "name": key[2],
        "path": change.path,
        "was": value_text(change.path, change.before),
        "now": value_text(change.path, change.after),
    }
    return Finding("changed_since", field_of(own, place_of(change.path)), params)


def _goal(seen: ObjectSeen, done: _Done, own: Sequence[Edit]) -> Goal:
    after = seen.spec
    if done.before is not None and done.after is not None:
        after = reversed_spec(done.before, done.after, seen.spec)
    command = ""
    if done.command and (seen.status_state or "Open") in MADE[done.command]:
        command = _REVERSE[done.command]
    return Goal(seen, after, command, tuple(edit.field for edit in own))
