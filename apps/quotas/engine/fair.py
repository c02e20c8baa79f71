"""Fair sharing: whose turn it is in a cycle, and who has to go so that shares come closer. Input: the books; nothing is
changed. Shares are compared at the children of the lowest common cohort; see `QuotaTree.dominant_share`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol, TypeVar

from apps.quotas.engine.books import Books, Holder
from apps.quotas.engine.model import Work
from apps.quotas.engine.preempt import Request, Victim, allows, fill_back, request_fits, uses, victim_order
from apps.quotas.tree import DominantShare, FlavorResource, Key


class Entry(Protocol):
    """A head that takes part in a cycle."""

    @property
    def work(self) -> Work: ...
    @property
    def amounts(self) -> Mapping[FlavorResource, Decimal]: ...


E = TypeVar("E", bound=Entry)


# ---- whose turn it is -----------------------------------------------------------------------------------------------


def next_by_share(books: Books, root: Key, entries: Mapping[str, E]) -> E:
    """The entry of the tree below `root` that comes next: at each level the child that would be least over its share with
    its entry admitted; who stays within its quota in what it asks for comes first. `entries`: by queue."""
    if root[0] == "ClusterQueue":
        return entries[root[1]]
    shares: dict[tuple[Key, str], DominantShare] = {}
    for queue in books.queues_below(root):
        if queue in entries:
            _note_shares(books, queue, entries[queue], shares)
    found = _winner(books, root, entries, shares)
    if found is None:
        raise ValueError(f"no entry below {root}")
    return found


def _note_shares(
    books: Books, queue: str, entry: Entry, shares: dict[tuple[Key, str], DominantShare]
) -> None:
    """By (cohort, queue): the share of the cohort's child on the way to the queue, with the entry admitted."""
    books.budget.spend()
    with books.trial(queue, entry.amounts):
        share = books.tree.dominant_share("ClusterQueue", queue)
        for cohort in books.path_up(queue):
            shares[cohort, queue] = share
            share = books.tree.dominant_share(*cohort)


def _winner(
    books: Books, cohort: Key, entries: Mapping[str, E], shares: Mapping[tuple[Key, str], DominantShare]
) -> E | None:
    best: tuple[tuple[object, ...], E] | None = None
    for child in books.tree.children(*cohort):
        found = (
            entries.get(child[1]) if child[0] == "ClusterQueue" else _winner(books, child, entries, shares)
        )
        if found is None:
            continue
        share = shares[cohort, found.work.queue]
        borrows = any(found.amounts.get(fr, 0) > 0 for fr in share.borrowed)
        work = found.work
        rank = (borrows, share.rank, -work.priority, work.queued, books.equals.get(work.queue, 0), work.uid)
        if best is None or rank < best[0]:
            best = (rank, found)
    return best[1] if best else None


# ---- who has to go --------------------------------------------------------------------------------------------------


def fair_victims(books: Books, request: Request) -> list[Victim]:
    """[] when nobody, or not enough, may go."""
    candidates = sorted(_candidates(books, request), key=victim_order(request.work.queue))
    if not candidates:
        return []
    return _FairSearch(books, request, candidates).run()


def _candidates(books: Books, request: Request) -> Iterator[Holder]:
    queue, policy = request.work.queue, books.queues[request.work.queue].policy
    root = books.tree.root_of("ClusterQueue", queue)
    for name in books.queues_below(root):
        rule = policy.within_cluster_queue if name == queue else policy.reclaim_within_cohort
        if rule == "Never":
            continue
        if name != queue and books.within_nominal(("ClusterQueue", name), request.cells):
            continue
        for holder in books.holders[name].values():
            if uses(holder, request.cells) and allows(rule, request.work, holder.work):
                yield holder


@dataclass(slots=True)
class _FairSearch:
    """One search. While it runs the request is laid on the tree, so that shares include it."""

    books: Books
    request: Request
    candidates: list[Holder]
    taken: list[Victim] = field(default_factory=list)

    def run(self) -> list[Victim]:
        books, queue = self.books, self.request.work.queue
        found = False
        try:
            with books.trial(queue, self.request.amounts):
                found = self._first() or (len(books.fair_strategies) > 1 and self._second())
            if not found:
                return []
            fill_back(books, self.taken, lambda: request_fits(books, self.request, borrowing=True))
            return list(self.taken)
        finally:
            for victim in self.taken:
                books.lay(victim.holder)

    def _take(self, holder: Holder, why: str) -> bool:
        """Whether it is enough now."""
        self.books.budget.spend()
        self.books.lift(holder)
        self.taken.append(Victim(holder, why))  # type: ignore[arg-type]
        amounts = self.request.amounts
        with self.books.trial(self.request.work.queue, {fr: -n for fr, n in amounts.items()}):
            return request_fits(self.books, self.request, borrowing=True)

    def _first(self) -> bool:
        books, queue = self.books, self.request.work.queue
        entitled = not any(books.beyond(("ClusterQueue", queue), fr) for fr in self.request.cells)
        strategy = _STRATEGIES[books.fair_strategies[0]]
        turns = _Turns(books, queue, self.candidates)
        retry: list[Holder] = []
        for name in turns:
            if name == queue:
                if self._take(turns.pop(name), "InClusterQueue"):
                    return True
                continue
            if entitled:
                if self._take(turns.pop(name), "InCohortReclamation"):
                    return True
                continue
            mine, theirs = turns.nodes(name)
            new, old = books.tree.dominant_share(*mine).rank, books.tree.dominant_share(*theirs).rank
            while turns.has(name):
                books.budget.spend()
                holder = turns.pop(name)
                with books.without([holder]):
                    after = books.tree.dominant_share(*theirs).rank
                if not strategy(new, old, after):
                    retry.append(holder)
                    continue
                if self._take(holder, "InCohortFairSharing"):
                    return True
                break
        self.candidates = retry
        return False

    def _second(self) -> bool:
        """Of those refused before, one of each queue that started with the larger share."""
        books, queue = self.books, self.request.work.queue
        turns = _Turns(books, queue, self.candidates)
        for name in turns:
            mine, theirs = turns.nodes(name)
            new, old = books.tree.dominant_share(*mine).rank, books.tree.dominant_share(*theirs).rank
            if new < old and self._take(turns.pop(name), "InCohortFairSharing"):
                return True
            turns.drop(name)
        return False


Rank = tuple[bool, Decimal]
_STRATEGIES: dict[str, Callable[[Rank, Rank, Rank], bool]] = {
    "LessThanOrEqualToFinalShare": lambda new, _old, after: new <= after,
    "LessThanInitialShare": lambda new, old, _after: new < old,
}


class _Turns:
    """Which queue gives next: from the root down to the child with the largest share that borrows and has candidates.
    Between two turns the caller pops a candidate of the queue or drops the queue."""

    def __init__(self, books: Books, queue: str, candidates: list[Holder]) -> None:
        self.books, self.queue = books, queue
        self.waiting: dict[str, list[Holder]] = {}
        for holder in candidates:
            self.waiting.setdefault(holder.work.queue, []).append(holder)
        self.ancestors = books.path_up(queue)
        self.pruned: set[Key] = set()

    def has(self, name: str) -> bool:
        return bool(self.waiting.get(name))

    def pop(self, name: str) -> Holder:
        return self.waiting[name].pop(0)

    def drop(self, name: str) -> None:
        self.pruned.add(("ClusterQueue", name))

    def __iter__(self) -> Iterator[str]:
        if not self.ancestors:
            while self.has(self.queue) and ("ClusterQueue", self.queue) not in self.pruned:
                yield self.queue
            return
        root = self.ancestors[-1]
        while root not in self.pruned:
            found = self._next(root)
            if found is not None:
                yield found

    def _next(self, cohort: Key) -> str | None:
        self.books.budget.spend()
        queues, cohorts = self._open_children(cohort)
        if not queues and not cohorts:
            self.pruned.add(cohort)
            return None
        order = victim_order(self.queue)
        best_queue = min(
            queues, key=lambda q: (_descending(q[0]), order(self.waiting[q[1]][0])), default=None
        )
        best_cohort = min(cohorts, key=lambda c: (_descending(c[0]), c[1]), default=None)
        if best_cohort is not None and (best_queue is None or best_cohort[0] >= best_queue[0]):
            return self._next(best_cohort[1])
        return best_queue[1] if best_queue else None

    def _open_children(self, cohort: Key) -> tuple[list[tuple[Rank, str]], list[tuple[Rank, Key]]]:
        queues: list[tuple[Rank, str]] = []
        cohorts: list[tuple[Rank, Key]] = []
        for child in self.books.tree.children(*cohort):
            if child in self.pruned:
                continue
            share = self.books.tree.dominant_share(*child)
            if child[0] == "ClusterQueue":
                if (not share.borrowed and child[1] != self.queue) or not self.has(child[1]):
                    self.pruned.add(child)
                else:
                    queues.append((share.rank, child[1]))
            elif not share.borrowed and child not in self.ancestors:
                self.pruned.add(child)
            else:
                cohorts.append((share.rank, child))
        return queues, cohorts

    def nodes(self, name: str) -> tuple[Key, Key]:
        """The children of the lowest common cohort on the way to the preemptor, and to `name`."""
        common = next(cohort for cohort in self.books.path_up(name) if cohort in self.ancestors)
        return self._child(common, self.queue), self._child(common, name)

    def _child(self, cohort: Key, queue: str) -> Key:
        """The child of a cohort on the way down to a queue below it."""
        way: list[Key] = [("ClusterQueue", queue), *self.books.path_up(queue)]
        return way[way.index(cohort) - 1]


def _descending(rank: Rank) -> tuple[bool, Decimal]:
    return not rank[0], -rank[1]
