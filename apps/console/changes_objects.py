"""What a change request does to each object. Input: its steps as planned (or only its edits, before it was checked);
output: per object what is there and what is asked for, field by field and as a diff. No queries.

Invariants: values read as they stand in specs; an object that is written twice is told of once, from its first state
to its last; what takes another request back is told by its own steps and never by the edits that it takes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from apps.changes.models import ChangeRequest, ChangeStep
from apps.changes.patching import edited_fields, yaml_diff
from apps.changes.words import field_name, field_value, step_words
from apps.console.edit_words import describe, edited_name
from apps.console.links import address
from apps.core.formats import labelled

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class FieldLine:
    """One field in words, as it is and as it is asked for."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class DiffLine:
    """`sign`: "+", "-", " ", or "…" where lines are left out."""

    sign: str
    text: str


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """`commands`: what is done beside patching ("Close red-vq"). `url`: of the queue's page. `done`: all of it was
    written."""

    kind: str
    name: str
    url: str
    lines: list[FieldLine]
    commands: list[str]
    diff: list[DiffLine]
    done: bool


def object_changes(steps: Sequence[ChangeStep], cluster_slug: str) -> list[ObjectChange]:
    """In the order of their first step."""
    found: dict[Key, list[ChangeStep]] = {}
    for step in steps:
        found.setdefault((step.kind, step.namespace, step.name), []).append(step)
    return [_object(key, own, cluster_slug) for key, own in found.items()]


def _object(key: Key, steps: Sequence[ChangeStep], cluster_slug: str) -> ObjectChange:
    kind, namespace, name = key
    patches = [step for step in steps if step.method == "patch"]
    before, after = (patches[0].before, patches[-1].after) if patches else ({}, {})
    return ObjectChange(
        kind=kind,
        name=f"{namespace}/{name}" if namespace else name,
        url=address("queue", cluster_slug, kind, name, namespace=namespace),
        lines=[
            FieldLine(
                field_name(one.path), field_value(one.path, one.before), field_value(one.path, one.after)
            )
            for one in edited_fields(before, after)
        ],
        commands=[step_words(step) for step in steps if step.method != "patch"],
        diff=_diff_lines(before, after),
        done=all(step.done_at is not None for step in steps),
    )


def _diff_lines(before: dict[str, Any], after: dict[str, Any]) -> list[DiffLine]:
    """Without the names of the two sides; the numbers of lines in the head of a hunk help nobody who reads."""
    lines = yaml_diff(before, after).splitlines()[2:]
    found = [DiffLine("…", "") if line[:2] == "@@" else DiffLine(line[:1], line[1:]) for line in lines]
    return found[1:] if lines and lines[0].startswith("@@ -1,") else found


def lines_of(request: ChangeRequest, steps: Sequence[ChangeStep]) -> list[str]:
    """What it changes, a line per field: "h100 nvidia.com/gpu: nominal quota 8 → 12", with the object's name where there
    are several. Before the first check: what is asked for; [] where only a check will know."""
    if not steps:
        if request.origin != ChangeRequest.Origin.ASKED:
            return []
        return [_asked(request, edit) for edit in request.edits if isinstance(edit, dict)]
    objects = object_changes(steps, request.cluster.slug)
    found = []
    for one in objects:
        own = [
            _("%(field)s %(before)s → %(after)s")
            % {"field": line.name, "before": line.before, "after": line.after}
            for line in one.lines
        ]
        own += one.commands
        found += [labelled(one.name, text) if len(objects) > 1 else text for text in own]
    return found


def _asked(request: ChangeRequest, edit: dict[str, object]) -> str:
    text = describe(edit, {})
    return text if len(request.edits) > 1 else text.removeprefix(f"{edited_name(edit)}: ")
