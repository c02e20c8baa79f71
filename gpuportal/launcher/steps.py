"""Progress while the portal starts: `[3/6] migrating … 1.2 s`, one line a step, also when nobody watches."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Steps:
    """Counts the steps of one start. `current` is the stage that a failure is blamed on."""

    def __init__(self, total: int, out: TextIO = sys.stdout) -> None:
        self.total = total
        self.number = 0
        self.current = "starting"
        self.out = out
        self._begun: float | None = None

    def begin(self, title: str) -> None:
        """Start a step; the one before is over."""
        self.end()
        self.number += 1
        self.current = title
        self._begun = time.monotonic()
        self._write(f"[{self.number}/{self.total}] {title} … ")

    def end(self) -> None:
        """The current step is over and went well."""
        if self._begun is not None:
            self._write(f"{time.monotonic() - self._begun:.1f} s\n")
            self._begun = None

    def broke(self) -> None:
        """The current step is over and did not go well."""
        if self._begun is not None:
            self._write("\n")
            self._begun = None

    def say(self, text: str) -> None:
        self.broke()
        self._write(f"{text}\n")

    def _write(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()
