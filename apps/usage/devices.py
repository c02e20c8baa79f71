"""How busy devices are now. Input: device samples and live pods; output: rows per device, and one ratio per team.

Utilisation is efficiency, never money and never capacity. Invariants: a device counts with its newest sample and
only while that is fresh; what an exporter does not say is None, never 0; a MIG instance is a device of its own;
a pod is the team's whose queue or namespace it came from, as everywhere else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import connection

from apps.fleet.models import Cluster
from apps.fleet.selectors import BindingIndex
from apps.observations.selectors import NEWEST_SAMPLES, sample_window

# The newest samples with the live pod that each names and where that pod's LocalQueue leads …
_WITH_PODS = """
FROM newest s
LEFT JOIN observations_pod p ON p.cluster_id = s.cluster_id AND p.namespace = s.namespace AND p.name = s.pod
  AND p.gone_at IS NULL AND s.pod <> ''
LEFT JOIN observations_clusterobject q ON q.cluster_id = s.cluster_id AND q.kind = 'LocalQueue'
  AND q.namespace = p.namespace AND q.name = p.queue_name AND q.gone_at IS NULL
"""
# … and what tells whose it is: arguments of `_team`.
_OWNED = """s.cluster_id, s.namespace, coalesce(p.queue_name, ''), coalesce(p.pod_group, '') <> '',
  coalesce(q.spec->>'cluster_queue', '')"""
_DEVICES = f"""{NEWEST_SAMPLES} SELECT s.cluster_id, s.device, s.instance, s.node_name, s.model, s.namespace,
  s.pod, s.utilisation_ratio, s.utilisation_source, s.memory_used_bytes, s.memory_total_bytes, s.power_watts, s.xid,
  s.sampled_at, {_OWNED} {_WITH_PODS} ORDER BY s.cluster_id, s.node_name, s.device, s.instance"""
_BUSY = f"""{NEWEST_SAMPLES} SELECT {_OWNED}, sum(s.utilisation_ratio), count(*) {_WITH_PODS}
WHERE s.pod <> '' AND s.utilisation_ratio IS NOT NULL GROUP BY 1, 2, 3, 4, 5"""
_OWNED_COLUMNS = 5


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One device (or MIG instance) at its newest sample. `utilisation_ratio` 0…1 as `utilisation_source` measures
    it; `power_watts` is the board's and stands on one row of a card; `team_id` None: no pod, or no team's."""

    cluster_id: int
    device: str
    instance: str
    node_name: str
    model: str
    namespace: str
    pod: str
    utilisation_ratio: Decimal | None
    utilisation_source: str
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    power_watts: Decimal | None
    xid: int | None
    sampled_at: datetime
    team_id: int | None


def device_rows(*, now: datetime, clusters: Iterable[Cluster], node_name: str = "") -> list[DeviceRow]:
    """The devices with a fresh sample, of one node or of all, in the order of nodes. Fresh: younger than twice the
    age at which a source is stale."""
    index, found = _read(_DEVICES, now=now, clusters=clusters, node_name=node_name)
    rows = []
    for columns in found:
        sampled, owned = columns[:-_OWNED_COLUMNS], columns[-_OWNED_COLUMNS:]
        team = _team(index, *owned) if sampled[6] else None
        rows.append(DeviceRow(*(*sampled, team)))
    return rows


def _read(
    query: str, *, now: datetime, clusters: Iterable[Cluster], node_name: str = ""
) -> tuple[BindingIndex, list[tuple[Any, ...]]]:
    window = sample_window(now=now, clusters=clusters, nodes=[node_name] if node_name else None)
    with connection.cursor() as cursor:
        cursor.execute(query, window)
        found: list[tuple[Any, ...]] = cursor.fetchall()
    return BindingIndex.load(now, clusters=window["clusters"]), found


def _team(
    index: BindingIndex, cluster_id: int, namespace: str, queue_name: str, volcano: bool, cluster_queue: str
) -> int | None:
    queue = queue_name if volcano else cluster_queue
    return index.team_id_for(
        cluster_id, namespace=namespace, queue_name=queue_name, queue=queue, volcano=volcano
    )


def without_others(rows: Iterable[DeviceRow], team_ids: Collection[int] | None) -> list[DeviceRow]:
    """The same devices for a reader of `team_ids`: whose pod is on them is left out where it is another team's."""
    return [
        row
        if team_ids is None or row.team_id in team_ids or not row.pod
        else replace(row, namespace="", pod="", team_id=None)
        for row in rows
    ]


def team_utilisation(
    *, now: datetime, clusters: Iterable[Cluster], team_ids: Collection[int] | None
) -> dict[int, Decimal]:
    """The mean utilisation of the devices that each team's pods are on; a team without such a sample is left out."""
    index, found = _read(_BUSY, now=now, clusters=clusters)
    sums: defaultdict[int, list[Decimal]] = defaultdict(lambda: [Decimal(0), Decimal(0)])
    for *owned, ratios, count in found:
        team = _team(index, *owned)
        if team is not None and (team_ids is None or team in team_ids):
            sums[team][0] += ratios
            sums[team][1] += count
    return {team: ratios / count for team, (ratios, count) in sums.items()}
