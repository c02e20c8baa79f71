"""The newest samples, and the cards that they tell of."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from apps.fleet.models import Cluster
from apps.observations.models import DeviceSample
from apps.observations.selectors import SeenCards, newest_samples, seen_cards
from apps.observations.tests.builders import T0, make_cluster

pytestmark = pytest.mark.django_db


def sample(cluster: Cluster, device: str, *, ago: float = 10, **fields: Any) -> None:
    DeviceSample.objects.create(
        cluster=cluster,
        sampled_at=T0 - timedelta(seconds=ago),
        device=device,
        **{"node_name": "n1", **fields},
    )


def test_every_column_of_the_newest_fresh_sample() -> None:
    cluster = make_cluster()
    sample(cluster, "GPU-1", ago=70, driver="old")
    shares = [{"namespace": "ml", "pod": "a", "ratio": "0.2500"}]
    said: dict[str, Any] = {
        "model": "NVIDIA L4",
        "vendor": "nvidia",
        "profile": "1g.6gb",
        "driver": "550.144.03",
        "attribution": "per_process",
        "shares": shares,
        "utilisation_ratio": Decimal("0.7000"),
        "utilisation_source": "gpu_util",
    }
    sample(cluster, "GPU-1", **said)
    (found,) = newest_samples(now=T0, clusters=[cluster])
    assert {name: getattr(found, name) for name in said} == said
    assert (found.node_name, found.sampled_at) == ("n1", T0 - timedelta(seconds=10))
    assert newest_samples(now=T0, clusters=[cluster], nodes=["n2"]) == []


def test_cards_are_counted_once_whatever_their_instances() -> None:
    cluster = make_cluster()
    for instance in ("1", "2", "3"):
        sample(cluster, "GPU-1", instance=instance, model="A30")
    sample(cluster, "GPU-2")
    sample(cluster, "GPU-3", node_name="n2")
    sample(cluster, "GPU-old", ago=3600)
    sample(cluster, "GPU-nowhere", node_name="")
    n1, n2 = SeenCards(2, frozenset(["A30"])), SeenCards(1, frozenset())
    assert seen_cards(now=T0, clusters=[cluster]) == {(cluster.pk, "n1"): n1, (cluster.pk, "n2"): n2}
    assert seen_cards(now=T0, clusters=[cluster], nodes=["n2"]) == {(cluster.pk, "n2"): n2}
