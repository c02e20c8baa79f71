"""What kept work from running, from the rollups: over time, by queue, by hour of the week, against the week before.

Input: a window, criteria and the reader's teams; output: frozen series and tables. Amounts are hours: of pieces of work
(`resource` ""), or unit-hours of one device; kinds of devices are never added up. A bucket's work-hours over its length
are the mean number of pieces of work that were blocked. Every amount has `query`, the filter that leads to the work
behind it. Invariant: within one reading the sums over any grouping are equal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Literal

from django.db.models import Q, Sum
from django.db.models.functions import ExtractHour, ExtractIsoWeekDay
from django.utils.translation import gettext as _

from apps.accounts.models import Team
from apps.admissions.labels import NO_REASON, cause_label, layer_label, reason_label
from apps.core.windows import Window, floor_hour
from apps.fleet.models import Cluster
from apps.fleet.selectors import UNBOUND
from apps.usage.admission_reading import (
    WEEK,
    AdmissionCriteria,
    Reading,
    RolledUp,
    condition,
    reading,
    rolled_up,
)
from apps.usage.models import BlockHour, Step

BlockBy = Literal["cause", "layer", "reason", "queue", "team", "flavor", "cluster"]
Query = Mapping[str, str]

_FIELDS: Mapping[str, str] = {"team": "team__slug", "cluster": "cluster__slug"}
HEAT_WEEKS = 4
_HOUR = Decimal(3600)


@dataclass(frozen=True, slots=True)
class BlockedSeries:
    """`hours[key][i]` belongs to `buckets[i]`, None where nothing was rolled up; the key with most first."""

    reading: Reading
    buckets: Sequence[Window]
    hours: Mapping[str, Sequence[Decimal | None]]
    labels: Mapping[str, str]
    by: BlockBy
    criteria: AdmissionCriteria

    @property
    def totals(self) -> dict[str, Decimal]:
        return {key: sum((v for v in line if v is not None), Decimal(0)) for key, line in self.hours.items()}

    def query(self, key: str, bucket: Window | None = None) -> dict[str, str]:
        """The filter of the work behind one bar, or of all of a key."""
        return query_of(self.criteria, bucket or self.reading.covered, **{self.by: key})


@dataclass(frozen=True, slots=True)
class BlockedCell:
    """One cell of a table: `hours` blocked, and the filter that leads to the work."""

    row: str
    column: str
    hours: Decimal
    query: Query


@dataclass(frozen=True, slots=True)
class BlockedTable:
    """Hours blocked in `covered`; rows and columns with the largest sums first."""

    covered: Window
    rows: Sequence[str]
    columns: Sequence[str]
    row_labels: Mapping[str, str]
    column_labels: Mapping[str, str]
    cells: Mapping[tuple[str, str], BlockedCell]


@dataclass(frozen=True, slots=True)
class WeekHeat:
    """`hours[weekday][hour]`, Monday first, in UTC: the mean of the whole weeks in `covered`. None: less than a week is
    rolled up."""

    covered: Window
    weeks: int
    hours: Sequence[Sequence[Decimal]]


@dataclass(frozen=True, slots=True)
class Trend:
    """Hours blocked in `covered` and in the same stretch `shift` earlier; `before` None: that was not rolled up."""

    key: str
    label: str
    covered: Window
    shift: timedelta
    hours: Decimal
    before: Decimal | None
    query: Query

    @property
    def change(self) -> Decimal | None:
        """Share of what it was: 0.25 is a quarter more. None where there was nothing to compare with."""
        return (self.hours - self.before) / self.before if self.before else None


def query_of(criteria: AdmissionCriteria, window: Window, **narrowed: str) -> dict[str, str]:
    """Query parameters of the work behind a number; what is "" is left out."""
    chosen = {
        name: getattr(criteria, name)
        for name in ("cluster", "team", "queue", "flavor", "layer", "cause", "reason", "resource", "size")
    }
    found = {name: value for name, value in {**chosen, **narrowed}.items() if value}
    return {**found, "from": f"{window.start:%Y-%m-%dT%H:%M:%SZ}", "to": f"{window.end:%Y-%m-%dT%H:%M:%SZ}"}


def _rows(read: Reading, *, team_ids: Collection[int] | None, criteria: AdmissionCriteria) -> Q:
    """`resource` is always narrowed: "" reads pieces of work."""
    found = condition(
        read, team_ids=team_ids, criteria=replace(criteria, reason=""), fields=("flavor", "layer", "cause")
    )
    if criteria.reason:
        found &= Q(reason="" if criteria.reason == NO_REASON else criteria.reason)
    return found & Q(resource=criteria.resource, current=True)


def blocked_resources(
    *, window: Window, team_ids: Collection[int] | None, criteria: AdmissionCriteria | None = None
) -> list[str]:
    """The devices that blocked work asked for, in alphabetical order."""
    wanted, read = criteria or AdmissionCriteria(), reading(window)
    rows = condition(read, team_ids=team_ids, criteria=wanted, fields=("flavor", "layer", "cause"))
    found = BlockHour.objects.filter(rows, current=True).exclude(resource="").order_by("resource")
    return list(found.values_list("resource", flat=True).distinct())


def blocked_series(
    *,
    window: Window,
    by: BlockBy = "cause",
    team_ids: Collection[int] | None,
    criteria: AdmissionCriteria | None = None,
    step: Step | None = None,
) -> BlockedSeries:
    """Hours blocked per step of the window and per key."""
    wanted, read = criteria or AdmissionCriteria(), reading(window, step)
    buckets = read.pieces
    index = {piece.start: i for i, piece in enumerate(buckets)}
    until = rolled_up(wanted).until
    known = [until is not None and piece.start < until for piece in buckets]
    lines: dict[str, list[Decimal | None]] = {}
    rows = BlockHour.objects.filter(_rows(read, team_ids=team_ids, criteria=wanted))
    for hour, key, seconds in rows.values_list("hour", _FIELDS.get(by, by)).annotate(Sum("seconds")):
        line = lines.setdefault(
            _key(by, key), [Decimal(0) if known[i] else None for i in range(len(buckets))]
        )
        line[index[hour]] = seconds / _HOUR
    order = sorted(lines, key=lambda key: (-sum(v or 0 for v in lines[key]), key))
    return BlockedSeries(
        read, buckets, {key: lines[key] for key in order}, block_labels(by, order), by, wanted
    )


def _key(by: str, found: str | None) -> str:
    if by == "team":
        return found or UNBOUND
    return found or NO_REASON if by == "reason" else found or ""


def block_labels(by: str, keys: Iterable[str]) -> dict[str, str]:
    """What to call the keys of a grouping."""
    keys = list(keys)
    if by == "team":
        names = dict(Team.objects.filter(slug__in=keys).values_list("slug", "name"))
        return {key: names.get(key) or _("no team") for key in keys}
    if by == "cluster":
        names = dict(Cluster.objects.filter(slug__in=keys).values_list("slug", "name"))
        return {key: names.get(key, key) for key in keys}
    say = {"cause": cause_label, "layer": layer_label, "reason": reason_label}.get(by)
    return {key: say(key) if say else key for key in keys}


def blocked_table(
    *,
    window: Window,
    rows: BlockBy = "cause",
    columns: BlockBy = "queue",
    team_ids: Collection[int] | None,
    criteria: AdmissionCriteria | None = None,
) -> BlockedTable:
    """Hours blocked by two keys, e.g. cause × queue. Up to a week in whole hours, as the trend beside it: whole days
    would add up to more than the trend does."""
    wanted = criteria or AdmissionCriteria()
    read = reading(window, Step.HOUR if window.length <= WEEK else None)
    found = BlockHour.objects.filter(_rows(read, team_ids=team_ids, criteria=wanted))
    sums = found.values_list(_FIELDS.get(rows, rows), _FIELDS.get(columns, columns)).annotate(Sum("seconds"))
    cells: dict[tuple[str, str], BlockedCell] = {}
    of_row: dict[str, Decimal] = {}
    of_column: dict[str, Decimal] = {}
    for row, column, seconds in sums:
        key = _key(rows, row), _key(columns, column)
        hours = seconds / _HOUR
        query = query_of(wanted, read.covered, **{rows: key[0], columns: key[1]})
        cells[key] = BlockedCell(*key, hours, query)
        of_row[key[0]] = of_row.get(key[0], Decimal(0)) + hours
        of_column[key[1]] = of_column.get(key[1], Decimal(0)) + hours
    row_order = sorted(of_row, key=lambda key: (-of_row[key], key))
    column_order = sorted(of_column, key=lambda key: (-of_column[key], key))
    labels = block_labels(rows, row_order), block_labels(columns, column_order)
    return BlockedTable(read.covered, row_order, column_order, *labels, cells)


def blocked_by_hour_of_week(
    *,
    window: Window,
    team_ids: Collection[int] | None,
    criteria: AdmissionCriteria | None = None,
    rolled: RolledUp | None = None,
) -> WeekHeat | None:
    """When in the week work is blocked: the last whole weeks of the window, HEAT_WEEKS at most, so that every hour of the
    week counts as often and a long window reads no more than a short one. `rolled`: `rolled_up` of the same criteria, where
    the caller has it."""
    wanted = criteria or AdmissionCriteria()
    until = (rolled or rolled_up(wanted)).until
    end = floor_hour(window.end if until is None else min(window.end, until))
    weeks = min(HEAT_WEEKS, (end - window.start) // WEEK)
    if weeks < 1:
        return None
    read = reading(Window(end - weeks * WEEK, end), Step.HOUR)
    rows = BlockHour.objects.filter(_rows(read, team_ids=team_ids, criteria=wanted)).annotate(
        day=ExtractIsoWeekDay("hour"), clock=ExtractHour("hour")
    )
    found = [[Decimal(0)] * 24 for _day in range(7)]
    for day, clock, seconds in rows.values_list("day", "clock").annotate(Sum("seconds")):
        found[day - 1][clock] = seconds / _HOUR / weeks
    return WeekHeat(read.covered, weeks, found)


def blocked_trend(
    *,
    window: Window,
    by: BlockBy = "cause",
    team_ids: Collection[int] | None,
    criteria: AdmissionCriteria | None = None,
    rolled: RolledUp | None = None,
) -> list[Trend]:
    """The last week of the window (all of a shorter one), in whole hours, against the same stretch a week before; the
    largest first. `rolled` as above; the chosen clusters are known from the latest of their beginnings on."""
    wanted = criteria or AdmissionCriteria()
    end = floor_hour(window.end)
    now = Window(max(floor_hour(window.start), end - WEEK), end) if floor_hour(window.start) < end else window
    reads = [reading(piece, Step.HOUR) for piece in (now, Window(now.start - WEEK, now.end - WEEK))]
    sums = [_sums(read, by, team_ids, wanted) for read in reads]
    first = (rolled or rolled_up(wanted)).since
    known = first is not None and first <= reads[1].covered.start
    keys = sorted({*sums[0], *sums[1]}, key=lambda key: (-sums[0].get(key, Decimal(0)), key))
    labels = block_labels(by, keys)
    return [
        Trend(
            key,
            labels[key],
            reads[0].covered,
            WEEK,
            sums[0].get(key, Decimal(0)),
            sums[1].get(key, Decimal(0)) if known else None,
            query_of(wanted, reads[0].covered, **{by: key}),
        )
        for key in keys
    ]


def _sums(
    read: Reading, by: str, team_ids: Collection[int] | None, criteria: AdmissionCriteria
) -> dict[str, Decimal]:
    rows = BlockHour.objects.filter(_rows(read, team_ids=team_ids, criteria=criteria))
    found = rows.values_list(_FIELDS.get(by, by)).annotate(Sum("seconds"))
    return {_key(by, key): seconds / _HOUR for key, seconds in found}
