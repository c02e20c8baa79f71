"""How busy a node's devices were, hour by hour. Input: a node and a window; output: `DeviceHours`.

Invariants: an hour's value is the mean of the samples that name a utilisation; an hour without any is None, never
0; the devices are those whose samples are on the node at the window's end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db import connection

from apps.core.windows import Bucket, Window
from apps.fleet.models import Cluster
from apps.observations.selectors import stale_after

# The devices first, from the newest minutes; then their hours by the index that begins with a device.
_HOURS = """
WITH known AS (
  SELECT DISTINCT device, instance FROM observations_devicesample
  WHERE cluster_id = %(cluster)s AND sampled_at > %(fresh)s AND sampled_at <= %(end)s AND node_name = %(node)s)
SELECT k.device, k.instance, date_trunc('hour', s.sampled_at, 'UTC'), avg(s.utilisation_ratio)
FROM known k JOIN observations_devicesample s ON s.cluster_id = %(cluster)s AND s.device = k.device
  AND s.instance = k.instance AND s.sampled_at >= %(start)s AND s.sampled_at <= %(end)s
WHERE s.node_name = %(node)s GROUP BY 1, 2, 3
"""


@dataclass(frozen=True, slots=True)
class DeviceHours:
    """`ratios`: per device ("uuid", or "uuid / instance") its mean utilisation 0…1 in each of `hours`."""

    hours: Sequence[datetime]
    ratios: Mapping[str, Sequence[Decimal | None]]


def device_hours(*, cluster: Cluster, node: str, window: Window) -> DeviceHours:
    """The hours that cover the window, oldest first."""
    hours = [piece.start for piece in window.buckets(Bucket.HOUR)]
    params: dict[str, Any] = {
        "cluster": cluster.pk,
        "node": node,
        "start": hours[0],
        "end": window.end,
        "fresh": window.end - 2 * stale_after(),
    }
    with connection.cursor() as cursor:
        cursor.execute(_HOURS, params)
        found = cursor.fetchall()
    means: dict[str, dict[datetime, Decimal | None]] = {}
    for device, instance, hour, mean in sorted(found, key=lambda row: (row[0], row[1])):
        name = f"{device} / {instance}" if instance else device
        means.setdefault(name, {})[hour.astimezone(UTC)] = mean
    return DeviceHours(hours, {name: [own.get(hour) for hour in hours] for name, own in means.items()})
