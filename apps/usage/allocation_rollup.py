"""The rollup of what was held: intervals of state, summed by hour and by what they are. Idempotent.

Input: spells of holding (`allocation_loading`); output: rows of AllocationHour, their sums by day, and SupplyHour beside them. Invariants
- An hour's rows are what the intervals say, whoever computes them and how often: a run locks the mark, deletes hours and
  computes them anew in one transaction per chunk, and only then moves the mark.
- Facts that come late take the mark back to their hour, REDO_AT_MOST at the most; nothing lasts beyond the last good pull.
- What is known only at present (units, cost centres, when nobody could look) is written down first (`remembering`).
- Within an hour rows are cut where a billing period begins or ends, so that a row lies in one period of any zone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from apps.capacity.facts import Fleet, load_fleet
from apps.core.windows import floor_hour
from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject
from apps.quotas.models import QuotaPoint
from apps.usage import allocation_sql as sql
from apps.usage.admission_rollup import chunks, first_observed
from apps.usage.allocation import Group
from apps.usage.allocation_days import add_days
from apps.usage.allocation_loading import fill_held
from apps.usage.allocation_params import gap_params, limit_params, owner_params, slots, unit_params
from apps.usage.changed import note_changed
from apps.usage.claims_noting import note_claims
from apps.usage.commitments import KIND_OF_WORK
from apps.usage.late import late_from, newest_told, taken_back
from apps.usage.limits import Beyond, Limit, Member, beyond
from apps.usage.models import ALLOCATION, AllocationHour, Watermark
from apps.usage.remembering import LONGEST_INTERVALS, SOURCE_OF_SUPPLY, note_present, watched_by
from apps.usage.services import REDO_AT_MOST, observed_until
from apps.usage.supply_rollup import add_supply


@dataclass(frozen=True, slots=True)
class AllocationRollup:
    """Hours from `from_hour` up to `until` were computed anew; None where nothing was observed yet."""

    from_hour: datetime | None
    until: datetime | None
    rows: int


def rollup_allocation(
    *, cluster: Cluster, now: datetime, edges: Collection[datetime] = ()
) -> AllocationRollup:
    """Compute the hours since the mark, the unfinished one included. `edges`: where billing periods begin and end."""
    first = _first_known(cluster)
    if first is None:
        return AllocationRollup(None, None, 0)
    fleet = load_fleet(now=now, clusters=[cluster]) if cluster.enabled else None
    if fleet is not None:
        note_present(cluster=cluster, fleet=fleet, now=now)
    observed = observed_until(cluster=cluster, now=now, sources=watched_by(cluster))
    until, done_until = max(observed.values()), floor_hour(max(min(observed.values()), now - REDO_AT_MOST))
    observed |= _nodes_until(cluster, now)
    newest, newest_run = newest_told(cluster, now)
    start = _begin(cluster, fleet, first=first, now=now)
    rows = 0
    for low, high in chunks(cluster, start, until):
        with transaction.atomic():
            mark = Watermark.objects.select_for_update().get(cluster=cluster, rollup=ALLOCATION)
            rows += _compute(cluster, low, high, observed, edges)
            if mark.done_until >= low:
                mark.done_until = max(mark.done_until, min(high, done_until))
            if high == until:
                mark.seen_id, mark.seen_run = newest, newest_run or mark.seen_run or 0
            mark.save()
            note_changed(cluster, low)
    return AllocationRollup(start, max(until, start), rows)


def _first_known(cluster: Cluster) -> datetime | None:
    """Where the hours begin: with the first work or claim, or the first quota that was promised."""
    mark = Watermark.objects.filter(cluster=cluster, rollup=ALLOCATION).first()
    if mark is not None:
        return mark.done_until
    points = QuotaPoint.objects.filter(cluster=cluster, kind__in=KIND_OF_WORK).order_by("at")
    claims = ClusterObject.objects.filter(cluster=cluster, kind="ResourceClaim").order_by("first_seen_at")
    found = (
        first_observed(cluster),
        points.values_list("at", flat=True).first(),
        claims.values_list("first_seen_at", flat=True).first(),
    )
    return min((at for at in found if at is not None), default=None)


def _nodes_until(cluster: Cluster, now: datetime) -> dict[str, datetime]:
    """How far nodes are known: they keep no hour open, so a pull that is merely due counts as made."""
    due = timedelta(seconds=LONGEST_INTERVALS * settings.COLLECT_INTERVAL_SECONDS)
    known = observed_until(cluster=cluster, now=now, sources=SOURCE_OF_SUPPLY)
    return {kind: min(now, at + due) for kind, at in known.items()}


def _begin(cluster: Cluster, fleet: Fleet | None, *, first: datetime, now: datetime) -> datetime:
    """What claims held is written down together with the mark that it takes back; of a cluster that is off, nothing."""
    with transaction.atomic():
        Watermark.objects.get_or_create(
            cluster=cluster, rollup=ALLOCATION, defaults={"done_until": floor_hour(first)}
        )
        mark = Watermark.objects.select_for_update().get(cluster=cluster, rollup=ALLOCATION)
        late = [late_from(cluster, mark, now)]
        if fleet is not None:
            late.append(note_claims(cluster, fleet, now))
        told = min((floor_hour(at) for at in late if at is not None), default=None)
        mark.done_until = taken_back(mark, told, now)
        mark.save(update_fields=["done_until"])
    return mark.done_until


def _compute(
    cluster: Cluster,
    start: datetime,
    end: datetime,
    observed: Mapping[str, datetime],
    edges: Collection[datetime],
) -> int:
    AllocationHour.objects.filter(cluster=cluster, starts_at__gte=start, starts_at__lt=end).delete()
    with connection.cursor() as cursor:
        for setting in sql.FOR_MANY:
            cursor.execute(f"SET LOCAL {setting}")
        around = fill_held(cluster=cluster, start=start, end=end, until=observed).around
        cursor.execute("DROP TABLE IF EXISTS limits, kinds, counted, members, shifts, owned")
        cursor.execute(sql.MAKE_LIMITS, limit_params(around))
        cursor.execute(sql.MAKE_KINDS)
        cursor.execute("ANALYZE limits, kinds")
        gaps = gap_params(around)
        cursor.execute(sql.MAKE_COUNTED, gaps)
        if gaps["gap_kind"]:
            cursor.execute("CREATE INDEX ON held (uid)")
            cursor.execute(sql.ADD_JUDGED, gaps)
        cursor.execute(sql.MAKE_OWNED, {**owner_params(around), **unit_params(around)})
        cursor.execute("ANALYZE counted, owned")
        cursor.execute(sql.MAKE_SHIFTS)
        limits = {**around.nominal, **around.node_units}
        if limits:
            cursor.execute(sql.MAKE_MEMBERS)
            _add_shifts(cluster, limits)
            cursor.execute("ANALYZE shifts")
        cuts = slots(start, end, edges)
        cursor.execute(sql.ADD_HOURS, {"cluster": cluster.pk, "start": start, "end": end, **cuts})
        rows = int(cursor.rowcount)
    add_days(cluster=cluster, start=start, end=end, edges=edges)
    given = {**unit_params(around), **cuts}
    add_supply(cluster=cluster, start=start, end=end, around=around, until=observed, given=given)
    return rows


def _add_shifts(cluster: Cluster, limits: Mapping[Group, Sequence[Limit]]) -> None:
    """Group by group, of those that are ever beyond their limit."""
    with connection.cursor() as cursor:
        cursor.execute(sql.GROUPS)
        groups = {number: limits[cluster.pk, *group] for number, *group in cursor.fetchall()}
        with connection.chunked_cursor() as reading:
            reading.execute(sql.MEMBERS)
            for number, rows in groupby(reading, key=itemgetter(0)):
                members = [
                    Member((since, uid, priority, low), n, low, high, quantity)
                    for _group, since, uid, priority, low, n, high, quantity in rows
                ]
                _copy_shifts(cursor, beyond(members, groups[number]))


def _copy_shifts(cursor: Any, found: Sequence[Beyond]) -> None:
    with cursor.copy(sql.COPY_SHIFTS) as copy:
        for one in found:
            copy.write_row((one.n, one.start, one.end, one.quantity))
