"""What the life of work is made from, as SQL: the parts of LIFE's WITH clause (life_relation.py). Input: the parameters of
`life_params`; output: work, spans, milestones of gangs, and plain pods.

- `work`: the uids that the window touches, what is known of their objects, and the piece that each is part of.
- `spans`: all their state spans, numbered by attempt.
- `milestones`: when the pods of each attempt were placed and ready, or why not.
- `plain`: GPU pods that belong to no Workload and no PodGroup, with their scale-ups and refusals.
"""

from __future__ import annotations

_ORIGIN = "kueue.x-k8s.io/multikueue-origin"
_SLICE = "kueue.x-k8s.io/workload-slice-name"
JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"

# Beside which the phase of a span is told: checks that ask for nodes, and queues that are inactive for another reason than
# that somebody stopped them.
PHASE_FACTS = """
provisioners AS MATERIALIZED (
  SELECT cluster_id, array_agg(name::text) AS names FROM observations_clusterobject
  WHERE cluster_id = ANY(%(life_clusters)s) AND kind = 'AdmissionCheck'
    AND spec->>'controller' LIKE '%%provisioning%%' GROUP BY cluster_id
), broken AS MATERIALIZED (
  SELECT DISTINCT cluster_id, name AS queue FROM observations_clusterobject
  WHERE cluster_id = ANY(%(life_clusters)s) AND kind = 'ClusterQueue' AND gone_at IS NULL
    AND status->'conditions'->'Active'->>'status' = 'False'
    AND status->'conditions'->'Active'->>'reason' <> 'Stopped'
)"""

# The phase of span `s` outside of a placement, beside a provisioner `c` and a broken queue `b`.
PHASE_OF_SPAN = """CASE
    WHEN s.state = 'finished' THEN 'finished'
    WHEN s.state = 'deactivated' OR s.reason IN ('OnHold', 'Suspended', 'Deactivated') THEN 'held'
    WHEN s.state = 'pending' AND s.message ~ '^(Cluster|Local)Queue \\S+ is (stopped|inactive)' AND b.queue IS NULL
      THEN 'held'
    WHEN s.state = 'pending' AND (s.reason = 'AdmissionGated' OR s.message LIKE 'Admission is gated by%%')
      THEN 'gated'
    WHEN s.state = 'reserved' AND EXISTS (SELECT FROM unnest(c.names) n
      WHERE starts_with(s.message, n || ': ') OR position('; ' || n || ': ' IN s.message) > 0) THEN 'provisioning'
    WHEN s.state = 'reserved' THEN 'reserved'
    ELSE 'queued' END"""
PHASE_JOINS = """
LEFT JOIN provisioners c ON c.cluster_id = s.cluster_id
LEFT JOIN broken b ON b.cluster_id = s.cluster_id AND b.queue = s.queue"""

# Uids that the window touches, and what is known of their objects. A copy is left out when its original is known.
WORK = f"""
reach AS MATERIALIZED (
  SELECT * FROM unnest(%(life_clusters)s::bigint[], %(life_work_until)s::timestamptz[],
    %(life_group_until)s::timestamptz[], %(life_pod_until)s::timestamptz[], %(life_pod_from)s::timestamptz[])
    AS r(cluster_id, work_until, group_until, pod_until, pod_from)
), {PHASE_FACTS}, touched AS MATERIALIZED (
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
      ELSE coalesce(nullif(w.slice_name, ''), w.labels->>'{_SLICE}', t.uid) END AS piece,
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
SPANS = """
spans AS MATERIALIZED (
  SELECT *, count(*) FILTER (WHERE places AND NOT placed_before) OVER w AS attempt, lead(state) OVER w AS next_state
  FROM (
    SELECT s.id, s.cluster_id, s.kind, s.uid, s.namespace, s.name, s.queue_name, s.queue, s.state, s.requests, s.usage,
      coalesce(e.reason, s.reason) AS reason, coalesce(e.message, s.message) AS message,
      CASE WHEN e.message IS NOT NULL THEN 'event' WHEN s.message = '' AND s.reason = '' THEN ''
        WHEN s.state = 'reserved' AND s.kind = 'Workload' THEN 'check' ELSE 'condition' END AS evidence,
      s.started_at, s.ended_at,
      coalesce(CASE WHEN s.ended_at IS NULL THEN k.requeue_at END, s.requeue_at) AS retry_at,
      places, coalesce(s.ended_at, greatest(s.started_at,
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
GANGS = f"""
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

# GPU pods that belong to no Workload and no PodGroup.
PLAIN = f"""
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
