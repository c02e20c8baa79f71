"""One step of an approved change: a write to one object, exactly once.

Input: a ChangeStep and who writes; output: an `Outcome`; the step's `sent_at`, `done_at`, `written_version` and `answer`
are committed on the way. Invariants
- `sent_at` is stored before anything leaves: a step without it was never written.
- What is written lands on the spec that was approved or not at all: it is compared just before, and the write names the
  version that was compared. Versions that only the status moved are no difference.
- A step that was sent and has no `done_at` is decided by what is in the cluster: its edited fields are as wanted, or the
  spec is as before (it is written again), or somebody changed it.
"""

from __future__ import annotations

from datetime import datetime

from apps.changes.models import ChangeStep
from apps.changes.patching import changed_since, edited_fields
from worker.clients.errors import CONFLICT, NOT_FOUND, ClientError
from worker.clients.writes import KubeWriter, Served

from . import commands
from .marks import note_done, note_sent
from .outcomes import Changed, Outcome, Refused, Waits
from .points import Point, point

MOST_TRIES = 5
"""A status that is written all the time moves the version between reading and writing."""


def carry_out(step: ChangeStep, writer: KubeWriter, *, now: datetime) -> Outcome:
    """Do it, or find it done. `writer` writes for whoever approved."""
    if step.method == "command":
        return commands.carry_out(step, writer, now=now)
    for _attempt in range(MOST_TRIES):
        found = _once(step, writer, now)
        if found is not None:
            return found
    return Waits(f"{step.path} was changed between reading and writing, {MOST_TRIES} times")


def _once(step: ChangeStep, writer: KubeWriter, now: datetime) -> Outcome | None:
    """None: the version moved on meanwhile."""
    try:
        live = writer.read(step.path)
    except ClientError as error:
        return Changed(gone=True) if error.kind == NOT_FOUND else Waits(error.message)
    if _was_written(step, live):
        # Another change may lie on top of it, which a later step must not take for its own basis.
        untouched = not edited_fields(step.after, live.spec)
        return note_done(step, live.resource_version if untouched else "", now)
    difference = difference_of(step, live)
    if difference is not None:
        return difference
    note_sent(step, now)
    return _write(step, writer, live.resource_version, now)


def _write(step: ChangeStep, writer: KubeWriter, version: str, now: datetime) -> Outcome | None:
    try:
        written = writer.patch(step.path, step.body, resource_version=version)
    except ClientError as error:
        if error.kind == CONFLICT:
            return None
        if error.kind == NOT_FOUND:
            return Changed(gone=True)
        return Refused(error.said or error.message) if error.is_verdict else Waits(error.message)
    point(Point.AFTER_WRITE)
    return note_done(step, written.resource_version, now)


def difference_of(step: ChangeStep, live: Served) -> Changed | None:
    """What differs from what was approved; None: nothing that counts."""
    if not _is_same_object(step, live):
        return Changed(gone=True)
    known = {step.resource_version, *_written_before(step)}
    if live.resource_version in known:
        return None
    fields = edited_fields(step.before, live.spec)
    return Changed(fields) if fields else None


def _was_written(step: ChangeStep, live: Served) -> bool:
    sent = step.sent_at is not None and _is_same_object(step, live)
    return sent and not changed_since(step.before, step.after, live.spec)


def _is_same_object(step: ChangeStep, live: Served) -> bool:
    return not step.object_uid or live.uid == step.object_uid


def _written_before(step: ChangeStep) -> list[str]:
    """The version after the last write of this plan to the same object."""
    same = ChangeStep.objects.filter(
        request=step.request_id, kind=step.kind, namespace=step.namespace, name=step.name, method="patch"
    )
    last = same.filter(position__lt=step.position).order_by("-position").first()
    return [last.written_version] if last is not None and last.written_version else []
