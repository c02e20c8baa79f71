"""What no webhook looks at and a reviewer should know. Input: `CheckInput` and the specs after all edits; output:
warnings. Pure. Volcano's are in `cautions_volcano`.

Codes and what happens: below_use — work holds more than the queue could get afterwards; Kueue evicts nothing for it
(`then`: "stays"), the preemption of others may take it back ("reclaimable"), HoldAndDrain evicts ("drains");
above_allocatable — all nominal quota of a flavor and resource is more than its nodes can give; unknown_flavor — the
queue admits nothing until there is one; flavor_in_use; cycle — Kueue serves none of these queues; unit_mismatch — one
amount in bytes, another bare, in one cohort; managed — another field manager owns the field; stops and drains;
limits_dropped; new_cohort — Kueue takes the name for a cohort without quota of its own; check_names_flavor — an
admission check is for a flavor that goes: Kueue up to v0.17 accepts it, later versions refuse it.
Invariant: only what the edits bring about, not what was so before."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, cast

from apps.changes.cautions_volcano import volcano_warnings
from apps.changes.checks_model import CheckInput, Finding, Held, Param
from apps.changes.edits import Edit, NodeEdit, ObjectKey, key_of
from apps.changes.patching import edited_fields, operations_between
from apps.changes.places import field_of, place_of
from apps.changes.planning import parent_of
from apps.changes.rules import Place
from apps.changes.specs import ObjectSeen, Spec, amount, cells_of
from apps.core.quantity import plain
from apps.quotas.tree import QuotaTree
from apps.quotas.tree_model import ZERO, Cell, FlavorResource, Key, Kind, QuotaNode

PORTAL = "gpu-portal"
QUOTA_OPERATORS = re.compile(
    r"argocd|argo-cd|flux|kustomize-controller|helm-controller|gitops|quota|fleet-agent|config-?sync|config-management",
    re.IGNORECASE,
)
_BYTES = re.compile(r"[0-9.]+([KMGTPE]i|[kMGTPE])")
LEAST_RATIO = 1024
Specs = Mapping[ObjectKey, Spec]


def warnings_of(given: CheckInput, after: Specs, commands: Mapping[ObjectKey, str]) -> list[Finding]:
    """`after`: the specs of all objects as they are to be; `commands`: Volcano queues that are opened or closed."""
    before = {key: seen.spec for key, seen in given.objects.items()}
    edits: dict[ObjectKey, list[Edit]] = {}
    for edit in given.edits:
        edits.setdefault(key_of(edit), []).append(edit)
    scene = _Trees(given, before, after)
    found: list[Finding] = []
    for key, own in edits.items():
        if key[0] in ("ClusterQueue", "Cohort"):
            found += _of_object(given, scene, key, own)
        found += _stops(given, key, own, before[key], after[key])
        found += _managed(given.objects[key], own, after[key])
    found += scene.below_use(edits)
    found += scene.above_allocatable(edits)
    found += scene.cycles(edits)
    found += volcano_warnings(given, edits, before, after, commands)
    return found


# ---- one object -----------------------------------------------------------------------------------------------------


def _of_object(given: CheckInput, scene: _Trees, key: ObjectKey, own: list[Edit]) -> Iterator[Finding]:
    kind, name, api = key[0], key[2], given.objects[key].api_version
    old, new = scene.before[key], scene.after[key]
    had, has = ({(f, r): cell for f, r, cell in cells_of(spec)} for spec in (old, new))
    for flavor in sorted({f for f, _r in has} - {f for f, _r in had}):
        if given.flavors is not None and flavor not in given.flavors:
            yield _at(own, "unknown_flavor", ("flavor", flavor), {"flavor": flavor})
    held = given.held.get((kind, name), {})
    for fr in sorted(had.keys() - has.keys()):
        if held.get(fr, ZERO) > 0:
            params = {"flavor": fr[0], "resource": fr[1], "held": plain(held[fr])}
            place = ("flavor", fr[0]) if not any(f == fr[0] for f, _r in has) else ("resource", fr[1])
            yield _at(own, "flavor_in_use", place, {**params, "teams": _teams(given, (kind, name), fr)})
    parent, was = parent_of(kind, new, api), parent_of(kind, old, api)
    if was and not parent and (dropped := _dropped(had, has)):
        yield _at(own, "limits_dropped", ("value", "parent"), {"cells": ", ".join(dropped)})
    if parent and parent != was and ("Cohort", "", parent) not in given.objects:
        yield _at(own, "new_cohort", ("value", "parent"), {"cohort": parent})
    for check, flavor in sorted(_unlisted(new) - _unlisted(old)):
        yield _at(own, "check_names_flavor", ("flavor", flavor), {"check": check, "flavor": flavor})
    yield from _units(scene, key, own, had, has)


def _unlisted(spec: Spec) -> set[tuple[str, str]]:
    """(admission check, flavor that it is for), where the queue does not list the flavor."""
    listed = {flavor for flavor, _resource, _cell in cells_of(spec)}
    checks = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
    named = {(str(check.get("name")), str(name)) for check in checks for name in check.get("onFlavors") or ()}
    return {(check, flavor) for check, flavor in named if flavor not in listed}


def _dropped(had: Mapping[FlavorResource, Any], has: Mapping[FlavorResource, Any]) -> list[str]:
    return [
        "/".join(fr)
        for fr, cell in had.items()
        if any(name in cell and name not in has.get(fr, {}) for name in ("borrowingLimit", "lendingLimit"))
    ]


def _units(
    scene: _Trees,
    key: ObjectKey,
    own: list[Edit],
    had: Mapping[FlavorResource, Any],
    has: Mapping[FlavorResource, Any],
) -> Iterator[Finding]:
    """An amount in bytes against a bare one, far apart, of the same flavor and resource in one tree."""
    for fr, cell in has.items():
        text = str(cell.get("nominalQuota", "0"))
        if fr in had and amount(had[fr].get("nominalQuota", "0")) == amount(text):
            continue
        for other, theirs in scene.cells_beside(key, fr):
            if _mismatch(text, theirs):
                params = {"flavor": fr[0], "resource": fr[1], "amount": text}
                place = ("cell", *fr, "nominal")
                yield _at(own, "unit_mismatch", place, {**params, "other": theirs, "queue": other})
                break


def _mismatch(one: str, other: str) -> bool:
    left, right = amount(one), amount(other)
    if not left or not right or bool(_BYTES.fullmatch(one)) == bool(_BYTES.fullmatch(other)):
        return False
    least, most = sorted((left, right))
    return most / least >= LEAST_RATIO


def _stops(given: CheckInput, key: ObjectKey, own: list[Edit], old: Spec, new: Spec) -> Iterator[Finding]:
    was, now = old.get("stopPolicy") or "None", new.get("stopPolicy") or "None"
    if was == now or key[0] not in ("ClusterQueue", "LocalQueue") or now == "None":
        return
    held = given.held.get((key[0], f"{key[1]}/{key[2]}" if key[1] else key[2]), {})
    sums = [
        {"flavor": flavor, "resource": resource, "held": plain(value)}
        for (flavor, resource), value in sorted(held.items())
        if value > 0
    ]
    code = "drains" if now == "HoldAndDrain" else "stops"
    yield _at(own, code, ("value", "stop_policy"), {"held": sums})


def _managed(seen: ObjectSeen, own: list[Edit], new: Spec) -> Iterator[Finding]:
    """Fields that are written and that somebody else declares. The places of list items are not told apart: Kueue's
    resource groups are one field."""
    written = [operation["path"] for operation in operations_between(seen.spec, new)]
    changes = edited_fields(seen.spec, new)
    for manager in seen.managers:
        declares = manager.operation == "Apply" or QUOTA_OPERATORS.search(manager.name)
        if manager.subresource or manager.name == PORTAL or not declares:
            continue
        owned = sorted({path for path in written if any(_within(path, mine) for mine in manager.paths)})
        if owned:
            place = place_of(changes[0].path) if len(changes) == 1 else ()
            params: dict[str, Param] = {"manager": manager.name, "operation": manager.operation}
            yield _at(own, "managed", place, {**params, "fields": ", ".join(owned)})


def _within(path: str, owned: str) -> bool:
    return owned == path or path.startswith(owned + "/") or owned.startswith(path + "/")


def _at(own: Sequence[Edit], code: str, place: Place, params: Mapping[str, Param]) -> Finding:
    return Finding(code, field_of(own, place), params)


def _teams(given: CheckInput, queue: tuple[str, str], fr: FlavorResource) -> list[dict[str, str]]:
    """What each team holds there, the most first; team "" is nobody's work."""
    found = [
        (amounts[fr], team)
        for team, amounts in given.held_by_team.get(queue, {}).items()
        if amounts.get(fr, ZERO) > 0
    ]
    return [
        {"team": str(team) if team else "", "held": plain(value)}
        for value, team in sorted(found, key=lambda one: (-one[0], one[1]))
    ]


# ---- whole trees ----------------------------------------------------------------------------------------------------


class _Trees:
    """Kueue's quota before and after, and what the edits make of it."""

    def __init__(self, given: CheckInput, before: Specs, after: Specs) -> None:
        self.given, self.before, self.after = given, before, after
        usage = {name: held for (kind, name), held in given.held.items() if kind == "ClusterQueue"}
        self.old, self.new = (self._tree(specs, usage) for specs in (before, after))

    def _tree(self, specs: Specs, usage: Mapping[str, Held]) -> QuotaTree:
        return QuotaTree(
            [
                _node(key, spec, self.given.objects[key].api_version)
                for key, spec in specs.items()
                if key[0] in ("ClusterQueue", "Cohort")
            ],
            usage,
        )

    def cells_beside(self, key: ObjectKey, fr: FlavorResource) -> Iterator[tuple[str, str]]:
        """(name, nominal as written) of the other nodes of the tree that quote this cell."""
        own: Key = (cast("Kind", key[0]), key[2])
        root = self.new.root_of(*own)
        for other, spec in sorted(self.after.items()):
            node: Key = (cast("Kind", other[0]), other[2])
            if other == key or node not in self.new or self.new.root_of(*node) != root:
                continue
            for flavor, resource, cell in cells_of(spec):
                if (flavor, resource) == fr:
                    yield other[2], str(cell.get("nominalQuota", "0"))

    def below_use(self, edits: Mapping[ObjectKey, list[Edit]]) -> Iterator[Finding]:
        """Queues that would hold more than nominal quota and, with `over`, more than their ceiling."""
        touched = {(key[0], key[2]) for key in edits}
        for name, held in sorted(
            (name, held) for (kind, name), held in self.given.held.items() if kind == "ClusterQueue"
        ):
            key: Key = ("ClusterQueue", name)
            if key not in self.new or key not in self.old:
                continue
            for fr, value in sorted(held.items()):
                over, was = self.new.over(*key, fr), self.old.over(*key, fr)
                lowered = key in touched and self._lowered(name, fr)
                if (
                    value > 0
                    and self.new.lists(*key, fr)
                    and (over > was or (lowered and value > self._nominal(name, fr)))
                ):
                    yield self._below(key, fr, over, edits)

    def _nominal(self, name: str, fr: FlavorResource, *, before: bool = False) -> Decimal:
        cell = (self.old if before else self.new).cell("ClusterQueue", name, fr)
        return cell.nominal if cell else ZERO

    def _lowered(self, name: str, fr: FlavorResource) -> bool:
        return self._nominal(name, fr) < self._nominal(name, fr, before=True)

    def _below(
        self, key: Key, fr: FlavorResource, over: Decimal, edits: Mapping[ObjectKey, list[Edit]]
    ) -> Finding:
        name = key[1]
        held, nominal = self.given.held[key][fr], self._nominal(name, fr)
        params: dict[str, Param] = {
            "queue": name,
            "flavor": fr[0],
            "resource": fr[1],
            "held": plain(held),
            "nominal": plain(nominal),
            "beyond": plain(max(ZERO, held - nominal)),
            "ceiling": plain(self.new.potential_available(*key, fr)),
            "over": plain(over),
            "then": self._then(key, fr),
            "teams": _teams(self.given, key, fr),
        }
        own = edits.get(("ClusterQueue", "", name))
        if own is None:
            root = self.new.root_of(*key)
            own = next(
                (
                    found
                    for (kind, _ns, other), found in edits.items()
                    if kind == "Cohort"
                    and ("Cohort", other) in self.new
                    and self.new.root_of("Cohort", other) == root
                ),
                next(iter(edits.values())),
            )
        return _at(own, "below_use", ("cell", *fr, "nominal"), params)

    def _then(self, key: Key, fr: FlavorResource) -> str:
        """What happens to work beyond the quota."""
        if self.after["ClusterQueue", "", key[1]].get("stopPolicy") == "HoldAndDrain":
            return "drains"
        root = self.new.root_of(*key)
        for (kind, _ns, name), spec in self.after.items():
            node: Key = ("ClusterQueue", name)
            if kind != "ClusterQueue" or name == key[1] or self.new.root_of(*node) != root:
                continue
            reclaims = ((spec.get("preemption") or {}).get("reclaimWithinCohort") or "Never") != "Never"
            if reclaims and self._nominal(name, fr) > 0:
                return "reclaimable"
        return "stays"

    def above_allocatable(self, edits: Mapping[ObjectKey, list[Edit]]) -> Iterator[Finding]:
        old, new = _sums(self.before), _sums(self.after)
        for fr, total in sorted(new.items()):
            there = self.given.allocatable.get(fr[0], {}).get(fr[1])
            if there is None or total <= there or total <= old.get(fr, ZERO):
                continue
            params = {
                "flavor": fr[0],
                "resource": fr[1],
                "sum": plain(total),
                "before": plain(old.get(fr, ZERO)),
            }
            own = [edit for edit in self.given.edits if isinstance(edit, NodeEdit) and _names(edit, fr)]
            yield _at(
                own or list(self.given.edits),
                "above_allocatable",
                ("cell", *fr, "nominal"),
                {**params, "allocatable": plain(there)},
            )

    def cycles(self, edits: Mapping[ObjectKey, list[Edit]]) -> Iterator[Finding]:
        for ring in self.new.cycles:
            if ring in self.old.cycles:
                continue
            queues = [
                key[2]
                for key in self.after
                if key[0] == "ClusterQueue" and self.new.leads_to_cycle("ClusterQueue", key[2])
            ]
            own = [
                e
                for (kind, _n, name), found in edits.items()
                if kind == "Cohort" and name in ring
                for e in found
            ]
            params: dict[str, Param] = {
                "cohorts": " → ".join((*ring, ring[0])),
                "queues": ", ".join(sorted(queues)),
            }
            yield _at(own or list(self.given.edits), "cycle", ("value", "parent"), params)


def _names(edit: NodeEdit, fr: FlavorResource) -> bool:
    return any((quota.flavor, quota.resource) == fr for quota in edit.quotas)


def _sums(specs: Specs) -> dict[FlavorResource, Decimal]:
    found: dict[FlavorResource, Decimal] = {}
    for (kind, _namespace, _name), spec in specs.items():
        if kind in ("ClusterQueue", "Cohort"):
            for flavor, resource, cell in cells_of(spec):
                value = amount(cell.get("nominalQuota", "0")) or ZERO
                found[flavor, resource] = found.get((flavor, resource), ZERO) + value
    return found


def _node(key: ObjectKey, spec: Spec, api_version: str) -> QuotaNode:
    return QuotaNode(
        name=key[2],
        kind=cast("Kind", key[0]),
        parent=parent_of(key[0], spec, api_version) or None,
        cells={
            (flavor, resource): Cell(
                amount(cell.get("nominalQuota", "0")) or ZERO,
                amount(cell.get("borrowingLimit")),
                amount(cell.get("lendingLimit")),
            )
            for flavor, resource, cell in cells_of(spec)
        },
    )
