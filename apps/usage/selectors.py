"""Held quota and capacity over time, from hourly rollups. `team_ids`: None reads all teams and unbound work.

A window is widened to whole hours, because that is what the rollups hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from django.db import connection
from django.db.models import F, Q, QuerySet, Sum
from django.utils.translation import gettext as _

from apps.accounts.models import Team
from apps.core.windows import Bucket, Window
from apps.fleet.models import Cluster
from apps.fleet.selectors import UNBOUND
from apps.usage.models import ALLOCATION, AllocationHour, UsageHour, Watermark

UsageBy = Literal["team", "queue", "flavor", "resource", "cluster"]
# `UsageCriteria.team` of work that no team owns.


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
    """Mean units held (reserved) per bucket and key, over the part of the bucket that was rolled up.
    None: nothing rolled up in that bucket; 0 is a real zero."""

    bucket: Bucket
    buckets: Sequence[Window]
    values: Mapping[str, Sequence[Decimal | None]]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CapacitySeries:
    """A pool's supply per hour in its own units; None: no snapshot in that hour, or nothing promised."""

    hours: Sequence[datetime]
    physical: Sequence[Decimal | None]
    allocatable: Sequence[Decimal | None]
    held: Sequence[Decimal | None]
    nominal: Sequence[Decimal | None]
    stranded: Sequence[Decimal | None] = ()


def usage_hours(
    *, window: Window, team_ids: Collection[int] | None, criteria: UsageCriteria | None = None
) -> QuerySet[UsageHour]:
    """The rollup rows of the window's whole hours, narrowed to the reader's teams before anything else."""
    wanted = criteria or UsageCriteria()
    hours = window.aligned(Bucket.HOUR)
    rows = UsageHour.objects.filter(hour__gte=hours.start, hour__lt=hours.end)
    if team_ids is not None:
        rows = rows.filter(team_id__in=list(team_ids))
    conditions = Q()
    if wanted.cluster:
        conditions &= Q(cluster__slug=wanted.cluster)
    if wanted.team:
        conditions &= Q(team=None) if wanted.team == UNBOUND else Q(team__slug=wanted.team)
    for name in ("queue", "flavor", "resource"):
        if value := getattr(wanted, name):
            conditions &= Q(**{name: value})
    return rows.filter(conditions)


def usage_rows(
    *, window: Window, team_ids: Collection[int] | None, criteria: UsageCriteria | None = None
) -> list[UsageRow]:
    """Sums over the window, in a stable order."""
    keys = ("cluster_id", "team_id", "queue", "flavor", "resource")
    sums = (
        usage_hours(window=window, team_ids=team_ids, criteria=criteria)
        .values(*keys)
        .annotate(reserved=Sum("reserved_unit_seconds"), admitted=Sum("admitted_unit_seconds"))
        .order_by("cluster__slug", F("team__slug").asc(nulls_last=True), "queue", "flavor", "resource")
    )
    names = _Names()
    return [
        UsageRow(
            **names.of(row["cluster_id"], row["team_id"]),
            queue=row["queue"],
            flavor=row["flavor"],
            resource=row["resource"],
            reserved_unit_seconds=row["reserved"],
            admitted_unit_seconds=row["admitted"],
        )
        for row in sums
    ]


class _Names:
    """Slugs and names of clusters and teams, one query each."""

    def __init__(self) -> None:
        self.clusters = {c.pk: c for c in Cluster.objects.only("slug", "name")}
        self.teams = {t.pk: t for t in Team.objects.only("slug", "name")}

    def of(self, cluster_id: int, team_id: int | None) -> dict[str, Any]:
        cluster, team = self.clusters[cluster_id], self.teams.get(team_id or 0)
        return {
            "cluster_id": cluster_id,
            "cluster_slug": cluster.slug,
            "cluster_name": cluster.name,
            "team_id": team_id,
            "team_slug": team.slug if team else "",
            "team_name": team.name if team else "",
        }


_KEY_FIELD = {
    "team": "team__slug",
    "cluster": "cluster__slug",
    "queue": "queue",
    "flavor": "flavor",
    "resource": "resource",
}


def usage_series(
    *,
    window: Window,
    bucket: Bucket,
    resource: str,
    by: UsageBy = "team",
    team_ids: Collection[int] | None,
    criteria: UsageCriteria | None = None,
) -> UsageSeries:
    """Mean units of one resource. Every bucket is whole: the window is widened to the bucket's grid."""
    covered = window.aligned(bucket)
    rows = usage_hours(window=covered, team_ids=team_ids, criteria=criteria).filter(resource=resource)
    buckets = list(covered.buckets(bucket))
    index = {piece.start: i for i, piece in enumerate(buckets)}
    lengths = _rolled_seconds(buckets)
    sums: dict[str, list[Decimal]] = {}
    for hour, key, units in rows.values_list("hour", _KEY_FIELD[by]).annotate(Sum("reserved_unit_seconds")):
        start = hour if bucket is Bucket.HOUR else hour.replace(hour=0)
        line = sums.setdefault(key or UNBOUND, [Decimal(0)] * len(buckets))
        line[index[start]] += units
    return UsageSeries(
        bucket=bucket,
        buckets=buckets,
        values={
            key: [total / length if length else None for total, length in zip(line, lengths, strict=True)]
            for key, line in sorted(sums.items())
        },
        labels=_labels(by, sums),
    )


def _labels(by: UsageBy, keys: Collection[str]) -> dict[str, str]:
    names: dict[str, str] = {}
    if by == "team":
        names = dict(Team.objects.filter(slug__in=list(keys)).values_list("slug", "name"))
        names[UNBOUND] = _("no team")
    elif by == "cluster":
        names = dict(Cluster.objects.filter(slug__in=list(keys)).values_list("slug", "name"))
    return {key: names.get(key, key) for key in keys}


_EXTENT = """
SELECT min(s.started_at), max(w.done_until) FROM usage_watermark w
CROSS JOIN LATERAL (SELECT min(started_at) AS started_at FROM observations_statespan
  WHERE cluster_id = w.cluster_id) s
WHERE w.rollup = 'usage_reach'
"""


def rolled_up() -> tuple[datetime, datetime] | None:
    """From the first observed state to the instant up to which use was added up; None before the first rollup."""
    with connection.cursor() as cursor:
        cursor.execute(_EXTENT)
        first, reach = cursor.fetchone()
    return None if first is None or reach is None else (first, reach)


def _rolled_seconds(buckets: Sequence[Window]) -> list[Decimal]:
    extent = rolled_up()
    if extent is None:
        return [Decimal(0)] * len(buckets)
    low, high = extent
    parts = (min(piece.end, high) - max(piece.start, low) for piece in buckets)
    return [Decimal(max(part, timedelta(0)) // timedelta(microseconds=1)) / 1_000_000 for part in parts]


def watermarks() -> dict[int, datetime]:
    """{cluster id: end of the last finished hour} of the usage rollup: its own freshness."""
    return dict(Watermark.objects.filter(rollup="usage_hours").values_list("cluster_id", "done_until"))


def first_allocation() -> datetime | None:
    """When the first hour of what was held begins."""
    rows = AllocationHour.objects.order_by("starts_at").values_list("starts_at", flat=True)
    return rows.first()


def computed_until(clusters: Collection[Cluster]) -> datetime | None:
    """Up to where hours of what was held are finished for all of them; None: not one is for some."""
    done = allocation_done_until()
    marks = [done.get(cluster.pk) for cluster in clusters]
    known = [mark for mark in marks if mark is not None]
    return min(known) if known and len(known) == len(marks) else None


def allocation_done_until() -> dict[int, datetime]:
    """By cluster, up to where hours of what was held are finished."""
    marks = Watermark.objects.filter(rollup=ALLOCATION).values_list("cluster_id", "done_until")
    return dict(marks)
