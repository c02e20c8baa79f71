"""A proposed change in a line, as people say it. Input: one change or edit as decoded JSON, as what-if and change requests
know them; output: a sentence. Whatever is malformed is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.changes.edits import AMOUNTS
from apps.quotas.what_if_form import Json

_NAMES: Mapping[str, str | Promise] = {
    "nominal": gettext_lazy("nominal quota"),
    "borrowing_limit": gettext_lazy("borrowing limit"),
    "lending_limit": gettext_lazy("lending limit"),
    "cohort": gettext_lazy("cohort"),
    "parent": gettext_lazy("parent"),
    "fair_weight": gettext_lazy("fair weight"),
    "stop_policy": gettext_lazy("stop policy"),
    "strategy": gettext_lazy("order of waiting work"),
    "within_cluster_queue": gettext_lazy("preempts in the queue"),
    "reclaim_within_cohort": gettext_lazy("takes back in the cohort"),
    "policy": gettext_lazy("preempts while borrowing"),
    "max_priority_threshold": gettext_lazy("preempts while borrowing, up to priority"),
    "when_can_borrow": gettext_lazy("when it can borrow"),
    "when_can_preempt": gettext_lazy("when it can preempt"),
    "preference": gettext_lazy("rather"),
    "weight": gettext_lazy("weight"),
    "priority": gettext_lazy("priority"),
    "state": gettext_lazy("state"),
    "capability": gettext_lazy("capability"),
    "deserved": gettext_lazy("deserved"),
    "guarantee": gettext_lazy("guarantee"),
}
"""The fields of the edit language, in the words of `apps.changes.words`."""


def describe(change: Json, works: Mapping[str, str]) -> str:
    """One change in a line: "red-cq: h100 nvidia.com/gpu nominal quota 12, cohort ml". `works`: uid → name."""
    if change.get("kind") == "Workload":
        if change.get("action") == "add":
            place = change.get("local_queue") or change.get("queue") or ""
            return _("A hypothetical job in %(queue)s: %(asks)s, priority %(priority)s") % {
                "queue": place,
                "asks": _asks(change),
                "priority": change.get("priority", 0),
            }
        name = works.get(str(change.get("uid")), str(change.get("uid")))
        if change.get("action") == "remove":
            return _("%(work)s taken away") % {"work": name}
        return _("%(work)s with priority %(priority)s") % {"work": name, "priority": change.get("priority")}
    return f"{edited_name(change)}: {', '.join(_words(change.get('set')))}"


def edited_name(edit: Json) -> str:
    """The object that an edit is about: "red-cq", of a LocalQueue "red-ns/red-lq"."""
    return "/".join(str(edit[part]) for part in ("namespace", "name") if edit.get(part))


def _asks(change: Json) -> str:
    parts = []
    found = change.get("pod_sets")
    for pod_set in found if isinstance(found, list) else ():
        if isinstance(pod_set, dict) and isinstance(pod_set.get("requests"), dict):
            amounts = ", ".join(f"{amount} {name}" for name, amount in pod_set["requests"].items())
            parts.append(f"{pod_set.get('count', 1)} × {amounts}")
    return " + ".join(parts)


def _words(wanted: Any) -> list[str]:
    if not isinstance(wanted, dict):
        return []
    words = []
    for name, value in wanted.items():
        if name == "quotas" and isinstance(value, list):
            for quota in (found for found in value if isinstance(found, dict)):
                place = f"{quota.get('flavor')} {quota.get('resource')}"
                given = [
                    f"{_name(key)} {'–' if amount is None else amount}"
                    for key, amount in quota.items()
                    if key not in ("flavor", "resource")
                ]
                words.append(f"{place} {' '.join(given)}")
        elif name == "remove" and isinstance(value, list):
            names = [" ".join(map(str, item.values())) for item in value if isinstance(item, dict)]
            words += [_("without %(name)s") % {"name": name} for name in names]
        elif name in AMOUNTS and isinstance(value, dict):
            words += [f"{resource} {_name(name)} {amount or '–'}" for resource, amount in value.items()]
        elif isinstance(value, dict):
            words += _words(value)
        else:
            words.append(f"{_name(name)} {value or '–'}")
    return words


def _name(key: str) -> str:
    return str(_NAMES.get(key, key))
