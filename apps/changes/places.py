"""Which field of an edit brings something about. Input: the edits of one object and a place in it (see `rules.Place`),
or a flat path of its spec; output: the field's path ("edits.0.set.quotas.1.nominal"), the edit's "….set" where no
single field does. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from apps.changes.edits import AMOUNTS, Edit, LocalQueueEdit, NodeEdit, VolcanoEdit
from apps.changes.laying import POLICY_PATHS
from apps.changes.rules import Place
from apps.changes.specs import CELL_FIELDS, GROUPS, unescaped
from apps.quotas.what_if_change import POLICY_PLACES

_GROUPED = {name: places[0] for name, places in POLICY_PLACES.items() if places}

_CELLS = {field: name for name, field in CELL_FIELDS.items()}
_VALUES: dict[tuple[str, ...], str] = {
    **{path: name for name, path in POLICY_PATHS.items()},
    **{(field,): "parent" for field in ("cohort", "cohortName", "parent", "parentName")},
    ("fairSharing", "weight"): "fair_weight",
    ("weight",): "weight",
    ("priority",): "priority",
    ("state",): "state",
}


def place_of(path: str) -> Place:
    """The place of a flat path; () where it is of no single field."""
    parts = tuple(unescaped(part) for part in path.split("/")[2:])
    if path.startswith(GROUPS + "/") and len(parts) == 4:
        return ("cell", parts[1], parts[2], _CELLS.get(parts[3], "nominal"))
    if len(parts) > 1 and parts[0] in AMOUNTS:
        return ("amount", parts[0], parts[-1])
    return ("value", _VALUES[parts]) if parts in _VALUES else ()


def field_of(edits: Sequence[Edit], place: Place) -> str:
    """The last edit that names the place wins: it is laid on last."""
    for edit in reversed(edits):
        for found in _matches(edit, place):
            return found
    return f"{edits[-1].field}.set" if edits else "edits"


def _matches(edit: Edit, place: Place) -> Iterator[str]:
    if not place:
        return
    what, *names = place
    if isinstance(edit, NodeEdit):
        yield from _of_node(edit, what, names)
    elif isinstance(edit, VolcanoEdit):
        yield from _of_volcano(edit, what, names)
    elif isinstance(edit, LocalQueueEdit) and what == "value" and names == ["stop_policy"]:
        yield f"{edit.field}.set.stop_policy"


def _of_node(edit: NodeEdit, what: str, names: list[str]) -> Iterator[str]:
    inner = f"{edit.field}.set"
    if what == "cell":
        flavor, resource, name = names
        for quota in edit.quotas:
            if (quota.flavor, quota.resource) == (flavor, resource):
                yield f"{quota.field}.{name if name in quota.cells else next(iter(quota.cells), 'nominal')}"
        if "parent" in edit.values and name != "nominal":
            yield f"{inner}.{parent_name(edit)}"
    elif what in ("flavor", "resource"):
        for removal in edit.removals:
            if getattr(removal, what) == names[0]:
                yield removal.field
        for quota in edit.quotas:
            if getattr(quota, what) == names[0]:
                yield f"{quota.field}.{what}"
    elif what == "value" and names[0] == "parent" and "parent" in edit.values:
        yield f"{inner}.{parent_name(edit)}"
    elif what == "value" and names[0] in edit.values:
        group = _GROUPED.get(names[0])
        yield f"{inner}.{group}.{names[0]}" if group else f"{inner}.{names[0]}"
    elif what == "value" and (group := _GROUPED.get(names[0])):
        for other in edit.values:
            if _GROUPED.get(other) == group:
                yield f"{inner}.{group}.{other}"


def parent_name(edit: NodeEdit) -> str:
    return "cohort" if edit.kind == "ClusterQueue" else "parent"


def _of_volcano(edit: VolcanoEdit, what: str, names: list[str]) -> Iterator[str]:
    inner = f"{edit.field}.set"
    if what == "value" and getattr(edit, names[0], None) is not None:
        yield f"{inner}.{names[0]}"
    elif what == "amount":
        part, resource = names
        if resource in edit.amounts.get(part, {}):
            yield f"{inner}.{part}.{resource}"
        elif part in edit.amounts:
            yield f"{inner}.{part}"
        for other, amounts in edit.amounts.items():
            if resource in amounts:
                yield f"{inner}.{other}.{resource}"
