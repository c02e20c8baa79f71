"""The form of a change request. Input: an object as last observed and the edits so far; output: fields to fill in, each
with what it is now and what is asked for; and back from posted fields to edits. No queries.

ClusterQueues and Cohorts are read and written as on the what-if page (`apps.quotas.what_if_form`); LocalQueues and
Volcano's queues here. Only what differs from the present state becomes part of an edit, and an edit of an object takes
the place of an earlier one. What was typed stays as it was typed, also when it is no amount."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from apps.changes.edits import AMOUNTS, STATES
from apps.quotas.what_if_change import CHOICES
from apps.quotas.what_if_form import (
    Json,
    Target,
    cell_rows,
    edited_values,
    flavor_boxes,
    policy_fields,
    present_values,
    resource_boxes,
    same_amount,
    with_edit,
)
from apps.quotas.what_if_places import node_input

Group = Literal["quota", "place", "policy", "amounts", "flavors"]
NUMBERS = ("weight", "priority")


@dataclass(frozen=True, slots=True)
class Place:
    """An object of a cluster, by which people name it: "ClusterQueue/red-cq", "LocalQueue/red-ns/red-lq"."""

    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        return "/".join(part for part in (self.kind, self.namespace, self.name) if part)

    @property
    def label(self) -> str:
        return "/".join(part for part in (self.namespace, self.name) if part)

    @classmethod
    def of(cls, edit: Mapping[str, Any]) -> Place:
        kind, namespace, name = (str(edit.get(part) or "") for part in ("kind", "namespace", "name"))
        return cls(kind, namespace, name)


@dataclass(frozen=True, slots=True)
class Entry:
    """One input. `what`: the field's name in the edit language; `flavor`, `resource` where it has them. `options`: what
    may be chosen, () for free text. `box`: it is ticked, its value is "1" or ""."""

    name: str
    what: str
    group: Group
    present: str
    value: str
    flavor: str = ""
    resource: str = ""
    options: tuple[str, ...] = ()
    box: bool = False

    @property
    def edited(self) -> bool:
        return self.value != self.present


@dataclass(frozen=True, slots=True)
class Edited:
    """An object that can be edited. `node`: of a ClusterQueue or Cohort; `spec` and `state`: of the others, normalised
    as the parsers do."""

    place: Place
    node: Target | None = None
    spec: Mapping[str, Any] = field(default_factory=dict)
    state: str = ""

    @property
    def takes_flavors(self) -> bool:
        return self.node is not None


def entries(target: Edited, edits: Sequence[Json]) -> list[Entry]:
    """Every field that can be asked for, in the order of the form."""
    if target.node is not None:
        return _of_node(target.node, edits)
    wanted = _wanted(target.place, edits)
    if target.place.kind == "LocalQueue":
        now = str(target.spec.get("stop_policy") or "None")
        value = str(wanted.get("stop_policy", now))
        return [Entry("stop_policy", "stop_policy", "policy", now, value, options=CHOICES["stop_policy"])]
    return _of_volcano(target, wanted)


def _of_node(target: Target, edits: Sequence[Json]) -> list[Entry]:
    values, present = edited_values(target, edits), present_values(target)
    found = [
        Entry(
            cell.name, cell.name.split(":", 1)[0], "quota", cell.present, cell.value, row.flavor, row.resource
        )
        for row in cell_rows(target, edits)
        for cell in row.cells
    ]
    for name in ("parent", "fair_weight"):
        what = target.parent_field if name == "parent" else name
        found.append(Entry(name, what, "place", present[name], values[name]))
    for one in policy_fields(target, values):
        found.append(Entry(one.name, one.name, "policy", one.present, one.value, options=one.options))
        if one.name == "borrow_within_cohort":
            limit = "max_priority_threshold"
            found.append(Entry(limit, limit, "policy", present[limit], values[limit]))
    found += [
        Entry(name, "remove", "flavors", "", "1" if ticked else "", flavor, box=True)
        for name, flavor, ticked in flavor_boxes(target, edits)
    ]
    found += [
        Entry(name, "remove", "flavors", "", "1" if ticked else "", resource=resource, box=True)
        for name, resource, ticked in resource_boxes(target, edits)
    ]
    return found


def _of_volcano(target: Edited, wanted: Mapping[str, Any]) -> list[Entry]:
    found = [
        Entry(
            name, name, "place", _text(target.spec.get(name)), _text(wanted.get(name, target.spec.get(name)))
        )
        for name in NUMBERS
    ]
    now = target.state if target.state in STATES else "Closed" if target.state == "Closing" else "Open"
    found.append(Entry("state", "state", "place", now, str(wanted.get("state", now)), options=STATES))
    for resource in amount_resources(target, wanted):
        for part in AMOUNTS:
            present = _text((target.spec.get(part) or {}).get(resource))
            asked = wanted.get(part)
            value = _text(asked[resource]) if isinstance(asked, dict) and resource in asked else present
            found.append(Entry(f"{part}:{resource}", part, "amounts", present, value, resource=resource))
    return found


def amount_resources(target: Edited, wanted: Mapping[str, Any]) -> list[str]:
    """The resources that any of the amounts of a Volcano queue names, now or as asked for."""
    maps = [source.get(part) for source in (target.spec, wanted) for part in AMOUNTS]
    return list(dict.fromkeys(name for one in maps if isinstance(one, dict) for name in one))


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _wanted(place: Place, edits: Sequence[Json]) -> Mapping[str, Any]:
    for edit in edits:
        if Place.of(edit) == place:
            found = edit.get("set")
            return found if isinstance(found, dict) else {}
    return {}


# ---- reading --------------------------------------------------------------------------------------------------------


def with_fields(edits: Sequence[Json], target: Edited, data: Mapping[str, str]) -> list[Json]:
    """The edits with what the posted fields say of this object; nothing of it when they are as it is now."""
    if target.node is not None:
        return with_edit(edits, target.node, data)
    others = [edit for edit in edits if Place.of(edit) != target.place]
    local = target.place.kind == "LocalQueue"
    wanted = _read_local(target, data) if local else _read_volcano(target, data)
    if not wanted:
        return others
    named = {"namespace": target.place.namespace} if local else {}
    return [*others, {"kind": target.place.kind, **named, "name": target.place.name, "set": wanted}]


def _read_local(target: Edited, data: Mapping[str, str]) -> Json:
    (entry,) = entries(target, ())
    value = data.get("stop_policy", entry.present)
    return {} if value == entry.present else {"stop_policy": value}


def _read_volcano(target: Edited, data: Mapping[str, str]) -> Json:
    wanted: Json = {}
    present = {entry.name: entry.present for entry in entries(target, ())}
    for name in (*NUMBERS, "state"):
        value = data.get(name, present[name]).strip()
        if value and not same_amount(value, present[name]):
            wanted[name] = value
    for name in data:
        part, colon, resource = name.partition(":")
        if colon and part in AMOUNTS:
            value = data[name].strip()
            if not same_amount(value, present.get(name, "")):
                wanted.setdefault(part, {})[resource] = value or None
    if resource := data.get("new_resource", "").strip():
        for part in AMOUNTS:
            if value := data.get(f"new_{part}", "").strip():
                wanted.setdefault(part, {})[resource] = value
    return wanted


def merged(edits: Sequence[Json]) -> list[Json]:
    """The same with one edit per object, as the form holds them: what is said later takes the place of what was said
    before."""
    found: dict[Place, Json] = {}
    for edit in edits:
        place = Place.of(edit)
        before = found.get(place)
        sets = (before.get("set"), edit.get("set")) if before is not None else ()
        if len(sets) == 2 and all(isinstance(one, dict) for one in sets):
            edit = {**edit, "set": _joined(*sets)}
        found[place] = edit
    return list(found.values())


def _joined(before: Any, after: Any) -> Any:
    if isinstance(before, dict) and isinstance(after, dict):
        return {**before, **{name: _joined(before.get(name), value) for name, value in after.items()}}
    if isinstance(before, list) and isinstance(after, list):
        return _joined_lists(before, after)
    return after


def _joined_lists(before: list[Any], after: list[Any]) -> list[Any]:
    """Quotas by flavor and resource; what is taken away adds up."""
    found: dict[Any, Any] = {}
    for at, item in enumerate([*before, *after]):
        cell = (item.get("flavor"), item.get("resource")) if isinstance(item, dict) else at
        found[cell] = _joined(found.get(cell), item)
    return list(found.values())


# ---- faults ---------------------------------------------------------------------------------------------------------


def input_of(path: str, edits: Sequence[Mapping[str, Any]], target: Edited | None) -> tuple[str, int | None]:
    """(name of the input that a fault belongs to, number of the edit): "" when it is not on the form, None for the whole
    request. `path`: "edits.0.set.quotas.1.nominal"."""
    parts = path.split(".")
    if len(parts) < 2 or not parts[1].isdecimal() or int(parts[1]) >= len(edits):
        return "", None
    at = int(parts[1])
    if target is None or Place.of(edits[at]) != target.place:
        return "", at
    if target.node is not None:
        return node_input(parts[2:], dict(edits[at])), at
    if parts[3:4] and parts[3] in AMOUNTS:
        return f"{parts[3]}:{'.'.join(parts[4:])}" if parts[4:] else "", at
    names = {entry.name for entry in entries(target, ())}
    return (parts[-1] if parts[-1] in names else ""), at
