"""SQL of the hours of what there was: the same as `supply_hours.supply_seconds` of every node, summed by kind of unit. Constants
only. Reads `counted` (`allocation_sql`), where pods are whole: what of them is beyond their node is held all the same."""

from __future__ import annotations

from apps.usage import supply_hours as name
from apps.usage.allocation_sql import SLOTS, UNITS

_OFFERS = """unnest(%(offer_node)s::text[], %(offer_resource)s::text[], %(offer_at)s::timestamptz[],
  %(offer_physical)s::numeric[], %(offer_usable)s::numeric[]) AS o(node, resource, at, physical, usable)"""
_UNSEEN = "unnest(%(unseen_at)s::timestamptz[], %(unseen_change)s::int[]) AS g(at, change)"
_OUT = """unnest(%(out_node)s::text[], %(out_resource)s::text[], %(out_bucket)s::text[], %(out_low)s::timestamptz[],
  %(out_high)s::timestamptz[], %(out_units)s::numeric[]) AS b(node, resource, bucket, low, high, units)"""
_KEY = "PARTITION BY node, resource ORDER BY at"
# What happens to a node's units, as differences; running sums of them are what it is from then on.
_EVENTS = f"""
offers AS (
  SELECT node, resource, at, physical - coalesce(lag(physical) OVER k, 0) AS physical,
    usable - coalesce(lag(usable) OVER k, 0) AS usable, (lag(at) OVER k IS NULL)::int AS known
  FROM {_OFFERS} WINDOW k AS ({_KEY})),
pods AS (
  SELECT place AS node, resource, greatest(low, %(start)s) AS low, least(high, %(end)s) AS high, quantity
  FROM counted JOIN kinds USING (kind_id) WHERE basis = 'pod' AND low < %(end)s AND high > %(start)s),
keys AS (SELECT node, resource FROM offers UNION SELECT node, resource FROM pods),
events AS (
  SELECT node, resource, at, physical, usable, 0::numeric AS held, known, 0 AS hidden FROM offers
  UNION ALL SELECT node, resource, low, 0, 0, quantity, 0, 0 FROM pods
  UNION ALL SELECT node, resource, high, 0, 0, -quantity, 0, 0 FROM pods
  UNION ALL SELECT node, resource, g.at, 0, 0, 0, 0, g.change FROM keys CROSS JOIN {_UNSEEN}
  UNION ALL SELECT node, resource, s.low, 0, 0, 0, 0, 0 FROM keys CROSS JOIN {SLOTS}
  UNION ALL SELECT node, resource, %(end)s, 0, 0, 0, 0, 0 FROM keys),
pieces AS (
  SELECT node, resource, at, sum(sum(physical)) OVER k AS physical, sum(sum(usable)) OVER k AS usable,
    sum(sum(held)) OVER k AS held, sum(sum(known)) OVER k > 0 AS known,
    sum(sum(hidden)) OVER k > 0 OR sum(sum(known)) OVER k = 0 AS hidden, lead(at) OVER k AS until
  FROM events GROUP BY node, resource, at WINDOW k AS ({_KEY}))"""  # noqa: S608
_COLUMNS = """cluster_id, resource, model, sharing_mode, profile, weight_over, weight_under, bucket, starts_at, ends_at,
  unit_seconds"""
_KIND = """coalesce(u.model, ''), coalesce(u.sharing_mode, ''), coalesce(u.profile, ''), u.weight_over, u.weight_under"""
_UNIT_OF = "u.basis = 'pod' AND u.place = p.node AND u.resource = p.resource"

ADD_SUPPLY = f"""
WITH {_EVENTS}
INSERT INTO usage_supplyhour ({_COLUMNS})
SELECT %(cluster)s, p.resource, {_KIND}, m.bucket, s.low, s.high,
  sum(m.units * extract(epoch FROM p.until - p.at)) AS unit_seconds
FROM pieces p
JOIN {SLOTS} ON s.hour = date_trunc('hour', p.at, 'UTC') AND p.at >= s.low AND p.at < s.high
LEFT JOIN {UNITS} ON {_UNIT_OF}
CROSS JOIN LATERAL (VALUES
  ('{name.HELD}', CASE WHEN NOT p.hidden THEN least(p.usable, p.held) END),
  ('{name.IDLE}', CASE WHEN NOT p.hidden THEN p.usable - least(p.usable, p.held) END),
  ('{name.OUT_OF_USE}', CASE WHEN NOT p.hidden THEN p.held - least(p.usable, p.held) END),
  ('{name.UNOBSERVED}', CASE WHEN p.hidden AND p.known THEN p.physical END),
  ('{name.HELD_UNOBSERVED}', CASE WHEN p.hidden THEN p.held END)) AS m(bucket, units)
WHERE p.until IS NOT NULL AND m.units > 0
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
"""  # noqa: S608
ADD_OUT_OF_USE = f"""
INSERT INTO usage_supplyhour ({_COLUMNS})
SELECT %(cluster)s, p.resource, {_KIND}, p.bucket, s.low, s.high,
  sum(p.units * extract(epoch FROM least(p.high, s.high) - greatest(p.low, s.low)))
FROM (SELECT * FROM {_OUT}) p
JOIN {SLOTS} ON s.low < p.high AND s.high > p.low
LEFT JOIN {UNITS} ON {_UNIT_OF}
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
"""  # noqa: S608
