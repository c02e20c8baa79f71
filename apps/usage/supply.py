"""What there was, who had it, and what was idle. Input: a stretch of whole rows (hours, or billing periods) and clusters;
output: `Supply` per kind of unit, and `Imbalance`s. All amounts are unit-seconds, exact; kinds of units are never added up:
weigh them by `Unit.equivalents` first.

Invariant: what pods held, less what was out of use or unobserved, + idle = allocatable × time. `imbalances` checks it
hour by hour against rows that are computed apart from each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import connection

from apps.usage import supply_hours as name
from apps.usage.allocation import Unit
from apps.usage.allocation_sql import COUNTED
from apps.usage.kinds import unit_of


def idle_held(idle: str, held: str, pods: str) -> str:
    """SQL of the part of an hour's idle units that somebody had all the same: held by quota, and no pod had them."""
    return f"least({idle}, greatest(0, {held} - {pods}))"


_KIND = "cluster_id, resource, model, sharing_mode, profile, weight_over, weight_under"
# One row per kind of unit and hour: what SupplyHour says of it, and what AllocationHour does.
_HOURS = f"""
hours AS (
  SELECT {_KIND}, starts_at, ends_at, sum(held) AS held, sum(idle) AS idle, sum(out) AS out, sum(hidden) AS hidden,
    sum(owned) AS owned, sum(unowned) AS unowned, sum(reserved) AS reserved, bool_or(computed) AS computed
  FROM (
    SELECT {_KIND}, starts_at, ends_at, true AS computed,
      CASE bucket WHEN '{name.HELD}' THEN unit_seconds ELSE 0 END AS held,
      CASE bucket WHEN '{name.IDLE}' THEN unit_seconds ELSE 0 END AS idle,
      CASE bucket WHEN '{name.OUT_OF_USE}' THEN unit_seconds ELSE 0 END AS out,
      CASE bucket WHEN '{name.HELD_UNOBSERVED}' THEN unit_seconds ELSE 0 END AS hidden,
      0 AS owned, 0 AS unowned, 0 AS reserved
    FROM usage_supplyhour WHERE starts_at >= %(start)s AND starts_at < %(end)s AND cluster_id = ANY(%(clusters)s)
    UNION ALL
    SELECT {_KIND}, starts_at, ends_at, false, 0, 0, 0, 0,
      CASE WHEN basis = 'pod' AND team_id IS NOT NULL THEN unit_seconds ELSE 0 END,
      CASE WHEN basis = 'pod' AND team_id IS NULL THEN unit_seconds ELSE 0 END,
      CASE WHEN basis = 'reserved' AND {COUNTED} THEN unit_seconds ELSE 0 END
    FROM usage_allocationhour WHERE starts_at >= %(start)s AND starts_at < %(end)s
      AND cluster_id = ANY(%(clusters)s) AND basis IN ('pod', 'reserved')
  ) both_sides
  GROUP BY {_KIND}, starts_at, ends_at)
"""  # noqa: S608  constants
_SUMS = f"""
WITH {_HOURS}
SELECT {_KIND}, sum(owned), sum(unowned), sum(reserved),
  sum({idle_held("idle", "reserved", "(owned + unowned)")})
FROM hours GROUP BY {_KIND} ORDER BY {_KIND}
"""  # noqa: S608
_BUCKETS = f"""
SELECT {_KIND}, bucket, sum(unit_seconds) FROM usage_supplyhour
WHERE starts_at >= %(start)s AND starts_at < %(end)s AND cluster_id = ANY(%(clusters)s) GROUP BY {_KIND}, bucket
"""  # noqa: S608
# Hours from before supply was noted have no row of it at all, and say nothing.
_IMBALANCES = f"""
WITH {_HOURS}
SELECT {_KIND}, starts_at, ends_at, owned + unowned, held + out + hidden
FROM hours WHERE computed AND owned + unowned <> held + out + hidden ORDER BY starts_at, {_KIND}
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Supply:
    """`buckets`: as of SupplyHour. `attributed`, `unattributed`: what pods held, of teams and of nobody; `reserved`: quota
    reserved on this kind. `idle_reserved`: the part of `idle` for which quota was reserved and no pod bound, by the hour;
    the rest of it was free."""

    cluster_id: int
    resource: str
    unit: Unit
    attributed: Decimal
    unattributed: Decimal
    reserved: Decimal
    idle_reserved: Decimal
    buckets: Mapping[str, Decimal]

    def _of(self, bucket: str) -> Decimal:
        return self.buckets.get(bucket, Decimal(0))

    @property
    def physical(self) -> Decimal:
        return sum((n for each, n in self.buckets.items() if each not in name.NOT_SUPPLY), Decimal(0))

    @property
    def allocatable(self) -> Decimal:
        """While it could be seen."""
        return self.held + self.idle

    @property
    def held(self) -> Decimal:
        """Of what is allocatable."""
        return self._of(name.HELD)

    @property
    def idle(self) -> Decimal:
        return self._of(name.IDLE)

    @property
    def idle_free(self) -> Decimal:
        return self.idle - self.idle_reserved

    @property
    def idle_share(self) -> Decimal | None:
        """Of what was allocatable, 0…1, to a millionth."""
        return round(self.idle / self.allocatable, 6) if self.allocatable else None

    @property
    def unobserved(self) -> Decimal:
        """Physical units, as last seen, in time in which nodes or pods were not."""
        return self._of(name.UNOBSERVED)

    @property
    def held_out_of_use(self) -> Decimal:
        """By pods, on units that cannot be allocated or that the node does not have."""
        return self._of(name.OUT_OF_USE)

    @property
    def held_unobserved(self) -> Decimal:
        return self._of(name.HELD_UNOBSERVED)

    @property
    def out(self) -> Decimal:
        """All of `out_of_use`."""
        return sum(self.out_of_use.values(), Decimal(0))

    @property
    def out_of_use(self) -> Mapping[str, Decimal]:
        """By the waterfall's bucket."""
        others = {name.HELD, name.IDLE, name.UNOBSERVED, *name.NOT_SUPPLY}
        return {bucket: units for bucket, units in self.buckets.items() if bucket not in others}


@dataclass(frozen=True, slots=True)
class Imbalance:
    """An hour in which the two sides differ: `pods` by AllocationHour, `placed` by SupplyHour."""

    cluster_id: int
    resource: str
    unit: Unit
    starts_at: datetime
    ends_at: datetime
    pods: Decimal
    placed: Decimal


def supply(*, start: datetime, end: datetime, clusters: Collection[int]) -> list[Supply]:
    """Per cluster and kind of unit, of the rows that begin in [start, end). Kinds of which there are only reservations
    (a flavor over several kinds of cards) have no buckets."""
    given: dict[str, Any] = {"start": start, "end": end, "clusters": list(clusters)}
    buckets: defaultdict[tuple[Any, ...], dict[str, Decimal]] = defaultdict(dict)
    with connection.cursor() as cursor:
        cursor.execute(_BUCKETS, given)
        for *kind, bucket, units in cursor.fetchall():
            buckets[tuple(kind)][bucket] = units
        cursor.execute(_SUMS, given)
        return [_supply(row[:7], *row[7:], buckets=buckets[row[:7]]) for row in cursor.fetchall()]


def _supply(
    kind: tuple[Any, ...],
    attributed: Decimal,
    unattributed: Decimal,
    reserved: Decimal,
    idle_reserved: Decimal,
    *,
    buckets: Mapping[str, Decimal],
) -> Supply:
    return Supply(
        cluster_id=kind[0],
        resource=kind[1],
        unit=unit_of(*kind[2:7]),
        attributed=attributed,
        unattributed=unattributed,
        reserved=reserved,
        idle_reserved=idle_reserved,
        buckets=buckets,
    )


def imbalances(*, start: datetime, end: datetime, clusters: Collection[int]) -> list[Imbalance]:
    """[] as long as the hours are right."""
    with connection.cursor() as cursor:
        cursor.execute(_IMBALANCES, {"start": start, "end": end, "clusters": list(clusters)})
        return [Imbalance(row[0], row[1], unit_of(*row[2:7]), *row[7:]) for row in cursor.fetchall()]
