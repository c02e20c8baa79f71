"""What of a cluster plays a part in admission and is not modelled, as far as it stands beside queues and work.

Input: a cluster; output: its admission checks that hand work to other clusters, and the resources of divided devices.
A query each. Invariant: what was not read is not claimed.
"""

from __future__ import annotations

from django.db import connection

from apps.fleet.models import Cluster
from apps.observations.selectors import live_objects

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
BY_PAST_USE = "UsageBasedAdmissionFairSharing"
_OF_CLASS = "deviceclass.resource.kubernetes.io/"
"""Kubernetes' own name of a class as an extended resource."""

# Of which drivers devices draw on shared counters or can be allocated several times; and the classes that may mean one
# of these drivers (those whose expressions name no driver may mean any).
_DIVIDED = """
WITH drivers AS MATERIALIZED (
  SELECT DISTINCT spec->>'driver' AS driver FROM observations_clusterobject
  WHERE cluster_id = %(cluster)s AND kind = 'ResourceSlice' AND gone_at IS NULL
  AND (coalesce(spec->'counters', '{}') <> '{}'
    OR jsonb_path_exists(spec, '$.devices[*] ? (@.multiple == true || exists(@.consumes[*]))'))
)
SELECT c.name, coalesce(c.spec->>'extended_resource', '') FROM observations_clusterobject c
WHERE c.cluster_id = %(cluster)s AND c.kind = 'DeviceClass' AND c.gone_at IS NULL AND EXISTS (
  SELECT 1 FROM drivers d WHERE c.spec->'drivers' ? d.driver OR coalesce(c.spec->'drivers', '[]') = '[]')
"""


def remote_checks(cluster: Cluster) -> frozenset[str]:
    """Names of the AdmissionChecks by which MultiKueue hands work to another cluster."""
    found = live_objects(kind="AdmissionCheck", clusters=[cluster]).filter(spec__controller=MULTIKUEUE)
    return frozenset(found.values_list("name", flat=True))


def divided_resources(cluster: Cluster) -> frozenset[str]:
    """Resources that stand for devices of DRA which share counters or capacity: both names of each class."""
    with connection.cursor() as cursor:
        cursor.execute(_DIVIDED, {"cluster": cluster.pk})
        rows = cursor.fetchall()
    return frozenset(name for own, extended in rows for name in (_OF_CLASS + own, extended) if name)
