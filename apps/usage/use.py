"""What was held and what of it did something. Input: a stretch of whole rows and clusters; output: `Use` per team, queue and
kind of unit, for reports; utilisation is efficiency, never money.

Invariants: what was not measured is None, never zero, and is told apart from idle; a device counts once, however many
pods share it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import connection

from apps.usage.allocation import Unit
from apps.usage.allocation_sql import COUNTED
from apps.usage.kinds import unit_of

GIB = Decimal(2**30)


def held_idle(measured: Decimal | None, busy: Decimal | None) -> Decimal | None:
    """Of what was held: measured and not busy. None: not measured."""
    return None if measured is None or busy is None else measured - busy


def efficiency(measured: Decimal | None, busy: Decimal | None) -> Decimal | None:
    """Busy / measured, 0…1, to a millionth. None: not measured."""
    return round(busy / measured, 6) if measured and busy is not None else None


def gib_seconds(byte_seconds: Decimal | None) -> Decimal | None:
    """To a millionth."""
    return None if byte_seconds is None else round(byte_seconds / GIB, 6)


_KEY = """cluster_id, team_id, cost_centre, kind, queue, resource, model, sharing_mode, profile, weight_over,
  weight_under"""
_USE = f"""
SELECT {_KEY}, shared, sum(held), sum(device), sum(measured), sum(busy), sum(memory), sum(joules)
FROM (
  SELECT {_KEY}, shared, 0 AS held, device_seconds AS device, measured_seconds AS measured, busy_seconds AS busy,
    memory_byte_seconds AS memory, energy_joules AS joules
  FROM usage_usehour WHERE starts_at >= %(start)s AND starts_at < %(end)s AND cluster_id = ANY(%(clusters)s)
  UNION ALL
  SELECT {_KEY}, false, unit_seconds, 0, 0, NULL, NULL, NULL FROM usage_allocationhour
  WHERE starts_at >= %(start)s AND starts_at < %(end)s AND cluster_id = ANY(%(clusters)s)
    AND basis = 'pod' AND {COUNTED}
) both_sides
WHERE %(teams)s::bigint[] IS NULL OR team_id = ANY(%(teams)s)
GROUP BY {_KEY}, shared ORDER BY {_KEY}, shared
"""  # noqa: S608  constants


@dataclass(frozen=True, slots=True)
class Use:
    """`held`: unit-seconds that pods held. `device_seconds`: time of cards or instances on which the exporter named them,
    `measured_seconds` of it with a utilisation, `busy_seconds` that times the utilisation (0…1). `shared`: devices of
    which nobody says whose part is which; they are of no team. None: not measured."""

    cluster_id: int
    team_id: int | None
    cost_centre: str
    kind: str
    queue: str
    resource: str
    unit: Unit
    shared: bool
    held: Decimal
    device_seconds: Decimal
    measured_seconds: Decimal
    busy_seconds: Decimal | None
    memory_byte_seconds: Decimal | None
    energy_joules: Decimal | None

    @property
    def held_idle_seconds(self) -> Decimal | None:
        return held_idle(self.measured_seconds, self.busy_seconds)

    @property
    def memory_gib_seconds(self) -> Decimal | None:
        return None if self.memory_byte_seconds is None else self.memory_byte_seconds / GIB


def use(
    *,
    start: datetime,
    end: datetime,
    clusters: Collection[int],
    team_ids: Collection[int] | None = None,
) -> list[Use]:
    """Of the rows that begin in [start, end). `team_ids` None: everything, what is of no team included."""
    given: dict[str, Any] = {
        "start": start,
        "end": end,
        "clusters": list(clusters),
        "teams": None if team_ids is None else list(team_ids),
    }
    with connection.cursor() as cursor:
        cursor.execute(_USE, given)
        return [_row(row[:6], unit_of(*row[6:11]), row[11:]) for row in cursor.fetchall()]


def _row(whose: tuple[Any, ...], unit: Unit, amounts: tuple[Any, ...]) -> Use:
    cluster_id, team_id, cost_centre, kind, queue, resource = whose
    shared, held, device_seconds, measured_seconds, busy_seconds, memory, joules = amounts
    return Use(
        cluster_id=cluster_id,
        team_id=team_id,
        cost_centre=cost_centre,
        kind=kind,
        queue=queue,
        resource=resource,
        unit=unit,
        shared=shared,
        held=held,
        device_seconds=device_seconds,
        measured_seconds=measured_seconds,
        busy_seconds=busy_seconds,
        memory_byte_seconds=memory,
        energy_joules=joules,
    )
