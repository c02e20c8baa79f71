"""The check of a request: what it names is read live, laid out as steps, and tried on the cluster without effect.

Input: a request that wants a check; output: its report and steps, written by "note_check". Invariants
- What is tried is what would be written, on the version that was read; refusals are kept word for word.
- A try is never in anybody's name but the portal's.
- A cluster that gives no answer to the reading leaves the check wanted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from apps.changes.checking import Checked, check, keys_to_read
from apps.changes.checks_model import DryRun, Finding, Report, report_json
from apps.changes.edits import ObjectKey
from apps.changes.models import ChangeRequest, ChangeStep
from apps.changes.patching import edited_fields
from apps.changes.planning import COMMANDS_PATH, PlannedStep
from apps.changes.transitions import perform
from worker.clients.errors import CONFLICT, ClientError
from worker.clients.kube import KubeClient
from worker.clients.writes import KubeWriter

from .commands import command_of
from .points import Point, point
from .reading import read_objects

MOST_TRIES = 5


class Moved(Exception):
    """What was read is not there any more: read again."""


def check_request(request: ChangeRequest, client: KubeClient, *, now: datetime) -> None:
    """Raises ClientError, Moved and ChangeRefused (somebody moved the request on meanwhile)."""
    found = _checked(request, client, now)
    point(Point.AFTER_READ)
    steps = [step_of(request, position, one) for position, one in enumerate(found.steps)]
    report = found.report
    if not report.refusals:
        report = replace(report, dry_run=tuple(dry_runs(found.steps, steps, KubeWriter(client))))
        point(Point.AFTER_DRY_RUN)
    stored = report_json(report)
    if request.failure and request.report and "difference" in request.report:
        # Why it is checked again stays readable beside the new check.
        stored["difference"] = request.report["difference"]
    perform(
        "note_check",
        request.pk,
        actor=None,
        seen_version=request.version,
        now=now,
        fields={"report": stored},
        steps=steps,
    )
    point(Point.AFTER_NOTE)


def _checked(request: ChangeRequest, client: KubeClient, now: datetime) -> Checked:
    try:
        seen = read_objects(client, keys_to_read(request))
    except ClientError as error:
        if not error.is_verdict:
            raise
        finding = Finding("unreadable", "edits", {"said": error.said or error.message})
        return Checked(Report((finding,), ()), ())
    return check(request, seen, now=now)


def step_of(request: ChangeRequest, position: int, planned: PlannedStep) -> ChangeStep:
    return ChangeStep(
        request=request,
        position=position,
        kind=planned.kind,
        namespace=planned.namespace,
        name=planned.name,
        method=planned.method,
        path=planned.path,
        object_uid=planned.object_uid,
        resource_version=planned.resource_version,
        body=planned.body,
        before=planned.before,
        after=planned.after,
    )


# ---- dry run --------------------------------------------------------------------------------------------------------


def dry_runs(
    planned: Sequence[PlannedStep], steps: Sequence[ChangeStep], writer: KubeWriter
) -> Iterable[DryRun]:
    """One per object, at its first step. An object that is written twice is tried with both writes in one."""
    objects: dict[tuple[ObjectKey, str], list[int]] = {}
    for position, one in enumerate(planned):
        objects.setdefault((one.key, one.method), []).append(position)
    for (key, method), positions in objects.items():
        own = [planned[position] for position in positions]
        try:
            if method == "command":
                body = command_of(steps[positions[0]], own[0].object_uid)
                writer.create(COMMANDS_PATH, body, dry_run=True)
            else:
                _try_patch(own, writer)
        except ClientError as error:
            related = any(other.kind == key[0] and other.key != key for other in planned[: positions[-1]])
            yield _refusal(positions[0], error, open_question=key[0] == "VolcanoQueue" and related)
        else:
            yield DryRun(positions[0], "accepted", 200, "")


def _try_patch(own: Sequence[PlannedStep], writer: KubeWriter) -> None:
    operations: list[dict[str, Any]] = []
    for step in own:
        operations += step.body if isinstance(step.body, list) else []
    version = own[0].resource_version
    for _attempt in range(MOST_TRIES):
        try:
            writer.patch(own[0].path, operations, resource_version=version, dry_run=True)
        except ClientError as error:
            if error.kind != CONFLICT:
                raise
        else:
            return
        live = writer.read(own[0].path)
        if live.uid != own[0].object_uid or edited_fields(own[0].before, live.spec):
            raise Moved(own[0].path)
        version = live.resource_version
    raise Moved(own[0].path)


def _refusal(position: int, error: ClientError, *, open_question: bool) -> DryRun:
    """Volcano's webhook looks at a queue's relatives as they are now: while an earlier step changes one of them, its no
    is not the last word."""
    refused = error.is_verdict and not open_question
    return DryRun(position, "refused" if refused else "unknown", error.status, error.said or error.message)
