"""An edit laid on a live object, and taken back. Input: `ObjectSeen` and an edit; output: the spec after it with the
smallest JSON patch (RFC 6902) that makes it, the exact undo, and which fields differ. Pure.

Invariants
- Patches touch /spec only, its lowest fields; the whole of /spec/resourceGroups only where flavors or resources come,
  go or move.
- A quantity whose value stays keeps its text; one that changes is written as it was asked for.
- An undo puts back what was edited and nothing else; where an edited field is no longer what the edit made of it,
  there is no undo but `Conflicts`.
- A queue that leaves its cohort loses its limits in the same patch, since Kueue takes neither alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

import yaml

from apps.changes.edits import Edit, LocalQueueEdit, NodeEdit
from apps.changes.laying import lay_kueue, lay_local_queue, lay_volcano
from apps.changes.specs import (
    GROUPS,
    FieldManager,
    ObjectSeen,
    Spec,
    cell_path,
    cells_of,
    escaped,
    flat,
    object_seen,
    same,
    shape_of,
    unescaped,
)

__all__ = [
    "Conflicts",
    "FieldChange",
    "FieldManager",
    "Laid",
    "ObjectSeen",
    "Operation",
    "edited_fields",
    "lay",
    "object_seen",
    "operations_between",
    "reverse",
    "yaml_diff",
]

Operation = dict[str, Any]
_COMMANDS = {"Open": "OpenQueue", "Closed": "CloseQueue"}


@dataclass(frozen=True, slots=True)
class FieldChange:
    """`path`: flat (see `specs`). None: absent."""

    path: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Laid:
    """`operations`: empty when the object is so already. `command`: "OpenQueue" or "CloseQueue", or ""."""

    after_spec: Spec
    operations: list[Operation]
    command: str = ""


class Conflicts(Exception):
    """Edited fields that somebody else has changed since: `before` is what the edit made, `after` what is there."""

    def __init__(self, fields: Iterable[FieldChange]) -> None:
        self.fields = tuple(fields)
        super().__init__(", ".join(field.path for field in self.fields))


def lay(seen: ObjectSeen, edit: Edit) -> Laid:
    """Raises ChangeError for what cannot be laid on this object at all."""
    after = deepcopy(seen.spec)
    command = ""
    if isinstance(edit, NodeEdit):
        lay_kueue(after, edit, seen.api_version)
    elif isinstance(edit, LocalQueueEdit):
        lay_local_queue(after, edit)
    else:
        lay_volcano(after, edit)
        if edit.state and edit.state != (seen.status_state or "Open"):
            command = _COMMANDS[edit.state]
    return Laid(after, operations_between(seen.spec, after, has_spec=seen.has_spec), command)


# ---- patches --------------------------------------------------------------------------------------------------------


def operations_between(before: Spec, after: Spec, *, has_spec: bool = True) -> list[Operation]:
    if not has_spec:
        return [{"op": "add", "path": "/spec", "value": after}] if after else []
    found: list[Operation] = []
    _between(before, after, "/spec", found)
    return found


def _between(before: Any, after: Any, path: str, found: list[Operation]) -> None:
    if _alike(before, after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for name in before:
            if name not in after:
                found.append({"op": "remove", "path": f"{path}/{escaped(name)}"})
        for name, value in after.items():
            inner = f"{path}/{escaped(name)}"
            if name not in before:
                found.append({"op": "add", "path": inner, "value": value})
            elif inner != GROUPS or _same_shape(before, after):
                _between(before[name], value, inner, found)
            elif not _alike(before[name], value):
                found.append({"op": "replace", "path": inner, "value": value})
    elif path.startswith(GROUPS) and isinstance(before, list) and isinstance(after, list):
        for place, (one, other) in enumerate(zip(before, after, strict=True)):
            _between(one, other, f"{path}/{place}", found)
    else:
        found.append({"op": "replace", "path": path, "value": after})


def _alike(one: Any, other: Any) -> bool:
    """Equal JSON: true is not 1, 1 is not 1.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    return type(one) is type(other) and one == other


def _same_shape(before: Spec, after: Spec) -> bool:
    """Same flavors and resources at the same places, so that places can be named one by one."""
    return shape_of(before) == shape_of(after) and all(
        isinstance(spec.get("resourceGroups"), list) for spec in (before, after)
    )


# ---- differences ----------------------------------------------------------------------------------------------------


def edited_fields(before: Spec, after: Spec) -> tuple[FieldChange, ...]:
    """What differs, in the order of the specs; amounts by value."""
    old, new = flat(before), flat(after)
    paths = [*old, *(path for path in new if path not in old)]
    return tuple(
        FieldChange(path, old.get(path), new.get(path))
        for path in paths
        if not same(path, old.get(path), new.get(path))
    )


def changed_since(before: Spec, after: Spec, present: Spec) -> tuple[FieldChange, ...]:
    """Of the fields that were edited, those that are not what the edit made of them: (path, `after`, present)."""
    now = flat(present)
    return tuple(
        FieldChange(change.path, change.after, now.get(change.path))
        for change in edited_fields(before, after)
        if not same(change.path, change.after, now.get(change.path))
    )


def reverse(before_spec: Spec, after_spec: Spec, present_spec: Spec) -> list[Operation]:
    """The undo of before → after on what is there now. Raises Conflicts."""
    if conflicts := changed_since(before_spec, after_spec, present_spec):
        raise Conflicts(conflicts)
    return operations_between(present_spec, reversed_spec(before_spec, after_spec, present_spec))


def reversed_spec(before: Spec, after: Spec, present: Spec) -> Spec:
    """`present` with every edited field as it was before."""
    target = deepcopy(present)
    changes = edited_fields(before, after)
    if any(change.path == GROUPS for change in changes):
        _put_groups_back(target, before, {change.path for change in changes})
    for change in changes:
        parts = [unescaped(part) for part in change.path.split("/")[2:]]
        if parts[0] == "resourceGroups":
            if len(parts) == 4:
                _put_cell_back(target, before, parts)
        else:
            _put_back(target, before, parts)
    return target


def _put_groups_back(target: Spec, before: Spec, edited: Iterable[str]) -> None:
    """The groups of before, with what has been changed since in cells that were not edited."""
    chosen, now = set(edited), {(f, r): cell for f, r, cell in cells_of(target)}
    if "resourceGroups" not in before:
        target.pop("resourceGroups", None)
        return
    groups = deepcopy(before["resourceGroups"])
    for flavor, resource, cell in cells_of({"resourceGroups": groups}):
        present = now.get((flavor, resource))
        if present is None:
            continue
        for field in {*cell, *present} - {"name"}:
            path = cell_path(flavor, resource, field)
            # One value in other words is no change: whoever takes a resource away and gives it again rewrites it.
            if path not in chosen and not same(path, cell.get(field), present.get(field)):
                if field in present:
                    cell[field] = present[field]
                else:
                    cell.pop(field, None)
    target["resourceGroups"] = groups


def _put_cell_back(target: Spec, before: Spec, parts: list[str]) -> None:
    _groups, flavor, resource, field = parts
    old = next((cell for f, r, cell in cells_of(before) if (f, r) == (flavor, resource)), {})
    for f, r, cell in cells_of(target):
        if (f, r) == (flavor, resource):
            if field in old:
                cell[field] = old[field]
            else:
                cell.pop(field, None)


def _put_back(target: Spec, before: Spec, parts: list[str]) -> None:
    """One field as it was; maps that were not there before and hold nothing any more go with it."""
    path: list[tuple[Spec, Any]] = []
    here: Spec = target
    old: Any = before
    for part in parts[:-1]:
        path.append((here, old))
        here = here.setdefault(part, {})
        old = old.get(part) if isinstance(old, dict) else None
    if isinstance(old, dict) and parts[-1] in old:
        here[parts[-1]] = deepcopy(old[parts[-1]])
    else:
        here.pop(parts[-1], None)
    for (above, was), part in zip(reversed(path), reversed(parts[:-1]), strict=True):
        if above.get(part) == {} and not (isinstance(was, dict) and part in was):
            del above[part]


def yaml_diff(before: Spec, after: Spec, *, context: int = 3) -> str:
    """A unified diff of both as YAML; "" when they are equal."""
    old, new = (_yaml(spec).splitlines(keepends=True) for spec in (before, after))
    return "".join(unified_diff(old, new, fromfile="before", tofile="after", n=context))


def _yaml(spec: Mapping[str, Any]) -> str:
    return str(yaml.safe_dump({"spec": dict(spec)}, sort_keys=False, allow_unicode=True, width=1000))
