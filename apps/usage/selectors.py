"""Held quota and capacity over time, from hourly rollups. `team_ids`: None reads all teams and unbound work.

A window is widened to whole hours, because that is what the rollups hold; `Usage.window` says what was read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal

from apps.core.windows import Bucket, Window

UsageBy = Literal["team", "queue", "flavor", "resource", "cluster"]


@dataclass(frozen=True, slots=True)
class UsageCriteria:
    """What usage is narrowed to; "" means any."""

    cluster: str = ""
    team: str = ""
    queue: str = ""
    flavor: str = ""
    resource: str = ""


@dataclass(frozen=True, slots=True)
class UsageRow:
    """What one team held through one queue during the window, in unit-seconds of one resource in one flavor."""

    cluster_id: int
    cluster_slug: str
    cluster_name: str
    team_id: int | None
    team_slug: str
    team_name: str
    queue: str
    flavor: str
    resource: str
    reserved_unit_seconds: Decimal
    admitted_unit_seconds: Decimal

    @property
    def reserved_unit_hours(self) -> Decimal:
        return self.reserved_unit_seconds / 3600

    @property
    def admitted_unit_hours(self) -> Decimal:
        return self.admitted_unit_seconds / 3600


@dataclass(frozen=True, slots=True)
class UsageSeries:
    """Mean units held per bucket and key, over the part of the bucket that lies before the rollup's end.
    None: not rolled up (before the first or after the last observed hour); 0 is a real zero."""

    bucket: Bucket
    buckets: Sequence[Window]
    values: Mapping[str, Sequence[Decimal | None]]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CapacitySeries:
    """A pool's supply per hour in its own units; None: no snapshot in that hour."""

    hours: Sequence[datetime]
    physical: Sequence[Decimal | None]
    allocatable: Sequence[Decimal | None]
    held: Sequence[Decimal | None]
    nominal: Sequence[Decimal | None]


def usage_rows(
    *, window: Window, team_ids: Collection[int] | None, criteria: UsageCriteria | None = None
) -> list[UsageRow]:
    raise NotImplementedError


def usage_series(
    *,
    now: datetime,
    window: Window,
    bucket: Bucket,
    resource: str,
    by: UsageBy = "team",
    team_ids: Collection[int] | None,
    criteria: UsageCriteria | None = None,
) -> UsageSeries:
    raise NotImplementedError


def capacity_series(
    *, window: Window, cluster_id: int, model: str, sharing_mode: str
) -> CapacitySeries:
    raise NotImplementedError
