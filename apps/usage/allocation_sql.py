"""SQL of the hours of what was held: the same as `allocation.intervals`, cut by hour and summed, for a million spans. Constants
only.

Temporary tables, in turn: `held` (spells), `counted` (cut where nobody could look, and judged there), `shifts` (what of a
spell is beyond a queue's quota or a node's cards, as a difference), and the hours. A spell that is partly beyond stands whole
in `counted`; `shifts` takes the part from the one kind and adds it to the other, so that nothing but that part is cut."""

from __future__ import annotations

MAKE_HELD = """
CREATE TEMPORARY TABLE held (
  basis text, uid text, kind text, namespace text, queue_name text, queue text, place text, resource text,
  quantity numeric, low timestamptz, high timestamptz, since timestamptz, priority_class text) ON COMMIT DROP
"""
RESERVED = """
INSERT INTO held
SELECT 'reserved', s.uid, s.kind, s.namespace, s.queue_name, s.queue, coalesce(u.flavor, ''), u.resource, u.quantity,
  s.started_at, s.high, coalesce(w.first_seen_at, min(s.started_at) OVER (PARTITION BY s.uid)),
  coalesce(w.priority_class, '')
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
  p.node_name, r.key, r.value::numeric, p.bound_at, p.high, p.first_seen_at, ''
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
COPY_HELD = """
COPY held (basis, uid, kind, namespace, queue_name, queue, place, resource, quantity, low, high, since, priority_class)
FROM STDIN
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
"""

GAPS = """unnest(%(gap_kind)s::text[], %(gap_from)s::timestamptz[], %(gap_to)s::timestamptz[]) AS g(kind, low, high)"""
_WATCHED = "CASE h.basis WHEN 'pod' THEN 'Pod' ELSE h.kind END"
_SAME = " AND ".join(
    f"o.{name} = h.{name}"
    for name in ("basis", "uid", "kind", "namespace", "queue_name", "queue", "place", "resource")
)
_HOLDING = f"""(SELECT coalesce(sum(o.quantity), 0) FROM held o WHERE {_SAME}
      AND o.low <= {{at}} AND o.high > {{at}})"""  # noqa: S608
_COLUMNS = "basis, uid, kind, namespace, queue_name, queue, place, resource, since, priority_class"
MAKE_COUNTED = f"""
CREATE TEMPORARY TABLE counted ON COMMIT DROP AS
SELECT row_number() OVER () AS n, {_COLUMNS}, quantity, low, high, 'observed'::text AS seen
FROM held h WHERE NOT EXISTS (SELECT 1 FROM {GAPS} WHERE g.kind = {_WATCHED} AND g.low < h.high AND g.high > h.low)
"""  # noqa: S608
# Spells that a time touches in which nobody could look: cut at its edges, and inside of it the part that the same object
# had both before and after is bridged, the rest left out.
ADD_JUDGED = f"""
WITH gaps AS (SELECT * FROM {GAPS}),
touched AS (
  SELECT row_number() OVER () AS t, h.* FROM held h
  WHERE EXISTS (SELECT 1 FROM gaps g WHERE g.kind = {_WATCHED} AND g.low < h.high AND g.high > h.low)),
edges AS (
  SELECT t, low AS at FROM touched UNION SELECT t, high FROM touched
  UNION SELECT h.t, e.at FROM touched h JOIN gaps g ON g.kind = {_WATCHED}
    CROSS JOIN LATERAL (VALUES (g.low), (g.high)) AS e(at) WHERE e.at > h.low AND e.at < h.high),
pieces AS (SELECT t, at AS piece_low, lead(at) OVER (PARTITION BY t ORDER BY at) AS piece_high FROM edges),
judged AS (
  SELECT h.*, p.piece_low, p.piece_high, g.low IS NULL AS open,
    least(h.quantity, {_HOLDING.format(at="g.low")}, {_HOLDING.format(at="g.high")}) AS sure
  FROM pieces p JOIN touched h USING (t)
  LEFT JOIN gaps g ON g.kind = {_WATCHED} AND g.low <= p.piece_low AND g.high >= p.piece_high
  WHERE p.piece_high IS NOT NULL)
INSERT INTO counted
SELECT (SELECT coalesce(max(n), 0) FROM counted) + row_number() OVER (), {_COLUMNS}, part.quantity, piece_low, piece_high,
  part.seen
FROM judged CROSS JOIN LATERAL (VALUES
  (CASE WHEN open THEN quantity END, 'observed'), (CASE WHEN NOT open THEN sure END, 'bridged'),
  (CASE WHEN NOT open THEN quantity - sure END, 'left_out')) AS part(quantity, seen)
WHERE part.quantity > 0
"""  # noqa: S608

# Groups that are ever beyond a limit: only these are looked at one by one.
LIMITS = """unnest(%(limit_basis)s::text[], %(limit_queue)s::text[], %(limit_place)s::text[], %(limit_resource)s::text[],
  %(limit_from)s::timestamptz[], %(limit_to)s::timestamptz[], %(limit_units)s::numeric[])
  AS l(basis, queue, place, resource, low, high, units)"""
_GROUP = "c.basis, CASE c.basis WHEN 'reserved' THEN c.queue ELSE '' END AS queue, c.place, c.resource"
MAKE_MEMBERS = f"""
CREATE TEMPORARY TABLE members ON COMMIT DROP AS
WITH events AS (
  SELECT {_GROUP}, c.low AS at, c.quantity AS delta FROM counted c WHERE c.seen IN ('observed', 'bridged')
  UNION ALL SELECT {_GROUP}, c.high, -c.quantity FROM counted c WHERE c.seen IN ('observed', 'bridged')
  UNION ALL SELECT l.basis, l.queue, l.place, l.resource, l.low, 0 FROM {LIMITS}),
running AS (
  SELECT DISTINCT basis, queue, place, resource, at,
    sum(delta) OVER (PARTITION BY basis, queue, place, resource ORDER BY at) AS total FROM events),
beyond AS (
  SELECT DISTINCT basis, queue, place, resource FROM running r JOIN {LIMITS} USING (basis, queue, place, resource)
  WHERE r.at >= l.low AND r.at < l.high AND r.total > l.units)
SELECT b.basis, b.queue, b.place, b.resource, c.n, c.since, c.uid, c.priority_class, c.low, c.high, c.quantity
FROM counted c JOIN beyond b ON b.basis = c.basis AND b.place = c.place AND b.resource = c.resource
  AND b.queue = CASE c.basis WHEN 'reserved' THEN c.queue ELSE '' END
WHERE c.seen IN ('observed', 'bridged')
"""  # noqa: S608
MEMBERS = """
SELECT basis, queue, place, resource, since, uid, priority_class, low, n, high, quantity FROM members
ORDER BY basis, queue, place, resource
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
_KIND = "c.basis, c.kind, c.namespace, c.queue_name, c.queue, c.place, c.resource, c.priority_class"
_OVERLAP = "least(p.high, o.high, s.high) - greatest(p.low, o.low, s.low)"
ADD_HOURS = f"""
INSERT INTO usage_allocationhour (cluster_id, team_id, cost_centre, basis, kind, queue, flavor, resource, model,
  sharing_mode, profile, weight_over, weight_under, priority_class, borrowed, seen, starts_at, ends_at, unit_seconds)
SELECT %(cluster)s, o.team_id, o.cost_centre, p.basis, p.kind, p.queue,
  CASE p.basis WHEN 'pod' THEN '' ELSE p.place END, p.resource, coalesce(u.model, ''),
  coalesce(u.sharing_mode, ''), coalesce(u.profile, ''), u.weight_over, u.weight_under, p.priority_class, p.borrowed,
  p.seen, s.low, s.high, sum(p.quantity * extract(epoch FROM {_OVERLAP})) AS units
FROM (
  SELECT {_KIND}, c.quantity, c.low, c.high, c.seen, false AS borrowed FROM counted c
  UNION ALL
  SELECT {_KIND}, -x.quantity, x.low, x.high, c.seen, false FROM shifts x JOIN counted c USING (n)
  UNION ALL
  SELECT {_KIND}, x.quantity, x.low, x.high, CASE c.basis WHEN 'pod' THEN 'beyond' ELSE c.seen END,
    c.basis = 'reserved' FROM shifts x JOIN counted c USING (n)
) p
JOIN {OWNERS} ON o.kind = p.kind AND o.namespace = p.namespace AND o.queue_name = p.queue_name AND o.queue = p.queue
  AND o.low < p.high AND o.high > p.low
LEFT JOIN {UNITS} ON u.basis = p.basis AND u.place = p.place AND u.resource = p.resource
CROSS JOIN LATERAL generate_series(date_trunc('hour', greatest(p.low, %(start)s), 'UTC'),
  least(p.high, %(end)s) - interval '1 microsecond', interval '1 hour') AS h(hour)
JOIN {SLOTS} ON s.hour = h.hour AND s.low < least(p.high, o.high) AND s.high > greatest(p.low, o.low)
WHERE p.low < %(end)s AND p.high > %(start)s
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18
HAVING sum(p.quantity * extract(epoch FROM {_OVERLAP})) <> 0
"""  # noqa: S608
