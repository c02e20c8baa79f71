"""Positions in queues against a real Kueue: what is stored is what its visibility API says. Reads only.

Where work comes and goes while the test runs, the answer is taken again until it is the same before and after the
pull; where nothing waits, the API's empty answer for a real queue is what is compared."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, QueuePosition
from worker.clients.errors import NOT_FOUND, ClientError
from worker.clients.kube import KubeClient
from worker.collectors.positions import GROUP, VERSIONS, pull_positions

from .access import require_cluster
from .conftest import Pull

require_cluster()
pytestmark = [pytest.mark.cluster, pytest.mark.django_db]
Place = tuple[str, str, int, int]
TRIES = 5


def said(client: KubeClient, queue: str) -> list[Place] | None:
    """The waiting work of a queue as the API lists it, None where it is not served."""
    for version in VERSIONS:
        try:
            body = client.get(f"{GROUP}/{version}/clusterqueues/{queue}/pendingworkloads", {"limit": "1000"})
        except ClientError as error:
            if error.kind != NOT_FOUND:
                raise
            continue
        items = json.loads(body).get("items") or []
        return sorted(
            (
                item["metadata"]["namespace"],
                item["metadata"]["name"],
                item["positionInClusterQueue"],
                item["positionInLocalQueue"],
            )
            for item in items
        )
    return None


def stored(cluster: Cluster, queue: str) -> list[Place]:
    rows = QueuePosition.objects.filter(cluster=cluster, cluster_queue=queue)
    return sorted(rows.values_list("namespace", "name", "position", "local_position"))


@pytest.fixture
def queue(cluster: Cluster, client: KubeClient, kueue: str, pull: Pull) -> str:
    """The queue with the most waiting work, else the first by name."""
    assert pull("kueue").outcome in ("ok", "partial")
    found = ClusterObject.objects.filter(cluster=cluster, kind="ClusterQueue", gone_at=None).order_by("name")
    if not found:
        pytest.skip("this cluster has no ClusterQueue")
    name = max(found, key=lambda row: int(row.status.get("pending") or 0)).name
    if said(client, name) is None:
        pytest.skip("this cluster does not serve Kueue's visibility API")
    return name


def test_positions_are_those_that_kueue_says(
    cluster: Cluster, client: KubeClient, queue: str, pull: Pull
) -> None:
    for _try in range(TRIES):
        before = said(client, queue)
        pull("kueue")
        if before == said(client, queue):
            break
    else:
        pytest.skip("the queue moved all the time")
    waits = ClusterObject.objects.get(cluster=cluster, kind="ClusterQueue", name=queue, gone_at=None)
    assert stored(cluster, queue) == (before if waits.status.get("pending") else [])


def test_an_empty_answer_takes_old_places_away(cluster: Cluster, client: KubeClient, queue: str) -> None:
    """The queue is said to have waiting work, and what stood there before goes with the API's own answer."""
    row = ClusterObject.objects.get(cluster=cluster, kind="ClusterQueue", name=queue, gone_at=None)
    ClusterObject.objects.filter(cluster=cluster, kind="ClusterQueue").update(status={})
    ClusterObject.objects.filter(pk=row.pk).update(status={"pending": 1})
    now = datetime.now(UTC)
    QueuePosition.objects.create(
        cluster=cluster, cluster_queue=queue, namespace="x", name="left", position=0, local_position=0,
        observed_at=now,
    )  # fmt: skip
    told = pull_positions(cluster_id=cluster.pk, client=client, now=now, deadline=float("inf"))
    assert told == ""
    assert "left" not in [name for _namespace, name, *_places in stored(cluster, queue)]
