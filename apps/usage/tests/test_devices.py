"""Devices at their newest sample, and the mean per team, worked out by hand."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from apps.admissions.tests.builders import T0, bind, make_cluster, make_team
from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, DeviceSample, Pod
from apps.usage.devices import device_rows, team_utilisation, without_others

pytestmark = pytest.mark.django_db
D = Decimal


def sample(cluster: Cluster, device: str, ratio: str | None, *, ago: float = 10, **fields: Any) -> None:
    DeviceSample.objects.create(
        cluster=cluster,
        sampled_at=T0 - timedelta(seconds=ago),
        device=device,
        node_name=fields.pop("node", "n1"),
        utilisation_ratio=None if ratio is None else D(ratio),
        **fields,
    )


def pod(
    cluster: Cluster, name: str, namespace: str, *, gone_at: datetime | None = None, queue: str = ""
) -> None:
    Pod.objects.create(
        cluster=cluster,
        uid=f"{namespace}/{name}",
        namespace=namespace,
        name=name,
        queue_name=queue,
        gone_at=gone_at,
        first_seen_at=T0,
        observed_at=T0,
    )


@pytest.fixture
def cluster() -> Cluster:
    """Queue `team-a` is team a's, `team-b` team b's; the LocalQueue `lq` of namespace `ml` leads to team-a."""
    made = make_cluster()
    bind(make_team("a"), made, "team-a")
    bind(make_team("b"), made, "team-b")
    for namespace, name, queue in (("ml", "lq", "team-a"), ("web", "lq", "team-b")):
        ClusterObject.objects.create(
            cluster=made,
            kind="LocalQueue",
            uid=f"{namespace}/{name}",
            namespace=namespace,
            name=name,
            spec={"cluster_queue": queue},
            first_seen_at=T0,
            observed_at=T0,
        )
    pod(made, "train-1", "ml", queue="lq")
    pod(made, "serve-1", "web", queue="lq")
    return made


def test_a_device_shows_its_newest_fresh_sample_only(cluster: Cluster) -> None:
    sample(cluster, "GPU-1", "0.2500", ago=90)
    sample(cluster, "GPU-1", "0.7500", ago=30)
    sample(cluster, "GPU-2", "0.5000", ago=3600)
    rows = device_rows(now=T0, clusters=[cluster])
    assert [(row.device, row.utilisation_ratio) for row in rows] == [("GPU-1", D("0.7500"))]


def test_mig_instances_are_devices_and_silence_is_not_zero(cluster: Cluster) -> None:
    sample(cluster, "GPU-1", "0.4000", instance="3")
    sample(cluster, "GPU-1", None, instance="5")
    rows = device_rows(now=T0, clusters=[cluster], node_name="n1")
    assert [(row.instance, row.utilisation_ratio) for row in rows] == [("3", D("0.4000")), ("5", None)]
    assert device_rows(now=T0, clusters=[cluster], node_name="n2") == []


def test_a_team_is_as_busy_as_the_mean_of_its_pods_devices(cluster: Cluster) -> None:
    sample(cluster, "GPU-1", "0.9000", namespace="ml", pod="train-1")
    sample(cluster, "GPU-2", "0.3000", namespace="ml", pod="train-1")
    sample(cluster, "GPU-3", None, namespace="ml", pod="train-1")
    sample(cluster, "GPU-4", "0.0000", namespace="web", pod="serve-1")
    sample(cluster, "GPU-5", "1.0000")
    busy = team_utilisation(now=T0, clusters=[cluster], team_ids=None)
    assert sorted(busy.values()) == [D(0), D("0.6")]


def test_one_team_is_asked_for(cluster: Cluster) -> None:
    sample(cluster, "GPU-1", "0.9000", namespace="ml", pod="train-1")
    sample(cluster, "GPU-4", "0.1000", namespace="web", pod="serve-1")
    rows = {row.device: row.team_id for row in device_rows(now=T0, clusters=[cluster])}
    wanted = rows["GPU-4"]
    assert wanted is not None
    assert team_utilisation(now=T0, clusters=[cluster], team_ids=[wanted]) == {wanted: D("0.1")}


def test_a_reader_sees_that_a_device_is_busy_but_not_whose_pod_is_on_it(cluster: Cluster) -> None:
    sample(cluster, "GPU-1", "0.9000", namespace="ml", pod="train-1")
    sample(cluster, "GPU-4", "0.1000", namespace="web", pod="serve-1")
    rows = device_rows(now=T0, clusters=[cluster])
    mine = rows[0].team_id
    assert mine is not None
    shown = without_others(rows, [mine])
    assert [(row.pod, row.utilisation_ratio) for row in shown] == [("train-1", D("0.9")), ("", D("0.1"))]
    assert without_others(rows, None) == rows
