"""What the engine remembers while it works: the tree with what is held, the work of each queue, and what follows from
the specs. Input: a Situation; output: `Books`. Invariants: a holder's amounts are in the tree exactly once; `trial`
leaves everything as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal

from apps.quotas.engine.budget import Budget
from apps.quotas.engine.eligible import why_not
from apps.quotas.engine.model import (
    ZERO,
    Assigned,
    Flavor,
    Group,
    Placement,
    PodSet,
    Queue,
    Reason,
    Situation,
    Work,
)
from apps.quotas.tree import FlavorResource, Key, QuotaTree

Amounts = Mapping[FlavorResource, Decimal]
Tried = tuple[Mapping[str, int], ...]
"""Per pod set, by resource: the last flavor that was tried, -1 when the next attempt starts over."""


@dataclass(slots=True)
class Holder:
    """A piece of work that has quota reserved. `evicted`: it was told to go and still holds it."""

    work: Work
    assigned: Mapping[str, Assigned]
    held: dict[FlavorResource, Decimal]
    reserved_at: float
    evicted: bool = False


def held_by(assigned: Mapping[str, Assigned]) -> dict[FlavorResource, Decimal]:
    """Amounts by (flavor, resource) over all pod sets."""
    total: dict[FlavorResource, Decimal] = {}
    for part in assigned.values():
        for resource, flavor in part.flavors.items():
            total[flavor, resource] = total.get((flavor, resource), ZERO) + part.amounts.get(resource, ZERO)
    return total


@dataclass(slots=True)
class Books:
    """`generation`: by queue, how often quota was given back there: what was tried before counts no more.
    `placement`: whether pods find nodes, where somebody knows; `budget`: how long a search may go on;
    `equals`: by queue, who comes first of heads that are equal in all that orders them; Kueue leaves that open, here it
    is the uid unless something is said."""

    queues: dict[str, Queue]
    flavors: Mapping[str, Flavor]
    tree: QuotaTree
    fair: bool
    fair_strategies: tuple[str, ...]
    now: float = 0.0
    equals: Mapping[str, int] = field(default_factory=dict)
    placement: Placement | None = None
    budget: Budget = field(default_factory=Budget)
    holders: dict[str, dict[str, Holder]] = field(default_factory=dict)
    by_uid: dict[str, Holder] = field(default_factory=dict)
    generation: dict[str, int] = field(default_factory=dict)
    moves: dict[FlavorResource, int] = field(default_factory=dict)
    """By cell, how often somebody took it, gave it back or was told to go."""
    _keys: dict[tuple[str, ...], frozenset[str]] = field(default_factory=dict)
    _why_not: dict[tuple[int, str, tuple[str, ...]], tuple[PodSet, Reason | None]] = field(
        default_factory=dict
    )
    _looked_at: dict[tuple[object, ...], tuple[tuple[PodSet, ...], tuple[FlavorResource, ...]]] = field(
        default_factory=dict
    )
    _ceilings: dict[tuple[str, FlavorResource], Decimal] = field(default_factory=dict)
    _paths_up: dict[str, tuple[Key, ...]] = field(default_factory=dict)
    _queues_below: dict[Key, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, situation: Situation) -> Books:
        queues = {queue.name: queue for queue in situation.queues}
        tree = QuotaTree([*(queue.node for queue in situation.queues), *situation.cohorts])
        books = cls(queues, situation.flavors, tree, situation.fair_sharing, situation.fair_strategies)
        books.holders = {name: {} for name in queues}
        books.generation = dict.fromkeys(queues, 1)
        for work in situation.work:
            if work.holds is not None and work.queue in queues:
                books.hold(work, work.holds, work.reserved_at)
        return books

    def respecified(self, situation: Situation) -> Books:
        """The same work in queues, cohorts and flavors as they are now; what was tried before counts no more. A queue
        that is gone must be empty."""
        made = Books.of(replace(situation, work=()))
        made.now, made.equals, made.placement, made.budget = (
            self.now,
            self.equals,
            self.placement,
            self.budget,
        )
        made.generation = {name: self.generation.get(name, 0) + 1 for name in made.queues}
        for holder in self.by_uid.values():
            again = made.hold(holder.work, holder.assigned, holder.reserved_at)
            again.evicted = holder.evicted
        return made

    # ---- holding ------------------------------------------------------------------------------------------

    def hold(self, work: Work, assigned: Mapping[str, Assigned], reserved_at: float) -> Holder:
        holder = Holder(work, assigned, held_by(assigned), reserved_at)
        self.holders[work.queue][work.uid] = self.by_uid[work.uid] = holder
        self.tree.add_usage(work.queue, holder.held)
        self._moved(holder)
        return holder

    def send_away(self, holder: Holder) -> None:
        """It is told to go, and keeps its quota until it is gone."""
        holder.evicted = True
        self._moved(holder)

    def _moved(self, holder: Holder) -> None:
        for fr in holder.held:
            self.moves[fr] = self.moves.get(fr, 0) + 1

    def moves_seen(self, work: Work) -> int:
        """Grows whenever something changes that an attempt to admit the work looks at, as long as the specs stay."""
        key = (work.queue, *(id(pod_set) for pod_set in work.pod_sets))
        known = self._looked_at.get(key)
        if known is None or any(a is not b for a, b in zip(known[0], work.pod_sets, strict=True)):
            known = self._looked_at[key] = (work.pod_sets, self._cells_looked_at(work))
        return sum(self.moves.get(fr, 0) for fr in known[1])

    def _cells_looked_at(self, work: Work) -> tuple[FlavorResource, ...]:
        """Of the flavors that suit any of its pods."""
        cells: dict[FlavorResource, None] = {}
        for pod_set in work.pod_sets:
            for group in self.queues[work.queue].groups:
                wanted = [resource for resource in group.covered if resource in (*pod_set.requests, "pods")]
                for flavor in group.flavors if wanted else ():
                    if self.why_not(flavor, pod_set, group) is None:
                        cells |= dict.fromkeys((flavor, resource) for resource in wanted)
        return tuple(cells)

    def give_back(self, uid: str) -> Holder:
        holder = self.by_uid.pop(uid)
        queue = holder.work.queue
        del self.holders[queue][uid]
        self._moved(holder)
        self.lift(holder)
        self.generation[queue] += 1
        return holder

    def lift(self, holder: Holder) -> None:
        """Take its amounts off the tree, only."""
        self.tree.add_usage(holder.work.queue, {fr: -amount for fr, amount in holder.held.items()})

    def lay(self, holder: Holder) -> None:
        """Put them back."""
        self.tree.add_usage(holder.work.queue, holder.held)

    @contextmanager
    def trial(self, queue: str, amounts: Amounts) -> Iterator[None]:
        """With more held in a queue, for the time of a look."""
        self.tree.add_usage(queue, amounts)
        try:
            yield
        finally:
            self.tree.add_usage(queue, {fr: -amount for fr, amount in amounts.items()})

    @contextmanager
    def without(self, holders: Iterable[Holder]) -> Iterator[None]:
        """With some work gone, for the time of a look."""
        gone = list(holders)
        for holder in gone:
            self.lift(holder)
        try:
            yield
        finally:
            for holder in gone:
                self.lay(holder)

    # ---- numbers as Kueue's snapshot gives them -------------------------------------------------------------

    def available(self, queue: str, fr: FlavorResource) -> Decimal:
        return max(ZERO, self.tree.available("ClusterQueue", queue, fr))

    def nominal(self, queue: str, fr: FlavorResource) -> Decimal:
        return self.tree.subtree_quota("ClusterQueue", queue, fr)

    def beyond(self, key: Key, fr: FlavorResource, more: Decimal = ZERO) -> bool:
        """Whether a node would hold more than its subtree's quota."""
        return self.tree.usage(*key, fr) + more > self.tree.subtree_quota(*key, fr)

    def within_nominal(self, key: Key, cells: Iterable[FlavorResource]) -> bool:
        return not any(self.beyond(key, fr) for fr in cells)

    def ceiling(self, queue: str, fr: FlavorResource) -> Decimal:
        found = self._ceilings.get((queue, fr))
        if found is None:
            found = self.tree.potential_available("ClusterQueue", queue, fr)
            self._ceilings[queue, fr] = found
        return found

    def path_up(self, queue: str) -> Sequence[Key]:
        """The cohorts above a queue, root last."""
        found = self._paths_up.get(queue)
        if found is None:
            path: list[Key] = []
            parent = self.tree.parent("ClusterQueue", queue)
            while parent is not None:
                path.append(("Cohort", parent))
                parent = self.tree.parent("Cohort", parent)
            found = self._paths_up[queue] = tuple(path)
        return found

    def has_parent(self, key: Key) -> bool:
        return self.tree.parent(*key) is not None

    def queues_below(self, key: Key) -> tuple[str, ...]:
        """Names of all queues at or below a node, in order."""
        found = self._queues_below.get(key)
        if found is None:
            if key[0] == "ClusterQueue":
                found = (key[1],)
            else:
                below = (self.queues_below(child) for child in self.tree.children(*key))
                found = tuple(sorted(name for names in below for name in names))
            self._queues_below[key] = found
        return found

    def fits(self, queue: str, amounts: Amounts) -> bool:
        return all(amount <= self.available(queue, fr) for fr, amount in amounts.items())

    def height_that_fits(self, queue: str, fr: FlavorResource, amount: Decimal) -> tuple[int, bool]:
        """(height of the lowest subtree whose own quota takes `amount` more, whether it is smaller than the whole
        tree). Height 0: the queue's own quota."""
        key: Key = ("ClusterQueue", queue)
        if not self.beyond(key, fr, amount) or not self.has_parent(key):
            return 0, self.has_parent(key)
        left = amount - self.tree.local_available(*key, fr)
        path = self.path_up(queue)
        for node in path:
            if not self.beyond(node, fr, left):
                return self.tree.height(*node), self.has_parent(node)
            left -= self.tree.local_available(*node, fr)
        return self.tree.height(*path[-1]), False

    # ---- flavors ------------------------------------------------------------------------------------------

    def group_of(self, queue: str, resource: str) -> Group | None:
        return next((group for group in self.queues[queue].groups if resource in group.covered), None)

    def why_not(self, flavor: str, pod_set: PodSet, group: Group) -> Reason | None:
        """Why the flavor is not for these pods; remembered per pod set, since specs stay as they are."""
        key = (id(pod_set), flavor, group.flavors)
        known = self._why_not.get(key)
        if known is None or known[0] is not pod_set:
            spec = self.flavors.get(flavor)
            missing = Reason("NoMatchingFlavor", pod_set.name, flavor)
            known = (pod_set, why_not(spec, pod_set, self._label_keys(group)) if spec else missing)
            self._why_not[key] = known
        return known[1]

    def _label_keys(self, group: Group) -> frozenset[str]:
        found = self._keys.get(group.flavors)
        if found is None:
            named = (self.flavors[name].node_labels for name in group.flavors if name in self.flavors)
            found = frozenset(key for labels in named for key in labels)
            self._keys[group.flavors] = found
        return found
