"""Our numbers and our engine against what a real Kueue came to. Input: a recording (real.py); output: `Agreement`s.

Each wave begins with what Kueue had reserved before it, so that one disagreement does not make more. The work that waits
is tried as it was there: first whoever stands in line (heads of strict queues), then what had been set aside.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
    Refused,
    Situation,
    Work,
)
from apps.quotas.engine.settle import settle_again
from apps.quotas.tree import Cell, FlavorResource, QuotaNode, QuotaTree

from .setups import CohortSpec, Quota, QueueSpec, Setup, WorkSpec, setup_of

Obj = dict[str, Any]
ZERO = Decimal(0)
LARGEST = str(2**63 - 1)
_MORE = re.compile(r"insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed")
_MOST = re.compile(r"insufficient quota for (\S+) in flavor (\S+), .*?> maximum capacity \((\S+)\)")


@dataclass(frozen=True)
class Disagreement:
    seed: str
    wave: int
    what: str
    about: str
    real: str
    ours: str

    def __str__(self) -> str:
        return (
            f"{self.seed} wave {self.wave}: {self.what} of {self.about}: Kueue {self.real}, ours {self.ours}"
        )


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
ENGINE = ("admitted", "flavors", "count", "refused")


def compare(recording: Obj, into: Agreement) -> None:
    """Add one recording's comparisons."""
    setup = setup_of(recording["setup"])
    before: Obj = {"work": {}}
    for number, wave in enumerate(recording["waves"]):
        where = (f"{setup.seed}{' fair' if setup.fair else ''}", number)
        outcome = settle_again(situation(setup, number, before, wave))
        _compare_admission(setup, wave, outcome, into, where)
        _compare_arithmetic(setup, wave, into, where)
        before = wave


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
                _same_class(outcome.pending[uid].refused),
            )


def _class_of(found: Obj, *, stopped: bool) -> str:
    """The class of Kueue's words, mildest over flavors, then most severe over resources, as ours. What was said of an
    active queue while it was held back is old: the work was not looked at since."""
    message = found["message"]
    if "is inactive" in message or "is stopped" in message:
        return "QueueInactive" if stopped else "BehindHead"
    if not message:
        return "BehindHead"
    if "unavailable in ClusterQueue" in message:
        return "ResourceNotCovered"
    if "insufficient unused quota" in message or "no longer fits" in message or "overlapping" in message:
        return "waits"
    if "Preempted to accommodate" in message:
        return "waits"
    if "maximum capacity" in message:
        return "ExceedsMaxQuota"
    return "NoMatchingFlavor"


def _same_class(refused: Refused) -> str:
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
