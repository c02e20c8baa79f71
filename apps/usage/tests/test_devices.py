"""How busy teams are, worked out by hand."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from apps.accounts.models import Team
from apps.admissions.tests.builders import T0, bind, make_cluster, make_team
from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, DeviceSample, Pod
from apps.usage.devices import team_utilisation

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


@pytest.fixture
def teams(cluster: Cluster) -> dict[str, int]:
    return dict(Team.objects.values_list("slug", "pk"))


def test_a_team_is_as_busy_as_the_mean_of_its_pods_devices(cluster: Cluster, teams: dict[str, int]) -> None:
    """a: 0.9 and 0.3, what says nothing is left out; b: an instance at 0.1 and one at 0; GPU-5 is nobody's."""
    sample(cluster, "GPU-1", "0.9000", namespace="ml", pod="train-1")
    sample(cluster, "GPU-2", "0.3000", namespace="ml", pod="train-1")
    sample(cluster, "GPU-3", None, namespace="ml", pod="train-1")
    sample(cluster, "GPU-4", "0.1000", namespace="web", pod="serve-1", instance="3")
    sample(cluster, "GPU-4", "0.0000", namespace="web", pod="serve-1", instance="5")
    sample(cluster, "GPU-5", "1.0000")
    busy = team_utilisation(now=T0, clusters=[cluster], team_ids=None)
    assert busy == {teams["a"]: D("0.6"), teams["b"]: D("0.05")}


def test_only_the_newest_fresh_sample_counts(cluster: Cluster, teams: dict[str, int]) -> None:
    sample(cluster, "GPU-1", "0.2500", ago=90, namespace="ml", pod="train-1")
    sample(cluster, "GPU-1", "0.7500", ago=30, namespace="ml", pod="train-1")
    sample(cluster, "GPU-2", "0.5000", ago=3600, namespace="ml", pod="train-1")
    assert team_utilisation(now=T0, clusters=[cluster], team_ids=None) == {teams["a"]: D("0.75")}


def test_one_team_is_asked_for(cluster: Cluster, teams: dict[str, int]) -> None:
    sample(cluster, "GPU-1", "0.9000", namespace="ml", pod="train-1")
    sample(cluster, "GPU-4", "0.1000", namespace="web", pod="serve-1")
    wanted = teams["b"]
    assert team_utilisation(now=T0, clusters=[cluster], team_ids=[wanted]) == {wanted: D("0.1")}


def test_a_card_that_pods_share_is_no_teams(cluster: Cluster) -> None:
    """Its utilisation is the card's; whose part is which is shown on the card."""
    shares = [{"namespace": "ml", "pod": "train-1", "ratio": None}]
    sample(cluster, "GPU-1", "0.9000", attribution="copies", shares=shares)
    assert team_utilisation(now=T0, clusters=[cluster], team_ids=None) == {}
