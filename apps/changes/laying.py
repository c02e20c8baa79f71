"""The edit language written into specs, per kind. Input: a spec that may be changed in place, an edit; output: the spec
changed, or `ChangeError`. Pure. Used by `patching.lay`, which copies the spec first.

The names of fields are those of the API version that was served (`cohort` of v1beta1, `cohortName` of v1beta2)."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from apps.changes.edits import ChangeError, ChangeFault, LocalQueueEdit, NodeEdit, QuotaEdit, VolcanoEdit
from apps.changes.specs import CELL_FIELDS, Spec, amount, cells_of
from apps.core.quantity import plain

POLICY_PATHS: dict[str, tuple[str, ...]] = {
    "stop_policy": ("stopPolicy",),
    "strategy": ("queueingStrategy",),
    "within_cluster_queue": ("preemption", "withinClusterQueue"),
    "reclaim_within_cohort": ("preemption", "reclaimWithinCohort"),
    "borrow_within_cohort": ("preemption", "borrowWithinCohort", "policy"),
    "max_priority_threshold": ("preemption", "borrowWithinCohort", "maxPriorityThreshold"),
    "when_can_borrow": ("flavorFungibility", "whenCanBorrow"),
    "when_can_preempt": ("flavorFungibility", "whenCanPreempt"),
    "preference": ("flavorFungibility", "preference"),
}
_DEFAULTS = {
    "stop_policy": "None",
    "strategy": "BestEffortFIFO",
    "within_cluster_queue": "Never",
    "reclaim_within_cohort": "Never",
    "borrow_within_cohort": "Never",
    "when_can_borrow": "MayStopSearch",
    "when_can_preempt": "TryNextFlavor",
}
"""What an absent field means: asking for it changes nothing."""
_LIMITS = ("borrowing_limit", "lending_limit")
_OLD_WORDS = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}


def parent_field(kind: str, spec: Spec, api_version: str) -> str:
    old, new = ("cohort", "cohortName") if kind == "ClusterQueue" else ("parent", "parentName")
    if old in spec or new in spec:
        return old if old in spec else new
    old_versions = ("v1beta1", "v1alpha1") if kind == "ClusterQueue" else ("v1alpha1",)
    return old if api_version.endswith(old_versions) else new


def lay_kueue(spec: Spec, edit: NodeEdit, api_version: str) -> None:
    edit = completed(spec, edit)
    had = {(flavor, resource): dict(cell) for flavor, resource, cell in cells_of(spec)}
    _lay_groups(spec, edit)
    given = {(quota.flavor, quota.resource): quota for quota in edit.quotas}
    for flavor, resource, cell in cells_of(spec):
        if quota := given.get((flavor, resource)):
            _lay_cell(cell, quota)
        _keep_texts(cell, had.get((flavor, resource), {}))
    if "parent" in edit.values:
        name = parent_field(edit.kind, spec, api_version)
        _set(spec, (name,), edit.values["parent"], spec.get(name) or None)
    if "fair_weight" in edit.values:
        _lay_weight(spec, edit.values["fair_weight"])
    for name, value in edit.values.items():
        if name in POLICY_PATHS:
            _lay_policy(spec, name, value)


def completed(spec: Spec, edit: NodeEdit) -> NodeEdit:
    """The edit with every limit taken away, where it leaves the cohort: none may stand without one. A limit that the
    edit asks for stays, to be refused by its own name."""
    if "parent" not in edit.values or edit.values["parent"] is not None:
        return edit
    given = {(quota.flavor, quota.resource): quota for quota in edit.quotas}
    gone = {removal.flavor or removal.resource for removal in edit.removals}
    for flavor, resource, cell in cells_of(spec):
        dropped = {name: None for name in _LIMITS if CELL_FIELDS[name] in cell}
        if not dropped or flavor in gone or resource in gone:
            continue
        quota = given.get((flavor, resource)) or QuotaEdit(f"{edit.field}.set", flavor, resource, {})
        given[flavor, resource] = replace(quota, cells={**dropped, **quota.cells})
    return replace(edit, quotas=tuple(given.values()))


def _lay_cell(cell: dict[str, Any], quota: QuotaEdit) -> None:
    for name, wanted in quota.cells.items():
        field = CELL_FIELDS[name]
        if wanted is None:
            cell.pop(field, None)
        else:
            _set_amount(cell, field, wanted, quota.texts.get(name) or plain(wanted))


def _set_amount(holder: dict[str, Any], field: str, wanted: Decimal, text: str) -> None:
    if field not in holder or amount(holder[field]) != wanted:
        holder[field] = text


def _keep_texts(cell: dict[str, Any], had: dict[str, Any]) -> None:
    """An amount that went with its flavor and came back the same is written as it was."""
    for field in CELL_FIELDS.values():
        if field in cell and field in had and amount(cell[field]) == amount(had[field]):
            cell[field] = had[field]


def _lay_weight(spec: Spec, wanted: Decimal) -> None:
    present = (spec.get("fairSharing") or {}).get("weight")
    if (Decimal(1) if present is None else amount(present)) != wanted:
        spec.setdefault("fairSharing", {})["weight"] = plain(wanted)


def _lay_policy(spec: Spec, name: str, value: Any) -> None:
    path = POLICY_PATHS[name]
    present: Any = spec
    for part in path:
        present = present.get(part) if isinstance(present, dict) else None
    if present is None and value in (None, "", _DEFAULTS.get(name)):
        return
    if name.startswith("when_can") and _OLD_WORDS.get(str(present), present) == value:
        return
    _set(spec, path, value or None, present)


def usual_policy(name: str, value: Any) -> Any:
    """A live field's value in the words of an edit: what absent means, today's word for an older one."""
    if value is None:
        return _DEFAULTS.get(name, "" if name == "preference" else None)
    return _OLD_WORDS.get(str(value), value) if name.startswith("when_can") else value


def _set(spec: Spec, path: tuple[str, ...], value: Any, present: Any) -> None:
    if value == present:
        return
    here = spec
    for part in path[:-1]:
        here = here.setdefault(part, {})
    if value is None:
        here.pop(path[-1], None)
    else:
        here[path[-1]] = value


# ---- resource groups ------------------------------------------------------------------------------------------------


def _lay_groups(spec: Spec, edit: NodeEdit) -> None:
    """Flavors and resources that come and go."""
    faults = []
    for removal in edit.removals:
        if not _remove(spec, removal.flavor, removal.resource):
            faults.append(ChangeFault(removal.field, "not_listed", removal.flavor or removal.resource))
    for quota in edit.quotas:
        listed = {(flavor, resource) for flavor, resource, _cell in cells_of(spec)}
        if (quota.flavor, quota.resource) not in listed and not _list(spec, quota):
            faults.append(ChangeFault(f"{quota.field}.flavor", "other_group"))
    if faults:
        raise ChangeError(faults)


def _remove(spec: Spec, flavor: str, resource: str) -> bool:
    found = False
    for group in spec.get("resourceGroups") or ():
        if flavor:
            kept = [one for one in group.get("flavors") or () if one.get("name") != flavor]
            found |= len(kept) != len(group.get("flavors") or ())
            group["flavors"] = kept
        elif resource in (group.get("coveredResources") or ()):
            found = True
            group["coveredResources"] = [name for name in group["coveredResources"] if name != resource]
            for one in group.get("flavors") or ():
                one["resources"] = [cell for cell in one.get("resources") or () if cell["name"] != resource]
    if found:
        spec["resourceGroups"] = [
            group for group in spec["resourceGroups"] if group["flavors"] and group["coveredResources"]
        ]
        if not spec["resourceGroups"]:
            del spec["resourceGroups"]
    return found


def _list(spec: Spec, quota: QuotaEdit) -> bool:
    """Room for a (flavor, resource) that is not listed: every flavor of a group needs all of its resources."""
    groups = spec.setdefault("resourceGroups", [])
    covering = next((group for group in groups if quota.resource in group["coveredResources"]), None)
    holding = next((group for group in groups if _flavor(group, quota.flavor) is not None), None)
    if covering and holding:
        return False
    if covering:
        cells = [{"name": name, "nominalQuota": "0"} for name in covering["coveredResources"]]
        covering["flavors"].append({"name": quota.flavor, "resources": cells})
    elif holding:
        holding["coveredResources"].append(quota.resource)
        for flavor in holding["flavors"]:
            flavor["resources"].append({"name": quota.resource, "nominalQuota": "0"})
    else:
        cells = [{"name": quota.resource, "nominalQuota": "0"}]
        groups.append(
            {"coveredResources": [quota.resource], "flavors": [{"name": quota.flavor, "resources": cells}]}
        )
    return True


def _flavor(group: dict[str, Any], name: str) -> dict[str, Any] | None:
    return next((flavor for flavor in group["flavors"] if flavor["name"] == name), None)


# ---- other kinds ----------------------------------------------------------------------------------------------------


def lay_local_queue(spec: Spec, edit: LocalQueueEdit) -> None:
    if (spec.get("stopPolicy") or "None") != edit.stop_policy:
        spec["stopPolicy"] = edit.stop_policy


def lay_volcano(spec: Spec, edit: VolcanoEdit) -> None:
    for name, wanted, usual in (("weight", edit.weight, 1), ("priority", edit.priority, 0)):
        if wanted is not None and spec.get(name, usual) != wanted:
            spec[name] = wanted
    for part, amounts in edit.amounts.items():
        for resource, text in amounts.items():
            _lay_amount(spec, part, resource, text)


def _lay_amount(spec: Spec, part: str, resource: str, text: str | None) -> None:
    """A guarantee is nested one deeper than the others."""
    outer = spec if part != "guarantee" else spec.get("guarantee") or {}
    inner = "resource" if part == "guarantee" else part
    holder = outer.get(inner) or {}
    if text is None:
        holder.pop(resource, None)
        return
    wanted = amount(text)
    if wanted is None or amount(holder.get(resource)) == wanted:
        return
    if part == "guarantee":
        outer = spec["guarantee"] = outer
    outer[inner] = holder
    holder[resource] = text
