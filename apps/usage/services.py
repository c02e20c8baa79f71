"""Rollups: hours of held quota from state spans, and hourly snapshots of capacity. Set-based and idempotent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from apps.fleet.models import Cluster


@dataclass(frozen=True, slots=True)
class RollupResult:
    """Hours in [from_hour, until) were computed anew; None when the cluster has no span yet."""

    from_hour: datetime | None
    until: datetime | None
    rows: int


def rollup_hours(*, cluster: Cluster, now: datetime) -> RollupResult:
    raise NotImplementedError


def capacity_snapshot(*, cluster: Cluster, at: datetime) -> int:
    """Store the cluster's pools as of `at` as the state of that UTC hour (the last snapshot of an hour stays)."""
    raise NotImplementedError
