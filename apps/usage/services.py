"""Rollups: hours of held quota from state spans, and hourly snapshots of capacity. Set-based and idempotent.

Invariants
- An hour's rows are what the spans say, whoever computes them and how often: the run locks the watermark, deletes
  the hours from the watermark on and computes them anew in one transaction.
- Nothing is held beyond what was observed: an open span reaches to the last good pull of its source, and the
  watermark with it, so that the hours of an outage are done again when the source is back (at most REDO_AT_MOST).
- Each stretch belongs to the team that owned it then; a change of owner within an hour splits the hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import connection, transaction

from apps.admissions.ownership import OWNERS, OWNERS_ON, owner_params
from apps.capacity.rows import PoolRow
from apps.capacity.selectors import capacity_report
from apps.core.windows import floor_hour
from apps.fleet.models import Cluster
from apps.observations.models import Presence, Source, SourceState, StateSpan
from apps.usage.models import CapacityHour, UsageHour, Watermark

HOLDING_STATES = ("reserved", "admitted")
# Two marks per cluster: the end of the finished hours, and the very instant up to which use was added up.
ROLLUP = "usage_hours"
REACH = "usage_reach"
REDO_AT_MOST = timedelta(days=7)
_SOURCE_OF_KIND: Mapping[str, str] = {"Workload": Source.KUEUE, "PodGroup": Source.VOLCANO}

_ROLLUP = f"""
INSERT INTO usage_usagehour (cluster_id, team_id, queue, flavor, resource, hour,
  reserved_unit_seconds, admitted_unit_seconds)
SELECT cluster_id, team_id, queue, flavor, resource, hour,
  sum(units), coalesce(sum(units) FILTER (WHERE state = 'admitted'), 0)
FROM (
  SELECT h.cluster_id, h.team_id, h.queue, h.state, hour, coalesce(u.flavor, '') AS flavor, u.resource,
    u.quantity * extract(epoch FROM least(h.high, hour + interval '1 hour') - greatest(h.low, hour)) AS units
  FROM (
    SELECT s.cluster_id, o.team_id, s.queue, s.state, s.usage,
      greatest(s.started_at, o.owned_from, %(start)s) AS low,
      least(coalesce(s.ended_at, 'infinity'), o.owned_to,
        CASE s.kind WHEN 'PodGroup' THEN %(until_PodGroup)s ELSE %(until_Workload)s END) AS high
    FROM observations_statespan s JOIN {OWNERS} ON {OWNERS_ON}
    WHERE s.cluster_id = %(cluster)s AND s.state = ANY(%(states)s) AND s.usage <> '[]'
      AND s.started_at < %(until)s AND coalesce(s.ended_at, 'infinity') > %(start)s
  ) h
  CROSS JOIN LATERAL jsonb_to_recordset(h.usage) AS u(flavor text, resource text, quantity numeric)
  CROSS JOIN LATERAL generate_series(date_trunc('hour', h.low, 'UTC'), h.high - interval '1 microsecond',
    interval '1 hour') AS hour
  WHERE h.low < h.high
) parts
GROUP BY cluster_id, team_id, queue, flavor, resource, hour
HAVING sum(units) > 0
"""  # noqa: S608 - constants of this module only


@dataclass(frozen=True, slots=True)
class RollupResult:
    """Hours from `from_hour` up to `until` were computed anew; None when the cluster has no span yet."""

    from_hour: datetime | None
    until: datetime | None
    rows: int


def rollup_hours(*, cluster: Cluster, now: datetime) -> RollupResult:
    """Compute the hours since the watermark, the unfinished one included. Run it as often as wanted."""
    first = StateSpan.objects.filter(cluster=cluster).order_by("started_at").values_list("started_at").first()
    if first is None:
        return RollupResult(None, None, 0)
    observed = observed_until(cluster=cluster, now=now)
    until = max(observed.values())
    done_until = floor_hour(max(min(observed.values()), now - REDO_AT_MOST))
    with transaction.atomic():
        Watermark.objects.get_or_create(
            cluster=cluster, rollup=ROLLUP, defaults={"done_until": floor_hour(first[0])}
        )
        mark = Watermark.objects.select_for_update().get(cluster=cluster, rollup=ROLLUP)
        start = mark.done_until
        if until <= start:
            return RollupResult(start, start, 0)
        rows = _compute(cluster=cluster, start=start, until=until, observed=observed)
        Watermark.objects.update_or_create(cluster=cluster, rollup=REACH, defaults={"done_until": until})
        if done_until > mark.done_until:
            mark.done_until = done_until
            mark.save(update_fields=["done_until"])
    return RollupResult(start, until, rows)


def observed_until(
    *, cluster: Cluster, now: datetime, sources: Mapping[str, str] = _SOURCE_OF_KIND
) -> dict[str, datetime]:
    """How far the facts of each kind are known: the last good pull of their source, never beyond now. A source
    that is absent or without a state (imported history) holds nothing back."""
    pulls = dict(
        SourceState.objects.filter(cluster=cluster, last_ok_at__isnull=False)
        .exclude(presence=Presence.ABSENT)
        .values_list("source", "last_ok_at")
    )
    return {kind: min(now, pulls.get(source) or now) for kind, source in sources.items()}


def _compute(*, cluster: Cluster, start: datetime, until: datetime, observed: dict[str, datetime]) -> int:
    params: dict[str, Any] = {
        "cluster": cluster.pk,
        "start": start,
        "until": until,
        "states": list(HOLDING_STATES),
        **{f"until_{kind}": at for kind, at in observed.items()},
        **owner_params(cluster_ids=[cluster.pk], start=start, end=until, states=HOLDING_STATES),
    }
    UsageHour.objects.filter(cluster=cluster, hour__gte=start).delete()
    with connection.cursor() as cursor:
        cursor.execute(_ROLLUP, params)
        return int(cursor.rowcount)


def capacity_snapshot(*, cluster: Cluster, at: datetime, imported: bool = False) -> int:
    """Store the cluster's pools as of `at` as the state of that UTC hour (the last snapshot of an hour stays).
    `held` is what bound pods hold: a cluster whose nodes or pods were never read stores nothing, an hour that is
    not known is none. `imported`: the rows are an imported past, which no pull has read, and are taken as they
    are. Returns the number of pools."""
    report = capacity_report(now=at, clusters=[cluster], imported=imported)
    hour = floor_hour(at)
    rows = [_hour_of(pool, pool.held_bound, hour) for pool in report.pools if pool.held_bound is not None]
    CapacityHour.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["cluster", "model", "sharing_mode", "hour"],
        update_fields=_NOTED,
    )
    return len(rows)


_NOTED = (
    *("physical", "allocatable", "held", "nominal", "stranded", "cards"),
    *("allocatable_equivalents", "held_equivalents", "nominal_equivalents", "stranded_equivalents"),
)


def _hour_of(pool: PoolRow, held: Decimal, hour: datetime) -> CapacityHour:
    weighed = pool.amounts["equivalents"]
    return CapacityHour(
        cluster=pool.cluster,
        model=pool.model,
        sharing_mode=pool.sharing_mode,
        hour=hour,
        physical=pool.physical_units,
        allocatable=pool.allocatable,
        held=held,
        nominal=pool.nominal,
        stranded=pool.stranded,
        cards=pool.physical_devices,
        allocatable_equivalents=weighed.allocatable,
        held_equivalents=weighed.held_bound,
        nominal_equivalents=weighed.nominal,
        stranded_equivalents=weighed.stranded,
    )
