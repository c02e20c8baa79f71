"""Capacity of the whole fleet over time. Input: hourly snapshots; output: `CapacitySeries`.

Pools are added up as whole cards (physical) and as GPU-equivalents (the rest), never as units of their kinds; for
whole cards the two are one. An hour in which a cluster has no snapshot although it had one before is
left out: a sum without it would look like a loss. A point is the newest whole hour of its bucket that every
cluster has; a bucket without any is None.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from django.db import connection
from django.db.models import Case, Count, DecimalField, Expression, F, Q, Sum, When
from django.db.models.functions import Cast, Coalesce

from apps.core.windows import DAY, HOUR, Bucket, Window
from apps.usage.models import CapacityHour
from apps.usage.selectors import CapacitySeries

Step = Literal["hour", "six_hours", "day", "month"]
_LENGTHS: dict[str, timedelta] = {"hour": HOUR, "six_hours": 6 * HOUR, "day": DAY}
WHOLE = "exclusive"
_NAMES = ("allocatable", "held", "nominal", "stranded")
_NUMBER: DecimalField[Decimal, Decimal] = DecimalField(max_digits=14, decimal_places=3)

# Which hours each cluster has, by probing its index: a count over years of rows would read them all.
_PRESENT = """
SELECT c.id, h.hour FROM unnest(%(clusters)s::bigint[]) AS c(id)
CROSS JOIN generate_series(%(start)s::timestamptz, %(end)s::timestamptz, interval '1 hour') AS h(hour)
WHERE EXISTS (SELECT 1 FROM usage_capacityhour u WHERE u.cluster_id = c.id AND u.hour = h.hour)
"""


def fleet_capacity_series(
    *,
    window: Window,
    cluster_ids: Collection[int],
    sharing_mode: str = WHOLE,
    model: str = "",
    step: Step | None = None,
) -> CapacitySeries:
    """Sums over the clusters' pools of one sharing mode and model ("": of every one), one point per `step` (default:
    what a chart of this window can show) from UTC midnight on."""
    hours = [piece.start for piece in window.buckets(Bucket.HOUR)]
    complete = _complete_hours(cluster_ids, hours)
    wanted = step or step_of(window)
    newest: dict[datetime, datetime | None] = {}
    for hour in hours:
        point = point_of(hour, wanted)
        newest[point] = hour if hour in complete else newest.get(point)
    sums = _sums([hour for hour in newest.values() if hour], cluster_ids, sharing_mode, model)

    def line(name: str) -> list[Decimal | None]:
        return [sums[hour][name] if hour is not None and hour in sums else None for hour in newest.values()]

    return CapacitySeries(
        hours=list(newest),
        physical=line("physical_sum"),
        allocatable=line("allocatable_sum"),
        held=line("held_sum"),
        nominal=line("nominal_sum"),
        stranded=line("stranded_sum"),
    )


def _complete_hours(cluster_ids: Collection[int], hours: Sequence[datetime]) -> set[datetime]:
    """The hours that every cluster has which had one before."""
    params: dict[str, Any] = {"clusters": list(cluster_ids), "start": hours[0], "end": hours[-1]}
    with connection.cursor() as cursor:
        cursor.execute(_PRESENT, params)
        found = [(cluster_id, hour.astimezone(UTC)) for cluster_id, hour in cursor.fetchall()]
    first: dict[int, datetime] = {}
    count: dict[datetime, int] = {}
    for cluster_id, hour in found:
        first[cluster_id] = min(hour, first.get(cluster_id, hour))
        count[hour] = count.get(hour, 0) + 1
    return {hour for hour, n in count.items() if n >= sum(start <= hour for start in first.values())}


def _sums(
    hours: Iterable[datetime], cluster_ids: Collection[int], sharing_mode: str, model: str
) -> Mapping[datetime, Mapping[str, Any]]:
    """Per hour the sums; an hour with a pool whose equivalents were not noted yet is left out of their sum."""
    rows = CapacityHour.objects.filter(cluster_id__in=list(cluster_ids), hour__in=list(hours))
    if model:
        rows = rows.filter(model=model)
    if sharing_mode:
        rows = rows.filter(sharing_mode=sharing_mode)
    found = rows.values("hour").annotate(
        unknown=Count("pk", filter=Q(cards=None) & ~Q(sharing_mode=WHOLE)),
        physical_sum=Sum(_weighed(Cast("cards", _NUMBER), "physical")),
        **{f"{name}_sum": Sum(_weighed(F(f"{name}_equivalents"), name)) for name in _NAMES},
    )
    return {row["hour"]: row for row in found if not row["unknown"]}


def _weighed(exact: Expression | F, own: str) -> Case:
    """A column in GPU-equivalents; of whole cards, that noted none in the past, the number itself."""
    return Case(When(sharing_mode=WHOLE, then=Coalesce(exact, F(own))), default=exact)


def step_of(window: Window) -> Step:
    """An hour up to 3 days, 6 hours up to 31 days, a day beyond: what a chart can show."""
    if window.length <= timedelta(days=3):
        return "hour"
    return "six_hours" if window.length <= timedelta(days=31) else "day"


def point_of(hour: datetime, step: Step) -> datetime:
    """The start, in UTC, of the bucket that an hour lies in."""
    midnight = hour.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if step == "month":
        return midnight.replace(day=1)
    length = _LENGTHS[step]
    return midnight + (hour - midnight) // length * length
