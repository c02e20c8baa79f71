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

_ORIGIN = "kueue.x-k8s.io/multikueue-origin"
_SLICE = "kueue.x-k8s.io/workload-slice-name"
JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"

# Uids that the window touches, and what is known of their objects. A copy is left out when its original is known.
_WORK = f"""
reach AS MATERIALIZED (
  SELECT * FROM unnest(%(life_clusters)s::bigint[], %(life_work_until)s::timestamptz[],
    %(life_group_until)s::timestamptz[], %(life_pod_until)s::timestamptz[], %(life_pod_from)s::timestamptz[])
    AS r(cluster_id, work_until, group_until, pod_until, pod_from)
), provisioners AS MATERIALIZED (
  SELECT cluster_id, array_agg(name::text) AS names FROM observations_clusterobject
  WHERE cluster_id = ANY(%(life_clusters)s) AND kind = 'AdmissionCheck'
    AND spec->>'controller' LIKE '%%provisioning%%' GROUP BY cluster_id
), broken AS MATERIALIZED (
  SELECT DISTINCT cluster_id, name AS queue FROM observations_clusterobject
  WHERE cluster_id = ANY(%(life_clusters)s) AND kind = 'ClusterQueue' AND gone_at IS NULL
    AND status->'conditions'->'Active'->>'status' = 'False'
    AND status->'conditions'->'Active'->>'reason' <> 'Stopped'
), touched AS MATERIALIZED (
  SELECT DISTINCT cluster_id, uid FROM observations_statespan
  WHERE cluster_id = ANY(%(life_clusters)s) AND started_at < %(life_end)s
    AND (ended_at IS NULL OR ended_at > %(life_start)s)
    AND (%(life_uids)s::text[] IS NULL OR uid = ANY(%(life_uids)s::text[]))
), originals AS MATERIALIZED (
  SELECT namespace, name, uid, owner_uid FROM observations_workload
  WHERE kind = 'Workload' AND NOT labels ? '{_ORIGIN}' AND (namespace, name) IN (
    SELECT w.namespace, w.name FROM touched t JOIN observations_workload w USING (cluster_id, uid)
    WHERE w.labels ? '{_ORIGIN}')
), work AS MATERIALIZED (
  SELECT t.cluster_id, t.uid, w.namespace, w.name, w.kind, w.owner_uid, w.requeue_at, w.created_at, w.queued_at,
    w.reserved_at, w.admitted_at, w.conditions,
    CASE WHEN o.uid IS NOT NULL THEN coalesce(nullif(o.owner_uid, ''), o.uid)
      WHEN v.uid IS NOT NULL THEN coalesce(nullif(v.owner_uid, ''), v.uid)
      WHEN w.owner_uid <> '' AND w.owner_kind <> 'LeaderWorkerSet' THEN w.owner_uid
      ELSE coalesce(w.labels->>'{_SLICE}', t.uid) END AS piece,
    (SELECT sum(coalesce((p->>'min_count')::int, (p->>'count')::int)) FROM jsonb_array_elements(w.pod_sets) p)
      AS need
  FROM touched t
  LEFT JOIN observations_workload w ON w.cluster_id = t.cluster_id AND w.uid = t.uid
  LEFT JOIN originals o ON w.labels ? '{_ORIGIN}' AND o.namespace = w.namespace AND o.name = w.name
  LEFT JOIN observations_workload v ON w.owner_kind = 'Workload' AND v.cluster_id = w.cluster_id
    AND v.uid = w.owner_uid
  WHERE %(life_copies)s OR (o.uid IS NULL AND v.uid IS NULL)
)"""  # noqa: S608 - constants of this module only

# Every span of these uids, numbered by attempt. Volcano's reason for a group without a condition stands in an Event.
_SPANS = """
spans AS MATERIALIZED (
  SELECT *, count(*) FILTER (WHERE places AND NOT placed_before) OVER w AS attempt, lead(state) OVER w AS next_state
  FROM (
    SELECT s.id, s.cluster_id, s.kind, s.uid, s.namespace, s.name, s.queue_name, s.queue, s.state, s.requests, s.usage,
      coalesce(e.reason, s.reason) AS reason, coalesce(e.message, s.message) AS message,
      CASE WHEN e.message IS NOT NULL THEN 'event' WHEN s.message = '' AND s.reason = '' THEN ''
        WHEN s.state = 'reserved' AND s.kind = 'Workload' THEN 'check' ELSE 'condition' END AS evidence,
      s.started_at, s.ended_at, places, coalesce(s.ended_at, greatest(s.started_at,
        CASE WHEN s.kind = 'PodGroup' THEN r.group_until ELSE r.work_until END)) AS until_at,
      coalesce(lag(places) OVER v, false) AS placed_before, row_number() OVER v = 1 AS is_first
    FROM work k JOIN observations_statespan s ON s.cluster_id = k.cluster_id AND s.uid = k.uid
    JOIN reach r ON r.cluster_id = s.cluster_id
    CROSS JOIN LATERAL (SELECT s.state = 'admitted' OR (s.kind = 'PodGroup' AND s.state = 'reserved') AS places) p
    LEFT JOIN LATERAL (
      SELECT e.reason, e.message FROM observations_event e
      WHERE s.kind = 'PodGroup' AND s.message = '' AND s.state IN ('pending', 'reserved')
        AND e.cluster_id = s.cluster_id AND e.object_uid = s.uid
        AND e.reason = 'Unschedulable' AND e.created_at < coalesce(s.ended_at, 'infinity')
      ORDER BY (e.type = 'Normal' AND s.state = 'pending') DESC, coalesce(e.last_at, e.created_at) DESC LIMIT 1
    ) e ON true
    WINDOW v AS (PARTITION BY s.cluster_id, s.uid ORDER BY s.started_at, s.id)
  ) numbered
  WINDOW w AS (PARTITION BY cluster_id, uid ORDER BY started_at, id)
), attempts AS MATERIALIZED (
  SELECT cluster_id, uid, attempt, min(started_at) AS began, max(until_at) AS ended,
    bool_or(ended_at IS NULL) AS is_open, coalesce(bool_or(next_state = 'finished'), false) AS finishes
  FROM spans WHERE places GROUP BY cluster_id, uid, attempt
)"""

# The pods of each attempt, and its milestones. `found` pods: none and no knowledge → nothing is said of placement.
_GANGS = f"""
members AS MATERIALIZED (
  SELECT k.cluster_id, k.uid, p.id FROM work k JOIN observations_pod p
    ON p.cluster_id = k.cluster_id AND p.namespace = k.namespace AND p.pod_group = k.name AND p.pod_group <> ''
  UNION
  SELECT k.cluster_id, k.uid, p.id FROM work k JOIN (
    SELECT id, cluster_id, namespace, unnest(ARRAY[uid::text, owner_uid::text, labels->>'{JOBSET_UID}']) AS key
    FROM observations_pod WHERE cluster_id = ANY(%(life_clusters)s)) p
    ON p.cluster_id = k.cluster_id AND p.namespace = k.namespace AND p.key = k.owner_uid AND k.owner_uid <> ''
), gang AS MATERIALIZED (
  SELECT a.cluster_id, a.uid, a.attempt, p.uid AS pod_uid, p.reason, p.message, p.bound_at, p.phase,
    p.conditions->'PodScheduled' AS scheduled,
    CASE WHEN p.conditions->'Ready'->>'status' = 'True' THEN (p.conditions->'Ready'->>'since')::timestamptz
      WHEN p.phase IN ('Succeeded', 'Failed') THEN coalesce(p.started_at, p.bound_at) END AS ready_at,
    row_number() OVER (PARTITION BY a.cluster_id, a.uid, a.attempt ORDER BY p.bound_at NULLS LAST, p.id) AS place
  FROM attempts a JOIN members m USING (cluster_id, uid) JOIN observations_pod p ON p.id = m.id
  WHERE coalesce(p.created_at, p.first_seen_at) < a.ended
    AND coalesce(p.finished_at, p.gone_at, 'infinity') > a.began
), counted AS MATERIALIZED (
  SELECT cluster_id, uid, attempt, count(*) AS found, count(bound_at) AS bound,
    array_agg(greatest(bound_at, '-infinity') ORDER BY bound_at) FILTER (WHERE bound_at IS NOT NULL) AS binds,
    array_agg(greatest(ready_at, bound_at) ORDER BY greatest(ready_at, bound_at))
      FILTER (WHERE ready_at IS NOT NULL) AS readies
  FROM gang GROUP BY cluster_id, uid, attempt
), scale_ups AS MATERIALIZED (
  SELECT DISTINCT ON (g.cluster_id, g.uid, g.attempt) g.cluster_id, g.uid, g.attempt, e.reason, e.message,
    coalesce(e.first_at, e.created_at) AS at
  FROM observations_event e JOIN gang g ON g.cluster_id = e.cluster_id AND g.pod_uid = e.object_uid
  WHERE e.cluster_id = ANY(%(life_clusters)s) AND e.reason IN ('TriggeredScaleUp', 'Nominated')
  ORDER BY g.cluster_id, g.uid, g.attempt, coalesce(e.first_at, e.created_at), e.id
), refusals AS MATERIALIZED (
  SELECT DISTINCT ON (g.cluster_id, g.uid, g.attempt) g.cluster_id, g.uid, g.attempt, e.reason, e.message
  FROM observations_event e JOIN gang g ON g.cluster_id = e.cluster_id AND g.pod_uid = e.object_uid
  WHERE e.cluster_id = ANY(%(life_clusters)s) AND e.reason = 'FailedScheduling'
  ORDER BY g.cluster_id, g.uid, g.attempt, coalesce(e.last_at, e.created_at) DESC, e.id DESC
), evictions AS MATERIALIZED (
  SELECT DISTINCT ON (a.cluster_id, a.uid, a.attempt) a.cluster_id, a.uid, a.attempt, e.reason, e.message,
    coalesce(e.first_at, e.created_at) AS at
  FROM observations_event e JOIN attempts a ON a.cluster_id = e.cluster_id AND a.uid = e.object_uid
    AND coalesce(e.first_at, e.created_at) >= a.began AND coalesce(e.first_at, e.created_at) < a.ended
  WHERE e.cluster_id = ANY(%(life_clusters)s) AND e.reason LIKE 'EvictedDueTo%%'
  ORDER BY a.cluster_id, a.uid, a.attempt, coalesce(e.first_at, e.created_at), e.id
), waiting_pods AS MATERIALIZED (
  SELECT DISTINCT ON (cluster_id, uid, attempt) cluster_id, uid, attempt, bound_at IS NOT NULL AS is_bound,
    CASE WHEN bound_at IS NULL THEN coalesce(scheduled->>'reason', '') ELSE reason END AS reason,
    CASE WHEN bound_at IS NULL THEN coalesce(scheduled->>'message', '') ELSE message END AS message
  FROM gang WHERE ready_at IS NULL ORDER BY cluster_id, uid, attempt, bound_at IS NOT NULL, message = '', pod_uid
), milestones AS MATERIALIZED (
  SELECT a.*, c.found,
    CASE WHEN known.pods THEN coalesce(c.binds[known.need], 'infinity') ELSE a.began END AS placed,
    CASE WHEN known.pods THEN coalesce(c.readies[known.need], 'infinity') ELSE a.began END AS ready,
    u.at AS scaled_at, u.reason AS scale_reason, u.message AS scale_message,
    coalesce(v.at, CASE WHEN a.is_open AND k.conditions->'Evicted'->>'status' = 'True'
      THEN greatest(a.began, (k.conditions->'Evicted'->>'since')::timestamptz) END, 'infinity') AS evicted,
    coalesce(v.reason, k.conditions->'Evicted'->>'reason', '') AS evict_reason,
    coalesce(v.message, k.conditions->'Evicted'->>'message', '') AS evict_message,
    CASE WHEN v.at IS NULL THEN 'condition' ELSE 'event' END AS evict_evidence,
    f.reason AS refuse_reason, f.message AS refuse_message, p.is_bound, p.reason AS pod_reason, p.message AS pod_message,
    known.pods, CASE WHEN known.pods THEN least(a.ended, greatest(a.began,
      CASE WHEN a.is_open THEN r.pod_until ELSE a.ended END)) ELSE a.ended END AS seen_until
  FROM attempts a JOIN work k USING (cluster_id, uid) JOIN reach r USING (cluster_id)
  LEFT JOIN counted c USING (cluster_id, uid, attempt)
  CROSS JOIN LATERAL (SELECT
    coalesce(c.found, 0) > 0 OR (r.pod_until IS NOT NULL AND a.began >= r.pod_from AND NOT a.finishes
      AND k.namespace IS NOT NULL) AS pods,
    CASE WHEN a.finishes THEN least(greatest(k.need, 1), greatest(c.bound, 1)) ELSE greatest(k.need, 1) END::int AS need
  ) known
  LEFT JOIN scale_ups u USING (cluster_id, uid, attempt)
  LEFT JOIN refusals f USING (cluster_id, uid, attempt)
  LEFT JOIN evictions v USING (cluster_id, uid, attempt)
  LEFT JOIN waiting_pods p USING (cluster_id, uid, attempt)
)"""  # noqa: S608 - constants of this module only

_COLUMNS = """cluster_id, kind, uid, piece, namespace, name, queue_name, queue, phase, state, reason, message,
  started_at, ended_at, requests, usage, evidence, until_at, attempt"""

# A span before or after a placement is in one phase, but for the time that the cluster itself waits to queue it again.
_OUTSIDE = """
SELECT s.cluster_id, s.kind, s.uid, k.piece, s.namespace, s.name, s.queue_name, s.queue, part.phase, s.state, s.reason,
  s.message, part.low AS started_at, CASE WHEN s.ended_at IS NULL AND part.last THEN NULL ELSE part.high END AS ended_at,
  s.requests, s.usage, s.evidence, part.high AS until_at, s.attempt
FROM spans s JOIN work k USING (cluster_id, uid)
LEFT JOIN provisioners c USING (cluster_id)
LEFT JOIN broken b ON b.cluster_id = s.cluster_id AND b.queue = s.queue
CROSS JOIN LATERAL (SELECT
  CASE WHEN s.is_first AND s.state = 'pending'
    THEN least(s.started_at, CASE WHEN k.queued_at <= s.started_at THEN k.queued_at ELSE k.created_at END)
    ELSE s.started_at END AS low,
  CASE WHEN s.ended_at IS NULL AND s.state = 'pending' AND k.requeue_at > s.started_at
    THEN least(k.requeue_at, s.until_at) END AS retry_at,
  CASE
    WHEN s.state = 'finished' THEN 'finished'
    WHEN s.state = 'deactivated' OR s.reason IN ('OnHold', 'Suspended', 'Deactivated') THEN 'held'
    WHEN s.state = 'pending' AND s.message ~ '^(Cluster|Local)Queue \\S+ is (stopped|inactive)' AND b.queue IS NULL
      THEN 'held'
    WHEN s.state = 'pending' AND (s.reason = 'AdmissionGated' OR s.message LIKE 'Admission is gated by%%')
      THEN 'gated'
    WHEN s.state = 'reserved' AND EXISTS (SELECT FROM unnest(c.names) n
      WHERE starts_with(s.message, n || ': ') OR position('; ' || n || ': ' IN s.message) > 0) THEN 'provisioning'
    WHEN s.state = 'reserved' THEN 'reserved'
    ELSE 'queued' END AS phase) f
CROSS JOIN LATERAL (VALUES
  (CASE WHEN f.phase = 'queued' THEN 'backoff' ELSE f.phase END, f.low, coalesce(f.retry_at, f.low),
    f.retry_at = s.until_at),
  (f.phase, coalesce(f.retry_at, f.low), s.until_at, f.retry_at IS DISTINCT FROM s.until_at)
) AS part(phase, low, high, last)
WHERE NOT s.places AND (part.low < part.high OR (part.last AND s.ended_at IS NULL AND part.low = part.high))
"""

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

# GPU pods that belong to no Workload and no PodGroup.
_PLAIN = f"""
plain AS MATERIALIZED (
  SELECT p.*, coalesce(p.created_at, p.first_seen_at) AS born,
    greatest(coalesce(p.created_at, p.first_seen_at), least(r.pod_until, coalesce(p.gone_at, 'infinity'))) AS last_at,
    CASE WHEN p.conditions->'Ready'->>'status' = 'True' THEN (p.conditions->'Ready'->>'since')::timestamptz
      WHEN p.phase IN ('Succeeded', 'Failed') THEN coalesce(p.started_at, p.bound_at) END AS ready_at
  FROM observations_pod p JOIN reach r USING (cluster_id)
  WHERE (p.devices > 0 OR p.claims <> '[]') AND r.pod_until IS NOT NULL
    AND (%(life_uids)s::text[] IS NULL OR p.uid = ANY(%(life_uids)s::text[]))
    AND coalesce(p.created_at, p.first_seen_at) < %(life_end)s AND coalesce(p.gone_at, 'infinity') > %(life_start)s
    AND NOT EXISTS (SELECT FROM observations_workload w WHERE w.cluster_id = p.cluster_id
      AND w.namespace = p.namespace AND w.owner_uid IN (p.uid, nullif(p.owner_uid, ''), p.labels->>'{JOBSET_UID}'))
    AND NOT EXISTS (SELECT FROM observations_workload w WHERE w.cluster_id = p.cluster_id
      AND w.namespace = p.namespace AND w.name = p.pod_group AND p.pod_group <> '')
), plain_scale_ups AS MATERIALIZED (
  SELECT DISTINCT ON (p.id) p.id, e.reason, e.message, coalesce(e.first_at, e.created_at) AS at
  FROM observations_event e JOIN plain p ON p.cluster_id = e.cluster_id AND p.uid = e.object_uid
  WHERE e.cluster_id = ANY(%(life_clusters)s) AND e.reason IN ('TriggeredScaleUp', 'Nominated')
  ORDER BY p.id, coalesce(e.first_at, e.created_at), e.id
), plain_refusals AS MATERIALIZED (
  SELECT DISTINCT ON (p.id) p.id, e.reason, e.message
  FROM observations_event e JOIN plain p ON p.cluster_id = e.cluster_id AND p.uid = e.object_uid
  WHERE e.cluster_id = ANY(%(life_clusters)s) AND e.reason = 'FailedScheduling'
  ORDER BY p.id, coalesce(e.last_at, e.created_at) DESC, e.id DESC
)"""  # noqa: S608 - constants of this module only

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
WITH {_WORK}, {_SPANS}, {_GANGS}, {_PLAIN}
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
