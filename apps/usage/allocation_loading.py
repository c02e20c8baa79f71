"""What intervals are made of, read from what was observed. Input: a cluster and a stretch of time; output: spells of
holding and what they are judged by (`allocation.Surroundings`).

Invariants
- A spell is read whole when any of it lies in the stretch, or in a time that touches it and in which nobody could look:
  what is bridged does not depend on where the stretch begins.
- What lasts reaches to the last good pull of its source.
- Accelerators only, those that no vendor file knows among them: they have no price and are not lost. A pod that a
  ResourceClaim serves holds the claim's devices, not the resource that it names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import connection

from apps.fleet.models import Cluster
from apps.fleet.registry import is_device
from apps.fleet.selectors import ownership_pieces
from apps.fleet.unregistered import looks_like_accelerator
from apps.quotas.models import QuotaPoint
from apps.usage.allocation import Basis, Group, Limit, Owned, Place, Spell, Surroundings
from apps.usage.remembering import cost_centres, units_at, unseen
from apps.usage.services import HOLDING_STATES

_RESERVED = """
SELECT s.uid, s.kind, s.namespace, s.queue_name, s.queue, coalesce(u.flavor, ''), u.resource, u.quantity,
  s.started_at, least(coalesce(s.ended_at, 'infinity'), CASE s.kind WHEN 'PodGroup' THEN %(until_PodGroup)s
    ELSE %(until_Workload)s END), coalesce(w.first_seen_at, s.started_at), coalesce(w.priority_class, '')
FROM observations_statespan s
LEFT JOIN observations_workload w ON w.cluster_id = s.cluster_id AND w.uid = s.uid
CROSS JOIN LATERAL jsonb_to_recordset(s.usage) AS u(flavor text, resource text, quantity numeric)
WHERE s.cluster_id = %(cluster)s AND s.state = ANY(%(states)s) AND s.usage <> '[]'
  AND s.started_at < %(end)s AND coalesce(s.ended_at, 'infinity') > %(start)s AND u.resource = ANY(%(resources)s)
"""
_RESOURCES = """
SELECT DISTINCT u.resource FROM observations_statespan s
CROSS JOIN LATERAL jsonb_to_recordset(s.usage) AS u(resource text)
WHERE s.cluster_id = %(cluster)s AND s.state = ANY(%(states)s) AND s.usage <> '[]'
  AND s.started_at < %(end)s AND coalesce(s.ended_at, 'infinity') > %(start)s
"""
_BOUND = """
SELECT p.uid, p.namespace, p.queue_name, p.pod_group <> '', coalesce(q.spec ->> 'cluster_queue', ''),
  p.node_name, r.key, r.value::numeric, p.bound_at,
  least(coalesce(p.finished_at, p.gone_at, 'infinity'), %(until_Pod)s), p.first_seen_at
FROM observations_pod p
LEFT JOIN observations_clusterobject q ON q.cluster_id = p.cluster_id AND q.kind = 'LocalQueue'
  AND q.namespace = p.namespace AND q.name = p.queue_name AND q.gone_at IS NULL AND p.pod_group = ''
CROSS JOIN LATERAL jsonb_each_text(p.requests) r
WHERE p.cluster_id = %(cluster)s AND p.devices > 0 AND p.bound_at < %(end)s
  AND coalesce(p.finished_at, p.gone_at, 'infinity') > %(start)s
  AND NOT EXISTS (SELECT 1 FROM jsonb_array_elements(p.claims) c WHERE c -> 'resources' ? r.key)
"""


def load(
    *, cluster: Cluster, start: datetime, end: datetime, until: Mapping[str, datetime]
) -> tuple[list[Spell], Surroundings]:
    """`until`: how far the facts of each kind ("Workload", "PodGroup", "Pod") are known."""
    gaps = unseen(cluster, start, end)
    edges = [stretch for stretches in gaps.values() for stretch in stretches]
    low = min([start, *(stretch.start for stretch in edges)])
    high = max([end, *(stretch.end for stretch in edges)])
    spells = [*_reserved(cluster, low, high, until), *_bound(cluster, low, high, until)]
    units, node_units = units_at(cluster, end)
    around = Surroundings(
        owners=_owners(cluster, {spell.place for spell in spells}, low, high),
        units=units,
        gaps=gaps,
        nominal=_nominal(cluster, low, high),
        node_units=node_units,
    )
    return spells, around


def is_held(resource: str) -> bool:
    """Whether time of it is accounted for."""
    return is_device(resource) or looks_like_accelerator(resource)


def _params(
    cluster: Cluster, start: datetime, end: datetime, until: Mapping[str, datetime]
) -> dict[str, Any]:
    return {
        "cluster": cluster.pk,
        "start": start,
        "end": end,
        "states": list(HOLDING_STATES),
        **{f"until_{kind}": at for kind, at in until.items()},
    }


def _reserved(
    cluster: Cluster, start: datetime, end: datetime, until: Mapping[str, datetime]
) -> Iterator[Spell]:
    params = _params(cluster, start, end, until)
    with connection.cursor() as cursor:
        cursor.execute(_RESOURCES, params)
        devices = [name for (name,) in cursor.fetchall() if is_held(name)]
        cursor.execute(_RESERVED, params | {"resources": devices})
        for (
            uid,
            kind,
            namespace,
            queue_name,
            queue,
            flavor,
            resource,
            quantity,
            low,
            high,
            since,
            priority,
        ) in cursor:
            place = Place(cluster.pk, kind, namespace, queue_name, queue)
            yield Spell(Basis.RESERVED, uid, place, flavor, resource, quantity, low, high, since, priority)


def _bound(
    cluster: Cluster, start: datetime, end: datetime, until: Mapping[str, datetime]
) -> Iterator[Spell]:
    with connection.cursor() as cursor:
        cursor.execute(_BOUND, _params(cluster, start, end, until))
        for uid, namespace, queue_name, grouped, queue, node, resource, quantity, low, high, since in cursor:
            if is_held(resource):
                kind = "PodGroup" if grouped else "Workload"
                place = Place(cluster.pk, kind, namespace, queue_name, queue_name if grouped else queue)
                yield Spell(Basis.POD, uid, place, node, resource, quantity, low, high, since)


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
