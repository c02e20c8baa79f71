"""What Volcano's webhook refuses about an edited Queue, in its words. Input: the spec before and after, and the specs of
all queues; output: the refusals, the first of which a real server answers. The words of the tree's rules count cards in
thousandths, as the webhook prints them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from apps.core.quantity import parse_quantity

Spec = Mapping[str, Any]
_PARTS = ("capability", "deserved", "guarantee")
_DEEPEST = 5
_WHOLE = ("cpu", "memory")


def refusals(name: str, before: Spec, after: Spec, queues: Mapping[str, Spec]) -> Iterator[str]:
    """`queues` empty: only the queue itself is looked at."""
    yield from _alone(name, before, after)
    if name in queues:
        tree = {**queues, name: after}
        yield from _place(name, tree)
        yield from _capability(name, tree)
        if before.get("parent") != after.get("parent") or any(
            _amounts(before, part) != _amounts(after, part) for part in _PARTS
        ):
            yield from _sums(name, tree)
            yield from _sums(_parent(name, tree), tree)


def _amounts(spec: Spec, part: str) -> dict[str, Decimal]:
    found = spec.get(part) or {}
    if part == "guarantee":
        found = found.get("resource") or {}
    return {resource: parse_quantity(value) for resource, value in found.items()}


def _said(resource: str, value: Decimal) -> str:
    return f"{value if resource == 'memory' else value * 1000:.2f}"


# ---- the queue alone --------------------------------------------------------------------------------------------
def _alone(name: str, before: Spec, spec: Spec) -> Iterator[str]:
    if name == "root" and any(before.get(part) != spec.get(part) for part in _PARTS):
        yield "root queue's resource attributes (capability, deserved, guarantee) cannot be modified"
    for number, least, most in (("weight", 1, 65_535), ("priority", 0, 2**31 - 1)):
        if not least <= spec.get(number, least) <= most:
            yield f"requestBody.spec.{number}: Invalid value: {spec[number]}: must be in the range {least} to {most}"
    capability, deserved = spec.get("capability") or {}, spec.get("deserved") or {}
    guarantee = (spec.get("guarantee") or {}).get("resource") or {}
    for part, amounts in (("capability", capability), ("deserved", deserved), ("guarantee", guarantee)):
        for resource, value in amounts.items():
            if parse_quantity(value) < 0:
                where = f'requestBody.spec.{part}.{resource}: Invalid value: "{value}"'
                yield f"{where}: must be greater than or equal to 0"
    for resource, value in guarantee.items():
        have = deserved.get(resource, "0")
        if resource not in deserved or parse_quantity(have) < parse_quantity(value):
            where = f'requestBody.spec.deserved.{resource}: Invalid value: "{have}"'
            yield f"{where}: deserved[{resource}]={have} must be >= guarantee[{resource}]={value}"
    for resource, value in deserved.items():
        if resource in capability and parse_quantity(value) > parse_quantity(capability[resource]):
            where = f'requestBody.spec.deserved.{resource}: Invalid value: "{value}"'
            most = capability[resource]
            yield f"{where}: deserved[{resource}]={value} must be <= capability[{resource}]={most}"


# ---- the tree ---------------------------------------------------------------------------------------------------
def _parent(name: str, tree: Mapping[str, Spec]) -> str:
    return "" if name == "root" or name not in tree else str(tree[name].get("parent") or "root")


def _above(name: str, tree: Mapping[str, Spec]) -> list[str]:
    found: list[str] = []
    here = _parent(name, tree)
    while here in tree and here != name and here not in found:
        found.append(here)
        here = _parent(here, tree)
    return found


def _place(name: str, tree: Mapping[str, Spec]) -> Iterator[str]:
    parent = _parent(name, tree)
    if parent == name:
        yield f"queue {name} cannot be its own parent"
    elif parent not in ("", "root") and parent not in tree:
        missing = f'queue.scheduling.volcano.sh "{parent}" not found'
        yield f"failed to get parent queue {parent} of queue {name}: {missing}"
    elif len(_above(name, tree)) > _DEEPEST:
        yield f"queue {name} is deeper than the maximum depth {_DEEPEST}"


def _capability(name: str, tree: Mapping[str, Spec]) -> Iterator[str]:
    for resource, value in _amounts(tree[name], "capability").items():
        limits = [
            found[resource]
            for above in _above(name, tree)
            if resource in (found := _amounts(tree[above], "capability"))
        ]
        if limits and value > limits[0]:
            said = f"capability[{resource}]={_said(resource, value)}"
            yield f"queue {name} {said} exceeds its ancestor's capability={_said(resource, limits[0])}"
        needs = [
            found[resource]
            for below in tree
            if name in _above(below, tree) and resource in (found := _amounts(tree[below], "capability"))
        ]
        if needs and max(needs) > value:
            said = f"capability[{resource}]={_said(resource, value)}"
            yield f"queue {name} {said} is smaller than its descendants' max capability={_said(resource, max(needs))}"


def _sums(name: str, tree: Mapping[str, Spec]) -> Iterator[str]:
    """What is not set counts as 0; root's children are not looked at."""
    children = [other for other in tree if other != name and _parent(other, tree) == name]
    if name in ("", "root") or name not in tree or not children:
        return
    for part in ("guarantee", "deserved"):
        limit = _amounts(tree[name], part)
        sums: dict[str, Decimal] = {}
        for child in children:
            for resource, value in _amounts(tree[child], part).items():
                sums[resource] = sums.get(resource, Decimal(0)) + value
        if any(value > limit.get(resource, 0) for resource, value in sums.items()):
            both = (
                f"sum of children's {part} ({_listed(sums)}) exceeds parent's {part} limit ({_listed(limit)})"
            )
            yield f"parent queue {name} validation failed: {both}"


def _listed(amounts: Mapping[str, Decimal]) -> str:
    """cpu and memory always, then the others by name."""
    names = [*_WHOLE, *sorted(set(amounts) - set(_WHOLE))]
    return ", ".join(f"{name} {_said(name, amounts.get(name, Decimal(0)))}" for name in names)
