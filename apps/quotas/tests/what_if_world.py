"""Small clusters for the what-if tests, written down in one place: amounts are cards of flavor `h100`."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from apps.quotas.engine.model import Assigned, Flavor, Group, PodSet, Policy, Queue, Situation, Work
from apps.quotas.tree import Cell, QuotaNode

GPU = "nvidia.com/gpu"
H100 = ("h100", GPU)


def limit(value: int | None) -> Decimal | None:
    return None if value is None else Decimal(value)


def cell(nominal: int, borrow: int | None = None, lend: int | None = None) -> Cell:
    return Cell(Decimal(nominal), limit(borrow), limit(lend))


def a_queue(
    name: str,
    nominal: int,
    *,
    cohort: str | None = "all",
    borrow: int | None = None,
    lend: int | None = None,
    flavors: tuple[str, ...] = ("h100",),
    policy: Policy | None = None,
) -> Queue:
    """Its nominal quota is of every flavor."""
    return Queue(
        node=QuotaNode(
            name, "ClusterQueue", cohort, {(flavor, GPU): cell(nominal, borrow, lend) for flavor in flavors}
        ),
        groups=(Group((GPU,), flavors),),
        policy=policy or Policy(),
    )


def a_cohort(name: str, parent: str | None = None, nominal: int | None = None) -> QuotaNode:
    return QuotaNode(name, "Cohort", parent, {} if nominal is None else {H100: cell(nominal)})


def job(
    uid: str,
    queue: str,
    cards: int,
    *,
    holds: bool = False,
    priority: int = 0,
    queued: float = 0.0,
    **fields: Any,
) -> Work:
    """One pod with so many cards; `holds`: it has them, of flavor h100."""
    return Work(
        uid=uid,
        name=uid,
        namespace=f"{queue}-ns",
        queue=queue,
        priority=priority,
        created=queued,
        queued=queued,
        pod_sets=(PodSet("main", 1, {GPU: Decimal(cards)}),),
        holds=held(cards) if holds else None,
        reserved_at=queued if holds else 0.0,
        local_queue=f"{queue}-lq",
        **fields,
    )


def held(cards: int, flavor: str = "h100") -> Mapping[str, Assigned]:
    return {"main": Assigned(1, {GPU: flavor}, {GPU: Decimal(cards)})}


def situation(*parts: Queue | QuotaNode | Work, flavors: tuple[str, ...] = ("h100", "a100")) -> Situation:
    return Situation(
        queues=tuple(part for part in parts if isinstance(part, Queue)),
        cohorts=tuple(part for part in parts if isinstance(part, QuotaNode)),
        flavors={name: Flavor(name) for name in flavors},
        work=tuple(part for part in parts if isinstance(part, Work)),
    )
