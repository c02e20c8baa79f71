"""SQL of the hours of what was held: the same as `allocation.intervals`, cut by hour and summed, for a million spans. Constants
only.

Temporary tables, in turn: `held` (spells), `limits` and `kinds` (what spells are alike in, few), `counted` (spells cut where
nobody could look, and judged there), `shifts` (what of a spell is beyond a queue's quota or a node's cards, as a difference),
`owned` (whose a kind is when), and the hours. A spell that is partly beyond stands whole in `counted`; `shifts` takes the part
from the one kind and adds it to the other, so that nothing but that part is cut.

Spells are many and name what they are by numbers: of the kind, of the group that shares a limit, of the line of a bill. The
texts behind these are compared once per kind, and read again once per row that is written."""

from __future__ import annotations

# Sums and joins of a chunk stay in memory.
FOR_MANY = ("jit = off", "work_mem = '64MB'")
MAKE_HELD = """
CREATE TEMPORARY TABLE held (
  basis text, uid text, kind text, namespace text, queue_name text, queue text, place text, resource text,
  quantity numeric, low timestamptz, high timestamptz, since timestamptz, priority_class text, watched text)
ON COMMIT DROP
"""
RESERVED = """
INSERT INTO held
SELECT 'reserved', s.uid, s.kind, s.namespace, s.queue_name, s.queue, coalesce(u.flavor, ''), u.resource, u.quantity,
  s.started_at, s.high, coalesce(w.first_seen_at, min(s.started_at) OVER (PARTITION BY s.uid)),
  coalesce(w.priority_class, ''), s.kind
FROM (
  SELECT *, least(coalesce(ended_at, 'infinity'),
    CASE kind WHEN 'PodGroup' THEN %(until_PodGroup)s ELSE %(until_Workload)s END) AS high
  FROM observations_statespan
  WHERE cluster_id = %(cluster)s AND state = ANY(%(states)s) AND usage <> '[]'
    AND started_at < %(end)s AND coalesce(ended_at, 'infinity') > %(start)s
) s
LEFT JOIN observations_workload w ON w.cluster_id = %(cluster)s AND w.uid = s.uid
CROSS JOIN LATERAL jsonb_to_recordset(s.usage) AS u(flavor text, resource text, quantity numeric)
WHERE u.resource = ANY(%(resources)s) AND u.quantity > 0 AND s.started_at < s.high
"""
BOUND = """
INSERT INTO held
SELECT 'pod', p.uid, CASE WHEN p.pod_group <> '' THEN 'PodGroup' ELSE 'Workload' END, p.namespace, p.queue_name,
  CASE WHEN p.pod_group <> '' THEN p.queue_name ELSE coalesce(q.spec ->> 'cluster_queue', '') END,
  p.node_name, r.key, r.value::numeric, p.bound_at, p.high, p.first_seen_at, '', 'Pod'
FROM (
  SELECT *, least(coalesce(finished_at, gone_at, 'infinity'), %(until_Pod)s) AS high
  FROM observations_pod
  WHERE cluster_id = %(cluster)s AND devices > 0 AND bound_at < %(end)s
    AND coalesce(finished_at, gone_at, 'infinity') > %(start)s
) p
LEFT JOIN observations_clusterobject q ON q.cluster_id = p.cluster_id AND q.kind = 'LocalQueue'
  AND q.namespace = p.namespace AND q.name = p.queue_name AND q.gone_at IS NULL AND p.pod_group = ''
CROSS JOIN LATERAL jsonb_each_text(p.requests) r
WHERE r.key = ANY(%(resources)s) AND r.value::numeric > 0 AND p.bound_at < p.high
  AND NOT EXISTS (SELECT 1 FROM jsonb_array_elements(p.claims) c WHERE c -> 'resources' ? r.key)
"""
CLAIMED = """
INSERT INTO held
SELECT 'pod', c.uid, c.kind, c.namespace, c.queue_name,
  CASE WHEN c.kind = 'PodGroup' THEN c.queue_name ELSE coalesce(q.spec ->> 'cluster_queue', '') END,
  c.node, c.resource, c.units, c.low, c.high, c.since, '', 'ResourceClaim'
FROM (
  SELECT uid, kind, namespace, queue_name, node, resource, units, seen_from AS low,
    least(coalesce(lead(seen_from) OVER (PARTITION BY uid, node, resource ORDER BY seen_from), 'infinity'),
      %(until_ResourceClaim)s) AS high,
    min(seen_from) OVER (PARTITION BY uid) AS since
  FROM usage_claimseen WHERE cluster_id = %(cluster)s
) c
LEFT JOIN observations_clusterobject q ON q.cluster_id = %(cluster)s AND q.kind = 'LocalQueue'
  AND q.namespace = c.namespace AND q.name = c.queue_name AND q.gone_at IS NULL AND c.kind = 'Workload'
WHERE c.units > 0 AND c.low < c.high AND c.low < %(end)s AND c.high > %(start)s
  AND c.resource = ANY(%(resources)s)
"""
COPY_HELD = """
COPY held (basis, uid, kind, namespace, queue_name, queue, place, resource, quantity, low, high, since, priority_class,
  watched) FROM STDIN
"""
# What of resources there is in the stretch, so that their names are judged once.
RESOURCES = """
SELECT DISTINCT u.resource FROM observations_statespan s
CROSS JOIN LATERAL jsonb_to_recordset(s.usage) AS u(resource text)
WHERE s.cluster_id = %(cluster)s AND s.state = ANY(%(states)s) AND s.usage <> '[]'
  AND s.started_at < %(end)s AND coalesce(s.ended_at, 'infinity') > %(start)s
UNION
SELECT DISTINCT r.key FROM observations_pod p CROSS JOIN LATERAL jsonb_object_keys(p.requests) AS r(key)
WHERE p.cluster_id = %(cluster)s AND p.devices > 0 AND p.bound_at < %(end)s
  AND coalesce(p.finished_at, p.gone_at, 'infinity') > %(start)s
UNION
SELECT DISTINCT resource FROM usage_claimseen WHERE cluster_id = %(cluster)s
"""

# Groups of what shares a limit, by number, and their limits.
MAKE_LIMITS = """
CREATE TEMPORARY TABLE limits ON COMMIT DROP AS
SELECT dense_rank() OVER (ORDER BY basis, queue, place, resource) AS group_id, l.*
FROM unnest(%(limit_basis)s::text[], %(limit_queue)s::text[], %(limit_place)s::text[], %(limit_resource)s::text[],
  %(limit_from)s::timestamptz[], %(limit_to)s::timestamptz[], %(limit_units)s::numeric[])
  AS l(basis, queue, place, resource, low, high, units)
"""
# What spells are alike in, by number; `group_id` NULL: no limit is known.
_KIND = ("basis", "kind", "namespace", "queue_name", "queue", "place", "resource", "priority_class")
_OF_KIND = " AND ".join(f"k.{name} = h.{name}" for name in _KIND)
MAKE_KINDS = f"""
CREATE TEMPORARY TABLE kinds ON COMMIT DROP AS
SELECT row_number() OVER () AS kind_id, k.*, g.group_id
FROM (SELECT DISTINCT {", ".join(_KIND)} FROM held) k
LEFT JOIN (SELECT DISTINCT group_id, basis, queue, place, resource FROM limits) g ON g.basis = k.basis
  AND g.queue = CASE k.basis WHEN 'reserved' THEN k.queue ELSE '' END AND g.place = k.place AND g.resource = k.resource
"""  # noqa: S608

GAPS = """unnest(%(gap_kind)s::text[], %(gap_from)s::timestamptz[], %(gap_to)s::timestamptz[]) AS g(kind, low, high)"""
_SAME = " AND ".join(
    f"o.{name} = h.{name}"
    for name in ("basis", "uid", "kind", "namespace", "queue_name", "queue", "place", "resource")
)
_HOLDING = f"""(SELECT coalesce(sum(o.quantity), 0) FROM held o WHERE {_SAME}
      AND o.low <= {{at}} AND o.high > {{at}})"""  # noqa: S608
MAKE_COUNTED = f"""
CREATE TEMPORARY TABLE counted ON COMMIT DROP AS
SELECT row_number() OVER () AS n, k.kind_id, h.uid, h.since, h.quantity, h.low, h.high, 'observed'::text AS seen
FROM held h JOIN kinds k ON {_OF_KIND}
WHERE NOT EXISTS (SELECT 1 FROM {GAPS} WHERE g.kind = h.watched AND g.low < h.high AND g.high > h.low)
"""  # noqa: S608
# Spells that a time touches in which nobody could look: cut at its edges, and inside of it the part that the same object
# had both before and after is bridged, the rest left out.
ADD_JUDGED = f"""
WITH gaps AS (SELECT * FROM {GAPS}),
touched AS (
  SELECT row_number() OVER () AS t, h.* FROM held h
  WHERE EXISTS (SELECT 1 FROM gaps g WHERE g.kind = h.watched AND g.low < h.high AND g.high > h.low)),
edges AS (
  SELECT t, low AS at FROM touched UNION SELECT t, high FROM touched
  UNION SELECT h.t, e.at FROM touched h JOIN gaps g ON g.kind = h.watched
    CROSS JOIN LATERAL (VALUES (g.low), (g.high)) AS e(at) WHERE e.at > h.low AND e.at < h.high),
pieces AS (SELECT t, at AS piece_low, lead(at) OVER (PARTITION BY t ORDER BY at) AS piece_high FROM edges),
judged AS (
  SELECT h.*, p.piece_low, p.piece_high, g.low IS NULL AS open,
    least(h.quantity, {_HOLDING.format(at="g.low")}, {_HOLDING.format(at="g.high")}) AS sure
  FROM pieces p JOIN touched h USING (t)
  LEFT JOIN gaps g ON g.kind = h.watched AND g.low <= p.piece_low AND g.high >= p.piece_high
  WHERE p.piece_high IS NOT NULL)
INSERT INTO counted
SELECT (SELECT coalesce(max(n), 0) FROM counted) + row_number() OVER (), k.kind_id, h.uid, h.since, part.quantity,
  piece_low, piece_high, part.seen
FROM judged h JOIN kinds k ON {_OF_KIND} CROSS JOIN LATERAL (VALUES
  (CASE WHEN open THEN quantity END, 'observed'), (CASE WHEN NOT open THEN sure END, 'bridged'),
  (CASE WHEN NOT open THEN quantity - sure END, 'left_out')) AS part(quantity, seen)
WHERE part.quantity > 0
"""  # noqa: S608

# Members of the groups that are ever beyond a limit: only these are looked at one by one.
COUNTED = "seen IN ('observed', 'bridged')"
"""What counts as held as far as money is concerned: `allocation.Seen.counts`."""
_COUNTS = f"c.{COUNTED}"
_SHARED = f"FROM counted c JOIN kinds k USING (kind_id) WHERE k.group_id IS NOT NULL AND {_COUNTS}"
MAKE_MEMBERS = f"""
CREATE TEMPORARY TABLE members ON COMMIT DROP AS
WITH events AS (
  SELECT k.group_id, c.low AS at, c.quantity AS delta {_SHARED}
  UNION ALL SELECT k.group_id, c.high, -c.quantity {_SHARED}
  UNION ALL SELECT group_id, low, 0 FROM limits),
running AS (SELECT group_id, at, sum(delta) OVER (PARTITION BY group_id ORDER BY at) AS total FROM events),
beyond AS (
  SELECT DISTINCT group_id FROM running r JOIN limits l USING (group_id)
  WHERE r.at >= l.low AND r.at < l.high AND r.total > l.units)
SELECT k.group_id, c.n, c.since, c.uid, k.priority_class, c.low, c.high, c.quantity {_SHARED}
  AND k.group_id IN (SELECT group_id FROM beyond)
"""  # noqa: S608
GROUPS = "SELECT DISTINCT group_id, queue, place, resource FROM limits"
MEMBERS = """
SELECT group_id, since, uid, priority_class, low, n, high, quantity FROM members ORDER BY group_id
"""
MAKE_SHIFTS = """
CREATE TEMPORARY TABLE shifts (n bigint, low timestamptz, high timestamptz, quantity numeric) ON COMMIT DROP
"""
COPY_SHIFTS = "COPY shifts (n, low, high, quantity) FROM STDIN"

OWNERS = """unnest(%(owner_kind)s::text[], %(owner_namespace)s::text[], %(owner_queue_name)s::text[],
  %(owner_queue)s::text[], %(owner_team)s::bigint[], %(owner_cost_centre)s::text[], %(owner_from)s::timestamptz[],
  %(owner_to)s::timestamptz[]) AS o(kind, namespace, queue_name, queue, team_id, cost_centre, low, high)"""
UNITS = """unnest(%(unit_basis)s::text[], %(unit_place)s::text[], %(unit_resource)s::text[], %(unit_model)s::text[],
  %(unit_mode)s::text[], %(unit_profile)s::text[], %(unit_over)s::bigint[], %(unit_under)s::bigint[])
  AS u(basis, place, resource, model, sharing_mode, profile, weight_over, weight_under)"""
SLOTS = """unnest(%(slot_hour)s::timestamptz[], %(slot_from)s::timestamptz[], %(slot_to)s::timestamptz[])
  AS s(hour, low, high)"""
PLACES = "SELECT DISTINCT kind, namespace, queue_name, queue FROM held"
# Whose a kind is when, and what is written of it: kinds that are alike in that have the same `line`.
_LINE = """team_id, cost_centre, basis, kind, queue, flavor, resource, model, sharing_mode, profile, weight_over,
  weight_under, priority_class"""
MAKE_OWNED = f"""
CREATE TEMPORARY TABLE owned ON COMMIT DROP AS
SELECT dense_rank() OVER (ORDER BY {_LINE}) AS line, w.*
FROM (
  SELECT k.kind_id, o.low, o.high, o.team_id, o.cost_centre, k.basis, k.kind, k.queue,
    CASE k.basis WHEN 'pod' THEN '' ELSE k.place END AS flavor, k.resource, coalesce(u.model, '') AS model,
    coalesce(u.sharing_mode, '') AS sharing_mode, coalesce(u.profile, '') AS profile, u.weight_over, u.weight_under,
    k.priority_class
  FROM kinds k
  JOIN {OWNERS} ON o.kind = k.kind AND o.namespace = k.namespace AND o.queue_name = k.queue_name AND o.queue = k.queue
  LEFT JOIN {UNITS} ON u.basis = k.basis AND u.place = k.place AND u.resource = k.resource
) w
"""  # noqa: S608
_UNITS = "sum(p.quantity * extract(epoch FROM least(p.high, s.high) - greatest(p.low, s.low)))"
ADD_HOURS = f"""
INSERT INTO usage_allocationhour (cluster_id, {_LINE}, borrowed, seen, starts_at, ends_at, unit_seconds)
SELECT %(cluster)s, {_LINE}, t.borrowed, t.seen, t.low, t.high, t.units
FROM (
  SELECT p.line, p.borrowed, p.seen, s.low, s.high, {_UNITS} AS units
  FROM (
    SELECT o.line, c.borrowed, c.seen, c.quantity, greatest(c.low, o.low) AS low, least(c.high, o.high) AS high,
      generate_series(date_trunc('hour', greatest(c.low, o.low, %(start)s), 'UTC'),
        least(c.high, o.high, %(end)s) - interval '1 microsecond', interval '1 hour') AS hour
    FROM (
      SELECT kind_id, quantity, low, high, seen, false AS borrowed FROM counted
      UNION ALL
      SELECT c.kind_id, -x.quantity, x.low, x.high, c.seen, false FROM shifts x JOIN counted c USING (n)
      UNION ALL
      SELECT c.kind_id, x.quantity, x.low, x.high, CASE k.basis WHEN 'pod' THEN 'beyond' ELSE c.seen END,
        k.basis = 'reserved' FROM shifts x JOIN counted c USING (n) JOIN kinds k USING (kind_id)
    ) c
    JOIN owned o ON o.kind_id = c.kind_id AND o.low < c.high AND o.high > c.low
  ) p
  JOIN {SLOTS} ON s.hour = p.hour AND s.low < p.high AND s.high > p.low
  GROUP BY 1, 2, 3, 4, 5 HAVING {_UNITS} <> 0
  ORDER BY s.low, p.line
) t JOIN (SELECT DISTINCT ON (line) line, {_LINE} FROM owned) USING (line)
"""  # noqa: S608
