"""What takes long to find out in a large fleet and changes slowly, kept for a few minutes by the process that serves
pages. Input: a cluster and the clock; output: what `make` found, at most `keep` old (KEEP where nothing else is said).

Invariants: only the web process keeps anything (settings.CAPACITY_MEMORY); a clock that went back makes it anew; one
result per cluster, so that it does not grow."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from django.conf import settings

from apps.fleet.models import Cluster

KEEP = timedelta(minutes=5)
T = TypeVar("T")


class Kept(Generic[T]):
    """Of each cluster the last result. Threads may make the same twice, never a part of it."""

    def __init__(self, make: Callable[[datetime, Cluster], T], keep: timedelta = KEEP) -> None:
        self._make = make
        self._keep = keep
        self._found: dict[int, tuple[datetime, T]] = {}

    def of(self, now: datetime, cluster: Cluster) -> T:
        if not settings.CAPACITY_MEMORY:
            return self._make(now, cluster)
        known = self._found.get(cluster.pk)
        if known is not None and known[0] <= now < known[0] + self._keep:
            return known[1]
        made = self._make(now, cluster)
        self._found[cluster.pk] = (now, made)
        return made
