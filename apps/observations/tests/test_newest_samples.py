"""The newest samples."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from apps.fleet.models import Cluster
from apps.observations.models import DeviceSample
from apps.observations.selectors import newest_samples
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
