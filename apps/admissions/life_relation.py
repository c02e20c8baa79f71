"""The life of work as SQL. Input: state spans, pods and events; output: the relations `LIFE` and `WAITS`.

`LIFE` has a row per stretch in which one uid was in one phase for one reason:
  cluster_id, kind (Workload | PodGroup | Pod), uid, piece, namespace, name, queue_name, queue, phase, state, reason,
  message, started_at, ended_at, requests, usage, evidence, until_at, attempt
`piece` names what counts once (the owner's uid, else a slice's name, else the uid); `ended_at` is NULL while the
stretch lasts, `until_at` is then the last good pull of its source; `attempt` is the number of the placement (1, 2, …),
0 before the first. `evidence` says where reason and message were read: condition, check, event, pod, or "".

Phases: gated, queued, backoff, held (before quota), reserved (checks), provisioning, unplaced, starting, running,
evicted (from the eviction to the return of the quota), finished.

Invariants
- Rows of one uid do not overlap and leave no hole from its creation (as far as it is known) to its end.
- Nothing reaches beyond the last good pull of its source; what began with that pull is a row of no length.
- Phases after admission come from the gang's pods: it is placed when as many are bound as its pod sets count (the
  least that they accept), and runs when as many are ready. Without knowledge of pods it runs, with evidence "".
- A row is the same for every window that it touches: the whole life of a uid is worked out, then narrowed.
- Copies on worker clusters and variants of a piece whose original is known are left out, unless asked for.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection

from apps.admissions.life_sources import GANGS, PHASE_JOINS, PHASE_OF_SPAN, PLAIN, SPANS, WORK
from apps.observations.models import Presence, Source, SourceState

BLOCKING = (
    "gated",
    "queued",
    "backoff",
    "held",
    "reserved",
    "provisioning",
    "unplaced",
    "starting",
    "evicted",
)
"""Phases in which work is kept from running."""
BEFORE_QUOTA = ("gated", "queued", "backoff", "held")
PHASES = (*BLOCKING, "running", "finished")

_COLUMNS = """cluster_id, kind, uid, piece, namespace, name, queue_name, queue, phase, state, reason, message,
  started_at, ended_at, requests, usage, evidence, until_at, attempt"""

# A span before or after a placement is in one phase, but for the time that the cluster itself waits to queue it again.
_OUTSIDE = f"""
SELECT s.cluster_id, s.kind, s.uid, k.piece, s.namespace, s.name, s.queue_name, s.queue, part.phase, s.state, s.reason,
  s.message, part.low AS started_at, CASE WHEN s.ended_at IS NULL AND part.last THEN NULL ELSE part.high END AS ended_at,
  s.requests, s.usage, s.evidence, part.high AS until_at, s.attempt
FROM spans s JOIN work k USING (cluster_id, uid)
{PHASE_JOINS}
CROSS JOIN LATERAL (SELECT
  CASE WHEN s.is_first AND s.state = 'pending'
    THEN least(s.started_at, CASE WHEN k.queued_at <= s.started_at THEN k.queued_at ELSE k.created_at END)
    ELSE s.started_at END AS low,
  CASE WHEN s.state = 'pending' AND s.retry_at > s.started_at THEN least(s.retry_at, s.until_at) END AS retry_at,
  {PHASE_OF_SPAN} AS phase) f
CROSS JOIN LATERAL (VALUES
  (CASE WHEN f.phase = 'queued' THEN 'backoff' ELSE f.phase END, f.low, coalesce(f.retry_at, f.low),
    f.retry_at = s.until_at),
  (f.phase, coalesce(f.retry_at, f.low), s.until_at, f.retry_at IS DISTINCT FROM s.until_at)
) AS part(phase, low, high, last)
WHERE NOT s.places AND (part.low < part.high OR (part.last AND s.ended_at IS NULL AND part.low = part.high))
"""  # noqa: S608 - constants of this module only

_INSIDE = """
SELECT s.cluster_id, s.kind, s.uid, k.piece, s.namespace, s.name, s.queue_name, s.queue, cut.phase, s.state,
  CASE WHEN cut.evidence = '-' THEN s.reason ELSE coalesce(cut.reason, '') END AS reason,
  CASE WHEN cut.evidence = '-' THEN s.message ELSE coalesce(cut.message, '') END AS message,
  cut.low AS started_at, CASE WHEN s.ended_at IS NULL AND cut.high = t.s_until THEN NULL ELSE cut.high END AS ended_at,
  s.requests, s.usage, CASE WHEN cut.evidence = '-' THEN s.evidence ELSE cut.evidence END AS evidence,
  cut.high AS until_at, s.attempt
FROM spans s JOIN work k USING (cluster_id, uid) JOIN milestones m USING (cluster_id, uid, attempt)
CROSS JOIN LATERAL (SELECT
  CASE WHEN s.ended_at IS NULL THEN greatest(s.started_at, least(s.until_at, m.seen_until)) ELSE s.until_at END AS s_until,
  greatest(m.began, least(m.placed, m.evicted)) AS placed_at,
  greatest(m.began, m.placed, least(m.ready, m.evicted)) AS ready_at,
  greatest(m.began, coalesce(m.scaled_at, 'infinity')) AS scaled
) t
CROSS JOIN LATERAL (VALUES
  ('unplaced', m.began, least(t.scaled, t.placed_at),
    coalesce(m.refuse_reason, CASE WHEN NOT m.is_bound THEN m.pod_reason END, CASE WHEN s.kind = 'PodGroup' THEN s.reason END),
    coalesce(m.refuse_message, CASE WHEN NOT m.is_bound THEN m.pod_message END, CASE WHEN s.kind = 'PodGroup' THEN s.message END),
    CASE WHEN m.refuse_message IS NOT NULL THEN 'event' WHEN NOT m.is_bound THEN 'pod'
      WHEN s.kind = 'PodGroup' THEN s.evidence ELSE '' END),
  ('provisioning', t.scaled, t.placed_at, m.scale_reason, m.scale_message, 'event'),
  ('starting', t.placed_at, least(t.ready_at, m.evicted), CASE WHEN m.is_bound THEN m.pod_reason END,
    CASE WHEN m.is_bound THEN m.pod_message END, CASE WHEN m.is_bound THEN 'pod' ELSE '' END),
  ('running', t.ready_at, m.evicted, NULL, NULL, CASE WHEN m.pods THEN '-' ELSE '' END),
  ('evicted', m.evicted, 'infinity'::timestamptz, m.evict_reason, m.evict_message, m.evict_evidence)
) AS piece(phase, low, high, reason, message, evidence)
CROSS JOIN LATERAL (SELECT piece.phase, greatest(piece.low, s.started_at) AS low, least(piece.high, t.s_until) AS high,
  piece.reason, piece.message, piece.evidence) cut
WHERE s.places AND (cut.low < cut.high OR (s.ended_at IS NULL AND t.s_until = s.started_at
  AND piece.low <= s.started_at AND piece.high > s.started_at))
"""

# What the cluster's own times say of work that the portal first met when it held quota already.
_BEFORE = """
SELECT s.cluster_id, s.kind, s.uid, k.piece, s.namespace, s.name, s.queue_name, s.queue, part.phase, part.state,
  '' AS reason, '' AS message, part.low AS started_at, part.high AS ended_at, s.requests, '[]'::jsonb AS usage,
  '' AS evidence, part.high AS until_at, CASE WHEN part.phase = 'running' THEN 1 ELSE 0 END AS attempt
FROM spans s JOIN work k USING (cluster_id, uid)
CROSS JOIN LATERAL (SELECT
  least(CASE WHEN k.queued_at <= coalesce(k.reserved_at, k.admitted_at, s.started_at) THEN k.queued_at
    ELSE k.created_at END, s.started_at) AS queued,
  least(coalesce(k.reserved_at, k.admitted_at, s.started_at), s.started_at) AS reserved,
  least(CASE WHEN s.state = 'admitted' THEN coalesce(k.admitted_at, s.started_at) END, s.started_at) AS admitted
) t
CROSS JOIN LATERAL (VALUES
  ('queued', 'pending', t.queued, least(t.reserved, t.admitted)),
  ('reserved', 'reserved', least(t.reserved, t.admitted), t.admitted),
  ('running', 'admitted', t.admitted, s.started_at)
) AS part(phase, state, low, high)
WHERE s.is_first AND s.state IN ('reserved', 'admitted') AND part.low < part.high
"""

_PODS = """
SELECT p.cluster_id, 'Pod' AS kind, p.uid, p.uid AS piece, p.namespace, p.name, p.queue_name, '' AS queue, cut.phase,
  '' AS state, coalesce(cut.reason, '') AS reason, coalesce(cut.message, '') AS message, cut.low AS started_at,
  CASE WHEN p.gone_at IS NULL AND cut.high = p.last_at THEN NULL ELSE cut.high END AS ended_at, p.requests,
  '[]'::jsonb AS usage, cut.evidence, cut.high AS until_at, CASE WHEN cut.phase = 'gated' THEN 0 ELSE 1 END AS attempt
FROM plain p LEFT JOIN plain_scale_ups u USING (id) LEFT JOIN plain_refusals f USING (id)
CROSS JOIN LATERAL (SELECT
  greatest(p.born, coalesce(p.bound_at, 'infinity')) AS placed,
  greatest(p.born, p.bound_at, coalesce(p.ready_at, 'infinity')) AS ready,
  greatest(p.born, coalesce(p.finished_at, 'infinity')) AS finished,
  greatest(p.born, coalesce(u.at, 'infinity')) AS scaled,
  p.scheduling_gates <> '[]' AND p.bound_at IS NULL AS gated,
  coalesce(p.conditions->'PodScheduled'->>'reason', '') AS reason,
  coalesce(p.conditions->'PodScheduled'->>'message', '') AS message
) t
CROSS JOIN LATERAL (VALUES
  (CASE WHEN t.gated THEN 'gated' ELSE 'unplaced' END, p.born, least(t.placed, t.scaled, t.finished),
    CASE WHEN p.bound_at IS NULL THEN t.reason ELSE f.reason END,
    CASE WHEN p.bound_at IS NULL THEN t.message ELSE f.message END,
    CASE WHEN p.bound_at IS NULL AND t.reason <> '' THEN 'pod' WHEN f.message IS NOT NULL THEN 'event' ELSE '' END),
  ('provisioning', t.scaled, least(t.placed, t.finished), u.reason, u.message, 'event'),
  ('starting', t.placed, least(t.ready, t.finished), CASE WHEN p.ready_at IS NULL THEN p.reason END,
    CASE WHEN p.ready_at IS NULL THEN p.message END, CASE WHEN p.ready_at IS NULL AND p.reason <> '' THEN 'pod' ELSE '' END),
  ('running', t.ready, t.finished, '', '', 'pod'),
  ('finished', t.finished, 'infinity'::timestamptz, p.reason, p.message, 'pod')
) AS piece(phase, low, high, reason, message, evidence)
CROSS JOIN LATERAL (SELECT piece.phase, piece.low, least(piece.high, p.last_at) AS high, piece.reason, piece.message,
  piece.evidence) cut
WHERE cut.low < cut.high
  OR (p.gone_at IS NULL AND p.born = p.last_at AND piece.low <= p.born AND piece.high > p.born)
"""

LIFE = f"""(
WITH {WORK}, {SPANS}, {GANGS}, {PLAIN}
SELECT {_COLUMNS} FROM ({_OUTSIDE} UNION ALL {_INSIDE} UNION ALL {_BEFORE} UNION ALL {_PODS}) life
WHERE started_at < %(life_end)s AND until_at > %(life_start)s
)"""  # noqa: S608 - constants of this module only

# Stretches before quota is reserved; one ends where the work is deactivated, and never goes on. A wait that touches
# the window is given whole only when the window holds it all: ask with one that begins early enough, or by uids.
WAITS = """(
SELECT cluster_id, kind, uid, piece, namespace, name, queue_name, queue,
  CASE WHEN number = 1 THEN 'first' ELSE 'again' END AS which, ended, began_at, ended_at, until_at, seconds,
  backoff_seconds, held_seconds, requests, usage
FROM (
  SELECT cluster_id, kind, uid, min(piece) AS piece, min(namespace) AS namespace, min(name) AS name,
    (array_agg(queue_name ORDER BY started_at DESC))[1] AS queue_name,
    (array_agg(queue ORDER BY started_at DESC))[1] AS queue, stretch,
    dense_rank() OVER (PARTITION BY cluster_id, uid ORDER BY stretch) AS number,
    min(started_at) AS began_at, max(until_at) AS until_at,
    CASE WHEN bool_or(ended_at IS NULL) THEN NULL ELSE max(ended_at) END AS ended_at,
    CASE WHEN bool_or(after IN ('reserved', 'admitted')) THEN 'reserved'
      WHEN bool_or(ended_at IS NULL) THEN 'open' ELSE 'gave_up' END AS ended,
    coalesce(sum(extract(epoch FROM until_at - started_at)) FILTER (WHERE phase IN ('gated', 'queued')), 0) AS seconds,
    coalesce(sum(extract(epoch FROM until_at - started_at)) FILTER (WHERE phase = 'backoff'), 0) AS backoff_seconds,
    coalesce(sum(extract(epoch FROM until_at - started_at)) FILTER (WHERE phase = 'held'), 0) AS held_seconds,
    (array_agg(requests ORDER BY started_at DESC))[1] AS requests,
    (array_agg(next_usage ORDER BY started_at DESC))[1] AS usage
  FROM (
    SELECT *, count(*) FILTER (WHERE waits AND NOT waited) OVER w AS stretch,
      lead(state) OVER w AS after, lead(usage) OVER w AS next_usage
    FROM (
      SELECT *, state = 'pending' AS waits,
        coalesce(lag(state) OVER (PARTITION BY cluster_id, uid ORDER BY started_at) = 'pending', false) AS waited
      FROM {life} l WHERE kind <> 'Pod'
    ) marked
    WINDOW w AS (PARTITION BY cluster_id, uid ORDER BY started_at)
  ) stretches
  WHERE waits GROUP BY cluster_id, kind, uid, stretch
) waits
)"""


def waits_of(life: str = LIFE) -> str:
    """`WAITS` over a relation of LIFE's columns, e.g. a table that was made from it."""
    return WAITS.format(life=life)


_FIRST_POD = "SELECT min(first_seen_at) FROM observations_pod WHERE cluster_id = %s"


def life_params(
    clusters: Collection[int],
    *,
    start: datetime,
    end: datetime,
    now: datetime,
    uids: Collection[str] | None = None,
    copies: bool = False,
) -> dict[str, Any]:
    """Parameters of LIFE for the stretches that touch [start, end), as known at `now`; `uids` narrows it to these,
    `copies` also gives what is a copy of other work. A source that was never pulled (an imported past) holds nothing
    back; pods that nobody ever read are not known."""
    ids = list(clusters)
    states = SourceState.objects.filter(cluster__in=ids, last_ok_at__isnull=False).exclude(
        presence=Presence.ABSENT
    )
    rows = states.values_list("cluster_id", "source", "last_ok_at")
    pulls = {(pk, source): at for pk, source, at in rows if at is not None}
    oldest = now - timedelta(days=settings.GONE_RETENTION_DAYS)
    firsts: dict[int, datetime | None] = {}
    with connection.cursor() as cursor:
        for pk in ids:
            cursor.execute(_FIRST_POD, [pk])
            firsts[pk] = cursor.fetchone()[0]

    def until(pk: int, source: Source) -> datetime:
        return min(now, pulls.get((pk, source.value), now))

    known = {pk: firsts[pk] is not None or (pk, Source.PODS.value) in pulls for pk in ids}
    return {
        "life_clusters": ids,
        "life_work_until": [until(pk, Source.KUEUE) for pk in ids],
        "life_group_until": [until(pk, Source.VOLCANO) for pk in ids],
        "life_pod_until": [until(pk, Source.PODS) if known[pk] else None for pk in ids],
        "life_pod_from": [max(oldest, firsts[pk] or datetime.min.replace(tzinfo=UTC)) for pk in ids],
        "life_start": start,
        "life_end": end,
        "life_uids": None if uids is None else list(uids),
        "life_copies": copies,
    }
