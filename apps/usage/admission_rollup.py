"""The rollup of waiting work: why it was blocked, how long it waited, what became of it, per hour. Idempotent.

Input: the life of work (apps.admissions.life_relation); output: rows of BlockHour, WaitHour and OutcomeHour.

Invariants
- An hour's rows are what the life of work says, whoever computes them and how often: a run locks the watermark, deletes
  hours and computes them anew in one transaction per chunk, and only then moves the mark. Hours that were begun and not
  finished are begun again by the next run.
- Spans, pods and events that come late (after their hour was done) take the mark back to their hour, at most
  REDO_AT_MOST. Pods that change say in the log of pulls how far back what they told reaches.
- Nothing lasts beyond the last good pull of its source; the hours of an outage are done again when it is back.
- Rows of days and weeks are sums of the rows of hours, made in the same transaction.
- Causes are those that the surroundings of that time make them: each run first notes what waiting work stands in.
- Each stretch and each happening is its owner's at that time; a wait is the owner's when it began.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Model, Q

from apps.admissions.blocks import block_params
from apps.admissions.life_relation import life_params
from apps.admissions.noting import note_surroundings
from apps.admissions.ownership import owner_params_of
from apps.admissions.rulebook import rule_book
from apps.core.windows import HOUR, floor_hour
from apps.fleet.models import Cluster
from apps.fleet.registry import is_device
from apps.observations.models import Pod, Source, StateSpan
from apps.usage import admission_sql as sql
from apps.usage.admission_reading import LENGTHS, REACH, ROLLUP, SINCE, floor_step
from apps.usage.late import late_from, newest_told, taken_back
from apps.usage.models import BlockHour, OutcomeHour, Step, WaitHour, Watermark
from apps.usage.services import REDO_AT_MOST, observed_until

# Hours that are computed, and can be lost, at once: the longest stretch with no more spans than that, an hour at least.
CHUNKS = (timedelta(days=7), timedelta(days=1), timedelta(hours=6))
SPANS_AT_ONCE = 500_000
# Lives that are worked out in one statement: their sorting stays in memory, and the statement within its time.
LIVES_AT_ONCE = 10_000
_SOURCES = {
    "Workload": Source.KUEUE,
    "PodGroup": Source.VOLCANO,
    "Pod": Source.PODS,
    "Event": Source.EVENTS,
}


@dataclass(frozen=True, slots=True)
class AdmissionRollup:
    """Hours from `from_hour` up to `until` were computed anew; None where nothing was observed yet."""

    from_hour: datetime | None
    until: datetime | None
    rows: int


def rollup_admissions(*, cluster: Cluster, now: datetime) -> AdmissionRollup:
    """Compute the hours since the watermark, the unfinished one included, and those that something came late for."""
    first = first_observed(cluster)
    if first is None:
        return AdmissionRollup(None, None, 0)
    observed = observed_until(cluster=cluster, now=now, sources=_SOURCES)
    until, done_until = max(observed.values()), floor_hour(max(min(observed.values()), now - REDO_AT_MOST))
    newest, newest_run = newest_told(cluster, now)
    start = _begin(cluster, first=first, until=until, now=now)
    if cluster.enabled:
        note_surroundings(cluster=cluster, now=now)
    rows = 0
    for low, high in chunks(cluster, start, until):
        with transaction.atomic():
            mark = Watermark.objects.select_for_update().get(cluster=cluster, rollup=ROLLUP)
            rows += compute_hours(cluster=cluster, start=low, end=high, now=now)
            if mark.done_until >= low:
                mark.done_until = max(mark.done_until, min(high, done_until))
            if high == until:
                mark.started_until, mark.seen_id = None, newest
                mark.seen_run = newest_run or mark.seen_run or 0
            mark.save()
            Watermark.objects.update_or_create(cluster=cluster, rollup=REACH, defaults={"done_until": high})
    return AdmissionRollup(start, max(until, start), rows)


def first_observed(cluster: Cluster) -> datetime | None:
    """When the life of anything in the cluster begins, as far as the portal has seen it."""
    spans = (
        StateSpan.objects.filter(cluster=cluster).order_by("started_at").values_list("started_at", flat=True)
    )
    pods = Pod.objects.filter(cluster=cluster, devices__gt=0).order_by("first_seen_at")
    found = [
        at for at in (spans.first(), pods.values_list("first_seen_at", flat=True).first()) if at is not None
    ]
    return min(found, default=None)


def _begin(cluster: Cluster, *, first: datetime, until: datetime, now: datetime) -> datetime:
    """Note what is begun, before it is computed. Returns where the run starts."""
    with transaction.atomic():
        for rollup in (ROLLUP, SINCE):
            Watermark.objects.get_or_create(
                cluster=cluster, rollup=rollup, defaults={"done_until": floor_hour(first)}
            )
        mark = Watermark.objects.select_for_update().get(cluster=cluster, rollup=ROLLUP)
        mark.done_until = taken_back(mark, late_from(cluster, mark, now), now)
        mark.started_until = max(until, mark.done_until)
        mark.save()
    return mark.done_until


def chunks(cluster: Cluster, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """[start, end) in pieces that are computed at once."""
    while start < end:
        length = next((one for one in CHUNKS if _fits(cluster, start, start + one)), HOUR)
        yield start, min(start + length, end)
        start += length


def _fits(cluster: Cluster, start: datetime, end: datetime) -> bool:
    began = StateSpan.objects.filter(cluster=cluster, started_at__gte=start, started_at__lt=end)
    return len(began.order_by()[SPANS_AT_ONCE : SPANS_AT_ONCE + 1].values_list("pk")) == 0


def compute_hours(*, cluster: Cluster, start: datetime, end: datetime, now: datetime) -> int:
    """Write all rows of the hours in [start, end) anew, `start` on an hour. Only within a transaction."""
    inside = BlockHour.objects.filter(cluster=cluster, step=Step.HOUR, hour__gte=start, hour__lt=end)
    inside.filter(Q(current=True) | Q(rules=rule_book().version)).delete()
    WaitHour.objects.filter(cluster=cluster, step=Step.HOUR, ended_in__gte=start, ended_in__lt=end).delete()
    OutcomeHour.objects.filter(cluster=cluster, step=Step.HOUR, hour__gte=start, hour__lt=end).delete()
    rows = 0
    with life_of(cluster=cluster, start=start, end=end, now=now) as params, connection.cursor() as cursor:
        cursor.execute(sql.MAKE_WAITS, params)
        cursor.execute(sql.MAKE_STEPS, params)
        cursor.execute("CREATE INDEX ON rollup_steps (uid, started_at)")
        cursor.execute(sql.NOTE_UNSEEN, params)
        for statement in (sql.BLOCK_HOURS, sql.WAIT_HOURS, sql.OUTCOME_HOURS):
            cursor.execute(statement, params)
            rows += cursor.rowcount
        cursor.execute("DROP TABLE rollup_waits, rollup_steps")
    sum_tiers(cluster=cluster, start=start, end=end)
    return rows


@contextmanager
def life_of(*, cluster: Cluster, start: datetime, end: datetime, now: datetime) -> Iterator[dict[str, Any]]:
    """The table `rollup_life` for the hours, and the parameters of the statements that read it."""
    params: dict[str, Any] = {
        "cluster": cluster.pk,
        "start": start,
        "end": end,
        "rules": rule_book().version,
        "blocking": sql.BLOCKING_PHASES,
    }
    with connection.cursor() as cursor:
        cursor.execute(sql.TOUCHED, params)
        uids = [row[0] for row in cursor.fetchall()]
        for setting in sql.FOR_MANY:
            cursor.execute(f"SET LOCAL {setting}")
        given = life_params([cluster.pk], start=_EVER, end=end, now=now, uids=())
        cursor.execute(sql.MAKE_LIFE, given)
        for first in range(0, len(uids), LIVES_AT_ONCE):
            cursor.execute(sql.FILL_LIFE, {**given, "life_uids": uids[first : first + LIVES_AT_ONCE]})
        cursor.execute(sql.LIFE_KEYS)
        keys = cursor.fetchall()
        cursor.execute(sql.MAKE_ASKED)
        cursor.execute(sql.RESOURCES)
        params["devices"] = [name for (name,) in cursor.fetchall() if is_device(name)]
        cursor.execute("SELECT least(min(started_at), %(start)s) FROM rollup_life", params)
        oldest = cursor.fetchone()[0]
        params.update(owner_params_of(keys, cluster_ids=[cluster.pk], start=oldest, end=end))
        params.update(block_params(clusters=[cluster.pk], relation="rollup_life"))
        for statement in (sql.MAKE_SHARED, sql.MAKE_YOUNGER, sql.MAKE_AMOUNTS):
            cursor.execute(statement, params)
        for setting in sql.FOR_SUMS:
            cursor.execute(f"SET LOCAL {setting}")
        yield params
        for setting in sql.AFTERWARDS:
            cursor.execute(f"SET LOCAL {setting}")
        cursor.execute("DROP TABLE rollup_life, rollup_asked, rollup_shared, rollup_younger, rollup_amounts")


_EVER = datetime(1970, 1, 1, tzinfo=UTC)


def sum_tiers(*, cluster: Cluster, start: datetime, end: datetime, only_blocks: bool = False) -> None:
    """Write the rows of the days and weeks that [start, end) touches anew, from those of their hours."""
    last = end - timedelta(microseconds=1)
    tables = _TIERS[:1] if only_blocks else _TIERS
    with connection.cursor() as cursor:
        for step in (Step.DAY, Step.WEEK):
            low, high = floor_step(start, step), floor_step(last, step) + LENGTHS[step]
            for table, field, statement in tables:
                inside = {"cluster": cluster, "step": step, f"{field}__gte": low, f"{field}__lt": high}
                table._default_manager.filter(**inside).delete()
                cursor.execute(
                    statement.format(step=step), {"cluster": cluster.pk, "start": low, "end": high}
                )


_TIERS: tuple[tuple[type[Model], str, str], ...] = (
    (BlockHour, "hour", sql.BLOCK_TIER),
    (WaitHour, "ended_in", sql.WAIT_TIER),
    (OutcomeHour, "hour", sql.OUTCOME_TIER),
)
