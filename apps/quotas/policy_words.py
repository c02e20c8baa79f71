"""What a queue's spec means, in plain words. Input: a normalised spec (worker/parsers/kueue.py, volcano.py);
output: `Policy` lines in the active language.

Invariants: what the spec leaves out reads as Kueue's or Volcano's default; a value that we do not know is shown as it is,
never left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.core.formats import listed
from apps.quotas.volcano_plugin import QueuePlugin, plugin_text


@dataclass(frozen=True, slots=True)
class Policy:
    """One decision of a spec: a stable code, its value as written ("" when left out), and what it means."""

    code: str
    label: str
    value: str
    text: str

    @property
    def written(self) -> str:
        """The value where the text does not begin with it anyway."""
        return "" if self.text.startswith(self.value) else self.value


_STRATEGIES = {
    "StrictFIFO": gettext_lazy(
        "Strictly in order: while the first workload does not fit, nothing behind it is tried."
    ),
    "BestEffortFIFO": gettext_lazy(
        "In order, but work that fits passes work that does not: a large workload can wait long."
    ),
}
_STOPS = {
    "None": gettext_lazy("Not stopped."),
    "Hold": gettext_lazy(
        "Stopped: nothing new is admitted, work that waits for checks loses its quota, running work goes on."
    ),
    "HoldAndDrain": gettext_lazy("Stopped and drained: nothing new is admitted and running work is evicted."),
}
_WITHIN = {
    "Never": gettext_lazy("Work of this queue never displaces other work of this queue."),
    "LowerPriority": gettext_lazy("Work displaces work of lower priority in this queue."),
    "LowerOrNewerEqualPriority": gettext_lazy(
        "Work displaces work of lower priority in this queue, and of equal priority that came later."
    ),
}
_RECLAIM = {
    "Never": gettext_lazy("What others borrow from it comes back only when their work ends."),
    "LowerPriority": gettext_lazy(
        "Takes back what others borrow: it displaces their work of lower priority."
    ),
    "Any": gettext_lazy("Takes back what others borrow: it displaces their work whatever its priority."),
}
_CAN_BORROW = {
    "MayStopSearch": gettext_lazy("Takes the first flavor that fits, even if it has to borrow for it."),
    "TryNextFlavor": gettext_lazy("Tries the next flavor before it borrows."),
}
_CAN_PREEMPT = {
    "MayStopSearch": gettext_lazy("Displaces other work in a flavor before it tries the next one."),
    "TryNextFlavor": gettext_lazy("Tries every flavor before it displaces other work."),
}
_PREFERENCE = {
    "BorrowingOverPreemption": gettext_lazy(
        "Where it has the choice, it rather borrows than displaces work."
    ),
    "PreemptionOverBorrowing": gettext_lazy(
        "Where it has the choice, it rather displaces work than borrows."
    ),
}
_OLD_FUNGIBILITY = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}
_DEQUEUE = {
    "traverse": gettext_lazy("In order, but work that fits passes work that does not."),
    "fifo": gettext_lazy("Strictly in order: nothing behind a stuck first workload is tried."),
}


def _said(words: Mapping[str, Promise], value: str) -> str:
    return str(words.get(value, value))


# ---- Kueue ------------------------------------------------------------------------------------------------------


def cluster_queue_policy(spec: Mapping[str, Any]) -> list[Policy]:
    """A ClusterQueue's decisions, in the order in which they bear on waiting work."""
    strategy = str(spec.get("strategy") or "")
    return [
        Policy("strategy", _("Order"), strategy, _said(_STRATEGIES, strategy or "BestEffortFIFO")),
        stop_policy(spec),
        *_preemption(spec.get("preemption") or {}),
        *_fungibility(spec.get("fungibility") or {}),
        Policy(
            "namespace_selector",
            _("Namespaces"),
            "",
            selector_text(spec.get("namespace_selector")),
        ),
        Policy("checks", _("Admission checks"), "", checks_text(spec.get("checks") or ())),
        fair_weight(spec),
    ]


def cohort_policy(spec: Mapping[str, Any]) -> list[Policy]:
    return [fair_weight(spec)]


def local_queue_policy(spec: Mapping[str, Any]) -> list[Policy]:
    return [stop_policy(spec), fair_weight(spec)]


def stop_policy(spec: Mapping[str, Any]) -> Policy:
    value = str(spec.get("stop_policy") or "")
    return Policy("stop_policy", _("Stop policy"), value, _said(_STOPS, value or "None"))


def fair_weight(spec: Mapping[str, Any]) -> Policy:
    value = spec.get("fair_weight")
    weight = "1" if value is None else str(value)
    text = (
        _("0: whoever borrows with this weight counts as infinitely greedy and is displaced first.")
        if weight == "0"
        else _("%(weight)s: its share of what is borrowed counts divided by this.") % {"weight": weight}
    )
    return Policy("fair_weight", _("Fair weight"), "" if value is None else str(value), text)


def _preemption(spec: Mapping[str, Any]) -> list[Policy]:
    within = str(spec.get("within_cluster_queue") or "")
    reclaim = str(spec.get("reclaim_within_cohort") or "")
    borrow = spec.get("borrow_within_cohort") or {}
    return [
        Policy(
            "within_cluster_queue", _("Displaces in the queue"), within, _said(_WITHIN, within or "Never")
        ),
        Policy(
            "reclaim_within_cohort",
            _("Takes back in the cohort"),
            reclaim,
            _said(_RECLAIM, reclaim or "Never"),
        ),
        Policy(
            "borrow_within_cohort",
            _("Displaces while borrowing"),
            str(borrow.get("policy") or ""),
            _borrow_text(borrow),
        ),
    ]


def _borrow_text(borrow: Mapping[str, Any]) -> str:
    policy = str(borrow.get("policy") or "Never")
    if policy == "Never":
        return _("Never displaces work of others in order to borrow.")
    if policy != "LowerPriority":
        return policy
    threshold = borrow.get("max_priority_threshold")
    if threshold is None:
        return _("May displace work of lower priority in the cohort even if it has to borrow.")
    return _(
        "May displace work of lower priority in the cohort even if it has to borrow, but only work of priority %(threshold)s or less."
    ) % {"threshold": threshold}


def _fungibility(spec: Mapping[str, Any]) -> list[Policy]:
    borrow, preempt = (str(spec.get(key) or "") for key in ("when_can_borrow", "when_can_preempt"))
    preference = str(spec.get("preference") or "")
    found = [
        Policy(
            "when_can_borrow",
            _("Flavors, borrowing"),
            borrow,
            _said(_CAN_BORROW, _OLD_FUNGIBILITY.get(borrow, borrow) or "MayStopSearch"),
        ),
        Policy(
            "when_can_preempt",
            _("Flavors, displacing"),
            preempt,
            _said(_CAN_PREEMPT, _OLD_FUNGIBILITY.get(preempt, preempt) or "TryNextFlavor"),
        ),
    ]
    if preference:
        found.append(
            Policy("preference", _("Flavors, preference"), preference, _said(_PREFERENCE, preference))
        )
    return found


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A namespace selector in words: null selects no namespace, {} every one."""
    if selector is None:
        return _("No namespace: the selector is not set, so no work can enter.")
    parts = [f"{key} = {value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    parts += [_expression(rule) for rule in selector.get("matchExpressions") or ()]
    if not parts:
        return _("Every namespace.")
    return _("Namespaces with %(rules)s.") % {"rules": listed(parts)}


def _expression(rule: Mapping[str, Any]) -> str:
    key, operator = str(rule.get("key") or ""), str(rule.get("operator") or "")
    values = ", ".join(str(value) for value in rule.get("values") or ())
    words = {
        "In": _("%(key)s in (%(values)s)"),
        "NotIn": _("%(key)s not in (%(values)s)"),
        "Exists": _("%(key)s set"),
        "DoesNotExist": _("%(key)s not set"),
    }
    known = words.get(operator)
    return known % {"key": key, "values": values} if known else f"{key} {operator} ({values})"


def checks_text(checks: Sequence[Mapping[str, Any]]) -> str:
    if not checks:
        return _("None: work is admitted as soon as its quota is reserved.")
    said = [
        _("%(check)s (only %(flavors)s)") % {"check": c["name"], "flavors": ", ".join(c["flavors"])}
        if c.get("flavors")
        else str(c["name"])
        for c in checks
    ]
    return _("After quota is reserved, these must agree: %(checks)s.") % {"checks": listed(said)}


# ---- Volcano ----------------------------------------------------------------------------------------------------


def volcano_policy(spec: Mapping[str, Any], *, plugin: QueuePlugin) -> list[Policy]:
    """A Volcano queue's decisions; `plugin`: which one is in force, and where that is known from."""
    weight, priority = spec.get("weight"), spec.get("priority")
    reclaimable = spec.get("reclaimable")
    dequeue = str(spec.get("dequeue") or "")
    weight_text = (
        _("%(weight)s, which the capacity plugin does not use.")
        if plugin.name == "capacity"
        else _("%(weight)s: what is free is split by weight among queues that want more.")
    )
    return [
        Policy("plugin", _("Plugin"), plugin.name, plugin_text(plugin)),
        Policy(
            "weight",
            _("Weight"),
            "" if weight is None else str(weight),
            weight_text % {"weight": 1 if weight is None else weight},
        ),
        Policy(
            "priority",
            _("Priority"),
            "" if priority is None else str(priority),
            _("%(priority)s: queues of higher priority come first, before any share.")
            % {"priority": priority or 0},
        ),
        Policy(
            "reclaimable",
            _("Reclaimable"),
            "" if reclaimable is None else str(reclaimable).lower(),
            _("Others may not take back what it holds beyond its share.")
            if reclaimable is False
            else _("Others may take back what it holds beyond its share."),
        ),
        Policy("dequeue", _("Order"), dequeue, _said(_DEQUEUE, dequeue or "traverse")),
    ]


def share_text(share: Any) -> str:
    """A weighted share with its unit: per mille of what the cohort can lend, divided by the fair weight."""
    if share is None:
        return _("Not defined below a circle of cohorts.")
    if not share.is_finite():
        return _("∞: it borrows with fair weight 0, so its work is displaced before all others'.")
    if not share:
        return _("0: it borrows nothing.")
    return _(
        "%(share)s ‰: what it borrows of its scarcest resource, per mille of what its cohort can lend, divided by its fair weight. The highest share gives way first."
    ) % {"share": format(share.normalize(), "f")}
