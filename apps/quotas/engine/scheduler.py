"""Kueue's scheduler, one cycle after the other. Input: a Situation, and events afterwards (`add`, `remove`, `evict`,
`release`, `respecify`, `look_again`); output of a cycle: `Decision`s. Pure; knows no clock but `now`, which the caller may
move.

A cycle looks at the head of every queue of the trees in which something may happen: each head is nominated in the state
before the cycle (nominate.py), then they are taken in order (cycle.py). Trees do not influence each other, so each runs
for itself.

Invariants
- Victims keep their quota until `release`; the preemptor stays at the head of its queue meanwhile.
- A tree in which no head is new and nothing changed since they were tried is at rest, and not looked at again.
- Freed quota goes first to whoever stands in line; what was set aside comes back once these were tried.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from apps.quotas.engine.assign import pending_flavors
from apps.quotas.engine.books import Books
from apps.quotas.engine.cycle import Cycle
from apps.quotas.engine.model import Admitted, Pending, Placement, Preempted, Reason, Refused, Situation, Work
from apps.quotas.engine.nominate import Head, Remembered, nominate
from apps.quotas.engine.verdicts import pending_of
from apps.quotas.engine.waiting import Line, Waiter
from apps.quotas.tree import Key

Decision = Admitted | Preempted | Pending


class Scheduler:
    """The queues of a cluster with the work in them."""

    def __init__(self, situation: Situation, *, placement: Placement | None = None) -> None:
        """`placement`: whether pods find nodes; without it quota alone decides."""
        self.books = Books.of(situation)
        self.books.placement = placement
        self.lines = {queue.name: Line(queue.policy.strategy == "StrictFIFO") for queue in situation.queues}
        self.blocked: dict[str, Pending] = {}
        self._waiting_in: dict[str, str] = {}
        times = [(work.queued, work.reserved_at) for work in situation.work]
        self.books.now = max((time for pair in times for time in pair), default=0.0)
        self._remembered: Remembered = {}
        self._restless: dict[Key, None] = {}
        self._due: dict[Key, int] = {}
        self.patience: int | None = None
        """After how many cycles what was set aside comes back once quota is freed; None: when the line is tried."""
        self._seen: dict[Key, set[object]] = {}
        for work in situation.work:
            if work.holds is None or work.queue not in self.lines:
                self.add(replace(work, holds=None))

    # ---- events -------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self.books.now

    @now.setter
    def now(self, value: float) -> None:
        self.books.now = value

    def add(self, work: Work) -> None:
        """Work that waits."""
        if work.blocked is not None or work.queue not in self.lines:
            refused: Refused = work.blocked or "QueueMissing"
            self.blocked[work.uid] = Pending(work.uid, refused, (Reason(refused),))
            return
        self.lines[work.queue].put(Waiter(work))
        self._waiting_in[work.uid] = work.queue
        self._stir(work.queue)

    def remove(self, uid: str) -> None:
        """Work that is gone, whether it held quota or not."""
        self.blocked.pop(uid, None)
        if uid in self.books.by_uid:
            queue = self.books.give_back(uid).work.queue
            self._retry(queue)
        elif uid in self._waiting_in:
            queue = self._waiting_in.pop(uid)
            self.lines[queue].take(uid)
            self._stir(queue)

    def evict(self, uid: str) -> None:
        """A holder is told to go by somebody else than the scheduler: whoever needs its quota waits for it first."""
        self.books.send_away(self.books.by_uid[uid])

    def release(self, uid: str) -> Work:
        """An evicted piece of work is gone from where it ran: its quota is free, and it waits again, in the place that its
        creation gives it."""
        holder = self.books.give_back(uid)
        work = replace(holder.work, holds=None, queued=holder.work.created, admitted=True)
        self._retry(work.queue)
        self.add(work)
        return work

    def respecify(self, situation: Situation) -> None:
        """Queues, cohorts and flavors are as the situation says (its work is not looked at); all that waits, holds or is
        going stays what it is, and everything is tried again. A queue that is gone must be empty."""
        strict = {queue.name: queue.policy.strategy == "StrictFIFO" for queue in situation.queues}
        for name in self.lines.keys() - strict.keys():
            if len(self.lines[name]) or self.books.holders[name]:
                raise ValueError(f"{name} is gone and has work")
        self.books = self.books.respecified(situation)
        lines = {name: self.lines.get(name) or Line(strict[name]) for name in strict}
        for name, line in lines.items():
            line.strict = strict[name]
        self.lines = lines
        self._restless, self._due, self._seen, self._remembered = {}, {}, {}, {}
        self.look_again()

    def look_again(self, queues: Iterable[str] | None = None) -> None:
        """Something that is not quota changed, such as nodes: what was set aside in the trees of these queues (None: of
        all) is tried again."""
        for name in self.lines if queues is None else queues:
            self._retry(name)

    def set_aside(self, uids: Collection[str] | None = None) -> None:
        """As if this work (None: all of it) had been looked at in vain; a strict queue's stays in line."""
        for name, line in self.lines.items():
            if not line.strict:
                for waiter in list(line.active.values()):
                    if uids is None or waiter.work.uid in uids:
                        line.set_aside(waiter)
            self._retry(name)

    def _root(self, queue: str) -> Key:
        return self.books.tree.root_of("ClusterQueue", queue)

    def _stir(self, queue: str) -> None:
        root = self._root(queue)
        self._restless[root] = None
        self._seen.pop(root, None)

    def _retry(self, queue: str) -> None:
        """Quota was freed or changed: whatever was set aside in the tree is tried again, but first whatever stands in
        line, above all who made victims go: Kueue collects such notices for a moment."""
        self._stir(queue)
        self._due.setdefault(self._root(queue), 0)

    def _retry_if_due(self, root: Key) -> None:
        if root not in self._due:
            return
        self._due[root] += 1
        if root in self._restless and (self.patience is None or self._due[root] < self.patience):
            return
        del self._due[root]
        moved = [self.lines[name].retry_all() for name in self.books.queues_below(root)]
        if any(moved):
            self._restless[root] = None
            self._seen.pop(root, None)

    # ---- a cycle ------------------------------------------------------------------------------------------

    @property
    def at_rest(self) -> bool:
        return not self._restless

    def is_restless(self, root: Key) -> bool:
        """Whether another cycle of the tree may bring something new."""
        return root in self._restless

    def inactive(self, name: str) -> bool:
        """Stopped, missing something, or below a circle of cohorts."""
        return bool(self.books.queues[name].inactive) or self.books.tree.leads_to_cycle("ClusterQueue", name)

    def cycle(self) -> list[Decision]:
        """One cycle over all trees that are not at rest."""
        roots, self._restless = list(self._restless), {}
        decisions: list[Decision] = []
        for root in roots:
            decisions += self.cycle_of(root)
        return decisions

    def cycle_of(self, root: Key) -> list[Decision]:
        """One cycle of one tree. It stays restless while something moved or untried heads are left."""
        self._restless.pop(root, None)
        heads = [head for name in self.books.queues_below(root) if (head := self._nominate(name)) is not None]
        cycle = Cycle(self.books)
        cycle.run(root, heads)
        decisions: list[Decision] = [*cycle.decisions]
        fresh = False
        for head in heads:
            if head.work.uid in self.books.by_uid:
                self.lines[head.work.queue].take(head.work.uid)
                del self._waiting_in[head.work.uid]
            else:
                fresh = self._requeue(head, decisions) or fresh
        if cycle.decisions:
            self._seen.pop(root, None)
        if cycle.decisions or (fresh and self._is_new(root, heads)):
            self._restless[root] = None
        self._retry_if_due(root)
        return decisions

    def _is_new(self, root: Key, heads: list[Head]) -> bool:
        """Whether the tree was not in this state since something last moved: what cannot start beside a blocked head is
        tried again and again, and that is no progress."""
        state = tuple((h.work.uid, bool(h.skipped), h.assignment.mode, repr(h.waiter.tried)) for h in heads)
        seen = self._seen.setdefault(root, set())
        if state in seen:
            return False
        seen.add(state)
        return True

    def _nominate(self, name: str) -> Head | None:
        line = self.lines[name]
        waiter = line.head()
        if waiter is None:
            return None
        if self.inactive(name):
            for each in list(line.active.values()):
                each.verdict = Pending(each.work.uid, "QueueInactive", (Reason("QueueInactive"),))
                line.set_aside(each)
            return None
        return nominate(self.books, waiter, self._remembered)

    def _requeue(self, head: Head, decisions: list[Decision]) -> bool:
        """Whether the queue has something to try in the next cycle that it has not tried in this state."""
        line, waiter = self.lines[head.work.queue], head.waiter
        if head.skipped or head.waits_for_victims:
            waiter.tried = None
        verdict = pending_of(head, self.books.queues[head.work.queue].groups)
        if verdict != waiter.verdict:
            decisions.append(verdict)
        waiter.verdict = verdict
        if head.waits_for_victims:
            if not line.strict:
                line.sticky = head.work.uid
            return False
        if pending_flavors(waiter.tried):
            return True
        if line.strict:
            return False
        if head.skipped:
            return True
        line.set_aside(waiter)
        return line.head() is not None
