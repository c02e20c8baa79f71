"""The statements of the rollup of waiting work: from the life of work to the rows of its hours.

Input: `rollup_life`, a temporary table with `LIFE`'s columns and the whole life of all work that [start, end) touches;
output: rows of BlockHour, WaitHour, OutcomeHour of these hours. Nothing here knows how often it runs.
"""

from __future__ import annotations

from apps.admissions.blocks import BLOCKS, BLOCKS_ON
from apps.admissions.life_relation import BLOCKING, LIFE, waits_of
from apps.admissions.ownership import OWNERS, OWNERS_KEY, OWNERS_ON
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

# The planner knows nothing of how many rows the parts of LIFE and arrays of parameters have, takes them for few, and joins
# them row by row: for thousands of uids that is quadratic. Joined by hash it is linear.
FOR_MANY = ("jit = off", "work_mem = '64MB'", "enable_nestloop = off", "enable_mergejoin = off")
FOR_SUMS = ("enable_sort = off",)
AFTERWARDS = ("enable_nestloop = on", "enable_mergejoin = on", "enable_sort = on")
MAKE_LIFE = f"CREATE TEMP TABLE rollup_life ON COMMIT DROP AS SELECT * FROM {LIFE} life WITH NO DATA"  # noqa: S608
FILL_LIFE = f"INSERT INTO rollup_life SELECT * FROM {LIFE} life"  # noqa: S608
LIFE_KEYS = "SELECT DISTINCT cluster_id, kind, namespace, queue_name, queue FROM rollup_life"
# Work asks for few different things: each is taken apart once.
MAKE_ASKED = (
    "CREATE TEMP TABLE rollup_asked ON COMMIT DROP AS SELECT DISTINCT requests, usage FROM rollup_life"
)
RESOURCES = """
SELECT jsonb_object_keys(requests) FROM rollup_asked
UNION
SELECT u->>'resource' FROM rollup_asked CROSS JOIN LATERAL jsonb_array_elements(usage) u
"""

# Pieces of work with several Workloads, of which two may be blocked at once: then the younger one counts.
MAKE_SHARED = """
CREATE TEMP TABLE rollup_shared ON COMMIT DROP AS
SELECT l.piece, l.uid, min(l.started_at) AS born,
  range_agg(tstzrange(l.started_at, l.until_at)) FILTER (WHERE phase = ANY(%(blocking)s)) AS blocked
FROM rollup_life l
WHERE piece IN (SELECT piece FROM rollup_life GROUP BY piece HAVING min(uid) <> max(uid))
GROUP BY l.piece, l.uid
"""
MAKE_YOUNGER = """
CREATE TEMP TABLE rollup_younger ON COMMIT DROP AS
SELECT piece, uid FROM (
  SELECT piece, uid, row_number() OVER (PARTITION BY piece ORDER BY born, uid) AS number FROM rollup_shared) s
WHERE number > 1
"""
_COLUMNS = """cluster_id, kind, uid, namespace, name, queue_name, queue, phase, state, reason, message, requests,
  usage"""
# What was blocked in [start, end), each piece of work once at a time.
_BLOCKED = f"""
SELECT {_COLUMNS}, greatest(started_at, %(start)s) AS started_at, least(until_at, %(end)s) AS ended_at
FROM rollup_life
WHERE phase = ANY(%(blocking)s) AND started_at < %(end)s AND until_at > %(start)s
  AND piece NOT IN (SELECT piece FROM rollup_shared)
UNION ALL
SELECT {_COLUMNS}, lower(part), upper(part)
FROM (
  SELECT l.*, unnest(tstzmultirange(tstzrange(greatest(l.started_at, %(start)s), least(l.until_at, %(end)s)))
    - coalesce((SELECT range_agg(o.blocked) FROM rollup_shared o
      WHERE o.piece = me.piece AND (o.born, o.uid) > (me.born, me.uid)), '{{}}'::tstzmultirange)) AS part
  FROM rollup_life l JOIN rollup_shared me USING (piece, uid)
  WHERE l.phase = ANY(%(blocking)s) AND l.started_at < %(end)s AND l.until_at > %(start)s
) cut
"""  # noqa: S608 - constants

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

MAKE_AMOUNTS = f"""
CREATE TEMP TABLE rollup_amounts ON COMMIT DROP AS
SELECT s.requests, s.usage, a.resource, a.quantity, a.flavor FROM rollup_asked s CROSS JOIN LATERAL ({_AMOUNTS}) a
"""  # noqa: S608 - constants

BLOCK_HOURS = f"""
INSERT INTO usage_blockhour (cluster_id, team_id, queue, flavor, layer, cause, reason, resource, step, hour, rules,
  current, seconds)
SELECT cluster_id, team_id, queue, flavor, layer, cause, reason, resource, 'hour', hour, %(rules)s, true,
  sum(quantity * seconds)
FROM (
  SELECT cluster_id, team_id, queue, layer, cause, reason, requests, usage, hour,
    sum(extract(epoch FROM least(high, hour + interval '1 hour') - greatest(low, hour))) AS seconds
  FROM (
    SELECT s.cluster_id, o.team_id, s.queue, b.layer, b.cause, s.reason, s.requests, s.usage,
      greatest(s.started_at, o.owned_from, b.judged_from) AS low, least(s.ended_at, o.owned_to, b.judged_to) AS high
    FROM ({_BLOCKED}) s
    JOIN {OWNERS} ON {OWNERS_ON}
    JOIN {BLOCKS} ON {BLOCKS_ON}
  ) parts
  CROSS JOIN LATERAL generate_series(date_trunc('hour', low, 'UTC'), high - interval '1 microsecond',
    interval '1 hour') AS hour
  WHERE low < high
  GROUP BY cluster_id, team_id, queue, layer, cause, reason, requests, usage, hour
) sums
JOIN rollup_amounts a USING (requests, usage)
GROUP BY cluster_id, team_id, queue, flavor, layer, cause, reason, resource, hour
HAVING sum(quantity * seconds) > 0
"""  # noqa: S608 - constants

# The work behind a sum of BLOCK_HOURS: the same stretches, by uid.
BLOCKED_WORK = f"""
SELECT s.kind, s.uid, s.namespace, s.name, s.queue, o.team_id, b.layer, b.cause, s.reason,
  sum(a.quantity * extract(epoch FROM t.high - t.low)) AS seconds
FROM ({_BLOCKED}) s
JOIN {OWNERS} ON {OWNERS_ON}
JOIN {BLOCKS} ON {BLOCKS_ON}
JOIN rollup_amounts a ON a.requests = s.requests AND a.usage = s.usage AND a.resource = %(resource)s
CROSS JOIN LATERAL (SELECT greatest(s.started_at, o.owned_from, b.judged_from) AS low,
  least(s.ended_at, o.owned_to, b.judged_to) AS high) t
WHERE t.low < t.high
  AND (%(cause)s = '' OR b.cause = %(cause)s) AND (%(layer)s = '' OR b.layer = %(layer)s)
  AND (%(reason)s = '' OR coalesce(nullif(s.reason, ''), %(no_reason)s) = %(reason)s)
  AND (%(queue)s = '' OR s.queue = %(queue)s) AND (%(flavor)s = '' OR a.flavor = %(flavor)s)
  AND (%(teams)s::bigint[] IS NULL OR o.team_id = ANY(%(teams)s::bigint[]))
  AND (NOT %(only_unbound)s OR o.team_id IS NULL)
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9
"""  # noqa: S608 - constants

# A piece of work waits for the first time once: what a re-created Workload waits is a wait again.
MAKE_WAITS = f"""
CREATE TEMP TABLE rollup_waits ON COMMIT DROP AS
SELECT w.*, CASE WHEN w.which = 'first' AND y.uid IS NULL THEN 'first' ELSE 'again' END AS nth
FROM {waits_of("rollup_life")} w LEFT JOIN rollup_younger y USING (piece, uid)
"""  # noqa: S608 - constants

# OFFSET 0 keeps the planner from working out size and flavor of every row instead of every different one.
_MOST = """(SELECT max(value::numeric) FROM jsonb_each_text(requests) WHERE key = ANY(%(devices)s))"""
_FLAVOR = """coalesce((SELECT CASE WHEN count(DISTINCT u->>'flavor') = 1 THEN min(u->>'flavor') END
  FROM jsonb_array_elements(usage) u WHERE u->>'resource' = ANY(%(devices)s)), '')"""

WAIT_HOURS = f"""
INSERT INTO usage_waithour (cluster_id, team_id, queue, flavor, size, which, ended, step, hour, ended_in, seconds, count)
SELECT s.cluster_id, o.team_id, s.queue, f.flavor, z.size, s.nth, s.ended, 'hour',
  date_trunc('hour', s.began_at, 'UTC'), date_trunc('hour', s.ended_at, 'UTC'), {rounded_sql("s.seconds")}, count(*)
FROM (SELECT *, coalesce(usage, '[]'::jsonb) AS held FROM rollup_waits
  WHERE ended IN ('reserved', 'gave_up') AND ended_at >= %(start)s AND ended_at < %(end)s) s
JOIN {OWNERS} ON {OWNERS_KEY} AND o.owned_from <= s.began_at AND o.owned_to > s.began_at
JOIN (SELECT requests, {size_sql(_MOST)} AS size FROM (SELECT DISTINCT requests FROM rollup_waits) r OFFSET 0) z USING (requests)
JOIN (SELECT usage AS held, {_FLAVOR} AS flavor
  FROM (SELECT DISTINCT coalesce(usage, '[]'::jsonb) AS usage FROM rollup_waits) u OFFSET 0) f USING (held)
GROUP BY 1, 2, 3, 4, 5, 6, 7, 9, 10, 11
"""  # noqa: S608 - constants

# Every change in the life of a uid, with what was before.
MAKE_STEPS = """
CREATE TEMP TABLE rollup_steps ON COMMIT DROP AS
SELECT cluster_id, kind, uid, piece, namespace, queue_name, queue, phase, state, reason, started_at, until_at,
  CASE WHEN phase = 'finished' THEN message ELSE '' END AS message,
  lag(state) OVER w AS before, lag(phase) OVER w AS phase_before, lag(reason) OVER w AS reason_before,
  lag(started_at) OVER w AS before_at,
  row_number() OVER w = 1 AS is_first
FROM rollup_life l WINDOW w AS (PARTITION BY cluster_id, kind, uid ORDER BY started_at)
"""

_LOST = """before IN ('reserved', 'admitted') AND state IN ('pending', 'deactivated')"""
# When quota was taken away: at the eviction, where it is known to be before the return of the quota.
_LOST_AT = "CASE WHEN phase_before = 'evicted' THEN before_at ELSE started_at END"
_LOST_WHY = """CASE WHEN phase_before = 'evicted' THEN regexp_replace(reason_before, '^EvictedDueTo', '') ELSE '' END"""

# What the counters of Workloads say beyond what was seen, less what was noted before.
NOTE_UNSEEN = f"""
INSERT INTO usage_unseenevictions (cluster_id, uid, noticed_at, count, run_seconds)
SELECT w.cluster_id, w.uid, w.observed_at, w.evictions - seen.n - noted.n,
  greatest(0, w.past_run_seconds - seen.ran - noted.ran)
FROM (SELECT DISTINCT cluster_id, uid FROM rollup_steps WHERE kind = 'Workload') t
JOIN observations_workload w USING (cluster_id, uid)
CROSS JOIN LATERAL (SELECT count(*) AS n, max(started_at) AS last_at FROM rollup_steps s
  WHERE s.cluster_id = t.cluster_id AND s.uid = t.uid AND {_LOST}) lost
CROSS JOIN LATERAL (SELECT lost.n, coalesce(sum(extract(epoch FROM s.until_at - s.started_at)), 0)::int AS ran
  FROM rollup_steps s
  WHERE s.cluster_id = t.cluster_id AND s.uid = t.uid AND s.state = 'admitted' AND s.started_at < lost.last_at) seen
CROSS JOIN LATERAL (SELECT coalesce(sum(u.count), 0) AS n, coalesce(sum(u.run_seconds), 0) AS ran
  FROM usage_unseenevictions u WHERE u.cluster_id = t.cluster_id AND u.uid = t.uid) noted
WHERE w.evictions > seen.n + noted.n AND w.observed_at < %(end)s
ON CONFLICT (cluster_id, uid, noticed_at) DO UPDATE SET count = usage_unseenevictions.count + excluded.count,
  run_seconds = usage_unseenevictions.run_seconds + excluded.run_seconds
"""  # noqa: S608 - constants

_WON = """CASE
  WHEN s.kind = 'Pod' THEN CASE WHEN p.phase = 'Failed' THEN 'failed' ELSE 'succeeded' END
  WHEN s.kind = 'PodGroup' OR s.reason = 'Succeeded' OR s.message ILIKE '%%finished successfully%%' THEN 'succeeded'
  ELSE 'failed' END"""

_HAPPENED = f"""
SELECT cluster_id, kind, namespace, queue_name, queue, 'submitted' AS what, '' AS reason, started_at AS at, 1 AS n
FROM rollup_steps s WHERE is_first AND uid NOT IN (SELECT uid FROM rollup_younger)
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
FROM rollup_steps s JOIN rollup_younger y USING (piece, uid)
WHERE s.is_first AND s.kind = 'Workload'
  AND s.piece NOT IN (SELECT piece FROM rollup_steps WHERE reason = 'WorkloadSliceReplaced')
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
JOIN {OWNERS} ON {OWNERS_KEY} AND o.owned_from <= s.at AND o.owned_to > s.at
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
