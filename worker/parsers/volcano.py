"""Volcano's Queues, PodGroups, Jobs and HyperNodes → rows of observations.ClusterObject and Workload.

VolcanoQueue  spec   {weight, capability, deserved, guarantee, reclaimable, parent, priority, dequeue, type}
                     capability, deserved, guarantee: {resource: quantity}, {} when not set; parent "" on the root
              status {state (Open, Closed, Closing, Unknown or ""), allocated: {resource: quantity}}. The counts
                     of PodGroups in a queue's status are not written by Volcano since 1.11 and not kept;
                     `allocated` of a parent includes its children.
VolcanoJob    spec   {queue, scheduler, min_available, max_retry, priority_class, tasks: [{name, replicas,
                     min_available, requests}]}
              status {phase, reason, message, since, retry_count, version, counts: {pending, running, succeeded,
                     failed, terminating, unknown}}
HyperNode     spec   {tier, tier_name, members: [{kind ("Node" or "HyperNode"), exact: [name] or [], regex: "" or a
                     pattern, labels: {match_labels, match_expressions: [{key, operator, values}]}}]}; of exact,
                     regex and labels one is set. Who belongs to it must be computed from this.
              status {node_count: as Volcano counted, null when it has not}
PodGroup      a Workload row: Pending → pending, Inqueue → reserved, Running and Unknown → admitted, Completed →
              finished. reason and message are the newest condition's, unless it contradicts the phase: Volcano
              keeps a stale Unschedulable beside Scheduled. A group without pods has no condition: then they are
              "". requests are minResources, whose keys may be written three ways; usage is the same without a
              flavor while the group holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from .base import (
    EMPTY_LIST,
    EMPTY_OBJECT,
    Condition,
    Kind,
    Meta,
    Quantity,
    Row,
    Struct,
    conditions_of,
    meta_row,
    owner_of,
    resource_text,
    said,
    to_json,
)
from .kueue import OBJECT_COLUMNS, RAW_COLUMNS, object_row
from .resources import Template, as_text, effective_requests
from .workload import ADMITTED, FINISHED, PENDING, RESERVED, WORKLOAD_COLUMNS


# ------------------------------------------------------------------ Queue
class Guarantee(Struct, frozen=True):
    resource: dict[str, Quantity] | None = None


class QueueSpec(Struct, frozen=True):
    weight: int | None = None
    capability: dict[str, Quantity] | None = None
    deserved: dict[str, Quantity] | None = None
    guarantee: Guarantee | None = None
    reclaimable: bool | None = None
    parent: str | None = None
    priority: int | None = None
    dequeue_strategy: str | None = None
    type: str | None = None


class QueueStatus(Struct, frozen=True):
    state: str | None = None
    allocated: dict[str, Quantity] | None = None


class Queue(Struct, frozen=True):
    metadata: Meta
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


def queue_row(queue: Queue) -> Row:
    spec, status = queue.spec, queue.status
    shape = {
        "weight": spec.weight,
        "capability": resource_text(spec.capability, "spec.capability"),
        "deserved": resource_text(spec.deserved, "spec.deserved"),
        "guarantee": resource_text(spec.guarantee.resource if spec.guarantee else None, "spec.guarantee"),
        "reclaimable": spec.reclaimable,
        "parent": spec.parent or "",
        "priority": spec.priority,
        "dequeue": spec.dequeue_strategy,
        "type": spec.type or "",
    }
    state = {
        "state": status.state or "",
        "allocated": resource_text(status.allocated, "status.allocated"),
    }
    return object_row(queue.metadata, "VolcanoQueue", shape, state)


# ------------------------------------------------------------------ PodGroup
class PodGroupSpec(Struct, frozen=True):
    min_member: int | None = None
    min_task_member: dict[str, int] | None = None
    queue: str | None = None
    priority_class_name: str | None = None
    min_resources: dict[str, Quantity] | None = None


class PodGroupStatus(Struct, frozen=True):
    phase: str | None = None
    conditions: list[Condition] | None = None
    running: int | None = None


class PodGroup(Struct, frozen=True):
    metadata: Meta
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


_STATES = {"Inqueue": RESERVED, "Running": ADMITTED, "Unknown": ADMITTED, "Completed": FINISHED}
_CONTRADICTIONS = {
    "Running": "Unschedulable",
    "Completed": "Unschedulable",
    "Pending": "Scheduled",
    "Inqueue": "Scheduled",
}
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def strip_prefixes(resources: Mapping[str, Quantity] | None) -> dict[str, Quantity]:
    """minResources by plain names: "nvidia.com/gpu", else "requests.nvidia.com/gpu", else "limits.…"."""
    named = resources or {}
    found: dict[str, Quantity] = {}
    for prefix in ("limits.", "count/", "requests."):
        for name, value in named.items():
            if name.startswith(prefix):
                found[name[len(prefix) :]] = value
    found.update(
        (name, value)
        for name, value in named.items()
        if not name.startswith(("limits.", "requests.", "count/"))
    )
    return found


def newest(conditions: list[Condition] | None) -> Condition | None:
    return max(conditions or (), key=lambda c: c.last_transition_time or _LONG_AGO, default=None)


def _group_said(status: PodGroupStatus) -> tuple[str, str]:
    last = newest(status.conditions)
    if last is None or last.type == _CONTRADICTIONS.get(status.phase or "Pending"):
        return "", ""
    return said(last)


def _pod_sets(spec: PodGroupSpec) -> list[dict[str, Any]]:
    """The groups of pods; how many there are in all a PodGroup does not say, only the least."""
    tasks = spec.min_task_member
    if tasks:
        return [{"name": n, "count": c, "min_count": c, "requests": {}} for n, c in sorted(tasks.items())]
    least = spec.min_member
    return [] if least is None else [{"name": "", "count": least, "min_count": least, "requests": {}}]


def _scheduled_at(status: PodGroupStatus, state: str) -> datetime | None:
    if state != ADMITTED:
        return None
    times = [c.last_transition_time for c in status.conditions or () if c.type == "Scheduled"]
    return times[0] if times else None


def pod_group_row(group: PodGroup) -> Row:
    meta, spec, status = group.metadata, group.spec, group.status
    state = _STATES.get(status.phase or "", PENDING)
    requests = resource_text(strip_prefixes(spec.min_resources), "spec.minResources")
    holds = state in (RESERVED, ADMITTED)
    usage = [{"flavor": "", "resource": r, "quantity": q} for r, q in requests.items()] if holds else []
    queue = spec.queue or "default"
    return (
        *meta_row(meta),
        "PodGroup",
        state,
        *_group_said(status),
        queue,
        queue if holds else "",
        None,
        spec.priority_class_name or "",
        *owner_of(meta),
        True,
        to_json(_pod_sets(spec)),
        to_json(requests) if requests else EMPTY_OBJECT,
        to_json(usage) if usage else EMPTY_LIST,
        to_json(conditions_of(status.conditions)),
        EMPTY_LIST,
        None,
        0,
        meta.creation_timestamp,
        None,
        _scheduled_at(status, state),
        None,
        None,
        "",
    )


# ------------------------------------------------------------------ Job
class Task(Struct, frozen=True):
    name: str = ""
    replicas: int | None = None
    min_available: int | None = None
    template: Template | None = None


class JobSpec(Struct, frozen=True):
    queue: str | None = None
    scheduler_name: str | None = None
    min_available: int | None = None
    max_retry: int | None = None
    priority_class_name: str | None = None
    tasks: list[Task] | None = None


class JobState(Struct, frozen=True):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: datetime | None = None


class JobStatus(Struct, frozen=True):
    state: JobState = JobState()
    retry_count: int | None = None
    version: int | None = None
    pending: int | None = None
    running: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    terminating: int | None = None
    unknown: int | None = None


class Job(Struct, frozen=True):
    metadata: Meta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


def _task(task: Task) -> dict[str, Any]:
    return {
        "name": task.name,
        "replicas": 1 if task.replicas is None else task.replicas,
        "min_available": task.min_available,
        "requests": as_text(effective_requests(task.template.spec if task.template else None)),
    }


def job_row(job: Job) -> Row:
    spec, status = job.spec, job.status
    shape = {
        "queue": spec.queue or "default",
        "scheduler": spec.scheduler_name or "",
        "min_available": spec.min_available,
        "max_retry": spec.max_retry,
        "priority_class": spec.priority_class_name or "",
        "tasks": [_task(task) for task in spec.tasks or ()],
    }
    counts = ("pending", "running", "succeeded", "failed", "terminating", "unknown")
    state = {
        "phase": status.state.phase or "",
        "reason": status.state.reason or "",
        "message": status.state.message or "",
        "since": status.state.last_transition_time,
        "retry_count": status.retry_count or 0,
        "version": status.version or 0,
        "counts": {name: getattr(status, name) or 0 for name in counts},
    }
    return object_row(job.metadata, "VolcanoJob", shape, state)


# ------------------------------------------------------------------ HyperNode
class ExactMatch(Struct, frozen=True):
    name: str = ""


class RegexMatch(Struct, frozen=True):
    pattern: str = ""


class LabelMatch(Struct, frozen=True):
    match_labels: dict[str, str] | None = None
    match_expressions: list[dict[str, Any]] | None = None


class MemberSelector(Struct, frozen=True):
    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelMatch | None = None


class Member(Struct, frozen=True):
    type: str
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(Struct, frozen=True):
    tier: int
    tier_name: str | None = None
    members: list[Member] | None = None


class HyperNodeStatus(Struct, frozen=True):
    node_count: int | None = None


class HyperNode(Struct, frozen=True):
    metadata: Meta
    spec: HyperNodeSpec
    status: HyperNodeStatus = HyperNodeStatus()


def _member(member: Member) -> dict[str, Any]:
    chosen = member.selector
    labels = chosen.label_match or LabelMatch()
    return {
        "kind": member.type,
        "exact": [chosen.exact_match.name] if chosen.exact_match else [],
        "regex": chosen.regex_match.pattern if chosen.regex_match else "",
        "labels": {
            "match_labels": labels.match_labels or {},
            "match_expressions": [
                {"key": e.get("key", ""), "operator": e.get("operator", ""), "values": e.get("values") or []}
                for e in labels.match_expressions or ()
            ],
        },
    }


def hyper_node_row(node: HyperNode) -> Row:
    shape = {
        "tier": node.spec.tier,
        "tier_name": node.spec.tier_name or "",
        "members": [_member(member) for member in node.spec.members or ()],
    }
    return object_row(node.metadata, "HyperNode", shape, {"node_count": node.status.node_count})


# ------------------------------------------------------------------ registry
def _kind(
    name: str,
    group: str,
    version: str,
    plural: str,
    struct: type[Struct],
    row: Callable[[Any], Row],
    *,
    namespaced: bool = True,
) -> Kind:
    is_group = struct is PodGroup
    return Kind(
        name=name,
        source="volcano",
        model="Workload" if is_group else "ClusterObject",
        group=group,
        versions=(version,),
        plural=plural,
        namespaced=namespaced,
        struct=struct,
        columns=WORKLOAD_COLUMNS if is_group else RAW_COLUMNS if struct is Queue else OBJECT_COLUMNS,
        keeps_raw=struct is Queue,
        row=row,
    )


SCHEDULING = "scheduling.volcano.sh"
BATCH = "batch.volcano.sh"
TOPOLOGY = "topology.volcano.sh"
VOLCANO_KINDS = (
    _kind("VolcanoQueue", SCHEDULING, "v1beta1", "queues", Queue, queue_row, namespaced=False),
    _kind("PodGroup", SCHEDULING, "v1beta1", "podgroups", PodGroup, pod_group_row),
    _kind("VolcanoJob", BATCH, "v1alpha1", "jobs", Job, job_row),
    _kind("HyperNode", TOPOLOGY, "v1alpha1", "hypernodes", HyperNode, hyper_node_row, namespaced=False),
)
