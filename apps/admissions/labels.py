"""Words for causes, layers, rules and next steps. Input: the classifier's ids; output: translated text."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_lazy as _

from apps.admissions.classifier import Part, Verdict, rule_book
from apps.core.quantity import plain

# The key of work for which the cluster gave no reason token.
NO_REASON = "none"

CAUSE_LABELS: dict[str, Promise] = {
    "quota": _("quota"),
    "model": _("model"),
    "topology": _("topology"),
    "capacity": _("capacity"),
    "scale_up": _("scale-up"),
    "device": _("device"),
    "startup": _("start-up"),
    "configuration": _("configuration"),
    "held": _("held on purpose"),
    "transient": _("transient"),
    "unknown": _("unknown"),
}

CAUSE_MEANINGS: dict[str, Promise] = {
    "quota": _("The queue's share, or its ceiling, is too small."),
    "model": _("No flavor or node of the kind that was asked for."),
    "topology": _("Enough devices, but not close enough together."),
    "capacity": _("Quota is granted or not needed, but no device is free."),
    "scale_up": _("Nodes were asked for and did not come."),
    "device": _("A node was found, but the device was not given."),
    "startup": _("Devices are given, but the containers do not come up."),
    "configuration": _("A mistake: a missing queue, flavor, selector or class."),
    "held": _("On purpose: a stopped queue, a gate, a deactivation or an admission check."),
    "transient": _("The scheduler will try again by itself."),
    "unknown": _("No rule knows this text; it is shown as it came."),
}

LAYER_LABELS: dict[str, Promise] = {
    "admission": _("queue admission"),
    "placement": _("placement"),
    "provisioning": _("node provisioning"),
    "device": _("device allocation"),
}

# What a rule says, filled with the numbers that were found in the text.
RULE_SENTENCES: dict[str, Promise] = {
    "quota-unused": _("needs %(needed)s more %(resource)s in flavor %(flavor)s"),
    "quota-unused-cohort": _("needs %(needed)s more %(resource)s in flavor %(flavor)s of the cohort"),
    "exceeds-max": _("asks for more %(resource)s than flavor %(flavor)s can ever give (at most %(ceiling)s)"),
    "exceeds-max-old": _("asks for more %(resource)s than flavor %(flavor)s can ever give"),
    "volcano-over-ceiling": _("asks for more %(resource)s than the queue can ever give"),
    "resource-not-covered": _("the queue does not offer %(resource)s"),
    "flavor-affinity": _("does not match the nodes of flavor %(flavor)s"),
    "flavor-taint": _("does not tolerate the taint of flavor %(flavor)s"),
    "insufficient-device": _("%(nodes)s nodes have too few free %(resource)s"),
    "insufficient-host": _("%(nodes)s nodes have too little free %(resource)s"),
    "node-affinity": _("%(nodes)s nodes do not match the selector"),
    "node-taint": _("%(nodes)s nodes have a taint that is not tolerated"),
    "node-out-of-use": _("the nodes that would fit are out of use: %(nodes)s"),
    "node-too-small": _("too large for each of the %(nodes)s nodes that would fit, even when empty"),
    "scale-up-backoff": _("%(nodes)s node groups could not grow and wait before they try again"),
    "scale-up-limit": _("%(nodes)s node groups are at their limit"),
    "scale-up-too-small": _("a new node of %(nodes)s node groups would be too small"),
    "scale-up-mismatch": _("new nodes of %(nodes)s node groups would not fit the selector or tolerations"),
    "pool-limit": _("node pool %(flavor)s is at its limit"),
    "pool-out-of-stock": _("the provider has no such machine to give for node pool %(flavor)s"),
    "pool-too-small": _("no machine of node pool %(flavor)s is large enough"),
    "pool-mismatch": _("node pool %(flavor)s does not fit the selector or tolerations"),
    "device-taken": _("the node has too few %(resource)s left to give"),
    "device-unhealthy": _("the node's %(resource)s are unhealthy"),
    "device-unregistered": _("the node's plugin for %(resource)s is not registered"),
    "device-not-registered": _("the new node came without %(resource)s"),
    "node-unschedulable": _("%(nodes)s nodes are cordoned"),
}


def cause_label(cause: str) -> str:
    return str(CAUSE_LABELS.get(cause, cause))


def reason_label(reason: str) -> str:
    """The cluster's own token is a name and stays as it is; only its absence has words."""
    return gettext("no reason given") if reason in ("", NO_REASON) else reason


def layer_label(layer: str) -> str:
    return str(LAYER_LABELS.get(layer, layer))


def next_step(verdict: Verdict) -> str:
    """What the reader can do now, in the reader's language, else in English."""
    texts = rule_book().next_steps[verdict.next_step]
    return texts.get((get_language() or "").lower(), texts["en"])


def part_sentence(part: Part) -> str:
    """One part in words; the raw text where the rule has no sentence or a number is missing."""
    sentence = RULE_SENTENCES.get(part.rule)
    if sentence is None:
        return part.text
    values = {
        "needed": "" if part.needed is None else plain(part.needed),
        "ceiling": "" if part.ceiling is None else plain(part.ceiling),
        "nodes": "" if part.nodes is None else str(part.nodes),
        "resource": part.resource,
        "flavor": part.flavor,
    }
    text = str(sentence)
    if any(not value and f"%({name})s" in text for name, value in values.items()):
        return part.text
    return text % values


def verdict_sentence(verdict: Verdict) -> str:
    """The primary part in words; empty text gives the cause's meaning."""
    if verdict.primary is not None and verdict.primary.text:
        return part_sentence(verdict.primary)
    return (
        gettext("no reason given yet") if verdict.cause == "transient" else str(CAUSE_MEANINGS[verdict.cause])
    )
