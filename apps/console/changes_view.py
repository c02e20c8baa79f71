"""What the page of a change request shows. Input: a request, its steps, who reads; output: the parts of the page and its
tables, in a constant number of queries.

Invariants: what a check found goes through `masking`, so that a reader of some teams reads of others in sums; what was
not measured is not 0."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.accounts.models import User
from apps.accounts.selectors import visible_teams
from apps.changes.checks_model import report_from_json
from apps.changes.filters import team_ids_of_requests
from apps.changes.models import ChangeEffect, ChangeRequest, ChangeStep, State
from apps.changes.selectors import timeline
from apps.changes.transitions import TABLE
from apps.changes.words import field_name, field_value, step_words
from apps.console.change_form_effect import Placing, effect_of
from apps.console.change_form_links import replace_url
from apps.console.change_tables import (
    MeasureRow,
    MeasureTable,
    PlanRow,
    PlanTable,
    TimelineTable,
    request_url,
)
from apps.console.change_words import action_text, actor_text, standing, state_text, team_text, title, tone
from apps.console.changes_actions import may_edit
from apps.console.changes_objects import lines_of, object_changes
from apps.console.edit_words import edited_name
from apps.core.formats import resource_text
from apps.core.tables import PortalTable
from apps.fleet.registry import is_device
from apps.quotas.sentences import amount_text
from apps.quotas.what_if_places import PlacedFault

Links = list[tuple[str, ChangeRequest, str, str]]
_MOVES = {"create", *TABLE}


@dataclass(frozen=True, slots=True)
class DriftLine:
    """A field that somebody else has changed since it was written. `field` "": the object is gone."""

    name: str
    field: str
    was: str
    now: str
    since: datetime


def shown(request: ChangeRequest, steps: Sequence[ChangeStep], who: User, *, now: datetime) -> dict[str, Any]:
    """The context of the page, but for its tables and actions."""
    return {
        "title": title(request),
        "standing": standing(request, steps, now=now),
        "tone": tone(request.state),
        "state": state_text(request),
        "for_whom": team_text(request),
        "objects": object_changes(steps, request.cluster.slug),
        "asked": lines_of(request, ()) if not steps else [],
        "editable": may_edit(request, who, now=now),
        "replace_url": replace_url(who, request),
        "half_way": request.state in (State.APPLYING, State.FAILED) and any(step.done_at for step in steps),
        "drift": drift_lines(steps),
        "related": _related(request),
        **_check(request, who),
    }


def drift_lines(steps: Iterable[ChangeStep]) -> list[DriftLine]:
    """What is not as it was written any more, a line per field, each once."""
    found: dict[tuple[str, str], DriftLine] = {}
    for step in steps:
        if step.drift_since is None:
            continue
        name = "/".join(part for part in (step.namespace, step.name) if part)
        for one in step.drift or ():
            path = str(one["path"])
            was, now = (field_value(path, one.get(part)) for part in ("was", "now"))
            field = field_name(path) if path else ""
            found[name, path] = DriftLine(name, field, was, now, step.drift_since)
    return list(found.values())


# ---- the check ------------------------------------------------------------------------------------------------------


def _check(request: ChangeRequest, who: User) -> dict[str, Any]:
    if request.report is None:
        return {}
    names = {team.pk: team.name for team in visible_teams(who)}

    def team_name(team_id: int | None) -> str:
        return _("Work of nobody") if team_id is None else names.get(team_id, "")

    edits = request.edits
    refusals, effect = effect_of(
        report_from_json(request.report),
        Placing(edits, None, {}),
        team_ids=team_ids_of_requests(who),
        team_name=team_name,
    )
    return {
        "refusals": [_said(one, edits) for one in refusals],
        "warnings": [_said(one, edits) for one in effect.warnings],
        "effect": effect,
    }


def _said(fault: PlacedFault, edits: Sequence[Any]) -> str:
    """With the object's name, unless there is no other or the sentence begins with it."""
    named = len(edits) == 1 or any(fault.text.startswith(edited_name(edit)) for edit in edits)
    return fault.text if named else fault.said


# ---- deeds ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Deed:
    """What somebody did to the request, in words."""

    at: datetime
    who: str
    what: str
    reason: str


def deeds_since(request: ChangeRequest, version: int) -> list[Deed]:
    """What moved it on from `version`: each version has its deed in the trail, the first one its making."""
    moves = [
        entry
        for entry in timeline(request)
        if entry.outcome == "done" and entry.action.partition(".")[2] in _MOVES
    ]
    return [
        Deed(entry.at, actor_text(entry.actor_name), action_text(entry.action), entry.reason)
        for entry in moves[version:]
    ]


# ---- other requests -------------------------------------------------------------------------------------------------


def _related(request: ChangeRequest) -> Links:
    """(how it is related, the other request, its address, its state): all are of the same team, so that whoever reads one may
    read the others."""
    found: list[tuple[str, ChangeRequest]] = []
    if request.reverts is not None:
        found.append((_("Takes back"), request.reverts))
    if request.replaces is not None:
        found.append((_("Replaces"), request.replaces))
    found += [(_("Replaced by"), other) for other in request.replaced_by.order_by("pk")]
    for other in request.reverted_by.order_by("pk"):
        how = _("Taken back at its end by") if other.origin == ChangeRequest.Origin.END else _("Undone by")
        found.append((how, other))
    return [(how, other, request_url(other), state_text(other)) for how, other in found]


# ---- tables ---------------------------------------------------------------------------------------------------------


def tables_of(request: ChangeRequest, steps: Sequence[ChangeStep]) -> dict[str, PortalTable]:
    trials = {} if request.report is None else report_from_json(request.report).dry_run
    by_position = {one.position: one for one in trials}
    plan = [PlanRow(step, step_words(step), by_position.get(step.position)) for step in steps]
    return {
        "plan": PlanTable(plan, prefix="p-"),
        "measured": MeasureTable(measure_rows(request.effects.order_by("queue", "resource")), prefix="m-"),
        "timeline": TimelineTable(timeline(request), prefix="t-"),
    }


def for_page(tables: Mapping[str, PortalTable]) -> dict[str, PortalTable]:
    """What the page shows: accelerators first, without numbers that stay 0; the downloads hold everything."""
    told = [row for row in tables["measured"].data if row.tells]
    return {
        **tables,
        "measured": MeasureTable([row for row in told if row.is_device], prefix="m-"),
        "other_measured": MeasureTable([row for row in told if not row.is_device], prefix="o-"),
    }


_MEASURES = {
    "nominal": gettext_lazy("nominal"),
    "held": gettext_lazy("held"),
    "borrowed": gettext_lazy("of that borrowed"),
    "admitted_workloads": gettext_lazy("admitted workloads"),
    "waiting_workloads": gettext_lazy("waiting workloads"),
    "waiting_units": gettext_lazy("wanted by waiting work"),
}


def measure_rows(effects: Iterable[ChangeEffect]) -> list[MeasureRow]:
    """A row per queue, resource and number that was known at any of the moments."""
    found: dict[tuple[str, str], dict[str, ChangeEffect]] = {}
    for effect in effects:
        found.setdefault((effect.queue, effect.resource), {})[effect.moment] = effect
    return [
        _measure(queue, resource, name, moments)
        for (queue, resource), moments in found.items()
        for name in _MEASURES
        if any(getattr(one, name) is not None for one in moments.values())
    ]


def _measure(queue: str, resource: str, name: str, moments: Mapping[str, ChangeEffect]) -> MeasureRow:
    numbers = {moment: getattr(one, name) for moment, one in moments.items()}
    return MeasureRow(
        queue,
        _resource(resource),
        str(_MEASURES[name]),
        {moment: _number(name, resource, number) for moment, number in numbers.items()},
        is_device=is_device(resource.split(" ")[-1]),
        tells=name in ("nominal", "held") or any(numbers.values()),
    )


def _resource(text: str) -> str:
    """ "h100 nvidia.com/gpu" with the resource's short name."""
    *flavor, name = text.split(" ")
    return " ".join([*flavor, resource_text(name)])


def _number(name: str, resource: str, value: Decimal | int | None) -> str:
    if value is None:
        return _("not known")
    if name.endswith("_workloads"):
        return str(value)
    return amount_text(resource.split(" ")[-1], Decimal(value))
