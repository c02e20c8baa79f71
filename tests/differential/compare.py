"""Our numbers and our engine against what a real Kueue came to. Input: a recording (real.py); output: `Agreement`s.

Each wave begins with what Kueue had reserved before it, so that one disagreement does not make more. The work that waits
is tried as it was there: first whoever stands in line (heads of strict queues), then what had been set aside.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Decimal
from typing import Any

from apps.core.quantity import parse_quantity
from apps.quotas.engine.model import (
    Assigned,
    Flavor,
    Group,
    Outcome,
    PodSet,
    Policy,
    Queue,
    Reason,
    Refused,
    Situation,
    Work,
)
from apps.quotas.engine.settle import settle_again
from apps.quotas.engine.verdicts import verdict_of
from apps.quotas.tree import Cell, FlavorResource, QuotaNode, QuotaTree

from .setups import CohortSpec, QueueSpec, Quota, Setup, WorkSpec, setup_of

Obj = dict[str, Any]
ZERO = Decimal(0)
LARGEST = str(2**63 - 1)
CHECK, CIRCLE = "check", "circle"
ORDERS_TRIED = 90
MOST_CYCLES = 800
ORDER_OF_EQUALS = "the same with another order of heads that are equal in all that orders them"
TIME = "the same when what was set aside comes back, or victims go, some cycles earlier or later"
CHAIN = "work was preempted: who is next depends on when each victim is gone"
BEHIND = "the queue's status was behind its work when it was read: the two do not add up"
OLD_WORD = "what Kueue last said of it is from when it stood at the head of its strict queue"
PART = "Kueue's last word names only some flavors; each of its reasons is among ours"
MOMENT = "the same class of reason, named for the state at another moment"
NOT_LOOKED_AT = "the same without a queue that Kueue had not come back to when all was at rest"
_MORE = re.compile(r"insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed")
_MOST = re.compile(r"insufficient quota for (\S+) in flavor (\S+), .*?> maximum capacity \((\S+)\)")


@dataclass(frozen=True)
class Disagreement:
    """`why`: "" when nothing explains it."""

    seed: str
    wave: int
    what: str
    about: str
    real: str
    ours: str
    why: str = ""

    def __str__(self) -> str:
        said = (
            f"{self.seed} wave {self.wave}: {self.what} of {self.about}: Kueue {self.real}, ours {self.ours}"
        )
        return f"{said} ({self.why or 'not explained'})"


@dataclass
class Agreement:
    """Comparisons made and what differed, by what was compared."""

    made: Counter[str] = field(default_factory=Counter)
    differ: list[Disagreement] = field(default_factory=list)

    def check(self, where: tuple[str, int], what: str, about: str, real: object, ours: object) -> None:
        self.made[what] += 1
        if real != ours:
            self.differ.append(Disagreement(*where, what, about, str(real), str(ours)))

    def share(self, *whats: str) -> Decimal:
        """In percent; of all comparisons where none are named."""
        chosen = whats or tuple(self.made)
        made = sum(self.made[what] for what in chosen)
        differ = sum(1 for found in self.differ if found.what in chosen)
        return Decimal(100) * (made - differ) / made if made else Decimal(100)


ARITHMETIC = ("borrowed", "reserved", "share", "more needed", "maximum capacity")
ENGINE = ("admitted", "flavors", "count", "refused", "reason")


def compare(recording: Obj, into: Agreement) -> None:
    """Add one recording's comparisons."""
    setup = setup_of(recording["setup"])
    before: Obj = {"work": {}}
    for number, wave in enumerate(recording["waves"]):
        where = (f"{setup.seed}{' fair' if setup.fair else ''}", number)
        held_back = recording.get("held_back", CHECK)
        _compare_wave(setup, before, wave, into, where, _set_aside(setup, wave, number, held_back))
        numbers = Agreement()
        _compare_arithmetic(setup, wave, numbers, where)
        into.made += numbers.made
        behind = any(one.what == "reserved" for one in numbers.differ)
        into.differ += [replace(one, why=BEHIND if behind else "") for one in numbers.differ]
        before = wave


def _compare_wave(
    setup: Setup,
    before: Obj,
    wave: Obj,
    into: Agreement,
    where: tuple[str, int],
    aside: set[str] | None,
) -> None:
    here = situation(setup, where[1], before, wave)
    found = Agreement()
    _compare_admission(setup, wave, settle_again(here, aside=aside, max_cycles=MOST_CYCLES), found, where)
    into.made += found.made
    if not found.differ:
        return
    unseen = _unseen_queues(setup, wave, where[1])
    explained = _explained_by_order(setup, wave, here, where, aside, unseen, found.differ)
    other_reasons = {one.about for one in found.differ if one.what == "reason"}
    queues = {work.name: queue for work in setup.work for queue in setup.queues if queue.name == work.queue}
    for one in found.differ:
        if queues[one.about].name in unseen:
            explained[one.what, one.about] = NOT_LOOKED_AT
        elif (
            one.what == "refused" and one.ours == "BehindHead" and queues[one.about].strategy == "StrictFIFO"
        ):
            explained[one.what, one.about] = OLD_WORD
        elif one.what == "refused" and reasons_in(wave["work"][one.about]["message"]):
            if one.about not in other_reasons:
                explained.setdefault((one.what, one.about), PART)
        elif one.what == "reason" and ("refused", one.about) not in {(o.what, o.about) for o in found.differ}:
            explained.setdefault((one.what, one.about), MOMENT)
    into.differ += [
        replace(one, why=explained.get((one.what, one.about), "") or _chain(setup, before, wave, one))
        for one in found.differ
    ]


def _chain(setup: Setup, before: Obj, wave: Obj, one: Disagreement) -> str:
    """Work of the same tree was sent away in this wave: who is next depends on when each is gone."""
    parents = {cohort.name: cohort.parent for cohort in setup.cohorts}

    def root(name: str) -> str:
        while parents.get(name):
            name = parents[name]
        return name

    roots = {queue.name: root(queue.cohort) or queue.name for queue in setup.queues}
    where = {work.name: roots[work.queue] for work in setup.work}
    sent = sum(
        found["evictions"] - before["work"].get(name, {}).get("evictions", 0)
        for name, found in wave["work"].items()
        if where[name] == where[one.about]
    )
    return CHAIN if sent else ""


def _set_aside(setup: Setup, wave: Obj, number: int, held_back: str) -> set[str] | None:
    """What Kueue had looked at before the wave began: what came before. Behind an inactive admission check no queue is
    looked at, so what came in this wave stands in line; below a circle of cohorts everything is tried in vain (None)."""
    if held_back == CIRCLE:
        return None
    return {wave["work"][w.name]["uid"] for w in setup.work if w.wave < number and w.name in wave["work"]}


def _explained_by_order(
    setup: Setup,
    wave: Obj,
    here: Situation,
    where: tuple[str, int],
    aside: set[str] | None,
    unseen: set[str],
    differ: list[Disagreement],
) -> dict[tuple[str, str], str]:
    """By (what, about) of those that differ: why, where some order of equals, and some time for work to come back and for
    victims to go, admits exactly what Kueue did and makes that difference vanish. Heads of different queues that are
    equal in borrowing, priority and time to the second come in no particular order there, and one of its cycles serves
    all setups at once, so that it may take a second."""
    left = {(one.what, one.about) for one in differ}
    explained: dict[tuple[str, str], str] = {}
    if unseen:
        queues = tuple(replace(q, inactive="unseen") if q.name in unseen else q for q in here.queues)
        here = replace(here, queues=queues)
    for way in _ways(setup, where):
        if not left:
            break
        again = Agreement()
        outcome = settle_again(here, aside=aside, max_cycles=MOST_CYCLES, **way.arguments())
        _compare_admission(setup, wave, outcome, again, where)
        if any(one.what in ENGINE[:3] for one in again.differ):
            continue
        gone = left - {(one.what, one.about) for one in again.differ}
        explained.update(dict.fromkeys(gone, NOT_LOOKED_AT if unseen else way.why))
        left -= gone
    return explained


@dataclass(frozen=True)
class _Way:
    """One order of equals and one time for what comes back and who goes."""

    equals: dict[str, int]
    ticking: bool
    patience: int | None = None
    linger: int = 0

    @property
    def why(self) -> str:
        return ORDER_OF_EQUALS if self.patience is None and not self.linger else TIME

    def arguments(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("equals", "ticking", "patience", "linger")}


def _ways(setup: Setup, where: tuple[str, int]) -> Iterator[_Way]:
    """First only the order changes, then the times as well."""
    names = [queue.name for queue in setup.queues]
    shuffle = random.Random(f"{where}")
    for attempt in range(ORDERS_TRIED):
        order = {name: index for index, name in enumerate(names)}
        if attempt < ORDERS_TRIED // 3:
            yield _Way(order, bool(attempt % 2))
        else:
            yield _Way(
                order, bool(attempt % 2), shuffle.choice((None, 1, 2, 3)), shuffle.choice((0, 0, 1, 2))
            )
        shuffle.shuffle(names)


def _unseen_queues(setup: Setup, wave: Obj, number: int) -> set[str]:
    """Queues that Kueue had not come back to: all that came in this wave and waits still has the word of the time when it
    was held back."""
    unseen = set()
    for queue in setup.queues:
        waits = [
            (work.wave, found["message"])
            for work in setup.work
            if work.queue == queue.name
            and (found := wave["work"].get(work.name)) is not None
            and found["holds"] is None
        ]
        newest = [message for came, message in waits if came == number] or [
            message for _came, message in waits
        ]
        if newest and not queue.stopped and all("is inactive" in message for message in newest):
            unseen.add(queue.name)
    return unseen


# ---- the setup as the engine takes it ----------------------------------------------------------------------------------


def _cells(quotas: Mapping[str, Mapping[str, Quota]]) -> dict[FlavorResource, Cell]:
    return {
        (flavor, resource): Cell(
            Decimal(cell.nominal), *(None if n is None else Decimal(n) for n in (cell.borrow, cell.lend))
        )
        for flavor, row in quotas.items()
        for resource, cell in row.items()
    }


def _queue(queue: QueueSpec, resources: tuple[str, ...]) -> Queue:
    quotas = {f: queue.quotas[f] for f in queue.flavors}
    node = QuotaNode(
        queue.name, "ClusterQueue", queue.cohort or None, _cells(quotas), Decimal(queue.weight), queue.stopped
    )
    policy = Policy(
        queue.strategy,  # type: ignore[arg-type]
        queue.within,  # type: ignore[arg-type]
        queue.reclaim,  # type: ignore[arg-type]
        queue.borrow_within,  # type: ignore[arg-type]
        queue.threshold,
        queue.when_borrow,  # type: ignore[arg-type]
        queue.when_preempt,  # type: ignore[arg-type]
        queue.preference,  # type: ignore[arg-type]
    )
    return Queue(node, (Group(resources, queue.flavors),), policy, "Stopped" if queue.stopped else "")


def _cohort(setup: Setup, cohort: CohortSpec) -> QuotaNode:
    used = {f for queue in setup.queues for f in queue.flavors}
    quotas = {f: row for f, row in cohort.quotas.items() if f in used}
    return QuotaNode(cohort.name, "Cohort", cohort.parent or None, _cells(quotas), Decimal(cohort.weight))


def _work(work: WorkSpec, found: Obj, held: Obj | None, reserved_at: int) -> Work:
    pod_sets = tuple(
        PodSet(
            p.name,
            p.count,
            {r: Decimal(n) for r, n in p.requests.items()},
            p.min_count,
            p.selector,
            (),
            ({"key": "spot", "operator": "Exists"},) if p.tolerates else (),
        )
        for p in work.pod_sets
    )
    holds = held and {
        name: Assigned(
            part["count"], part["flavors"], {r: parse_quantity(n) for r, n in part["amounts"].items()}
        )
        for name, part in held.items()
    }
    created = found["created"]
    return Work(
        found["uid"],
        work.name,
        "ns",
        work.queue,
        work.priority,
        created,
        created,
        pod_sets,
        holds or None,
        reserved_at,
    )


def situation(setup: Setup, number: int, before: Obj, wave: Obj) -> Situation:
    """As it was when wave `number` began."""
    works = []
    for work in setup.work:
        if work.wave <= number and work.name in wave["work"]:
            was = before["work"].get(work.name, {})
            works.append(_work(work, wave["work"][work.name], was.get("holds"), was.get("reserved_at", 0)))
    flavors = {
        f: Flavor(f, {"flavor": f}, (("spot", "true", "NoSchedule"),) if f in setup.tainted else ())
        for queue in setup.queues
        for f in queue.flavors
    }
    return Situation(
        tuple(_queue(queue, setup.resources) for queue in setup.queues),
        tuple(_cohort(setup, cohort) for cohort in setup.cohorts),
        flavors,
        tuple(works),
        setup.fair,
    )


# ---- what was admitted -------------------------------------------------------------------------------------------------


def _compare_admission(
    setup: Setup, wave: Obj, outcome: Outcome, into: Agreement, where: tuple[str, int]
) -> None:
    stopped = {queue.name for queue in setup.queues if queue.stopped}
    for work in setup.work:
        found = wave["work"].get(work.name)
        if found is None:
            continue
        uid, holds = found["uid"], found["holds"]
        ours_holds = uid in outcome.kept or uid in outcome.admitted
        into.check(where, "admitted", work.name, holds is not None, ours_holds)
        if holds is not None and uid in outcome.admitted:
            ours = outcome.admitted[uid].assigned
            real_flavors = {name: part["flavors"] for name, part in holds.items()}
            into.check(
                where,
                "flavors",
                work.name,
                real_flavors,
                {name: dict(part.flavors) for name, part in ours.items()},
            )
            if any(p.min_count is not None for p in work.pod_sets):
                into.check(
                    where,
                    "count",
                    work.name,
                    {name: part["count"] for name, part in holds.items()},
                    {name: part.count for name, part in ours.items()},
                )
        if holds is None and not ours_holds:
            into.check(
                where,
                "refused",
                work.name,
                _class_of(found, stopped=work.queue in stopped),
                _same_class(outcome.pending[uid].refused, stopped=work.queue in stopped),
            )
            ours_reasons = {(r.code, r.pod_set, r.flavor, r.resource) for r in outcome.pending[uid].reasons}
            if ours_reasons and _evaluated(outcome.pending[uid].refused):
                for reason in reasons_in(found["message"]):
                    key = (reason.code, reason.pod_set, reason.flavor, reason.resource)
                    into.check(where, "reason", work.name, key, key if key in ours_reasons else None)


_POD_SET = re.compile(r"couldn't assign flavors to pod set (\S+): ")
_PARTS: tuple[tuple[re.Pattern[str], Refused], ...] = (
    (re.compile(r"insufficient unused quota for (?P<r>\S+) in flavor (?P<f>\S+), "), "WaitingForQuota"),
    (re.compile(r"insufficient quota for (?P<r>\S+) in flavor (?P<f>\S+), .*?> maximum"), "ExceedsMaxQuota"),
    (re.compile(r"flavor (?P<f>\S+) doesn't match node affinity"), "NoMatchingFlavor"),
    (re.compile(r"untolerated taint \{[^}]*\} in flavor (?P<f>[^\s,;.]+)"), "NoMatchingFlavor"),
    (re.compile(r"resource (?P<r>\S+) unavailable in ClusterQueue"), "ResourceNotCovered"),
)


def reasons_in(message: str) -> list[Reason]:
    """Every reason that Kueue's words name, per pod set."""
    found = []
    pieces = _POD_SET.split(message)
    for pod_set, text in zip(pieces[1::2], pieces[2::2], strict=True):
        for pattern, code in _PARTS:
            for match in pattern.finditer(text):
                groups = match.groupdict()
                found.append(Reason(code, pod_set, groups.get("f", ""), groups.get("r", "")))
    return found


def _class_of(found: Obj, *, stopped: bool) -> str:
    """The class of Kueue's words by the rule that ours goes by. What was said of an active queue while it was held back
    is old: the work was not looked at since."""
    message = found["message"]
    if "is inactive" in message or "is stopped" in message:
        return "QueueInactive" if stopped else "BehindHead"
    if reasons := reasons_in(message):
        return _same_class(verdict_of(reasons))
    return "waits" if message else "BehindHead"


def _evaluated(refused: Refused) -> bool:
    return refused not in ("BehindHead", "NotEvaluated", "QueueInactive", "QueueMissing")


def _same_class(refused: Refused, *, stopped: bool = False) -> str:
    # cut in a circle of preemptions, or in a queue that Kueue had not come back to
    if refused == "NotEvaluated" or (refused == "QueueInactive" and not stopped):
        return "BehindHead"
    return "waits" if refused in ("WaitingForQuota", "WaitingForPreemption") else refused


# ---- numbers ------------------------------------------------------------------------------------------------------------


def _usage(setup: Setup, wave: Obj) -> dict[str, dict[FlavorResource, Decimal]]:
    held: dict[str, dict[FlavorResource, Decimal]] = {}
    for work in setup.work:
        for part in (wave["work"].get(work.name, {}).get("holds") or {}).values():
            for resource, flavor in part["flavors"].items():
                cell = held.setdefault(work.queue, {})
                amount = parse_quantity(part["amounts"][resource])
                cell[flavor, resource] = cell.get((flavor, resource), ZERO) + amount
    return held


def _compare_arithmetic(setup: Setup, wave: Obj, into: Agreement, where: tuple[str, int]) -> None:
    here = situation(setup, 10**6, wave, wave)
    tree = QuotaTree([*(q.node for q in here.queues), *here.cohorts], _usage(setup, wave))
    for name, queue in wave["queues"].items():
        for flavor, row in queue["reservation"].items():
            for resource, (total, borrowed) in row.items():
                fr, about = (flavor, resource), f"{name} {flavor} {resource}"
                into.check(
                    where, "reserved", about, parse_quantity(total), tree.usage("ClusterQueue", name, fr)
                )
                into.check(
                    where,
                    "borrowed",
                    about,
                    parse_quantity(borrowed),
                    tree.borrowed("ClusterQueue", name, fr),
                )
        if setup.fair and queue["share"] is not None:
            into.check(
                where, "share", name, queue["share"], _share_text(tree.weighted_share("ClusterQueue", name))
            )
    for name, share in wave["cohorts"].items():
        if setup.fair and share is not None:
            into.check(where, "share", name, share, _share_text(tree.weighted_share("Cohort", name)))
    for about, what, real, ours in _stated(setup, wave, tree):
        into.check(where, what, about, real, ours)


def _share_text(share: Decimal | None) -> str:
    if share is None or not share.is_finite():
        return LARGEST
    return str(int(share.to_integral_value(rounding=ROUND_CEILING)))


def _stated(setup: Setup, wave: Obj, tree: QuotaTree) -> Iterator[tuple[str, str, Decimal, Decimal]]:
    """Ceilings in Kueue's words. What is "more needed" was free at some other moment, and is checked where nothing of the
    tree was admitted or preempted in between: where the last word is about the state at rest, as for a strict head."""
    for work in setup.work:
        found = wave["work"].get(work.name)
        if found is None or found["holds"] is not None:
            continue
        for resource, flavor, most in _MOST.findall(found["message"]):
            ours = tree.potential_available("ClusterQueue", work.queue, (flavor, resource))
            yield f"{work.name} {flavor} {resource}", "maximum capacity", parse_quantity(most), ours
