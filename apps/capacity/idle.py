"""Cards that are held and do nothing. Input: device samples of the last half hour, aggregated by the database per
device; output: `Quiet` per device, and evidence where it is enough.

Invariants: silence is unknown, never idle: without enough samples there is no evidence; noise is not work: a card is
idle up to `NOISE`, not only at zero; only what was held through the whole time is judged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import connection

from apps.capacity.carding import Holder
from apps.core.working_memory import sorted_in_memory
from apps.fleet.models import Cluster
from apps.observations.selectors import sample_window

WINDOW = timedelta(minutes=30)
NOISE = Decimal("0.01")
"""Utilisation that an exporter reports of a card that does nothing."""
ENOUGH = Decimal("0.8")
"""Part of the expected samples that has to be there."""
FEWEST = 5
"""Samples below which nothing is said, however rarely a cluster is read."""
MEMORY_HELD = Decimal("0.05")
"""Part of a card's memory above which it counts as taken."""
DeviceKey = tuple[int, str, str, str]
"""Cluster id, node, device, instance ("" for a whole card)."""

# Of each device asked for its own rows, by the index that makes samples unique: LATERAL, as the planner would rather
# read everybody's.
_QUIET = """
SELECT asked.cluster_id, asked.node_name, asked.device, asked.instance, found.*
FROM unnest(%(clusters)s::bigint[], %(nodes)s::text[], %(devices)s::text[], %(instances)s::text[])
  AS asked (cluster_id, node_name, device, instance)
CROSS JOIN LATERAL (
  SELECT max(utilisation_ratio), count(utilisation_ratio), min(sampled_at),
    round(min(memory_used_bytes::numeric / nullif(memory_total_bytes, 0)), 6),
    array_agg(DISTINCT namespace || '/' || pod) FILTER (WHERE pod <> '')
  FROM observations_devicesample s
  WHERE s.cluster_id = asked.cluster_id AND s.device = asked.device AND s.instance = asked.instance
    AND s.node_name = asked.node_name AND sampled_at > %(since)s AND sampled_at <= %(now)s
  HAVING max(utilisation_ratio) <= %(noise)s AND count(utilisation_ratio) >= %(enough)s) found
"""
# Nodes with a device that its fresh samples do not show at work, where a pod may hold it: one is named on it, or
# fewer devices name a pod than it holds units. Only a device that names one pod all the time counts as naming it.
_PLACES = """
WITH device AS MATERIALIZED (
  SELECT cluster_id, node_name, (max(utilisation_ratio) > %(noise)s) IS NOT TRUE AS quiet,
    max(pod) <> '' OR bool_or(shares <> '[]') AS named,
    min(namespace) AS namespace, max(namespace) AS last_namespace, min(pod) AS name, max(pod) AS last_name
  FROM observations_devicesample
  WHERE cluster_id = ANY(%(clusters)s) AND sampled_at > %(since)s AND sampled_at <= %(now)s
  GROUP BY cluster_id, node_name, device, instance),
node AS (SELECT cluster_id, node_name, bool_or(named) AS named FROM device WHERE quiet GROUP BY 1, 2),
named AS (
  SELECT cluster_id, node_name, namespace, name, count(*) AS devices FROM device
  WHERE name <> '' AND name = last_name AND namespace = last_namespace GROUP BY 1, 2, 3, 4)
SELECT cluster_id, node_name FROM node WHERE EXISTS (
  SELECT FROM observations_pod p LEFT JOIN named USING (cluster_id, node_name, namespace, name)
  WHERE p.cluster_id = node.cluster_id AND p.node_name = node.node_name AND p.gone_at IS NULL
    AND p.phase NOT IN ('Succeeded', 'Failed') AND (p.devices > 0 OR p.claims <> '[]')
    AND (node.named OR p.claims <> '[]' OR p.devices > coalesce(named.devices, 0)))
"""


@dataclass(frozen=True, slots=True)
class Quiet:
    """A device or instance that was at noise level through the window. `samples` of `expected`; `memory_ratio`: the
    least part of its memory that was used, None where that was not said; `pods`: those that the exporter named."""

    highest_ratio: Decimal
    samples: int
    expected: int
    since: datetime
    memory_ratio: Decimal | None
    pods: frozenset[str]


@dataclass(frozen=True, slots=True)
class Idle:
    """Evidence that a held card does nothing: the highest utilisation, `samples` of `expected` since `since`, and
    the part of its memory that was taken all the time."""

    highest_ratio: Decimal
    samples: int
    expected: int
    since: datetime
    memory_ratio: Decimal | None

    @property
    def memory_held(self) -> bool:
        """Memory without compute: something is loaded, nothing runs."""
        return self.memory_ratio is not None and self.memory_ratio > MEMORY_HELD


def expected_samples() -> int:
    """Samples that a device has in a window: one per pull, at most one per minute."""
    return int(WINDOW.total_seconds() // max(60, settings.COLLECT_INTERVAL_SECONDS))


def quiet_devices(*, now: datetime, among: Collection[DeviceKey]) -> dict[DeviceKey, Quiet]:
    """Those of these devices that were at noise level, by what was read of them on their nodes."""
    expected = expected_samples()
    if not among:
        return {}
    columns = zip(
        ("clusters", "nodes", "devices", "instances"), map(list, zip(*among, strict=True)), strict=True
    )
    values: dict[str, Any] = {
        **dict(columns),
        "since": now - WINDOW,
        "now": now,
        "noise": NOISE,
        "enough": max(ENOUGH * expected, Decimal(FEWEST)),
    }
    with connection.cursor() as cursor:
        cursor.execute(_QUIET, values)
        return {
            (cluster_id, node, device, instance): Quiet(
                highest, count, expected, first, memory, frozenset(pods or ())
            )
            for cluster_id, node, device, instance, highest, count, first, memory, pods in cursor.fetchall()
        }


def quiet_places(*, now: datetime, clusters: Iterable[Cluster]) -> set[tuple[int, str]]:
    """(cluster id, node) where something that is held may be at noise level: no evidence is anywhere else, as a card
    without fresh samples has none."""
    with sorted_in_memory(), connection.cursor() as cursor:
        cursor.execute(_PLACES, {**sample_window(now=now, clusters=clusters), "noise": NOISE})
        return set(cursor.fetchall())


def evidence(found: Iterable[Quiet | None], holders: Collection[Holder], *, now: datetime) -> Idle | None:
    """Of one card, or of its held instances together: None unless all were quiet and every holder was there
    through the whole window. A card that the exporter gave to another pod meanwhile was not held by these."""
    quiet = list(found)
    parts = [one for one in quiet if one is not None]
    if not parts or len(parts) < len(quiet) or not holders:
        return None
    here = {f"{holder.namespace}/{holder.pod}" for holder in holders}
    began = now - WINDOW
    stayed = all(holder.since is not None and holder.since <= began for holder in holders)
    if not stayed or any(one.pods - here for one in parts):
        return None
    memory = [one.memory_ratio for one in parts]
    return Idle(
        highest_ratio=max(one.highest_ratio for one in parts),
        samples=min(one.samples for one in parts),
        expected=max(one.expected for one in parts),
        since=max(one.since for one in parts),
        memory_ratio=None if None in memory else max(ratio for ratio in memory if ratio is not None),
    )
