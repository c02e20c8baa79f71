"""The statements of the rollup of waiting work: from the life of work to the rows of its hours.

Input: `rollup_life`, a temporary table with `LIFE`'s columns and the whole life of all work that [start, end) touches;
output: rows of BlockHour, WaitHour, OutcomeHour of these hours. Nothing here knows how often it runs.
"""

from __future__ import annotations

from apps.admissions.blocks import BLOCKS, BLOCKS_ON
from apps.admissions.life_relation import BLOCKING, LIFE, waits_of
from apps.admissions.ownership import OWNERS, OWNERS_ON
from apps.admissions.sizes import size_sql
from apps.usage.rounding import rounded_sql

_FINISHED = "finished"

# Work whose life touches the hours, and other Workloads of the same owners: a piece of work is looked at as a whole.
TOUCHED = """
WITH touched AS (
  SELECT DISTINCT uid FROM observations_statespan
  WHERE cluster_id = %(cluster)s AND started_at < %(end)s AND (ended_at IS NULL OR ended_at > %(start)s)
    AND (state <> 'finished' OR started_at >= %(start)s)
), owners AS (
  SELECT DISTINCT w.owner_uid FROM touched t JOIN observations_workload w ON w.uid = t.uid
  WHERE w.cluster_id = %(cluster)s AND w.owner_uid <> ''
)
SELECT uid FROM touched
UNION
SELECT w.uid FROM observations_workload w JOIN owners USING (owner_uid) WHERE w.cluster_id = %(cluster)s
UNION
SELECT uid FROM observations_pod WHERE cluster_id = %(cluster)s AND (devices > 0 OR claims <> '[]')
  AND coalesce(created_at, first_seen_at) < %(end)s
  AND coalesce(finished_at, gone_at, 'infinity') >= %(start)s
"""

# The planner knows nothing of how many rows the parts of LIFE have, takes them for few, and joins them row by row: for
# thousands of uids that is quadratic. Joined by hash it is linear.
FOR_MANY = ("jit = off", "work_mem = '64MB'", "enable_nestloop = off", "enable_mergejoin = off")
AFTERWARDS = ("enable_nestloop = on", "enable_mergejoin = on")
MAKE_LIFE = f"CREATE TEMP TABLE rollup_life ON COMMIT DROP AS SELECT * FROM {LIFE} life"  # noqa: S608
LIFE_KEYS = "SELECT DISTINCT cluster_id, kind, namespace, queue_name, queue FROM rollup_life"
LIFE_RESOURCES = """
SELECT jsonb_object_keys(requests) FROM (SELECT DISTINCT requests FROM rollup_life) r
UNION
SELECT u->>'resource' FROM (SELECT DISTINCT usage FROM rollup_life) r CROSS JOIN LATERAL jsonb_array_elements(usage) u
"""

# Blocked stretches within the hours. Of one piece's Workloads that are blocked at once the youngest counts.
_BLOCKED = """
SELECT cluster_id, kind, namespace, queue_name, queue, phase, state, reason, message, requests, usage,
  lower(part) AS started_at, upper(part) AS ended_at
FROM (
  SELECT l.*, unnest(tstzmultirange(tstzrange(greatest(l.started_at, %(start)s), least(l.until_at, %(end)s)))
    - coalesce(y.younger, '{}'::tstzmultirange)) AS part
  FROM rollup_life l
  LEFT JOIN LATERAL (
    SELECT range_agg(tstzrange(o.started_at, o.until_at)) AS younger FROM rollup_life o
    JOIN (SELECT uid, min(started_at) AS born FROM rollup_life WHERE piece = l.piece GROUP BY uid) b USING (uid)
    WHERE o.piece = l.piece AND o.phase = ANY(%(blocking)s)
      AND (b.born, o.uid) > ((SELECT min(started_at) FROM rollup_life WHERE uid = l.uid), l.uid)
  ) y ON l.piece IN (SELECT piece FROM rollup_life GROUP BY piece HAVING count(DISTINCT uid) > 1)
  WHERE l.phase = ANY(%(blocking)s) AND l.started_at < %(end)s AND l.until_at > %(start)s
) cut
"""

_AMOUNTS = """
SELECT ''::text AS resource, 1::numeric AS quantity, coalesce((
  SELECT CASE WHEN count(DISTINCT u->>'flavor') = 1 THEN min(u->>'flavor') END
  FROM jsonb_array_elements(s.usage) u WHERE u->>'resource' = ANY(%(devices)s)), '') AS flavor
UNION ALL
SELECT resource, quantity, coalesce(flavor, '')
FROM jsonb_to_recordset(s.usage) AS u(flavor text, resource text, quantity numeric) WHERE resource = ANY(%(devices)s)
UNION ALL
SELECT key, value::numeric, '' FROM jsonb_each_text(s.requests)
WHERE key = ANY(%(devices)s) AND NOT EXISTS (
  SELECT FROM jsonb_array_elements(s.usage) u WHERE u->>'resource' = ANY(%(devices)s))
"""

BLOCK_HOURS = f"""
INSERT INTO usage_blockhour (cluster_id, team_id, queue, flavor, layer, cause, reason, resource, step, hour, rules,
  current, seconds)
SELECT cluster_id, team_id, queue, flavor, layer, cause, reason, resource, 'hour', hour, %(rules)s, true,
  sum(quantity * extract(epoch FROM least(high, hour + interval '1 hour') - greatest(low, hour)))
FROM (
  SELECT s.cluster_id, o.team_id, s.queue, a.flavor, b.layer, b.cause, s.reason, a.resource, a.quantity,
    greatest(s.started_at, o.owned_from) AS low, least(s.ended_at, o.owned_to) AS high
  FROM ({_BLOCKED}) s
  JOIN {OWNERS} ON {OWNERS_ON}
  JOIN {BLOCKS} ON {BLOCKS_ON}
  CROSS JOIN LATERAL ({_AMOUNTS}) a
) parts
CROSS JOIN LATERAL generate_series(date_trunc('hour', low, 'UTC'), high - interval '1 microsecond',
  interval '1 hour') AS hour
WHERE low < high
GROUP BY cluster_id, team_id, queue, flavor, layer, cause, reason, resource, hour
HAVING sum(quantity) > 0
"""  # noqa: S608 - constants

# A piece of work waits for the first time once: what a re-created Workload waits is a wait again.
MAKE_WAITS = f"""
CREATE TEMP TABLE rollup_waits ON COMMIT DROP AS
SELECT w.*, CASE WHEN w.which = 'first' AND w.uid = p.uid THEN 'first' ELSE 'again' END AS nth
FROM {waits_of("rollup_life")} w
JOIN (SELECT DISTINCT ON (piece) piece, uid FROM rollup_life WHERE kind <> 'Pod' ORDER BY piece, started_at, uid) p
  USING (piece)
"""  # noqa: S608 - constants

_MOST = """(SELECT max(value::numeric) FROM jsonb_each_text(s.requests) WHERE key = ANY(%(devices)s))"""
_FLAVOR = """coalesce((SELECT CASE WHEN count(DISTINCT u->>'flavor') = 1 THEN min(u->>'flavor') END
  FROM jsonb_array_elements(s.usage) u WHERE u->>'resource' = ANY(%(devices)s)), '')"""

WAIT_HOURS = f"""
INSERT INTO usage_waithour (cluster_id, team_id, queue, flavor, size, which, ended, step, hour, ended_in, seconds, count)
SELECT s.cluster_id, o.team_id, s.queue, {_FLAVOR}, {size_sql(_MOST)}, s.nth, s.ended, 'hour',
  date_trunc('hour', s.began_at, 'UTC'), date_trunc('hour', s.ended_at, 'UTC'), {rounded_sql("s.seconds")}, count(*)
FROM rollup_waits s
JOIN {OWNERS} ON o.cluster_id = s.cluster_id AND o.kind = s.kind AND o.namespace = s.namespace
  AND o.queue_name = s.queue_name AND o.queue = s.queue AND o.owned_from <= s.began_at AND o.owned_to > s.began_at
WHERE s.ended IN ('reserved', 'gave_up') AND s.ended_at >= %(start)s AND s.ended_at < %(end)s
GROUP BY 1, 2, 3, 4, 5, 6, 7, 9, 10, 11
"""  # noqa: S608 - constants

# Every change in the life of a uid, with what was before.
MAKE_STEPS = """
CREATE TEMP TABLE rollup_steps ON COMMIT DROP AS
SELECT l.*, lag(state) OVER w AS before, lag(phase) OVER w AS phase_before, lag(reason) OVER w AS reason_before,
  lag(started_at) OVER w AS before_at, row_number() OVER w = 1 AS is_first
FROM rollup_life l WINDOW w AS (PARTITION BY cluster_id, kind, uid ORDER BY started_at)
"""

_LOST = """before IN ('reserved', 'admitted') AND state IN ('pending', 'deactivated')"""
# When quota was taken away: at the eviction, where it is known to be before the return of the quota.
_LOST_AT = "CASE WHEN phase_before = 'evicted' THEN before_at ELSE started_at END"
_LOST_WHY = """CASE WHEN phase_before = 'evicted' THEN regexp_replace(reason_before, '^EvictedDueTo', '') ELSE '' END"""

# What the counters of Workloads say beyond what was seen, less what was noted before.
NOTE_UNSEEN = f"""
INSERT INTO usage_unseenevictions (cluster_id, uid, noticed_at, count)
SELECT w.cluster_id, w.uid, w.observed_at, w.evictions - seen.n - noted.n
FROM (SELECT DISTINCT cluster_id, uid FROM rollup_steps WHERE kind = 'Workload') t
JOIN observations_workload w USING (cluster_id, uid)
CROSS JOIN LATERAL (SELECT count(*) AS n FROM rollup_steps s WHERE s.cluster_id = t.cluster_id AND s.uid = t.uid
  AND {_LOST}) seen
CROSS JOIN LATERAL (SELECT coalesce(sum(u.count), 0) AS n FROM usage_unseenevictions u
  WHERE u.cluster_id = t.cluster_id AND u.uid = t.uid) noted
WHERE w.evictions > seen.n + noted.n AND w.observed_at < %(end)s
ON CONFLICT (cluster_id, uid, noticed_at) DO UPDATE SET count = usage_unseenevictions.count + excluded.count
"""  # noqa: S608 - constants

_WON = """CASE
  WHEN s.kind = 'Pod' THEN CASE WHEN p.phase = 'Failed' THEN 'failed' ELSE 'succeeded' END
  WHEN s.kind = 'PodGroup' OR s.reason = 'Succeeded' OR s.message ILIKE '%%finished successfully%%' THEN 'succeeded'
  ELSE 'failed' END"""

_HAPPENED = f"""
SELECT DISTINCT ON (piece) cluster_id, kind, namespace, queue_name, queue, 'submitted' AS what, '' AS reason,
  started_at AS at, 1 AS n FROM (SELECT * FROM rollup_steps WHERE is_first ORDER BY piece, started_at, uid) first
UNION ALL
SELECT cluster_id, kind, namespace, queue_name, queue, 'reserved', '', ended_at, 1 FROM rollup_waits
WHERE ended = 'reserved'
UNION ALL
SELECT cluster_id, kind, namespace, queue_name, queue, 'admitted', '', started_at, 1 FROM rollup_steps
WHERE state = 'admitted' AND before IS DISTINCT FROM 'admitted'
UNION ALL
SELECT s.cluster_id, s.kind, s.namespace, s.queue_name, s.queue, {_WON},
  CASE WHEN s.kind = 'PodGroup' THEN '' ELSE s.reason END, s.started_at, 1
FROM rollup_steps s LEFT JOIN observations_pod p ON s.kind = 'Pod' AND p.cluster_id = s.cluster_id AND p.uid = s.uid
WHERE s.phase = '{_FINISHED}' AND s.phase_before IS DISTINCT FROM '{_FINISHED}' AND s.reason <> 'WorkloadSliceReplaced'
UNION ALL
SELECT cluster_id, kind, namespace, queue_name, queue, e.what, {_LOST_WHY}, {_LOST_AT}, 1
FROM rollup_steps CROSS JOIN LATERAL (
  SELECT 'evicted' AS what UNION ALL SELECT 'preempted' WHERE {_LOST_WHY} = 'Preempted') e
WHERE {_LOST}
UNION ALL
SELECT cluster_id, kind, namespace, queue_name, queue, 'deactivated', reason, started_at, 1 FROM rollup_steps
WHERE state = 'deactivated' AND before IS DISTINCT FROM 'deactivated'
UNION ALL
SELECT cluster_id, kind, namespace, queue_name, queue, 'retried', 'requeued', started_at, 1 FROM rollup_steps
WHERE before IN ('reserved', 'admitted', 'deactivated') AND state = 'pending'
UNION ALL
SELECT s.cluster_id, s.kind, s.namespace, s.queue_name, s.queue, 'retried', 'recreated', s.started_at, 1
FROM rollup_steps s
WHERE s.is_first AND s.kind = 'Workload' AND EXISTS (
  SELECT FROM rollup_steps o WHERE o.piece = s.piece AND o.uid <> s.uid AND o.is_first
    AND (o.started_at, o.uid) < (s.started_at, s.uid))
  AND NOT EXISTS (SELECT FROM rollup_steps o WHERE o.piece = s.piece AND o.reason = 'WorkloadSliceReplaced')
UNION ALL
SELECT s.cluster_id, s.kind, s.namespace, s.queue_name, s.queue, e.what, 'not_seen', u.noticed_at, u.count
FROM usage_unseenevictions u
JOIN LATERAL (SELECT * FROM rollup_steps s WHERE s.cluster_id = u.cluster_id AND s.uid = u.uid
  ORDER BY s.started_at > u.noticed_at, abs(extract(epoch FROM u.noticed_at - s.started_at)) LIMIT 1) s ON true
CROSS JOIN (VALUES ('evicted'), ('retried')) AS e(what)
"""  # noqa: S608 - constants

OUTCOME_HOURS = f"""
INSERT INTO usage_outcomehour (cluster_id, team_id, queue, step, hour, what, reason, count)
SELECT s.cluster_id, o.team_id, s.queue, 'hour', date_trunc('hour', s.at, 'UTC'), s.what, s.reason, sum(s.n)
FROM ({_HAPPENED}) s
JOIN {OWNERS} ON o.cluster_id = s.cluster_id AND o.kind = s.kind AND o.namespace = s.namespace
  AND o.queue_name = s.queue_name AND o.queue = s.queue AND o.owned_from <= s.at AND o.owned_to > s.at
WHERE s.at >= %(start)s AND s.at < %(end)s
GROUP BY 1, 2, 3, 5, 6, 7
"""  # noqa: S608 - constants

BLOCKING_PHASES = list(BLOCKING)

_TIER = """date_trunc('{step}', {hour}, 'UTC')"""
BLOCK_TIER = f"""
INSERT INTO usage_blockhour (cluster_id, team_id, queue, flavor, layer, cause, reason, resource, step, hour, rules,
  current, seconds)
SELECT cluster_id, team_id, queue, flavor, layer, cause, reason, resource, '{{step}}',
  {_TIER.format(step="{step}", hour="hour")}, max(rules), true, sum(seconds)
FROM usage_blockhour WHERE cluster_id = %(cluster)s AND step = 'hour' AND current
  AND hour >= %(start)s AND hour < %(end)s
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 10
"""  # noqa: S608 - constants
WAIT_TIER = f"""
INSERT INTO usage_waithour (cluster_id, team_id, queue, flavor, size, which, ended, step, hour, ended_in, seconds, count)
SELECT cluster_id, team_id, queue, flavor, size, which, ended, '{{step}}',
  {_TIER.format(step="{step}", hour="hour")}, {_TIER.format(step="{step}", hour="ended_in")}, seconds, sum(count)
FROM usage_waithour WHERE cluster_id = %(cluster)s AND step = 'hour'
  AND ended_in >= %(start)s AND ended_in < %(end)s
GROUP BY 1, 2, 3, 4, 5, 6, 7, 9, 10, 11
"""  # noqa: S608 - constants
OUTCOME_TIER = f"""
INSERT INTO usage_outcomehour (cluster_id, team_id, queue, step, hour, what, reason, count)
SELECT cluster_id, team_id, queue, '{{step}}', {_TIER.format(step="{step}", hour="hour")}, what, reason, sum(count)
FROM usage_outcomehour WHERE cluster_id = %(cluster)s AND step = 'hour' AND hour >= %(start)s AND hour < %(end)s
GROUP BY 1, 2, 3, 5, 6, 7
"""  # noqa: S608 - constants
