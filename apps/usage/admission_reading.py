"""What the rollups of waiting work are narrowed to, and in what steps they are read.

Input: a window and criteria; output: covered windows, and conditions on the rows. Invariants: a window is widened to whole
steps, which is said (`Reading.covered`); the longer the window, the coarser the step, so that a year reads about as many
rows as a month; a team that the reader may not see has no rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import Q

from apps.accounts.models import Team
from apps.core.windows import DAY, HOUR, HOURLY_UP_TO, Window, floor_hour
from apps.fleet.models import Cluster
from apps.fleet.selectors import UNBOUND
from apps.usage.models import Step, Watermark

WEEK = timedelta(days=7)
DAILY_UP_TO = timedelta(days=62)
LENGTHS: Mapping[str, timedelta] = {Step.HOUR: HOUR, Step.DAY: DAY, Step.WEEK: WEEK}
# Three marks per cluster: the end of the finished hours, from where on and up to where everything is added up.
ROLLUP, SINCE, REACH = "admission_hours", "admission_since", "admission_reach"


@dataclass(frozen=True, slots=True)
class AdmissionCriteria:
    """What is read of waiting work; "" means any. `reason` is the cluster's token (NO_REASON: none); `resource` a device,
    `size` one of apps.admissions.sizes."""

    cluster: str = ""
    team: str = ""
    queue: str = ""
    flavor: str = ""
    layer: str = ""
    cause: str = ""
    reason: str = ""
    resource: str = ""
    size: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """`covered`: the whole steps that are read."""

    step: Step
    covered: Window

    @property
    def pieces(self) -> list[Window]:
        length, found = LENGTHS[self.step], []
        start = self.covered.start
        while start < self.covered.end:
            found.append(Window(start, start + length))
            start += length
        return found


def floor_step(at: datetime, step: str) -> datetime:
    """The start of the UTC hour, day or week (Monday) that `at` lies in."""
    hour = floor_hour(at)
    if step == Step.HOUR:
        return hour
    day = hour.replace(hour=0)
    return day if step == Step.DAY else day - timedelta(days=day.weekday())


def reading(window: Window, step: Step | None = None) -> Reading:
    """Hours up to three days, days up to two months, weeks beyond, unless a step is asked for."""
    if step is None:
        long = window.length > DAILY_UP_TO
        step = Step.WEEK if long else Step.HOUR if window.length <= HOURLY_UP_TO else Step.DAY
    start, end = floor_step(window.start, step), floor_step(window.end, step)
    return Reading(step, Window(start, end if end == window.end else end + LENGTHS[step]))


def condition(
    read: Reading,
    *,
    team_ids: Collection[int] | None,
    criteria: AdmissionCriteria,
    fields: Collection[str] = (),
) -> Q:
    """The rows to read; `fields` of the criteria beyond cluster, team and queue that the table has."""
    found = Q(step=read.step, hour__gte=read.covered.start, hour__lt=read.covered.end)
    if team_ids is not None:
        found &= Q(team_id__in=list(team_ids))
    if criteria.cluster:
        found &= Q(
            cluster__in=list(Cluster.objects.filter(slug=criteria.cluster).values_list("pk", flat=True))
        )
    if criteria.team == UNBOUND:
        found &= Q(team=None)
    elif criteria.team:
        found &= Q(team__in=list(Team.objects.filter(slug=criteria.team).values_list("pk", flat=True)))
    if criteria.queue:
        found &= Q(queue=criteria.queue)
    for field in fields:
        if value := getattr(criteria, field):
            found &= Q(**{field: value})
    return found


@dataclass(frozen=True, slots=True)
class RolledUp:
    """What the rollups of all chosen clusters know: [`since`, `until`) is computed, before `done_until` for good. None:
    nothing yet. A cluster without a rollup is in `missing`."""

    since: datetime | None
    until: datetime | None
    done_until: datetime | None
    missing: tuple[str, ...]


def rolled_up(criteria: AdmissionCriteria) -> RolledUp:
    """How far the rollups of the chosen clusters are: the least of them."""
    clusters = Cluster.objects.filter(enabled=True)
    if criteria.cluster:
        clusters = clusters.filter(slug=criteria.cluster)
    names = dict(clusters.values_list("pk", "name"))
    marks: dict[str, dict[int, datetime]] = {}
    found = Watermark.objects.filter(rollup__in=(ROLLUP, SINCE, REACH), cluster__in=list(names))
    for rollup, cluster_id, at in found.values_list("rollup", "cluster_id", "done_until"):
        marks.setdefault(rollup, {})[cluster_id] = at
    return RolledUp(
        since=max(marks.get(SINCE, {}).values(), default=None),
        until=min(marks.get(REACH, {}).values(), default=None),
        done_until=min(marks.get(ROLLUP, {}).values(), default=None),
        missing=tuple(name for pk, name in sorted(names.items()) if pk not in marks.get(REACH, {})),
    )


def share(part: int | Decimal, whole: int | Decimal) -> Decimal | None:
    """0…1; None of nothing."""
    return Decimal(part) / Decimal(whole) if whole else None
