"""Which cards telemetry saw last on each node, kept so that silence takes none away.

Input: staged device samples, or a pull that brought none; output: rows of NodeCards, and `SeenCards`. Invariants
- A node's newest instant counts: cards that its exporter no longer lists are gone, except that a gap shorter than
  the age of a fresh sample takes nothing away.
- A node that a pull does not mention keeps its row, marked silent, with the instant up to which it was seen.
- Rows that say the same are rewritten once an hour: a pull that brings the same cards mostly writes nothing.
- Whoever writes here moves the `last_run_at` of the source of samples in the same transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from psycopg import sql

from apps.fleet.models import Cluster

from .models import NodeCards
from .selectors import stale_after
from .staging import Staging, run

REWRITE = timedelta(hours=1)

# Of `c`. A row that is not silent was in the last good pull, whenever it was written; the bound is for samples that
# came otherwise.
_SEEN_AT = """CASE WHEN c.silent THEN c.seen_at ELSE greatest(c.seen_at, least(c.seen_at + interval '2 hours',
  coalesce((SELECT s.last_ok_at FROM observations_sourcestate s
    WHERE s.cluster_id = c.cluster_id AND s.source = 'dcgm'), c.seen_at))) END"""
_SAID = """
WITH newest AS (SELECT node_name, max(sampled_at) AS at FROM {stage} WHERE node_name <> '' GROUP BY 1),
seen AS (
  SELECT DISTINCT s.node_name, n.at, s.device, s.model FROM {stage} s JOIN newest n USING (node_name)
  WHERE s.sampled_at > n.at - %(gap)s),
said AS (
  SELECT node_name, at, count(DISTINCT device)::int AS cards,
    coalesce(jsonb_agg(DISTINCT model::text) FILTER (WHERE model <> ''), '[]') AS models
  FROM seen GROUP BY 1, 2)
SELECT said.node_name, said.at, said.cards, said.models::text, c.cards, c.model_names::text,
  coalesce(c.silent OR c.seen_at < said.at - %(rewrite)s, true)
FROM said LEFT JOIN observations_nodecards c ON c.cluster_id = %(cluster)s AND c.node_name = said.node_name
WHERE c.id IS NULL OR (c.seen_at <= said.at AND (c.silent OR c.seen_at < said.at - %(rewrite)s
  OR c.cards <> said.cards OR c.model_names <> said.models))
ORDER BY said.node_name
"""
_LATELY = """
SELECT d.node_name, count(DISTINCT d.device)::int,
  coalesce(jsonb_agg(DISTINCT d.model::text) FILTER (WHERE d.model <> ''), '[]')::text
FROM observations_devicesample d JOIN unnest(%(names)s::text[], %(ats)s::timestamptz[]) n (name, at)
  ON d.node_name = n.name AND d.sampled_at > n.at - %(gap)s AND d.sampled_at <= n.at
WHERE d.cluster_id = %(cluster)s AND d.sampled_at > %(since)s AND d.sampled_at <= %(until)s GROUP BY 1
"""
_KEEP = """
INSERT INTO observations_nodecards AS t (cluster_id, node_name, cards, model_names, seen_at, silent)
SELECT %(cluster)s, name, cards, models::jsonb, at, false
FROM unnest(%(names)s::text[], %(cards)s::int[], %(models)s::text[], %(ats)s::timestamptz[]) n (name, cards, models, at)
ON CONFLICT (cluster_id, node_name) DO UPDATE
SET cards = EXCLUDED.cards, model_names = EXCLUDED.model_names, seen_at = EXCLUDED.seen_at, silent = false
WHERE t.seen_at <= EXCLUDED.seen_at
"""
_SILENCE = """
UPDATE observations_nodecards c SET silent = true, seen_at = {seen_at}
WHERE c.cluster_id = {cluster} AND NOT c.silent AND c.seen_at < {at}
"""
_UNSAID = " AND NOT EXISTS (SELECT 1 FROM {stage} s WHERE s.node_name = c.node_name)"
_SEEN = f"""
SELECT cluster_id, node_name, cards, model_names, at FROM (
  SELECT c.*, {_SEEN_AT} AS at FROM observations_nodecards c
  WHERE c.cluster_id = ANY(%(clusters)s) AND (%(nodes)s::text[] IS NULL OR c.node_name = ANY(%(nodes)s))
) c WHERE at > %(since)s
"""  # noqa: S608  constants of this module


# ---- writing --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Said:
    """What samples say of one node, at its newest instant, and what is kept of it. Models as JSON; `due`: the row is to
    be written even if it says the same."""

    node: str
    at: datetime
    cards: int
    models: str
    cards_before: int | None
    models_before: str | None
    due: bool

    @property
    def differs(self) -> bool:
        return (self.cards, self.models) != (self.cards_before, self.models_before)

    @property
    def fewer(self) -> bool:
        """Whether a card or a model that is kept was not named this time."""
        if self.cards_before is None or self.models_before is None:
            return False
        missing = not set(json.loads(self.models_before)) <= set(json.loads(self.models))
        return self.cards < self.cards_before or missing


def keep_cards(*, cluster_id: int, staging: Staging) -> int:
    """Keep what the staged and stored samples say of their nodes, and mark the other nodes silent. Returns the rows
    written."""
    values: dict[str, Any] = {"cluster": cluster_id, "gap": _gap(), "rewrite": REWRITE}
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL(_SAID).format(stage=staging.table), values)
        found = [_Said(*row) for row in cursor.fetchall()]
    said = [one for one in _with_short_gaps(cluster_id, found) if one.due or one.differs]
    written = _kept(cluster_id, said) if said else 0
    newest = sql.SQL("(SELECT max(sampled_at) FROM {stage})").format(stage=staging.table)
    unsaid = sql.SQL(_UNSAID).format(stage=staging.table)
    return written + _silence(cluster_id, newest, unsaid)


def all_silent(*, cluster_id: int, at: datetime) -> int:
    """A pull that brought no sample: nothing is seen any more, what was seen stays. Returns the rows written."""
    return _silence(cluster_id, sql.Literal(at), sql.SQL(""))


def _gap() -> timedelta:
    """Samples younger than this are fresh."""
    return 2 * stale_after()


def _with_short_gaps(cluster_id: int, said: Sequence[_Said]) -> list[_Said]:
    """What was not named this time but a moment ago is still there; no more than was."""
    fewer = [one for one in said if one.fewer]
    if not fewer:
        return list(said)
    values: dict[str, Any] = {
        "cluster": cluster_id,
        "names": [one.node for one in fewer],
        "ats": [one.at for one in fewer],
        "gap": _gap(),
        "since": min(one.at for one in fewer) - _gap(),
        "until": max(one.at for one in fewer),
    }
    with connection.cursor() as cursor:
        cursor.execute(_LATELY, values)
        lately = {name: (cards, models) for name, cards, models in cursor.fetchall()}
    found = []
    for one in said:
        if one.fewer and one.node in lately:
            cards, models = lately[one.node]
            most = max(one.cards, one.cards_before or 0)
            found.append(replace(one, cards=min(cards, most), models=models))
        else:
            found.append(one)
    return found


def _kept(cluster_id: int, said: Sequence[_Said]) -> int:
    values: dict[str, Any] = {
        "cluster": cluster_id,
        "names": [one.node for one in said],
        "cards": [one.cards for one in said],
        "models": [one.models for one in said],
        "ats": [one.at for one in said],
    }
    with connection.cursor() as cursor:
        cursor.execute(_KEEP, values)
        return int(cursor.rowcount)


def _silence(cluster_id: int, at: sql.Composable, unsaid: sql.Composable) -> int:
    statement = sql.SQL(_SILENCE).format(seen_at=sql.SQL(_SEEN_AT), cluster=sql.Literal(cluster_id), at=at)
    return run(statement + unsaid)


def drop_forgotten(*, horizon: datetime) -> int:
    """Remove what was seen last before the horizon."""
    return NodeCards.objects.filter(seen_at__lt=horizon)._raw_delete("default")


# ---- reading --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SeenCards:
    """What telemetry saw last on a node: distinct cards, an instance of a card being no second one, and their models.
    `last_at`: None while it sees them, else when it did last; `until`: when that changes by the clock alone."""

    cards: int
    models: frozenset[str]
    last_at: datetime | None = None
    until: datetime | None = field(default=None, compare=False)


def seen_cards(
    *, now: datetime, clusters: Iterable[Cluster], nodes: Iterable[str] | None = None, remember: timedelta
) -> dict[tuple[int, str], SeenCards]:
    """(cluster id, node) → the cards seen within `remember`; nodes without any are left out. Of a past `now`, too,
    what is known today is given."""
    values: dict[str, Any] = {
        "clusters": [cluster.pk for cluster in clusters],
        "nodes": None if nodes is None else list(nodes),
        "since": now - remember,
    }
    with connection.cursor() as cursor:
        cursor.execute(_SEEN, values)
        rows = cursor.fetchall()
    found = {}
    for cluster_id, name, cards, models, at in rows:
        stale = now - at > stale_after()
        until = at + (remember if stale else stale_after())
        found[cluster_id, name] = SeenCards(
            cards, frozenset(json.loads(models)), at if stale else None, until
        )
    return found
