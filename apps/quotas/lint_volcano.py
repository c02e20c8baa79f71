"""What does not fit in Volcano's queues. Input: `VolcanoFacts` by name; output: `Problem`s. Pure.

Children are held against their parent by the rules of Volcano's webhook, which older versions did not have: guarantee
and deserved in sum (what a parent does not set counts as 0, nothing is asked of root), capability against the nearest
queue above that sets the resource.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from apps.quotas.lint_model import Problem, Thing, VolcanoFacts, plain_text

ZERO = Decimal(0)
_SHUT = frozenset(("Closed", "Closing"))


def volcano_problems(queues: Mapping[str, VolcanoFacts]) -> Iterator[Problem]:
    yield from _states(queues)
    yield from _sums(queues)


def _volcano(name: str) -> Thing:
    return Thing("VolcanoQueue", "", name)


def _above(queues: Mapping[str, VolcanoFacts], name: str) -> Iterator[str]:
    """Queues above this one, nearest first; a circle ends the walk."""
    seen, parent = {name}, queues[name].parent
    while parent in queues and parent not in seen:
        yield parent
        seen.add(parent)
        parent = queues[parent].parent


def _states(queues: Mapping[str, VolcanoFacts]) -> Iterator[Problem]:
    for name in sorted(queues):
        said, thing = queues[name], _volcano(name)
        if said.parent and said.parent != "root" and said.parent not in queues:
            yield Problem("never_admits", "parent_missing", (thing,), values={"above": said.parent})
        if said.state in _SHUT:
            yield Problem("never_admits", "stopped", (thing,))
            continue
        shut = next((above for above in _above(queues, name) if queues[above].state in _SHUT), None)
        if shut is not None:
            objects = (thing, _volcano(shut))
            yield Problem("never_admits", "stopped_parent", objects, values={"above": shut})


def _sums(queues: Mapping[str, VolcanoFacts]) -> Iterator[Problem]:
    """What children are promised together against their parent, and each capability against those above."""
    children: dict[str, list[str]] = defaultdict(list)
    for name in sorted(queues):
        parent = queues[name].parent
        if parent in queues and parent not in (name, "root"):
            children[parent].append(name)
    for parent in sorted(children):
        below = [queues[child] for child in children[parent]]
        objects = (_volcano(parent), *map(_volcano, children[parent]))
        yield from _over_parent(
            "guarantee", objects, queues[parent].guarantee, [item.guarantee for item in below]
        )
        yield from _over_parent(
            "deserved", objects, queues[parent].deserved, [item.deserved for item in below]
        )
    for name in sorted(queues):
        yield from _capability(queues, name)


def _over_parent(
    share: str,
    objects: tuple[Thing, ...],
    own: Mapping[str, Decimal],
    below: Iterable[Mapping[str, Decimal]],
) -> Iterator[Problem]:
    sums: dict[str, Decimal] = defaultdict(lambda: ZERO)
    for said in below:
        for resource, amount in said.items():
            sums[resource] += amount
    for resource in sorted(sums):
        if sums[resource] > own.get(resource, ZERO):
            values = {
                "resource": resource,
                "sum": plain_text(sums[resource]),
                "own": plain_text(own.get(resource)),
            }
            yield Problem(
                "volcano_children_over_parent", share, objects, (("", resource),), values, len(objects) - 1
            )


def _capability(queues: Mapping[str, VolcanoFacts], name: str) -> Iterator[Problem]:
    for resource, amount in sorted(queues[name].capability.items()):
        for above in _above(queues, name):
            limit = queues[above].capability.get(resource)
            if limit is None:
                continue
            if amount > limit:
                values = {
                    "resource": resource,
                    "sum": plain_text(amount),
                    "own": plain_text(limit),
                    "above": above,
                }
                objects = (_volcano(name), _volcano(above))
                yield Problem(
                    "volcano_children_over_parent", "capability", objects, (("", resource),), values
                )
            break
