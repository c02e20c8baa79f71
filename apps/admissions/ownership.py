"""Who owned which work when. Input: state spans of a stretch of time; output: `OWNERS`, a relation for SQL joins.

Ownership has one implementation (apps.fleet.selectors.BindingIndex); here it is asked once per distinct
(namespace, queue) that the spans name and per stretch without a change of ownership, and handed to SQL as arrays.

Invariant: for every key the rows are half-open, do not overlap and cover [start, end); work that nobody owns has
team_id NULL.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from apps.fleet.selectors import OwnershipPiece, ownership_pieces

# The relation, and the conditions that join it to what is named `s`: by whose it is, and to spans.
OWNERS = """unnest(%(owner_cluster)s::bigint[], %(owner_kind)s::text[], %(owner_namespace)s::text[],
  %(owner_queue_name)s::text[], %(owner_queue)s::text[], %(owner_team)s::bigint[],
  %(owner_from)s::timestamptz[], %(owner_to)s::timestamptz[])
  AS o(cluster_id, kind, namespace, queue_name, queue, team_id, owned_from, owned_to)"""
OWNERS_KEY = """o.cluster_id = s.cluster_id AND o.kind = s.kind AND o.namespace = s.namespace
  AND o.queue_name = s.queue_name AND o.queue = s.queue"""
OWNERS_ON = f"""{OWNERS_KEY}
  AND o.owned_from < coalesce(s.ended_at, 'infinity') AND o.owned_to > s.started_at"""

_KEYS = """
SELECT DISTINCT cluster_id, kind, namespace, queue_name, queue FROM observations_statespan
WHERE cluster_id = ANY(%s) AND started_at < %s AND coalesce(ended_at, 'infinity') > %s AND state = ANY(%s)
"""

Key = tuple[int, str, str, str, str]


@dataclass(frozen=True, slots=True)
class _Owned:
    key: Key
    team_id: int | None
    start: datetime
    end: datetime


def _stretches(key: Key, pieces: Sequence[OwnershipPiece]) -> list[_Owned]:
    """One row per stretch with the same owner."""
    cluster_id, kind, namespace, queue_name, queue = key
    rows: list[_Owned] = []
    for piece in pieces:
        team_id = piece.index.team_id_for(
            cluster_id,
            namespace=namespace,
            queue_name=queue_name,
            queue=queue,
            volcano=kind == "PodGroup",
        )
        if rows and rows[-1].team_id == team_id:
            rows[-1] = _Owned(key, team_id, rows[-1].start, piece.end)
        else:
            rows.append(_Owned(key, team_id, piece.start, piece.end))
    return rows


def owner_params(
    *,
    cluster_ids: Collection[int],
    start: datetime,
    end: datetime,
    states: Collection[str],
    team_ids: Collection[int] | None = None,
    only_unbound: bool = False,
) -> dict[str, Any]:
    """Parameters of OWNERS for the spans in these states that touch [start, end). With `team_ids` only what these
    teams owned, with `only_unbound` only what nobody owned."""
    ids = list(cluster_ids)
    with connection.cursor() as cursor:
        cursor.execute(_KEYS, [ids, end, start, list(states)])
        keys: list[Key] = cursor.fetchall()
    return owner_params_of(
        keys, cluster_ids=ids, start=start, end=end, team_ids=team_ids, only_unbound=only_unbound
    )


def owner_params_of(
    keys: Collection[Key],
    *,
    cluster_ids: Collection[int],
    start: datetime,
    end: datetime,
    team_ids: Collection[int] | None = None,
    only_unbound: bool = False,
) -> dict[str, Any]:
    """The same for keys that the caller has."""
    ids = list(cluster_ids)
    pieces = ownership_pieces(start=start, end=end, clusters=ids)
    rows = [row for key in keys for row in _stretches(key, pieces)]
    if team_ids is not None:
        wanted = set(team_ids)
        rows = [row for row in rows if row.team_id in wanted]
    if only_unbound:
        rows = [row for row in rows if row.team_id is None]
    return {
        "owner_cluster": [row.key[0] for row in rows],
        "owner_kind": [row.key[1] for row in rows],
        "owner_namespace": [row.key[2] for row in rows],
        "owner_queue_name": [row.key[3] for row in rows],
        "owner_queue": [row.key[4] for row in rows],
        "owner_team": [row.team_id for row in rows],
        "owner_from": [row.start for row in rows],
        "owner_to": [row.end for row in rows],
    }
