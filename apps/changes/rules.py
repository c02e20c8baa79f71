"""What the webhooks and CEL rules of Kueue would refuse about an object, in the portal's own codes. Input: a spec before
and after; output: the rules that it breaks and where. Pure. Volcano's are in `rules_volcano`.

The list is that of Kueue v0.17 (clusterqueue_webhook.go, cohort_webhook.go, the markers of v1beta2), and of later
versions what is about fields that only they have. Invariant: a spec that Kueue holds breaks none, so that what is found
was brought in by the edit or by nobody's fault of Kueue's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from apps.changes.laying import POLICY_PATHS, parent_field
from apps.changes.specs import CELL_FIELDS, Spec, amount, cells_of
from apps.quotas.what_if_apply import LEAST_WEIGHT

Place = tuple[str, ...]
"""("cell", flavor, resource, "nominal"), ("flavor", name), ("resource", name), ("amount", "deserved", resource),
("value", "stop_policy"), or () for the object."""

MOST_GROUPS, MOST_FLAVORS, MOST_RESOURCES = 16, 64, 64
MOST_OF_ALL, MOST_CELLS_OF_GROUP, MOST_VARIANTS = 256, 512, 16
ZERO = Decimal(0)
CHOICES: Mapping[str, tuple[str, ...]] = {
    "stop_policy": ("None", "Hold", "HoldAndDrain"),
    "strategy": ("BestEffortFIFO", "StrictFIFO"),
    "within_cluster_queue": ("Never", "LowerPriority", "LowerOrNewerEqualPriority"),
    "reclaim_within_cohort": ("Never", "LowerPriority", "Any"),
    "borrow_within_cohort": ("Never", "LowerPriority"),
    "when_can_borrow": ("MayStopSearch", "TryNextFlavor", "Borrow"),
    "when_can_preempt": ("MayStopSearch", "TryNextFlavor", "Preempt"),
    "preference": ("BorrowingOverPreemption", "PreemptionOverBorrowing"),
}
"""What a live object may say, the words of older versions too."""
_NAMES = {value: key for key, value in CELL_FIELDS.items()}
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_DNS_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_OPERATORS = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}


@dataclass(frozen=True, slots=True)
class Broken:
    code: str
    place: Place
    params: Mapping[str, str] = field(default_factory=dict)


def broken(kind: str, before: Spec, after: Spec, api_version: str = "") -> list[Broken]:
    """Every rule about this one object alone that `after` breaks. `kind`: ClusterQueue, Cohort or LocalQueue."""
    if kind == "LocalQueue":
        return [*_choice(after, "stop_policy"), *_local(before, after)]
    found = [*_amounts(after), *_weight(after), *_parent(kind, after, api_version), *_groups(after)]
    found += _limits(kind, after, api_version)
    if kind == "ClusterQueue":
        found += [one for name in CHOICES for one in _choice(after, name)]
        found += [*_whole_queue(after), *_policy(after), *_variants(before, after), *_selector(after)]
    return found


def _dig(spec: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    here: Any = spec
    for part in path:
        here = here.get(part) if isinstance(here, Mapping) else None
    return here


def _choice(spec: Spec, name: str) -> Iterator[Broken]:
    known, value = CHOICES[name], _dig(spec, POLICY_PATHS[name])
    if value is not None and value not in known:
        yield Broken("choice", ("value", name), {"value": str(value), "known": ", ".join(known)})


def _parent(kind: str, spec: Spec, api_version: str) -> Iterator[Broken]:
    name = spec.get(parent_field(kind, spec, api_version))
    if name is not None and not is_object_name(str(name)):
        yield Broken("object_name", ("value", "parent"), {"name": str(name)})


def _local(before: Spec, after: Spec) -> Iterator[Broken]:
    if before.get("clusterQueue") != after.get("clusterQueue"):
        yield Broken("immutable", ("value", "cluster_queue"), {"field": "clusterQueue"})


# ---- amounts --------------------------------------------------------------------------------------------------------


def _amounts(spec: Spec) -> Iterator[Broken]:
    for flavor, resource, cell in cells_of(spec):
        for field_name, name in _NAMES.items():
            if field_name in cell:
                place = ("cell", flavor, resource, name)
                value = amount(cell[field_name])
                if value is None:
                    yield Broken("quantity", place, {"value": str(cell[field_name])})
                elif value < 0:
                    yield Broken("negative", place, {"value": str(cell[field_name])})


def _limits(kind: str, spec: Spec, api_version: str) -> Iterator[Broken]:
    parent = spec.get(parent_field(kind, spec, api_version))
    for flavor, resource, cell in cells_of(spec):
        for name in ("borrowing_limit", "lending_limit"):
            limit = cell.get(CELL_FIELDS[name])
            if limit is None:
                continue
            place, params = ("cell", flavor, resource, name), {"flavor": flavor, "resource": resource}
            value, nominal = amount(limit), amount(cell.get("nominalQuota", "0"))
            if not parent:
                yield Broken("no_cohort" if kind == "ClusterQueue" else "no_parent", place, params)
            elif name == "lending_limit" and kind == "ClusterQueue" and None not in (value, nominal):
                assert value is not None and nominal is not None  # noqa: S101, PT018
                if value > nominal:
                    said = {**params, "limit": str(limit), "nominal": str(cell.get("nominalQuota", "0"))}
                    yield Broken("above_nominal", place, said)


def _weight(spec: Spec) -> Iterator[Broken]:
    text = _dig(spec, ("fairSharing", "weight"))
    if text is None:
        return
    value = amount(text)
    if value is None:
        yield Broken("quantity", ("value", "fair_weight"), {"value": str(text)})
    elif value < 0:
        yield Broken("negative", ("value", "fair_weight"), {"value": str(text)})
    elif ZERO < value <= LEAST_WEIGHT:
        yield Broken("weight_too_small", ("value", "fair_weight"), {"value": str(text)})


# ---- groups ---------------------------------------------------------------------------------------------------------


def _groups(spec: Spec) -> Iterator[Broken]:
    groups = spec.get("resourceGroups") or []
    yield from _too_many("groups", (), len(groups), MOST_GROUPS)
    flavors = [str(flavor["name"]) for group in groups for flavor in group.get("flavors") or ()]
    covered = [str(name) for group in groups for name in group.get("coveredResources") or ()]
    for name in sorted({name for name in flavors if flavors.count(name) > 1}):
        yield Broken("duplicate_flavor", ("flavor", name), {"flavor": name})
    for name in sorted(set(flavors)):
        if not is_object_name(name):
            yield Broken("object_name", ("flavor", name), {"name": name})
    for name in sorted({name for name in covered if covered.count(name) > 1}):
        yield Broken("duplicate_resource", ("resource", name), {"resource": name})
    for name in covered:
        if not is_label_key(name):
            yield Broken("resource_name", ("resource", name), {"resource": name})
    for group in groups:
        yield from _group(group)


def _group(group: Mapping[str, Any]) -> Iterator[Broken]:
    covered, flavors = list(group.get("coveredResources") or ()), list(group.get("flavors") or ())
    place: Place = ("flavor", str(flavors[0]["name"])) if flavors else ()
    yield from _too_many("flavors of a group", place, len(flavors), MOST_FLAVORS)
    yield from _too_many("resources of a group", place, len(covered), MOST_RESOURCES)
    if not flavors or not covered:
        yield Broken("empty_group", place, {})
    for flavor in flavors:
        resources = [cell.get("name") for cell in flavor.get("resources") or ()]
        params = {"flavor": str(flavor["name"]), "covered": ", ".join(map(str, covered))}
        if len(resources) != len(covered):
            yield Broken("resource_count", ("flavor", params["flavor"]), params)
        elif resources != covered:
            yield Broken("resource_order", ("flavor", params["flavor"]), params)


def _whole_queue(spec: Spec) -> Iterator[Broken]:
    """Sizes that only the webhook of ClusterQueues looks at: a Cohort may be larger."""
    groups = spec.get("resourceGroups") or []
    for name in ("flavors", "coveredResources"):
        what = "flavors of the queue" if name == "flavors" else "resources of the queue"
        yield from _too_many(what, (), sum(len(group.get(name) or ()) for group in groups), MOST_OF_ALL)
    for group in groups:
        cells = [len(flavor.get("resources") or ()) for flavor in group.get("flavors") or ()]
        place: Place = ("flavor", str(group["flavors"][0]["name"])) if cells else ()
        yield from _too_many("cells of a group", place, sum(cells), MOST_CELLS_OF_GROUP)


def _too_many(what: str, place: Place, found: int, most: int) -> Iterator[Broken]:
    if found > most:
        code = "too_many_" + what.replace(" ", "_")
        yield Broken(code, place, {"found": str(found), "most": str(most)})


def is_object_name(name: str) -> bool:
    """A DNS name of at most 253 signs, as objects of Kubernetes are called."""
    return len(name) <= 253 and bool(_DNS_NAME.fullmatch(name))


def is_label_key(name: str) -> bool:
    """A qualified name: an optional DNS prefix of at most 253 signs, a slash, a name of at most 63."""
    prefix, slash, rest = name.rpartition("/")
    if slash and (not is_object_name(prefix)):
        return False
    return bool(_LABEL_NAME.fullmatch(rest))


# ---- policy ---------------------------------------------------------------------------------------------------------


def _policy(spec: Spec) -> Iterator[Broken]:
    reclaim = _dig(spec, POLICY_PATHS["reclaim_within_cohort"]) or "Never"
    borrow = _dig(spec, POLICY_PATHS["borrow_within_cohort"]) or "Never"
    if reclaim == "Never" and borrow != "Never":
        yield Broken("borrow_needs_reclaim", ("value", "borrow_within_cohort"), {"policy": str(borrow)})
    threshold = _dig(spec, POLICY_PATHS["max_priority_threshold"])
    if isinstance(threshold, int) and not -(2**31) <= threshold < 2**31:
        known = f"{-(2**31)}…{2**31 - 1}"
        yield Broken("number", ("value", "borrow_within_cohort"), {"value": str(threshold), "known": known})
    preference = _dig(spec, POLICY_PATHS["preference"])
    searches = (
        _dig(spec, POLICY_PATHS["when_can_borrow"]) or "MayStopSearch",
        _dig(spec, POLICY_PATHS["when_can_preempt"]) or "TryNextFlavor",
    )
    if preference and searches != ("TryNextFlavor", "TryNextFlavor"):
        yield Broken("preference_needs_search", ("value", "preference"), {"preference": str(preference)})


def _variants(before: Spec, after: Spec) -> Iterator[Broken]:
    old, new = before.get("concurrentAdmissionPolicy"), after.get("concurrentAdmissionPolicy")
    if old != new:
        yield Broken("immutable", (), {"field": "concurrentAdmissionPolicy"})
    if not new:
        return
    groups = after.get("resourceGroups") or []
    if len(groups) != 1:
        yield Broken("variants_one_group", (), {"found": str(len(groups))})
    elif len(groups[0].get("flavors") or ()) > MOST_VARIANTS:
        yield Broken("variants_flavors", (), {"most": str(MOST_VARIANTS)})
    if after.get("queueingStrategy") == "StrictFIFO":
        yield Broken("variants_strict", ("value", "strategy"), {})


def _selector(spec: Spec) -> Iterator[Broken]:
    selector = spec.get("namespaceSelector") or {}
    for name, value in (selector.get("matchLabels") or {}).items():
        if not is_label_key(str(name)) or not _is_label_value(value):
            yield Broken("selector", (), {"label": str(name)})
    for expression in selector.get("matchExpressions") or ():
        needs, values = _OPERATORS.get(str(expression.get("operator"))), expression.get("values") or ()
        good = needs is not None and bool(values) == needs and all(map(_is_label_value, values))
        if not good or not is_label_key(str(expression.get("key") or "")):
            yield Broken("selector", (), {"label": str(expression.get("key"))})


def _is_label_value(value: Any) -> bool:
    return value == "" or (isinstance(value, str) and bool(_LABEL_NAME.fullmatch(value)))
