"""A fleet's report and node rows, kept while what they rest on stays. Input: a fleet; output: rows.

Only fleets that are kept in memory (`Fleet.version`) are compared with what was made before: a report is made again
when a node, what queues promise, or the language differs, and then only the pools that differ. Invariant: a report
from memory equals one that is made anew.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from django.utils.translation import get_language

from apps.capacity.facts import Fleet
from apps.capacity.nodes import NodeRows
from apps.capacity.notes import first_notes, lasting_notes
from apps.capacity.pools import MadeRows, pool_rows, totals
from apps.capacity.promised import Promises, promises
from apps.capacity.rows import CapacityReport, Note

MOST_KEPT = 16
Value = TypeVar("Value")


@dataclass(slots=True)
class _Made:
    """The last report of some clusters in one language, by what it was made."""

    version: Hashable = None
    report: CapacityReport | None = None
    pools: MadeRows = field(default_factory=dict)
    noted: Hashable = None
    notes: tuple[Note, ...] = ()


class _Memory:
    """The values used last, at most MOST_KEPT of them; each is made by one thread at a time."""

    def __init__(self) -> None:
        self._values: OrderedDict[Hashable, object] = OrderedDict()
        self._lock = threading.RLock()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        with self._lock:
            if key not in self._values:
                self._values[key] = make()
                while len(self._values) > MOST_KEPT:
                    self._values.popitem(last=False)
            self._values.move_to_end(key)
            return self._values[key]  # type: ignore[return-value]

    def clear(self) -> None:
        with self._lock:
            self._values.clear()


_PROMISES, _REPORTS, _ROWS = _Memory(), _Memory(), _Memory()
_making = threading.Lock()


def forget() -> None:
    """Drop what is kept of reports."""
    for memory in (_PROMISES, _REPORTS, _ROWS):
        memory.clear()


def report_of(fleet: Fleet) -> CapacityReport:
    if fleet.version is None:
        return _report(fleet, promises(fleet), _Made())
    language, said = get_language(), _said(fleet)
    promised = _PROMISES.get((fleet.kinds_version, said), lambda: promises(fleet))
    made = _REPORTS.get((language, tuple(fleet.clusters)), _Made)
    version = (fleet.version, fleet.kinds_version, said)
    with _making:
        if made.report is None or made.version != version:
            made.report, made.version = _report(fleet, promised, made), version
        report = made.report
    return replace(report, missing=fleet.missing, as_of=fleet.as_of)


def rows_of(fleet: Fleet) -> NodeRows:
    if fleet.version is None:
        return NodeRows.of(fleet.nodes)
    return _ROWS.get(fleet.version, lambda: NodeRows.of(fleet.nodes))


def _said(fleet: Fleet) -> Hashable:
    """Everything besides nodes that a report rests on."""
    unread = tuple(
        tuple(cluster.pk for cluster in some) for some in (fleet.pods_missing, fleet.quota_missing)
    )
    return (fleet.quota_version, unread, tuple(fleet.clusters))


def _report(fleet: Fleet, promised: Promises, made: _Made) -> CapacityReport:
    pools = pool_rows(fleet, promised, made=made.pools)
    rests_on = (fleet.kinds_version, _said(fleet))
    if fleet.version is None or made.noted != rests_on:
        made.notes, made.noted = tuple(lasting_notes(fleet, promised)), rests_on
    return CapacityReport(
        pools=tuple(pools),
        totals=totals(fleet, promised),
        missing=fleet.missing,
        notes=(*first_notes(fleet, promised, pools), *made.notes),
        as_of=fleet.as_of,
    )
