"""Objects as a cluster serves them now. Input: keys of the portal's kinds; output: `ObjectSeen`, with the path that they
were read from.

Invariants: a path is of the version that the server serves and the collectors read, so that a spec looks the same in
both; an object that is not there is left out; anything else that goes wrong raises ClientError."""

from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings

from apps.changes.edits import ObjectKey
from apps.changes.specs import ObjectSeen, object_seen
from apps.fleet.models import Cluster
from worker.clients.errors import NOT_FOUND, ClientError
from worker.clients.kube import KubeClient, client_for
from worker.clients.writes import KubeWriter
from worker.collectors.plan import Discovery
from worker.parsers.kinds import KINDS


def client_of(cluster: Cluster) -> KubeClient:
    """Raises ClientError."""
    return client_for(
        cluster.kubeconfig_path,
        cluster.kube_context,
        connect_timeout=settings.CONNECT_TIMEOUT_SECONDS,
        read_timeout=settings.READ_TIMEOUT_SECONDS,
    )


def read_objects(client: KubeClient, keys: Iterable[ObjectKey]) -> tuple[ObjectSeen, ...]:
    discovery, reader = Discovery(client), KubeWriter(client)
    found: list[ObjectSeen] = []
    for key in keys:
        versions = discovery.versions_of(KINDS[key[0]])
        if not versions:
            continue
        path = path_of(key, versions[0])
        try:
            found.append(object_seen(key[0], path, reader.read(path).obj))
        except ClientError as error:
            if error.kind != NOT_FOUND:
                raise
    return tuple(found)


def path_of(key: ObjectKey, version: str) -> str:
    kind = KINDS[key[0]]
    where = f"/namespaces/{key[1]}" if key[1] else ""
    return f"/apis/{kind.group}/{version}{where}/{kind.plural}/{key[2]}"
