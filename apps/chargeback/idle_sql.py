"""SQL of idle capacity that is charged: how much of it there was, and whose part is which.

`idle_shares` is a temporary table with the columns of AllocationHour that lines are made of; `starts_at` and `ends_at` are
those of the stretch that was shared out."""

from __future__ import annotations

from apps.usage.allocation_sql import COUNTED
from apps.usage.supply import idle_held

_KIND = ("cluster_id", "resource", "model", "sharing_mode", "profile", "weight_over", "weight_under")
KIND = ", ".join(_KIND)
_OF = ", ".join(f"i.{name}" for name in _KIND)


def _same(one: str, other: str) -> str:
    return " AND ".join(f"{one}.{name} IS NOT DISTINCT FROM {other}.{name}" for name in _KIND)


MAKE_SHARES = """
CREATE TEMPORARY TABLE IF NOT EXISTS idle_shares (
  starts_at timestamptz NOT NULL, ends_at timestamptz NOT NULL, cluster_id bigint NOT NULL, team_id bigint,
  cost_centre text NOT NULL, basis text NOT NULL DEFAULT 'idle', kind text NOT NULL DEFAULT '',
  queue text NOT NULL DEFAULT '', flavor text NOT NULL DEFAULT '', resource text NOT NULL, model text NOT NULL,
  sharing_mode text NOT NULL, profile text NOT NULL, weight_over bigint, weight_under bigint,
  priority_class text NOT NULL DEFAULT '', borrowed boolean NOT NULL DEFAULT false,
  seen text NOT NULL DEFAULT 'observed', unit_seconds numeric NOT NULL
) ON COMMIT DROP
"""

# What was idle and what no team is charged for in another basis: of what is reserved (or promised, where that has a price)
# and not bound, the team that has it pays already.
_IDLE = f"""
idle AS (
  SELECT {KIND}, sum(idle - {idle_held("idle", "paid", "pods")}) AS units
  FROM (
    SELECT {KIND}, starts_at, sum(idle) AS idle, sum(pods) AS pods,
      greatest(CASE WHEN 'reserved' = ANY(%(paid)s) THEN sum(reserved) ELSE 0 END,
        CASE WHEN 'nominal' = ANY(%(paid)s) THEN sum(nominal) ELSE 0 END) AS paid
    FROM (
      SELECT {KIND}, starts_at, unit_seconds AS idle, 0 AS pods, 0 AS reserved, 0 AS nominal
      FROM usage_supplyhour WHERE bucket = 'idle' AND starts_at >= %(low)s AND starts_at < %(high)s
      UNION ALL
      SELECT {KIND}, starts_at, 0, CASE WHEN basis = 'pod' THEN unit_seconds ELSE 0 END,
        CASE WHEN basis = 'reserved' AND {COUNTED} THEN unit_seconds ELSE 0 END,
        CASE WHEN basis = 'nominal' AND {COUNTED} THEN unit_seconds ELSE 0 END
      FROM usage_allocationhour WHERE starts_at >= %(low)s AND starts_at < %(high)s
    ) both_sides
    GROUP BY {KIND}, starts_at
  ) hours
  GROUP BY {KIND} HAVING sum(idle - {idle_held("idle", "paid", "pods")}) > 0)
"""  # noqa: S608  constants
_HELD = f"""
  FROM usage_allocationhour
  WHERE starts_at >= %(low)s AND starts_at < %(high)s AND basis = %(held)s AND {COUNTED}
"""
# Weights of a stretch: by kind of unit for what is shared by use, by cluster for what is shared evenly.
_WEIGHTS = {
    "proportional": f"""
weights AS (
  SELECT {KIND}, team_id, cost_centre, sum(unit_seconds) AS weight {_HELD} GROUP BY {KIND}, team_id, cost_centre)
""",
    "even": f"""
weights AS (
  SELECT {_OF}, t.team_id, t.cost_centre, 1 AS weight
  FROM idle i JOIN (
    SELECT DISTINCT ON (cluster_id, team_id) cluster_id, team_id, cost_centre {_HELD} AND team_id IS NOT NULL
    ORDER BY cluster_id, team_id, starts_at DESC, cost_centre
  ) t ON t.cluster_id = i.cluster_id)
""",  # noqa: S608
    "platform": f"""
weights AS (SELECT {_OF}, NULL::bigint AS team_id, ''::text AS cost_centre, 1 AS weight FROM idle i)
""",  # noqa: S608
}


# Parts are cut at billionths of a second where the running sum of the weights falls, so that they add up to the whole.
def add_shares(policy: str) -> str:
    """The statement for one policy."""
    return f"""
WITH {_IDLE}, {_WEIGHTS[policy]}, parts AS (
  SELECT {_OF}, w.team_id, coalesce(w.cost_centre, '') AS cost_centre, i.units, coalesce(w.weight, 1) AS weight,
    sum(coalesce(w.weight, 1)) OVER (PARTITION BY {_OF} ORDER BY w.team_id NULLS LAST, w.cost_centre) AS upto,
    sum(coalesce(w.weight, 1)) OVER (PARTITION BY {_OF}) AS whole
  FROM idle i LEFT JOIN weights w ON {_same("i", "w")})
INSERT INTO idle_shares (starts_at, ends_at, {KIND}, team_id, cost_centre, unit_seconds)
SELECT %(low)s, %(until)s, {KIND}, team_id, cost_centre, share FROM (
  SELECT *, (div(units * upto * 1000000000, whole) - div(units * (upto - weight) * 1000000000, whole))
    * 0.000000001 AS share
  FROM parts) cut
WHERE share > 0
"""  # noqa: S608
