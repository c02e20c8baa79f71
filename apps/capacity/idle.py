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
from apps.fleet.models import Cluster

WINDOW = timedelta(minutes=30)
NOISE = Decimal("0.01")
"""Utilisation that an exporter reports of a card that does nothing."""
ENOUGH = Decimal("0.8")
"""Part of the expected samples that has to be there."""
FEWEST = 5
"""Samples below which nothing is said, however rarely a cluster is read."""
MEMORY_HELD = Decimal("0.05")
"""Part of a card's memory above which it counts as taken."""
DeviceKey = tuple[int, str, str]

# Rows of one time range; the partitions' index on (cluster, time) bounds it.
_QUIET = """
SELECT cluster_id, device, instance, max(utilisation_ratio), count(utilisation_ratio), min(sampled_at),
  round(min(memory_used_bytes::numeric / nullif(memory_total_bytes, 0)), 6),
  array_agg(DISTINCT namespace || '/' || pod) FILTER (WHERE pod <> '')
FROM observations_devicesample
WHERE cluster_id = ANY(%(clusters)s) AND sampled_at > %(since)s AND sampled_at <= %(now)s
  AND (%(nodes)s::text[] IS NULL OR node_name = ANY(%(nodes)s))
GROUP BY cluster_id, device, instance
HAVING max(utilisation_ratio) <= %(noise)s AND count(utilisation_ratio) >= %(enough)s
"""
# Nodes where a quiet device is named to a pod, or where pods hold more than the busy devices.
_PLACES = """
WITH device AS (
  SELECT cluster_id, node_name, max(utilisation_ratio) <= %(noise)s AS quiet, bool_or(pod <> '') AS named
  FROM observations_devicesample
  WHERE cluster_id = ANY(%(clusters)s) AND sampled_at > %(since)s AND sampled_at <= %(now)s
    AND utilisation_ratio IS NOT NULL
  GROUP BY cluster_id, node_name, device, instance),
node AS (
  SELECT cluster_id, node_name, count(*) FILTER (WHERE NOT quiet) AS busy, bool_or(quiet AND named) AS named
  FROM device GROUP BY 1, 2 HAVING bool_or(quiet)),
held AS (
  SELECT cluster_id, node_name, sum(devices) AS units, bool_or(claims <> '[]') AS claims FROM observations_pod
  WHERE cluster_id = ANY(%(clusters)s) AND gone_at IS NULL AND node_name <> ''
    AND phase NOT IN ('Succeeded', 'Failed') AND (devices > 0 OR claims <> '[]')
  GROUP BY 1, 2)
SELECT cluster_id, node_name FROM node JOIN held USING (cluster_id, node_name)
WHERE named OR claims OR units > busy
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


def quiet_devices(
    *, now: datetime, clusters: Iterable[Cluster], nodes: Collection[str] | None = None
) -> dict[DeviceKey, Quiet]:
    """(cluster id, device, instance) → what was at noise level. `nodes`: only on these."""
    expected = expected_samples()
    values: dict[str, Any] = {
        "clusters": [cluster.pk for cluster in clusters],
        "since": now - WINDOW,
        "now": now,
        "nodes": None if nodes is None else list(nodes),
        "noise": NOISE,
        "enough": max(ENOUGH * expected, Decimal(FEWEST)),
    }
    with connection.cursor() as cursor:
        cursor.execute(_QUIET, values)
        return {
            (cluster_id, device, instance): Quiet(
                highest, count, expected, first, memory, frozenset(pods or ())
            )
            for cluster_id, device, instance, highest, count, first, memory, pods in cursor.fetchall()
        }


def quiet_places(*, now: datetime, clusters: Iterable[Cluster]) -> set[tuple[int, str]]:
    """(cluster id, node) where something that is held may be at noise level. Evidence needs that, since no more samples
    may be missing than this looks back, and it is cheap to ask."""
    missing = WINDOW * float(1 - ENOUGH) + timedelta(seconds=settings.COLLECT_INTERVAL_SECONDS)
    values: dict[str, Any] = {
        "clusters": [cluster.pk for cluster in clusters],
        "since": now - missing,
        "now": now,
        "noise": NOISE,
    }
    with connection.cursor() as cursor:
        cursor.execute(_PLACES, values)
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
