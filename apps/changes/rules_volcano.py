"""What Volcano's webhook would refuse about a Queue. Input: the spec before and after, and the specs of the cluster's
other queues; output: the rules that it breaks (see `rules`). Pure.

Rules of validate_queue.go: amounts are quantities and not negative; guarantee ≤ deserved ≤ capability per resource; the
capability of a queue is at most that of the nearest queue above which sets it, and at least that of every queue below;
what the children of a queue are guaranteed and deserve is at most its own, an amount that is not set counting as 0,
looked at only when an amount or the parent changes and never of root's children; the amounts of root stay.
Invariant: resources are compared each by itself, never added up with each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from apps.changes.edits import AMOUNTS
from apps.changes.planning import parent_of, volcano_part
from apps.changes.rules import Broken
from apps.changes.specs import Spec, amount
from apps.quotas.volcano_shares import ROOT

ZERO = Decimal(0)
MOST_DEPTH = 5
Specs = Mapping[str, Spec]


def broken_volcano(name: str, before: Spec, specs: Specs) -> list[Broken]:
    """`specs`: every queue of the cluster by name, this one as it is to be."""
    after = specs[name]
    found = [*_root(name, before, after), *_own(after)]
    if found:
        return found
    tree = _Tree(specs)
    found = [*_place(name, tree), *_capability(name, tree)]
    if _touched(before, after):
        found += [*_sums(name, tree, own=True), *_sums(parent_of("VolcanoQueue", after), tree, own=False)]
    return found


def _touched(before: Spec, after: Spec) -> bool:
    return before.get("parent") != after.get("parent") or any(
        _amounts(before, part) != _amounts(after, part) for part in AMOUNTS
    )


def _amounts(spec: Spec, part: str) -> dict[str, Decimal]:
    found = {resource: amount(text) for resource, text in volcano_part(spec, part).items()}
    return {resource: value for resource, value in found.items() if value is not None}


# ---- the queue alone ------------------------------------------------------------------------------------------------


def _root(name: str, before: Spec, after: Spec) -> Iterator[Broken]:
    if name == ROOT:
        for part in AMOUNTS:
            if _amounts(before, part) != _amounts(after, part):
                yield Broken("root_amounts", ("amount", part, ""), {"part": part})


def _own(spec: Spec) -> Iterator[Broken]:
    for part in AMOUNTS:
        for resource, text in volcano_part(spec, part).items():
            value, place = amount(text), ("amount", part, resource)
            if value is None:
                yield Broken("quantity", place, {"value": str(text)})
            elif value < 0:
                yield Broken("negative", place, {"value": str(text)})
    for name, least, most in (("weight", 1, 65_535), ("priority", 0, 2**31 - 1)):
        number = spec.get(name)
        if number is not None and not (isinstance(number, int) and least <= number <= most):
            yield Broken("number", ("value", name), {"value": str(number), "known": f"{least}…{most}"})
    capability, deserved, guarantee = (_amounts(spec, part) for part in AMOUNTS)
    said = {part: volcano_part(spec, part) for part in AMOUNTS}
    for resource, value in guarantee.items():
        if resource not in deserved or deserved[resource] < value:
            params = {"resource": resource, "guarantee": str(said["guarantee"][resource])}
            have = str(said["deserved"].get(resource, ""))
            yield Broken(
                "guarantee_above_deserved", ("amount", "guarantee", resource), {**params, "deserved": have}
            )
    for resource, value in deserved.items():
        if resource in capability and value > capability[resource]:
            params = {"resource": resource, "deserved": str(said["deserved"][resource])}
            most_text = str(said["capability"][resource])
            yield Broken(
                "deserved_above_capability",
                ("amount", "deserved", resource),
                {**params, "capability": most_text},
            )


# ---- the tree -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Tree:
    specs: Specs

    def parent(self, name: str) -> str:
        """Of every queue but root; a queue that names none is root's child."""
        return "" if name == ROOT else parent_of("VolcanoQueue", self.specs[name]) or ROOT

    def above(self, name: str) -> list[str]:
        found: list[str] = []
        here = self.parent(name)
        while here in self.specs and here not in found and here != name:
            found.append(here)
            here = self.parent(here)
        return found

    def children(self, name: str) -> list[str]:
        return [other for other in sorted(self.specs) if other != name and self.parent(other) == name]

    def below(self, name: str) -> list[str]:
        return [other for other in sorted(self.specs) if name in self.above(other)]


def _place(name: str, tree: _Tree) -> Iterator[Broken]:
    parent = tree.parent(name)
    if parent == name:
        yield Broken("own_parent", (), {})
    elif parent and parent != ROOT and parent not in tree.specs:
        yield Broken("no_such_parent", (), {"parent": parent})
    elif len([above for above in tree.above(name) if above != ROOT]) >= MOST_DEPTH:
        yield Broken("too_deep", (), {"most": str(MOST_DEPTH)})


def _capability(name: str, tree: _Tree) -> Iterator[Broken]:
    own, said = _amounts(tree.specs[name], "capability"), volcano_part(tree.specs[name], "capability")
    for resource, value in own.items():
        place = ("amount", "capability", resource)
        for above in tree.above(name):
            limit = _amounts(tree.specs[above], "capability").get(resource)
            if limit is not None:
                if value > limit:
                    text = str(volcano_part(tree.specs[above], "capability")[resource])
                    params = {"resource": resource, "capability": str(said[resource])}
                    yield Broken("above_ancestor", place, {**params, "queue": above, "most": text})
                break
        for below in tree.below(name):
            need = _amounts(tree.specs[below], "capability").get(resource)
            if need is not None and need > value:
                text = str(volcano_part(tree.specs[below], "capability")[resource])
                params = {"resource": resource, "capability": str(said[resource])}
                yield Broken("below_descendant", place, {**params, "queue": below, "least": text})


def _sums(name: str, tree: _Tree, *, own: bool) -> Iterator[Broken]:
    """The children of one queue against it. `own`: the queue itself is the one that is edited."""
    if name in ("", ROOT) or name not in tree.specs:
        return
    children = tree.children(name)
    for part in ("guarantee", "deserved") if children else ():
        limit = _amounts(tree.specs[name], part)
        sums: dict[str, Decimal] = {}
        for child in children:
            for resource, value in _amounts(tree.specs[child], part).items():
                sums[resource] = sums.get(resource, ZERO) + value
        for resource, total in sums.items():
            if total > limit.get(resource, ZERO):
                params: dict[str, Any] = {"resource": resource, "queue": name, "part": part}
                said = {**params, "sum": str(total), "most": str(limit.get(resource, ZERO))}
                code = "below_children" if own else "children_above_parent"
                yield Broken(code, ("amount", part, resource), said)
