"""Nodes, pods and events (core/v1) → rows of observations.Node, Pod and Event.

Invariants: heartbeats make no difference (only status, reason, message and the time of the last flip of a
condition are kept); of the annotations only those stay that the device registry reads; a quantity that is none
raises ParseError for its object alone.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from apps.fleet.registry import registry

from .base import (
    EMPTY_LIST,
    EMPTY_OBJECT,
    META_COLUMNS,
    REASON_LENGTH,
    AnnotatedMeta,
    Condition,
    Kind,
    Meta,
    ParseError,
    Quantity,
    Row,
    Struct,
    condition,
    conditions_of,
    meta_row,
    owner_of,
    plain_number,
    resource_text,
    said,
    to_json,
)
from .resources import PodPlacement, as_text, devices_in, effective_requests, placement_of


# ------------------------------------------------------------------ nodes
class Taint(Struct, frozen=True):
    key: str
    effect: str = ""
    value: str | None = None


class NodeSpec(Struct, frozen=True):
    taints: list[Taint] | None = None
    unschedulable: bool | None = None


class NodeInfo(Struct, frozen=True):
    kernel_version: str = ""
    os_image: str = ""
    container_runtime_version: str = ""
    kubelet_version: str = ""
    architecture: str = ""


class NodeStatus(Struct, frozen=True):
    capacity: dict[str, Quantity] | None = None
    allocatable: dict[str, Quantity] | None = None
    conditions: list[Condition] | None = None
    node_info: NodeInfo | None = None


class Node(Struct, frozen=True):
    metadata: AnnotatedMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


NODE_COLUMNS = (
    *META_COLUMNS,
    "annotations",
    "info",
    "taints",
    "conditions",
    "capacity",
    "allocatable",
    "unschedulable",
)


def _registry_annotations(meta: AnnotatedMeta) -> dict[str, str]:
    wanted = registry().annotations
    return {name: text for name, text in (meta.annotations or {}).items() if name in wanted}


def _software(info: NodeInfo | None) -> dict[str, str]:
    """Node.info: what the kubelet says it runs on, without what it leaves out."""
    if info is None:
        return {}
    said = {
        "kernel": info.kernel_version,
        "os": info.os_image,
        "runtime": info.container_runtime_version,
        "kubelet": info.kubelet_version,
        "architecture": info.architecture,
    }
    return {name: text for name, text in said.items() if text}


def node_row(node: Node) -> Row:
    spec, status = node.spec, node.status
    taints = [{"key": t.key, "value": t.value or "", "effect": t.effect} for t in spec.taints or ()]
    return (
        *meta_row(node.metadata),
        to_json(_registry_annotations(node.metadata)),
        to_json(_software(status.node_info)),
        to_json(taints),
        to_json(conditions_of(status.conditions)),
        to_json(resource_text(status.capacity, "status.capacity")),
        to_json(resource_text(status.allocatable, "status.allocatable")),
        bool(spec.unschedulable),
    )


# ------------------------------------------------------------------ pods
class SchedulingGate(Struct, frozen=True):
    name: str


class Terminated(Struct, frozen=True):
    reason: str | None = None
    message: str | None = None
    finished_at: datetime | None = None


class Waiting(Struct, frozen=True):
    reason: str | None = None
    message: str | None = None


class ContainerState(Struct, frozen=True):
    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(Struct, frozen=True):
    state: ContainerState | None = None


class PodClaim(Struct, frozen=True):
    name: str
    resource_claim_name: str | None = None


class PodClaimStatus(Struct, frozen=True):
    name: str
    resource_claim_name: str | None = None


class RequestMapping(Struct, frozen=True):
    resource_name: str = ""


class ExtendedClaimStatus(Struct, frozen=True):
    resource_claim_name: str = ""
    request_mappings: list[RequestMapping] | None = None


class PodSpec(PodPlacement, frozen=True):
    node_name: str | None = None
    scheduler_name: str | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    resource_claims: list[PodClaim] | None = None


class PodStatus(Struct, frozen=True):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: list[Condition] | None = None
    start_time: datetime | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resource_claim_statuses: list[PodClaimStatus] | None = None
    extended_resource_claim_status: ExtendedClaimStatus | None = None


class Pod(Struct, frozen=True):
    metadata: AnnotatedMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


POD_COLUMNS = (
    *META_COLUMNS,
    "node_name",
    "phase",
    "reason",
    "message",
    "owner_kind",
    "owner_name",
    "owner_uid",
    "queue_name",
    "pod_group",
    "scheduler",
    "requests",
    "devices",
    "claims",
    "conditions",
    "scheduling_gates",
    "placement",
    "bound_at",
    "started_at",
    "finished_at",
)

_QUEUE_LABELS = ("kueue.x-k8s.io/local-queue-name", "kueue.x-k8s.io/queue-name")
_VOLCANO_QUEUE = ("volcano.sh/queue-name", "scheduling.volcano.sh/queue-name")
_VOLCANO_GROUP = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
_KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
_STARTING = frozenset(("", "ContainerCreating", "PodInitializing"))
_OVER = frozenset(("Succeeded", "Failed"))


def _first(values: dict[str, str], names: tuple[str, ...]) -> str:
    for name in names:
        if found := values.get(name):
            return found
    return ""


def queue_and_group(meta: AnnotatedMeta) -> tuple[str, str]:
    """(LocalQueue or Volcano queue, pod group or PodGroup) that a pod says it belongs to."""
    labels, annotations = meta.labels or {}, meta.annotations or {}
    queue = _first(labels, _QUEUE_LABELS) or _first(annotations, _VOLCANO_QUEUE)
    group = labels.get(_KUEUE_GROUP, "") or _first(annotations, _VOLCANO_GROUP)
    return queue or labels.get(_VOLCANO_QUEUE[0], ""), group


def pod_reason(status: PodStatus) -> tuple[str, str]:
    """(reason, message) of the state a pod is in, in the cluster's words: the pod's own, else of a container
    that cannot start, else of a container that ended badly, else why it is not scheduled."""
    if status.reason or status.message:
        return (status.reason or "")[:REASON_LENGTH], status.message or ""
    for container in (*(status.init_container_statuses or ()), *(status.container_statuses or ())):
        state = container.state
        if state is None:
            continue
        if state.waiting is not None and (state.waiting.reason or "") not in _STARTING:
            return (state.waiting.reason or "")[:REASON_LENGTH], state.waiting.message or ""
        if status.phase == "Failed" and state.terminated is not None:
            ended = state.terminated
            if (ended.reason or "") not in ("", "Completed"):
                return (ended.reason or "")[:REASON_LENGTH], ended.message or ""
    return said(condition(status.conditions, "PodScheduled", "False"))


def finished_at(status: PodStatus) -> datetime | None:
    """When a pod that is over ended: its last container, else (evicted before any ran) its last transition."""
    if status.phase not in _OVER:
        return None
    ends = [
        c.state.terminated.finished_at
        for c in status.container_statuses or ()
        if c.state is not None and c.state.terminated is not None and c.state.terminated.finished_at
    ]
    if not ends:
        ends = [c.last_transition_time for c in status.conditions or () if c.last_transition_time]
    return max(ends, default=None)


def claims_of(spec: PodSpec, status: PodStatus) -> list[dict[str, Any]]:
    """Pod.claims: those named in the spec, those made from a template, and the one that serves extended resources."""
    made = {entry.name: entry.resource_claim_name for entry in status.resource_claim_statuses or ()}
    names = [entry.resource_claim_name or made.get(entry.name) for entry in spec.resource_claims or ()]
    found: list[dict[str, Any]] = [{"claim": name, "resources": []} for name in dict.fromkeys(names) if name]
    extended = status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        served = {mapping.resource_name for mapping in extended.request_mappings or ()}
        found.append({"claim": extended.resource_claim_name, "resources": sorted(served - {""})})
    return found


def pod_row(pod: Pod) -> Row:
    meta, spec, status = pod.metadata, pod.spec, pod.status
    requests = effective_requests(spec)
    queue, group = queue_and_group(meta)
    bound = condition(status.conditions, "PodScheduled")
    gates = spec.scheduling_gates
    holds = spec.resource_claims or status.extended_resource_claim_status
    return (
        *meta_row(meta),
        spec.node_name or "",
        status.phase or "",
        *pod_reason(status),
        *owner_of(meta),
        queue,
        group,
        spec.scheduler_name or "",
        to_json(as_text(requests)) if requests else EMPTY_OBJECT,
        plain_number(devices_in(requests)),
        to_json(claims_of(spec, status)) if holds else EMPTY_LIST,
        to_json(conditions_of(status.conditions)),
        to_json([gate.name for gate in gates]) if gates else EMPTY_LIST,
        EMPTY_OBJECT if spec.node_name else to_json(placement_of(spec)),
        bound.last_transition_time if bound and spec.node_name else None,
        status.start_time,
        finished_at(status),
    )


# ------------------------------------------------------------------ events
class ObjectReference(Struct, frozen=True):
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class EventSource(Struct, frozen=True):
    component: str | None = None


class EventSeries(Struct, frozen=True):
    count: int | None = None
    last_observed_time: datetime | None = None


class Event(Struct, frozen=True):
    metadata: Meta
    involved_object: ObjectReference = ObjectReference()
    type: str | None = None
    reason: str | None = None
    message: str | None = None
    source: EventSource | None = None
    reporting_component: str | None = None
    count: int | None = None
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    series: EventSeries | None = None


EVENT_COLUMNS = (
    "created_at",
    "uid",
    "namespace",
    "object_kind",
    "object_namespace",
    "object_name",
    "object_uid",
    "type",
    "reason",
    "message",
    "component",
    "count",
    "first_at",
    "last_at",
)


def event_row(event: Event) -> Row:
    """`first_at` and `last_at` come from whichever of the two event APIs wrote it, else they are the creation."""
    meta, about, series = event.metadata, event.involved_object, event.series
    created = meta.creation_timestamp or event.event_time or event.first_timestamp
    if created is None:
        raise ParseError("the event says no time at all")
    first = event.first_timestamp or event.event_time or created
    last = (
        (series.last_observed_time if series else None) or event.last_timestamp or event.event_time or first
    )
    return (
        created,
        meta.uid,
        meta.namespace,
        about.kind or "",
        about.namespace or "",
        about.name or "",
        about.uid or "",
        event.type or "",
        (event.reason or "")[:128],
        event.message or "",
        (event.source.component if event.source else None) or event.reporting_component or "",
        (series.count if series else None) or event.count or 1,
        first,
        last,
    )


def _core(
    name: str, source: str, struct: Any, columns: tuple[str, ...], row: Any, *, namespaced: bool
) -> Kind:
    return Kind(
        name=name,
        source=source,
        model=name,
        group="",
        versions=("v1",),
        plural=f"{name.lower()}s",
        namespaced=namespaced,
        struct=struct,
        columns=columns,
        row=row,
    )


CORE_KINDS = (
    _core("Node", "nodes", Node, NODE_COLUMNS, node_row, namespaced=False),
    _core("Pod", "pods", Pod, POD_COLUMNS, pod_row, namespaced=True),
    _core("Event", "events", Event, EVENT_COLUMNS, event_row, namespaced=True),
)
