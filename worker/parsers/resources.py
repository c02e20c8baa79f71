"""What a pod asks of a node. Input: the resource parts of a pod spec or template; output: effective requests.

Kubernetes' own rule: the larger of (any init container while the sidecars before it run) and (all containers
plus all sidecars), a pod-level request in place of it where one is set, plus the overhead. A limit without a
request is a request, as the API server's and Kueue's defaulting make it.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from apps.core.quantity import QuantityError
from apps.fleet.registry import is_device

from .base import Quantity, Struct, _decimal, plain_number, quantity


class Resources(Struct, frozen=True):
    requests: dict[str, Quantity] | None = None
    limits: dict[str, Quantity] | None = None


class Container(Struct, frozen=True):
    resources: Resources | None = None
    restart_policy: str | None = None


class PodResources(Struct, frozen=True):
    """The part of a pod spec that says how much it needs."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: dict[str, Quantity] | None = None
    resources: Resources | None = None


class RequiredTerms(Struct, frozen=True):
    node_selector_terms: list[dict[str, Any]] | None = None


class NodeAffinity(Struct, frozen=True):
    required_during_scheduling_ignored_during_execution: RequiredTerms | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct, frozen=True):
    node_affinity: NodeAffinity | None = None


class PodPlacement(PodResources, frozen=True):
    """What a pod spec needs, and on which nodes it may run."""

    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[dict[str, Any]] | None = None


class TemplateSpec(PodPlacement, frozen=True):
    """Of claims only whether there are any: which devices they mean stands in other objects."""

    resource_claims: list[msgspec.Raw] | None = None


class Template(Struct, frozen=True):
    spec: TemplateSpec | None = None


Amounts = dict[str, Decimal]


def _amounts(resources: Resources | None) -> Amounts:
    if resources is None:
        return {}
    requests, limits = resources.requests, resources.limits
    if limits:
        requests = {**limits, **requests} if requests else limits
    if not requests:
        return {}
    try:
        return {name: _decimal(value) for name, value in requests.items()}
    except QuantityError:
        return {name: quantity(value, f"resources[{name}]") for name, value in requests.items()}


def _add(total: Amounts, more: Mapping[str, Decimal]) -> None:
    for name, value in more.items():
        total[name] = total[name] + value if name in total else value


def _raise_to(total: Amounts, other: Mapping[str, Decimal]) -> None:
    for name, value in other.items():
        if name not in total or value > total[name]:
            total[name] = value


def _with_init_containers(total: Amounts, init_containers: list[Container]) -> None:
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in init_containers:
        own = _amounts(container.resources)
        if container.restart_policy == "Always":
            _add(total, own)
            _add(sidecars, own)
            _raise_to(peak, sidecars)
        else:
            _add(own, sidecars)
            _raise_to(peak, own)
    _raise_to(total, peak)


def effective_requests(spec: PodResources | None) -> Amounts:
    """{resource: amount} that one pod takes from its node. Raises ParseError for a bad quantity."""
    if spec is None:
        return {}
    containers = spec.containers or ()
    total = _amounts(containers[0].resources) if containers else {}
    for container in containers[1:]:
        _add(total, _amounts(container.resources))
    if spec.init_containers:
        _with_init_containers(total, spec.init_containers)
    if spec.resources is not None:
        total.update(_amounts(spec.resources))
    if spec.overhead:
        _add(total, {name: quantity(value, f"overhead[{name}]") for name, value in spec.overhead.items()})
    return total


def as_text(amounts: Mapping[str, Decimal]) -> dict[str, str]:
    return {name: plain_number(value) for name, value in amounts.items()}


def devices_in(amounts: Mapping[str, Decimal]) -> Decimal:
    """Accelerator units of any kind: finds pods with devices, never a total across kinds."""
    return sum((value for name, value in amounts.items() if is_device(name)), Decimal(0))


def placement_of(spec: PodPlacement) -> dict[str, Any]:
    """On which nodes the pod may run, as served; what it does not ask for is left out."""
    made: dict[str, Any] = {}
    if spec.node_selector:
        made["node_selector"] = spec.node_selector
    if spec.affinity is not None and (terms := required_terms(spec.affinity)):
        made["affinity"] = terms
    if spec.tolerations:
        made["tolerations"] = spec.tolerations
    return made


def required_terms(affinity: Affinity) -> list[dict[str, Any]]:
    """The nodeSelectorTerms of which a node must meet one; [] when nothing is required."""
    node = affinity.node_affinity
    required = node.required_during_scheduling_ignored_during_execution if node else None
    return (required.node_selector_terms if required else None) or []
