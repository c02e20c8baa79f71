"""The fleet's capacity over time: points by the window's length, sums only of what is complete."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from apps.admissions.tests.builders import T0, make_cluster
from apps.core.windows import Window
from apps.fleet.models import Cluster
from apps.usage.fleet import fleet_capacity_series, step_of
from apps.usage.models import CapacityHour
from apps.usage.selectors import CapacitySeries

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


@pytest.mark.parametrize(
    ("days", "step"),
    [(1, "hour"), (3, "hour"), (4, "six_hours"), (14, "six_hours"), (31, "six_hours"), (32, "day")],
)
def test_the_step_follows_the_window(days: int, step: str) -> None:
    assert step_of(Window(MIDNIGHT, MIDNIGHT + timedelta(days=days))) == step


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


def test_a_month_shows_its_newest_whole_hour_and_a_month_without_any_is_a_gap() -> None:
    cluster = make_cluster()
    october, december = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
    for at, held in ((october, 1), (october + timedelta(days=30, hours=23), 2), (december, 3)):
        snapshot(cluster, at, held)
    found = fleet_capacity_series(
        window=Window(october, december + timedelta(days=2)), cluster_ids=[cluster.pk], step="month"
    )
    assert found.hours == [october, datetime(2026, 11, 1, tzinfo=UTC), december]
    assert found.held == [D(2), None, D(3)]


def shared(cluster: Cluster, hour: datetime, **noted: Any) -> None:
    """A pool of 4 cards as 40 time slices, of which 20 are held."""
    CapacityHour.objects.create(
        cluster=cluster, model="L4", sharing_mode="time_slicing", hour=hour,
        physical=D(40), allocatable=D(40), held=D(20), nominal=D(60), **noted,
    )  # fmt: skip


NOTED: dict[str, Any] = {
    "cards": 4,
    "allocatable_equivalents": D(4),
    "held_equivalents": D(2),
    "nominal_equivalents": D(6),
    "stranded_equivalents": D("0.5"),
}


def series(cluster: Cluster, hours: int = 1, **filters: Any) -> CapacitySeries:
    window = Window(MIDNIGHT, MIDNIGHT + timedelta(hours=hours))
    return fleet_capacity_series(window=window, cluster_ids=[cluster.pk], **{"sharing_mode": "", **filters})


def test_all_pools_are_added_as_cards_and_equivalents() -> None:
    cluster = make_cluster()
    snapshot(cluster, MIDNIGHT, 8)  # 16 whole cards, noted before equivalents were
    shared(cluster, MIDNIGHT, **NOTED)
    found = series(cluster)
    assert (found.physical, found.allocatable, found.held, found.nominal) == (
        [D(20)],
        [D(20)],
        [D(10)],
        [D(18)],
    )
    assert found.stranded == [D("0.5")]


def test_an_hour_whose_equivalents_nobody_noted_is_a_gap() -> None:
    cluster = make_cluster()
    shared(cluster, MIDNIGHT)
    shared(cluster, MIDNIGHT + timedelta(hours=1), **NOTED)
    assert series(cluster, hours=2).allocatable == [None, D(4)]
    snapshot(cluster, MIDNIGHT, 8)
    assert series(cluster, hours=2).allocatable == [None, D(4)]
    assert series(cluster, hours=2, sharing_mode="exclusive").allocatable == [D(16), None]


def test_one_model_of_one_mode() -> None:
    cluster = make_cluster()
    snapshot(cluster, MIDNIGHT, 8)
    shared(cluster, MIDNIGHT, **NOTED)
    assert series(cluster, sharing_mode="time_slicing", model="L4").physical == [D(4)]
    assert series(cluster, model="H100").physical == [D(16)]
    assert series(cluster, model="H200").physical == [None]
