"""One cycle over the heads of one tree. Input: the books, the heads as they were nominated in the state before; output:
`Cycle`, what was decided. The books are changed: who is admitted holds its quota, who has to go is marked.

The heads are taken in order (classic: within nominal quota first, then priority, then time; fair sharing: by share) and
admitted, or preempt, or reserve what they wait for, while they still fit beside those before them. Invariant: what a
cycle only reserves is off the tree when it ends, however it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from apps.quotas.engine.assign import Mode
from apps.quotas.engine.books import Books, Holder
from apps.quotas.engine.fair import next_by_share
from apps.quotas.engine.model import ZERO, Admitted, Preempted
from apps.quotas.engine.nominate import Head
from apps.quotas.tree import FlavorResource, Key


@dataclass(slots=True)
class Cycle:
    """`decisions`: who was admitted and who was told to go, in order."""

    books: Books
    decisions: list[Admitted | Preempted] = field(default_factory=list)
    _reserved: list[tuple[str, dict[FlavorResource, Decimal]]] = field(default_factory=list)
    _going: dict[str, Holder] = field(default_factory=dict)

    def run(self, root: Key, heads: Sequence[Head]) -> None:
        try:
            for head in self._in_order(root, heads):
                self._process(head)
        finally:
            for queue, amounts in self._reserved:
                self.books.tree.add_usage(queue, {fr: -amount for fr, amount in amounts.items()})

    def _in_order(self, root: Key, heads: Sequence[Head]) -> Iterable[Head]:
        if not self.books.fair:
            yield from sorted(heads, key=self._turn)
            return
        left = {head.work.queue: head for head in heads}
        while left:
            head = next_by_share(self.books, root, left)
            del left[head.work.queue]
            yield head

    def _turn(self, head: Head) -> tuple[object, ...]:
        work = head.work
        equals = self.books.equals.get(work.queue, 0)
        return head.assignment.borrow, -work.priority, work.queued, equals, work.uid

    def _process(self, head: Head) -> None:
        mode, queue = head.assignment.mode, head.work.queue
        if mode is Mode.NO_FIT:
            return
        if mode.needs_preemption and not head.victims:
            # Who cannot be sure to get it back later keeps others from taking it meanwhile.
            if self.books.queues[queue].policy.reclaim_within_cohort != "Any":
                self._reserve(queue, self._to_reserve(head))
            return
        if any(victim.holder.work.uid in self._going for victim in head.victims):
            head.skipped = "overlapping_victims"
            return
        gone = {**self._going, **{v.holder.work.uid: v.holder for v in head.victims}}
        with self.books.without(gone.values()):
            fits = self.books.fits(queue, head.amounts)
        if not fits:
            head.skipped = "no_longer_fits"
        elif mode.needs_preemption:
            self._reserve(queue, dict(head.amounts))
            self._preempt(head)
        else:
            self._admit(head)

    def _reserve(self, queue: str, amounts: dict[FlavorResource, Decimal]) -> None:
        self.books.tree.add_usage(queue, amounts)
        self._reserved.append((queue, amounts))

    def _to_reserve(self, head: Head) -> dict[FlavorResource, Decimal]:
        """What a head without victims keeps for itself: up to the borrowing limit, or to its nominal quota."""
        tree, queue = self.books.tree, head.work.queue
        kept = {}
        for fr, amount in head.amounts.items():
            used, nominal = tree.usage("ClusterQueue", queue, fr), self.books.nominal(queue, fr)
            cell = tree.cell("ClusterQueue", queue, fr)
            limit = cell.borrowing_limit if cell else None
            if not head.assignment.borrow:
                kept[fr] = max(ZERO, min(amount, nominal - used))
            elif limit is None:
                kept[fr] = amount
            else:
                kept[fr] = min(amount, nominal + limit - used)
        return kept

    def _preempt(self, head: Head) -> None:
        for victim in head.victims:
            holder = victim.holder
            self._going[holder.work.uid] = holder
            if not holder.evicted:
                self.books.send_away(holder)
                self.decisions.append(Preempted(holder.work.uid, head.work.uid, victim.why))

    def _admit(self, head: Head) -> None:
        work = head.work
        assigned = head.assignment.assigned(work)
        self.books.hold(work, assigned, self.books.now)
        borrows = any(self.books.beyond(("ClusterQueue", work.queue), fr) for fr in head.amounts)
        self.decisions.append(Admitted(work.uid, assigned, borrows))
