"""How much work waited, and why, over time. Input: state spans; output: `ReasonSeries`.

A bucket's value is the mean number of waiting workloads: the seconds that they waited in it, divided by the
bucket's observed length. So no short wait is lost between two samples, and the values of all keys add up to the
mean length of the queue. Work belongs to the team that owned it at that time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from django.db import connection, transaction

from apps.accounts.models import Team
from apps.admissions.blocks import BLOCKS, BLOCKS_ON, block_params
from apps.admissions.labels import NO_REASON, cause_label, reason_label
from apps.admissions.life_sources import PHASE_FACTS, PHASE_JOINS, PHASE_OF_SPAN
from apps.admissions.ownership import OWNERS, OWNERS_ON, owner_params
from apps.admissions.pending import (
    WAITING_STATES,
    Criteria,
    chosen_clusters,
    escape_like,
)
from apps.core.windows import Bucket, Window
from apps.fleet.selectors import UNBOUND

By = Literal["reason", "cause"]


@dataclass(frozen=True, slots=True)
class ReasonSeries:
    """`values[key][i]` belongs to `buckets[i]`; None: nothing was observed in that bucket. `key` is a reason token
    (NO_REASON for none) or a cause; the key with the longest waits first."""

    bucket: Bucket
    buckets: Sequence[Window]
    values: Mapping[str, Sequence[Decimal | None]]
    labels: Mapping[str, str]


# Volcano's reason for a group without a condition stands in an Event (see pending.py).
_TEXTS = f"""
WITH {PHASE_FACTS}
SELECT s.cluster_id, s.kind, s.uid, s.namespace, s.queue_name, s.queue, s.state, s.started_at, s.ended_at,
  coalesce(e.reason, s.reason) AS reason, coalesce(e.message, s.message) AS message,
  CASE WHEN s.kind = 'PodGroup' AND s.state = 'reserved' THEN 'unplaced' ELSE {PHASE_OF_SPAN} END AS phase
FROM observations_statespan s {PHASE_JOINS}
LEFT JOIN LATERAL (
  SELECT e.reason, e.message FROM observations_event e
  WHERE s.kind = 'PodGroup' AND s.message = '' AND e.cluster_id = s.cluster_id AND e.object_uid = s.uid
    AND e.reason = 'Unschedulable' AND e.created_at < coalesce(s.ended_at, 'infinity')
  ORDER BY (e.type = 'Normal' AND s.state = 'pending') DESC, coalesce(e.last_at, e.created_at) DESC LIMIT 1
) e ON true
WHERE s.cluster_id = ANY(%(life_clusters)s) AND s.state = ANY(%(states)s)
  AND s.started_at < %(end)s AND coalesce(s.ended_at, 'infinity') > %(start)s
  AND (%(kind)s = '' OR s.kind = %(kind)s)
  AND (%(queue)s = '' OR s.queue = %(queue)s OR s.queue_name = %(queue)s)
  AND (%(q)s = '' OR s.namespace || '/' || s.name || ' ' || s.queue_name || ' ' || s.queue || ' ' || s.message
    ILIKE '%%' || %(q)s || '%%')
"""  # noqa: S608 - constants of this module only

_MAKE_TEXTS = f"CREATE TEMP TABLE waiting_spans ON COMMIT DROP AS {_TEXTS}"

_SUMS = f"""
SELECT bucket, key, sum(extract(epoch FROM
  least(high, bucket + %(step)s) - greatest(low, bucket))) AS seconds
FROM (
  SELECT {{key}} AS key,
    greatest(s.started_at, o.owned_from, %(start)s{{low}}) AS low,
    least(coalesce(s.ended_at, 'infinity'), o.owned_to, %(end)s{{high}}) AS high
  FROM waiting_spans s JOIN {OWNERS} ON {OWNERS_ON} {{classes}}
) parts
CROSS JOIN LATERAL generate_series(date_trunc(%(unit)s, low, 'UTC'), high - interval '1 microsecond', %(step)s)
  AS bucket
WHERE low < high GROUP BY bucket, key
"""  # noqa: S608 - constants of this module only

_OF_CAUSE = f"JOIN {BLOCKS} ON {BLOCKS_ON} AND (%(cause)s = '' OR b.cause = %(cause)s)"
_JUDGED = {"low": ", b.judged_from", "high": ", b.judged_to"}
_REASON_KEY = "coalesce(nullif(s.reason, ''), %(no_reason)s)"
_FIRST_SPAN = "SELECT min(started_at) FROM observations_statespan WHERE cluster_id = ANY(%s)"


def reason_series(
    *,
    now: datetime,
    window: Window,
    bucket: Bucket,
    by: By = "reason",
    team_ids: Collection[int] | None,
    criteria: Criteria | None = None,
) -> ReasonSeries:
    """The history of waiting work in whole buckets that cover the window, up to now. Pods without a queue have no
    spans and are not part of it."""
    wanted = criteria or Criteria()
    covered = window.aligned(bucket)
    buckets = list(covered.buckets(bucket))
    clusters = chosen_clusters(wanted)
    first = _first_span(clusters)
    lengths = [_observed(piece, first, now) for piece in buckets]
    params: dict[str, Any] = {
        "life_clusters": clusters,
        "states": [*WAITING_STATES, "deactivated"] if wanted.deactivated else list(WAITING_STATES),
        "start": covered.start,
        "end": min(covered.end, now),
        "kind": wanted.kind,
        "queue": wanted.queue,
        "q": escape_like(wanted.q.strip()),
        "no_reason": NO_REASON,
        "unit": str(bucket),
        "step": bucket.length,
    }
    sums: dict[str, dict[datetime, Decimal]] = {}
    if params["end"] > params["start"] and first is not None:
        sums = _seconds(params, by=by, wanted=wanted, team_ids=team_ids)
    label = cause_label if by == "cause" else reason_label
    order = sorted(sums, key=lambda key: (-sum(sums[key].values()), key))
    return ReasonSeries(
        bucket=bucket,
        buckets=buckets,
        values={
            key: [
                sums[key].get(piece.start, Decimal(0)) / length if length else None
                for piece, length in zip(buckets, lengths, strict=True)
            ]
            for key in order
        },
        labels={key: label(key) for key in order},
    )


def _first_span(clusters: Sequence[int]) -> datetime | None:
    with connection.cursor() as cursor:
        cursor.execute(_FIRST_SPAN, [list(clusters)])
        found: datetime | None = cursor.fetchone()[0]
    return found


def _observed(piece: Window, first: datetime | None, now: datetime) -> Decimal:
    """Seconds of a bucket in which anything was known."""
    if first is None:
        return Decimal(0)
    length = min(piece.end, now) - max(piece.start, first)
    return Decimal(max(length, timedelta(0)) // timedelta(microseconds=1)) / 1_000_000


def _owners(params: Mapping[str, Any], wanted: Criteria, team_ids: Collection[int] | None) -> dict[str, Any]:
    named = team_ids
    if wanted.team and wanted.team != UNBOUND:
        found = Team.objects.filter(slug=wanted.team).values_list("pk", flat=True)
        named = [pk for pk in found if team_ids is None or pk in team_ids]
    return owner_params(
        cluster_ids=params["life_clusters"],
        start=params["start"],
        end=params["end"],
        states=params["states"],
        team_ids=named,
        only_unbound=wanted.team == UNBOUND,
    )


def _seconds(
    params: Mapping[str, Any], *, by: By, wanted: Criteria, team_ids: Collection[int] | None
) -> dict[str, dict[datetime, Decimal]]:
    """{key: {bucket: seconds waited}}."""
    sums: dict[str, dict[datetime, Decimal]] = {}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS waiting_spans")
        cursor.execute(_MAKE_TEXTS, params)
        if wanted.reason:
            cursor.execute(
                f"DELETE FROM waiting_spans s WHERE {_REASON_KEY} <> %(reason)s",  # noqa: S608
                {**params, "reason": wanted.reason},
            )
        everything = {**params, **_owners(params, wanted, team_ids)}
        if by == "cause" or wanted.cause:
            everything.update(
                block_params(clusters=params["life_clusters"], relation="waiting_spans"), cause=wanted.cause
            )
            query = _SUMS.format(
                key="b.cause" if by == "cause" else _REASON_KEY, classes=_OF_CAUSE, **_JUDGED
            )
        else:
            query = _SUMS.format(key=_REASON_KEY, classes="", low="", high="")
        cursor.execute(query, everything)
        for start, key, seconds in cursor.fetchall():
            sums.setdefault(key, {})[start] = seconds
    return sums
