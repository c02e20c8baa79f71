"""Quota and its use in an imported past, so that charts do not begin with the first live pull.

Input: the stretches of work as stored, and queues as they are specified now; output: QuotaPoint rows, hour by hour, by the
functions that make those of the present. Invariants: only time after the newest noting is written, so that a second
import writes nothing; two statements whatever the length of the past.

What the past does not say is left out: specs are those of now, and of claimed devices (Volcano's "deviceclass/…" rows)
nothing is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import connection, transaction

from apps.core.windows import HOUR, floor_hour
from apps.fleet.models import Cluster
from apps.fleet.selectors import BindingIndex
from apps.observations.models import StateSpan
from apps.quotas.held import POD_GROUP, Asked, Held
from apps.quotas.history import (
    SOURCE_OF_KIND,
    Key,
    changed_points,
    mark_of,
    newest_points,
    prolong,
    row_numbers,
)
from apps.quotas.history_steps import NUMBERS
from apps.quotas.kueue import quota_node
from apps.quotas.models import QuotaPoint
from apps.quotas.reading import ZERO, Item, Reading, read_clusters, view_of
from apps.quotas.selectors import forest_of
from apps.quotas.snapshot import Snapshot
from apps.quotas.volcano_reading import DEVICE_CLASS, VolcanoSupply

_TREE = ("ClusterQueue", "Cohort")
_SOURCES = tuple(dict.fromkeys(SOURCE_OF_KIND.values()))

# The full hours within each stretch.
_HOURS = """
FROM observations_statespan s
CROSS JOIN LATERAL generate_series(
  date_trunc('hour', greatest(s.started_at, %(since)s) - interval '1 microsecond', 'UTC') + interval '1 hour',
  least(coalesce(s.ended_at, 'infinity') - interval '1 microsecond', %(until)s), interval '1 hour') AS at
"""
_WHERE = """
WHERE s.cluster_id = %(cluster)s AND s.started_at <= %(until)s AND coalesce(s.ended_at, 'infinity') > %(since)s
"""
_HELD = f"""
SELECT at, s.kind, s.namespace, s.queue_name, s.queue, coalesce(u.flavor, ''), u.resource,
  sum(u.quantity), coalesce(sum(u.quantity) FILTER (WHERE s.state = 'admitted'), 0)
{_HOURS} CROSS JOIN LATERAL jsonb_to_recordset(s.usage) AS u(flavor text, resource text, quantity numeric)
{_WHERE} AND s.state IN ('reserved', 'admitted') AND s.usage <> '[]'
GROUP BY 1, 2, 3, 4, 5, 6, 7
"""
_ASKED = f"""
SELECT at, s.kind, s.namespace, s.queue_name, r.key, sum(r.amount), count(*)
{_HOURS} CROSS JOIN LATERAL (
  SELECT key, value::numeric AS amount FROM jsonb_each_text(s.requests) UNION ALL SELECT '', 0) r
{_WHERE} AND s.state = 'pending'
GROUP BY 1, 2, 3, 4, 5
"""  # noqa: S608


@dataclass(slots=True)
class _Hour:
    """What work held and asked for at a moment."""

    held: list[Held] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)


def note_past(*, cluster: Cluster, now: datetime) -> int:
    """Write the points of the full hours since the newest noting of each source; returns how many."""
    spans = StateSpan.objects.filter(cluster=cluster).order_by("started_at")
    first = spans.values_list("started_at", flat=True).first()
    if first is None:
        return 0
    with transaction.atomic():
        newest = newest_points(cluster)
        marks = {source: newest.get(mark_of(source)) for source in _SOURCES}
        since = {source: mark["at"] if mark else first for source, mark in marks.items()}
        start = min(since.values())
        hours = _read(cluster, start, now)
        past = _Past(cluster, now, hours.values())
        made: list[QuotaPoint] = []
        for at in _full_hours(start, now):
            sources = {source for source, known in since.items() if known < at}
            points = list(changed_points(cluster, newest, past.rows(hours[at]), sources, at))
            newest.update({_key(point): _kept(point) for point in points})
            made += points
        QuotaPoint.objects.bulk_create(made, batch_size=2000)
        for source in {SOURCE_OF_KIND[point.kind] for point in made}:
            prolong(cluster, source, marks[source], _first_hour(since[source]), now)
    return len(made)


def _first_hour(since: datetime) -> datetime:
    return floor_hour(since) + HOUR


def _full_hours(since: datetime, until: datetime) -> Iterator[datetime]:
    at = _first_hour(since)
    while at <= until:
        yield at
        at += HOUR


def _key(point: QuotaPoint) -> Key:
    return point.kind, point.queue, point.flavor, point.resource


def _kept(point: QuotaPoint) -> dict[str, Any]:
    return {name: getattr(point, name) for name in ("ended", *NUMBERS)}


def _read(cluster: Cluster, since: datetime, until: datetime) -> Mapping[datetime, _Hour]:
    found: dict[datetime, _Hour] = defaultdict(_Hour)
    parameters: dict[str, Any] = {"cluster": cluster.pk, "since": since, "until": until}
    with connection.cursor() as cursor:
        cursor.execute(_HELD, parameters)
        for at, *row in cursor.fetchall():
            found[at].held.append(Held(cluster.pk, *row))
        cursor.execute(_ASKED, parameters)
        for at, *row in cursor.fetchall():
            found[at].asked.append(Asked(cluster.pk, *row))
    return found


class _Past:
    """Queues as they are specified now, with what work held and asked for at another time."""

    def __init__(self, cluster: Cluster, now: datetime, hours: Iterable[_Hour]) -> None:
        self._cluster, self._now = cluster, now
        reading = read_clusters([cluster])[cluster.pk]
        # Who owns what plays no part in the numbers.
        self._bindings = BindingIndex.load(at=now, clusters=[])
        self._counted = self._accelerators(reading, hours)
        self._reading = replace(reading, objects=_only(reading.objects, self._counted))

    def rows(self, hour: _Hour) -> dict[Key, dict[str, Any]]:
        held = [row for row in hour.held if row.kind == POD_GROUP or row.resource in self._counted]
        reading = replace(self._reading, held=held, asked=hour.asked, volcano=self._supply(held))
        found = row_numbers(forest_of(self._snapshot(reading)))
        return {key: numbers for key, numbers in found.items() if not key[3].startswith(DEVICE_CLASS)}

    def _snapshot(self, reading: Reading) -> Snapshot:
        view = view_of(self._cluster, reading, self._bindings)
        return Snapshot(self._now, {self._cluster.pk: view}, self._bindings, view.work)

    def _accelerators(self, reading: Reading, hours: Iterable[_Hour]) -> frozenset[str]:
        """The resources of which points are written; in Kueue no other plays a part in their numbers."""
        snapshot = self._snapshot(reading)
        cells = {(row.flavor, row.resource) for hour in hours for row in hour.held}
        for kind in _TREE:
            for item in reading.objects[kind]:
                cells |= quota_node(kind, item).cells.keys()
        return frozenset(
            resource
            for flavor, resource in cells
            if snapshot.meaning(self._cluster.pk, flavor, resource).accelerator
        )

    def _supply(self, held: Iterable[Held]) -> VolcanoSupply:
        """What queues ask for is what their work held: the pods of that time are gone."""
        asked: dict[str, dict[str, Decimal]] = defaultdict(dict)
        for row in held:
            if row.kind == POD_GROUP:
                of_queue = asked[row.queue]
                of_queue[row.resource] = of_queue.get(row.resource, ZERO) + row.reserved
        return VolcanoSupply(allocatable=self._reading.volcano.allocatable, asked=asked)


def _only(objects: Mapping[str, Sequence[Item]], resources: Collection[str]) -> dict[str, Sequence[Item]]:
    """The same objects, with the quota of these resources alone in Kueue's tree."""
    trimmed = {
        kind: [
            replace(item, spec={**item.spec, "resource_groups": _groups(item, resources)}) for item in items
        ]
        for kind, items in objects.items()
        if kind in _TREE
    }
    return {**objects, **trimmed}


def _groups(item: Item, resources: Collection[str]) -> list[dict[str, Any]]:
    return [
        {
            **group,
            "flavors": [
                {**flavor, "resources": [one for one in flavor["resources"] if one["name"] in resources]}
                for flavor in group["flavors"]
            ],
        }
        for group in item.spec.get("resource_groups") or ()
    ]
