"""Whether pods may use a flavor, as Kueue looks at it: taints, node selector and required affinity against the flavor's
own labels. Input: a flavor, a pod set, the label keys that the flavors of the resource group name; output: a reason
or None. Keys that no flavor of the group names do not count; a term without any such key matches everything.
"""

from __future__ import annotations

from collections.abc import Mapping

from apps.core.label_selector import node_expression_holds
from apps.core.taints import KEEPS_AWAY, tolerates
from apps.quotas.engine.model import Flavor, PodSet, Reason


def why_not(flavor: Flavor, pod_set: PodSet, keys: frozenset[str]) -> Reason | None:
    """None when every taint is tolerated and labels match; else the first thing that is wrong, taints first."""
    tolerations = (*pod_set.tolerations, *flavor.tolerations)
    for taint in flavor.taints:
        key, value, effect = taint
        told = {"key": key, "value": value, "effect": effect}
        if effect in KEEPS_AWAY and not tolerates(tolerations, told):
            return Reason("NoMatchingFlavor", pod_set.name, flavor.name, taint=taint)
    if not _labels_match(flavor.node_labels, pod_set, keys):
        return Reason("NoMatchingFlavor", pod_set.name, flavor.name)
    return None


def _labels_match(labels: Mapping[str, str], pod_set: PodSet, keys: frozenset[str]) -> bool:
    if any(labels.get(key) != value for key, value in pod_set.node_selector.items() if key in keys):
        return False
    terms = []
    for term in pod_set.affinity:
        known = [rule for rule in term.get("matchExpressions") or () if rule.get("key") in keys]
        if not known:
            return True
        terms.append(known)
    return not terms or any(all(node_expression_holds(rule, labels) for rule in term) for term in terms)
