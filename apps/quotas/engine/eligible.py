"""Whether pods may use a flavor, as Kueue looks at it: taints, node selector and required affinity against the flavor's
own labels. Input: a flavor, a pod set, the label keys that the flavors of the resource group name; output: a reason
or None. Keys that no flavor of the group names do not count; a term without any such key matches everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from apps.quotas.engine.model import Flavor, PodSet

_KEEPS_AWAY = ("NoSchedule", "NoExecute")


def may_use(flavor: Flavor, pod_set: PodSet, keys: frozenset[str]) -> bool:
    """Whether every taint is tolerated and labels match."""
    tolerations = (*pod_set.tolerations, *flavor.tolerations)
    tolerated = all(
        any(_tolerates(toleration, taint) for toleration in tolerations)
        for taint in flavor.taints
        if taint[2] in _KEEPS_AWAY
    )
    return tolerated and _labels_match(flavor.node_labels, pod_set, keys)


def _tolerates(toleration: Mapping[str, Any], taint: tuple[str, str, str]) -> bool:
    key, value, effect = taint
    if toleration.get("effect") and toleration["effect"] != effect:
        return False
    if toleration.get("key") and toleration["key"] != key:
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == value


def _labels_match(labels: Mapping[str, str], pod_set: PodSet, keys: frozenset[str]) -> bool:
    if any(labels.get(key) != value for key, value in pod_set.node_selector.items() if key in keys):
        return False
    terms = []
    for term in pod_set.affinity:
        known = [rule for rule in term.get("matchExpressions") or () if rule.get("key") in keys]
        if not known:
            return True
        terms.append(known)
    return not terms or any(all(_meets(labels, rule) for rule in term) for term in terms)


def _meets(labels: Mapping[str, str], rule: Mapping[str, Any]) -> bool:
    """One match expression, as node affinity reads it."""
    value, values = labels.get(rule["key"]), rule.get("values") or []
    match rule.get("operator"):
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _compared(value, values, operator)
    return False


def _compared(value: str | None, values: Iterable[str], operator: str) -> bool:
    try:
        left, right = int(value or ""), int(next(iter(values)))
    except (ValueError, StopIteration):
        return False
    return left > right if operator == "Gt" else left < right
