"""Short ways to write situations for the engine's tests: everything in GPUs of flavor "a100" unless said otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from apps.quotas.engine.model import Assigned, Flavor, Group, PodSet, Policy, Queue, Situation, Work
from apps.quotas.tree import Cell, FlavorResource, QuotaNode

D = Decimal
GPU = "nvidia.com/gpu"
A100: FlavorResource = ("a100", GPU)
H100: FlavorResource = ("h100", GPU)
FLAVORS = {name: Flavor(name, {"gpu": name}) for name in ("a100", "h100", "l4")}


def cells(quotas: Mapping[str, Any]) -> dict[FlavorResource, Cell]:
    """{"a100": 8} or {"a100": (8, borrow, lend)}; a limit of None is none."""
    found = {}
    for flavor, said in quotas.items():
        nominal, borrow, lend = said if isinstance(said, tuple) else (said, None, None)
        limits = [None if n is None else D(n) for n in (borrow, lend)]
        found[flavor, GPU] = Cell(D(nominal), *limits)
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
    return Queue(node, (Group((GPU,), tuple(said)),), Policy(**policy), inactive, drains)


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
) -> Work:
    """`gpus` per pod; `holds`: the flavor that it runs in."""
    pod_set = PodSet("main", pods, {GPU: D(gpus)}, least, selector or {})
    held = None if holds is None else {"main": Assigned(pods, {GPU: holds}, {GPU: D(gpus * pods)})}
    return Work(uid, uid, "ns", queue_name, priority, at, at, (pod_set,), held, reserved_at)


def situation(
    queues: Sequence[Queue], works: Sequence[Work], cohorts: Sequence[QuotaNode] = (), *, fair: bool = False
) -> Situation:
    return Situation(tuple(queues), tuple(cohorts), FLAVORS, tuple(works), fair)
