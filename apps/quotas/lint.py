"""What does not fit in a cluster's quota. Input: `Facts`, plain values and the quota tree; output: `Problem`s.

A problem names what it is about first and gives its values; the words are apps/findings' matter. What rests on what
nodes offer (more promised than there is, flavors that no node carries, units that differ by node) is told by
apps/capacity/notes_quota.py and is not repeated here.

Invariants: pure; each check is linear in nodes × (flavor, resource) and depth; what was not collected (None) is not
judged; the same facts give the same problems in the same order; amounts are Decimal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from apps.fleet.label_selector import expression_holds
from apps.quotas.tree import Cell, FlavorResource, Key, QuotaTree

ZERO = Decimal(0)


@dataclass(frozen=True, slots=True, order=True)
class Thing:
    """An object by kind, namespace ("" for cluster-wide ones) and name."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Problem:
    """`objects`: what it is about, the main one first. `cause` tells problems of one code apart. `cells`: the quota
    that it is about, of each (flavor, resource) in order. `values` fill the sentence; "above" is another queue's name, which a
    reader of single teams is not told."""

    code: str
    cause: str
    objects: tuple[Thing, ...]
    cells: tuple[FlavorResource, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    count: int = 1

    @property
    def main(self) -> Thing:
        return self.objects[0]


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """Of a ClusterQueue what the tree does not know. `selector`: namespaceSelector as served, None selects nothing."""

    selector: Mapping[str, Any] | None
    checks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VolcanoFacts:
    """A Volcano queue's spec and state; a resource that a share does not name is not set."""

    parent: str
    state: str = "Open"
    capability: Mapping[str, Decimal] = field(default_factory=dict)
    deserved: Mapping[str, Decimal] = field(default_factory=dict)
    guarantee: Mapping[str, Decimal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ask:
    """A piece of waiting work, its ClusterQueue and LocalQueue, and the least that each of its pod sets asks for, by
    resource, over its pods."""

    namespace: str
    name: str
    queue: str
    pod_sets: tuple[Mapping[str, Decimal], ...]
    local_queue: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """One cluster. `local_queues`: (namespace, name, ClusterQueue). `namespaces`: labels by name. `checks`: whether
    each admission check is active. `said`: what statuses say is held, `counted` our own
    count of the same, by (kind, queue)."""

    tree: QuotaTree
    queues: Mapping[str, QueueFacts] = field(default_factory=dict)
    local_queues: tuple[tuple[str, str, str], ...] = ()
    flavors: frozenset[str] = frozenset()
    checks: Mapping[str, bool] | None = None
    namespaces: Mapping[str, Mapping[str, str]] | None = None
    volcano: Mapping[str, VolcanoFacts] = field(default_factory=dict)
    asks: tuple[Ask, ...] = ()
    said: Mapping[tuple[str, str], Mapping[FlavorResource, Decimal]] = field(default_factory=dict)
    counted: Mapping[tuple[str, str], Mapping[FlavorResource, Decimal]] = field(default_factory=dict)


def lint(facts: Facts) -> list[Problem]:
    """Every problem of a cluster, in the order of the checks, then of names."""
    return [
        *_cycles(facts.tree),
        *_never_admits(facts),
        *_nowhere(facts),
        *_unreachable(facts.tree),
        *_idle_limits(facts.tree),
        *_too_large(facts),
        *_volcano_states(facts.volcano),
        *_volcano_sums(facts.volcano),
        *_differs(facts),
    ]


def _thing(key: Key) -> Thing:
    return Thing(key[0], "", key[1])


def _queue(name: str) -> Thing:
    return Thing("ClusterQueue", "", name)


# ---- queues that let nothing in -------------------------------------------------------------------------------


def _cycles(tree: QuotaTree) -> Iterator[Problem]:
    below: dict[str, list[Key]] = defaultdict(list)
    for key in tree:
        if key[0] == "ClusterQueue" and tree.leads_to_cycle(*key):
            below[tree.root_of(*key)[1]].append(key)
    for ring in tree.cycles:
        queues = sorted(key for name in ring for key in below[name])
        objects = (*(Thing("Cohort", "", name) for name in ring), *map(_thing, queues))
        values = {"ring": " → ".join((*ring, ring[0])), "n": str(len(queues))}
        yield Problem("never_admits", "cohort_cycle", objects, values=values)


def _never_admits(facts: Facts) -> Iterator[Problem]:
    led_to = {queue for _namespace, _name, queue in facts.local_queues}
    for name in sorted(facts.queues):
        said, thing = facts.queues[name], _queue(name)
        for cause, names in _missing(facts, name, said):
            values = {"names": ", ".join(names)} if names else {}
            kind = "flavor" if cause == "flavor_missing" else "AdmissionCheck"
            objects = (thing, *(Thing(kind, "", missing) for missing in names))
            yield Problem("never_admits", cause, objects, values=values)
        if said.selector is None:
            yield Problem("never_admits", "no_selector", (thing,))
        elif facts.namespaces is not None and not _any_matches(said.selector, facts.namespaces.values()):
            yield Problem("never_admits", "no_namespace", (thing,))
        if name not in led_to:
            yield Problem("never_admits", "no_local_queue", (thing,))


def _missing(facts: Facts, name: str, said: QueueFacts) -> Iterator[tuple[str, list[str]]]:
    """What the queue refers to and is not there, and what else keeps everything out."""
    node = facts.tree.node("ClusterQueue", name)
    if node.stopped:
        yield "stopped", []
    missing = sorted({flavor for flavor, _resource in node.cells} - facts.flavors)
    if missing:
        yield "flavor_missing", missing
    if facts.checks is not None:
        unknown = sorted(set(said.checks) - facts.checks.keys())
        if unknown:
            yield "check_missing", unknown
        inactive = sorted(check for check in set(said.checks) if facts.checks.get(check) is False)
        if inactive:
            yield "check_inactive", inactive
    if all(facts.tree.potential_available("ClusterQueue", name, cell) <= 0 for cell in node.cells):
        yield "zero_ceiling", []


def _any_matches(selector: Mapping[str, Any], namespaces: Iterable[Mapping[str, str]]) -> bool:
    """A label selector as Kubernetes serves it; an empty one matches every namespace."""
    equal: Mapping[str, str] = selector.get("matchLabels") or {}
    expressions = selector.get("matchExpressions") or ()
    return any(
        all(labels.get(key) == value for key, value in equal.items())
        and all(expression_holds(item, labels) for item in expressions)
        for labels in namespaces
    )


def _nowhere(facts: Facts) -> Iterator[Problem]:
    for namespace, name, queue in sorted(facts.local_queues):
        if queue not in facts.queues:
            thing = Thing("LocalQueue", namespace, name)
            yield Problem("local_queue_nowhere", "", (thing,), values={"queue": queue})


# ---- quota and limits without effect --------------------------------------------------------------------------


def _limit(tree: QuotaTree, key: Key, cell: FlavorResource) -> Decimal | None:
    found = tree.cell(*key, cell)
    return found.borrowing_limit if found else None


class _Borrowers:
    """Which nodes hold a queue that lists a (flavor, resource) and may take it from outside the node."""

    def __init__(self, tree: QuotaTree) -> None:
        self.cells: dict[Key, set[FlavorResource]] = {}
        self._takers: dict[Key, dict[FlavorResource, int]] = {}
        for key in _children_first(tree):
            counts: dict[FlavorResource, int] = defaultdict(int)
            for child in tree.children(*key):
                for cell in self.cells[child]:
                    counts[cell] += 1
            wanted = set(tree.node(*key).cells) if key[0] == "ClusterQueue" else set(counts)
            self.cells[key] = {cell for cell in wanted if _limit(tree, key, cell) != 0}
            self._takers[key] = dict(counts)

    def takers(self, cohort: Key, cell: FlavorResource) -> int:
        """Children of a cohort that may take from it."""
        return self._takers[cohort].get(cell, 0)


def _children_first(tree: QuotaTree) -> list[Key]:
    order: list[Key] = []
    stack = list(tree.roots)
    while stack:
        order.append(stack.pop())
        stack.extend(tree.children(*order[-1]))
    return order[::-1]


def _unreachable(tree: QuotaTree) -> Iterator[Problem]:
    borrowers = _Borrowers(tree)
    for key in tree:
        found: list[FlavorResource] = []
        for cell, quota in tree.node(*key).cells.items():
            if quota.nominal and _lends(tree, key, cell) and not _reached(tree, borrowers, key, cell):
                found.append(cell)
        if found:
            cause = "cohort" if key[0] == "Cohort" else "queue"
            yield Problem("lendable_unreachable", cause, (_thing(key),), tuple(found))


def _lends(tree: QuotaTree, key: Key, cell: FlavorResource) -> bool:
    """Whether the node offers something of it: a cohort its own quota, a queue what it may lend in a cohort."""
    if key[0] == "Cohort":
        return True
    return tree.parent(*key) is not None and tree.subtree_quota(*key, cell) > tree.local_quota(*key, cell)


def _reached(tree: QuotaTree, borrowers: _Borrowers, start: Key, cell: FlavorResource) -> bool:
    """Whether any queue may take it: inside a cohort, else in another branch of a cohort above."""
    if start[0] == "Cohort" and borrowers.takers(start, cell):
        return True
    key = start
    while (parent := tree.parent(*key)) is not None:
        if tree.subtree_quota(*key, cell) <= tree.local_quota(*key, cell):
            return False
        above: Key = ("Cohort", parent)
        if borrowers.takers(above, cell) > (cell in borrowers.cells[key]):
            return True
        key = above
    return False


def _idle_limits(tree: QuotaTree) -> Iterator[Problem]:
    for key in tree:
        causes: dict[str, list[FlavorResource]] = defaultdict(list)
        for cell, quota in tree.node(*key).cells.items():
            for cause in _causes(tree, key, cell, quota):
                causes[cause].append(cell)
        for cause in sorted(causes):
            yield Problem("limit_never_binds", cause, (_thing(key),), tuple(causes[cause]))


def _causes(tree: QuotaTree, key: Key, cell: FlavorResource, quota: Cell) -> Iterator[str]:
    if tree.leads_to_cycle(*key):
        return
    parent = tree.parent(*key)
    if parent is None:
        if quota.borrowing_limit is not None or quota.lending_limit is not None:
            yield "no_cohort"
        return
    own = tree.subtree_quota(*key, cell)
    if quota.borrowing_limit is not None:
        most = tree.local_quota(*key, cell) + tree.potential_available("Cohort", parent, cell)
        if own + quota.borrowing_limit > most:
            yield "borrowing"
    if quota.lending_limit is not None and own and quota.lending_limit >= own:
        yield "lending"


# ---- work that its queue can never hold -----------------------------------------------------------------------


def _too_large(facts: Facts) -> Iterator[Problem]:
    """One problem per LocalQueue, with its work. A pod set takes one flavor, so each is held against the largest
    ceiling."""
    ceilings = _Ceilings(facts.tree)
    found: dict[tuple[str, str, str], list[Ask]] = defaultdict(list)
    resources: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for ask in facts.asks:
        beyond = {
            resource
            for pods in ask.pod_sets
            for resource, amount in pods.items()
            if amount > ceilings.of(ask.queue, resource, amount)
        }
        if beyond:
            place = (ask.queue, ask.namespace, ask.local_queue)
            found[place].append(ask)
            resources[place] |= beyond
    for place in sorted(found):
        asks = sorted(found[place], key=lambda ask: ask.name)
        work = (Thing("Workload", ask.namespace, ask.name) for ask in asks)
        objects = (_queue(place[0]), Thing("LocalQueue", *place[1:]), *work)
        values = {"n": str(len(asks)), "names": ", ".join(sorted(resources[place])), "first": asks[0].name}
        yield Problem("larger_than_ceiling", "", objects, values=values, count=len(asks))


class _Ceilings:
    """Per queue and resource the largest ceiling over the flavors that it lists, worked out once."""

    def __init__(self, tree: QuotaTree) -> None:
        self._tree = tree
        self._known: dict[str, dict[str, Decimal]] = {}

    def of(self, queue: str, resource: str, otherwise: Decimal) -> Decimal:
        """`otherwise` for a queue that is not there or does not list the resource: not judged."""
        key: Key = ("ClusterQueue", queue)
        if key not in self._tree:
            return otherwise
        if queue not in self._known:
            most: dict[str, Decimal] = {}
            for cell in self._tree.node(*key).cells:
                ceiling = self._tree.potential_available(*key, cell)
                most[cell[1]] = max(most.get(cell[1], ceiling), ceiling)
            self._known[queue] = most
        return self._known[queue].get(resource, otherwise)


# ---- Volcano --------------------------------------------------------------------------------------------------


def _volcano(name: str) -> Thing:
    return Thing("VolcanoQueue", "", name)


def _above(queues: Mapping[str, VolcanoFacts], name: str) -> Iterator[str]:
    """Queues above this one, nearest first; a circle ends the walk."""
    seen, parent = {name}, queues[name].parent
    while parent in queues and parent not in seen:
        yield parent
        seen.add(parent)
        parent = queues[parent].parent


def _volcano_states(queues: Mapping[str, VolcanoFacts]) -> Iterator[Problem]:
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


_SHUT = frozenset(("Closed", "Closing"))


def _volcano_sums(queues: Mapping[str, VolcanoFacts]) -> Iterator[Problem]:
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
            values = {"resource": resource, "sum": _text(sums[resource]), "own": _text(own.get(resource))}
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
                    "sum": _text(amount),
                    "own": _text(limit),
                    "above": above,
                }
                objects = (_volcano(name), _volcano(above))
                yield Problem(
                    "volcano_children_over_parent", "capability", objects, (("", resource),), values
                )
            break


def _text(amount: Decimal | None) -> str:
    """ "" for what is not set."""
    return "" if amount is None else format(amount.normalize(), "f")


# ---- what the queue says of itself ----------------------------------------------------------------------------


def _differs(facts: Facts) -> Iterator[Problem]:
    for kind, name in sorted(facts.said):
        counted = facts.counted.get((kind, name), {})
        cells = tuple(
            cell for cell, amount in facts.said[kind, name].items() if amount != counted.get(cell, ZERO)
        )
        if cells:
            first = cells[0]
            values = {
                "said": _text(facts.said[kind, name][first]),
                "counted": _text(counted.get(first, ZERO)),
                "resource": first[1],
            }
            yield Problem("status_differs", "", (Thing(kind, "", name),), cells, values)
