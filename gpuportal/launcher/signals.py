"""SIGINT, SIGTERM and SIGHUP as an exception that arrives for certain.

Input: signals; output: `Interrupted` in the main thread, once. Invariants: a first signal leads to stopping, whatever
runs when it comes; after `stopping` nothing is raised any more.

An exception that comes up in a finaliser or a callback of the garbage collector is dropped by Python, and a library may
swallow it. Who drops an exception lets go of the object: when that is gone before `stopping`, the next one is raised a
moment later.
"""

from __future__ import annotations

import signal
import weakref
from types import FrameType

from .errors import Interrupted

AGAIN_SECONDS = 0.05
STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """From its making on, the first of these signals is raised as Interrupted; later ones do not disturb the stopping."""

    def __init__(self) -> None:
        self._seen = self._stopping = False
        self._raised: weakref.ref[Interrupted] | None = None
        signal.signal(signal.SIGALRM, self._again)
        for number in STOP:
            signal.signal(number, self._arrived)

    def stopping(self) -> None:
        """From here on nothing interrupts; to be called before anything is stopped."""
        self._seen = self._stopping = True
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _arrived(self, _number: int, _frame: FrameType | None) -> None:
        if not self._seen:
            self._seen = True
            self._raise()

    def _again(self, _number: int, _frame: FrameType | None) -> None:
        if not self._stopping:
            self._raise()

    def _raise(self) -> None:
        error = Interrupted()
        self._raised = weakref.ref(error, self._dropped)
        try:
            raise error
        finally:
            del error  # otherwise this frame would keep it alive

    def _dropped(self, _gone: weakref.ref[Interrupted]) -> None:
        if not self._stopping:
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
