"""Whether a request may be put before anyone. Input: `CheckInput` (live specs, what is held, what there is); output: a
`Report` with refusals (rules of the API server's webhooks that the edits break) and warnings (what no webhook looks
at). Pure.

Each finding names the field of the edit that brings it about; where no single field does, the edit. Rules are looked
at on the whole: after all edits, since `planning` orders them so that every step on the way keeps the rules too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from apps.changes.cautions import warnings_of
from apps.changes.checks_model import CheckInput, DryRun, Finding, Report, report_from_json, report_json
from apps.changes.edits import (
    ChangeError,
    Edit,
    ObjectKey,
    VolcanoEdit,
    key_of,
)
from apps.changes.places import field_of
from apps.changes.planning import Goal, goals_of, plan
from apps.changes.rules import Broken, broken
from apps.changes.rules_volcano import broken_volcano
from apps.changes.specs import Spec
from apps.quotas.volcano_shares import ROOT

__all__ = ["CheckInput", "DryRun", "Finding", "Report", "report_from_json", "report_json", "run"]


def run(given: CheckInput, goals: Mapping[ObjectKey, Goal] | None = None) -> Report:
    """`goals`: what the objects that `given.edits` name are to be; None: what the edits make of them."""
    if goals is None:
        try:
            goals = goals_of(given.objects, given.edits)
        except ChangeError as error:
            return faults_report(error)
    specs = {key: seen.spec for key, seen in given.objects.items()}
    after: dict[ObjectKey, Spec] = {**specs, **{key: goal.after for key, goal in goals.items()}}
    refusals: list[Finding] = []
    for key in goals:
        own = [edit for edit in given.edits if key_of(edit) == key]
        rules = _rules(key, specs[key], after, given.objects[key].api_version)
        refusals += _findings(own, rules)
        refusals += _states(own, goals[key])
    if not any(goal.changes for goal in goals.values()):
        refusals.append(Finding("nothing", "edits", {}))
    commands = {key: goal.command for key, goal in goals.items()}
    warnings = [*warnings_of(given, after, commands), *_written_twice(given, goals)]
    return Report(tuple(_once(refusals)), tuple(_once(warnings)))


def faults_report(error: ChangeError) -> Report:
    """Of what cannot even be planned."""
    return Report(tuple(Finding(fault.code, fault.field, {"part": fault.part}) for fault in error.faults), ())


def _written_twice(given: CheckInput, goals: Mapping[ObjectKey, Goal]) -> Iterator[Finding]:
    """Objects of which one amount has to shrink before others may grow, and another only afterwards: between the two
    writes both are at the lesser value."""
    writes = Counter(step.key for step in plan(given.objects, goals) if step.method == "patch")
    for key, count in writes.items():
        if count > 1:
            own = [edit for edit in given.edits if key_of(edit) == key]
            yield Finding("two_writes", f"{own[-1].field}.set", {"name": key[2]})


def _rules(key: ObjectKey, before: Spec, after: Mapping[ObjectKey, Spec], api_version: str) -> list[Broken]:
    if key[0] == "VolcanoQueue":
        queues = {name: spec for (kind, _namespace, name), spec in after.items() if kind == "VolcanoQueue"}
        return broken_volcano(key[2], before, queues)
    return broken(key[0], before, after[key], api_version)


def _findings(edits: list[Edit], rules: Iterable[Broken]) -> list[Finding]:
    return [Finding(rule.code, field_of(edits, rule.place), dict(rule.params)) for rule in rules]


def _states(own: list[Edit], goal: Goal) -> list[Finding]:
    """Closing the root, whether that changes anything or not."""
    asked = [edit for edit in own if isinstance(edit, VolcanoEdit) and edit.state == "Closed"]
    if goal.seen.key != ("VolcanoQueue", "", ROOT) or not (asked or goal.command == "CloseQueue"):
        return []
    return [Finding("root_closed", field_of(own, ("value", "state")), {})]


def _once(findings: Iterable[Finding]) -> list[Finding]:
    seen: dict[Any, Finding] = {}
    for one in findings:
        seen.setdefault((one.code, one.field, repr(sorted(one.params.items()))), one)
    return list(seen.values())
