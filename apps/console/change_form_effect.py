"""What a preview found, in words and at its inputs. Input: a preview, the edits, who reads; output: faults and warnings
placed on the form, and what would happen per team.

Invariants: readers of some teams are told of others in sums (`masking`); what no input is to blame for leads to the
edit in the list; unknown stays unknown, no 0."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from django.utils.translation import gettext as _

from apps.changes.checks_model import Finding, Report, report_from_json, report_json
from apps.changes.errors import Fault
from apps.changes.form import Edited, input_of
from apps.changes.masking import masked_report
from apps.changes.refusal_words import request_fault_text
from apps.changes.words import TeamName, finding_text
from apps.console.edit_words import edited_name
from apps.core.formats import listed_apart
from apps.fleet.registry import is_device
from apps.quotas.sentences import amount_text
from apps.quotas.what_if import TooMuch
from apps.quotas.what_if_change import ChangeFault
from apps.quotas.what_if_form import Json
from apps.quotas.what_if_places import PlacedFault, input_id, listed_id
from apps.quotas.what_if_words import fault_text, gap_text, too_much_text

OF_REQUEST = ("reason", "team", "starts_at", "ends_at")


@dataclass(frozen=True, slots=True)
class TeamLine:
    """`loses`: work that would no longer hold or get what it has; `holds`: "h100 GPU 8 → 4", devices only."""

    team: str
    admitted: int
    loses: int
    waits: int
    moves: int
    holds: str


@dataclass(frozen=True, slots=True)
class VolcanoLine:
    queue: str
    resource: str
    held: str
    deserved: str
    most: str


@dataclass(frozen=True, slots=True)
class Effect:
    """`tried` False: nobody could say what work would do; `notes` say why."""

    warnings: Sequence[PlacedFault] = ()
    teams: Sequence[TeamLine] = ()
    volcano: Sequence[VolcanoLine] = ()
    notes: Sequence[str] = field(default=())
    gaps: Sequence[str] = field(default=())
    tried: bool = True


@dataclass(frozen=True, slots=True)
class Placing:
    """Where things of a request stand on its form. `names`: input → its name in full."""

    edits: Sequence[Json]
    target: Edited | None
    names: Mapping[str, str]

    def at(self, path: str, text: str) -> PlacedFault:
        name, number = input_of(path, self.edits, self.target)
        if number is None:
            return PlacedFault("", "", text, text)
        where = edited_name(self.edits[number])
        if not name or name not in self.names:
            return PlacedFault("", listed_id(number), text, f"{where}: {text}")
        return PlacedFault(name, input_id(name), text, f"{where}, {self.names[name]}: {text}")

    def whole(self, path: str, text: str) -> PlacedFault:
        """Of an object as a whole, whatever input is nearest."""
        number = int(path.split(".")[1])
        return PlacedFault("", listed_id(number), text, f"{edited_name(self.edits[number])}: {text}")

    def finding(self, finding: Finding, *, team_name: TeamName) -> PlacedFault:
        text = finding_text(finding, team_name=team_name)
        if finding.field.endswith(".set"):
            return self.whole(finding.field, text)
        return self.at(finding.field, text)

    def fault(self, fault: Fault) -> PlacedFault:
        """A fault of the request: of its own fields, or of its edits."""
        text = _text(fault)
        if fault.field in OF_REQUEST:
            return PlacedFault(
                fault.field, input_id(fault.field), text, f"{field_label(fault.field)}: {text}"
            )
        if fault.field in self.names:
            return PlacedFault(fault.field, input_id(fault.field), text, f"{self.names[fault.field]}: {text}")
        return self.at(fault.field, text)


def field_label(name: str) -> str:
    return {
        "reason": _("Reason"),
        "team": _("For team"),
        "starts_at": _("Start"),
        "ends_at": _("End"),
    }[name]


def _text(fault: Fault) -> str:
    if fault.code == "foreign":
        text = _("%(name)s does not belong to this team: choose another team, or the platform.")
        return text % {"name": fault.part}
    return request_fault_text(fault)


def effect_of(
    report: Report, placing: Placing, *, team_ids: Collection[int] | None, team_name: TeamName
) -> tuple[list[PlacedFault], Effect]:
    """(what is refused, what would happen)."""
    names = {edited_name(edit) for edit in placing.edits}
    masked = masked_report(report_json(report), team_ids, names=names)
    read = report_from_json(masked)
    faults = [placing.finding(one, team_name=team_name) for one in read.refusals]
    warnings = [placing.finding(one, team_name=team_name) for one in read.warnings]
    found: Mapping[str, Any] | None = masked["what_if"]
    if found is None:
        return faults, Effect(warnings, tried=False)
    if "too_much" in found:
        return faults, Effect(warnings, notes=[too_much_text(TooMuch(found["too_much"]))], tried=False)
    if "refused" in found:
        texts = [fault_text(ChangeFault(one["field"], one["code"], one["part"])) for one in found["refused"]]
        note = _("What work would do cannot be tried: %(why)s") % {"why": listed_apart(texts)}
        return faults, Effect(warnings, notes=[note], tried=False)
    return faults, Effect(
        warnings,
        [_team_line(line, team_name) for line in found["teams"]] + _others(found.get("others")),
        [_volcano_line(line) for line in found["volcano"]],
        _notes(found, placing.edits),
        [gap_text(code) for code in found["gaps"]],
        tried=any(edit.get("kind") != "VolcanoQueue" for edit in placing.edits),
    )


def _notes(found: Mapping[str, Any], edits: Sequence[Json]) -> list[str]:
    notes = [] if found["whole"] else [_("It did not come to rest: what is shown is how far it got.")]
    if any(edit.get("kind") == "VolcanoQueue" for edit in edits):
        notes.append(
            _(
                "Which work Volcano would start or stop cannot be told: only what queues deserve and could get."
            )
        )
    return notes


def _others(line: Mapping[str, Any] | None) -> list[TeamLine]:
    return [] if line is None else [_line(_("All other teams"), line)]


def _team_line(line: Mapping[str, Any], team_name: TeamName) -> TeamLine:
    return _line(team_name(line["team"]), line)


def _line(name: str, line: Mapping[str, Any]) -> TeamLine:
    holds = [
        f"{one['flavor']} {_amount(one, 'before')} → {_amount(one, 'after')}"
        for one in line["holds"]
        if is_device(one["resource"]) and one["before"] != one["after"]
    ]
    return TeamLine(
        name, line["admitted"], line["loses"], line["waits"], line["moves"], listed_apart(holds) or "–"
    )


def _amount(line: Mapping[str, Any], part: str) -> str:
    return amount_text(line["resource"], Decimal(line[part]))


def _volcano_line(line: Mapping[str, Any]) -> VolcanoLine:
    def change(part: str, absent: str) -> str:
        before, after = (
            absent if line[f"{part}_{when}"] is None else _amount(line, f"{part}_{when}")
            for when in ("before", "after")
        )
        return before if before == after else f"{before} → {after}"

    return VolcanoLine(
        line["queue"],
        line["resource"],
        _amount(line, "held"),
        change("deserved", "–"),
        change("most", _("no limit")),
    )
