"""What schema, CEL rules and webhooks refuse about an edited object, in the words of the real ones.

Input: the object before and after an edit; output: nothing, or Refused. Order as on a real server: conflict, schema
and CEL (422 with causes), then the webhook (403 of Kueue, 400 of Volcano).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from apps.core.quantity import parse_quantity
from simcluster import statuses
from simcluster.kinds import Kind
from simcluster.statuses import Cause

Spec = dict[str, Any]

_QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_QUANTITY_RE = re.compile(_QUANTITY)
_LIMITS = ("nominalQuota", "borrowingLimit", "lendingLimit")
_STOP_POLICIES = ("None", "Hold", "HoldAndDrain")
_NOT_CHECKED = (
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
    "existing errors to complete validation"
)


def check(kind: Kind, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Raises Refused with the body that a real server would answer."""
    name = before["metadata"]["name"]
    if after.get("metadata", {}).get("name") != name:
        raise statuses.bad_request("the name of the object does not match the name on the URL")
    asked = after["metadata"].get("resourceVersion")
    if asked and asked != before["metadata"]["resourceVersion"]:
        raise statuses.conflict(kind, name)
    spec = after.get("spec", {})
    causes = list(_schema(kind, spec)) or list(_rules(kind, before, after))
    if causes:
        raise statuses.invalid(kind, name, causes)
    if kind.name in ("ClusterQueue", "Cohort"):
        said = [*_limits(kind, spec), *_groups(spec)]
        if said:
            words = said[0] if len(said) == 1 else "[" + ", ".join(said) + "]"
            raise statuses.denied_by_webhook(f"v{kind.name.lower()}.kb.io", words)
    elif kind.name == "VolcanoQueue":
        for words in _volcano(name, before.get("spec", {}), spec):
            raise statuses.denied_by_volcano(words)


def _quotas(spec: Spec) -> Iterator[tuple[str, dict[str, Any]]]:
    for g, group in enumerate(spec.get("resourceGroups", ())):
        for f, flavor in enumerate(group.get("flavors", ())):
            for r, resource in enumerate(flavor.get("resources", ())):
                yield f"spec.resourceGroups[{g}].flavors[{f}].resources[{r}]", resource


# ---- schema -------------------------------------------------------------------------------------------------
def _schema(kind: Kind, spec: Spec) -> Iterator[Cause]:
    for field, value in _quantities(spec):
        if not isinstance(value, int) and not (isinstance(value, str) and _QUANTITY_RE.match(value)):
            shown = f'"{value}"' if isinstance(value, str) else str(value)
            yield Cause(field, f"Invalid value: {shown}: {field} in body should match '{_QUANTITY}'")
    for g, group in enumerate(spec.get("resourceGroups", ())):
        names: list[str] = []
        for f, flavor in enumerate(group.get("flavors", ())):
            if flavor.get("name") in names:
                key = msgspec.json.encode({"name": flavor["name"]}).decode()
                where = f"spec.resourceGroups[{g}].flavors[{f}]"
                yield Cause(where, f"Duplicate value: {key}", "FieldValueDuplicate")
            names.append(flavor.get("name"))
    policy = spec.get("stopPolicy")
    if policy is not None and policy not in _STOP_POLICIES and kind.group:
        known = ", ".join(f'"{one}"' for one in _STOP_POLICIES)
        words = f'Unsupported value: "{policy}": supported values: {known}'
        yield Cause("spec.stopPolicy", words, "FieldValueNotSupported")
        yield Cause("<nil>", _NOT_CHECKED)


def _quantities(spec: Spec) -> Iterator[tuple[str, Any]]:
    for field, resource in _quotas(spec):
        for name in _LIMITS:
            if name in resource:
                yield f"{field}.{name}", resource[name]
    for name in ("capability", "deserved"):
        for resource_name, value in (spec.get(name) or {}).items():
            yield f"spec.{name}.{resource_name}", value


# ---- CEL ----------------------------------------------------------------------------------------------------
def _rules(kind: Kind, before: dict[str, Any], after: dict[str, Any]) -> Iterator[Cause]:
    old, new = before.get("spec", {}), after.get("spec", {})
    if kind.name == "LocalQueue" and old.get("clusterQueue") != new.get("clusterQueue"):
        words = f'Invalid value: "{new.get("clusterQueue", "")}": field is immutable'
        yield Cause("spec.clusterQueue", words)
    elif kind.name == "ResourceFlavor" and old.get("topologyName") not in (None, new.get("topologyName")):
        yield Cause("spec", "Invalid value: topologyName is immutable when topologyName is set")
    elif kind.name == "Workload" and old.get("queueName") != new.get("queueName"):
        conditions = {c["type"]: c["status"] for c in before.get("status", {}).get("conditions", ())}
        if conditions.get("QuotaReserved") == "True":
            words = "Invalid value: queueName is immutable while workload quota reserved"
            yield Cause("<nil>", words)
    elif kind.name == "ClusterQueue":
        yield from _queue_rules(new)


def _queue_rules(spec: Spec) -> Iterator[Cause]:
    if not spec.get("cohortName") and any("borrowingLimit" in one for _field, one in _quotas(spec)):
        yield Cause("spec", "Invalid value: borrowingLimit must be nil when cohort is empty")
    preemption = spec.get("preemption") or {}
    borrow = (preemption.get("borrowWithinCohort") or {}).get("policy", "Never")
    if preemption.get("reclaimWithinCohort", "Never") == "Never" and borrow != "Never":
        words = "Invalid value: reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"
        yield Cause("spec.preemption", words)
    for index, group in enumerate(spec.get("resourceGroups", ())):
        covered = len(group.get("coveredResources", ()))
        if any(len(flavor.get("resources", ())) != covered for flavor in group.get("flavors", ())):
            words = "Invalid value: flavors must have the same number of resources as the coveredResources"
            yield Cause(f"spec.resourceGroups[{index}]", words)


# ---- webhooks -----------------------------------------------------------------------------------------------
def _limits(kind: Kind, spec: Spec) -> Iterator[str]:
    queue = kind.name == "ClusterQueue"
    parent, above = (spec.get("cohortName"), "cohort") if queue else (spec.get("parentName"), "parent")
    for field, resource in _quotas(spec):
        nominal = parse_quantity(resource.get("nominalQuota", "0"))
        for limit in _LIMITS:
            if limit not in resource:
                continue
            where = f'{field}.{limit}: Invalid value: "{resource[limit]}"'
            if parse_quantity(resource[limit]) < 0:
                yield f"{where}: must be greater than or equal to 0"
            elif limit != "nominalQuota" and not parent:
                yield f"{where}: must be nil when {above} is empty"
            elif limit == "lendingLimit" and queue and parse_quantity(resource[limit]) > nominal:
                yield f"{where}: must be less than or equal to the nominalQuota"


def _groups(spec: Spec) -> Iterator[str]:
    """Resources in the order of coveredResources; a flavor in one group only."""
    seen: set[str] = set()
    for g, group in enumerate(spec.get("resourceGroups", ())):
        covered = group.get("coveredResources", ())
        for f, flavor in enumerate(group.get("flavors", ())):
            where = f"spec.resourceGroups[{g}].flavors[{f}]"
            if flavor["name"] in seen:
                yield f'{where}.name: Duplicate value: "{flavor["name"]}"'
            for r, (resource, name) in enumerate(zip(flavor.get("resources", ()), covered, strict=False)):
                if resource["name"] != name:
                    value = f'Invalid value: "{resource["name"]}": must match the name in coveredResources'
                    yield f"{where}.resources[{r}].name: {value}"
        seen.update(flavor["name"] for flavor in group.get("flavors", ()))


def _volcano(name: str, before: Spec, spec: Spec) -> Iterator[str]:
    parts = ("capability", "deserved", "guarantee")
    if name == "root" and any(before.get(part) != spec.get(part) for part in parts):
        yield "root queue's resource attributes (capability, deserved, guarantee) cannot be modified"
    capability, deserved = spec.get("capability") or {}, spec.get("deserved") or {}
    for part, amounts in (("capability", capability), ("deserved", deserved)):
        for resource, value in amounts.items():
            if parse_quantity(value) < 0:
                where = f'requestBody.spec.{part}.{resource}: Invalid value: "{value}"'
                yield f"{where}: must be greater than or equal to 0"
    guarantee = (spec.get("guarantee") or {}).get("resource") or {}
    for resource, value in guarantee.items():
        if resource in deserved and parse_quantity(deserved[resource]) < parse_quantity(value):
            have = deserved[resource]
            where = f'requestBody.spec.deserved.{resource}: Invalid value: "{have}"'
            yield f"{where}: deserved[{resource}]={have} must be >= guarantee[{resource}]={value}"
    for resource, value in deserved.items():
        if resource in capability and parse_quantity(value) > parse_quantity(capability[resource]):
            where = f'requestBody.spec.deserved.{resource}: Invalid value: "{value}"'
            most = capability[resource]
            yield f"{where}: deserved[{resource}]={value} must be <= capability[{resource}]={most}"
