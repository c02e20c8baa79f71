"""Kueue Workloads (v1beta2 and v1beta1) → rows of observations.Workload.

Both versions give the same row: v1beta1 says `priorityClassName` where v1beta2 says `priorityClassRef.name`.

state       Finished > deactivated (spec.active false) > Admitted > QuotaReserved > waiting. The conditions
            QuotaReserved and Admitted stay True on work that is over, so they are read last.
reason      of the condition that made the state; of waiting work QuotaReserved=False ("" when Kueue has not said
            anything); of reserved work Admitted=False, else Kueue's name for open admission checks.
usage       what the reservation holds now, by Kueue's rule: once fewer pods remain (spec count less reclaimed)
            than were assigned, the assigned amount is divided by the assigned count, in whole units (milli for
            cpu), and multiplied by the remaining. [] for work that is over or deactivated.
requests    status.resourceRequests while Kueue says them (they are what is charged to the quota), else the pod
            templates times their counts.
pod_sets    [{name, count, min_count, requests per pod}], and only where the template has them: node_selector,
            affinity (the nodeSelectorTerms that are required, as served), tolerations, topology (true: asked for),
            claims (true: devices are asked for by claims); elastic (true) on each of work that may change its size.
queued_at   start of the present wait: the last transition of Requeued, of either status, else the creation.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any

import msgspec

from .base import (
    EMPTY_LIST,
    EMPTY_OBJECT,
    META_COLUMNS,
    Condition,
    Meta,
    Quantity,
    Row,
    Struct,
    conditions_of,
    meta_row,
    owner_of,
    plain_number,
    quantity,
    said,
    to_json,
)
from .resources import Amounts, Template, as_text, effective_requests, placement_of

FINISHED, DEACTIVATED, ADMITTED, RESERVED, PENDING = (
    "finished",
    "deactivated",
    "admitted",
    "reserved",
    "pending",
)
OPEN_CHECKS = "UnsatisfiedAdmissionChecks"
"""Kueue's reason for Admitted=False while checks are open; its older versions leave the condition out."""


class PriorityClassRef(Struct, frozen=True):
    name: str = ""


class TopologyRequest(Struct, frozen=True):
    """Kueue writes one for every Job, with the label of the pod's index alone: that asks for nothing."""

    required: str | None = None
    preferred: str | None = None
    unconstrained: bool | None = None
    pod_set_slice_required_topology: str | None = None

    @property
    def asks(self) -> bool:
        return bool(
            self.required or self.preferred or self.unconstrained or self.pod_set_slice_required_topology
        )


class PodSet(Struct, frozen=True):
    name: str = "main"
    count: int = 1
    min_count: int | None = None
    template: Template | None = None
    topology_request: TopologyRequest | None = None


class Marks(Struct, frozen=True):
    """Of the annotations, and of labels that say the same, those by which elastic work is told."""

    elastic_job: str = msgspec.field(default="", name="kueue.x-k8s.io/elastic-job")
    slice_name: str = msgspec.field(default="", name="kueue.x-k8s.io/workload-slice-name")
    slice_for: str = msgspec.field(default="", name="kueue.x-k8s.io/workload-slice-replacement-for")

    @property
    def elastic(self) -> bool:
        return self.elastic_job == "true" or bool(self.slice_name or self.slice_for)


class MarkedMeta(Meta, frozen=True):
    annotations: Marks | None = None

    @property
    def marks(self) -> tuple[Marks, ...]:
        """By annotations, and by labels."""
        by_label = msgspec.convert(self.labels, Marks) if self.labels else None
        return tuple(marks for marks in (self.annotations, by_label) if marks is not None)


class WorkloadSpec(Struct, frozen=True):
    pod_sets: list[PodSet] | None = None
    queue_name: str | None = None
    active: bool | None = None
    priority: int | None = None
    priority_class_ref: PriorityClassRef | None = None
    priority_class_name: str | None = None


class Assignment(Struct, frozen=True):
    name: str = "main"
    count: int | None = None
    flavors: dict[str, str] | None = None
    resource_usage: dict[str, Quantity] | None = None


class Admission(Struct, frozen=True):
    cluster_queue: str = ""
    pod_set_assignments: list[Assignment] | None = None


class RequeueState(Struct, frozen=True):
    requeue_at: datetime | None = None


class Reclaimed(Struct, frozen=True):
    name: str
    count: int = 0


class CheckState(Struct, frozen=True):
    name: str
    state: str = ""
    message: str | None = None
    last_transition_time: datetime | None = None
    requeue_after_seconds: int | None = None


class PodSetRequest(Struct, frozen=True):
    name: str = ""
    resources: dict[str, Quantity] | None = None


class Eviction(Struct, frozen=True):
    count: int = 0


class SchedulingStats(Struct, frozen=True):
    evictions: list[Eviction] | None = None


class WorkloadStatus(Struct, frozen=True):
    conditions: list[Condition] | None = None
    admission: Admission | None = None
    requeue_state: RequeueState | None = None
    reclaimable_pods: list[Reclaimed] | None = None
    admission_checks: list[CheckState] | None = None
    resource_requests: list[PodSetRequest] | None = None
    scheduling_stats: SchedulingStats | None = None
    accumulated_past_execution_time_seconds: int | None = None
    # As v1beta1 spells it.
    accumulated_past_exexcution_time_seconds: int | None = None


class Workload(Struct, frozen=True):
    metadata: MarkedMeta
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


WORKLOAD_COLUMNS = (
    *META_COLUMNS,
    "kind",
    "state",
    "reason",
    "message",
    "queue_name",
    "cluster_queue",
    "priority",
    "priority_class",
    "owner_kind",
    "owner_name",
    "owner_uid",
    "active",
    "pod_sets",
    "requests",
    "usage",
    "conditions",
    "checks",
    "requeue_at",
    "evictions",
    "queued_at",
    "reserved_at",
    "admitted_at",
    "finished_at",
    "past_run_seconds",
    "slice_name",
)

_OPEN = {"Rejected": 0, "Retry": 1, "Pending": 2}


def _true_at(found: Condition | None) -> datetime | None:
    return found.last_transition_time if found is not None and found.status == "True" else None


def _is(found: Condition | None, status: str) -> bool:
    return found is not None and found.status == status


def workload_state(spec: WorkloadSpec, conditions: dict[str, Condition]) -> str:
    if _is(conditions.get("Finished"), "True"):
        return FINISHED
    if spec.active is False:
        return DEACTIVATED
    if _is(conditions.get("Admitted"), "True"):
        return ADMITTED
    return RESERVED if _is(conditions.get("QuotaReserved"), "True") else PENDING


def _open_checks(status: WorkloadStatus) -> list[CheckState]:
    """Checks that are not Ready, the worst first."""
    waiting = [check for check in status.admission_checks or () if check.state != "Ready"]
    return sorted(waiting, key=lambda check: (_OPEN.get(check.state, 3), check.name))


def _why_reserved(status: WorkloadStatus, conditions: dict[str, Condition]) -> tuple[str, str]:
    admitted = conditions.get("Admitted")
    reason, message = said(admitted) if _is(admitted, "False") else ("", "")
    waiting = _open_checks(status)
    if waiting:
        reason = reason or OPEN_CHECKS
        texts = [f"{c.name}: {c.state}" + (f" ({c.message})" if c.message else "") for c in waiting]
        message = "; ".join(texts)
    return reason, message


def why(state: str, status: WorkloadStatus, conditions: dict[str, Condition]) -> tuple[str, str]:
    """(reason, message) of a state, in Kueue's words."""
    if state == FINISHED:
        return said(conditions.get("Finished"))
    if state == ADMITTED:
        return said(conditions.get("Admitted"))
    if state == RESERVED:
        return _why_reserved(status, conditions)
    waiting = conditions.get("QuotaReserved")
    if state == DEACTIVATED:
        evicted = conditions.get("Evicted")
        if (
            evicted is not None
            and evicted.status == "True"
            and (evicted.reason or "").startswith("Deactivated")
        ):
            return said(evicted)
    return said(waiting) if _is(waiting, "False") else ("", "")


@lru_cache(maxsize=65536)
def _times(amount: Decimal, count: int) -> str:
    return plain_number(amount * count)


_ONE_MILLI = Decimal("0.001")
_MILLI = Decimal(1000)


@lru_cache(maxsize=65536)
def remaining_usage(resource: str, amount: Decimal, assigned: int, remaining: int) -> Decimal:
    """What is left of an assigned amount when `remaining` of `assigned` pods still run, as Kueue counts."""
    unit = _ONE_MILLI if resource == "cpu" else Decimal(1)
    whole = (amount / unit).to_integral_value(rounding=ROUND_CEILING)
    return (whole // assigned) * remaining * unit


def _remaining_counts(spec: WorkloadSpec, status: WorkloadStatus) -> dict[str, int]:
    reclaimed = {r.name: r.count for r in status.reclaimable_pods or ()}
    return {
        s.name: s.count - min(s.count, max(0, reclaimed[s.name]))
        for s in spec.pod_sets or ()
        if s.name in reclaimed
    }


def _usage(spec: WorkloadSpec, status: WorkloadStatus) -> str:
    admission = status.admission
    if admission is None or not admission.pod_set_assignments:
        return EMPTY_LIST
    remaining = _remaining_counts(spec, status) if status.reclaimable_pods else {}
    specified = {s.name: s.count for s in spec.pod_sets or ()} if remaining else {}
    total: dict[tuple[str, str], Decimal] = {}
    for a in admission.pod_set_assignments:
        flavors = a.flavors or {}
        left = remaining.get(a.name)
        assigned = a.count if a.count is not None else specified.get(a.name, 0)
        for resource, value in (a.resource_usage or {}).items():
            amount = quantity(value, f"status.admission[{a.name}][{resource}]")
            if left is not None and left < assigned:
                amount = remaining_usage(resource, amount, assigned, left)
            key = (flavors.get(resource, ""), resource)
            total[key] = total[key] + amount if key in total else amount
    return to_json([{"flavor": f, "resource": r, "quantity": plain_number(v)} for (f, r), v in total.items()])


def _said_requests(said_requests: Sequence[PodSetRequest]) -> dict[str, str]:
    total: Amounts = {}
    for pod_set in said_requests:
        for name, value in (pod_set.resources or {}).items():
            amount = quantity(value, f"status.resourceRequests[{pod_set.name}][{name}]")
            total[name] = total[name] + amount if name in total else amount
    return as_text(total)


def _asked(pod_sets: Sequence[PodSet], *, elastic: bool) -> tuple[str, dict[str, str]]:
    """(pod_sets column, requests over all pods)."""
    if len(pod_sets) == 1:
        only = pod_sets[0]
        amounts = effective_requests(only.template.spec if only.template else None)
        return (
            to_json([_pod_set(only, amounts, elastic)]),
            {name: _times(amount, only.count) for name, amount in amounts.items()},
        )
    column: list[dict[str, Any]] = []
    total: Amounts = {}
    for pod_set in pod_sets:
        amounts = effective_requests(pod_set.template.spec if pod_set.template else None)
        column.append(_pod_set(pod_set, amounts, elastic))
        for name, amount in amounts.items():
            total[name] = total.get(name, Decimal(0)) + amount * pod_set.count
    return to_json(column), as_text(total)


def _pod_set(pod_set: PodSet, amounts: Amounts, elastic: bool) -> dict[str, Any]:
    made = {
        "name": pod_set.name,
        "count": pod_set.count,
        "min_count": pod_set.min_count,
        "requests": as_text(amounts),
    }
    spec = pod_set.template.spec if pod_set.template else None
    if spec is not None:
        made.update(placement_of(spec))
        if spec.resource_claims:
            made["claims"] = True
    if elastic:
        made["elastic"] = True
    if pod_set.topology_request is not None and pod_set.topology_request.asks:
        made["topology"] = True
    return made


def _checks(status: WorkloadStatus) -> str:
    if not status.admission_checks:
        return EMPTY_LIST
    return to_json(
        [
            {
                "name": c.name,
                "state": c.state,
                "message": c.message or "",
                "since": c.last_transition_time,
                "retry_after_seconds": c.requeue_after_seconds,
            }
            for c in status.admission_checks
        ]
    )


def _evictions(status: WorkloadStatus) -> int:
    stats = status.scheduling_stats
    return sum(e.count for e in stats.evictions) if stats is not None and stats.evictions else 0


def _past_run(status: WorkloadStatus) -> int | None:
    said = status.accumulated_past_execution_time_seconds
    return status.accumulated_past_exexcution_time_seconds if said is None else said


def workload_row(workload: Workload) -> Row:
    meta, spec, status = workload.metadata, workload.spec, workload.status
    marks = meta.marks
    elastic = any(one.elastic for one in marks)
    conditions = {c.type: c for c in status.conditions or ()}
    state = workload_state(spec, conditions)
    pod_sets, requests = _asked(spec.pod_sets, elastic=elastic) if spec.pod_sets else (EMPTY_LIST, {})
    if status.resource_requests:
        requests = _said_requests(status.resource_requests) or requests
    requeued = conditions.get("Requeued")
    priority_class = spec.priority_class_ref
    return (
        *meta_row(meta),
        "Workload",
        state,
        *why(state, status, conditions),
        spec.queue_name or "",
        status.admission.cluster_queue if status.admission else "",
        spec.priority,
        priority_class.name if priority_class else spec.priority_class_name or "",
        *owner_of(meta),
        spec.active is not False,
        pod_sets,
        to_json(requests) if requests else EMPTY_OBJECT,
        _usage(spec, status) if state in (ADMITTED, RESERVED) else EMPTY_LIST,
        to_json(conditions_of(status.conditions)),
        _checks(status),
        status.requeue_state.requeue_at if status.requeue_state else None,
        _evictions(status),
        (requeued.last_transition_time if requeued else None) or meta.creation_timestamp,
        _true_at(conditions.get("QuotaReserved")),
        _true_at(conditions.get("Admitted")),
        _true_at(conditions.get("Finished")),
        _past_run(status),
        next((one.slice_name for one in marks if one.slice_name), ""),
    )
