"""What intervals are made of, read from what was observed. Input: a cluster and a stretch of time; output: spells of
holding and of promises, as the temporary table `held`, and what they are judged by (`allocation.Surroundings`).

Invariants
- A spell is read whole when any of it lies in the stretch, or in a time that touches it and in which nobody could look:
  what is bridged does not depend on where the stretch begins.
- What lasts reaches to the last good pull of its source.
- Accelerators only, those that no vendor file knows among them: they have no price and are not lost. A pod that a
  ResourceClaim serves holds nothing of the resource that it names: the claim holds its devices (`claims`), once, as far
  as claims are known, and is capped by the node together with pods."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from apps.fleet.models import Cluster
from apps.fleet.selectors import ownership_pieces
from apps.usage import allocation_sql as sql
from apps.usage.accounted import is_held
from apps.usage.allocation import Basis, Group, Owned, Place, Spell, Surroundings
from apps.usage.commitments import KIND_OF_WORK, Promised, commitments
from apps.usage.limits import Limit
from apps.usage.remembering import cost_centres, standings, units_at, unseen
from apps.usage.services import HOLDING_STATES


@dataclass(frozen=True, slots=True)
class Loaded:
    """The table `held` is filled; `around` is what its spells are judged by."""

    cluster: Cluster
    around: Surroundings


def fill_held(*, cluster: Cluster, start: datetime, end: datetime, until: Mapping[str, datetime]) -> Loaded:
    """Make the temporary table `held` (see `allocation_sql`). `until`: how far the facts of each kind ("Workload",
    "PodGroup", "Pod", and "ResourceClaim" where there are claims: `watched_by`) are known. Only within a transaction, at whose
    end the table goes."""
    gaps = {kind: found for kind, found in unseen(cluster, start, end).items() if kind in until}
    edges = [stretch for stretches in gaps.values() for stretch in stretches]
    low = min([start, *(stretch.start for stretch in edges)])
    high = max([end, *(stretch.end for stretch in edges)])
    params: dict[str, Any] = {
        "cluster": cluster.pk,
        "start": low,
        "end": high,
        "states": list(HOLDING_STATES),
        "until_ResourceClaim": until["Pod"],  # where there are no claims, no row asks for it
        **{f"until_{kind}": at for kind, at in until.items()},
    }
    with connection.cursor() as cursor:
        cursor.execute(sql.RESOURCES, params)
        resources = [name for (name,) in cursor.fetchall() if is_held(name)]
        for statement in ("DROP TABLE IF EXISTS held", sql.MAKE_HELD):
            cursor.execute(statement)
        for statement in (sql.RESERVED, sql.BOUND, sql.CLAIMED):
            cursor.execute(statement, params | {"resources": resources})
    steps = _steps(cluster, high)
    _add_promised(cluster, steps, low, high, until)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE held")
        cursor.execute(sql.PLACES)
        places = [Place(cluster.pk, *row) for row in cursor.fetchall()]
    units, node_units = units_at(cluster, end)
    return Loaded(
        cluster,
        Surroundings(
            owners=owners_of(cluster, places, low, high),
            units=units,
            gaps=gaps,
            nominal=_nominal(cluster, steps, low),
            node_units=node_units,
        ),
    )


def spells(cluster: Cluster) -> Iterator[Spell]:
    """What `held` holds, one by one."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT basis, uid, kind, namespace, queue_name, queue, place, resource, quantity, low, high, since,"
            " priority_class, watched FROM held"
        )
        for basis, uid, kind, namespace, queue_name, queue, on, *rest in cursor:
            place = Place(cluster.pk, kind, namespace, queue_name, queue)
            yield Spell(Basis(basis), uid, place, on, *rest)


# ---- owners ---------------------------------------------------------------------------------------------------------


def owners_of(
    cluster: Cluster, places: Collection[Place], start: datetime, end: datetime
) -> Mapping[Place, Sequence[Owned]]:
    """Who owned these places during [start, end), without a hole."""
    pieces = ownership_pieces(start=start, end=end, clusters=[cluster.pk])
    centres = cost_centres()
    found: dict[Place, list[Owned]] = {}
    for place in places:
        rows = found.setdefault(place, [])
        for piece in pieces:
            team = piece.index.team_id_for(
                cluster.pk,
                namespace=place.namespace,
                queue_name=place.queue_name,
                queue=place.queue,
                volcano=place.kind == "PodGroup",
            )
            rows += _with_cost_centre(team, piece.start, piece.end, centres)
    return found


def _with_cost_centre(
    team: int | None, start: datetime, end: datetime, centres: Mapping[int, Sequence[tuple[datetime, str]]]
) -> Iterator[Owned]:
    """Cut where the team's cost centre changes; before the first that is known it was that one."""
    rows = centres.get(team, ()) if team is not None else ()
    low, present = start, rows[0][1] if rows else ""
    for at, cost_centre in rows:
        if low < at < end:
            yield Owned(team, present, low, at)
            low = at
        if at < end:
            present = cost_centre
    yield Owned(team, present, low, end)


# ---- what queues own ------------------------------------------------------------------------------------------------

_STEPS = """
SELECT kind, queue, flavor, resource, at, nominal FROM (
  SELECT p.*, lag(nominal) OVER key AS before, row_number() OVER key AS n FROM quotas_quotapoint p
  WHERE cluster_id = %(cluster)s AND kind = ANY(%(kinds)s) AND at < %(end)s
  WINDOW key AS (PARTITION BY kind, queue, flavor, resource ORDER BY at)) p
WHERE n = 1 OR nominal IS DISTINCT FROM before
ORDER BY kind, queue, flavor, resource, at
"""
Steps = Mapping[Promised, Sequence[Limit]]


def _steps(cluster: Cluster, end: datetime) -> Steps:
    """Queues' nominal quota where it changed before `end`, in order; None from where a queue has none any more."""
    found: defaultdict[Promised, list[Limit]] = defaultdict(list)
    given: dict[str, Any] = {"cluster": cluster.pk, "kinds": list(KIND_OF_WORK), "end": end}
    with connection.cursor() as cursor:
        cursor.execute(_STEPS, given)
        for *key, at, nominal in cursor:
            found[Promised(*key)].append(Limit(at, nominal))
    return found


def _nominal(cluster: Cluster, steps: Steps, start: datetime) -> Mapping[Group, Sequence[Limit]]:
    """What ClusterQueues own from `start` on, to judge what is borrowed by: before the first that is known it was that
    one."""
    found: dict[Group, Sequence[Limit]] = {}
    for what, rows in steps.items():
        if what.kind == "ClusterQueue":
            past = sum(row.at <= start for row in rows)
            first, *later = rows[max(past - 1, 0) :]
            found[cluster.pk, what.queue, what.flavor, what.resource] = [
                Limit(min(start, first.at), first.units),
                *later,
            ]
    return found


def _add_promised(
    cluster: Cluster, steps: Steps, start: datetime, end: datetime, until: Mapping[str, datetime]
) -> None:
    """What of it was promised in [start, end), into `held`."""
    of_devices = {what: rows for what, rows in steps.items() if is_held(what.resource)}
    found = commitments(cluster.pk, of_devices, standings(cluster), until)
    rows = [spell for spell in found if spell.start < end and spell.end > start]
    with connection.cursor() as cursor, cursor.copy(sql.COPY_HELD) as copy:
        for spell in rows:
            place = spell.place
            copy.write_row(
                (
                    *(
                        str(spell.basis),
                        spell.uid,
                        place.kind,
                        place.namespace,
                        place.queue_name,
                        place.queue,
                    ),
                    *(spell.on, spell.resource, spell.quantity, spell.start, spell.end, spell.since, ""),
                    place.kind,
                )
            )
