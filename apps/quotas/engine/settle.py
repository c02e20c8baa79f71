"""Where a situation comes to rest when nothing else happens: nobody arrives or finishes, and victims go at once.

Input: a Situation; output: an Outcome. Trees are settled one after the other, since none changes another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from apps.quotas.engine.budget import OutOfTime
from apps.quotas.engine.model import Admitted, Outcome, Pending, Preempted, Reason, Situation
from apps.quotas.engine.scheduler import Scheduler
from apps.quotas.tree import Key

MAX_CYCLES = 100_000


def settle(
    situation: Situation, *, max_cycles: int = MAX_CYCLES, enough: Callable[[], bool] = lambda: False
) -> Outcome:
    """Runs cycles until nothing moves, or `max_cycles` are over, `enough` says so (asked before each cycle, and again and
    again within), or a tree is in a state that it was in before (work preempts each other in turn): then `settled` is
    False."""
    return _Run(situation, max_cycles, enough).all_trees()


def settle_again(
    situation: Situation,
    *,
    aside: Collection[str] | None = None,
    equals: Mapping[str, int] | None = None,
    ticking: bool = False,
    patience: int | None = None,
    linger: int = 0,
    max_cycles: int = MAX_CYCLES,
) -> Outcome:
    """As `settle`, for work that was looked at before and set aside: heads of strict queues come first, and the rest
    once these were tried, as after a change of a cohort or a release of quota. `aside`: the uids of what had been set
    aside, None for all; `equals`: by queue, who comes first of
    equals; `ticking`: every cycle is later than the one before, so that what was reserved last is told apart;
    `patience`: what was set aside comes back after so many cycles; `linger`: victims go after so many."""
    run = _Run(situation, max_cycles)
    run.ticking, run.linger, run.scheduler.patience = ticking, linger, patience
    run.scheduler.books.equals = equals or {}
    run.scheduler.set_aside(aside)
    return run.all_trees()


class _Run:
    def __init__(
        self, situation: Situation, max_cycles: int, enough: Callable[[], bool] = lambda: False
    ) -> None:
        self.situation, self.max_cycles, self.enough = situation, max_cycles, enough
        self.scheduler = Scheduler(situation)
        self.scheduler.books.budget.enough = enough
        self.scheduler.now += 1
        self.had = frozenset(self.scheduler.books.by_uid)
        self.preempted: list[Preempted] = []
        self.cycles = 0
        self.ticking, self.linger = False, 0
        self.settled = True
        self.taken_back = frozenset(uid for uid in self.had if self._is_taken_back(uid))
        for uid in sorted(self.taken_back):
            self.scheduler.release(uid)

    def _is_taken_back(self, uid: str) -> bool:
        """A stop takes back what is reserved and not admitted yet; HoldAndDrain also sends away what runs. Of a LocalQueue
        that is missing or stopped only the former."""
        work = self.scheduler.books.by_uid[uid].work
        queue = self.scheduler.books.queues[work.queue]
        return queue.drains or (not work.admitted and (queue.node.stopped or work.blocked == "QueueMissing"))

    def all_trees(self) -> Outcome:
        tree = self.scheduler.books.tree
        for root in sorted({tree.root_of("ClusterQueue", name) for name in self.scheduler.lines}):
            self.settle_tree(root)
        return self.outcome()

    def settle_tree(self, root: Key) -> None:
        scheduler = self.scheduler
        seen: set[frozenset[tuple[str, tuple[object, ...]]]] = set()
        going: list[tuple[str, int]] = []
        while True:
            if self.cycles >= self.max_cycles or self.enough():
                self.settled = False
                return
            self.cycles += 1
            self.scheduler.now += self.ticking
            try:
                decisions = scheduler.cycle_of(root)
            except OutOfTime:
                self.settled = False
                return
            victims = [decision for decision in decisions if isinstance(decision, Preempted)]
            if victims:
                state = self._state(root)
                if state in seen:
                    self.settled = False
                    return
                seen.add(state)
                self.preempted += victims
                going += [(victim.uid, self.cycles + self.linger) for victim in victims]
            rest = not scheduler.is_restless(root)
            for uid, _at in [gone for gone in going if rest or gone[1] <= self.cycles]:
                scheduler.release(uid)
            going = [gone for gone in going if not rest and gone[1] > self.cycles]
            if not scheduler.is_restless(root):
                return

    def _state(self, root: Key) -> frozenset[tuple[str, tuple[object, ...]]]:
        """Who holds what, in which flavors, and who is told to go."""
        books = self.scheduler.books
        return frozenset(
            (uid, (holder.evicted, *sorted(holder.held.items())))
            for name in books.queues_below(root)
            for uid, holder in books.holders[name].items()
        )

    # ---- the answer -----------------------------------------------------------------------------------------

    def outcome(self) -> Outcome:
        books = self.scheduler.books
        admitted = {
            uid: Admitted(
                uid,
                holder.assigned,
                any(books.beyond(("ClusterQueue", holder.work.queue), fr) for fr in holder.held),
            )
            for uid, holder in books.by_uid.items()
            if uid not in self.had or uid in self._sent_away
        }
        usage = {
            name: {
                fr: amount
                for fr in {cell for holder in holders.values() for cell in holder.held}
                if (amount := books.tree.usage("ClusterQueue", name, fr))
            }
            for name, holders in books.holders.items()
        }
        return Outcome(
            admitted=admitted,
            kept=frozenset(uid for uid in self.had if uid in books.by_uid and uid not in admitted),
            preempted=tuple(self.preempted),
            pending=self._pending(),
            usage=usage,
            cycles=self.cycles,
            settled=self.settled,
            gaps=_gaps(self.situation),
        )

    @property
    def _sent_away(self) -> frozenset[str]:
        return frozenset(victim.uid for victim in self.preempted) | self.taken_back

    def _pending(self) -> dict[str, Pending]:
        found = dict(self.scheduler.blocked)
        for name, line in self.scheduler.lines.items():
            inactive = self.scheduler.inactive(name)
            for waiter in line:
                uid = waiter.work.uid
                if inactive:
                    found[uid] = Pending(uid, "QueueInactive", (Reason("QueueInactive"),))
                elif waiter.verdict is not None:
                    found[uid] = waiter.verdict
                elif line.strict and self.settled:
                    found[uid] = Pending(uid, "BehindHead", (Reason("BehindHead"),))
                else:
                    found[uid] = Pending(uid, "NotEvaluated", (Reason("NotEvaluated"),))
        return found


def _gaps(situation: Situation) -> frozenset[str]:
    """What plays a part here and is not modelled."""
    queues = situation.queues
    pod_sets = [pod_set for work in situation.work for pod_set in work.pod_sets]
    found = {
        "time": True,
        "topology": any(flavor.topology for flavor in situation.flavors.values())
        or any(pod_set.topology for pod_set in pod_sets),
        "admission_checks": any(queue.checks for queue in queues),
        "multikueue": any(queue.elsewhere for queue in queues),
        "afs": any(queue.by_past_use for queue in queues),
        "elastic": any(pod_set.elastic for pod_set in pod_sets),
        "dra_counters": bool(situation.divided)
        and any(pod_set.claims or not situation.divided.isdisjoint(pod_set.requests) for pod_set in pod_sets),
    }
    return frozenset(code for code, present in found.items() if present)
