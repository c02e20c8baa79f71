"""What Volcano's plugins compute from besides queues: what the nodes can give, what each queue's pods ask for, and the
devices that claims hold. Input: clusters; output: amounts by resource. Read only where a cluster has Volcano queues.

Invariants: nodes out of use count, as Volcano counts them; living pods count with what they ask for, bound or not; a
claim counts once per queue, however many pods share it, with admin access never.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from django.db import connection

ZERO = Decimal(0)
DEVICE_CLASS = "deviceclass/"
_ALLOCATABLE = """
SELECT n.cluster_id, a.key, sum(a.value::numeric)
FROM observations_node n CROSS JOIN LATERAL jsonb_each_text(n.allocatable) a
WHERE n.cluster_id = ANY(%(clusters)s) AND n.gone_at IS NULL
GROUP BY 1, 2
"""
_ASKED = """
SELECT p.cluster_id, w.queue_name, r.key, sum(r.value::numeric)
FROM observations_pod p
JOIN observations_workload w ON w.cluster_id = p.cluster_id AND w.namespace = p.namespace
  AND w.name = p.pod_group AND w.kind = 'PodGroup' AND w.gone_at IS NULL
CROSS JOIN LATERAL jsonb_each_text(p.requests) r
WHERE p.cluster_id = ANY(%(clusters)s) AND p.gone_at IS NULL AND p.pod_group <> ''
  AND p.phase NOT IN ('Succeeded', 'Failed')
GROUP BY 1, 2, 3
"""
_CLAIMED = """
WITH claims AS (
  SELECT DISTINCT c.cluster_id, c.uid, w.queue_name, c.spec
  FROM observations_clusterobject c
  CROSS JOIN LATERAL jsonb_to_recordset(c.status -> 'reserved_for') AS used(kind text, uid text)
  JOIN observations_pod p ON p.cluster_id = c.cluster_id AND p.uid = used.uid AND p.gone_at IS NULL
  JOIN observations_workload w ON w.cluster_id = p.cluster_id AND w.namespace = p.namespace
    AND w.name = p.pod_group AND w.kind = 'PodGroup' AND w.gone_at IS NULL
  WHERE c.cluster_id = ANY(%(clusters)s) AND c.kind = 'ResourceClaim' AND c.gone_at IS NULL
    AND (c.status ->> 'allocated')::boolean)
SELECT claims.cluster_id, claims.queue_name, r.device_class, sum(coalesce(r.count, 1))
FROM claims CROSS JOIN LATERAL jsonb_to_recordset(claims.spec -> 'requests')
  AS r(device_class text, count numeric, admin boolean)
WHERE NOT coalesce(r.admin, false) AND r.device_class <> ''
GROUP BY 1, 2, 3
"""

Amounts = dict[str, Decimal]


@dataclass(slots=True)
class VolcanoSupply:
    """One cluster's. `asked` and `claimed` by queue; claimed devices under the quota's key, "deviceclass/<name>"."""

    allocatable: Amounts = field(default_factory=dict)
    asked: dict[str, Amounts] = field(default_factory=lambda: defaultdict(dict))
    claimed: dict[str, Amounts] = field(default_factory=lambda: defaultdict(dict))


def volcano_supply(*, cluster_ids: Sequence[int]) -> dict[int, VolcanoSupply]:
    """Three statements."""
    found: dict[int, VolcanoSupply] = {cluster_id: VolcanoSupply() for cluster_id in cluster_ids}
    if not found:
        return found
    with connection.cursor() as cursor:
        parameters = {"clusters": list(cluster_ids)}
        cursor.execute(_ALLOCATABLE, parameters)
        for cluster_id, resource, amount in cursor.fetchall():
            found[cluster_id].allocatable[resource] = amount
        cursor.execute(_ASKED, parameters)
        for cluster_id, queue, resource, amount in cursor.fetchall():
            found[cluster_id].asked[queue][resource] = amount
        cursor.execute(_CLAIMED, parameters)
        for cluster_id, queue, device_class, amount in cursor.fetchall():
            found[cluster_id].claimed[queue][DEVICE_CLASS + device_class] = amount
    return found
