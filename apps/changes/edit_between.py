"""Two specs as an edit. Input: a live object and what it is to be; output: an edit that leads there, so that a change
which is not asked for in the edit language can be tried by a what-if. Pure.

Invariants: laid on the object, the edit gives every amount and policy of the goal by value, and the same resource groups
but for their order; None where there is nothing to edit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from apps.changes.edits import AMOUNTS, Edit, LocalQueueEdit, NodeEdit, QuotaEdit, Removal, VolcanoEdit
from apps.changes.laying import POLICY_PATHS, parent_field, usual_policy
from apps.changes.planning import Goal, volcano_part
from apps.changes.specs import CELL_FIELDS, Spec, amount, cells_of

_STATES = {"OpenQueue": "Open", "CloseQueue": "Closed", "": None}


def edit_of(goal: Goal) -> Edit | None:
    if not goal.changes:
        return None
    seen, field = goal.seen, goal.fields[-1] if goal.fields else "edits"
    if seen.kind == "LocalQueue":
        return LocalQueueEdit(field, seen.namespace, seen.name, goal.after.get("stopPolicy") or "None")
    if seen.kind == "VolcanoQueue":
        return _volcano(field, goal)
    removals = _removals(field, seen.spec, goal.after)
    kind = cast('Literal["ClusterQueue", "Cohort"]', seen.kind)
    return NodeEdit(
        field, kind, seen.name, _values(goal), _quotas(field, seen.spec, goal.after, removals), removals
    )


# ---- Kueue ----------------------------------------------------------------------------------------------------------


def _values(goal: Goal) -> dict[str, Any]:
    old, new = goal.seen.spec, goal.after
    found: dict[str, Any] = {}
    name = parent_field(goal.seen.kind, {**old, **new}, goal.seen.api_version)
    if old.get(name) != new.get(name):
        found["parent"] = new.get(name) or None
    before, after = (_dig(spec, ("fairSharing", "weight")) for spec in (old, new))
    if before != after:
        found["fair_weight"] = amount("1" if after is None else after)
    if goal.seen.kind == "ClusterQueue":
        for policy, path in POLICY_PATHS.items():
            if _dig(old, path) != _dig(new, path):
                found[policy] = usual_policy(policy, _dig(new, path))
    return found


def _dig(spec: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    here: Any = spec
    for part in path:
        here = here.get(part) if isinstance(here, Mapping) else None
    return here


def _removals(field: str, old: Spec, new: Spec) -> tuple[Removal, ...]:
    """Resources and flavors that are not to be there, and flavors that come to stand beside other resources."""
    before, after = _beside(old), _beside(new)
    gone = {resource for covered in before.values() for resource in covered}
    gone -= {resource for covered in after.values() for resource in covered}
    flavors = [
        flavor
        for flavor, covered in before.items()
        if flavor not in after or (covered - gone and not covered - gone <= after[flavor])
    ]
    names = [{"resource": resource} for resource in sorted(gone)] + [{"flavor": flavor} for flavor in flavors]
    # Whatever has lost all its resources is gone with them, and cannot be taken away once more.
    names = [one for one in names if "resource" in one or before[one["flavor"]] - gone]
    return tuple(Removal(f"{field}.set", **one) for one in names)


def _beside(spec: Spec) -> dict[str, set[str]]:
    """Per flavor the resources that its group covers."""
    found: dict[str, set[str]] = {}
    for flavor, resource, _cell in cells_of(spec):
        found.setdefault(flavor, set()).add(resource)
    return found


def _quotas(field: str, old: Spec, new: Spec, removals: tuple[Removal, ...]) -> tuple[QuotaEdit, ...]:
    gone = {removal.flavor for removal in removals}
    had = {(flavor, resource): cell for flavor, resource, cell in cells_of(old) if flavor not in gone}
    found = []
    for flavor, resource, cell in cells_of(new):
        present = had.get((flavor, resource))
        cells, texts = {}, {}
        for name, wire in CELL_FIELDS.items():
            wanted, there = cell.get(wire), (present or {}).get(wire)
            if (present is None and name == "nominal") or amount(wanted) != amount(there):
                cells[name] = amount(wanted if wanted is not None or name != "nominal" else "0")
                if wanted is not None:
                    texts[name] = str(wanted)
        if cells:
            found.append(QuotaEdit(f"{field}.set", flavor, resource, cells, texts))
    return tuple(found)


# ---- Volcano --------------------------------------------------------------------------------------------------------


def _volcano(field: str, goal: Goal) -> VolcanoEdit:
    old, new = goal.seen.spec, goal.after
    amounts: dict[str, dict[str, str | None]] = {}
    for part in AMOUNTS:
        before, after = volcano_part(old, part), volcano_part(new, part)
        for resource in {**before, **after}:
            if amount(before.get(resource)) != amount(after.get(resource)):
                text = after.get(resource)
                amounts.setdefault(part, {})[resource] = None if text is None else str(text)
    return VolcanoEdit(
        field=field,
        name=goal.seen.name,
        weight=_number(old, new, "weight", 1),
        priority=_number(old, new, "priority", 0),
        state=_STATES[goal.command],
        amounts=amounts,
    )


def _number(old: Spec, new: Spec, name: str, usual: int) -> int | None:
    wanted = new.get(name, usual)
    return None if old.get(name, usual) == wanted else int(wanted)
