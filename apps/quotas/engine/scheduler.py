"""Kueue's scheduler, one cycle after the other. Input: a Situation, and events afterwards (`add`, `remove`, `release`);
output of a cycle: `Decision`s. Pure; knows no clock but `now`, which the caller may move.

A cycle looks at the head of every queue of the trees in which something may happen: each head's flavors are searched
in the state before the cycle, then the heads are taken in order (classic: within nominal quota first, then priority,
then time; fair sharing: by share) and admitted, or preempt, or reserve what they wait for, while they still fit beside
those before them. Trees do not influence each other, so each runs for itself.

Invariants
- Victims keep their quota until `release`; the preemptor stays at the head of its queue meanwhile.
- A tree in which no head is new and nothing changed since they were tried is at rest, and not looked at again.
- Freed quota goes first to whoever stands in line; what was set aside comes back once these were tried.
- What a cycle only reserves is off the tree when it ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from apps.quotas.engine.assign import Assignment, Mode, assign, pending_flavors
from apps.quotas.engine.books import Books, Holder
from apps.quotas.engine.fair import fair_victims, next_by_share
from apps.quotas.engine.model import (
    ZERO,
    Admitted,
    Group,
    Pending,
    Preempted,
    Reason,
    Refused,
    Situation,
    Work,
)
from apps.quotas.engine.partial import largest_that_fits
from apps.quotas.engine.preempt import Request, Victim, classic_victims
from apps.quotas.engine.waiting import Line, Waiter
from apps.quotas.tree import FlavorResource, Key

Decision = Admitted | Preempted | Pending
_SEVERITY: tuple[Refused, ...] = (
    "WaitingForPreemption",
    "WaitingForQuota",
    "ExceedsMaxQuota",
    "NoMatchingFlavor",
    "ResourceNotCovered",
)


@dataclass(slots=True)
class Head:
    """A head in its cycle. `victims`: who has to go for it."""

    waiter: Waiter
    assignment: Assignment
    victims: list[Victim]
    skipped: bool = False
    resumed: bool = False
    """Whether the search went on where the last one had stopped."""

    @property
    def work(self) -> Work:
        return self.waiter.work

    @property
    def amounts(self) -> Mapping[FlavorResource, Decimal]:
        return self.assignment.amounts


@dataclass(slots=True)
class _Cycle:
    """What a cycle has done so far in one tree: reserved for its end, and who was told to go."""

    reserved: list[tuple[str, dict[FlavorResource, Decimal]]] = field(default_factory=list)
    preempted: dict[str, Holder] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    moved: bool = False


class Scheduler:
    """The queues of a cluster with the work in them."""

    def __init__(self, situation: Situation) -> None:
        self.books = Books.of(situation)
        self.lines = {queue.name: Line(queue.policy.strategy == "StrictFIFO") for queue in situation.queues}
        self.blocked: dict[str, Pending] = {}
        self._waiting_in: dict[str, str] = {}
        times = [(work.queued, work.reserved_at) for work in situation.work]
        self.books.now = max((time for pair in times for time in pair), default=0.0)
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

    def release(self, uid: str, *, queued: float | None = None) -> None:
        """An evicted piece of work is gone from where it ran: its quota is free, and it waits again."""
        holder = self.books.give_back(uid)
        work = replace(holder.work, holds=None, queued=holder.work.queued if queued is None else queued)
        self._retry(work.queue)
        self.add(work)

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

    def is_restless(self, root: Key) -> bool:
        """Whether another cycle of the tree may bring something new."""
        return root in self._restless

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
        done = _Cycle()
        for head in self._in_order(root, heads):
            self._process(head, done)
        for queue, amounts in done.reserved:
            self.books.tree.add_usage(queue, {fr: -amount for fr, amount in amounts.items()})
        fresh = False
        for head in heads:
            if head.work.uid in self._waiting_in:
                fresh = self._requeue(head, done) or fresh
        if done.moved:
            self._seen.pop(root, None)
        if done.moved or (fresh and self._is_new(root, heads)):
            self._restless[root] = None
        self._retry_if_due(root)
        return done.decisions

    def _is_new(self, root: Key, heads: list[Head]) -> bool:
        """Whether the tree was not in this state since something last moved: what cannot start beside a blocked head is
        tried again and again, and that is no progress."""
        state = tuple((h.work.uid, h.skipped, h.assignment.mode, repr(h.waiter.tried)) for h in heads)
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
        generation = self.books.generation[name]
        if waiter.generation < generation:
            waiter.tried = None
        waiter.generation = generation
        resumed = pending_flavors(waiter.tried)
        assignment, victims = self._search(waiter)
        waiter.tried = assignment.tried
        return Head(waiter, assignment, victims, resumed=resumed)

    def inactive(self, name: str) -> bool:
        """Stopped, missing something, or below a circle of cohorts."""
        return bool(self.books.queues[name].inactive) or self.books.tree.leads_to_cycle("ClusterQueue", name)

    def _search(self, waiter: Waiter) -> tuple[Assignment, list[Victim]]:
        """Flavors and victims: of all pods, else of the largest part of them that is allowed and can be had."""
        whole, victims = self._attempt(waiter, None)
        if whole.mode is Mode.FIT or victims:
            return whole, victims
        found = largest_that_fits(
            waiter.work.pod_sets,
            lambda counts: (
                found if (found := self._attempt(waiter, counts))[0].mode is Mode.FIT or found[1] else None
            ),
        )
        return found or (whole, [])

    def _attempt(self, waiter: Waiter, counts: Sequence[int] | None) -> tuple[Assignment, list[Victim]]:
        found = assign(self.books, waiter.work, oracle=self._oracle, counts=counts, tried=waiter.tried)
        if not found.mode.needs_preemption:
            return found, []
        return found, self._victims(Request(waiter.work, found.amounts, found.cells_to_free))

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

    def _in_order(self, root: Key, heads: list[Head]) -> Iterable[Head]:
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
        return (
            head.assignment.borrow,
            -work.priority,
            work.queued,
            self.books.equals.get(work.queue, 0),
            work.uid,
        )

    def _process(self, head: Head, done: _Cycle) -> None:
        mode, queue = head.assignment.mode, head.work.queue
        if mode is Mode.NO_FIT:
            return
        if mode.needs_preemption and not head.victims:
            # Who cannot be sure to get it back later keeps others from taking it meanwhile.
            if self.books.queues[queue].policy.reclaim_within_cohort != "Any":
                self._reserve(queue, self._to_reserve(head), done)
            return
        if any(victim.holder.work.uid in done.preempted for victim in head.victims):
            head.skipped = True
            return
        gone = {**done.preempted, **{v.holder.work.uid: v.holder for v in head.victims}}
        with self.books.without(gone.values()):
            fits = self.books.fits(queue, head.amounts)
        if not fits:
            head.skipped = True
            return
        if mode.needs_preemption:
            self._reserve(queue, dict(head.amounts), done)
            self._preempt(head, done)
        else:
            self._admit(head, done)

    def _reserve(self, queue: str, amounts: dict[FlavorResource, Decimal], done: _Cycle) -> None:
        self.books.tree.add_usage(queue, amounts)
        done.reserved.append((queue, amounts))

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

    def _preempt(self, head: Head, done: _Cycle) -> None:
        for victim in head.victims:
            holder = victim.holder
            done.preempted[holder.work.uid] = holder
            if not holder.evicted:
                holder.evicted = True
                done.decisions.append(Preempted(holder.work.uid, head.work.uid, victim.why))
                done.moved = True

    def _admit(self, head: Head, done: _Cycle) -> None:
        work = head.work
        assigned = head.assignment.assigned(work)
        self.lines[work.queue].take(work.uid)
        del self._waiting_in[work.uid]
        self.books.hold(work, assigned, self.books.now)
        borrows = any(self.books.beyond(("ClusterQueue", work.queue), fr) for fr in head.amounts)
        done.decisions.append(Admitted(work.uid, assigned, borrows))
        done.moved = True

    def _requeue(self, head: Head, done: _Cycle) -> bool:
        """Whether the queue has something to try in the next cycle that it has not tried in this state."""
        line, waiter = self.lines[head.work.queue], head.waiter
        waiting_for_victims = bool(head.victims) and not head.skipped
        if head.skipped or waiting_for_victims:
            waiter.tried = None
        verdict = self._verdict(head, waiting_for_victims=waiting_for_victims)
        if verdict != waiter.verdict:
            done.decisions.append(verdict)
        waiter.verdict = verdict
        if waiting_for_victims:
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

    def _verdict(self, head: Head, *, waiting_for_victims: bool) -> Pending:
        reasons = _all_reasons(head)
        if waiting_for_victims:
            return Pending(head.work.uid, "WaitingForPreemption", reasons)
        if head.skipped or not reasons:
            return Pending(head.work.uid, "WaitingForQuota", reasons)
        if head.resumed and head.waiter.verdict is not None:
            # A flavor that fitted before has no reason to name; what was told of all flavors stands.
            return Pending(head.work.uid, head.waiter.verdict.refused, reasons)
        groups = self.books.queues[head.work.queue].groups
        return Pending(head.work.uid, verdict_of(reasons, groups), reasons)


def _all_reasons(head: Head) -> tuple[Reason, ...]:
    """Of this attempt and, where it went on with the next flavor, of those before."""
    reasons = tuple(head.assignment.reasons)
    if not head.resumed or head.waiter.verdict is None:
        return reasons
    cells = {(reason.pod_set, reason.flavor, reason.resource) for reason in reasons}
    before = head.waiter.verdict.reasons
    return (*(r for r in before if (r.pod_set, r.flavor, r.resource) not in cells), *reasons)


def verdict_of(reasons: Sequence[Reason], groups: Sequence[Group] = ()) -> Refused:
    """What has to change first. A flavor does as badly as the worst of its resources, a resource group as well as the best
    of its flavors, the work as badly as the worst of its pod sets and groups. `groups`: of the queue; without them all
    flavors are taken as one group."""
    worst: dict[tuple[str, int], dict[str, int]] = {}
    for reason in reasons:
        group = next((i for i, found in enumerate(groups) if reason.flavor in found.flavors), -1)
        flavors = worst.setdefault((reason.pod_set, group if reason.flavor else -2), {})
        flavors[reason.flavor] = max(flavors.get(reason.flavor, 0), _SEVERITY.index(reason.code))
    return _SEVERITY[max(min(flavors.values()) for flavors in worst.values())]
