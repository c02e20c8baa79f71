"""What a check is given and what it finds, as plain data that goes into `ChangeRequest.report` and comes back. Pure.

Invariants: `Report` → JSON → `Report` is the identity; params are text, numbers as decimal text, or lists of maps of
text; a refusal keeps a request from being put before anyone, a warning has to be seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as made
from decimal import Decimal
from typing import Any

from apps.changes.edits import Edit, ObjectKey
from apps.changes.specs import ObjectSeen

Param = str | list[dict[str, str]]
Amounts = Mapping[str, Decimal]
Held = Mapping[tuple[str, str], Decimal]


@dataclass(frozen=True, slots=True)
class Finding:
    """`code`: of the rule; `field`: of the edit that breaks it ("edits.0.set.quotas.1.nominal")."""

    code: str
    field: str
    params: Mapping[str, Param] = made(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DryRun:
    """The API server's answer to a step's patch with dryRun=All. `verdict`: "accepted", "refused" or "unknown"
    (`status` 0: no answer); `text`: what it said, verbatim."""

    position: int
    verdict: str
    status: int
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """`what_if`: see `what_if.what_if_json`; None where it was not tried."""

    refusals: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    what_if: Mapping[str, Any] | None = None
    dry_run: tuple[DryRun, ...] = ()

    @property
    def refused(self) -> bool:
        return bool(self.refusals) or any(one.verdict == "refused" for one in self.dry_run)


@dataclass(frozen=True, slots=True)
class CheckInput:
    """`objects`: the edited objects and the rest of their trees, live where edited, else as last observed. `flavors`:
    names that exist, None when unknown. `held`: per (kind, name) what work holds per (flavor, resource), Volcano's
    with flavor "". `held_by_team`: the same per team (0: nobody's). `allocatable`: per flavor and resource, what nodes
    can give; a flavor that is left out is not known."""

    edits: tuple[Edit, ...]
    objects: Mapping[ObjectKey, ObjectSeen]
    flavors: frozenset[str] | None = None
    held: Mapping[tuple[str, str], Held] = made(default_factory=dict)
    held_by_team: Mapping[tuple[str, str], Mapping[int, Held]] = made(default_factory=dict)
    allocatable: Mapping[str, Amounts] = made(default_factory=dict)


def report_json(report: Report) -> dict[str, Any]:
    return {
        "refusals": [_finding_json(one) for one in report.refusals],
        "warnings": [_finding_json(one) for one in report.warnings],
        "what_if": dict(report.what_if) if report.what_if is not None else None,
        "dry_run": [
            {"position": one.position, "verdict": one.verdict, "status": one.status, "text": one.text}
            for one in report.dry_run
        ],
    }


def _finding_json(one: Finding) -> dict[str, Any]:
    return {"code": one.code, "field": one.field, "params": dict(one.params)}


def report_from_json(data: Mapping[str, Any]) -> Report:
    return Report(
        refusals=tuple(_finding(one) for one in data.get("refusals") or ()),
        warnings=tuple(_finding(one) for one in data.get("warnings") or ()),
        what_if=data.get("what_if"),
        dry_run=tuple(
            DryRun(int(one["position"]), str(one["verdict"]), int(one["status"]), str(one["text"]))
            for one in data.get("dry_run") or ()
        ),
    )


def _finding(data: Mapping[str, Any]) -> Finding:
    return Finding(str(data["code"]), str(data["field"]), dict(data.get("params") or {}))
