"""Which flavor each resource of a piece of work would get, and how: it fits, needs preemption, or does not fit.

Input: the books, work, an oracle that says what preemption would do; output: `Assignment`. Nothing is changed.

Per resource group the flavors are tried in order. The mode of a flavor is the worst over its resources:
  NO_FIT         larger than the ceiling, or larger than what is free with no way to preempt
  NO_CANDIDATES  preemption is allowed, and nobody may be preempted now
  PREEMPT        some victims are in the own queue
  RECLAIM        all victims are in other queues
  FIT            free now
and beside it the borrowing level: the height of the lowest subtree that has the quota. When to go on to the next flavor,
and which of those tried is the best, is the queue's fungibility.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import IntEnum
from typing import Protocol

from apps.quotas.engine.books import Books, Tried
from apps.quotas.engine.model import ZERO, Assigned, Group, Placement, PodSet, Policy, Reason, Work
from apps.quotas.tree import FlavorResource

FROM_THE_START = -1


class Mode(IntEnum):
    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4

    @property
    def needs_preemption(self) -> bool:
        return Mode.NO_FIT < self < Mode.FIT


class Oracle(Protocol):
    """What preemption for one cell would come to: a mode and the borrowing level after it."""

    def __call__(self, work: Work, fr: FlavorResource, amount: Decimal) -> tuple[Mode, int]: ...


@dataclass(frozen=True, slots=True)
class Level:
    """How one flavor does. `borrow`: 0 within the own nominal quota."""

    mode: Mode
    borrow: int


@dataclass(frozen=True, slots=True)
class Choice:
    """A flavor for one resource."""

    flavor: str
    mode: Mode
    borrow: int
    tried: int = FROM_THE_START


@dataclass(slots=True)
class Assignment:
    """The whole of it. `mode` is the worst of all; `amounts` what it would hold; `tried` where to go on next time."""

    counts: tuple[int, ...]
    choices: list[dict[str, Choice]] = field(default_factory=list)
    totals: list[dict[str, Decimal]] = field(default_factory=list)
    amounts: dict[FlavorResource, Decimal] = field(default_factory=dict)
    reasons: list[Reason] = field(default_factory=list)
    mode: Mode = Mode.FIT
    borrow: int = 0

    @property
    def tried(self) -> Tried:
        return tuple({resource: c.tried for resource, c in choices.items()} for choices in self.choices)

    @property
    def cells_to_free(self) -> frozenset[FlavorResource]:
        """The cells in which it does not fit without preemption."""
        return frozenset(
            (choice.flavor, resource)
            for choices in self.choices
            for resource, choice in choices.items()
            if choice.mode.needs_preemption
        )

    def assigned(self, work: Work) -> dict[str, Assigned]:
        """As it is written down when it is admitted."""
        return {
            pod_set.name: Assigned(
                count,
                {resource: choice.flavor for resource, choice in choices.items()},
                {resource: totals[resource] for resource in choices},
            )
            for pod_set, count, choices, totals in zip(
                work.pod_sets, self.counts, self.choices, self.totals, strict=False
            )
        }


def pending_flavors(tried: Tried | None) -> bool:
    """Whether some flavors were not tried last time."""
    return tried is not None and any(index != FROM_THE_START for one in tried for index in one.values())


def assign(
    books: Books,
    work: Work,
    *,
    oracle: Oracle,
    counts: Sequence[int] | None = None,
    tried: Tried | None = None,
) -> Assignment:
    """`counts`: pods per pod set (partial admission); `tried`: of the last attempt, None to start over."""
    found = Assignment(tuple(counts or (pod_set.count for pod_set in work.pod_sets)))
    pods = books.group_of(work.queue, "pods") is not None
    for index, (pod_set, count) in enumerate(zip(work.pod_sets, found.counts, strict=True)):
        totals = {resource: amount * count for resource, amount in pod_set.requests.items()}
        if pods:
            totals["pods"] = Decimal(count)
        last = tried[index] if tried is not None and index < len(tried) else {}
        if not _assign_pod_set(books, work, pod_set, totals, last, oracle, found):
            found.mode = Mode.NO_FIT
            break
    if found.mode is Mode.FIT and books.placement is not None:
        _place(books.placement, work, found)
    return found


def _place(placement: Placement, work: Work, found: Assignment) -> None:
    """As Kueue: places are looked for in the flavors that were chosen; whoever finds none stands as one that nobody can be
    preempted for, and goes on with the next flavor in the next cycle."""
    for pod_set, count, choices in zip(work.pod_sets, found.counts, found.choices, strict=True):
        flavors = dict.fromkeys(choice.flavor for choice in choices.values())
        refusal = placement(work, pod_set, count, flavors)
        if refusal is not None:
            found.reasons.append(refusal)
            found.mode = Mode.NO_CANDIDATES
            return


def _assign_pod_set(
    books: Books,
    work: Work,
    pod_set: PodSet,
    totals: dict[str, Decimal],
    last: Mapping[str, int],
    oracle: Oracle,
    found: Assignment,
) -> bool:
    """False when some resource gets no flavor at all."""
    choices: dict[str, Choice] = {}
    ok = True
    for resource in sorted(totals):
        group = books.group_of(work.queue, resource)
        if resource in choices or (group is None and totals[resource] == 0):
            continue
        if group is None:
            found.reasons.append(Reason("ResourceNotCovered", pod_set.name, "", resource))
            ok = False
            continue
        search = _Search(books, work, pod_set, group, totals, found.amounts, oracle)
        picked = search.run(last.get(resource, FROM_THE_START) + 1)
        if search.best.mode is not Mode.FIT:
            found.reasons += search.reasons
        if picked:
            choices |= picked
        else:
            ok = False
    found.choices.append(choices if ok else {})
    found.totals.append(totals)
    for resource, choice in (choices if ok else {}).items():
        cell = (choice.flavor, resource)
        found.amounts[cell] = found.amounts.get(cell, ZERO) + totals[resource]
        found.borrow = max(found.borrow, choice.borrow)
        found.mode = min(found.mode, choice.mode)
    return ok


@dataclass(slots=True)
class _Search:
    """The flavors of one group for one pod set."""

    books: Books
    work: Work
    pod_set: PodSet
    group: Group
    totals: Mapping[str, Decimal]
    before: Mapping[FlavorResource, Decimal]
    oracle: Oracle
    reasons: list[Reason] = field(default_factory=list)
    best: Level = Level(Mode.NO_FIT, 1 << 30)

    def run(self, start: int) -> dict[str, Choice]:
        policy = self.books.queues[self.work.queue].policy
        chosen: dict[str, Choice] = {}
        index = start - 1
        for index in range(start, len(self.group.flavors)):
            flavor = self.group.flavors[index]
            choices, level = self._try(flavor, policy)
            if not goes_on(level, policy):
                chosen, self.best = choices, level
                break
            if is_better(level, self.best, policy):
                chosen, self.best = choices, level
        tried = FROM_THE_START if index == len(self.group.flavors) - 1 else index
        return {resource: replace(choice, tried=tried) for resource, choice in chosen.items()}

    def _try(self, flavor: str, policy: Policy) -> tuple[dict[str, Choice], Level]:
        self.books.budget.spend()
        wrong = self.books.why_not(flavor, self.pod_set, self.group)
        if wrong is not None:
            self.reasons.append(wrong)
            return {}, Level(Mode.NO_FIT, 0)
        worst = Level(Mode.FIT, 0)
        choices: dict[str, Choice] = {}
        for resource in sorted(self.totals):
            if resource not in self.group.covered:
                continue
            level = self._quota(flavor, resource)
            if is_better(worst, level, policy):
                worst = level
            choices[resource] = Choice(flavor, level.mode, level.borrow)
        return choices, worst

    def _quota(self, flavor: str, resource: str) -> Level:
        """How the quota of one cell does, beside what earlier pod sets take."""
        fr, queue = (flavor, resource), self.work.queue
        amount = self.before.get(fr, ZERO) + self.totals[resource]
        most = self.books.ceiling(queue, fr)
        if amount > most:
            self.reasons.append(Reason("ExceedsMaxQuota", self.pod_set.name, flavor, resource, most=most))
            return Level(Mode.NO_FIT, 0)
        free = self.books.available(queue, fr)
        borrow, may_reclaim = self.books.height_that_fits(queue, fr, amount)
        if amount <= free:
            return Level(Mode.FIT, borrow)
        self.reasons.append(
            Reason("WaitingForQuota", self.pod_set.name, flavor, resource, more=amount - free)
        )
        if amount <= self.books.nominal(queue, fr) or may_reclaim or self._preempts_while_borrowing():
            return Level(*self.oracle(self.work, fr, amount))
        return Level(Mode.NO_FIT, borrow)

    def _preempts_while_borrowing(self) -> bool:
        policy = self.books.queues[self.work.queue].policy
        return policy.borrow_within_cohort != "Never" or (
            self.books.fair and policy.reclaim_within_cohort != "Never"
        )


def goes_on(level: Level, policy: Policy) -> bool:
    """Whether the next flavor is tried after one that does like this."""
    if level.mode in (Mode.NO_FIT, Mode.NO_CANDIDATES):
        return True
    if level.mode in (Mode.PREEMPT, Mode.RECLAIM) and policy.when_can_preempt == "TryNextFlavor":
        return True
    return level.borrow > 0 and policy.when_can_borrow == "TryNextFlavor"


def is_better(one: Level, other: Level, policy: Policy) -> bool:
    """Whether `one` is preferred; what does not fit never is."""
    if one.mode is Mode.NO_FIT:
        return False
    if other.mode is Mode.NO_FIT:
        return True
    if policy.preference == "PreemptionOverBorrowing":
        return (-one.borrow, one.mode) > (-other.borrow, other.mode)
    return (one.mode, -one.borrow) > (other.mode, -other.borrow)
