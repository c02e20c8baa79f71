"""SQL of the ledger: hours of allocation and shares of idle capacity with their price, differences to what was billed, and
lines. `{lines}` is the table of the lines, the ledger's own or the provisional one.

`charge_kinds` is a temporary table of what is charged at which price: the distinct kinds of use of the stretch, each from
one rate card's start to the next's."""

from __future__ import annotations

from apps.usage.allocation_sql import COUNTED

# What a kind of use is, in the order of the columns. Team, cost centre and queue do not matter to a price.
USE = (
    *("cluster_id", "basis", "model", "sharing_mode", "profile", "weight_over", "weight_under"),
    *("priority_class", "borrowed"),
)
# What a line is about: two hours that are alike in all of this are one.
KEY = (
    *("starts_at", "ends_at", "cluster_id", "team_id", "cost_centre", "basis", "kind", "queue", "flavor"),
    *("resource", "model", "sharing_mode", "profile", "weight_over", "weight_under", "priority_class"),
    *("borrowed", "seen"),
)
PRICED = (*("version_id", "price_id", "currency", "price_per_hour", "factor", "priced_over", "priced_under"),)
COUNTS = f"a.{COUNTED}"

# Lines are sorted once, when they are added, and in memory. What reads them afterwards groups by hashing and reads in the
# order of an index: of rows that have just been added the planner knows nothing.
FOR_MANY = ("jit = off", "work_mem = '64MB'")
FOR_SUMS = ("enable_sort = off",)

MAKE_KINDS = """
CREATE TEMPORARY TABLE IF NOT EXISTS charge_kinds (
  low timestamptz NOT NULL, high timestamptz NOT NULL,
  cluster_id bigint, basis text, model text, sharing_mode text, profile text, weight_over bigint, weight_under bigint,
  priority_class text, borrowed boolean,
  version_id bigint, price_id bigint, currency text NOT NULL, price_per_hour numeric, factor numeric,
  priced_over bigint, priced_under bigint
) ON COMMIT DROP
"""
KINDS_OF = f"""
SELECT DISTINCT {", ".join(f"a.{name}" for name in USE)} FROM usage_allocationhour a
WHERE a.starts_at >= %(low)s AND a.starts_at < %(high)s AND {COUNTS}
"""  # noqa: S608
_SAME_USE = " AND ".join(
    f"k.{name} IS NOT DISTINCT FROM a.{name}" if name.startswith("weight") else f"k.{name} = a.{name}"
    for name in USE
)
_AMOUNT = """CASE WHEN k.price_id IS NOT NULL THEN
  round({units} * k.price_per_hour * k.factor * k.priced_over / (k.priced_under * 3600), 18) END"""
_COLUMNS = (
    f"sequence, period_id, correction, corrects, {', '.join(KEY)}, unit_seconds, {', '.join(PRICED)}, amount"
)
_ORDER = ", ".join(f"a.{name}" for name in KEY)

# Use of the period itself, in the order of its key. `source`: hours of allocation, or shares of idle capacity.
_ADD_USE = f"""
INSERT INTO {{lines}} ({_COLUMNS})
SELECT %(after)s + row_number() OVER (ORDER BY {_ORDER}), %(period)s, false, NULL,
  {_ORDER}, a.unit_seconds, {", ".join(f"k.{name}" for name in PRICED)}, {_AMOUNT.format(units="a.unit_seconds")}
FROM {{source}} a
JOIN charge_kinds k ON a.starts_at >= k.low AND a.starts_at < k.high AND {_SAME_USE}
WHERE a.starts_at >= %(low)s AND a.starts_at < %(high)s AND {COUNTS}
"""  # noqa: S608
HOURS, SHARES = "usage_allocationhour", "idle_shares"

# What the hours of closed periods say now, less what was billed of them, at the price of then.
_SAME_KEY = " AND ".join(f"b.{name} IS NOT DISTINCT FROM a.{name}" for name in KEY)
_ADD_CORRECTIONS = f"""
INSERT INTO {{lines}} ({_COLUMNS})
SELECT %(after)s + row_number() OVER (ORDER BY {_ORDER}), %(period)s, true, a.corrects,
  {_ORDER}, a.difference, {", ".join(f"k.{name}" for name in PRICED)}, {_AMOUNT.format(units="a.difference")}
FROM (
  SELECT {", ".join(KEY)}, sum(unit_seconds) AS difference, min(sequence) AS corrects
  FROM (
    SELECT {", ".join(KEY)}, a.unit_seconds, NULL::bigint AS sequence FROM {{source}} a
    WHERE a.starts_at >= %(low)s AND a.starts_at < %(high)s AND {COUNTS}
      AND a.basis IN (SELECT DISTINCT k.basis FROM charge_kinds k)
    UNION ALL
    SELECT {", ".join(KEY)}, -e.unit_seconds, CASE WHEN NOT e.correction THEN e.sequence END
    FROM chargeback_ledgerentry e WHERE e.starts_at >= %(low)s AND e.starts_at < %(high)s
      AND (e.basis = 'idle') = {{idle}}
  ) both_sides
  GROUP BY {", ".join(KEY)} HAVING sum(unit_seconds) <> 0
) a
JOIN charge_kinds k ON a.starts_at >= k.low AND a.starts_at < k.high AND {_SAME_USE}
"""  # noqa: S608


def add_use(lines: str, source: str) -> str:
    return _ADD_USE.format(lines=lines, source=source)


def add_corrections(lines: str, source: str) -> str:
    return _ADD_CORRECTIONS.format(lines=lines, source=source, idle=source == SHARES)


# A correction of what has no hours any more needs its kind too.
KINDS_BILLED = f"""
SELECT DISTINCT {", ".join(f"a.{name}" for name in USE)} FROM chargeback_ledgerentry a
WHERE a.starts_at >= %(low)s AND a.starts_at < %(high)s AND a.basis <> 'idle'
"""  # noqa: S608
IDLE_KINDS = f"""
SELECT DISTINCT {", ".join(f"a.{name}" for name in USE)} FROM idle_shares a WHERE a.starts_at = %(low)s
"""  # noqa: S608
IDLE_KINDS_BILLED = f"""
SELECT DISTINCT {", ".join(f"a.{name}" for name in USE)} FROM chargeback_ledgerentry a
WHERE a.basis = 'idle' AND a.starts_at = %(low)s
"""  # noqa: S608

_UNPRICED = f"""
SELECT a.resource, sum(a.unit_seconds) FROM {{source}} a
JOIN charge_kinds k ON a.starts_at >= k.low AND a.starts_at < k.high AND {_SAME_USE}
WHERE a.starts_at >= %(low)s AND a.starts_at < %(high)s AND {COUNTS} AND k.price_id IS NULL
GROUP BY 1 ORDER BY 1
"""  # noqa: S608
UNPRICED = {source: _UNPRICED.format(source=source) for source in (HOURS, SHARES)}
LEFT_OUT = """
SELECT a.resource, sum(a.unit_seconds) FROM usage_allocationhour a
WHERE a.starts_at >= %(low)s AND a.starts_at < %(high)s AND a.seen = 'left_out'
  AND a.basis IN (SELECT DISTINCT k.basis FROM charge_kinds k)
GROUP BY 1 ORDER BY 1
"""
# Everything of a period, summed as its statements have it.
STATEMENT_PARTS = """
WITH parts AS MATERIALIZED (
  SELECT team_id, model, sharing_mode, profile, resource, basis, correction, currency, price_per_hour, factor,
    priced_over, priced_under, sum(unit_seconds), count(*)
  FROM {lines} WHERE period_id = %(period)s AND (%(teams)s::bigint[] IS NULL OR team_id = ANY (%(teams)s))
  GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
SELECT * FROM parts ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
"""
COPY_LINES = f"""
COPY (SELECT {_COLUMNS} FROM chargeback_ledgerentry WHERE period_id = {{period}} ORDER BY sequence) TO STDOUT
"""  # noqa: S608
