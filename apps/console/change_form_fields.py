"""The form of a change request as rows to show. Input: what can be asked for (`apps.changes.form.Entry`), what is held
and what there is; output: sections of groups of fields, each with its label, what it is now and what asking for
something else means. No queries.

Invariants: amounts are compared exactly; accelerators come first, what is rarely changed is folded away unless it is
changed or at fault; every input has a full name of its own, for who does not see where it stands."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.changes.checks_model import CheckInput
from apps.changes.form import Edited, Entry, Place, entries
from apps.core.formats import resource_text
from apps.core.quantity import QuantityError, parse_quantity
from apps.fleet.registry import is_device
from apps.quotas.policy_words import Policy, cluster_queue_policy, local_queue_policy
from apps.quotas.sentences import amount_text, is_bytes
from apps.quotas.what_if_change import POLICY_PLACES
from apps.quotas.what_if_form import Json
from apps.quotas.what_if_words import policy_name

_LABELS: Mapping[str, str | Promise] = {
    "nominal": gettext_lazy("Nominal quota"),
    "borrowing_limit": gettext_lazy("Borrowing limit"),
    "lending_limit": gettext_lazy("Lending limit"),
    "cohort": gettext_lazy("Cohort"),
    "parent": gettext_lazy("Parent cohort"),
    "fair_weight": gettext_lazy("Fair weight"),
    "max_priority_threshold": gettext_lazy("Up to priority"),
    "weight": gettext_lazy("Weight"),
    "priority": gettext_lazy("Priority"),
    "state": gettext_lazy("State"),
    "capability": gettext_lazy("Capability"),
    "deserved": gettext_lazy("Deserved"),
    "guarantee": gettext_lazy("Guarantee"),
}
_WITHOUT: Mapping[str, str | Promise] = {
    "borrowing_limit": gettext_lazy("no limit"),
    "lending_limit": gettext_lazy("no limit"),
    "capability": gettext_lazy("no limit"),
    "cohort": gettext_lazy("none"),
    "parent": gettext_lazy("none"),
    "max_priority_threshold": gettext_lazy("no limit"),
}
AMOUNTS = ("nominal", "borrowing_limit", "lending_limit", "capability", "deserved", "guarantee")


@dataclass(frozen=True, slots=True)
class Field:
    """`now`: as it is, in words; `effect`: what asking for something else means, "" for nothing to say."""

    entry: Entry
    label: str
    full: str
    now: str
    effect: str
    absent: str

    @property
    def is_amount(self) -> bool:
        return self.entry.what in AMOUNTS


@dataclass(frozen=True, slots=True)
class Group:
    """`notes`: what is held and what there is, and how the amount is written."""

    title: str
    notes: Sequence[str]
    fields: Sequence[Field]


@dataclass(frozen=True, slots=True)
class Section:
    """`key`: "quota", "other", "place", "policy" or "remove"; `is_open` None: never folded away."""

    key: str
    title: str
    groups: Sequence[Group]
    is_open: bool | None = None


def sections(
    target: Edited, edits: Sequence[Json], given: CheckInput, *, troubled: Collection[str]
) -> list[Section]:
    """`troubled`: names of inputs that have something said beside them, which tells what a policy means, too."""
    found = entries(target, edits)
    texts = {name: text for name, text in _policy_texts(target, found).items() if name not in troubled}
    amounts: dict[tuple[str, str], list[Entry]] = {}
    for entry in found:
        if entry.group in ("quota", "amounts"):
            amounts.setdefault((entry.flavor, entry.resource), []).append(entry)
    groups = {cell: _amount_group(target.place, cell, own, given) for cell, own in amounts.items()}
    devices = [group for (_flavor, resource), group in groups.items() if is_device(resource)]
    others = [group for (_flavor, resource), group in groups.items() if not is_device(resource)]
    parts = [
        Section("quota", _("Quota"), devices),
        Section("other", _("Other resources (CPU, memory, …)"), others, _opens(others, troubled)),
        Section("place", _place_title(target), _plain(found, "place", texts)),
        _policy(target, found, texts, troubled),
        _removals(found, troubled),
    ]
    if not devices and others:
        parts[:2] = [Section("quota", _("Quota"), others)]
    return [part for part in parts if part.groups]


def full_names(sections_: Iterable[Section]) -> dict[str, str]:
    """Input → its name in full: "Nominal quota, h100 GPU"."""
    return {
        field.entry.name: field.full
        for section in sections_
        for group in section.groups
        for field in group.fields
    }


def _policy(
    target: Edited, found: Sequence[Entry], texts: Mapping[str, str], troubled: Collection[str]
) -> Section:
    groups = _plain(found, "policy", texts)
    if target.place.kind == "LocalQueue":
        return Section("place", _("Stop"), groups)
    title = _("Policy: order, stop, preemption, flavors")
    return Section("policy", title, groups, _opens(groups, troubled))


def _removals(found: Sequence[Entry], troubled: Collection[str]) -> Section:
    boxes = [entry for entry in found if entry.group == "flavors"]
    fields = [Field(entry, label_of(entry), label_of(entry), "", "", "") for entry in boxes]
    groups = [Group("", (), fields)] if fields else []
    return Section("remove", _("Take away a flavor or a resource"), groups, _opens(groups, troubled))


def _opens(groups: Iterable[Group], troubled: Collection[str]) -> bool:
    return any(
        field.entry.edited or field.entry.name in troubled for group in groups for field in group.fields
    )


def _place_title(target: Edited) -> str:
    if target.node is None:
        return _("Weight and state")
    return _("Cohort and weight") if target.place.kind == "ClusterQueue" else _("Parent and weight")


# ---- amounts --------------------------------------------------------------------------------------------------------


def _amount_group(place: Place, cell: tuple[str, str], own: Sequence[Entry], given: CheckInput) -> Group:
    flavor, resource = cell
    title = f"{flavor} · {resource_text(resource)}" if flavor else resource_text(resource)
    fields = [
        _field(
            entry, f"{label_of(entry)}, {flavor} {resource}".replace("  ", " "), _difference(entry, resource)
        )
        for entry in own
    ]
    return Group(title, _notes(place, cell, given), fields)


def _notes(place: Place, cell: tuple[str, str], given: CheckInput) -> list[str]:
    flavor, resource = cell
    held = given.held.get((place.kind, place.name), {}).get(cell, Decimal(0))
    notes = []
    if place.kind != "Cohort":
        notes.append(_("held now: %(amount)s") % {"amount": amount_text(resource, held)})
    there = given.allocatable.get(flavor, {}).get(resource)
    if there is not None:
        notes.append(_("nodes have: %(amount)s") % {"amount": amount_text(resource, there)})
    elif flavor:
        notes.append(_("no node of this flavor is known"))
    return [*notes, unit_hint(resource)]


def unit_hint(resource: str) -> str:
    """How an amount of this resource is written."""
    if is_bytes(resource):
        return _("in bytes, such as 64Gi or 1Ti")
    if resource == "cpu":
        return _("in cores, such as 8 or 500m")
    return _("in whole devices") if is_device(resource) else _("a number")


def _difference(entry: Entry, resource: str) -> str:
    """ "4 more", "limited from now on"; "" where there is nothing to compare."""
    if not entry.edited:
        return ""
    before, after = _amount(entry.present), _amount(entry.value)
    if entry.value and after is None:
        return ""
    if after is None:
        return _("would not be set any more") if entry.present else ""
    if before is None:
        return _("would be set")
    text = _("%(amount)s more") if after > before else _("%(amount)s less")
    return text % {"amount": amount_text(resource, abs(after - before))} if after != before else ""


def _amount(text: str) -> Decimal | None:
    try:
        return parse_quantity(text)
    except QuantityError:
        return None


# ---- everything else ------------------------------------------------------------------------------------------------


def label_of(entry: Entry) -> str:
    if entry.box:
        of_flavor, of_resource = _("without flavor %(name)s"), _("without resource %(name)s")
        return (of_flavor if entry.flavor else of_resource) % {"name": entry.flavor or entry.resource}
    return (
        policy_name(entry.what) if entry.what in POLICY_PLACES else str(_LABELS.get(entry.what, entry.what))
    )


def _field(entry: Entry, full: str, effect: str) -> Field:
    absent = str(_WITHOUT.get(entry.what, "–"))
    return Field(entry, label_of(entry), full, entry.present or absent, effect, absent)


def _plain(found: Iterable[Entry], group: str, texts: Mapping[str, str]) -> list[Group]:
    fields = [
        _field(entry, label_of(entry), texts.get(entry.name, "") if entry.edited else "")
        for entry in found
        if entry.group == group
    ]
    return [Group("", (), fields)] if fields else []


def _policy_texts(target: Edited, found: Iterable[Entry]) -> dict[str, str]:
    """What each policy would mean as asked for."""
    values = {entry.what: entry.value for entry in found if entry.group in ("policy", "place")}
    lines: list[Policy] = []
    if target.place.kind == "LocalQueue":
        lines = local_queue_policy({"stop_policy": values.get("stop_policy")})
    elif target.place.kind == "ClusterQueue":
        spec: dict[str, Any] = {
            "fair_weight": values.get("fair_weight"),
            "strategy": values.get("strategy"),
            "stop_policy": values.get("stop_policy"),
            "preemption": {
                **values,
                "borrow_within_cohort": {
                    "policy": values.get("borrow_within_cohort"),
                    "max_priority_threshold": values.get("max_priority_threshold") or None,
                },
            },
            "fungibility": values,
        }
        lines = cluster_queue_policy(spec)
    return {line.code: line.text for line in lines}
