"""The points between which a change is carried out, so that tests can end a worker at each of them.

Input: the name of a point that was reached; output: nothing. Invariants: outside of tests there is no hook, and reaching
a point costs one comparison; every effect outside of the process (a row, a write to a cluster) lies between two points.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path


class Point(StrEnum):
    """In the order in which a change passes them. "taken": of a Command, that the server has it."""

    BEFORE_LOCK = "before-lock"
    AFTER_LOCK = "after-lock"
    AFTER_READ = "after-read"
    AFTER_DRY_RUN = "after-dry-run"
    AFTER_NOTE = "after-note"
    BEFORE_BEGIN = "before-begin"
    AFTER_BEGIN = "after-begin"
    BEFORE_SENT = "before-sent"
    AFTER_SENT = "after-sent"
    AFTER_WRITE = "after-write"
    AFTER_TAKEN = "after-taken"
    BEFORE_DONE = "before-done"
    AFTER_DONE = "after-done"
    AFTER_FINISH = "after-finish"


_hook: Callable[[Point], None] | None = None


def point(reached: Point) -> None:
    if _hook is not None:
        _hook(reached)


def end_where(order: Path) -> None:
    """From now on end this process, as a power cut would, at the point that the file `order` names: "after-sent", or
    "after-sent 2" for the second time that it is passed since the file said so."""
    passed: list[Point] = []
    known = ""

    def hook(reached: Point) -> None:
        nonlocal known
        text = order.read_text().strip() if order.exists() else ""
        if text != known:
            known = text
            passed.clear()
        passed.append(reached)
        name, _space, count = text.partition(" ")
        if name == reached and passed.count(reached) == int(count or 1):
            os.kill(os.getpid(), signal.SIGKILL)

    global _hook
    _hook = hook
