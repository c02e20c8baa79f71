"""What intervals are made of, read from what was observed. Input: a cluster and a stretch of time; output: spells of
holding, as the temporary table `held`, and what they are judged by (`allocation.Surroundings`).

Invariants
- A spell is read whole when any of it lies in the stretch, or in a time that touches it and in which nobody could look:
  what is bridged does not depend on where the stretch begins.
- What lasts reaches to the last good pull of its source.
- Accelerators only, those that no vendor file knows among them: they have no price and are not lost. A pod that a
  ResourceClaim serves holds the claim's devices, not the resource that it names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from apps.fleet.models import Cluster
from apps.fleet.registry import is_device
from apps.fleet.selectors import ownership_pieces
from apps.fleet.unregistered import looks_like_accelerator
from apps.quotas.models import QuotaPoint
from apps.usage import allocation_sql as sql
from apps.usage.allocation import Basis, Group, Limit, Owned, Place, Spell, Surroundings
from apps.usage.remembering import cost_centres, units_at, unseen
from apps.usage.services import HOLDING_STATES


@dataclass(frozen=True, slots=True)
class Loaded:
    """The table `held` is filled; `around` is what its spells are judged by."""

    cluster: Cluster
    around: Surroundings


def fill_held(*, cluster: Cluster, start: datetime, end: datetime, until: Mapping[str, datetime]) -> Loaded:
    """Make the temporary table `held` (see `allocation_sql`). `until`: how far the facts of each kind ("Workload",
    "PodGroup", "Pod") are known. Only within a transaction, at whose end the table goes."""
    gaps = unseen(cluster, start, end)
    edges = [stretch for stretches in gaps.values() for stretch in stretches]
    low = min([start, *(stretch.start for stretch in edges)])
    high = max([end, *(stretch.end for stretch in edges)])
    params: dict[str, Any] = {
        "cluster": cluster.pk,
        "start": low,
        "end": high,
        "states": list(HOLDING_STATES),
        **{f"until_{kind}": at for kind, at in until.items()},
    }
    with connection.cursor() as cursor:
        cursor.execute(sql.RESOURCES, params)
        resources = [name for (name,) in cursor.fetchall() if is_held(name)]
        for statement in ("DROP TABLE IF EXISTS held", sql.MAKE_HELD):
            cursor.execute(statement)
        for statement in (sql.RESERVED, sql.BOUND):
            cursor.execute(statement, params | {"resources": resources})
        cursor.execute("ANALYZE held")
        cursor.execute(sql.PLACES)
        places = [Place(cluster.pk, *row) for row in cursor.fetchall()]
    units, node_units = units_at(cluster, end)
    return Loaded(
        cluster,
        Surroundings(
            owners=_owners(cluster, places, low, high),
            units=units,
            gaps=gaps,
            nominal=_nominal(cluster, low, high),
            node_units=node_units,
        ),
    )


def spells(cluster: Cluster) -> Iterator[Spell]:
    """What `held` holds, one by one."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT basis, uid, kind, namespace, queue_name, queue, place, resource, quantity, low, high, since,"
            " priority_class FROM held"
        )
        for basis, uid, kind, namespace, queue_name, queue, on, *rest in cursor:
            place = Place(cluster.pk, kind, namespace, queue_name, queue)
            yield Spell(Basis(basis), uid, place, on, *rest)


def is_held(resource: str) -> bool:
    """Whether time of it is accounted for."""
    return is_device(resource) or looks_like_accelerator(resource)


# ---- owners ---------------------------------------------------------------------------------------------------------


def _owners(
    cluster: Cluster, places: Collection[Place], start: datetime, end: datetime
) -> Mapping[Place, Sequence[Owned]]:
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


def _nominal(cluster: Cluster, start: datetime, end: datetime) -> Mapping[Group, Sequence[Limit]]:
    """ClusterQueues' nominal quota over time; None from where a queue has none any more. Before the first that is known
    it was that one."""
    found: defaultdict[Group, list[Limit]] = defaultdict(list)
    rows = QuotaPoint.objects.filter(cluster=cluster, kind="ClusterQueue", at__lt=end).order_by("at")
    for queue, flavor, resource, at, nominal in rows.values_list(
        "queue", "flavor", "resource", "at", "nominal"
    ).iterator(chunk_size=5000):
        limits = found[cluster.pk, queue, flavor, resource]
        if limits and at <= start:
            limits[0] = Limit(at, nominal)
        elif not limits or limits[-1].units != nominal:
            limits.append(Limit(at, nominal))
    return {group: [Limit(min(start, rows[0].at), rows[0].units), *rows[1:]] for group, rows in found.items()}
