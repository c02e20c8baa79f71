"""How busy a team's cards were in a period, and what it held without using it. Input: days of what was held and hours of how
busy it was; output: rows of TeamUse, and `Used` per kind of unit for statements.

Invariants: utilisation is efficiency and never money; what was not measured is None, never zero; a closed period's rows are
those of its close."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db import connection

from apps.accounts.models import Team
from apps.chargeback.models import BillingPeriod
from apps.chargeback.use_models import TeamUse
from apps.usage.allocation import Unit
from apps.usage.report_sql import DAYS, KIND, SUMS, sides
from apps.usage.use import efficiency, gib_seconds, held_idle

_FILL = f"""
INSERT INTO chargeback_teamuse (period_id, team_id, {KIND}, reserved, bridged, left_out, bound, measured, busy,
  memory_byte_seconds, energy_joules)
SELECT %(period)s, team_id, {KIND}, {SUMS} FROM ({sides(DAYS)}) both_sides GROUP BY team_id, {KIND}
"""  # noqa: S608  constants


@dataclass(frozen=True, slots=True)
class Used:
    """One team's of one kind of unit; as TeamUse, in seconds."""

    resource: str
    unit: Unit
    reserved: Decimal
    bridged: Decimal
    left_out: Decimal
    bound: Decimal
    measured: Decimal | None
    busy: Decimal | None
    memory_gib_seconds: Decimal | None
    energy_joules: Decimal | None

    @property
    def unbound(self) -> Decimal:
        """Reserved, and no pod was bound: in the sum of the period."""
        return max(self.reserved - self.bound, Decimal(0))

    @property
    def held_idle(self) -> Decimal | None:
        """Device-seconds."""
        return held_idle(self.measured, self.busy)

    @property
    def efficiency(self) -> Decimal | None:
        """Busy / measured, 0…1, to a millionth."""
        return efficiency(self.measured, self.busy)


def fill_use(period: BillingPeriod) -> None:
    """Write the rows of an open period anew. Within the transaction of its lines."""
    TeamUse.objects.filter(period=period).delete()
    with connection.cursor() as cursor:
        given: dict[str, Any] = {"period": period.pk, "start": period.starts_at, "end": period.ends_at}
        cursor.execute(_FILL, given | {"bases": ["reserved", "pod"], "with_use": True})


def use_of(period: BillingPeriod, team: Team | None) -> list[Used]:
    """By model, what was held most first. One query."""
    rows = TeamUse.objects.filter(period=period, team=team).order_by("model", "-reserved", "pk")
    return [_used(row) for row in rows]


def _used(row: TeamUse) -> Used:
    return Used(
        resource=row.resource,
        unit=row.unit,
        reserved=row.reserved,
        bridged=row.bridged,
        left_out=row.left_out,
        bound=row.bound,
        measured=row.measured,
        busy=row.busy,
        memory_gib_seconds=gib_seconds(row.memory_byte_seconds),
        energy_joules=row.energy_joules,
    )
