"""The work that waits for one ClusterQueue. Input: work as it comes; output: the head. Order: the sticky one (it waits
for its victims to go), then more urgent, then queued earlier, then by uid.

A StrictFIFO queue tries its head again and again. A BestEffortFIFO queue sets a head that cannot start aside, where it
stays until `retry_all`: something in its tree changed that may help.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from apps.quotas.engine.books import Tried
from apps.quotas.engine.model import Pending, Work

Rank = tuple[int, float, str]


@dataclass(slots=True)
class Waiter:
    """`tried`: where the search for flavors goes on, as of `generation` of the queue; `verdict`: of the last attempt."""

    work: Work
    tried: Tried | None = None
    generation: int = 0
    verdict: Pending | None = None

    @property
    def rank(self) -> Rank:
        return -self.work.priority, self.work.queued, self.work.uid


@dataclass(slots=True)
class Line:
    """One queue's waiting work."""

    strict: bool
    active: dict[str, Waiter] = field(default_factory=dict)
    aside: dict[str, Waiter] = field(default_factory=dict)
    sticky: str = ""
    _heap: list[tuple[Rank, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.active) + len(self.aside)

    def __iter__(self) -> Iterator[Waiter]:
        yield from self.active.values()
        yield from self.aside.values()

    def put(self, waiter: Waiter) -> None:
        """Into the line, also when it was aside."""
        uid = waiter.work.uid
        self.aside.pop(uid, None)
        self.active[uid] = waiter
        heapq.heappush(self._heap, (waiter.rank, uid))

    def set_aside(self, waiter: Waiter) -> None:
        uid = waiter.work.uid
        self.active.pop(uid, None)
        self.aside[uid] = waiter

    def take(self, uid: str) -> Waiter | None:
        """Out of the line for good."""
        if self.sticky == uid:
            self.sticky = ""
        return self.active.pop(uid, None) or self.aside.pop(uid, None)

    def head(self) -> Waiter | None:
        """Without taking it."""
        if self.sticky in self.active:
            return self.active[self.sticky]
        while self._heap:
            rank, uid = self._heap[0]
            found = self.active.get(uid)
            if found is not None and found.rank == rank:
                return found
            heapq.heappop(self._heap)
        return None

    def retry_all(self) -> bool:
        """Whether anything came back."""
        moved = list(self.aside.values())
        for waiter in moved:
            self.put(waiter)
        return bool(moved)
