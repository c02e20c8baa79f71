"""SQL of how busy held devices were: samples, each from its instant until the device's next one, and to whom they belong.
Constants only. Reads `held` (`allocation_sql`) with the pods of the hour."""

from __future__ import annotations

from apps.usage.allocation_sql import OWNERS, UNITS

RESOURCES = """
SELECT DISTINCT r.key FROM observations_pod p CROSS JOIN LATERAL jsonb_object_keys(p.requests) AS r(key)
WHERE p.cluster_id = %(cluster)s AND p.devices > 0 AND p.bound_at < %(end)s
  AND coalesce(p.finished_at, p.gone_at, 'infinity') > %(start)s
"""
# Slots are cut at changes of owners, too; rows are of the longer ones of [row_from, row_to).
_SLOTS = """unnest(%(use_from)s::timestamptz[], %(use_to)s::timestamptz[], %(row_from)s::timestamptz[],
  %(row_to)s::timestamptz[]) AS s(low, high, row_from, row_to)"""
_SECONDS = "extract(epoch FROM least(p.high, s.high) - greatest(p.low, s.low))"
_SAMPLED = """
sampled AS (
  SELECT profile, instance, namespace, pod, attribution, shares, jsonb_array_length(shares) AS n,
    utilisation_ratio AS ratio, memory_used_bytes AS memory, CASE WHEN instance = '' THEN power_watts END AS watts,
    greatest(sampled_at, %(start)s) AS low, least(%(end)s, sampled_at + %(longest)s,
      lead(sampled_at) OVER (PARTITION BY device, instance ORDER BY sampled_at)) AS high
  FROM observations_devicesample
  WHERE cluster_id = %(cluster)s AND sampled_at > %(start)s - %(longest)s AND sampled_at < %(end)s)"""
# A device's own value belongs to the one pod on it. Of several each has the part that was measured of it, and an even part
# of the time; what nobody says whose part it is stays whole, once, `shared`.
_PARTS = """
parts AS (
  SELECT namespace, pod, profile, false AS shared, 1::numeric AS part, ratio, memory, watts, low, high
  FROM sampled WHERE pod <> ''
  UNION ALL
  SELECT share ->> 'namespace', share ->> 'pod', profile, false, 1::numeric / n,
    CASE WHEN attribution = 'per_process' THEN (share ->> 'ratio')::numeric END, NULL, NULL, low, high
  FROM sampled CROSS JOIN LATERAL jsonb_array_elements(shares) share WHERE pod = ''
  UNION ALL
  SELECT shares -> 0 ->> 'namespace', shares -> 0 ->> 'pod', profile, true, 1,
    CASE WHEN attribution <> 'per_process' THEN ratio END, memory, watts, low, high
  FROM sampled WHERE pod = '' AND n > 0)"""
_SUMMED = f"""
summed AS MATERIALIZED (
  SELECT p.namespace, p.pod, p.profile, p.shared, s.low, s.high, s.row_from, s.row_to,
    sum(p.part * t.seconds) AS seen, sum(p.part * t.seconds) FILTER (WHERE p.ratio IS NOT NULL) AS measured,
    sum(p.ratio * t.seconds) AS busy, sum(t.seconds) FILTER (WHERE p.memory IS NOT NULL) AS with_memory,
    sum(p.memory * t.seconds) AS memory, sum(t.seconds) FILTER (WHERE p.watts IS NOT NULL) AS with_power,
    sum(p.watts * t.seconds) AS joules
  FROM parts p JOIN {_SLOTS} ON s.low < p.high AND s.high > p.low
  CROSS JOIN LATERAL (SELECT {_SECONDS} AS seconds) t
  WHERE p.low < p.high GROUP BY 1, 2, 3, 4, 5, 6, 7, 8)"""  # noqa: S608
# A pod of several kinds of devices: the kind of the sample's own profile. Of one name the pod that came last.
_HOLDERS = f"""
named AS MATERIALIZED (
  SELECT o.namespace AS of, o.name, h.* FROM held h
  JOIN observations_pod o ON o.cluster_id = %(cluster)s AND o.uid = h.uid),
holders AS (
  SELECT DISTINCT ON (m.namespace, m.pod, m.profile, m.shared, m.low) m.low AS at, m.high AS until, m.*, h.kind,
    h.namespace AS work_namespace, h.queue_name, h.queue, h.resource, u.model, u.sharing_mode,
    u.profile AS unit_profile, u.weight_over, u.weight_under
  FROM summed m JOIN named h ON h.of = m.namespace AND h.name = m.pod AND h.low < m.high AND h.high > m.low
  LEFT JOIN {UNITS} ON u.basis = 'pod' AND u.place = h.place AND u.resource = h.resource
  ORDER BY m.namespace, m.pod, m.profile, m.shared, m.low, (u.profile = m.profile) DESC NULLS LAST, h.low DESC,
    h.resource)"""  # noqa: S608
ADD_USE = f"""
WITH {_SAMPLED}, {_PARTS}, {_SUMMED}, {_HOLDERS}
INSERT INTO usage_usehour (cluster_id, team_id, cost_centre, kind, queue, shared, resource, model, sharing_mode, profile,
  weight_over, weight_under, starts_at, ends_at, device_seconds, measured_seconds, busy_seconds, memory_seconds,
  memory_byte_seconds, power_seconds, energy_joules)
SELECT %(cluster)s, CASE WHEN NOT m.shared THEN o.team_id END, CASE WHEN m.shared THEN '' ELSE o.cost_centre END,
  CASE WHEN m.shared THEN '' ELSE m.kind END, CASE WHEN m.shared THEN '' ELSE m.queue END, m.shared, m.resource,
  coalesce(m.model, ''), coalesce(m.sharing_mode, ''), coalesce(m.unit_profile, ''), m.weight_over, m.weight_under,
  m.row_from, m.row_to, coalesce(sum(m.seen), 0), coalesce(sum(m.measured), 0), sum(m.busy),
  coalesce(sum(m.with_memory), 0), sum(m.memory), coalesce(sum(m.with_power), 0), sum(m.joules)
FROM holders m JOIN {OWNERS} ON o.kind = m.kind AND o.namespace = m.work_namespace AND o.queue_name = m.queue_name
  AND o.queue = m.queue AND o.low <= m.at AND o.high >= m.until
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14
"""  # noqa: S608
