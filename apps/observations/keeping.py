"""What a process keeps of clusters between requests: where their sources stood, and one value per cluster.

Input: a cluster, where its sources stand, and how a value is read and carried on; output: the value as of then. A
kept value is never changed, only replaced: readers share it without locks, one thread at a time makes the next. What
the values rest on: docs/adr/0008.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar

from django.db import connection

from apps.fleet.models import Cluster
from apps.observations.models import Source

MOST_CLUSTERS = 64
# Clocks of several workers may differ by this much: changes are looked for that far back.
SKEW = timedelta(seconds=60)
# Requests side by side do not begin at one instant.
BESIDE = timedelta(seconds=5)
# That nothing was missed is checked by numbers, not more often than this.
COUNT_AGAIN = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Marks:
    """Where the sources of a cluster stood when a reading began: the end of their last runs."""

    runs: Mapping[str, datetime | None]
    pods_read: bool = True

    def moved(self, before: Marks, source: Source) -> bool:
        return self.runs.get(source) != before.runs.get(source)

    def behind(self, other: Marks) -> bool:
        """Whether some source stood further in `other`."""
        return any(
            then is not None and ((now := self.runs.get(source)) is None or now < then)
            for source, then in other.runs.items()
        )


class AsOfMarks(Protocol):
    """A kept value: as of which marks, and of which moment."""

    @property
    def marks(self) -> Marks: ...
    @property
    def now(self) -> datetime: ...


Value = TypeVar("Value", bound=AsOfMarks)


def same_row(one: Cluster, other: Cluster) -> bool:
    return all(
        getattr(one, column.attname) == getattr(other, column.attname) for column in Cluster._meta.fields
    )


class Keeper(Generic[Value]):
    """The values of the clusters read last, at most `MOST_CLUSTERS` of them, of each database."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Any, ...], Value] = OrderedDict()
        self._locks: dict[tuple[Any, ...], threading.Lock] = {}
        self._guard = threading.Lock()

    def keep(
        self,
        cluster: Cluster,
        *,
        marks: Marks,
        now: datetime,
        again: Callable[[], Marks],
        is_current: Callable[[Value, Marks], bool],
        full: Callable[[Marks], Value],
        advance: Callable[[Value, Marks], Value],
    ) -> Value:
        """`again` reads the marks anew: another thread may have been faster, with later ones."""
        key = (*_database(), cluster.pk)
        kept = self._kept.get(key)
        if kept is not None and is_current(kept, marks):
            return kept
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            kept = self._kept.get(key)
            if kept is not None and marks.behind(kept.marks):
                marks = again()
            if kept is None:
                kept = full(marks)
            elif now < kept.now - BESIDE:
                return full(marks)
            elif not is_current(kept, marks):
                kept = advance(kept, marks)
            with self._guard:
                self._kept[key] = kept
                self._kept.move_to_end(key)
                while len(self._kept) > MOST_CLUSTERS:
                    self._locks.pop(self._kept.popitem(last=False)[0], None)
        return kept

    def clear(self) -> None:
        with self._guard:
            self._kept.clear()
            self._locks.clear()


def _database() -> tuple[Any, ...]:
    found = connection.settings_dict
    return found.get("HOST"), found.get("PORT"), found.get("NAME")
