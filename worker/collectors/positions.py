"""Where waiting work stands, as Kueue's visibility API says. Input: the client and the clock; output: QueuePosition rows.

Invariants: a few requests per pull at most, the queues asked longest ago first, none after the deadline; an API that is
not served or does not answer is a normal case, one that refuses us is told; the rows of a queue are replaced by its
newest answer, and those of queues without waiting work go; places in LocalQueues are counted here, because Kueue takes
LocalQueues of one name for one, whatever their namespaces.
"""

from __future__ import annotations

import time
from collections import Counter
from datetime import datetime, timedelta

import msgspec
from django.db import transaction
from django.db.models import Max

from apps.observations.models import ClusterObject, QueuePosition
from worker.clients.errors import FORBIDDEN, NOT_FOUND, ClientError
from worker.clients.kube import KubeClient
from worker.parsers.base import Struct

GROUP = "/apis/visibility.kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
REQUESTS = 20
"""Queues asked per pull: the API has a priority level of its own, which is small."""
LIMIT = 1000
FRESH = timedelta(minutes=10)
"""Older answers go: the queue has moved on. A reader looks at `observed_at` as well, for when pulls fail."""


class _Meta(Struct, frozen=True):
    name: str
    namespace: str = ""


class _Pending(Struct, frozen=True):
    metadata: _Meta
    local_queue_name: str = ""
    position_in_cluster_queue: int = 0


class _Summary(Struct, frozen=True):
    items: list[_Pending] | None = None


_summary = msgspec.json.Decoder(_Summary)


def pull_positions(*, cluster_id: int, client: KubeClient, now: datetime, deadline: float) -> str:
    """Ask for the queues with waiting work; returns what is worth telling, "" when nothing is."""
    known = QueuePosition.objects.filter(cluster_id=cluster_id)
    waiting = _waiting(cluster_id)
    known.exclude(cluster_queue__in=waiting, observed_at__gte=now - FRESH).delete()
    asked = dict(known.values_list("cluster_queue").annotate(at=Max("observed_at")))
    versions = list(VERSIONS)
    oldest = datetime.min.replace(tzinfo=now.tzinfo)
    for queue in sorted(waiting, key=lambda name: (asked.get(name, oldest), name))[:REQUESTS]:
        if time.monotonic() > deadline:
            break
        try:
            found = _ask(client, versions, queue)
        except ClientError as error:
            return error.message if error.kind == FORBIDDEN else ""
        except msgspec.MsgspecError:
            return ""
        if found is None:
            return ""
        _replace(cluster_id, queue, found, now)
    return ""


def _waiting(cluster_id: int) -> list[str]:
    queues = ClusterObject.objects.filter(
        cluster_id=cluster_id, kind="ClusterQueue", gone_at=None, status__pending__gt=0
    )
    return list(queues.order_by("name").values_list("name", flat=True))


def _ask(client: KubeClient, versions: list[str], queue: str) -> list[_Pending] | None:
    """The queue's waiting work in order; None where no version is served. A version that is not is not tried again."""
    while versions:
        path = f"{GROUP}/{versions[0]}/clusterqueues/{queue}/pendingworkloads"
        try:
            return _summary.decode(client.get(path, {"limit": str(LIMIT)})).items or []
        except ClientError as error:
            if error.kind != NOT_FOUND:
                raise
            versions.pop(0)
    return None


def _replace(cluster_id: int, queue: str, found: list[_Pending], now: datetime) -> None:
    rows = {(item.metadata.namespace, item.metadata.name): item for item in found}
    before: Counter[tuple[str, str]] = Counter()
    made = []
    for (namespace, name), item in sorted(rows.items(), key=lambda row: row[1].position_in_cluster_queue):
        local_queue = (namespace, item.local_queue_name)
        made.append(
            QueuePosition(
                cluster_id=cluster_id,
                cluster_queue=queue,
                namespace=namespace,
                name=name,
                position=item.position_in_cluster_queue,
                local_position=before[local_queue],
                observed_at=now,
            )
        )
        before[local_queue] += 1
    with transaction.atomic():
        QueuePosition.objects.filter(cluster_id=cluster_id, cluster_queue=queue).delete()
        QueuePosition.objects.bulk_create(made)
