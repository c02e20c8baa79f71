"""How busy teams are now. Input: device samples and live pods; output: one ratio per team.

Utilisation is efficiency, never money and never capacity. Invariants: a device counts with its newest sample and
only while that is fresh; what an exporter does not say is None, never 0; a MIG instance is a device of its own;
of a device that several pods share each pod counts with its own part of the device's time where that was measured,
else the device is left out and counted; a pod is the team's whose queue or namespace it came from, as everywhere else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from django.db import connection

from apps.fleet.models import Cluster
from apps.fleet.selectors import BindingIndex
from apps.observations.selectors import NEWEST_SAMPLES, sample_window

# Who uses the devices that say how busy they are: the one pod, or each of several with what was measured of it …
_USERS = """
, used AS (
  SELECT cluster_id, device, instance, namespace, pod, utilisation_ratio AS ratio
  FROM newest WHERE pod <> '' AND utilisation_ratio IS NOT NULL
  UNION ALL
  SELECT n.cluster_id, n.device, n.instance, share ->> 'namespace', share ->> 'pod',
    CASE WHEN n.attribution = 'per_process' THEN (share ->> 'ratio')::numeric END
  FROM newest n CROSS JOIN LATERAL jsonb_array_elements(n.shares) share
  WHERE n.pod = '' AND n.utilisation_ratio IS NOT NULL)
"""
# … with the live pod that each names and where that pod's LocalQueue leads: arguments of `_team`.
_OWNED = """s.cluster_id, s.namespace, coalesce(p.queue_name, ''), coalesce(p.pod_group, '') <> '',
  coalesce(q.spec->>'cluster_queue', '')"""
_BUSY = f"""{NEWEST_SAMPLES} {_USERS}
SELECT {_OWNED}, sum(s.ratio), count(s.ratio),
  coalesce(array_agg(DISTINCT ARRAY[s.device, s.instance]) FILTER (WHERE s.ratio IS NULL), '{{}}')
FROM used s
LEFT JOIN observations_pod p ON p.cluster_id = s.cluster_id AND p.namespace = s.namespace AND p.name = s.pod
  AND p.gone_at IS NULL
LEFT JOIN observations_clusterobject q ON q.cluster_id = s.cluster_id AND q.kind = 'LocalQueue'
  AND q.namespace = p.namespace AND q.name = p.queue_name AND q.gone_at IS NULL
GROUP BY 1, 2, 3, 4, 5"""  # noqa: S608  constants


@dataclass(frozen=True, slots=True)
class TeamBusy:
    """`ratio`: mean over the devices that the team's pods are on, 0…1, None when all are left out; `left_out`: devices
    that they share with other pods and of which nobody says whose part is which."""

    ratio: Decimal | None
    left_out: int


@dataclass(slots=True)
class _Sum:
    ratios: Decimal = Decimal(0)
    count: int = 0
    left_out: set[tuple[int, str, str]] = field(default_factory=set)


def _team(
    index: BindingIndex, cluster_id: int, namespace: str, queue_name: str, volcano: bool, cluster_queue: str
) -> int | None:
    queue = queue_name if volcano else cluster_queue
    return index.team_id_for(
        cluster_id, namespace=namespace, queue_name=queue_name, queue=queue, volcano=volcano
    )


def team_utilisation(
    *, now: datetime, clusters: Iterable[Cluster], team_ids: Collection[int] | None
) -> dict[int, TeamBusy]:
    """How busy the devices are that each team's pods are on; a team on no device that says so is left out."""
    window = sample_window(now=now, clusters=clusters)
    with connection.cursor() as cursor:
        cursor.execute(_BUSY, window)
        found = cursor.fetchall()
    index = BindingIndex.load(now, clusters=window["clusters"])
    sums: dict[int, _Sum] = {}
    for *owned, ratios, count, left_out in found:
        team = _team(index, *owned)
        if team is not None and (team_ids is None or team in team_ids):
            of_team = sums.setdefault(team, _Sum())
            of_team.ratios += ratios or 0
            of_team.count += count
            of_team.left_out.update((owned[0], device, instance) for device, instance in left_out)
    return {
        team: TeamBusy(found.ratios / found.count if found.count else None, len(found.left_out))
        for team, found in sums.items()
    }
