"""What does not fit in a cluster's quota. Input: `Facts`, plain values and the quota tree; output: `Problem`s.

A problem names what it is about first and gives its values; the words are apps/findings' matter. What rests on what
nodes offer (more promised than there is, flavors that no node carries, units that differ by node) is told by
apps/capacity/notes_quota.py and is not repeated here.

Invariants: pure; each check is linear in nodes × (flavor, resource) and depth; what was not collected (None) is not
judged; the same facts give the same problems in the same order; amounts are Decimal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal

from apps.core.label_selector import selects
from apps.quotas.lint_model import Ask, Facts, Problem, QueueFacts, Thing, plain_text
from apps.quotas.lint_volcano import volcano_problems
from apps.quotas.tree import Cell, FlavorResource, Key, QuotaTree

ZERO = Decimal(0)
# Amounts of one resource in one cohort tree this far apart are not written in one unit ("1" beside "20096Mi"): nobody
# lends a millionth.
UNITS_APART = Decimal(1_000_000)


def lint(facts: Facts) -> list[Problem]:
    """Every problem of a cluster, in the order of the checks, then of names."""
    return [
        *_cycles(facts.tree),
        *_never_admits(facts),
        *_nowhere(facts),
        *_unreachable(facts.tree),
        *_idle_limits(facts.tree),
        *_units(facts.tree),
        *_too_large(facts),
        *volcano_problems(facts.volcano),
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
        elif facts.namespaces is not None and not any(
            selects(said.selector, labels) for labels in facts.namespaces.values()
        ):
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
    return [key for root in tree.roots for key in tree.below(*root)][::-1]


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


def _units(tree: QuotaTree) -> Iterator[Problem]:
    """One problem per tree and resource, with the nodes of the smallest and the largest amount in a flavor."""
    least: dict[tuple[Key, FlavorResource], tuple[Decimal, Key]] = {}
    most: dict[tuple[Key, FlavorResource], tuple[Decimal, Key]] = {}
    for root in tree.roots:
        for key in tree.below(*root):
            for cell, quota in tree.node(*key).cells.items():
                if quota.nominal:
                    place, amount = (root, cell), (quota.nominal, key)
                    least[place] = min(least.get(place, amount), amount)
                    most[place] = max(most.get(place, amount), amount)
    told: set[tuple[Key, str]] = set()
    for root, cell in sorted(least):
        small, large = least[root, cell], most[root, cell]
        if large[0] >= UNITS_APART * small[0] and (root, cell[1]) not in told:
            told.add((root, cell[1]))
            objects = tuple(dict.fromkeys(map(_thing, (root, small[1], large[1]))))
            values = {
                "resource": cell[1],
                "small": plain_text(small[0]),
                "large": plain_text(large[0]),
                "one": small[1][1],
                "other": large[1][1],
            }
            yield Problem("unit_mismatch", "size", objects, (cell,), values)


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
                "said": plain_text(facts.said[kind, name][first]),
                "counted": plain_text(counted.get(first, ZERO)),
                "resource": first[1],
            }
            yield Problem("status_differs", "", (Thing(kind, "", name),), cells, values)
