"""What a change does: two settled outcomes of the same cluster, told apart. Input: the situations before and after
with their outcomes; output: `Comparison`. Pure.

"Before" is the present state, settled without the change: work that would start anyway is in both and is no effect.
What holds quota now, would still hold it without the change, and loses it with it is "preempted" (by what the engine
says took it last) or "drained"; what waits now and would have started without the change "misses". Invariants
- Every workload has at most one effect.
- Amounts are exact; lines of (flavor, resource) are never added up over flavors or resources.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from apps.quotas.engine.model import Outcome, Pending, Queue, Situation, Work
from apps.quotas.tree import ZERO, FlavorResource, Key, QuotaTree

Holding = Mapping[FlavorResource, Decimal]
What = Literal["starts", "preempted", "drained", "misses", "moves", "removed"]
LOSES: tuple[What, ...] = ("preempted", "drained", "misses", "removed")


@dataclass(frozen=True, slots=True)
class Effect:
    """`before`, `after`: what it holds per (flavor, resource), empty when it waits. `by`: the work that takes its
    quota, None where none is named; `why`: Kueue's reason of the preemption."""

    what: What
    work: Work
    before: Holding
    after: Holding
    by: Work | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Work that waits after the change. `before` None: it did not wait."""

    work: Work
    before: Pending | None
    after: Pending


@dataclass(frozen=True, slots=True)
class Numbers:
    """One (flavor, resource) of a queue or cohort. `nominal` None: not listed."""

    nominal: Decimal | None
    ceiling: Decimal
    holds: Decimal
    borrowed: Decimal
    lent: Decimal
    over: Decimal


@dataclass(frozen=True, slots=True)
class QuotaLine:
    kind: str
    name: str
    cohort: str
    flavor: str
    resource: str
    before: Numbers
    after: Numbers

    @property
    def changed(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class TeamLine:
    """What a team's own work holds, in whatever queue. `team_id` None: work of nobody."""

    team_id: int | None
    flavor: str
    resource: str
    before: Decimal
    after: Decimal


@dataclass(frozen=True, slots=True)
class Others:
    """Work that the reader may not see, summed per tree: how many start and lose quota, and what they hold."""

    cohort: str
    starts: int
    loses: int
    moves: int
    holds: tuple[tuple[str, str, Decimal, Decimal], ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`anyway`: how many workloads would start without the change too. `whole`: both runs came to rest."""

    effects: tuple[Effect, ...]
    waiting: tuple[Waiting, ...]
    quotas: tuple[QuotaLine, ...]
    teams: tuple[TeamLine, ...]
    others: tuple[Others, ...]
    anyway: int
    whole: bool
    cycles: int
    gaps: frozenset[str]

    def of(self, *what: What) -> tuple[Effect, ...]:
        return tuple(effect for effect in self.effects if effect.what in what)


def holding(work: Work, outcome: Outcome) -> Holding:
    """What a workload holds in the end, per (flavor, resource)."""
    if work.uid in outcome.admitted:
        assigned = outcome.admitted[work.uid].assigned
    elif work.uid in outcome.kept:
        assigned = work.holds or {}
    else:
        return {}
    held: dict[FlavorResource, Decimal] = {}
    for part in assigned.values():
        for resource, amount in part.amounts.items():
            cell = (part.flavors[resource], resource)
            held[cell] = held.get(cell, ZERO) + amount
    return held


def compare(
    before: Situation,
    after: Situation,
    settled: tuple[Outcome, Outcome],
    *,
    touched: Collection[Key],
    team_of: Callable[[Work], int | None],
) -> Comparison:
    first, second = settled
    old = {work.uid: (work, holding(work, first)) for work in before.work}
    new = {work.uid: (work, holding(work, second)) for work in after.work}
    stops = {queue.name: queue for queue in after.queues if queue.node.stopped or queue.drains}
    takers = {found.uid: found for found in second.preempted}
    effects = []
    for uid in old.keys() | new.keys():
        was, now = old.get(uid), new.get(uid)
        what = _what(was, now, stops)
        if what is None:
            continue
        taker = takers.get(uid) if what == "preempted" else None
        found = now or was
        assert found is not None  # noqa: S101 -- the uid came from one of them
        effects.append(
            Effect(
                what,
                found[0],
                was[1] if was else {},
                now[1] if now else {},
                by=new[taker.by][0] if taker and taker.by in new else None,
                why=taker.why if taker else "",
            )
        )
    trees = (_tree(before, first), _tree(after, second))
    return Comparison(
        effects=tuple(sorted(effects, key=lambda effect: (effect.what, effect.work.queue, effect.work.name))),
        waiting=_waiting(after.work, settled),
        quotas=tuple(_quota_lines(trees, touched)),
        teams=_team_lines(old, new, team_of),
        others=(),
        anyway=sum(work.holds is None and work.uid in first.admitted for work in before.work),
        whole=first.settled and second.settled,
        cycles=first.cycles + second.cycles,
        gaps=first.gaps | second.gaps,
    )


def _what(
    was: tuple[Work, Holding] | None, now: tuple[Work, Holding] | None, stops: Mapping[str, Queue]
) -> What | None:
    held, holds = bool(was and was[1]), bool(now and now[1])
    if now is None:
        return "removed"
    if holds and not held:
        return "starts"
    if held and not holds:
        if now[0].holds is None:
            return "misses"
        stop = stops.get(now[0].queue)
        return "drained" if stop and (stop.drains or not now[0].admitted) else "preempted"
    return "moves" if was and was[1] != now[1] else None


def _waiting(work: Iterable[Work], settled: tuple[Outcome, Outcome]) -> tuple[Waiting, ...]:
    """Work that waits after the change for another reason than before; what waits as it did is no effect."""
    first, second = settled
    found = []
    for one in work:
        said, before = second.pending.get(one.uid), first.pending.get(one.uid)
        if said is not None and (
            before is None or (before.refused, before.reasons) != (said.refused, said.reasons)
        ):
            found.append(Waiting(one, before, said))
    return tuple(sorted(found, key=lambda line: (line.work.queue, -line.work.priority, line.work.queued)))


# ---- sums -----------------------------------------------------------------------------------------------------


def _tree(situation: Situation, outcome: Outcome) -> QuotaTree:
    return QuotaTree([*(queue.node for queue in situation.queues), *situation.cohorts], outcome.usage)


def _quota_lines(trees: tuple[QuotaTree, QuotaTree], touched: Collection[Key]) -> Iterable[QuotaLine]:
    """Lines whose numbers change, and all of what was touched."""
    before, after = trees
    cells = sorted(set(before.flavor_resources) | set(after.flavor_resources))
    nothing = Numbers(None, ZERO, ZERO, ZERO, ZERO, ZERO)
    for key in sorted({*before, *after}, key=lambda key: (key[0] == "Cohort", key[1])):
        for fr in cells:
            line = QuotaLine(
                key[0],
                key[1],
                (after.parent(*key) if key in after else None) or "",
                *fr,
                _numbers(before, key, fr) or nothing,
                _numbers(after, key, fr) or nothing,
            )
            if line.changed or (key in touched and line.after != nothing):
                yield line


def _numbers(tree: QuotaTree, key: Key, fr: FlavorResource) -> Numbers | None:
    if key not in tree:
        return None
    cell, listed = tree.cell(*key, fr), key[0] == "Cohort" or tree.lists(*key, fr)
    held = tree.usage(*key, fr)
    if not listed and not held:
        return None
    nominal = tree.subtree_quota(*key, fr) if key[0] == "Cohort" else (cell.nominal if cell else None)
    ceiling = tree.subtree_ceiling(*key, fr) if listed else ZERO
    return Numbers(
        nominal=nominal,
        ceiling=ceiling,
        holds=held,
        borrowed=tree.borrowed(*key, fr),
        lent=tree.lent(*key, fr),
        over=tree.over(*key, fr) if listed else held,
    )


def _team_lines(
    old: Mapping[str, tuple[Work, Holding]],
    new: Mapping[str, tuple[Work, Holding]],
    team_of: Callable[[Work], int | None],
) -> tuple[TeamLine, ...]:
    sums: dict[tuple[int | None, FlavorResource], list[Decimal]] = defaultdict(lambda: [ZERO, ZERO])
    for side, found in enumerate((old, new)):
        for work, held in found.values():
            if held:
                team = team_of(work)
                for fr, amount in held.items():
                    sums[team, fr][side] += amount
    lines = (TeamLine(team, *fr, *both) for (team, fr), both in sums.items() if both[0] != both[1])
    return tuple(
        sorted(lines, key=lambda line: (line.team_id is None, line.team_id or 0, line.flavor, line.resource))
    )


# ---- what a restricted reader sees ------------------------------------------------------------------------------


def narrowed(
    found: Comparison,
    *,
    queues: Collection[str],
    cohorts: Collection[str],
    owns: Callable[[Work], bool],
    team_ids: Collection[int],
    root_of: Callable[[str], str],
) -> Comparison:
    """Only own work and own queues by name, the cohorts above them as sums; everything else per tree.
    `root_of`: the tree (a visible cohort, else "") that a queue belongs to."""
    mine = tuple(
        effect if effect.by is None or owns(effect.by) else _anonymous(effect)
        for effect in found.effects
        if owns(effect.work)
    )
    return Comparison(
        effects=mine,
        waiting=tuple(line for line in found.waiting if owns(line.work)),
        quotas=tuple(
            line for line in found.quotas if line.name in (queues if line.kind == "ClusterQueue" else cohorts)
        ),
        teams=tuple(line for line in found.teams if line.team_id in team_ids),
        others=_others([effect for effect in found.effects if not owns(effect.work)], root_of),
        anyway=0,
        whole=found.whole,
        cycles=found.cycles,
        gaps=found.gaps,
    )


def _anonymous(effect: Effect) -> Effect:
    return Effect(effect.what, effect.work, effect.before, effect.after, None, effect.why)


def _others(effects: Iterable[Effect], root_of: Callable[[str], str]) -> tuple[Others, ...]:
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    holds: dict[str, dict[FlavorResource, tuple[Decimal, Decimal]]] = defaultdict(dict)
    for effect in effects:
        root = root_of(effect.work.queue)
        counts[root][
            "starts" if effect.what == "starts" else "moves" if effect.what == "moves" else "loses"
        ] += 1
        for fr in effect.before.keys() | effect.after.keys():
            was, now = holds[root].get(fr, (ZERO, ZERO))
            holds[root][fr] = (was + effect.before.get(fr, ZERO), now + effect.after.get(fr, ZERO))
    return tuple(
        Others(
            root,
            found["starts"],
            found["loses"],
            found["moves"],
            tuple((flavor, resource, *both) for (flavor, resource), both in sorted(holds[root].items())),
        )
        for root, found in sorted(counts.items())
    )
