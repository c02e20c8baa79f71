"""What is stored of a step on its way, each mark committed at once. Input: a ChangeStep; output: its row.

Invariants: `sent_at` is there before anything leaves; `done_at` only when it is in effect."""

from __future__ import annotations

from datetime import datetime

from apps.changes.models import ChangeStep

from .outcomes import Done
from .points import Point, point


def note_sent(step: ChangeStep, now: datetime) -> None:
    point(Point.BEFORE_SENT)
    step.sent_at = now
    step.save(update_fields=["sent_at"])
    point(Point.AFTER_SENT)


def note_taken(step: ChangeStep, version: str) -> None:
    """The server has it, but it is not in effect yet."""
    step.written_version = version
    step.save(update_fields=["written_version"])
    point(Point.AFTER_TAKEN)


def note_done(step: ChangeStep, version: str, now: datetime) -> Done:
    """`version`: the object's as it was written; "" where something else may lie on top."""
    point(Point.BEFORE_DONE)
    step.done_at, step.written_version = now, version
    step.save(update_fields=["done_at", "written_version"])
    point(Point.AFTER_DONE)
    return Done()
