"""What quota and its use were: points that are written when a number changes, and their reading over time.

Input: the present quota rows and the clock; output: QuotaPoint rows, series of means, and since when a queue borrows
or lends. Invariants: only accelerators; a point is written only where a number differs from the newest one of its
key; a row that vanishes gets one point with `ended`; nothing is written of a system (Kueue, Volcano) whose source
fails or is stale. Time in which a source was not observed is no zero and no "as before": the stretches that were
observed are kept beside the points, as pairs of points of kind SOURCE_KIND without numbers: the first says when a
stretch began, the second (`ended`) moves with every noting until a gap of more than GAP begins a new stretch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from apps.fleet.models import Cluster
from apps.observations.models import Outcome, Source, SourceState
from apps.quotas.history_steps import NUMBERS, WINDOWS, Held, SeriesPoint, averaged, steps_of
from apps.quotas.models import QuotaPoint
from apps.quotas.rows import QueueNode, QuotaRow
from apps.quotas.selectors import queue_forest

SOURCE_KIND = "Source"
GAP = timedelta(minutes=5)
"""Notings further apart than this leave the time between them unobserved."""
NOTE_EVERY = timedelta(seconds=55)
"""A cluster is noted at most about once a minute, however often it is asked for."""
FINE_FOR = timedelta(days=31)
"""How long every point is kept; older ones are thinned to the last of each hour."""
Key = tuple[str, str, str, str]
QueueKey = tuple[int, str, str, str, str]
Since = tuple[datetime | None, datetime | None]
SOURCE_OF_KIND = {"ClusterQueue": Source.KUEUE, "Cohort": Source.KUEUE, "VolcanoQueue": Source.VOLCANO}

# The newest point of each key, by skipping from key to key along the unique index: all others are never read.
_NEWEST = """
WITH RECURSIVE newest AS (
  (SELECT {columns} FROM quotas_quotapoint p WHERE cluster_id = %(cluster)s
   ORDER BY kind DESC, queue DESC, flavor DESC, resource DESC, at DESC LIMIT 1)
  UNION ALL
  SELECT n.* FROM newest w CROSS JOIN LATERAL (
    SELECT {columns} FROM quotas_quotapoint p WHERE p.cluster_id = %(cluster)s
    AND (p.kind, p.queue, p.flavor, p.resource) < (w.kind, w.queue, w.flavor, w.resource)
    ORDER BY p.kind DESC, p.queue DESC, p.flavor DESC, p.resource DESC, p.at DESC LIMIT 1) n
)
SELECT * FROM newest
"""
_COLUMNS = ("kind", "queue", "flavor", "resource", "at", "ended", *NUMBERS)

_SINCE = """
SELECT k.cluster_id, k.kind, k.queue, k.flavor, k.resource, (
  SELECT min(p.at) FROM quotas_quotapoint p WHERE {same} AND p.at > coalesce((
    SELECT max(z.at) FROM quotas_quotapoint z WHERE {same_z} AND (z.borrowed > 0) IS NOT TRUE), '-infinity')
), (
  SELECT min(p.at) FROM quotas_quotapoint p WHERE {same} AND p.at > coalesce((
    SELECT max(z.at) FROM quotas_quotapoint z WHERE {same_z} AND (z.lent > 0) IS NOT TRUE), '-infinity')
)
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[])
  AS k(cluster_id, kind, queue, flavor, resource)
"""


def _same(table: str) -> str:
    names = ("cluster_id", "kind", "queue", "flavor", "resource")
    return " AND ".join(f"{table}.{name} = k.{name}" for name in names)


_SINCE = _SINCE.format(same=_same("p"), same_z=_same("z"))

_THIN = """
DELETE FROM quotas_quotapoint p WHERE p.at < %(fine)s AND p.kind <> %(source)s AND EXISTS (
  SELECT 1 FROM quotas_quotapoint n WHERE n.cluster_id = p.cluster_id AND n.kind = p.kind AND n.queue = p.queue
  AND n.flavor = p.flavor AND n.resource = p.resource AND n.at > p.at
  AND n.at < date_trunc('hour', p.at, 'UTC') + interval '1 hour')
"""

# What holds at the horizon stays, because it holds after it, too.
_DROP = """
DELETE FROM quotas_quotapoint p WHERE p.at < %(horizon)s AND (p.ended OR EXISTS (
  SELECT 1 FROM quotas_quotapoint n WHERE n.cluster_id = p.cluster_id AND n.kind = p.kind AND n.queue = p.queue
  AND n.flavor = p.flavor AND n.resource = p.resource AND n.at > p.at AND n.at <= %(horizon)s))
"""


# ------------------------------------------------------------------ writing
def note_quotas(*, cluster: Cluster, now: datetime) -> int:
    """Write the points that changed since the last noting; returns how many. Late or repeated runs do no harm."""
    with transaction.atomic():
        newest = newest_points(cluster)
        sources = _due(newest, _observed_sources(cluster, now), now)
        if not sources:
            return 0
        rows = row_numbers(queue_forest(now=now, clusters=[cluster]))
        made = list(changed_points(cluster, newest, rows, sources, now))
        QuotaPoint.objects.bulk_create(made, batch_size=2000)
        for source in sources:
            prolong(cluster, source, newest.get(mark_of(source)), now, now)
    return len(made)


def _observed_sources(cluster: Cluster, now: datetime) -> set[str]:
    """Sources whose newest pull went well, and not long ago."""
    fresh = now - max(GAP, timedelta(seconds=3 * settings.COLLECT_INTERVAL_SECONDS))
    rows = SourceState.objects.filter(
        cluster=cluster,
        source__in=set(SOURCE_OF_KIND.values()),
        last_outcome__in=(Outcome.OK, Outcome.PARTIAL),
        last_ok_at__gte=fresh,
    )
    return set(rows.values_list("source", flat=True))


def _due(newest: Mapping[Key, Mapping[str, Any]], sources: Iterable[str], now: datetime) -> set[str]:
    """Those of the sources that were not noted within the last minute, nor (the clock was set back) later than now."""
    found = {source: newest.get(mark_of(source)) for source in sources}
    return {source for source, last in found.items() if last is None or last["at"] + NOTE_EVERY <= now}


def mark_of(source: str) -> Key:
    """The key of the points that say when a source was observed."""
    return SOURCE_KIND, source, "", ""


def newest_points(cluster: Cluster) -> dict[Key, dict[str, Any]]:
    """The newest point of each key. Nobody else writes points of the cluster until the open transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('quota points'), %s)", [cluster.pk])
        columns = ", ".join(f"p.{name}" for name in _COLUMNS)
        cursor.execute(_NEWEST.format(columns=columns), {"cluster": cluster.pk})
        rows = [dict(zip(_COLUMNS, row, strict=True)) for row in cursor.fetchall()]
    return {(row["kind"], row["queue"], row["flavor"], row["resource"]): row for row in rows}


def walk(nodes: Iterable[QueueNode]) -> Iterator[QueueNode]:
    """Every node of a forest."""
    for node in nodes:
        yield node
        yield from walk(node.children)


def row_numbers(nodes: Iterable[QueueNode]) -> dict[Key, dict[str, Any]]:
    """The numbers of every accelerator row of a forest, by key."""
    return {
        (node.kind, node.name, row.flavor, row.resource): _numbers(row)
        for node in walk(nodes)
        for row in node.rows
        if row.accelerator
    }


def _numbers(row: QuotaRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in NUMBERS}


def changed_points(
    cluster: Cluster,
    newest: Mapping[Key, Mapping[str, Any]],
    rows: Mapping[Key, Mapping[str, Any]],
    sources: Collection[str],
    now: datetime,
) -> Iterator[QuotaPoint]:
    """The points that say what differs from the newest ones: of rows of these sources alone."""
    for key, numbers in rows.items():
        last = newest.get(key)
        if SOURCE_OF_KIND[key[0]] in sources and (
            last is None or last["ended"] or any(last[n] != numbers[n] for n in NUMBERS)
        ):
            yield _point(cluster, key, now, **numbers)
    for key, last in newest.items():
        if (
            key[0] != SOURCE_KIND
            and SOURCE_OF_KIND[key[0]] in sources
            and key not in rows
            and not last["ended"]
        ):
            yield _point(cluster, key, now, ended=True)


def _point(cluster: Cluster, key: Key, at: datetime, **values: Any) -> QuotaPoint:
    kind, queue, flavor, resource = key
    return QuotaPoint(
        cluster=cluster, at=at, kind=kind, queue=queue, flavor=flavor, resource=resource, **values
    )


def prolong(
    cluster: Cluster, source: str, last: Mapping[str, Any] | None, begins: datetime, until: datetime
) -> None:
    """It was observed from `begins` until `until`; after a gap a new stretch begins. `last`: the newest mark."""
    if last is not None and begins - last["at"] <= GAP:
        QuotaPoint.objects.filter(cluster=cluster, kind=SOURCE_KIND, queue=source, at=last["at"]).update(
            at=until
        )
        return
    key, end = mark_of(source), max(until, begins + timedelta(microseconds=1))
    QuotaPoint.objects.bulk_create([_point(cluster, key, begins), _point(cluster, key, end, ended=True)])


def thin_quota_points(*, now: datetime) -> int:
    """Points older than a month become the last of each hour; what ended before the retention goes."""
    horizon = now - timedelta(days=settings.TRANSITION_RETENTION_DAYS)
    with connection.cursor() as cursor:
        cursor.execute(_DROP, {"horizon": horizon})
        removed = cursor.rowcount
        cursor.execute(_THIN, {"fine": now - FINE_FOR, "source": SOURCE_KIND})
        return int(removed + cursor.rowcount)


# ------------------------------------------------------------------ reading
def has_history(
    *, cluster: Cluster, kind: str, queue: str, team_ids: Collection[int] | None, now: datetime
) -> bool:
    """Whether this reader may see this queue's history: whoever sees all teams that of deleted queues, too; others
    that of the queues and cohorts that they see now."""
    if kind not in SOURCE_OF_KIND:
        return False
    if team_ids is None and QuotaPoint.objects.filter(cluster=cluster, kind=kind, queue=queue).exists():
        return True
    nodes = walk(queue_forest(now=now, clusters=[cluster], team_ids=team_ids))
    return any((node.kind, node.name) == (kind, queue) for node in nodes)


def quota_series(
    *,
    cluster: Cluster,
    kind: str,
    queue: str,
    flavor: str,
    resource: str,
    window: str,
    now: datetime | None = None,
) -> list[SeriesPoint]:
    """Mean and maximum of the numbers per step of `window` ("hour", "day", "week", "month", "year"), oldest first; the
    last step holds `now`. A step is None where the source was not observed or the queue had no such row."""
    at = now or timezone.now()
    starts = steps_of(window, at)
    key = {"kind": kind, "queue": queue, "flavor": flavor, "resource": resource}
    rows = _points_since(cluster, key, starts[0], at)
    held = [Held(row["at"], {} if row["ended"] else {n: _decimal(row[n]) for n in NUMBERS}) for row in rows]
    source = SOURCE_OF_KIND.get(kind)
    seen = _stretches(cluster, source, starts[0], at) if source else []
    return averaged(points=held, observed=seen, starts=starts, step=WINDOWS[window].step)


def _decimal(value: Decimal | int | None) -> Decimal | None:
    return None if value is None else Decimal(value)


def _points_since(
    cluster: Cluster, key: Mapping[str, str], since: datetime, until: datetime
) -> list[dict[str, Any]]:
    """The points of a key within the time, and the one that held when it began."""
    points = QuotaPoint.objects.filter(cluster=cluster, **key)
    first = points.filter(at__lte=since).order_by("-at").values_list("at", flat=True)[:1]
    chosen = points.filter(at__gte=next(iter(first), since), at__lte=until)
    return list(chosen.order_by("at").values("at", "ended", *NUMBERS))


def _stretches(
    cluster: Cluster, source: str, since: datetime, now: datetime
) -> list[tuple[datetime, datetime]]:
    """The observed stretches. The newest reaches until now while it is not older than GAP."""
    key = {"kind": SOURCE_KIND, "queue": source, "flavor": "", "resource": ""}
    marks = _points_since(cluster, key, since, now + GAP)
    found: list[tuple[datetime, datetime]] = []
    begun: datetime | None = None
    for mark in marks:
        if not mark["ended"]:
            begun = mark["at"]
        elif begun is not None:
            found.append((begun, mark["at"]))
            begun = None
    if found and now - found[-1][1] <= GAP:
        found[-1] = (found[-1][0], now)
    return found


def borrowing_since(keys: Collection[QueueKey]) -> dict[QueueKey, Since]:
    """{(cluster id, kind, queue, flavor, resource): (borrows since, lends since)}: the start of the newest
    uninterrupted run of points with something borrowed or lent; None while there is nothing, or nothing noted."""
    columns = [list(column) for column in zip(*keys, strict=True)] or [[], [], [], [], []]
    with connection.cursor() as cursor:
        cursor.execute(_SINCE, columns)
        return {tuple(row[:5]): (row[5], row[6]) for row in cursor.fetchall()}
