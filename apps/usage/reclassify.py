"""History under the present rules. Input: a cluster; output: its hours of blocked work computed anew, and what moved.

Invariants
- What each hour said under the former rules is kept beside it until the next reclassification, never counted twice.
- A run that was cut off goes on where it stopped; a finished one is not done again.
- Hours whose events and pods are no longer kept are left as they are: without these their causes would be guessed.
- Waits and outcomes know no causes and stay untouched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.conf import settings
from django.db import connection, transaction

from apps.admissions.rulebook import rule_book
from apps.core.windows import HOUR, floor_hour
from apps.fleet.models import Cluster
from apps.usage import admission_rollup as rollup
from apps.usage import admission_sql as sql
from apps.usage.admission_reading import REACH, ROLLUP, SINCE
from apps.usage.admission_rollup import chunks, life_of
from apps.usage.models import BlockHour, Reclassification, Step, Watermark


@dataclass(frozen=True, slots=True)
class Moved:
    """`seconds` of work (`resource` "") or unit-seconds that went from one cause to another. Where an hour of a queue has
    several causes that lost and several that gained, by their parts."""

    from_layer: str
    from_cause: str
    to_layer: str
    to_cause: str
    seconds: Decimal


@dataclass(frozen=True, slots=True)
class Reclassified:
    """`from_hour` up to `until` is under `rules` now; `resumed`: the beginning of it was before. `kept`: hours from here up
    to `from_hour` stay under the rules of their time, None when there are none. All None: nothing to do."""

    rules: int
    from_hour: datetime | None
    until: datetime | None
    resumed: bool = False
    kept: datetime | None = None


def reclassify(
    *, cluster: Cluster, now: datetime, say: Callable[[datetime, datetime], None] | None = None
) -> Reclassified:
    """Bring every hour that can be under the present rules; `say` is told each stretch that is done."""
    rules = rule_book().version
    marks = dict(Watermark.objects.filter(cluster=cluster).values_list("rollup", "done_until"))
    if REACH not in marks or not _differs(cluster, rules):
        return Reclassified(rules, None, None)
    run, resumed = _begin(cluster, rules, since=marks[SINCE], now=now)
    until = marks[REACH]
    for low, high in chunks(cluster, run.done_until, until):
        _redo(cluster, run, low, high, now=now)
        if say is not None:
            say(low, high)
    run.done = True
    run.save(update_fields=["done"])
    kept = marks[SINCE] if marks[SINCE] < run.from_hour else None
    return Reclassified(rules, run.from_hour, until, resumed, kept)


def _differs(cluster: Cluster, rules: int) -> bool:
    unfinished = Reclassification.objects.filter(cluster=cluster, rules=rules, done=False).exists()
    finished = Reclassification.objects.filter(cluster=cluster, rules=rules, done=True).exists()
    others = BlockHour.objects.filter(cluster=cluster, step=Step.HOUR, current=True).exclude(rules=rules)
    return unfinished or (not finished and others.exists())


def _begin(cluster: Cluster, rules: int, *, since: datetime, now: datetime) -> tuple[Reclassification, bool]:
    with transaction.atomic():
        Watermark.objects.select_for_update().get(cluster=cluster, rollup=ROLLUP)
        run = Reclassification.objects.filter(cluster=cluster, rules=rules, done=False).first()
        if run is not None:
            return run, True
        days = min(settings.EVENT_RETENTION_DAYS, settings.GONE_RETENTION_DAYS)
        first = max(since, floor_hour(now - timedelta(days=days)) + HOUR)
        BlockHour.objects.filter(cluster=cluster, current=False).delete()
        values = {"rules": rules, "from_hour": first, "done_until": first, "done": False}
        return Reclassification.objects.update_or_create(cluster=cluster, defaults=values)[0], False


def _redo(cluster: Cluster, run: Reclassification, low: datetime, high: datetime, *, now: datetime) -> None:
    with transaction.atomic():
        # Rollups take the same lock: an hour is not computed by two at once.
        Watermark.objects.select_for_update().get(cluster=cluster, rollup=ROLLUP)
        rows = BlockHour.objects.filter(cluster=cluster, step=Step.HOUR, hour__gte=low, hour__lt=high)
        rows.filter(rules=run.rules).delete()
        rows.filter(current=True).update(current=False)
        with life_of(cluster=cluster, start=low, end=high, now=now) as params, connection.cursor() as cursor:
            cursor.execute(sql.BLOCK_HOURS, params)
        rollup.sum_tiers(cluster=cluster, start=low, end=high, only_blocks=True)
        run.done_until = high
        run.save(update_fields=["done_until"])


_MOVED = """
WITH cells AS (
  SELECT hour, team_id, queue, flavor, reason, layer, cause,
    sum(CASE WHEN current THEN seconds ELSE -seconds END) AS change
  FROM usage_blockhour b WHERE cluster_id = %(cluster)s AND step = 'hour' AND resource = %(resource)s
    AND EXISTS (SELECT FROM usage_blockhour o WHERE o.cluster_id = b.cluster_id AND o.step = 'hour'
      AND o.hour = b.hour AND NOT o.current)
  GROUP BY 1, 2, 3, 4, 5, 6, 7
), sums AS (
  SELECT hour, team_id, queue, flavor, reason,
    greatest(sum(change) FILTER (WHERE change > 0), -sum(change) FILTER (WHERE change < 0)) AS whole
  FROM cells GROUP BY 1, 2, 3, 4, 5
)
SELECT f.layer, f.cause, t.layer, t.cause, sum(-f.change * t.change / s.whole) AS seconds
FROM sums s
JOIN cells f ON (f.hour, f.queue, f.flavor, f.reason) = (s.hour, s.queue, s.flavor, s.reason)
  AND f.team_id IS NOT DISTINCT FROM s.team_id AND f.change < 0
JOIN cells t ON (t.hour, t.queue, t.flavor, t.reason) = (s.hour, s.queue, s.flavor, s.reason)
  AND t.team_id IS NOT DISTINCT FROM s.team_id AND t.change > 0
GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 1, 2, 3, 4
"""


def moved_seconds(*, cluster: Cluster, resource: str = "") -> list[Moved]:
    """What went from cause to cause in the last reclassification, most first; for readers of the whole cluster."""
    with connection.cursor() as cursor:
        cursor.execute(_MOVED, {"cluster": cluster.pk, "resource": resource})
        found = cursor.fetchall()
    return [Moved(a, b, c, d, round(seconds, 6)) for a, b, c, d, seconds in found]
