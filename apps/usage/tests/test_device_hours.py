"""A node's devices by the hour: means by hand, hours without samples as gaps."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from apps.admissions.tests.builders import T0, make_cluster
from apps.core.windows import Window, floor_hour
from apps.fleet.models import Cluster
from apps.observations.models import DeviceSample
from apps.observations.retention import keep_observation_partitions
from apps.usage.device_hours import device_hours

pytestmark = pytest.mark.django_db
D = Decimal


def sample(cluster: Cluster, at: datetime, ratio: str | None, device: str = "GPU-1", **more: str) -> None:
    DeviceSample.objects.create(
        cluster=cluster,
        sampled_at=at,
        device=device,
        node_name=more.get("node", "n1"),
        instance=more.get("instance", ""),
        utilisation_ratio=None if ratio is None else D(ratio),
    )


def test_an_hour_is_the_mean_of_what_was_said() -> None:
    cluster = make_cluster()
    keep_observation_partitions(now=T0)
    end = floor_hour(T0) + timedelta(minutes=30)
    for minutes, ratio in ((200, "0.9"), (80, "0.5"), (70, "0.7"), (60, None), (1, "0.25")):
        sample(cluster, end - timedelta(minutes=minutes), ratio)
    sample(cluster, end, "0.1", device="GPU-2", instance="3")
    sample(cluster, end, "0.9", device="GPU-9", node="n2")  # another node's
    sample(cluster, end - timedelta(hours=2), "0.9", device="GPU-8")  # no longer on the node
    found = device_hours(cluster=cluster, node="n1", window=Window(end - timedelta(hours=3), end))
    assert found.hours == [floor_hour(T0) - timedelta(hours=n) for n in (3, 2, 1, 0)]
    assert found.ratios == {
        "GPU-1": [D("0.9"), None, D("0.6"), D("0.25")],
        "GPU-2 / 3": [None, None, None, D("0.1")],
    }
