"""What Volcano's webhook does not look at. Input: `CheckInput` and the specs after all edits; output: warnings. Pure.

Codes: below_use (`part` "capability": nothing new starts until enough has ended; "deserved": others may take it back);
above_allocatable — the guarantees of all queues, or what they deserve, are more than the cluster has; closes — new work
is refused, the queue is Closing until what it has is over, and so are the queues below it; opens_below_closed.
Invariant: only what the edits bring about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal

from apps.changes.checks_model import CheckInput, Finding, Param
from apps.changes.edits import Edit, ObjectKey
from apps.changes.places import field_of
from apps.changes.planning import parent_of, volcano_part
from apps.changes.specs import Spec, amount
from apps.core.quantity import plain

ZERO = Decimal(0)
KIND = "VolcanoQueue"
Specs = Mapping[ObjectKey, Spec]


def volcano_warnings(
    given: CheckInput,
    edits: Mapping[ObjectKey, list[Edit]],
    before: Specs,
    after: Specs,
    commands: Mapping[ObjectKey, str],
) -> Iterator[Finding]:
    for key, own in edits.items():
        if key[0] == KIND:
            yield from _below_use(given, key[2], own, before[key], after[key])
            yield from _states(given, key[2], own, after, commands)
    if any(key[0] == KIND for key in edits):
        yield from _above_allocatable(given, edits, before, after)


def _below_use(given: CheckInput, name: str, own: list[Edit], old: Spec, new: Spec) -> Iterator[Finding]:
    held = given.held.get((KIND, name), {})
    for part, then in (("capability", "stays"), ("deserved", "reclaimable")):
        for resource, text in volcano_part(new, part).items():
            now, was = amount(text), amount(volcano_part(old, part).get(resource))
            value = held.get(("", resource), ZERO)
            if now is None or value <= now or (was is not None and now >= was):
                continue
            if was is None and part == "deserved":
                continue
            params: dict[str, Param] = {
                "queue": name,
                "part": part,
                "flavor": "",
                "resource": resource,
                "held": plain(value),
                "nominal": plain(now),
                "beyond": plain(value - now),
                "then": then if then == "stays" or new.get("reclaimable", True) else "stays",
                "teams": _teams(given, name, resource),
            }
            yield Finding("below_use", field_of(own, ("amount", part, resource)), params)


def _teams(given: CheckInput, name: str, resource: str) -> list[dict[str, str]]:
    found = [
        (amounts["", resource], team)
        for team, amounts in given.held_by_team.get((KIND, name), {}).items()
        if amounts.get(("", resource), ZERO) > 0
    ]
    return [
        {"team": str(team) if team else "", "held": plain(value)}
        for value, team in sorted(found, key=lambda one: (-one[0], one[1]))
    ]


def _states(
    given: CheckInput, name: str, own: list[Edit], after: Specs, commands: Mapping[ObjectKey, str]
) -> Iterator[Finding]:
    command, field = commands.get((KIND, "", name), ""), field_of(own, ("value", "state"))
    present = given.objects[KIND, "", name].status_state or "Open"
    if command == "CloseQueue" and present == "Open":
        below = ", ".join(sorted(_below(name, after)))
        yield Finding("closes", field, {"queue": name, "below": below})
    if command == "OpenQueue":
        parent = given.objects.get((KIND, "", parent_of(KIND, after[KIND, "", name])))
        opened = parent is not None and commands.get(parent.key) == "OpenQueue"
        if parent and parent.status_state in ("Closed", "Closing") and not opened:
            yield Finding("opens_below_closed", field, {"queue": name, "parent": parent.name})


def _below(name: str, specs: Specs) -> set[str]:
    parents = {key[2]: parent_of(KIND, spec) for key, spec in specs.items() if key[0] == KIND}
    found: set[str] = set()
    while more := {
        child for child, parent in parents.items() if parent in {name, *found} and child not in {name, *found}
    }:
        found |= more
    return found


def _above_allocatable(
    given: CheckInput, edits: Mapping[ObjectKey, list[Edit]], before: Specs, after: Specs
) -> Iterator[Finding]:
    """Of the queues right below root only: a parent's amounts include its children's."""
    there = given.allocatable.get("", {})
    own = [edit for key, found in edits.items() if key[0] == KIND for edit in found]
    for part in ("guarantee", "deserved"):
        old, new = _sums(before, part), _sums(after, part)
        for resource, total in sorted(new.items()):
            if resource not in there or total <= there[resource] or total <= old.get(resource, ZERO):
                continue
            params: dict[str, Param] = {"flavor": "", "resource": resource, "part": part, "sum": plain(total)}
            said = {**params, "before": plain(old.get(resource, ZERO)), "allocatable": plain(there[resource])}
            yield Finding("above_allocatable", field_of(own, ("amount", part, resource)), said)


def _sums(specs: Specs, part: str) -> dict[str, Decimal]:
    names = {key[2] for key in specs if key[0] == KIND}
    found: dict[str, Decimal] = {}
    for (kind, _namespace, name), spec in specs.items():
        parent = parent_of(KIND, spec)
        if kind == KIND and name != "root" and (parent in ("", "root") or parent not in names):
            for resource, text in volcano_part(spec, part).items():
                found[resource] = found.get(resource, ZERO) + (amount(text) or ZERO)
    return found
