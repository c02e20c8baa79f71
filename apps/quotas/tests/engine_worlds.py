"""Short ways to write situations for the engine's tests: everything in GPUs of flavor "a100" unless said otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

from apps.quotas.engine.model import (
    Assigned,
    Flavor,
    Group,
    Outcome,
    PodSet,
    Policy,
    Queue,
    Situation,
    Work,
)
from apps.quotas.tree import Cell, FlavorResource, QuotaNode

D = Decimal
GPU = "nvidia.com/gpu"
A100: FlavorResource = ("a100", GPU)
H100: FlavorResource = ("h100", GPU)
Strategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
FINAL: Strategy = "LessThanOrEqualToFinalShare"
INITIAL: Strategy = "LessThanInitialShare"
FLAVORS = {name: Flavor(name, {"gpu": name}) for name in ("a100", "h100", "l4")}


def cells(quotas: Mapping[str, Any]) -> dict[FlavorResource, Cell]:
    """{"a100": 8} or {"a100": (8, borrow, lend)}; a limit of None is none. "a100 cpu" is another resource of a flavor."""
    found = {}
    for key, said in quotas.items():
        flavor, _, resource = key.partition(" ")
        nominal, borrow, lend = said if isinstance(said, tuple) else (said, None, None)
        limits = [None if n is None else D(n) for n in (borrow, lend)]
        found[flavor, resource or GPU] = Cell(D(nominal), *limits)
    return found


def queue(
    name: str,
    quotas: Mapping[str, Any] | int = 0,
    *,
    cohort: str | None = None,
    weight: str = "1",
    inactive: str = "",
    drains: bool = False,
    **policy: Any,
) -> Queue:
    said = quotas if isinstance(quotas, Mapping) else {"a100": quotas}
    node = QuotaNode(name, "ClusterQueue", cohort, cells(said), D(weight), bool(inactive))
    flavors, resources = (tuple(dict.fromkeys(names)) for names in zip(*node.cells, strict=True))
    return Queue(node, (Group(resources, flavors),), Policy(**policy), inactive, drains)


def cohort(name: str, quotas: Mapping[str, Any] | None = None, *, parent: str | None = None) -> QuotaNode:
    return QuotaNode(name, "Cohort", parent, cells(quotas or {}))


def work(
    uid: str,
    queue_name: str,
    gpus: int,
    *,
    pods: int = 1,
    at: float = 0,
    priority: int = 0,
    holds: str | None = None,
    reserved_at: float = 0,
    least: int | None = None,
    selector: Mapping[str, str] | None = None,
    more: Mapping[str, int] | None = None,
) -> Work:
    """`gpus` per pod; `holds`: the flavor that it runs in; `more`: other resources per pod (then `gpus` may be 0: none
    are asked for)."""
    requests = {resource: D(amount) for resource, amount in {GPU: gpus, **(more or {})}.items()}
    if more and not gpus:
        del requests[GPU]
    pod_set = PodSet("main", pods, requests, least, selector or {})
    held = None
    if holds is not None:
        amounts = {resource: amount * pods for resource, amount in requests.items()}
        held = {"main": Assigned(pods, dict.fromkeys(requests, holds), amounts)}
    return Work(uid, uid, "ns", queue_name, priority, at, at, (pod_set,), held, reserved_at)


def situation(
    queues: Sequence[Queue],
    works: Sequence[Work],
    cohorts: Sequence[QuotaNode] = (),
    *,
    fair: bool = False,
    strategies: tuple[Strategy, ...] = (FINAL, INITIAL),
) -> Situation:
    return Situation(tuple(queues), tuple(cohorts), FLAVORS, tuple(works), fair, strategies)


def admitted(outcome: Outcome) -> dict[str, str]:
    """uid → flavor of the pod set's cards."""
    return {uid: found.assigned["main"].flavors[GPU] for uid, found in outcome.admitted.items()}


def refused(outcome: Outcome) -> dict[str, str]:
    return {uid: pending.refused for uid, pending in outcome.pending.items()}


def sent_away(outcome: Outcome) -> list[tuple[str, str]]:
    """(uid, why), in order."""
    return [(victim.uid, victim.why) for victim in outcome.preempted]
