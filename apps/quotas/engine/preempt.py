"""Who would have to go so that a piece of work fits: candidates, their order, and the smallest set found. Classic
preemption; apps/quotas/engine/fair.py has that of fair sharing.

Input: the books and a `Request`; output: victims with the reason. Nothing is changed.

Candidates of other queues are taken where the preemptor has the better claim: a subtree that contains it and has quota
for the request has it over everything else below (whatever the priorities say that the policy allows); elsewhere only
by priority, and with borrowing only as borrowWithinCohort allows. A candidate counts only while its queue, and every
cohort between it and the lowest common one, holds more than its own quota in a cell that must be freed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import takewhile

from apps.quotas.engine.books import Books, Holder
from apps.quotas.engine.model import ZERO, Policy, Preempt, WhyPreempted, Work
from apps.quotas.tree import FlavorResource, Key


@dataclass(frozen=True, slots=True)
class Request:
    """What has to fit, and the cells in which something must be freed for it."""

    work: Work
    amounts: Mapping[FlavorResource, Decimal]
    cells: frozenset[FlavorResource]


@dataclass(frozen=True, slots=True)
class Victim:
    holder: Holder
    why: WhyPreempted


@dataclass(frozen=True, slots=True)
class _Candidate:
    """`common`: the lowest cohort that has both queues below it; `borrowing`: may go although the preemptor borrows."""

    holder: Holder
    why: WhyPreempted
    common: Key | None
    borrowing: bool


def allows(policy: Preempt, preemptor: Work, candidate: Work) -> bool:
    if policy == "LowerPriority":
        return preemptor.priority > candidate.priority
    if policy == "LowerOrNewerEqualPriority":
        newer = preemptor.priority == candidate.priority and preemptor.queued < candidate.queued
        return preemptor.priority > candidate.priority or newer
    return policy == "Any"


def victim_order(queue: str) -> Callable[[Holder], tuple[object, ...]]:
    """Already told to go, then of other queues, then less urgent, then reserved later, then by uid."""
    return lambda holder: (
        not holder.evicted,
        holder.work.queue == queue,
        holder.work.priority,
        -holder.reserved_at,
        holder.work.uid,
    )


def uses(holder: Holder, cells: Iterable[FlavorResource]) -> bool:
    return any(fr in holder.held for fr in cells)


def classic_victims(books: Books, request: Request) -> list[Victim]:
    """[] when nobody, or not enough, may go."""
    candidates = _Candidates(books, request)
    for borrowing in candidates.attempts():
        found = candidates.search(borrowing=borrowing)
        if found:
            return found
    return []


def request_fits(books: Books, request: Request, *, borrowing: bool) -> bool:
    queue = request.work.queue
    key: Key = ("ClusterQueue", queue)
    for fr, amount in request.amounts.items():
        if not borrowing and books.beyond(key, fr, amount):
            return False
        if amount > books.available(queue, fr):
            return False
    return True


def fill_back(books: Books, victims: list[Victim], fits: Callable[[], bool]) -> list[Victim]:
    """Put back whoever need not go after all, the last taken first but for the very last. The victims' amounts are off
    the tree before and after."""
    for index in range(len(victims) - 2, -1, -1):
        books.budget.spend()
        books.lay(victims[index].holder)
        if fits():
            victims[index] = victims[-1]
            victims.pop()
        else:
            books.lift(victims[index].holder)
    return victims


class _Candidates:
    """Everybody who may go for one request, in the order in which they are taken."""

    def __init__(self, books: Books, request: Request) -> None:
        self.books, self.request = books, request
        self.queue = request.work.queue
        self.policy: Policy = books.queues[self.queue].policy
        own = self._of_queue(self.queue, None, advantage=False) if self._preempts_own() else []
        hierarchy, priority = self._of_cohorts()
        self.others, self.hierarchy = bool(hierarchy or priority), bool(hierarchy)
        order = victim_order(self.queue)
        parts = [sorted(part, key=lambda c: order(c.holder)) for part in (hierarchy, priority, own)]
        self.ordered = [c for part in parts for c in part if c.holder.evicted]
        self.ordered += [c for part in parts for c in part if not c.holder.evicted]

    def _preempts_own(self) -> bool:
        return self.policy.within_cluster_queue != "Never"

    @property
    def _no_borrowing(self) -> bool:
        return self.policy.borrow_within_cohort == "Never"

    def attempts(self) -> tuple[bool, ...]:
        """With which leave to borrow it is tried, in order."""
        cells, key = self.request.cells, ("ClusterQueue", self.queue)
        under = all(
            self.books.tree.usage("ClusterQueue", key[1], fr) < self.books.nominal(self.queue, fr)
            for fr in cells
        )
        if not self.others or (self._no_borrowing and not under):
            return (True,)
        if self._no_borrowing and not self.hierarchy:
            return (False, True)
        return (True, False)

    def search(self, *, borrowing: bool) -> list[Victim]:
        books, taken = self.books, list[Victim]()
        try:
            for candidate in self.ordered:
                books.budget.spend()
                if not self._counts(candidate, borrowing=borrowing):
                    continue
                books.lift(candidate.holder)
                taken.append(Victim(candidate.holder, candidate.why))
                if request_fits(books, self.request, borrowing=borrowing):
                    taken = fill_back(
                        books, taken, lambda: request_fits(books, self.request, borrowing=borrowing)
                    )
                    return list(taken)
            return []
        finally:
            for victim in taken:
                books.lay(victim.holder)

    def _counts(self, candidate: _Candidate, *, borrowing: bool) -> bool:
        """Whether it may still go, after those taken before."""
        if candidate.holder.work.queue == self.queue:
            return True
        if borrowing and not candidate.borrowing:
            return False
        name = candidate.holder.work.queue
        if self.books.within_nominal(("ClusterQueue", name), self.request.cells):
            return False
        inside = takewhile(lambda cohort: cohort != candidate.common, self.books.path_up(name))
        return not any(self.books.within_nominal(cohort, self.request.cells) for cohort in inside)

    # ---- collecting -----------------------------------------------------------------------------------------

    def _of_queue(self, name: str, common: Key | None, *, advantage: bool) -> list[_Candidate]:
        found = []
        own = name == self.queue
        policy = self.policy.within_cluster_queue if own else self.policy.reclaim_within_cohort
        self.books.budget.spend()
        for holder in self.books.holders[name].values():
            if uses(holder, self.request.cells) and allows(policy, self.request.work, holder.work):
                why, borrowing = self._variant(holder, own=own, advantage=advantage)
                found.append(_Candidate(holder, why, common, borrowing))
        return found

    def _variant(self, holder: Holder, *, own: bool, advantage: bool) -> tuple[WhyPreempted, bool]:
        if own:
            return "InClusterQueue", True
        if advantage:
            return "InCohortReclamation", True
        threshold = self.policy.max_priority_threshold
        too_urgent = holder.work.priority >= self.request.work.priority or (
            threshold is not None and holder.work.priority > threshold
        )
        if self._no_borrowing or too_urgent:
            return "InCohortReclamation", False
        return "InCohortReclaimWhileBorrowing", True

    def _of_cohorts(self) -> tuple[list[_Candidate], list[_Candidate]]:
        """(those over whom the preemptor has the better claim, those only by priority)."""
        hierarchy: list[_Candidate] = []
        priority: list[_Candidate] = []
        path = self.books.path_up(self.queue)
        if not path or self.policy.reclaim_within_cohort == "Never":
            return hierarchy, priority
        advantage, left = self._fit_in(("ClusterQueue", self.queue), self.request.amounts)
        before: Key | None = None
        for cohort in path:
            self._collect(cohort, cohort, before, hierarchy if advantage else priority, advantage=advantage)
            fits, left = self._fit_in(cohort, left)
            advantage = advantage or fits
            before = cohort
        return hierarchy, priority

    def _fit_in(
        self, key: Key, amounts: Mapping[FlavorResource, Decimal]
    ) -> tuple[bool, dict[FlavorResource, Decimal]]:
        """Whether a subtree's own quota takes them, and what the level above would have to take."""
        tree = self.books.tree
        fits = not any(self.books.beyond(key, fr, amount) for fr, amount in amounts.items())
        left = {fr: max(ZERO, amount - tree.local_available(*key, fr)) for fr, amount in amounts.items()}
        return fits, left

    def _collect(
        self, cohort: Key, common: Key, skip: Key | None, into: list[_Candidate], *, advantage: bool
    ) -> None:
        """Work of queues that hold more than their own, below cohorts that do."""
        for child in self.books.tree.children(*cohort):
            if child == skip or self.books.within_nominal(child, self.request.cells):
                continue
            if child[0] == "Cohort":
                self._collect(child, common, skip, into, advantage=advantage)
            elif child[1] != self.queue:
                into += self._of_queue(child[1], common, advantage=advantage)
