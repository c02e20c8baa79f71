"""What is known of waits, for start estimates: the rollups of the last weeks and what waits now. Input: the queues in
question; output: a `History` (apps.admissions.estimates). Two queries, however much work is asked about.

Invariants: waits of all teams of a queue count, as numbers only; what gave up and what still waits is cut off; a queue
that nobody asked about is not read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import connection
from django.db.models import Sum

from apps.admissions.estimates import HORIZON, Cell, Estimate, History, Waiting
from apps.admissions.queued import Standing, can_fit, size_of
from apps.admissions.statistics import Survival
from apps.admissions.surroundings import Surroundings
from apps.core.windows import Window
from apps.observations.models import Workload
from apps.usage.admission_reading import reading
from apps.usage.models import WaitHour
from apps.usage.rounding import rounded_seconds

Queue = tuple[int, str]
"""(cluster id, ClusterQueue or Volcano queue)."""

_OPEN = """
WITH leads_to AS MATERIALIZED (
  SELECT DISTINCT ON (cluster_id, namespace, name) cluster_id, namespace, name, spec->>'cluster_queue' AS queue
  FROM observations_clusterobject
  WHERE cluster_id = ANY(%(clusters)s) AND kind = 'LocalQueue' AND gone_at IS NULL
  ORDER BY cluster_id, namespace, name, id DESC
), waiting AS (
  SELECT w.cluster_id, CASE WHEN w.kind = 'PodGroup' THEN w.queue_name
      ELSE coalesce(nullif(w.cluster_queue, ''), l.queue, '') END AS queue,
    extract(epoch FROM %(now)s - coalesce(w.queued_at, w.created_at, w.first_seen_at)) AS seconds, w.requests
  FROM observations_workload w
  LEFT JOIN leads_to l ON (l.cluster_id, l.namespace, l.name) = (w.cluster_id, w.namespace, w.queue_name)
  WHERE w.cluster_id = ANY(%(clusters)s) AND w.state = 'pending' AND w.gone_at IS NULL
    AND coalesce(w.queued_at, w.created_at, w.first_seen_at) >= %(since)s
)
SELECT cluster_id, queue, seconds, requests FROM waiting
WHERE (cluster_id, queue) IN (SELECT * FROM unnest(%(asked_cluster)s::bigint[], %(asked_queue)s::text[]))
"""


def wait_history(*, now: datetime, queues: Collection[Queue]) -> History:
    """Waits that began in the last HORIZON in these queues."""
    asked = sorted({queue for queue in queues if queue[1]})
    if not asked:
        return History({})
    ended: dict[Cell, dict[int, int]] = {}
    cut: dict[Cell, dict[int, int]] = {}
    for cluster_id, queue, size, how, seconds, count in _rolled(now, asked):
        into = (ended if how == WaitHour.Ended.RESERVED else cut).setdefault((cluster_id, queue, size), {})
        into[seconds] = into.get(seconds, 0) + count
    for cluster_id, queue, waited, requests in _open(now, asked):
        into = cut.setdefault((cluster_id, queue, size_of(requests)), {})
        seconds = rounded_seconds(max(Decimal(0), waited))
        into[seconds] = into.get(seconds, 0) + 1
    return History({cell: Survival.of(ended.get(cell, {}), cut.get(cell, {})) for cell in {*ended, *cut}})


def _rolled(now: datetime, asked: Collection[Queue]) -> Any:
    read = reading(Window(now - HORIZON, now))
    rows = WaitHour.objects.filter(
        step=read.step,
        hour__gte=read.covered.start,
        hour__lt=read.covered.end,
        cluster__in=sorted({cluster_id for cluster_id, _queue in asked}),
        queue__in=sorted({queue for _cluster_id, queue in asked}),
    )
    wanted = set(asked)
    for row in rows.values_list("cluster_id", "queue", "size", "ended", "seconds").annotate(Sum("count")):
        if row[:2] in wanted:
            yield row


def _open(now: datetime, asked: Collection[Queue]) -> list[tuple[int, str, Decimal, Mapping[str, Any]]]:
    params: dict[str, Any] = {
        "now": now,
        "since": now - HORIZON,
        "clusters": sorted({cluster_id for cluster_id, _queue in asked}),
        "asked_cluster": [cluster_id for cluster_id, _queue in asked],
        "asked_queue": [queue for _cluster_id, queue in asked],
    }
    with connection.cursor() as cursor:
        cursor.execute(_OPEN, params)
        return [
            (cluster_id, queue, seconds, json.loads(requests))
            for cluster_id, queue, seconds, requests in cursor.fetchall()
        ]


def estimates_of(
    work: Collection[Workload],
    *,
    queues: Mapping[int, str],
    standings: Mapping[int, Standing],
    now: datetime,
    causes: Mapping[int, str] | None = None,
) -> dict[int, Estimate]:
    """By primary key, of those that wait for quota. `queues`: where each leads to, `causes`: why each waits, where that
    is known already (from its own text if not), both by primary key."""
    waiting = [one for one in work if one.state == Workload.State.PENDING and one.gone_at is None]
    if not waiting:
        return {}
    history = wait_history(now=now, queues={(one.cluster_id, queues.get(one.pk, "")) for one in waiting})
    known = causes if causes is not None else _causes(waiting, queues)
    return {
        one.pk: history.estimate(
            Waiting(
                cluster_id=one.cluster_id,
                queue=queues.get(one.pk, ""),
                size=size_of(one.requests),
                waited=_waited(one, now),
                cause=known.get(one.pk, ""),
                can_fit=can_fit(standings.get(one.pk, Standing()).lacking),
            )
        )
        for one in waiting
    }


def _causes(work: Collection[Workload], queues: Mapping[int, str]) -> dict[int, str]:
    surroundings = Surroundings(sorted({one.cluster_id for one in work}))
    return {
        one.pk: surroundings.verdict(
            cluster_id=one.cluster_id,
            queue=queues.get(one.pk, ""),
            state=one.state,
            reason=one.reason,
            message=one.message,
            checks=(),
        ).cause
        for one in work
    }


def _waited(work: Workload, now: datetime) -> int:
    since = work.queued_at or work.created_at or work.first_seen_at
    return max(0, int((now - since).total_seconds()))
