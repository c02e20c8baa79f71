"""What autoscalers said of work that no node came for. Input: a cluster, the clock, work with its waiting pods; output:
for each uid the text that says most, "" left out.

In this order: what was said of its pods (no node group helps, a scale-up that failed), of its ProvisioningRequest, and
what was said of the whole cluster's groups and claims within the last hour, which may be for other work: it is taken
only when a scale-up for this work was begun.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from apps.fleet.models import Cluster

OF_PODS = ("NotTriggerScaleUp", "FailedScaleUp", "NoCompatibleInstanceTypes", "FailedScheduling")
OF_GROUPS = (
    "FailedToScaleUpGroup",
    "ScaleUpTimedOut",
    "ScaleUpFailed",
    "InsufficientCapacityError",
    "LaunchFailed",
    "RegistrationFailed",
)
OF_REQUESTS = ("Failed", "FailedToCheckCapacity", "FailedToBookCapacity", "FailedToCreatePods")
BEGUN = ("TriggeredScaleUp", "Nominated")
_POD_DAY = timedelta(hours=24)
_GROUP_HOUR = timedelta(hours=1)

# The scheduler itself says FailedScheduling too; Karpenter does so under its own name.
_PODS = """
SELECT DISTINCT ON (object_uid) object_uid, reason, message FROM observations_event
WHERE cluster_id = %(cluster)s AND object_uid = ANY(%(pods)s) AND created_at > %(since)s
  AND (reason = ANY(%(reasons)s) OR reason = ANY(%(begun)s))
  AND (reason <> 'FailedScheduling' OR component LIKE 'karpenter%%')
ORDER BY object_uid, coalesce(last_at, created_at) DESC, id DESC
"""
_REQUESTS = """
SELECT DISTINCT ON (w.uid) w.uid, e.message
FROM unnest(%(uids)s::text[], %(namespaces)s::text[], %(names)s::text[]) AS w(uid, namespace, name)
JOIN observations_event e ON e.cluster_id = %(cluster)s AND e.reason = ANY(%(reasons)s) AND e.created_at > %(since)s
  AND e.object_kind = 'ProvisioningRequest' AND e.object_namespace = w.namespace
  AND starts_with(e.object_name, w.name || '-')
ORDER BY w.uid, coalesce(e.last_at, e.created_at) DESC, e.id DESC
"""
_GROUPS = """
SELECT message FROM observations_event
WHERE cluster_id = %(cluster)s AND reason = ANY(%(reasons)s) AND created_at > %(since)s
ORDER BY coalesce(last_at, created_at) DESC, id DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Work with a few of its pods that have no node."""

    uid: str
    namespace: str
    name: str
    pod_uids: tuple[str, ...]


def scale_up_texts(cluster: Cluster, work: Sequence[Waiting], *, now: datetime) -> dict[str, str]:
    if not work:
        return {}
    with connection.cursor() as cursor:
        values: dict[str, Any] = {"cluster": cluster.pk, "since": now - _POD_DAY}
        pods = [uid for each in work for uid in each.pod_uids]
        cursor.execute(_PODS, {**values, "pods": pods, "reasons": list(OF_PODS), "begun": list(BEGUN)})
        of_pods: dict[str, tuple[str, str]] = {uid: (reason, text) for uid, reason, text in cursor.fetchall()}
        cursor.execute(
            _REQUESTS,
            {
                **values,
                "uids": [each.uid for each in work],
                "namespaces": [each.namespace for each in work],
                "names": [each.name for each in work],
                "reasons": list(OF_REQUESTS),
            },
        )
        of_requests: dict[str, str] = dict(cursor.fetchall())
        cursor.execute(
            _GROUPS, {"cluster": cluster.pk, "since": now - _GROUP_HOUR, "reasons": list(OF_GROUPS)}
        )
        found = cursor.fetchone()
    of_groups = str(found[0]) if found else ""
    texts = {each.uid: _text(each, of_pods, of_requests, of_groups) for each in work}
    return {uid: text for uid, text in texts.items() if text}


def _text(
    work: Waiting, of_pods: Mapping[str, tuple[str, str]], of_requests: Mapping[str, str], of_groups: str
) -> str:
    said = [of_pods[uid] for uid in work.pod_uids if uid in of_pods]
    failed = next((text for reason, text in said if reason not in BEGUN), "")
    begun = next((text for reason, text in said if reason in BEGUN), "")
    return failed or of_requests.get(work.uid, "") or (of_groups if begun else "") or begun
