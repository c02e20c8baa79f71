"""Generated setups: queues, cohorts, flavors and work as plain data. Input: a seed; output: `Setup`, the same every time.

Names are unique within a setup; whoever submits it puts a prefix of its own before all of them. Work comes in waves: a
wave is submitted when the one before has come to rest. Every queue of a setup with cohorts hangs below one root, so
that all of it can start at one instant.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

RESOURCES = ("example.com/gpu", "example.com/nic")
FLAVORS = ("f0", "f1", "f2")
ROOT = "root"


@dataclass(frozen=True)
class Quota:
    nominal: int
    borrow: int | None = None
    lend: int | None = None


@dataclass(frozen=True)
class CohortSpec:
    """`quotas`: {flavor: {resource: Quota}}."""

    name: str
    parent: str
    quotas: dict[str, dict[str, Quota]] = field(default_factory=dict)
    weight: str = "1"


@dataclass(frozen=True)
class QueueSpec:
    name: str
    cohort: str
    flavors: tuple[str, ...]
    quotas: dict[str, dict[str, Quota]]
    strategy: str = "BestEffortFIFO"
    weight: str = "1"
    within: str = "Never"
    reclaim: str = "Never"
    borrow_within: str = "Never"
    threshold: int | None = None
    when_borrow: str = "MayStopSearch"
    when_preempt: str = "TryNextFlavor"
    preference: str = ""
    stopped: bool = False


@dataclass(frozen=True)
class PodSetSpec:
    name: str
    count: int
    requests: dict[str, int]
    min_count: int | None = None
    selector: dict[str, str] = field(default_factory=dict)
    tolerates: bool = False


@dataclass(frozen=True)
class WorkSpec:
    name: str
    queue: str
    priority: int
    pod_sets: tuple[PodSetSpec, ...]
    wave: int = 0


@dataclass(frozen=True)
class Setup:
    seed: int
    fair: bool
    resources: tuple[str, ...]
    cohorts: tuple[CohortSpec, ...]
    queues: tuple[QueueSpec, ...]
    work: tuple[WorkSpec, ...]
    tainted: tuple[str, ...] = ()

    @property
    def waves(self) -> int:
        return 1 + max((work.wave for work in self.work), default=0)

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def setup_of(data: dict[str, Any]) -> Setup:
    """From what `as_data` gave, or the same read back from JSON."""

    def quotas(found: dict[str, Any]) -> dict[str, dict[str, Quota]]:
        return {f: {r: Quota(**cell) for r, cell in row.items()} for f, row in found.items()}

    return Setup(
        seed=data["seed"],
        fair=data["fair"],
        resources=tuple(data["resources"]),
        cohorts=tuple(CohortSpec(**{**c, "quotas": quotas(c["quotas"])}) for c in data["cohorts"]),
        queues=tuple(
            QueueSpec(**{**q, "flavors": tuple(q["flavors"]), "quotas": quotas(q["quotas"])})
            for q in data["queues"]
        ),
        work=tuple(
            WorkSpec(**{**w, "pod_sets": tuple(PodSetSpec(**p) for p in w["pod_sets"])}) for w in data["work"]
        ),
        tainted=tuple(data["tainted"]),
    )


def generate(seed: int, *, fair: bool) -> Setup:
    """Kinds of trees by the seed's remainder: a flat cohort, two and three levels, deep ones, lone queues."""
    return _Maker(seed, fair=fair).setup()


class _Maker:
    def __init__(self, seed: int, *, fair: bool) -> None:
        self.seed, self.fair = seed, fair
        self.random = random.Random(f"{seed}/{fair}")
        self.flavors = FLAVORS[: self.random.choice((1, 1, 2, 3))]
        self.resources = RESOURCES[: self.random.choice((1, 1, 2))]
        self.size = self.random.choice((4, 8, 16))

    def setup(self) -> Setup:
        cohorts = self._cohorts()
        queues = tuple(self._queues(cohorts))
        tainted = tuple(f for f in self.flavors if self.random.random() < 0.1)
        return Setup(
            self.seed, self.fair, self.resources, cohorts, queues, tuple(self._work(queues)), tainted
        )

    # ---- trees ------------------------------------------------------------------------------------------------
    def _cohorts(self) -> tuple[CohortSpec, ...]:
        depth = (1, 1, 2, 2, 3, 3, 0)[self.seed % 7]
        if depth == 0:
            return ()
        made = [self._cohort(ROOT, "")]
        level = [ROOT]
        for _step in range(depth - 1):
            below = []
            for parent in level:
                for _child in range(self.random.choice((1, 1, 2))):
                    name = f"c{len(made)}"
                    made.append(self._cohort(name, parent))
                    below.append(name)
            level = below
        return tuple(made)

    def _cohort(self, name: str, parent: str) -> CohortSpec:
        quotas: dict[str, dict[str, Quota]] = {}
        if self.random.random() < 0.35:
            for flavor in self.flavors:
                quotas[flavor] = {r: self._quota(limited=bool(parent)) for r in self.resources}
        return CohortSpec(name, parent, quotas, self._weight() if parent else "1")

    def _quota(self, *, limited: bool, queue: bool = False) -> Quota:
        nominal = self.random.choice((0, self.size // 2, self.size, self.size))
        borrow = lend = None
        if limited and self.random.random() < 0.3:
            borrow = self.random.choice((0, self.size // 4, self.size // 2, self.size))
        if limited and self.random.random() < 0.3:
            lend = self.random.randint(0, nominal if queue else max(nominal, self.size))
        return Quota(nominal, borrow, lend)

    def _weight(self) -> str:
        if not self.fair:
            return "1"
        return self.random.choice(("1", "1", "2", "0.5", "3", "0"))

    # ---- queues -----------------------------------------------------------------------------------------------
    def _queues(self, cohorts: tuple[CohortSpec, ...]) -> Iterator[QueueSpec]:
        names = [cohort.name for cohort in cohorts]
        leaves = [n for n in names if all(c.parent != n for c in cohorts)] or [""]
        for index in range(self.random.randint(2, 8 if self.seed % 5 else 20)):
            if not cohorts:
                yield self._queue(f"q{index}", "")
            elif self.seed % 11 == 3 and index % 4 == 3:
                yield self._queue(f"q{index}", "implicit")
            else:
                yield self._queue(f"q{index}", self.random.choice(leaves if index % 3 else names))

    def _queue(self, name: str, cohort: str) -> QueueSpec:
        choose = self.random.choice
        flavors = list(self.flavors)
        self.random.shuffle(flavors)
        flavors = flavors[: self.random.randint(1, len(flavors))]
        limited = bool(cohort)
        reclaim = choose(("Never", "LowerPriority", "Any", "Any")) if limited else "Never"
        borrow_within = choose(("Never", "Never", "LowerPriority")) if reclaim != "Never" else "Never"
        if self.fair:
            borrow_within = "Never"
        both = self.random.random() < 0.2
        return QueueSpec(
            name=name,
            cohort=cohort,
            flavors=tuple(flavors),
            quotas={
                f: {r: self._quota(limited=limited, queue=True) for r in self.resources} for f in flavors
            },
            strategy=choose(("BestEffortFIFO", "BestEffortFIFO", "StrictFIFO")),
            weight=self._weight(),
            within=choose(("Never", "LowerPriority", "LowerPriority", "LowerOrNewerEqualPriority")),
            reclaim=reclaim,
            borrow_within=borrow_within,
            threshold=choose((None, 0, 5)) if borrow_within != "Never" else None,
            when_borrow="TryNextFlavor" if both else choose(("MayStopSearch", "TryNextFlavor")),
            when_preempt="TryNextFlavor" if both else choose(("MayStopSearch", "TryNextFlavor")),
            preference=choose(("BorrowingOverPreemption", "PreemptionOverBorrowing")) if both else "",
            stopped=self.random.random() < 0.04,
        )

    # ---- work -------------------------------------------------------------------------------------------------
    def _work(self, queues: tuple[QueueSpec, ...]) -> Iterator[WorkSpec]:
        waves = self.random.choice((1, 2, 2, 3))
        priorities = self.random.choice(((0,), (0, 0, 5), (0, 5, 10)))
        for index in range(self.random.randint(5, 60 if len(queues) > 6 else 30)):
            yield WorkSpec(
                name=f"w{index}",
                queue=self.random.choice(queues).name,
                priority=self.random.choice(priorities),
                pod_sets=tuple(self._pod_sets()),
                wave=self.random.randrange(waves),
            )

    def _pod_sets(self) -> Iterator[PodSetSpec]:
        several = self.random.random() < 0.12
        partial = not several and self.random.random() < 0.12
        for index in range(2 if several else 1):
            count = self.random.choice((1, 1, 1, 2, 4))
            each = max(1, self.random.choice((1, self.size // 4, self.size // 2, self.size)) // count)
            requests = {self.resources[0]: each}
            if len(self.resources) > 1 and self.random.random() < 0.7:
                requests[self.resources[1]] = self.random.choice((1, 2))
            selector = {}
            if len(self.flavors) > 1 and self.random.random() < 0.1:
                selector = {"flavor": self.random.choice(self.flavors)}
            yield PodSetSpec(
                name=f"p{index}",
                count=count,
                requests=requests,
                min_count=1 if partial and count > 1 else None,
                selector=selector,
                tolerates=self.random.random() < 0.5,
            )
