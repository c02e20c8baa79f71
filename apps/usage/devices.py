"""How busy teams are now. Input: device samples and live pods; output: one ratio per team.

Utilisation is efficiency, never money and never capacity. Invariants: a device counts with its newest sample and
only while that is fresh; what an exporter does not say is None, never 0; a MIG instance is a device of its own;
a pod is the team's whose queue or namespace it came from, as everywhere else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime
from decimal import Decimal

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
_BUSY = f"""{NEWEST_SAMPLES} SELECT {_OWNED}, sum(s.utilisation_ratio), count(*) {_WITH_PODS}
WHERE s.pod <> '' AND s.utilisation_ratio IS NOT NULL GROUP BY 1, 2, 3, 4, 5"""


def _team(
    index: BindingIndex, cluster_id: int, namespace: str, queue_name: str, volcano: bool, cluster_queue: str
) -> int | None:
    queue = queue_name if volcano else cluster_queue
    return index.team_id_for(
        cluster_id, namespace=namespace, queue_name=queue_name, queue=queue, volcano=volcano
    )


def team_utilisation(
    *, now: datetime, clusters: Iterable[Cluster], team_ids: Collection[int] | None
) -> dict[int, Decimal]:
    """The mean utilisation of the devices that each team's pods are on; a team without such a sample is left out."""
    window = sample_window(now=now, clusters=clusters)
    with connection.cursor() as cursor:
        cursor.execute(_BUSY, window)
        found = cursor.fetchall()
    index = BindingIndex.load(now, clusters=window["clusters"])
    sums: defaultdict[int, list[Decimal]] = defaultdict(lambda: [Decimal(0), Decimal(0)])
    for *owned, ratios, count in found:
        team = _team(index, *owned)
        if team is not None and (team_ids is None or team in team_ids):
            sums[team][0] += ratios
            sums[team][1] += count
    return {team: ratios / count for team, (ratios, count) in sums.items()}
