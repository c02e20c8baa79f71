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
from apps.usage.devices import TeamBusy, team_utilisation

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
    assert busy == {teams["a"]: TeamBusy(D("0.6"), 0), teams["b"]: TeamBusy(D("0.05"), 0)}


def test_only_the_newest_fresh_sample_counts(cluster: Cluster, teams: dict[str, int]) -> None:
    sample(cluster, "GPU-1", "0.2500", ago=90, namespace="ml", pod="train-1")
    sample(cluster, "GPU-1", "0.7500", ago=30, namespace="ml", pod="train-1")
    sample(cluster, "GPU-2", "0.5000", ago=3600, namespace="ml", pod="train-1")
    assert team_utilisation(now=T0, clusters=[cluster], team_ids=None) == {teams["a"]: TeamBusy(D("0.75"), 0)}


def test_one_team_is_asked_for(cluster: Cluster, teams: dict[str, int]) -> None:
    sample(cluster, "GPU-1", "0.9000", namespace="ml", pod="train-1")
    sample(cluster, "GPU-4", "0.1000", namespace="web", pod="serve-1")
    wanted = teams["b"]
    assert team_utilisation(now=T0, clusters=[cluster], team_ids=[wanted]) == {wanted: TeamBusy(D("0.1"), 0)}


def share(pod: str, ratio: str | None, namespace: str = "ml") -> dict[str, str | None]:
    return {"namespace": namespace, "pod": pod, "ratio": ratio}


def test_a_card_that_pods_share_counts_with_each_pods_own_part(
    cluster: Cluster, teams: dict[str, int]
) -> None:
    """a: 0.9 of its own card, of the shared one 0.2 and 0.1 by two pods: (0.9 + 0.2 + 0.1) / 3. b: 0.3 of the shared
    one. The card's 0.6 is nobody's."""
    pod(cluster, "train-2", "ml", queue="lq")
    sample(cluster, "GPU-1", "0.9000", namespace="ml", pod="train-1", attribution="whole")
    parts = [share("train-1", "0.2000"), share("train-2", "0.1000"), share("serve-1", "0.3000", "web")]
    sample(cluster, "GPU-2", "0.6000", attribution="per_process", shares=parts)
    assert team_utilisation(now=T0, clusters=[cluster], team_ids=None) == {
        teams["a"]: TeamBusy(D("0.4"), 0),
        teams["b"]: TeamBusy(D("0.3"), 0),
    }


def test_what_cannot_be_told_apart_is_left_out_and_counted(cluster: Cluster, teams: dict[str, int]) -> None:
    """a: copies of one card on two pods, the turns of another, a third on which only the other pod was measured:
    3 cards; b is on the first and on the third, of which it did 0.5. GPU-4 says nothing whoever is on it."""
    pod(cluster, "train-2", "ml", queue="lq")
    both = [share("train-1", None), share("train-2", None)]
    sample(cluster, "GPU-1", "0.9000", attribution="copies", shares=[*both, share("serve-1", None, "web")])
    sample(cluster, "GPU-2", "0.9000", attribution="flips", shares=both)
    measured = [share("train-1", None), share("serve-1", "0.5000", "web")]
    sample(cluster, "GPU-3", "0.5000", attribution="per_process", shares=measured)
    sample(cluster, "GPU-4", None, attribution="copies", shares=both)
    assert team_utilisation(now=T0, clusters=[cluster], team_ids=None) == {
        teams["a"]: TeamBusy(None, 3),
        teams["b"]: TeamBusy(D("0.5"), 1),
    }


def test_copies_that_carry_a_number_are_not_the_pods_own(cluster: Cluster, teams: dict[str, int]) -> None:
    sample(cluster, "GPU-1", "0.9000", attribution="copies", shares=[share("train-1", "0.9000")])
    assert team_utilisation(now=T0, clusters=[cluster], team_ids=None) == {teams["a"]: TeamBusy(None, 1)}
