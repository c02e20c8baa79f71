"""The fleet's capacity over time: points by the window's length, sums only of what is complete."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from apps.admissions.tests.builders import T0, make_cluster
from apps.core.windows import Window
from apps.fleet.models import Cluster
from apps.usage.fleet import fleet_capacity_series, step_of
from apps.usage.models import CapacityHour

pytestmark = pytest.mark.django_db
D = Decimal
MIDNIGHT = T0.replace(hour=0, minute=0)


def snapshot(cluster: Cluster, hour: datetime, held: int) -> None:
    CapacityHour.objects.create(
        cluster=cluster,
        model="H100",
        sharing_mode="exclusive",
        hour=hour,
        physical=D(16),
        allocatable=D(16),
        held=D(held),
        nominal=D(12),
    )


@pytest.mark.parametrize(("days", "hours"), [(1, 1), (3, 1), (4, 6), (14, 6), (31, 6), (32, 24)])
def test_the_step_follows_the_window(days: int, hours: int) -> None:
    assert step_of(Window(MIDNIGHT, MIDNIGHT + timedelta(days=days))) == timedelta(hours=hours)


def test_a_short_window_shows_each_hour_and_its_gaps() -> None:
    cluster = make_cluster()
    snapshot(cluster, MIDNIGHT, 4)
    snapshot(cluster, MIDNIGHT + timedelta(hours=2), 6)
    found = fleet_capacity_series(
        window=Window(MIDNIGHT, MIDNIGHT + timedelta(hours=3)), cluster_ids=[cluster.pk]
    )
    assert found.held == [D(4), None, D(6)]


def test_a_long_window_shows_the_newest_hour_of_each_point() -> None:
    cluster = make_cluster()
    for hour, held in ((0, 1), (5, 2), (6, 3), (20, 4)):
        snapshot(cluster, MIDNIGHT + timedelta(hours=hour), held)
    found = fleet_capacity_series(
        window=Window(MIDNIGHT, MIDNIGHT + timedelta(days=4)), cluster_ids=[cluster.pk]
    )
    assert found.hours[:4] == [MIDNIGHT + timedelta(hours=6 * n) for n in range(4)]
    assert found.held[:4] == [D(2), D(3), None, D(4)]
    assert len(found.hours) == 16


def test_a_cluster_that_is_missing_in_an_hour_leaves_the_hour_out() -> None:
    east, west = make_cluster(), make_cluster("west")
    snapshot(east, MIDNIGHT, 1)
    snapshot(west, MIDNIGHT, 2)
    snapshot(east, MIDNIGHT + timedelta(hours=1), 1)
    found = fleet_capacity_series(
        window=Window(MIDNIGHT, MIDNIGHT + timedelta(hours=2)), cluster_ids=[east.pk, west.pk]
    )
    assert found.held == [D(3), None]
