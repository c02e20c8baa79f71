"""The rollup of what was held: intervals of state, summed by hour and by what they are. Idempotent.

Input: spells of holding (`allocation_loading`); output: rows of AllocationHour. Invariants
- An hour's rows are what the intervals say, whoever computes them and how often: a run locks the mark, deletes hours and
  computes them anew in one transaction per chunk, and only then moves the mark.
- Facts that come late take the mark back to their hour, REDO_AT_MOST at the most; nothing lasts beyond the last good pull.
- What is known only at present (units, cost centres, when nobody could look) is written down first (`remembering`).
- Within an hour rows are cut where a billing period begins or ends, so that a row lies in one period of any zone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import pairwise

from django.db import transaction

from apps.core.windows import HOUR, floor_hour
from apps.fleet.models import Cluster
from apps.usage.admission_rollup import chunks, first_observed
from apps.usage.allocation import Basis, Interval, clip, intervals
from apps.usage.allocation_loading import load
from apps.usage.late import late_from, newest_told, taken_back
from apps.usage.models import ALLOCATION, AllocationHour, Watermark
from apps.usage.remembering import SOURCES, note_present
from apps.usage.services import REDO_AT_MOST, observed_until

ROWS_AT_ONCE = 5000
Kind = tuple[int | None, str, str, str, str, str, str, str, str, str, int | None, int | None, str, bool, str]
_FIELDS = (
    *("team_id", "cost_centre", "basis", "kind", "queue", "flavor", "resource", "model", "sharing_mode"),
    *("profile", "weight_over", "weight_under", "priority_class", "borrowed", "seen"),
)


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
    first = first_observed(cluster)
    if first is None:
        return AllocationRollup(None, None, 0)
    if cluster.enabled:
        note_present(cluster=cluster, now=now)
    observed = observed_until(cluster=cluster, now=now, sources=SOURCES)
    until, done_until = max(observed.values()), floor_hour(max(min(observed.values()), now - REDO_AT_MOST))
    newest, newest_run = newest_told(cluster, now)
    start = _begin(cluster, first=first, now=now)
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
    return AllocationRollup(start, max(until, start), rows)


def _begin(cluster: Cluster, *, first: datetime, now: datetime) -> datetime:
    with transaction.atomic():
        Watermark.objects.get_or_create(
            cluster=cluster, rollup=ALLOCATION, defaults={"done_until": floor_hour(first)}
        )
        mark = Watermark.objects.select_for_update().get(cluster=cluster, rollup=ALLOCATION)
        mark.done_until = taken_back(mark, late_from(cluster, mark, now), now)
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
    spells, around = load(cluster=cluster, start=start, end=end, until=observed)
    held = clip(intervals(spells, around), start, end)
    rows = hours_of(held, edges)
    made = 0
    batch: list[AllocationHour] = []
    for (low, high), sums in rows:
        for kind, unit_seconds in sums.items():
            values = dict(zip(_FIELDS, kind, strict=True))
            batch.append(
                AllocationHour(
                    cluster=cluster, starts_at=low, ends_at=high, unit_seconds=unit_seconds, **values
                )
            )
        if len(batch) >= ROWS_AT_ONCE:
            made += len(AllocationHour.objects.bulk_create(batch))
            batch = []
    return made + len(AllocationHour.objects.bulk_create(batch))


def hours_of(
    held: Iterable[Interval], edges: Collection[datetime]
) -> Iterator[tuple[tuple[datetime, datetime], Mapping[Kind, Decimal]]]:
    """Per hour (or part of one) in order, the unit-seconds of each kind."""
    sums: defaultdict[tuple[datetime, datetime], defaultdict[Kind, Decimal]] = defaultdict(
        lambda: defaultdict(Decimal)
    )
    for item in held:
        kind = kind_of(item)
        for bounds in _pieces(item.start, item.end, edges):
            for part in clip([item], *bounds):
                sums[bounds][kind] += part.unit_seconds
    yield from sorted(sums.items())


def _pieces(
    start: datetime, end: datetime, edges: Collection[datetime]
) -> Iterator[tuple[datetime, datetime]]:
    """The hours that [start, end) touches, cut at the edges."""
    hour = floor_hour(start)
    while hour < end:
        inside = sorted({hour, hour + HOUR, *(edge for edge in edges if hour < edge < hour + HOUR)})
        yield from pairwise(inside)
        hour += HOUR


def kind_of(item: Interval) -> Kind:
    """What is summed up: nodes are many and no kind, the flavor of a pod is not known."""
    unit, weight = item.unit, item.unit.equivalents
    return (
        *(item.team_id, item.cost_centre, str(item.basis), item.place.kind, item.place.queue),
        *(item.on if item.basis is Basis.RESERVED else "", item.resource),
        *(unit.model, unit.sharing_mode, unit.profile),
        *(None if weight is None else weight.numerator, None if weight is None else weight.denominator),
        *(item.priority_class, item.borrowed, str(item.seen)),
    )
