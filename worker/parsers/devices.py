"""DRA's objects (resource.k8s.io) and the GPU operator's ClusterPolicy → rows of observations.ClusterObject.

One shape for all served versions: v1beta1 puts a device's fields under `basic` and a request's at its top, v1alpha3
taint rules may select by class and CEL. Attribute values are flattened to text, number or truth (lists stay lists),
a name that repeats the driver as its domain is shortened, quantities are plain digits. `spec` and `status` per kind:

ResourceSlice    spec   {driver, pool, generation, slices: how many the pool has, node, all_nodes, node_selector:
                        [terms as served]|null, per_device_nodes, counters: {set: {counter: quantity}}, devices:
                        [{name, node, all_nodes, node_selector, attributes, capacity: {name: quantity}, consumes:
                        [{set, counters}], taints: [{key, value, effect}], multiple}]}
                 status {}
DeviceClass      spec   {extended_resource, drivers, types, selectors: [cel]}; drivers and types are what plain CEL
                        comparisons name, [] when none do. status {}
ResourceClaim    spec   {requests: [{name, device_class, count, mode, admin}], extended, pod_claim_name}; count is null
                        for mode "All"; of requests named "x/…" one is satisfied (firstAvailable)
                 status {allocated, node: "" when not one node, results: [{request, driver, pool, device, admin,
                        share_id, consumed: {name: quantity}}], reserved_for: [{kind, name, uid}], allocated_at}
DeviceTaintRule  spec   {selects: false when it has no selector and taints nothing, driver, pool, device, device_class,
                        selectors: [cel], taint: {key, value, effect}}; "" and [] select everything. status {}
ClusterPolicy    spec   {components: {name: version}} of those enabled whose version is written down
                 status {state, conditions}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import msgspec

from apps.fleet.dra.cel import named_drivers, named_types

from .base import AnnotatedMeta, Condition, Kind, Meta, Quantity, Row, Struct, conditions_of, resource_text
from .core import Taint
from .kueue import OBJECT_COLUMNS, object_row

GROUP = "resource.k8s.io"
VERSIONS = ("v1", "v1beta2", "v1beta1")
_EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"
_POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"


# ------------------------------------------------------------------ shared parts
class NodeSelector(Struct, frozen=True):
    node_selector_terms: list[dict[str, Any]] | None = None


class Cel(Struct, frozen=True):
    expression: str = ""


class Selector(Struct, frozen=True):
    cel: Cel | None = None


def _terms(selector: NodeSelector | None) -> list[dict[str, Any]] | None:
    return None if selector is None else selector.node_selector_terms or []


def _expressions(selectors: Iterable[Selector] | None) -> list[str]:
    return [s.cel.expression for s in selectors or () if s.cel is not None]


def _taint(taint: Taint) -> dict[str, str]:
    return {"key": taint.key, "value": taint.value or "", "effect": taint.effect}


# ------------------------------------------------------------------ ResourceSlice
class Attribute(Struct, frozen=True):
    """Exactly one of these is set; the lists are of newer servers."""

    text: str | None = msgspec.field(default=None, name="string")
    number: int | None = msgspec.field(default=None, name="int")
    truth: bool | None = msgspec.field(default=None, name="bool")
    version: str | None = None
    texts: list[str] | None = msgspec.field(default=None, name="strings")
    numbers: list[int] | None = msgspec.field(default=None, name="ints")
    truths: list[bool] | None = msgspec.field(default=None, name="bools")
    versions: list[str] | None = None


class CapacityValue(Struct, frozen=True):
    value: Quantity


Capacity = dict[str, CapacityValue | str | int | float]


class Consumption(Struct, frozen=True):
    counter_set: str = ""
    counters: Capacity | None = None


class DeviceBody(Struct, frozen=True):
    """What a device is; v1beta1 has it under `basic`."""

    attributes: dict[str, Attribute] | None = None
    capacity: Capacity | None = None
    consumes_counters: list[Consumption] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: list[Taint] | None = None
    allow_multiple_allocations: bool | None = None


class Device(DeviceBody, frozen=True, kw_only=True):
    name: str
    basic: DeviceBody | None = None


class CounterSet(Struct, frozen=True):
    name: str
    counters: Capacity | None = None


class Pool(Struct, frozen=True):
    name: str
    generation: int = 0
    resource_slice_count: int = 0


class SliceSpec(Struct, frozen=True):
    driver: str
    pool: Pool
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    shared_counters: list[CounterSet] | None = None
    devices: list[Device] | None = None


class ResourceSlice(Struct, frozen=True):
    metadata: Meta
    spec: SliceSpec


def _flat(attribute: Attribute) -> Any:
    values = (getattr(attribute, name) for name in Attribute.__struct_fields__)
    return next((value for value in values if value is not None), "")


def _quantities(values: Capacity | None, where: str, own: str = "") -> dict[str, str]:
    plain = {
        name.removeprefix(own): value.value if isinstance(value, CapacityValue) else value
        for name, value in (values or {}).items()
    }
    return resource_text(plain, where)


def _device(device: Device, own: str) -> dict[str, Any]:
    body: DeviceBody = device.basic or device
    where = f"devices[{device.name}]"
    return {
        "name": device.name,
        "node": body.node_name or "",
        "all_nodes": bool(body.all_nodes),
        "node_selector": _terms(body.node_selector),
        "attributes": {
            name.removeprefix(own): _flat(value) for name, value in (body.attributes or {}).items()
        },
        "capacity": _quantities(body.capacity, f"{where}.capacity", own),
        "consumes": [
            {"set": c.counter_set, "counters": _quantities(c.counters, f"{where}.consumesCounters")}
            for c in body.consumes_counters or ()
        ],
        "taints": [_taint(taint) for taint in body.taints or ()],
        "multiple": bool(body.allow_multiple_allocations),
    }


def resource_slice_row(found: ResourceSlice) -> Row:
    spec = found.spec
    own = f"{spec.driver}/"
    shape = {
        "driver": spec.driver,
        "pool": spec.pool.name,
        "generation": spec.pool.generation,
        "slices": spec.pool.resource_slice_count,
        "node": spec.node_name or "",
        "all_nodes": bool(spec.all_nodes),
        "node_selector": _terms(spec.node_selector),
        "per_device_nodes": bool(spec.per_device_node_selection),
        "counters": {
            counters.name: _quantities(counters.counters, f"sharedCounters[{counters.name}]")
            for counters in spec.shared_counters or ()
        },
        "devices": [_device(device, own) for device in spec.devices or ()],
    }
    return object_row(found.metadata, "ResourceSlice", shape, {})


# ------------------------------------------------------------------ DeviceClass
class ClassSpec(Struct, frozen=True):
    selectors: list[Selector] | None = None
    extended_resource_name: str | None = None


class DeviceClass(Struct, frozen=True):
    metadata: Meta
    spec: ClassSpec = ClassSpec()


def device_class_row(found: DeviceClass) -> Row:
    cel = _expressions(found.spec.selectors)
    shape = {
        "extended_resource": found.spec.extended_resource_name or "",
        "drivers": named_drivers(cel),
        "types": named_types(cel),
        "selectors": cel,
    }
    return object_row(found.metadata, "DeviceClass", shape, {})


# ------------------------------------------------------------------ ResourceClaim
class Exactly(Struct, frozen=True):
    name: str = ""
    device_class_name: str | None = None
    allocation_mode: str | None = None
    count: int | None = None
    admin_access: bool | None = None


class Request(Exactly, frozen=True):
    """v1beta1 has the fields of `exactly` at the top."""

    exactly: Exactly | None = None
    first_available: list[Exactly] | None = None


class DeviceRequests(Struct, frozen=True):
    requests: list[Request] | None = None


class ClaimSpec(Struct, frozen=True):
    devices: DeviceRequests = DeviceRequests()


class Result(Struct, frozen=True):
    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: Capacity | None = None


class Results(Struct, frozen=True):
    results: list[Result] | None = None


class Allocation(Struct, frozen=True):
    devices: Results = Results()
    node_selector: NodeSelector | None = None
    allocation_timestamp: datetime | None = None


class Consumer(Struct, frozen=True):
    resource: str = ""
    name: str = ""
    uid: str = ""
    api_group: str | None = None


class ClaimStatus(Struct, frozen=True):
    allocation: Allocation | None = None
    reserved_for: list[Consumer] | None = None


class ResourceClaim(Struct, frozen=True):
    metadata: AnnotatedMeta
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


def _request(name: str, asked: Exactly) -> dict[str, Any]:
    mode = asked.allocation_mode or "ExactCount"
    count = 1 if asked.count is None else asked.count
    return {
        "name": name,
        "device_class": asked.device_class_name or "",
        "count": count if mode == "ExactCount" else None,
        "mode": mode,
        "admin": bool(asked.admin_access),
    }


def _requests(requests: Iterable[Request] | None) -> list[dict[str, Any]]:
    found = []
    for request in requests or ():
        if request.first_available:
            found += [_request(f"{request.name}/{choice.name}", choice) for choice in request.first_available]
        else:
            found.append(_request(request.name, request.exactly or request))
    return found


def _result(result: Result) -> dict[str, Any]:
    own = f"{result.driver}/"
    return {
        "request": result.request,
        "driver": result.driver,
        "pool": result.pool,
        "device": result.device,
        "admin": bool(result.admin_access),
        "share_id": result.share_id or "",
        "consumed": _quantities(result.consumed_capacity, f"results[{result.device}].consumedCapacity", own),
    }


def _one_node(selector: NodeSelector | None) -> str:
    """The node's name when the selector is for one node by name, as the scheduler writes it."""
    terms = _terms(selector) or []
    fields = [field for term in terms for field in term.get("matchFields") or ()]
    names = {
        name
        for field in fields
        if field.get("key") == "metadata.name" and field.get("operator") == "In"
        for name in field.get("values") or ()
    }
    return names.pop() if len(names) == 1 and len(terms) == 1 else ""


def _consumer(consumer: Consumer) -> dict[str, str]:
    plain = "Pod" if consumer.resource == "pods" and not consumer.api_group else consumer.resource
    return {"kind": plain, "name": consumer.name, "uid": consumer.uid}


def resource_claim_row(claim: ResourceClaim) -> Row:
    meta, allocation = claim.metadata, claim.status.allocation
    annotations = meta.annotations or {}
    shape = {
        "requests": _requests(claim.spec.devices.requests),
        "extended": annotations.get(_EXTENDED_CLAIM) == "true",
        "pod_claim_name": annotations.get(_POD_CLAIM_NAME, ""),
    }
    state = {
        "allocated": allocation is not None,
        "node": _one_node(allocation.node_selector) if allocation else "",
        "results": [_result(result) for result in (allocation.devices.results if allocation else None) or ()],
        "reserved_for": [_consumer(consumer) for consumer in claim.status.reserved_for or ()],
        "allocated_at": allocation.allocation_timestamp if allocation else None,
    }
    return object_row(meta, "ResourceClaim", shape, state)


# ------------------------------------------------------------------ DeviceTaintRule
class TaintSelector(Struct, frozen=True):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    device_class_name: str | None = None
    selectors: list[Selector] | None = None


class TaintRuleSpec(Struct, frozen=True):
    taint: Taint
    device_selector: TaintSelector | None = None


class DeviceTaintRule(Struct, frozen=True):
    metadata: Meta
    spec: TaintRuleSpec


def device_taint_rule_row(rule: DeviceTaintRule) -> Row:
    selector = rule.spec.device_selector or TaintSelector()
    shape = {
        "selects": rule.spec.device_selector is not None,
        "driver": selector.driver or "",
        "pool": selector.pool or "",
        "device": selector.device or "",
        "device_class": selector.device_class_name or "",
        "selectors": _expressions(selector.selectors),
        "taint": _taint(rule.spec.taint),
    }
    return object_row(rule.metadata, "DeviceTaintRule", shape, {})


# ------------------------------------------------------------------ ClusterPolicy
class Component(Struct, frozen=True):
    enabled: bool | None = None
    image: str | None = None
    version: str | None = None


class PolicySpec(Struct, frozen=True):
    """The parts that are images of their own; the operator's own version is not in it."""

    driver: Component | None = None
    toolkit: Component | None = None
    device_plugin: Component | None = None
    gfd: Component | None = None
    dcgm: Component | None = None
    dcgm_exporter: Component | None = None
    mig_manager: Component | None = None
    node_status_exporter: Component | None = None
    validator: Component | None = None
    sandbox_device_plugin: Component | None = None
    vgpu_manager: Component | None = None
    vgpu_device_manager: Component | None = None
    vfio_manager: Component | None = None
    gds: Component | None = None
    gdrcopy: Component | None = None
    kata_manager: Component | None = None
    cc_manager: Component | None = None


class PolicyStatus(Struct, frozen=True):
    state: str | None = None
    conditions: list[Condition] | None = None


class ClusterPolicy(Struct, frozen=True):
    metadata: Meta
    spec: PolicySpec = PolicySpec()
    status: PolicyStatus = PolicyStatus()


def _version(component: Component) -> str:
    """What is written down: the version, else the tag of a full image path."""
    image = (component.image or "").rpartition("/")[2]
    return component.version or image.partition("@")[0].partition(":")[2]


def cluster_policy_row(policy: ClusterPolicy) -> Row:
    components: dict[str, str] = {}
    for name in PolicySpec.__struct_fields__:
        component: Component | None = getattr(policy.spec, name)
        if component is not None and component.enabled is not False and (version := _version(component)):
            components[name.replace("_", "-")] = version
    state = {"state": policy.status.state or "", "conditions": conditions_of(policy.status.conditions)}
    return object_row(policy.metadata, "ClusterPolicy", {"components": components}, state)


# ------------------------------------------------------------------ registry
def _kind(
    name: str,
    plural: str,
    struct: type[Struct],
    row: Callable[[Any], Row],
    *,
    group: str = GROUP,
    versions: tuple[str, ...] = VERSIONS,
    namespaced: bool = False,
) -> Kind:
    return Kind(
        name=name,
        source="devices",
        model="ClusterObject",
        group=group,
        versions=versions,
        plural=plural,
        namespaced=namespaced,
        struct=struct,
        columns=OBJECT_COLUMNS,
        row=row,
    )


DEVICE_KINDS = (
    _kind("DeviceClass", "deviceclasses", DeviceClass, device_class_row),
    _kind("ResourceSlice", "resourceslices", ResourceSlice, resource_slice_row),
    _kind("ResourceClaim", "resourceclaims", ResourceClaim, resource_claim_row, namespaced=True),
    _kind(
        "DeviceTaintRule",
        "devicetaintrules",
        DeviceTaintRule,
        device_taint_rule_row,
        versions=("v1", "v1beta2", "v1alpha3"),
    ),
    _kind(
        "ClusterPolicy",
        "clusterpolicies",
        ClusterPolicy,
        cluster_policy_row,
        group="nvidia.com",
        versions=("v1",),
    ),
)
