"""What a request's check reads, and what it finds: the edits as asked for, planned on live objects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from apps.changes.check_loading import load_check
from apps.changes.checks import run
from apps.changes.checks_model import Report
from apps.changes.edits import ObjectKey, key_of, parse_edits
from apps.changes.models import ChangeRequest
from apps.changes.planning import PlannedStep, plan
from apps.changes.specs import ObjectSeen


@dataclass(frozen=True, slots=True)
class Checked:
    report: Report
    steps: tuple[PlannedStep, ...]


def keys_to_read(request: ChangeRequest) -> tuple[ObjectKey, ...]:
    return tuple(dict.fromkeys(key_of(edit) for edit in parse_edits(request.edits)))


def check(request: ChangeRequest, seen: Iterable[ObjectSeen], *, now: datetime) -> Checked:
    edits = parse_edits(request.edits)
    given = load_check(now=now, cluster=request.cluster, edits=edits, seen=seen)
    report = run(given)
    if report.refusals:
        return Checked(report, ())
    return Checked(report, plan(given.objects.values(), edits))
