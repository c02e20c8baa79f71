"""How busy held devices were, by the hour. Input: device samples and the pods that they name; output: rows of UseHour.

A rollup of its own, hour by hour: samples are many, and money waits for none of them. Invariants
- A sample stands from its instant until the device's next one, LONGEST_INTERVALS intervals at the most; what lies between
  is not measured, and what was not measured is NULL or no time at all, never zero.
- A device counts once, however many pods share it. Power is the board's: of whole cards only.
- An hour is computed when samples and pods of all of it were read, and then never again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from apps.core.windows import HOUR, floor_hour
from apps.fleet.models import Cluster
from apps.observations.models import DeviceSample, Source
from apps.usage import allocation_sql, use_sql
from apps.usage.accounted import is_held
from apps.usage.allocation import Owned, Place, Surroundings
from apps.usage.allocation_loading import owners_of
from apps.usage.allocation_params import columns, owner_params, unit_params
from apps.usage.models import USE, UseHour, Watermark
from apps.usage.remembering import LONGEST_INTERVALS, units_at
from apps.usage.services import observed_until

_SOURCES: Mapping[str, str] = {"Pod": Source.PODS, "Device": Source.DCGM}


def rollup_use(*, cluster: Cluster, now: datetime, edges: Collection[datetime] = ()) -> int:
    """Compute the finished hours since the mark, one transaction each; returns the rows. `edges`: where billing periods
    begin and end."""
    hour = _begin(cluster)
    until = floor_hour(min(observed_until(cluster=cluster, now=now, sources=_SOURCES).values()))
    rows = 0
    while hour is not None and hour < until:
        with transaction.atomic():
            mark = Watermark.objects.select_for_update().get(cluster=cluster, rollup=USE)
            if mark.done_until == hour:
                rows += _compute(cluster, hour, until=now, edges=edges)
                mark.done_until = hour + HOUR
                mark.save(update_fields=["done_until"])
        hour += HOUR
    return rows


def _begin(cluster: Cluster) -> datetime | None:
    """Where the run starts; None while there is no sample."""
    mark = Watermark.objects.filter(cluster=cluster, rollup=USE).first()
    if mark is None:
        samples = DeviceSample.objects.filter(cluster=cluster).order_by("sampled_at")
        first = samples.values_list("sampled_at", flat=True).first()
        if first is None:
            return None
        mark, _made = Watermark.objects.get_or_create(
            cluster=cluster, rollup=USE, defaults={"done_until": floor_hour(first)}
        )
    return mark.done_until


def _compute(cluster: Cluster, start: datetime, *, until: datetime, edges: Collection[datetime]) -> int:
    end = start + HOUR
    UseHour.objects.filter(cluster=cluster, starts_at__gte=start, starts_at__lt=end).delete()
    given: dict[str, Any] = {
        "cluster": cluster.pk,
        "start": start,
        "end": end,
        "until_Pod": until,
        "longest": timedelta(seconds=LONGEST_INTERVALS * settings.COLLECT_INTERVAL_SECONDS),
    }
    with connection.cursor() as cursor:
        cursor.execute(use_sql.RESOURCES, given)
        resources = [name for (name,) in cursor.fetchall() if is_held(name)]
        cursor.execute("DROP TABLE IF EXISTS held")
        cursor.execute(allocation_sql.MAKE_HELD)
        cursor.execute(allocation_sql.BOUND, {**given, "resources": resources})
        cursor.execute("ANALYZE held")
        cursor.execute(allocation_sql.PLACES)
        places = [Place(cluster.pk, *row) for row in cursor.fetchall()]
        owners = owners_of(cluster, places, start, end)
        around = Surroundings(
            owners=owners, units=units_at(cluster, end)[0], gaps={}, nominal={}, node_units={}
        )
        cuts = _cuts(start, end, edges, owners)
        cursor.execute(use_sql.ADD_USE, {**given, **owner_params(around), **unit_params(around), **cuts})
        rows = int(cursor.rowcount)
        cursor.execute("DROP TABLE held")
    return rows


def _cuts(
    start: datetime,
    end: datetime,
    edges: Collection[datetime],
    owners: Mapping[Place, Sequence[Owned]],
) -> dict[str, Any]:
    """The hour, cut at the edges into rows, and these where anything changes its owner."""
    changes = {owned.start for own in owners.values() for owned in own}
    rows = []
    for low, high in pairwise(_inside({start, end, *edges}, start, end)):
        within = _inside({low, high, *changes}, low, high)
        rows += [(one, other, low, high) for one, other in pairwise(within)]
    return columns(rows, "use_from", "use_to", "row_from", "row_to")


def _inside(edges: Collection[datetime], start: datetime, end: datetime) -> list[datetime]:
    return sorted(edge for edge in edges if start <= edge <= end)
