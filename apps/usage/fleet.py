"""Capacity of the whole fleet over time, for one sharing mode. Input: hourly snapshots; output: `CapacitySeries`.

Pools of one sharing mode count in the same unit and may be added up, pools of different modes never. An hour in
which a cluster has no snapshot although it had one before is left out: a sum without it would look like a loss.
Long windows show one point per 6 hours or day, the newest whole hour in it; a point without any is None.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Count, Min, Sum

from apps.core.windows import Bucket, Window
from apps.usage.models import CapacityHour
from apps.usage.selectors import CapacitySeries


def fleet_capacity_series(
    *, window: Window, cluster_ids: Collection[int], sharing_mode: str = "exclusive"
) -> CapacitySeries:
    """Sums over the clusters' pools of this mode, one point per `step_of(window)` from UTC midnight on."""
    hours = [piece.start for piece in window.buckets(Bucket.HOUR)]
    rows = CapacityHour.objects.filter(
        cluster_id__in=list(cluster_ids), sharing_mode=sharing_mode, hour__gte=hours[0], hour__lte=hours[-1]
    )
    starts = sorted(rows.values("cluster_id").annotate(first=Min("hour")).values_list("first", flat=True))
    sums: dict[datetime, Any] = {
        row["hour"]: row
        for row in rows.values("hour").annotate(
            clusters=Count("cluster_id", distinct=True),
            physical_sum=Sum("physical"),
            allocatable_sum=Sum("allocatable"),
            held_sum=Sum("held"),
            nominal_sum=Sum("nominal"),
        )
    }
    complete = {
        hour: row for hour, row in sums.items() if row["clusters"] >= sum(start <= hour for start in starts)
    }

    newest: dict[datetime, datetime | None] = {}
    for hour in hours:
        point = _point_of(hour, step_of(window))
        newest[point] = hour if hour in complete else newest.get(point)

    def line(name: str) -> list[Decimal | None]:
        return [complete[hour][f"{name}_sum"] if hour else None for hour in newest.values()]

    return CapacitySeries(
        hours=list(newest),
        physical=line("physical"),
        allocatable=line("allocatable"),
        held=line("held"),
        nominal=line("nominal"),
    )


def step_of(window: Window) -> timedelta:
    """An hour up to 3 days, 6 hours up to 31 days, a day beyond: what a chart can show."""
    length = window.end - window.start
    if length <= timedelta(days=3):
        return timedelta(hours=1)
    return timedelta(hours=6) if length <= timedelta(days=31) else timedelta(days=1)


def _point_of(hour: datetime, step: timedelta) -> datetime:
    midnight = hour.replace(hour=0, minute=0)
    return midnight + (hour - midnight) // step * step
