"""Kueue's quota arithmetic, once. Input: queues and cohorts with their quota, and what each queue holds;
output: the numbers that admission decides by. Pure: no Django, no clock, Decimal only.

Formulas (Kueue `pkg/cache/scheduler/resource_node.go`), per (flavor, resource) and node n:
  subtree(queue) = nominal; subtree(cohort) = own nominal + Σ children (subtree − local)
  local(n)       = lending limit set ? max(0, subtree − lending limit) : 0     what is never lent upward
  usage(cohort)  = Σ children max(0, usage − local)
  available(n)   = max(0, local − usage) + min(available(parent),
                     [borrowing limit] subtree − local − max(0, usage − local) + limit);  root: subtree − usage
  potential(n)   = min(local + potential(parent), [borrowing limit] subtree + limit);     root: subtree
  whole(n)       = potential(n) + Σ local over all nodes below n                          ours, see `subtree_ceiling`

Invariants
- A queue and a cohort may share a name: nodes are keyed by (kind, name). A cohort that only queues or other
  cohorts name has no object and is a node without quota of its own.
- A cohort cycle is named in `cycles` and not followed: its members stand as roots, and `leads_to_cycle` says
  which nodes Kueue will not serve because of it.
- Lowering quota evicts nothing, so `available` may be negative; nothing here clamps it.
- A stopped queue's quota counts as it does in Kueue's scheduler; `without_stopped` shows what is left without.
- Kueue only tries flavors that the queue lists: ask `lists` before `available` or `potential_available`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal

from apps.quotas.tree_loans import Loan, lending, loans, spread, taken
from apps.quotas.tree_model import EMPTY, ZERO, Cell, FlavorResource, Key, Kind, NodeState, QuotaNode
from apps.quotas.tree_shares import DominantShare, dominant_share

__all__ = [
    "ZERO",
    "Cell",
    "DominantShare",
    "FlavorResource",
    "Key",
    "Kind",
    "Loan",
    "QuotaNode",
    "QuotaTree",
    "spread",
]


class QuotaTree:
    """All queues and cohorts of one cluster; usage can be moved with `add_usage` and every number follows."""

    def __init__(
        self, nodes: Iterable[QuotaNode], usage: Mapping[str, Mapping[FlavorResource, Decimal]] | None = None
    ) -> None:
        self._states: dict[Key, NodeState] = {}
        for node in sorted(nodes, key=lambda item: (item.kind, item.name)):
            key: Key = (node.kind, node.name)
            if key in self._states:
                raise ValueError(f"{node.kind} {node.name} is given twice")
            self._states[key] = NodeState(node, ("Cohort", node.parent) if node.parent else None)
        self._given = frozenset(self._states)
        self._add_implicit_cohorts()
        self.cycles: tuple[tuple[str, ...], ...] = self._cut_cycles()
        for key in sorted(self._states):
            parent = self._states[key].parent
            if parent:
                self._states[parent].children.append(key)
        self._lent: dict[tuple[Key, FlavorResource], dict[Key, Decimal]] = {}
        self._heights: dict[str, int] = {}
        self._fill_quota()
        self.orphan_usage: dict[str, dict[FlavorResource, Decimal]] = {}
        for queue, held in (usage or {}).items():
            if ("ClusterQueue", queue) in self._states:
                self.add_usage(queue, held)
            else:
                self.orphan_usage[queue] = dict(held)

    # ---- building -----------------------------------------------------------------------------------------

    def _add_implicit_cohorts(self) -> None:
        named = {state.parent for state in self._states.values() if state.parent}
        for key in named - self._states.keys():
            self._states[key] = NodeState(QuotaNode(key[1], "Cohort", None, {}), None)

    def _cut_cycles(self) -> tuple[tuple[str, ...], ...]:
        """Find cohort cycles by walking up from every cohort once; make the members roots."""
        settled: set[Key] = set()
        cycles: list[tuple[str, ...]] = []
        for start in sorted(self._states):
            path: list[Key] = []
            seen: set[Key] = set()
            key: Key | None = start
            while key is not None and key not in settled and key not in seen:
                path.append(key)
                seen.add(key)
                key = self._states[key].parent
            if key is not None and key in seen:
                ring = [member[1] for member in path[path.index(key) :]]
                turn = ring.index(min(ring))
                cycles.append(tuple(ring[turn:] + ring[:turn]))
            settled.update(path)
        for ring_names in cycles:
            for name in ring_names:
                self._states["Cohort", name].parent = None
        self._cyclic: frozenset[str] = frozenset(name for ring_names in cycles for name in ring_names)
        return tuple(sorted(cycles))

    def _bottom_up(self) -> Iterator[Key]:
        """Every node after its children, without recursion (depth is the user's to choose)."""
        stack = [(key, False) for key in reversed(self.roots)]
        while stack:
            key, expanded = stack.pop()
            if expanded:
                yield key
                continue
            stack.append((key, True))
            stack.extend((child, False) for child in reversed(self._states[key].children))

    def _fill_quota(self) -> None:
        for key in self._bottom_up():
            state = self._states[key]
            sums = {fr: cell.nominal for fr, cell in state.node.cells.items()}
            for child_key in state.children:
                child = self._states[child_key]
                for fr, quota in child.subtree.items():
                    home = child.local.get(fr, ZERO)
                    sums[fr] = sums.get(fr, ZERO) + quota - home
                    state.kept[fr] = state.kept.get(fr, ZERO) + home + child.kept.get(fr, ZERO)
            state.subtree = sums
            for fr, cell in state.node.cells.items():
                if cell.lending_limit is not None:
                    state.local[fr] = max(ZERO, sums[fr] - cell.lending_limit)

    # ---- shape --------------------------------------------------------------------------------------------

    @property
    def roots(self) -> tuple[Key, ...]:
        """Nodes without a parent, in order; members of a cycle among them."""
        return tuple(key for key in sorted(self._states) if self._states[key].parent is None)

    @property
    def flavor_resources(self) -> tuple[FlavorResource, ...]:
        """Every (flavor, resource) that any node quotes or any queue holds."""
        found: set[FlavorResource] = set()
        for state in self._states.values():
            found.update(state.node.cells, state.usage)
        return tuple(sorted(found))

    def __contains__(self, key: object) -> bool:
        return key in self._states

    def __iter__(self) -> Iterator[Key]:
        return iter(sorted(self._states))

    def node(self, kind: Kind, name: str) -> QuotaNode:
        return self._states[kind, name].node

    def parent(self, kind: Kind, name: str) -> str | None:
        """The cohort above, None at a root (also where a cycle was cut)."""
        parent = self._states[kind, name].parent
        return parent[1] if parent else None

    def children(self, kind: Kind, name: str) -> tuple[Key, ...]:
        return tuple(self._states[kind, name].children)

    def root_of(self, kind: Kind, name: str) -> Key:
        return self._path(kind, name)[-1]

    def below(self, kind: Kind, name: str) -> Iterator[Key]:
        """The node and everything below it: of a root, the only nodes whose numbers a change inside can move."""
        stack: list[Key] = [(kind, name)]
        while stack:
            key = stack.pop()
            yield key
            stack.extend(self._states[key].children)

    def leads_to_cycle(self, kind: Kind, name: str) -> bool:
        """Kueue does not serve queues whose way up is a circle."""
        root_kind, root_name = self.root_of(kind, name)
        return root_kind == "Cohort" and root_name in self._cyclic

    def cell(self, kind: Kind, name: str, fr: FlavorResource) -> Cell | None:
        """The node's own quota; None when it does not list this flavor and resource."""
        return self._states[kind, name].node.cells.get(fr)

    def lists(self, kind: Kind, name: str, fr: FlavorResource) -> bool:
        return fr in self._states[kind, name].node.cells

    def _path(self, kind: Kind, name: str) -> list[Key]:
        """The node and its ancestors, root last."""
        path: list[Key] = [(kind, name)]
        while parent := self._states[path[-1]].parent:
            path.append(parent)
        return path

    # ---- numbers ------------------------------------------------------------------------------------------

    def subtree_quota(self, kind: Kind, name: str, fr: FlavorResource) -> Decimal:
        return self._states[kind, name].subtree.get(fr, ZERO)

    def local_quota(self, kind: Kind, name: str, fr: FlavorResource) -> Decimal:
        return self._states[kind, name].local.get(fr, ZERO)

    def usage(self, kind: Kind, name: str, fr: FlavorResource) -> Decimal:
        return self._states[kind, name].usage.get(fr, ZERO)

    def available(self, kind: Kind, name: str, fr: FlavorResource) -> Decimal:
        """What could be admitted now without preemption; negative when the quota is over-used."""
        path = self._path(kind, name)
        root = self._states[path[-1]]
        free = root.subtree.get(fr, ZERO) - root.usage.get(fr, ZERO)
        for key in reversed(path[:-1]):
            state = self._states[key]
            local, used = state.local.get(fr, ZERO), state.usage.get(fr, ZERO)
            limit = state.node.cells.get(fr, EMPTY).borrowing_limit
            if limit is not None:
                stored = state.subtree.get(fr, ZERO) - local
                free = min(free, stored - max(ZERO, used - local) + limit)
            free += max(ZERO, local - used)
        return free

    def potential_available(self, kind: Kind, name: str, fr: FlavorResource) -> Decimal:
        """The ceiling: what the node could hold if nobody else held anything."""
        path = self._path(kind, name)
        most = self._states[path[-1]].subtree.get(fr, ZERO)
        for key in reversed(path[:-1]):
            state = self._states[key]
            most += state.local.get(fr, ZERO)
            limit = state.node.cells.get(fr, EMPTY).borrowing_limit
            if limit is not None:
                most = min(most, state.subtree.get(fr, ZERO) + limit)
        return most

    def subtree_ceiling(self, kind: Kind, name: str, fr: FlavorResource) -> Decimal:
        """The most that all queues at or below the node may hold together. Kueue's potential of a cohort only knows
        what reaches the cohort; quota that a node below never lends is held beside it, each part by its node
        alone. At a root this is the plain sum of all nominal quota; borrowing limits below may leave some of it
        out of reach. A queue's is its potential."""
        return self.potential_available(kind, name, fr) + self._states[kind, name].kept.get(fr, ZERO)

    def local_available(self, kind: Kind, name: str, fr: FlavorResource) -> Decimal:
        """Unused quota that is never lent upward."""
        return max(ZERO, self.local_quota(kind, name, fr) - self.usage(kind, name, fr))

    def height(self, kind: Kind, name: str) -> int:
        """Steps down to the furthest queue: 0 for a queue, 1 for a cohort that has only queues below it."""
        if kind == "ClusterQueue":
            return 0
        found = self._heights.get(name)
        if found is None:
            children = self._states[kind, name].children
            found = max((self.height(*child) + 1 for child in children), default=0)
            self._heights[name] = found
        return found

    def borrowed(self, kind: Kind, name: str, fr: FlavorResource) -> Decimal:
        """Held beyond the own subtree's quota; 0 without a cohort above, where there is nobody to borrow from."""
        state = self._states[kind, name]
        return state.beyond(fr) if state.parent else ZERO

    def over(self, kind: Kind, name: str, fr: FlavorResource) -> Decimal:
        """Held beyond the ceiling: legal after a quota was lowered, since nothing is evicted."""
        return max(ZERO, self.usage(kind, name, fr) - self.potential_available(kind, name, fr))

    def lent(self, kind: Kind, name: str, fr: FlavorResource) -> Decimal:
        """The node's own unused quota that others hold, laid as apps/quotas/tree_loans.py says."""
        return self._lending(self.root_of(kind, name), fr)[kind, name]

    def taken(self, cohort: str, fr: FlavorResource) -> Decimal:
        """The part of a cohort's own quota that is held, by the same rule as `lent`."""
        key: Key = ("Cohort", cohort)
        return taken(self._states, key, fr, self._lending(self.root_of(*key), fr))

    def loans(self, fr: FlavorResource) -> tuple[Loan, ...]:
        """Who holds whose quota, laid as `lent` and `taken` are: Σ over a lender is its `lent` (a queue) or
        `taken` (a cohort); Σ over all is what queues borrow less what roots are over. By lender, then borrower."""
        lent = {key: amount for root in self.roots for key, amount in self._lending(root, fr).items()}
        return loans(self._states, self._bottom_up(), fr, lent)

    def _lending(self, root: Key, fr: FlavorResource) -> dict[Key, Decimal]:
        if (found := self._lent.get((root, fr))) is None:
            found = self._lent[root, fr] = lending(self._states, root, fr)
        return found

    def weighted_share(self, kind: Kind, name: str) -> Decimal | None:
        """Dominant resource share in per mille of what the parent could lend, divided by the fair weight (Kueue
        shows it rounded up). Infinity for a borrower of weight 0; None where a cycle leaves it undefined."""
        if self.leads_to_cycle(kind, name):
            return None
        return self.dominant_share(kind, name).weighted

    def dominant_share(self, kind: Kind, name: str) -> DominantShare:
        """The share that fair sharing compares, before it is weighted; of a root it is 0."""
        state = self._states[kind, name]
        parent = state.parent
        if parent is None:
            return DominantShare(ZERO, state.node.fair_weight)
        offered = self._states[self.root_of(kind, name)].subtree
        return dominant_share(state, offered, lambda fr: self.potential_available(*parent, fr))

    def without_stopped(self) -> QuotaTree:
        """The same tree with the quota of stopped queues taken out: the difference is what hangs on them."""
        usage = {key[1]: state.usage for key, state in self._states.items() if key[0] == "ClusterQueue"}
        nodes = [
            replace(state.node, cells=dict.fromkeys(state.node.cells, EMPTY))
            if state.node.stopped
            else state.node
            for state in self._states.values()
        ]
        return QuotaTree(nodes, usage)

    # ---- moving usage -------------------------------------------------------------------------------------

    def add_usage(self, queue: str, delta: Mapping[FlavorResource, Decimal]) -> None:
        """Add (or, negative, take off) held quota; costs the queue's depth, not the tree's size."""
        for fr, amount in delta.items():
            key: Key | None = ("ClusterQueue", queue)
            change = amount
            while key is not None and change:
                state = self._states[key]
                before, local = state.usage.get(fr, ZERO), state.local.get(fr, ZERO)
                after = before + change
                state.usage[fr] = after
                change = max(ZERO, after - local) - max(ZERO, before - local)
                key = state.parent
            self._lent.pop((self.root_of("ClusterQueue", queue), fr), None)

    # ---- changing a spec ----------------------------------------------------------------------------------

    def replace_node(self, node: QuotaNode) -> None:
        """Take a node's new spec. Under the same parent this costs the node's depth; a new node, or one that
        moves, costs the whole tree, since cycles and implicit cohorts may come and go with it."""
        key: Key = (node.kind, node.name)
        if key not in self._given or self._states[key].node.parent != node.parent:
            self._rebuild({**self._nodes(), key: node})
            return
        old = self._states[key].node
        self._states[key].node = node
        for fr in old.cells.keys() | node.cells.keys():
            if old.cells.get(fr) != node.cells.get(fr):
                self._refresh(key, fr)

    def remove_node(self, kind: Kind, name: str) -> None:
        """Take a node out; what a removed queue held stays as `orphan_usage`. Costs the whole tree."""
        nodes = self._nodes()
        del nodes[kind, name]
        self._rebuild(nodes)

    def _nodes(self) -> dict[Key, QuotaNode]:
        return {key: self._states[key].node for key in self._given}

    def _rebuild(self, nodes: Mapping[Key, QuotaNode]) -> None:
        held = {key[1]: state.usage for key, state in self._states.items() if key[0] == "ClusterQueue"}
        fresh = QuotaTree(nodes.values(), {**self.orphan_usage, **held})
        self.__dict__.update(fresh.__dict__)

    def _refresh(self, changed: Key, fr: FlavorResource) -> None:
        """Carry one cell's new quota up: each node above takes the difference of what the node below passes on."""
        key: Key | None = changed
        quota = usage = kept = ZERO  # differences, from the node below
        while key is not None:
            state = self._states[key]
            cell = state.node.cells.get(fr)
            was = state.subtree.get(fr, ZERO), state.local.get(fr, ZERO)
            held, home = state.usage.get(fr, ZERO), state.kept.get(fr, ZERO)
            if key == changed:
                # The old nominal is in `was`; what the children pass on is the rest, read anew for this cell only.
                passed = (self._states[child] for child in state.children)
                total = sum((each.subtree.get(fr, ZERO) - each.local.get(fr, ZERO) for each in passed), ZERO)
                total += cell.nominal if cell else ZERO
            else:
                total = was[0] + quota
            limit = cell.lending_limit if cell else None
            local = max(ZERO, total - limit) if limit is not None else ZERO
            state.subtree[fr], state.local[fr] = total, local
            state.usage[fr], state.kept[fr] = held + usage, home + kept
            if cell is None and not any(fr in self._states[child].subtree for child in state.children):
                del state.subtree[fr]
            quota = (total - local) - (was[0] - was[1])
            usage = max(ZERO, held + usage - local) - max(ZERO, held - was[1])
            kept += local - was[1]
            key = state.parent
        self._lent.pop((self.root_of(*changed), fr), None)
