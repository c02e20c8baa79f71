"""Quota kept in memory: what did not change since the last reading is neither read nor added up again.

Input: clusters, where their sources stand, and who owns what; output: their views, each equal to what a full reading
would give. The discipline is that of fleets (docs/adr/0008, apps/observations/keeping.py):
- Whoever writes objects, work, nodes or pods moves a source's `last_run_at` in the same transaction, and writes
  `observed_at` or `gone_at` not before the newest one there, but for SKEW. Marks are read before rows.
- Where no mark moved, everything is kept. Where one did, the rows that changed lately are looked at: a kind of objects
  is read again where something of it changed, sums of work where work did, flavors' reach where nodes or flavors did;
  what work of Volcano holds, and what its plugins count, where pods, too, may have changed. A part is read whole.
- Who owns what is read each time.
- A mark or a clock that goes back, another number of living objects or of waiting work than expected (counted now and
  then), another cluster row: everything is read anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db import connection

from apps.fleet.models import Cluster
from apps.fleet.selectors import BindingIndex, BoundThing
from apps.observations.keeping import BESIDE, COUNT_AGAIN, SKEW, Keeper, Marks, same_row
from apps.observations.models import Source
from apps.observations.selectors import source_runs
from apps.quotas.held import asked_by_queue, held_by_queue
from apps.quotas.reading import KINDS, ClusterView, Reading, read_clusters, read_objects, read_reach, view_of
from apps.quotas.volcano_reading import VolcanoSupply, volcano_supply

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OBJECTS, _WORK, _NODES = "observations_clusterobject", "observations_workload", "observations_node"

# The newest change is looked up by itself, so that a first look does not read the whole past.
_LOOK = """
WITH newest AS (
  SELECT greatest(max(observed_at), max(gone_at)) - %(skew)s AS at FROM {table} WHERE {of}),
changes AS (
  SELECT {kind} AS kind, uid, observed_at AS at FROM {table}
  WHERE {of} AND observed_at > least(%(since)s, (SELECT at FROM newest))
  UNION ALL
  SELECT {kind}, uid, gone_at FROM {table}
  WHERE {of} AND gone_at IS NOT NULL AND gone_at > least(%(since)s, (SELECT at FROM newest)))
SELECT (SELECT at FROM newest), kind,
  count(*) FILTER (WHERE changes.at > %(since)s), sum({digest}) FILTER (WHERE changes.at > %(since)s),
  count(*) FILTER (WHERE changes.at > newest.at), sum({digest}) FILTER (WHERE changes.at > newest.at)
FROM changes, newest GROUP BY kind
"""
_DIGEST = "hashtextextended(uid || extract(epoch FROM changes.at)::text, 0)::numeric"
_COUNTS = """
SELECT (SELECT count(*) FROM observations_clusterobject
        WHERE cluster_id = %(cluster)s AND gone_at IS NULL AND kind = ANY(%(kinds)s)),
  (SELECT count(*) FROM observations_workload
   WHERE cluster_id = %(cluster)s AND gone_at IS NULL AND state = 'pending' AND active)
"""
_HAS_GROUPS = """
SELECT EXISTS (SELECT FROM observations_workload
               WHERE cluster_id = %s AND kind = 'PodGroup' AND gone_at IS NULL)
"""

Seen = Mapping[str, tuple[int, Decimal]]
"""By kind: how many changes, and a sum over them that differs where one of them does."""


@dataclass(frozen=True, slots=True)
class Look:
    """The changes of a table after `since`."""

    since: datetime
    seen: Seen


@dataclass(frozen=True, slots=True)
class Kept:
    """One cluster as of `marks`. `owners`: who owns what of it; `looks` by table; `counted_at`: when numbers were last
    checked. While nothing differs, `view` is the same object."""

    marks: Marks
    now: datetime
    cluster: Cluster
    reading: Reading
    owners: Mapping[BoundThing, int]
    view: ClusterView
    looks: Mapping[str, Look]
    counted_at: datetime


def kept_views(
    clusters: Sequence[Cluster],
    *,
    now: datetime,
    runs: Mapping[int, Mapping[str, datetime]],
    bindings: BindingIndex,
) -> dict[int, ClusterView]:
    """`runs`: where sources stand, read before anything else; `bindings`: who owns what now."""
    owners: dict[int, dict[BoundThing, int]] = {cluster.pk: {} for cluster in clusters}
    for thing, team in bindings.owners.items():
        owners[thing.cluster_id][thing] = team
    return {
        cluster.pk: STORE.get(
            cluster, marks=Marks(runs.get(cluster.pk, {})), now=now, owners=owners[cluster.pk]
        ).view
        for cluster in clusters
    }


def full(cluster: Cluster, *, marks: Marks, now: datetime, owners: Mapping[BoundThing, int]) -> Kept:
    """Read a whole cluster."""
    looks = {table: _look(cluster, table, None)[1] for table in (_OBJECTS, _WORK, _NODES)}
    reading = read_clusters([cluster])[cluster.pk]
    view = _view(cluster, reading, owners, now)
    return Kept(marks, now, cluster, reading, owners, view, looks, counted_at=now)


def _view(cluster: Cluster, reading: Reading, owners: Mapping[BoundThing, int], now: datetime) -> ClusterView:
    return view_of(cluster, reading, BindingIndex(now, dict(owners)), made={})


def is_current(
    kept: Kept, cluster: Cluster, *, marks: Marks, now: datetime, owners: Mapping[BoundThing, int]
) -> bool:
    return (
        kept.marks == marks
        and kept.owners == owners
        and same_row(kept.cluster, cluster)
        and kept.now - BESIDE <= now
    )


def advance(
    before: Kept, cluster: Cluster, *, marks: Marks, now: datetime, owners: Mapping[BoundThing, int]
) -> Kept:
    """The cluster as of `marks`, from what is kept of it."""
    if now < before.now - BESIDE or marks.behind(before.marks) or not same_row(before.cluster, cluster):
        return full(cluster, marks=marks, now=now, owners=owners)
    kept = replace(before, marks=marks, now=now, owners=owners)
    if marks != before.marks:
        changed, looks = _look_everywhere(before, cluster)
        reading = _read_again(before, cluster, changed, marks)
        kept = replace(kept, reading=reading, looks=looks)
        if now - before.counted_at >= COUNT_AGAIN:
            if not _adds_up(cluster, reading):
                return full(cluster, marks=marks, now=now, owners=owners)
            kept = replace(kept, counted_at=now)
    if kept.reading is before.reading and owners == before.owners:
        return kept
    return replace(kept, view=_view(cluster, kept.reading, owners, now))


# ---- what changed ---------------------------------------------------------------------------------------------


def _look(cluster: Cluster, table: str, before: Look | None) -> tuple[set[str], Look]:
    """(kinds of which something changed since `before`, what to compare with next time), in one statement."""
    of, kind = "cluster_id = %(cluster)s", "''"
    if table == _OBJECTS:
        of, kind = of + " AND kind = ANY(%(kinds)s)", "kind"
    statement = _LOOK.format(table=table, of=of, kind=kind, digest=_DIGEST)
    since = before.since if before else datetime.max.replace(tzinfo=UTC)
    parameters: dict[str, Any] = {"cluster": cluster.pk, "since": since, "skew": SKEW, "kinds": list(KINDS)}
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        rows = cursor.fetchall()
    seen = {row[1]: (row[2], row[3]) for row in rows if row[2]}
    if before is not None and seen == before.seen:
        return set(), before
    known = before.seen if before else {}
    changed = {each for each in seen.keys() | known.keys() if seen.get(each) != known.get(each)}
    newest = rows[0][0] if rows else _EPOCH
    return changed, Look(newest, {row[1]: (row[4], row[5]) for row in rows if row[4]})


def _look_everywhere(before: Kept, cluster: Cluster) -> tuple[dict[str, set[str]], dict[str, Look]]:
    found = {table: _look(cluster, table, look) for table, look in before.looks.items()}
    return {table: changed for table, (changed, _) in found.items()}, {
        table: look for table, (_, look) in found.items()
    }


def _read_again(before: Kept, cluster: Cluster, changed: Mapping[str, set[str]], marks: Marks) -> Reading:
    """What was read, with the parts that may differ read again; the same object where none may."""
    was, reading, ids = before.reading, before.reading, [cluster.pk]
    if kinds := changed[_OBJECTS]:
        again = read_objects([cluster], [kind for kind in KINDS if kind in kinds])[cluster.pk]
        reading = replace(reading, objects={**was.objects, **again})
    if changed[_NODES] or "ResourceFlavor" in kinds:
        reach = read_reach({cluster.pk: reading.objects})[cluster.pk]
        if reach != was.reach:
            reading = replace(reading, reach=reach)
    pods = marks.moved(before.marks, Source.PODS)
    if changed[_WORK] or (pods and _has_groups(cluster)):
        held = held_by_queue(cluster_ids=ids)
        if not _same(held, was.held):
            reading = replace(reading, held=held)
    if changed[_WORK]:
        reading = replace(reading, asked=asked_by_queue(cluster_ids=ids))
    if reading.objects["VolcanoQueue"]:
        supply = volcano_supply(cluster_ids=ids)[cluster.pk]
        if supply != was.volcano:
            reading = replace(reading, volcano=supply)
    elif was.volcano != VolcanoSupply():
        reading = replace(reading, volcano=VolcanoSupply())
    return reading


def _same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(some) == len(others) and set(some) == set(others)


def _has_groups(cluster: Cluster) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_HAS_GROUPS, [cluster.pk])
        return bool(cursor.fetchone()[0])


def _adds_up(cluster: Cluster, reading: Reading) -> bool:
    """Whether there are as many objects and as much waiting work as was read."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS, {"cluster": cluster.pk, "kinds": list(KINDS)})
        found: tuple[int, int] = cursor.fetchone()
    waits = sum(row.count for row in reading.asked if not row.resource)
    return found == (_number(reading.objects.values()), waits)


def _number(parts: Iterable[Sequence[object]]) -> int:
    return sum(len(part) for part in parts)


class Store(Keeper[Kept]):
    """What one process keeps of quota."""

    def get(self, cluster: Cluster, *, marks: Marks, now: datetime, owners: Mapping[BoundThing, int]) -> Kept:
        return self.keep(
            cluster,
            marks=marks,
            now=now,
            again=lambda: Marks(source_runs(clusters=[cluster]).get(cluster.pk, {})),
            is_current=lambda kept, marks: is_current(kept, cluster, marks=marks, now=now, owners=owners),
            full=lambda marks: full(cluster, marks=marks, now=now, owners=owners),
            advance=lambda kept, marks: advance(kept, cluster, marks=marks, now=now, owners=owners),
        )


STORE = Store()
