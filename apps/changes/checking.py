"""The check of a change request on live objects. Input: the request, the objects that it is about as the API server has
just served them, the clock; output: the report and the steps that would be written.

What somebody asks for is checked as its edits say; what takes another request back (an undo, the end of a time-bound
change) as the steps say which were done of that one. Invariants: what cannot be planned has refusals and no steps; what
breaks a rule has both, so that the API server can be asked about the same patch; the dry run is not ours to make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from apps.changes import checks
from apps.changes.check_loading import load_check
from apps.changes.checks_model import Report
from apps.changes.edit_between import edit_of
from apps.changes.edits import ChangeError, Edit, ObjectKey, key_of, parse_edits
from apps.changes.guards import original
from apps.changes.models import ChangeRequest, ChangeStep
from apps.changes.planning import Goal, PlannedStep, goals_of, plan
from apps.changes.specs import ObjectSeen
from apps.changes.undoing import DoneStep, WayBack, way_back
from apps.changes.what_if import what_if_of


@dataclass(frozen=True, slots=True)
class Checked:
    report: Report
    steps: tuple[PlannedStep, ...] = ()


def keys_to_read(request: ChangeRequest) -> tuple[ObjectKey, ...]:
    """The objects that it is about, each once; none where its edits cannot be read."""
    if request.origin != ChangeRequest.Origin.ASKED:
        return tuple(dict.fromkeys(step.key for step in done_steps(request)))
    try:
        return tuple(dict.fromkeys(key_of(edit) for edit in parse_edits(request.edits)))
    except ChangeError:
        return ()


def check(request: ChangeRequest, seen: Iterable[ObjectSeen], *, now: datetime) -> Checked:
    """`seen`: those of `keys_to_read` that exist."""
    live = {one.key: one for one in seen}
    try:
        edits = parse_edits(request.edits)
        if request.origin == ChangeRequest.Origin.ASKED:
            goals = goals_of(live, edits)
            return _checked(request, edits, edits, live, goals, now)
    except ChangeError as error:
        return Checked(checks.faults_report(error))
    back = _way_back(request, live, edits)
    if back.refusals:
        return Checked(Report(back.refusals, ()))
    named = [edit for edit in edits if key_of(edit) in back.goals]
    reverse = [found for goal in back.goals.values() if (found := edit_of(goal))]
    return _checked(request, named, reverse, live, back.goals, now)


def done_steps(request: ChangeRequest) -> list[DoneStep]:
    """What was done of the request that `request` takes back, in its order."""
    rows = original(request).steps.exclude(done_at=None).order_by("position")
    return [_done(step) for step in rows]


def _done(step: ChangeStep) -> DoneStep:
    command = str(step.body["action"]) if step.method == "command" else ""
    return DoneStep((step.kind, step.namespace, step.name), step.before, step.after, command)


def _way_back(request: ChangeRequest, live: Mapping[ObjectKey, ObjectSeen], edits: Sequence[Edit]) -> WayBack:
    return way_back(live, done_steps(request), edits)


def _checked(
    request: ChangeRequest,
    named: Sequence[Edit],
    tried: Sequence[Edit],
    live: Mapping[ObjectKey, ObjectSeen],
    goals: Mapping[ObjectKey, Goal],
    now: datetime,
) -> Checked:
    """`named`: the edits that findings name; `tried`: those that lead to the goals."""
    given = load_check(now=now, cluster=request.cluster, edits=named, seen=live.values())
    report = checks.run(given, goals)
    if not report.refusals:
        report = replace(report, what_if=what_if_of(now=now, cluster=request.cluster, edits=tried))
    return Checked(report, plan(given.objects, goals))
