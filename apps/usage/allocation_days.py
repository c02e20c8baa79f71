"""Days of what was held: sums of the hours, so that a year reads about as many rows as a fortnight of hours. Input: rows of
AllocationHour; output: rows of AllocationDay.

Invariant: a day's rows are the sum of its hours and written in the transaction of the hours; they are cut, as these are, where
billing periods begin and end, so that days add up to any period's total."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from apps.core.windows import DAY, Bucket, floor
from apps.fleet.models import Cluster
from apps.usage.allocation_params import columns
from apps.usage.models import AllocationDay, AllocationHour

_KEY = """cluster_id, team_id, cost_centre, basis, kind, queue, flavor, resource, model, sharing_mode, profile,
  weight_over, weight_under, priority_class, borrowed, seen"""
_ADD = f"""
INSERT INTO usage_allocationday ({_KEY}, starts_at, ends_at, unit_seconds)
SELECT {_KEY}, d.low, d.high, sum(unit_seconds)
FROM unnest(%(day_from)s::timestamptz[], %(day_to)s::timestamptz[]) AS d(low, high)
JOIN usage_allocationhour a ON a.starts_at >= d.low AND a.starts_at < d.high
WHERE a.cluster_id = %(cluster)s AND a.starts_at >= %(start)s AND a.starts_at < %(end)s
GROUP BY {_KEY}, d.low, d.high HAVING sum(unit_seconds) <> 0
"""  # noqa: S608  constants


def add_days(*, cluster: Cluster, start: datetime, end: datetime, edges: Collection[datetime]) -> None:
    """Sum anew every day that [start, end) touches; all days, where the cluster has none yet. Only within a transaction."""
    days = AllocationDay.objects.filter(cluster=cluster)
    if not days.exists():
        hours = AllocationHour.objects.filter(cluster=cluster).order_by("starts_at")
        start = min(start, hours.values_list("starts_at", flat=True).first() or start)
    low, high = floor(start, Bucket.DAY), floor(end - timedelta(microseconds=1), Bucket.DAY) + DAY
    days.filter(starts_at__gte=low, starts_at__lt=high).delete()
    cuts = sorted({*_midnights(low, high), *(edge for edge in edges if low < edge < high)})
    given: dict[str, Any] = {"cluster": cluster.pk, "start": low, "end": high}
    with connection.cursor() as cursor:
        cursor.execute(_ADD, given | columns(list(pairwise(cuts)), "day_from", "day_to"))


def allocation_days(
    *, start: datetime, end: datetime, clusters: Collection[int], team_ids: Collection[int] | None
) -> QuerySet[AllocationDay]:
    """Rows that begin in [start, end), of these teams (None: of everybody, what is of no team included), in order."""
    rows = AllocationDay.objects.filter(
        starts_at__gte=start, starts_at__lt=end, cluster_id__in=list(clusters)
    )
    if team_ids is not None:
        rows = rows.filter(team_id__in=list(team_ids))
    return rows.select_related("cluster", "team").order_by("starts_at", "pk")


def _midnights(low: datetime, high: datetime) -> list[datetime]:
    return [low + n * DAY for n in range((high - low) // DAY + 1)]
