"""What idles, and in whose hands. Input: whole hours of what was promised, held and used; output: `Idling` per queue and kind of
unit. All in unit-seconds, `measured`, `busy` and `held_idle` in seconds of devices; kinds of units are never added up.

Invariants
- Three kinds of idleness that different people can end: a promise that nobody reserves (`unused`), quota that is reserved
  while no pod has it (`unbound`), and devices that pods hold and do not keep busy (`held_idle`).
- Each is found hour by hour: what was too much in one hour does not make up for what lacked in another.
- What cannot be known is None: of a flavor over several kinds of cards nobody says which of them a pod would have had;
  what was not measured is not idle."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from django.db import connection

from apps.accounts.models import Team
from apps.core.windows import Bucket, Window
from apps.fleet.models import Cluster
from apps.fleet.selectors import UNBOUND
from apps.usage.allocation import Unit
from apps.usage.allocation_sql import COUNTED
from apps.usage.kinds import unit_of
from apps.usage.use import Use, efficiency, held_idle, use

ZERO = Decimal(0)
_KEY = "cluster_id, team_id, kind, queue, resource, model, sharing_mode, profile, weight_over, weight_under"
_QUOTA = f"""
SELECT {_KEY}, sum(nominal), sum(greatest(0, nominal - own)), sum(reserved), sum(greatest(0, reserved - bound))
FROM (
  SELECT {_KEY}, starts_at,
    coalesce(sum(unit_seconds) FILTER (WHERE basis = 'nominal'), 0) AS nominal,
    coalesce(sum(unit_seconds) FILTER (WHERE basis = 'reserved'), 0) AS reserved,
    coalesce(sum(unit_seconds) FILTER (WHERE basis = 'reserved' AND NOT borrowed), 0) AS own,
    coalesce(sum(unit_seconds) FILTER (WHERE basis = 'pod'), 0) AS bound
  FROM usage_allocationhour
  WHERE starts_at >= %(start)s AND starts_at < %(end)s AND cluster_id = ANY(%(clusters)s) AND {COUNTED}
    AND (%(teams)s::bigint[] IS NULL OR team_id = ANY(%(teams)s))
  GROUP BY {_KEY}, starts_at
) hours
GROUP BY {_KEY}
"""  # noqa: S608  constants


class Whose(NamedTuple):
    """`kind`: of the work, as in AllocationHour; `team_id` None: of no team."""

    cluster_id: int
    team_id: int | None
    kind: str
    queue: str
    resource: str
    unit: Unit


@dataclass(frozen=True, slots=True)
class Idling:
    """`team`, `cluster`: as they are called today; "" of no team. `nominal`: promised to the queue, of it `unused`: not reserved
    by its own work (others may have borrowed it); `reserved`, of it `unbound`; `bound`: what pods held."""

    whose: Whose
    cluster: str
    cluster_name: str
    team: str
    team_name: str
    nominal: Decimal
    unused: Decimal
    reserved: Decimal
    unbound: Decimal | None
    bound: Decimal
    measured: Decimal
    busy: Decimal | None

    @property
    def resource(self) -> str:
        return self.whose.resource

    @property
    def unit(self) -> Unit:
        return self.whose.unit

    @property
    def held_idle(self) -> Decimal | None:
        """Held, measured and not busy."""
        return held_idle(self.measured, self.busy)

    @property
    def efficiency(self) -> Decimal | None:
        """Busy / measured, 0…1, to a millionth."""
        return efficiency(self.measured, self.busy)

    @property
    def idle_cards(self) -> Decimal:
        """What idles of it in whole cards' seconds, to compare rows by; kinds without a weight count as units."""
        weight = self.unit.equivalents
        units = (self.unbound or ZERO) + (self.held_idle or ZERO)
        return units if weight is None else units * weight.numerator / weight.denominator


def idling(
    *,
    window: Window,
    clusters: Collection[Cluster],
    team_ids: Collection[int] | None = None,
    team: str = "",
    queue: str = "",
) -> list[Idling]:
    """Of the whole hours around the window, what idles most first. `team_ids` None: everything, what is of no team
    included; `team` "-": only that."""
    hours = window.aligned(Bucket.HOUR)
    ids = [cluster.pk for cluster in clusters]
    quota = _quota(hours.start, hours.end, ids, team_ids)
    used = _used(use(start=hours.start, end=hours.end, clusters=ids, team_ids=team_ids))
    teams = {one.pk: one for one in Team.objects.all()}
    named = {cluster.pk: cluster for cluster in clusters}
    rows = (
        _idling(whose, quota.get(whose, _NOTHING), used.get(whose, _UNUSED), named, teams)
        for whose in quota.keys() | used.keys()
    )
    found = [row for row in rows if _wanted(row, team, queue)]
    return sorted(found, key=lambda row: (-row.idle_cards, -row.unused, key_of(row)))


def key_of(row: Idling) -> tuple[str, str, str, str, str, str, str, str, str]:
    """What tells rows apart, as text."""
    whose, unit = row.whose, row.whose.unit
    return (
        *(row.cluster, row.team, whose.kind, whose.queue, whose.resource),
        *(unit.model, unit.sharing_mode, unit.profile, str(unit.equivalents or "")),
    )


class _Quota(NamedTuple):
    nominal: Decimal
    unused: Decimal
    reserved: Decimal
    unbound: Decimal


class _Used(NamedTuple):
    bound: Decimal
    measured: Decimal
    busy: Decimal | None


_NOTHING, _UNUSED = _Quota(ZERO, ZERO, ZERO, ZERO), _Used(ZERO, ZERO, None)


def _quota(
    start: datetime, end: datetime, clusters: list[int], team_ids: Collection[int] | None
) -> dict[Whose, _Quota]:
    given: dict[str, Any] = {
        "start": start,
        "end": end,
        "clusters": clusters,
        "teams": None if team_ids is None else list(team_ids),
    }
    with connection.cursor() as cursor:
        cursor.execute(_QUOTA, given)
        return {_whose(row): _Quota(*row[10:]) for row in cursor.fetchall()}


def _whose(row: tuple[Any, ...]) -> Whose:
    cluster_id, team_id, kind, queue, resource = row[:5]
    return Whose(cluster_id, team_id, kind, queue, resource, unit_of(*row[5:10]))


def _used(rows: Iterable[Use]) -> dict[Whose, _Used]:
    """Without cost centres; devices of which nobody says whose part is which are nobody's here."""
    found: dict[Whose, _Used] = {}
    for row in rows:
        whose = Whose(row.cluster_id, row.team_id, row.kind, row.queue, row.resource, row.unit)
        before = found.get(whose, _UNUSED)
        busy = before.busy if row.busy_seconds is None else (before.busy or ZERO) + row.busy_seconds
        found[whose] = _Used(before.bound + row.held, before.measured + row.measured_seconds, busy)
    return found


def _idling(
    whose: Whose, quota: _Quota, used: _Used, clusters: Mapping[int, Cluster], teams: Mapping[int, Team]
) -> Idling:
    cluster, team = clusters[whose.cluster_id], None if whose.team_id is None else teams[whose.team_id]
    return Idling(
        whose=whose,
        cluster=cluster.slug,
        cluster_name=cluster.name,
        team="" if team is None else team.slug,
        team_name="" if team is None else team.name,
        nominal=quota.nominal,
        unused=quota.unused,
        reserved=quota.reserved,
        unbound=quota.unbound if whose.unit.model or not quota.reserved else None,
        bound=used.bound,
        measured=used.measured,
        busy=used.busy,
    )


def _wanted(row: Idling, team: str, queue: str) -> bool:
    """`team` "-" names what is of no team."""
    return team in ("", row.team or UNBOUND) and queue in ("", row.whose.queue)
