"""A head of a queue with what it would get: flavors, and who has to go for it. Input: the books, the work that waits at the
head; output: `Head`. Nothing is changed but where the search for flavors goes on next time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from apps.quotas.engine.assign import Assignment, Mode, assign, pending_flavors
from apps.quotas.engine.books import Books
from apps.quotas.engine.fair import fair_victims
from apps.quotas.engine.model import Work
from apps.quotas.engine.partial import largest_that_fits
from apps.quotas.engine.preempt import Request, Victim, classic_victims
from apps.quotas.engine.waiting import Waiter
from apps.quotas.tree import FlavorResource


@dataclass(slots=True)
class Head:
    """A head in its cycle. `victims`: who has to go for it; `skipped`: why it lost its turn to others; `resumed`: whether
    the search went on where the last one had stopped."""

    waiter: Waiter
    assignment: Assignment
    victims: list[Victim]
    skipped: Literal["", "overlapping_victims", "no_longer_fits"] = ""
    resumed: bool = False

    @property
    def work(self) -> Work:
        return self.waiter.work

    @property
    def amounts(self) -> Mapping[FlavorResource, Decimal]:
        return self.assignment.amounts

    @property
    def waits_for_victims(self) -> bool:
        return bool(self.victims) and not self.skipped


Likeness = tuple[str, int, tuple[int, ...]]
Remembered = dict[Likeness, tuple[int, Work, Assignment, list[Victim]]]
"""What the last attempt with work of a kind came to: `Books.moves_seen` then, and the work."""


def nominate(books: Books, waiter: Waiter, remembered: Remembered) -> Head:
    """`remembered`: where nothing moved since, work like one that has just failed is not looked at again, as in Kueue."""
    generation = books.generation[waiter.work.queue]
    if waiter.generation < generation:
        waiter.tried = None
    waiter.generation = generation
    resumed = pending_flavors(waiter.tried)
    work = waiter.work
    kind = (work.queue, work.priority, tuple(id(pod_set) for pod_set in work.pod_sets))
    moves, known = books.moves_seen(work), remembered.get(kind)
    if known is not None and known[0] == moves and not resumed:
        assignment, victims = known[2:]
    else:
        assignment, victims = _Search(books, waiter).run()
        if not resumed and _comes_to_the_same(books, work, assignment):
            # The work goes with it, so that its pod sets, and with them the key, stay what they are.
            remembered[kind] = moves, work, assignment, victims
    waiter.tried = assignment.tried
    return Head(waiter, assignment, victims, resumed=resumed)


def _comes_to_the_same(books: Books, work: Work, found: Assignment) -> bool:
    """Whether another attempt need not be made while nothing moves in the cells that it looks at. Fair shares depend on
    more than these, places on nodes, some victims on who came first, and a search that stopped half way goes on."""
    if books.fair or found.mode is Mode.FIT or pending_flavors(found.tried):
        return False
    policy = books.queues[work.queue].policy
    if "LowerOrNewerEqualPriority" in (policy.within_cluster_queue, policy.reclaim_within_cohort):
        return False
    placed = any(reason.code == "NoPlacement" for reason in found.reasons)
    partial = any(pod_set.min_count is not None for pod_set in work.pod_sets)
    return books.placement is None or not (placed or partial)


@dataclass(frozen=True, slots=True)
class _Search:
    books: Books
    waiter: Waiter

    def run(self) -> tuple[Assignment, list[Victim]]:
        """Flavors and victims: of all pods, else of the largest part of them that is allowed and can be had."""
        whole, victims = self._attempt(None)
        if whole.mode is Mode.FIT or victims:
            return whole, victims
        found = largest_that_fits(self.waiter.work.pod_sets, self._that_works)
        return found or (whole, [])

    def _that_works(self, counts: Sequence[int]) -> tuple[Assignment, list[Victim]] | None:
        found, victims = self._attempt(counts)
        return (found, victims) if found.mode is Mode.FIT or victims else None

    def _attempt(self, counts: Sequence[int] | None) -> tuple[Assignment, list[Victim]]:
        work = self.waiter.work
        found = assign(self.books, work, oracle=self._oracle, counts=counts, tried=self.waiter.tried)
        if not found.mode.needs_preemption:
            return found, []
        return found, self._victims(Request(work, found.amounts, found.cells_to_free))

    def _victims(self, request: Request) -> list[Victim]:
        return (fair_victims if self.books.fair else classic_victims)(self.books, request)

    def _oracle(self, work: Work, fr: FlavorResource, amount: Decimal) -> tuple[Mode, int]:
        victims = self._victims(Request(work, {fr: amount}, frozenset((fr,))))
        if not victims:
            return Mode.NO_CANDIDATES, self.books.height_that_fits(work.queue, fr, amount)[0]
        with self.books.without(victim.holder for victim in victims):
            borrow = self.books.height_that_fits(work.queue, fr, amount)[0]
        own = any(victim.holder.work.queue == work.queue for victim in victims)
        return (Mode.PREEMPT if own else Mode.RECLAIM), borrow
