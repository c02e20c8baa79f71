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
    """In the order in which a change passes them."""

    BEFORE_LOCK = "before-lock"
    AFTER_LOCK = "after-lock"
    BEFORE_CHECK = "before-check"
    AFTER_READ = "after-read"
    BEFORE_DRY_RUN = "before-dry-run"
    AFTER_DRY_RUN = "after-dry-run"
    BEFORE_NOTE = "before-note"
    AFTER_NOTE = "after-note"
    BEFORE_BEGIN = "before-begin"
    AFTER_BEGIN = "after-begin"
    BEFORE_SENT = "before-sent"
    AFTER_SENT = "after-sent"
    BEFORE_WRITE = "before-write"
    AFTER_WRITE = "after-write"
    BEFORE_DONE = "before-done"
    AFTER_DONE = "after-done"
    BEFORE_FINISH = "before-finish"
    AFTER_FINISH = "after-finish"


_hook: Callable[[Point], None] | None = None


def point(reached: Point) -> None:
    if _hook is not None:
        _hook(reached)


def end_where(order: Path) -> None:
    """From now on end this process, as a power cut would, at the point that the file `order` names: "after-sent", or
    "after-sent 2" for the second time that it is passed. A file that is not there names none."""
    passed: dict[Point, int] = {}

    def hook(reached: Point) -> None:
        passed[reached] = passed.get(reached, 0) + 1
        try:
            name, _space, count = order.read_text().strip().partition(" ")
        except FileNotFoundError:
            return
        if name == reached and passed[reached] >= int(count or 1):
            os.kill(os.getpid(), signal.SIGKILL)

    global _hook
    _hook = hook
