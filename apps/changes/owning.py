"""Which change answers for a field of a live object, and whether the field is still as that change made it. Input: the
steps that were written to an object; output: per step the fields that it answers for, and how they differ from what is
there. Pure.

Invariants
- The last step that edited a field answers for it: what another change of the portal made of it since is no drift.
- A step that was sent and is not known to be done answers too, so that its effect is nobody else's drift.
- Amounts are compared by value, since Kueue writes them anew in its own words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.changes.patching import FieldChange, edited_fields
from apps.changes.specs import Spec, flat, same
from apps.changes.undoing import MADE, STATE

_TODAY = {"/spec/cohort": "/spec/cohortName", "/spec/parent": "/spec/parentName"}
GONE = FieldChange("", None, None)
"""The object itself is not there any more."""


@dataclass(frozen=True, slots=True)
class Written:
    """One step that was sent to an object. `turn`: when, and which of its request; `command`: Volcano's, or ""."""

    pk: int
    turn: tuple[datetime, int, int]
    before: Spec
    after: Spec
    command: str = ""


def owned_fields(steps: Iterable[Written], kind: str) -> dict[int, dict[str, Any]]:
    """Per step of one object (`pk`) what it made of the fields that it answers for; {} where later ones took them all.
    None: it took the field away."""
    owner: dict[str, tuple[int, Any]] = {}
    found: dict[int, dict[str, Any]] = {}
    for step in sorted(steps, key=lambda one: one.turn):
        found[step.pk] = {}
        for path, value in _made(step, kind).items():
            owner[path] = step.pk, value
    for path, (pk, value) in owner.items():
        found[pk][path] = value
    return found


def _made(step: Written, kind: str) -> dict[str, Any]:
    if step.command:
        return {STATE: MADE[step.command][0]}
    return {_today(change.path, kind): change.after for change in edited_fields(step.before, step.after)}


def _today(path: str, kind: str) -> str:
    """The path in the words of the newest version that the cluster may have come to serve since."""
    return _TODAY.get(path, path) if kind in ("ClusterQueue", "Cohort") else path


def differences(
    fields: Mapping[str, Any], kind: str, raw: Mapping[str, Any] | None
) -> tuple[FieldChange, ...]:
    """Fields that are not as they were made: (path, as made, as it is). `raw`: the object, None where it is gone."""
    if raw is None:
        return (GONE,) if fields else ()
    now = {_today(path, kind): value for path, value in flat(raw.get("spec") or {}).items()}
    state = str((raw.get("status") or {}).get("state") or "Open")
    found = []
    for path, made in fields.items():
        if path == STATE:
            if not any(made == states[0] and state in states for states in MADE.values()):
                found.append(FieldChange(path, made, state))
        elif not same(path, made, now.get(path)):
            found.append(FieldChange(path, made, now.get(path)))
    return tuple(found)
