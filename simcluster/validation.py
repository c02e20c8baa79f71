"""What schema, CEL rules and webhooks refuse about an edited object, in the words of the real ones.

Input: the object before and after an edit; output: nothing, or Refused. Order as on a real server: conflict, schema
and CEL (422 with causes), then the webhook (403 of Kueue, 400 of Volcano, whose rules are in `validation_volcano`).
Sizes and policies that no recording shows are refused in the words of Kueue's sources as far as they are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from apps.core.quantity import QuantityError, parse_quantity
from simcluster import statuses, validation_volcano
from simcluster.kinds import Kind
from simcluster.statuses import Cause

Spec = dict[str, Any]

_QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_QUANTITY_RE = re.compile(_QUANTITY)
_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LIMITS = ("nominalQuota", "borrowingLimit", "lendingLimit")
_UNSUPPORTED = "FieldValueNotSupported"
_SEARCH = ("MayStopSearch", "TryNextFlavor")
_ENUMS = {
    "stopPolicy": ("None", "Hold", "HoldAndDrain"),
    "queueingStrategy": ("StrictFIFO", "BestEffortFIFO"),
    "preemption.withinClusterQueue": ("Never", "LowerPriority", "LowerOrNewerEqualPriority"),
    "preemption.reclaimWithinCohort": ("Never", "LowerPriority", "Any"),
    "preemption.borrowWithinCohort.policy": ("Never", "LowerPriority"),
    "flavorFungibility.whenCanBorrow": (*_SEARCH, "Borrow"),
    "flavorFungibility.whenCanPreempt": (*_SEARCH, "Preempt"),
    "flavorFungibility.preference": ("BorrowingOverPreemption", "PreemptionOverBorrowing"),
}
_LEAST_WEIGHT = parse_quantity("1n")
_LABEL_KEY = re.compile(
    r"(?:[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_NOT_A_LABEL = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.'"
_NOT_CHECKED = (
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
    "existing errors to complete validation"
)


def check(
    kind: Kind, before: dict[str, Any], after: dict[str, Any], *, queues: Mapping[str, Spec] | None = None
) -> None:
    """Raises Refused with the body that a real server would answer. `queues`: the specs of all Volcano queues by name,
    of a server that has their webhook look at the tree."""
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
        _readable(kind, spec)
        said = [*_weight(spec), *_limits(kind, spec), *_groups(spec), *_selector(spec)]
        if kind.name == "ClusterQueue":
            said += _totals(spec)
        if said:
            words = said[0] if len(said) == 1 else "[" + ", ".join(said) + "]"
            raise statuses.denied_by_webhook(f"v{kind.name.lower()}.kb.io", words)
    elif kind.name == "VolcanoQueue":
        for words in validation_volcano.refusals(name, before.get("spec", {}), spec, queues or {}):
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
    if kind.group:
        yield from _names(spec)
        yield from _enums(spec)
        yield from _sizes(spec)
        yield from _threshold(spec)


def _names(spec: Spec) -> Iterator[Cause]:
    named = [(f"spec.{field}", spec[field]) for field in ("cohortName", "parentName") if field in spec]
    for g, group in enumerate(spec.get("resourceGroups", ())):
        for f, flavor in enumerate(group.get("flavors", ())):
            named.append((f"spec.resourceGroups[{g}].flavors[{f}].name", flavor["name"]))
    for field, name in named:
        if len(name) > 253:
            yield Cause(field, "Too long: may not be more than 253 bytes", "FieldValueTooLong")
        if not re.match(_NAME, name):
            yield Cause(field, f"Invalid value: \"{name}\": {field} in body should match '{_NAME}'")


def _threshold(spec: Spec) -> Iterator[Cause]:
    path = "preemption.borrowWithinCohort.maxPriorityThreshold"
    value = _dig(spec, path)
    if isinstance(value, int) and not -(2**31) <= value < 2**31:
        words = f"Checked value must be of type integer with format int32 in spec.{path}"
        yield Cause("<nil>", f'Invalid value: "": {words}')


def _enums(spec: Spec) -> Iterator[Cause]:
    wrong = False
    for path, known in _ENUMS.items():
        value = _dig(spec, path)
        if value is not None and value not in known:
            words = ", ".join(f'"{one}"' for one in known)
            yield Cause(
                f"spec.{path}", f'Unsupported value: "{value}": supported values: {words}', _UNSUPPORTED
            )
            wrong = True
    if wrong:
        yield Cause("<nil>", _NOT_CHECKED)


def _dig(spec: Spec, path: str) -> Any:
    here: Any = spec
    for part in path.split("."):
        here = here.get(part) if isinstance(here, dict) else None
    return here


def _sizes(spec: Spec) -> Iterator[Cause]:
    groups = spec.get("resourceGroups") or []
    yield from _most("spec.resourceGroups", len(groups), 16)
    for g, group in enumerate(groups):
        where = f"spec.resourceGroups[{g}]"
        yield from _most(f"{where}.flavors", len(group.get("flavors") or ()), 64)
        yield from _most(f"{where}.coveredResources", len(group.get("coveredResources") or ()), 64)


def _most(where: str, found: int, most: int) -> Iterator[Cause]:
    if found > most:
        yield Cause(where, f"Too many: {found}: must have at most {most} items", "FieldValueTooMany")


def _quantities(spec: Spec) -> Iterator[tuple[str, Any]]:
    for field, resource in _quotas(spec):
        for name in _LIMITS:
            if name in resource:
                yield f"{field}.{name}", resource[name]
    for name in ("capability", "deserved"):
        for resource_name, value in (spec.get(name) or {}).items():
            yield f"spec.{name}.{resource_name}", value
    for resource_name, value in ((spec.get("guarantee") or {}).get("resource") or {}).items():
        yield f"spec.guarantee.resource.{resource_name}", value


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
    if kind.name in ("ClusterQueue", "Cohort"):
        yield from _counts(new)
    if kind.name == "ClusterQueue":
        yield from _queue_rules(new)
        yield from _variants(old, new)


def _queue_rules(spec: Spec) -> Iterator[Cause]:
    if not spec.get("cohortName") and any("borrowingLimit" in one for _field, one in _quotas(spec)):
        yield Cause("spec", "Invalid value: borrowingLimit must be nil when cohort is empty")
    preemption = spec.get("preemption") or {}
    borrow = (preemption.get("borrowWithinCohort") or {}).get("policy", "Never")
    if preemption.get("reclaimWithinCohort", "Never") == "Never" and borrow != "Never":
        words = "Invalid value: reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"
        yield Cause("spec.preemption", words)
    fungibility = spec.get("flavorFungibility") or {}
    searches = {fungibility.get("whenCanBorrow", _SEARCH[0]), fungibility.get("whenCanPreempt", _SEARCH[1])}
    if fungibility.get("preference") and searches != {"TryNextFlavor"}:
        words = "Invalid value: preference can only be set when both whenCanBorrow and whenCanPreempt are TryNextFlavor"
        yield Cause("spec.flavorFungibility", words)


def _counts(spec: Spec) -> Iterator[Cause]:
    for index, group in enumerate(spec.get("resourceGroups", ())):
        covered = len(group.get("coveredResources", ()))
        if any(len(flavor.get("resources", ())) != covered for flavor in group.get("flavors", ())):
            words = "Invalid value: flavors must have the same number of resources as the coveredResources"
            yield Cause(f"spec.resourceGroups[{index}]", words)


def _variants(old: Spec, new: Spec) -> Iterator[Cause]:
    policy = new.get("concurrentAdmissionPolicy")
    if old.get("concurrentAdmissionPolicy") != policy:
        yield Cause("spec.concurrentAdmissionPolicy", "Invalid value: field is immutable")
    if not policy:
        return
    groups = new.get("resourceGroups") or []
    if len(groups) != 1 or len(groups[0].get("flavors", ())) > 16:
        yield Cause(
            "spec", "Invalid value: concurrentAdmissionPolicy needs one resource group of at most 16 flavors"
        )
    if new.get("queueingStrategy") == "StrictFIFO":
        yield Cause("spec", "Invalid value: concurrentAdmissionPolicy does not go with StrictFIFO")


# ---- webhooks -----------------------------------------------------------------------------------------------
def _readable(kind: Kind, spec: Spec) -> None:
    """The schema lets exponents with a fraction through; the webhook cannot read the object then."""
    for _field, value in _quantities(spec):
        try:
            parse_quantity(value)
        except QuantityError:
            words = (
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            )
            webhook = f"v{kind.name.lower()}.kb.io"
            raise statuses.bad_request(f'admission webhook "{webhook}" denied the request: {words}') from None


def _weight(spec: Spec) -> Iterator[str]:
    text = _dig(spec, "fairSharing.weight")
    if text is None:
        return
    weight, where = parse_quantity(text), f'spec.fairSharing.weight: Invalid value: "{text}"'
    if weight < 0:
        yield f"{where}: must be greater than or equal to 0"
    elif 0 < weight <= _LEAST_WEIGHT:
        yield f"{where}: When not 0, weight must be > 10e-9"


def _totals(spec: Spec) -> Iterator[str]:
    """Sizes that only the webhook of ClusterQueues looks at."""
    groups, where = spec.get("resourceGroups") or [], "spec.resourceGroups"
    for field, what in (("flavors", "flavors"), ("coveredResources", "covered resources")):
        found = sum(len(group.get(field, ())) for group in groups)
        if found > 256:
            words = f"total number of {what} across all resourceGroups must be ≤ 256, got {found}"
            yield f"{where}: Invalid value: {found}: {words}"
    for index, group in enumerate(groups):
        found = sum(len(flavor.get("resources", ())) for flavor in group.get("flavors", ()))
        if found > 512:
            words = f"number of flavor-resource combinations in a resourceGroup must be ≤ 512, got {found}"
            yield f"{where}[{index}]: Invalid value: {found}: {words}"


def _selector(spec: Spec) -> Iterator[str]:
    selector = spec.get("namespaceSelector") or {}
    for name, value in (selector.get("matchLabels") or {}).items():
        where = "spec.namespaceSelector.matchLabels: Invalid value:"
        if not _LABEL_KEY.fullmatch(name):
            yield f'{where} "{name}": name part must consist of alphanumeric characters'
        if not _LABEL_VALUE.fullmatch(value):
            yield f'{where} "{value}": {_NOT_A_LABEL}'
    for index, one in enumerate(selector.get("matchExpressions") or ()):
        where = f"spec.namespaceSelector.matchExpressions[{index}]"
        if one.get("operator") not in ("In", "NotIn", "Exists", "DoesNotExist"):
            yield f'{where}.operator: Invalid value: "{one.get("operator")}": not a valid selector operator'
        elif bool(one.get("values")) != (one["operator"] in ("In", "NotIn")):
            yield f"{where}.values: Forbidden: do not fit the operator"
        for place, value in enumerate(one.get("values") or ()):
            if not _LABEL_VALUE.fullmatch(value):
                yield f'{where}.values[{place}]: Invalid value: "{value}": {_NOT_A_LABEL}'


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
    resources_seen: set[str] = set()
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
        for r, name in enumerate(covered):
            where = f"spec.resourceGroups[{g}].coveredResources[{r}]"
            if not _LABEL_KEY.fullmatch(name):
                yield f'{where}: Invalid value: "{name}": name part must consist of alphanumeric characters'
            elif name in resources_seen:
                yield f'{where}: Duplicate value: "{name}"'
            resources_seen.add(name)
