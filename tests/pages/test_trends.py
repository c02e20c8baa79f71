"""Capacity over time: what the charts and their tables say of noted hours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from apps.api.tests.world import World
from apps.core.windows import floor_hour
from apps.usage.models import CapacityHour

from .test_pages import download, text


@pytest.fixture
def noted(world: World) -> World:
    """16 whole cards of which 8 are held and 20 promised, an hour and 40 days ago; 4 shared cards an hour ago."""
    hour = floor_hour(world.now)
    for at in (hour - timedelta(hours=1), hour - timedelta(days=40)):
        CapacityHour.objects.create(
            cluster=world.east, model="H100", sharing_mode="exclusive", hour=at,
            physical=Decimal(16), allocatable=Decimal(16), held=Decimal(8), nominal=Decimal(20),
        )  # fmt: skip
    CapacityHour.objects.create(
        cluster=world.east, model="L4", sharing_mode="time_slicing", hour=hour - timedelta(hours=1),
        physical=Decimal(40), allocatable=Decimal(40), held=Decimal(0), nominal=None, cards=4,
        allocatable_equivalents=Decimal(4), held_equivalents=Decimal(0),
    )  # fmt: skip
    return world


def lines(world: World, path: str) -> dict[str, dict[str, Any]]:
    body = world.client("viewer").get(path).json()
    return {trace["name"]: dict(zip(trace["x"], trace["y"], strict=True)) for trace in body["data"]}


def test_the_three_numbers_by_hour(noted: World) -> None:
    found = lines(noted, "/charts/capacity-trend.json?bucket=hour&window=24h")
    at = (floor_hour(noted.now) - timedelta(hours=1)).isoformat()
    assert [found[name][at] for name in ("physical", "allocatable", "committed", "held")] == [20, 20, 20, 8]
    assert sum(value is not None for value in found["physical"].values()) == 1


def test_the_ratio_is_of_what_is_allocatable(noted: World) -> None:
    found = lines(noted, "/charts/allocation-ratio.json?bucket=hour&sharing_mode=exclusive")
    at = (floor_hour(noted.now) - timedelta(hours=1)).isoformat()
    assert (found["committed of allocatable"][at], found["held of allocatable"][at]) == (125, 50)


def test_months_are_named_and_empty_ones_are_gaps(noted: World) -> None:
    head, *rows = download(noted.client("viewer"), "/charts/capacity-trend/?bucket=month&format=csv")
    said = {row[0][:7]: row[head.index("physical")] for row in rows}
    past = floor_hour(noted.now) - timedelta(days=40)
    assert said[f"{past:%Y-%m}"] in ("16", "20")
    assert len(said) >= 24
    assert sum(value != "" for value in said.values()) == 2
    body = text(noted.client("viewer"), "/charts/capacity-trend/?bucket=month")
    assert f'<th scope="row" class="when">{past:%Y-%m}</th>' in body
    assert 'aria-current="true">by month' in body


def test_hours_of_two_years_are_refused(noted: World) -> None:
    assert noted.client("viewer").get("/charts/capacity-trend.json?bucket=hour&window=90d").status_code == 404


def test_a_chart_of_a_node_needs_to_know_which(noted: World) -> None:
    assert noted.client("viewer").get("/charts/node-utilisation/").status_code == 404
    body = noted.client("viewer").get("/charts/node-utilisation.json?node=gpu-1").json()
    assert body["empty"] == "Nothing was recorded in this time yet."


def test_the_month_of_a_point_is_utc(noted: World) -> None:
    first = datetime(2026, 1, 1, tzinfo=UTC)
    CapacityHour.objects.create(
        cluster=noted.east, model="H100", sharing_mode="exclusive", hour=first,
        physical=Decimal(1), allocatable=Decimal(1), held=Decimal(1), nominal=None,
    )  # fmt: skip
    found = lines(noted, "/charts/capacity-trend.json?bucket=month&from=2025-12-15&to=2026-01-02")
    assert found["physical"] == {"2025-12-01T00:00:00+00:00": None, "2026-01-01T00:00:00+00:00": 1}
