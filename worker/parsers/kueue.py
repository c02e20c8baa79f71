"""Kueue's other kinds (v1beta2 and v1beta1) → rows of observations.ClusterObject, in one shape for both versions.

Quantities are plain digits ("8", "0.5"), a limit or weight that is not set is null, conditions are
{type: {status, reason, message, since}}. `spec` and `status` per kind:

ClusterQueue           spec   {cohort, resource_groups, strategy, stop_policy, fair_weight, checks: [{name, flavors}],
                              preemption: {within_cluster_queue, reclaim_within_cohort, borrow_within_cohort:
                              {policy, max_priority_threshold}|null}, fungibility: {when_can_borrow,
                              when_can_preempt, preference}, namespace_selector: as served | null (= none),
                              admission_mode: of admission fair sharing | null}
                       status {conditions, reservation, usage, pending, reserving, admitted, weighted_share}
Cohort                 spec   {parent, resource_groups, fair_weight}; status {weighted_share}
LocalQueue             spec   {cluster_queue, stop_policy, fair_weight}
                       status {conditions, reservation, usage, pending, reserving, admitted}
ResourceFlavor         spec   {node_labels, node_taints: [{key, value, effect}], tolerations, topology}; status {}
AdmissionCheck         spec   {controller, parameters: {kind, name}|null}; status {conditions}
Topology               spec   {levels: [node label]}; status {}
WorkloadPriorityClass  spec   {value, description}; status {}
Namespace (core/v1)    spec   {}; status {phase}; read for its labels, which queues select by

resource_groups: [{covered: [resource], flavors: [{name, resources: [{name, nominal, borrowing_limit,
lending_limit}]}]}]; reservation and usage: [{flavor, resource, total, borrowed}] (borrowed null for LocalQueues).
`weighted_share` is text: Kueue uses the largest int64 for "infinite".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .base import (
    EMPTY_OBJECT,
    META_COLUMNS,
    Condition,
    Kind,
    Meta,
    ParseError,
    Quantity,
    Row,
    Struct,
    conditions_of,
    meta_row,
    optional_quantity,
    plain_number,
    quantity,
    to_json,
)
from .core import Taint
from .workload import WORKLOAD_COLUMNS, Workload, workload_row

GROUP = "kueue.x-k8s.io"
OBJECT_COLUMNS = (*META_COLUMNS, "kind", "spec", "status")
RAW_COLUMNS = (*OBJECT_COLUMNS, "raw")
# As RAW_KINDS of the model, which this module, being pure, does not import; a test compares.
_RAW = ("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor", "AdmissionCheck")


# ------------------------------------------------------------------ shared parts
class ResourceQuota(Struct, frozen=True):
    name: str
    nominal_quota: Quantity = "0"
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None


class FlavorQuotas(Struct, frozen=True):
    name: str
    resources: list[ResourceQuota] | None = None


class ResourceGroup(Struct, frozen=True):
    covered_resources: list[str] | None = None
    flavors: list[FlavorQuotas] | None = None


class FairSharing(Struct, frozen=True):
    weight: Quantity | None = None
    weighted_share: int | None = None


class ResourceUsage(Struct, frozen=True):
    name: str
    total: Quantity | None = None
    borrowed: Quantity | None = None


class FlavorUsage(Struct, frozen=True):
    name: str
    resources: list[ResourceUsage] | None = None


def object_row(meta: Meta, kind: str, spec: dict[str, Any], status: dict[str, Any]) -> Row:
    """Values of OBJECT_COLUMNS."""
    return (*meta_row(meta), kind, to_json(spec), to_json(status) if status else EMPTY_OBJECT)


def _quota(flavor: str, cell: ResourceQuota) -> dict[str, Any]:
    where = f"resourceGroups[{flavor}][{cell.name}]"
    return {
        "name": cell.name,
        "nominal": plain_number(quantity(cell.nominal_quota, f"{where}.nominalQuota")),
        "borrowing_limit": optional_quantity(cell.borrowing_limit, f"{where}.borrowingLimit"),
        "lending_limit": optional_quantity(cell.lending_limit, f"{where}.lendingLimit"),
    }


def resource_groups(groups: Iterable[ResourceGroup] | None) -> list[dict[str, Any]]:
    return [
        {
            "covered": group.covered_resources or [],
            "flavors": [
                {"name": f.name, "resources": [_quota(f.name, cell) for cell in f.resources or ()]}
                for f in group.flavors or ()
            ],
        }
        for group in groups or ()
    ]


def flavor_usage(flavors: Iterable[FlavorUsage] | None) -> list[dict[str, Any]]:
    return [
        {
            "flavor": f.name,
            "resource": r.name,
            "total": plain_number(quantity(r.total or "0", f"usage[{f.name}][{r.name}].total")),
            "borrowed": optional_quantity(r.borrowed, f"usage[{f.name}][{r.name}].borrowed"),
        }
        for f in flavors or ()
        for r in f.resources or ()
    ]


def _weight(fair: FairSharing | None) -> str | None:
    return optional_quantity(fair.weight, "fairSharing.weight") if fair else None


def _share(fair: FairSharing | None) -> str | None:
    return None if fair is None or fair.weighted_share is None else str(fair.weighted_share)


# ------------------------------------------------------------------ ClusterQueue
class BorrowWithinCohort(Struct, frozen=True):
    policy: str | None = None
    max_priority_threshold: int | None = None


class Preemption(Struct, frozen=True):
    within_cluster_queue: str | None = None
    reclaim_within_cohort: str | None = None
    borrow_within_cohort: BorrowWithinCohort | None = None


class Fungibility(Struct, frozen=True):
    when_can_borrow: str | None = None
    when_can_preempt: str | None = None
    preference: str | None = None


class CheckRule(Struct, frozen=True):
    name: str
    on_flavors: list[str] | None = None


class ChecksStrategy(Struct, frozen=True):
    admission_checks: list[CheckRule] | None = None


class AdmissionScope(Struct, frozen=True):
    admission_mode: str | None = None


class ClusterQueueSpec(Struct, frozen=True):
    cohort_name: str | None = None
    cohort: str | None = None
    resource_groups: list[ResourceGroup] | None = None
    queueing_strategy: str | None = None
    stop_policy: str | None = None
    fair_sharing: FairSharing | None = None
    preemption: Preemption | None = None
    flavor_fungibility: Fungibility | None = None
    admission_checks_strategy: ChecksStrategy | None = None
    admission_checks: list[str] | None = None
    namespace_selector: dict[str, Any] | None = None
    admission_scope: AdmissionScope | None = None


class QueueStatus(Struct, frozen=True):
    """Status of ClusterQueues and LocalQueues; v1beta1 LocalQueues say `flavorUsage`."""

    conditions: list[Condition] | None = None
    flavors_reservation: list[FlavorUsage] | None = None
    flavors_usage: list[FlavorUsage] | None = None
    flavor_usage: list[FlavorUsage] | None = None
    pending_workloads: int | None = None
    reserving_workloads: int | None = None
    admitted_workloads: int | None = None
    fair_sharing: FairSharing | None = None


class ClusterQueue(Struct, frozen=True):
    metadata: Meta
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: QueueStatus = QueueStatus()


_OLD_FUNGIBILITY = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}


def _fungibility(found: Fungibility | None) -> dict[str, str | None]:
    chosen = found or Fungibility()
    borrow, preempt = chosen.when_can_borrow, chosen.when_can_preempt
    return {
        "when_can_borrow": _OLD_FUNGIBILITY.get(borrow or "", borrow),
        "when_can_preempt": _OLD_FUNGIBILITY.get(preempt or "", preempt),
        "preference": chosen.preference,
    }


def _preemption(found: Preemption | None) -> dict[str, Any]:
    chosen = found or Preemption()
    borrow = chosen.borrow_within_cohort
    return {
        "within_cluster_queue": chosen.within_cluster_queue,
        "reclaim_within_cohort": chosen.reclaim_within_cohort,
        "borrow_within_cohort": borrow
        and {"policy": borrow.policy, "max_priority_threshold": borrow.max_priority_threshold},
    }


def _check_rules(spec: ClusterQueueSpec) -> list[dict[str, Any]]:
    """v1beta1 also takes a plain list of names; both forms may not stand together."""
    if strategy := spec.admission_checks_strategy:
        return [{"name": c.name, "flavors": c.on_flavors or []} for c in strategy.admission_checks or ()]
    return [{"name": name, "flavors": []} for name in spec.admission_checks or ()]


def queue_status(status: QueueStatus) -> dict[str, Any]:
    return {
        "conditions": conditions_of(status.conditions),
        "reservation": flavor_usage(status.flavors_reservation),
        "usage": flavor_usage(status.flavors_usage or status.flavor_usage),
        "pending": status.pending_workloads,
        "reserving": status.reserving_workloads,
        "admitted": status.admitted_workloads,
    }


def cluster_queue_row(queue: ClusterQueue) -> Row:
    spec, status = queue.spec, queue.status
    shape = {
        "cohort": spec.cohort_name or spec.cohort or "",
        "resource_groups": resource_groups(spec.resource_groups),
        "strategy": spec.queueing_strategy,
        "stop_policy": spec.stop_policy or "None",
        "fair_weight": _weight(spec.fair_sharing),
        "checks": _check_rules(spec),
        "preemption": _preemption(spec.preemption),
        "fungibility": _fungibility(spec.flavor_fungibility),
        "namespace_selector": spec.namespace_selector,
        "admission_mode": spec.admission_scope.admission_mode if spec.admission_scope else None,
    }
    state = {**queue_status(status), "weighted_share": _share(status.fair_sharing)}
    return object_row(queue.metadata, "ClusterQueue", shape, state)


# ------------------------------------------------------------------ Cohort
class CohortSpec(Struct, frozen=True):
    parent_name: str | None = None
    parent: str | None = None
    resource_groups: list[ResourceGroup] | None = None
    fair_sharing: FairSharing | None = None


class CohortStatus(Struct, frozen=True):
    fair_sharing: FairSharing | None = None


class Cohort(Struct, frozen=True):
    metadata: Meta
    spec: CohortSpec = CohortSpec()
    status: CohortStatus = CohortStatus()


def cohort_row(cohort: Cohort) -> Row:
    spec = cohort.spec
    shape = {
        "parent": spec.parent_name or spec.parent or "",
        "resource_groups": resource_groups(spec.resource_groups),
        "fair_weight": _weight(spec.fair_sharing),
    }
    return object_row(
        cohort.metadata, "Cohort", shape, {"weighted_share": _share(cohort.status.fair_sharing)}
    )


# ------------------------------------------------------------------ LocalQueue
class LocalQueueSpec(Struct, frozen=True):
    cluster_queue: str = ""
    stop_policy: str | None = None
    fair_sharing: FairSharing | None = None


class LocalQueue(Struct, frozen=True):
    metadata: Meta
    spec: LocalQueueSpec = LocalQueueSpec()
    status: QueueStatus = QueueStatus()


def local_queue_row(queue: LocalQueue) -> Row:
    spec = queue.spec
    shape = {
        "cluster_queue": spec.cluster_queue,
        "stop_policy": spec.stop_policy or "None",
        "fair_weight": _weight(spec.fair_sharing),
    }
    return object_row(queue.metadata, "LocalQueue", shape, queue_status(queue.status))


# ------------------------------------------------------------------ ResourceFlavor, Topology
class ResourceFlavorSpec(Struct, frozen=True):
    node_labels: dict[str, str] | None = None
    node_taints: list[Taint] | None = None
    tolerations: list[dict[str, Any]] | None = None
    topology_name: str | None = None


class ResourceFlavor(Struct, frozen=True):
    metadata: Meta
    spec: ResourceFlavorSpec = ResourceFlavorSpec()


def resource_flavor_row(flavor: ResourceFlavor) -> Row:
    spec = flavor.spec
    shape = {
        "node_labels": spec.node_labels or {},
        "node_taints": [
            {"key": t.key, "value": t.value or "", "effect": t.effect} for t in spec.node_taints or ()
        ],
        "tolerations": spec.tolerations or [],
        "topology": spec.topology_name or "",
    }
    return object_row(flavor.metadata, "ResourceFlavor", shape, {})


class TopologyLevel(Struct, frozen=True):
    node_label: str


class TopologySpec(Struct, frozen=True):
    levels: list[TopologyLevel] | None = None


class Topology(Struct, frozen=True):
    metadata: Meta
    spec: TopologySpec = TopologySpec()


def topology_row(topology: Topology) -> Row:
    levels = [level.node_label for level in topology.spec.levels or ()]
    return object_row(topology.metadata, "Topology", {"levels": levels}, {})


# ------------------------------------------------------------------ AdmissionCheck, WorkloadPriorityClass
class CheckParameters(Struct, frozen=True):
    kind: str = ""
    name: str = ""


class AdmissionCheckSpec(Struct, frozen=True):
    controller_name: str = ""
    parameters: CheckParameters | None = None


class AdmissionCheckStatus(Struct, frozen=True):
    conditions: list[Condition] | None = None


class AdmissionCheck(Struct, frozen=True):
    metadata: Meta
    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    status: AdmissionCheckStatus = AdmissionCheckStatus()


def admission_check_row(check: AdmissionCheck) -> Row:
    named = check.spec.parameters
    shape = {
        "controller": check.spec.controller_name,
        "parameters": {"kind": named.kind, "name": named.name} if named else None,
    }
    return object_row(
        check.metadata, "AdmissionCheck", shape, {"conditions": conditions_of(check.status.conditions)}
    )


class WorkloadPriorityClass(Struct, frozen=True):
    metadata: Meta
    value: int | None = None
    description: str | None = None


def workload_priority_class_row(found: WorkloadPriorityClass) -> Row:
    if found.value is None:
        raise ParseError("a WorkloadPriorityClass without a value")
    shape = {"value": found.value, "description": found.description or ""}
    return object_row(found.metadata, "WorkloadPriorityClass", shape, {})


# ------------------------------------------------------------------ Namespace (core/v1)
class NamespaceStatus(Struct, frozen=True):
    phase: str = ""


class Namespace(Struct, frozen=True):
    metadata: Meta
    status: NamespaceStatus = NamespaceStatus()


def namespace_row(found: Namespace) -> Row:
    return object_row(found.metadata, "Namespace", {}, {"phase": found.status.phase})


NAMESPACE = Kind(
    name="Namespace",
    source="kueue",
    model="ClusterObject",
    group="",
    versions=("v1",),
    plural="namespaces",
    namespaced=False,
    struct=Namespace,
    columns=OBJECT_COLUMNS,
    row=namespace_row,
    beside=True,
)


# ------------------------------------------------------------------ registry
def _kind(
    name: str, plural: str, struct: type[Struct], row: Callable[[Any], Row], *, namespaced: bool = False
) -> Kind:
    model = "Workload" if struct is Workload else "ClusterObject"
    return Kind(
        name=name,
        source="kueue",
        model=model,
        group=GROUP,
        versions=("v1beta2", "v1beta1"),
        plural=plural,
        namespaced=namespaced,
        struct=struct,
        columns=WORKLOAD_COLUMNS if struct is Workload else RAW_COLUMNS if name in _RAW else OBJECT_COLUMNS,
        row=row,
        keeps_raw=name in _RAW,
    )


KUEUE_KINDS = (
    NAMESPACE,
    _kind("ResourceFlavor", "resourceflavors", ResourceFlavor, resource_flavor_row),
    _kind("Topology", "topologies", Topology, topology_row),
    _kind("AdmissionCheck", "admissionchecks", AdmissionCheck, admission_check_row),
    _kind(
        "WorkloadPriorityClass",
        "workloadpriorityclasses",
        WorkloadPriorityClass,
        workload_priority_class_row,
    ),
    _kind("Cohort", "cohorts", Cohort, cohort_row),
    _kind("ClusterQueue", "clusterqueues", ClusterQueue, cluster_queue_row),
    _kind("LocalQueue", "localqueues", LocalQueue, local_queue_row, namespaced=True),
    _kind("Workload", "workloads", Workload, workload_row, namespaced=True),
)
