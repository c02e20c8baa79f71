"""How long a search may go on. Input: a question that is asked again and again; output: `OutOfTime` once it is answered
with yes. Whoever raises it leaves the tree as it was: it is spent before something is moved, never in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

STEPS = 64
"""Between two questions: one step costs some microseconds, the question may read a clock."""


class OutOfTime(Exception):
    """The search was ended from outside."""


@dataclass(slots=True)
class Budget:
    enough: Callable[[], bool] = lambda: False
    left: int = STEPS

    def spend(self) -> None:
        """One step of a search."""
        self.left -= 1
        if self.left <= 0:
            self.left = STEPS
            if self.enough():
                raise OutOfTime
