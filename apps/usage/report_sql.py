"""SQL of what was held beside what of it did something. Constants and their composition only.

Both sides have the same columns: rows of held hours or days, and hours of how busy devices were. `%(start)s` and `%(end)s`
bound the rows by where they begin, `%(bases)s` are those of what was held, `%(with_use)s` says whether the other side is
read."""

from __future__ import annotations

from apps.usage.allocation_sql import COUNTED

HOURS, DAYS = "usage_allocationhour", "usage_allocationday"
KIND = "resource, model, sharing_mode, profile, weight_over, weight_under"
"""What kinds of units are told apart by."""
USED = ("measured", "busy", "memory", "joules")
"""NULL where nothing was measured."""
_OF_RESERVED = "FILTER (WHERE basis = 'reserved' AND"
SUMS = f"""
  coalesce(sum(units) {_OF_RESERVED} {COUNTED}), 0) AS reserved,
  coalesce(sum(units) {_OF_RESERVED} seen = 'bridged'), 0) AS bridged,
  coalesce(sum(units) {_OF_RESERVED} seen = 'left_out'), 0) AS left_out,
  coalesce(sum(units) FILTER (WHERE basis = 'pod' AND {COUNTED}), 0) AS bound,
  sum(measured) AS measured, sum(busy) AS busy, sum(memory) AS memory, sum(joules) AS joules"""
NOMINAL = f"coalesce(sum(units) FILTER (WHERE basis = 'nominal' AND {COUNTED}), 0) AS nominal"


def sides(held: str) -> str:
    """`held`: HOURS or DAYS."""
    return f"""
  SELECT starts_at, cluster_id, team_id, cost_centre, kind, queue, flavor, priority_class, borrowed, {KIND},
    basis, seen, unit_seconds AS units, NULL::numeric AS measured, NULL::numeric AS busy, NULL::numeric AS memory,
    NULL::numeric AS joules
  FROM {held} WHERE starts_at >= %(start)s AND starts_at < %(end)s AND basis = ANY(%(bases)s) AND seen <> 'beyond'
  UNION ALL
  SELECT starts_at, cluster_id, team_id, cost_centre, kind, queue, '', '', false, {KIND},
    'use', '', 0, nullif(measured_seconds, 0), busy_seconds, memory_byte_seconds, energy_joules
  FROM usage_usehour WHERE starts_at >= %(start)s AND starts_at < %(end)s AND %(with_use)s"""  # noqa: S608


# A row's place in the order, "" where it is not asked for or is nobody's.
_TEXT_KEY = ("cost_centre", "kind", "queue", "flavor", "priority_class", "borrowed")
_ORDER = (
    "coalesce(c.slug, '')",
    "coalesce(t.slug, '')",
    *(f"coalesce(g.{name}::text, '')" for name in (*_TEXT_KEY, *KIND.split(", "))),
)
ORDER = ", ".join(f'{column} COLLATE "C"' for column in _ORDER)
COLUMN = {
    "cluster": ("cluster_id", "bigint"),
    "team": ("team_id", "bigint"),
    **{name: (name, "text") for name in _TEXT_KEY[:-1]},
    "borrowed": ("borrowed", "boolean"),
}
"""Key by which may be grouped: its column and type."""
AFTER = tuple(f"after_{number}" for number in range(1 + len(_ORDER)))
"""Parameters: the step's number and what stands in ORDER, of the last row that was told; all rows with step 0."""
_AFTER = ", ".join(f"%({name})s" for name in AFTER)


def grouped(*, held: str, keys: frozenset[str], conditions: str) -> str:
    """Rows by step of time, `keys` and kind of unit, in order: those after the place of AFTER, `%(most)s` at the most, and
    with how many there are after it."""
    columns = [
        column if name in keys else f"NULL::{kind} AS {column}" for name, (column, kind) in COLUMN.items()
    ]
    grouping = ", ".join(["slot", *(column for name, (column, _) in COLUMN.items() if name in keys), KIND])
    return f"""
SELECT g.slot, {ORDER}, g.reserved, g.bridged, g.left_out, g.bound, g.nominal, g.measured, g.busy, g.memory, g.joules,
  count(*) OVER ()
FROM (
  SELECT slot, {", ".join(columns)}, {KIND}, {SUMS}, {NOMINAL}
  FROM (
    SELECT *, width_bucket(starts_at, %(edges)s::timestamptz[]) AS slot FROM ({sides(held)}) both_sides
    WHERE {conditions}
  ) cut
  GROUP BY {grouping}
) g
LEFT JOIN fleet_cluster c ON c.id = g.cluster_id LEFT JOIN accounts_team t ON t.id = g.team_id
WHERE (g.slot, {ORDER}) > ({_AFTER})
ORDER BY g.slot, {ORDER} LIMIT %(most)s
"""  # noqa: S608
