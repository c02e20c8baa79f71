"""Wait times over REST: percentiles by hand, first waits and waits again apart, and of the own teams only."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from apps.api.tests.world import World
from apps.usage.admission_reading import floor_step
from apps.usage.models import Step, WaitHour


def rolled(world: World, team: str, seconds: int, **fields: Any) -> None:
    at = floor_step(world.now - timedelta(days=9), Step.DAY)
    named: dict[str, Any] = {
        "queue": f"{team}-cq",
        "flavor": "h100",
        "size": "8",
        "which": "first",
        "ended": "reserved",
        "count": 1,
        **fields,
    }
    WaitHour.objects.create(
        cluster=world.east,
        team=getattr(world, team),
        step=Step.DAY,
        hour=at,
        ended_in=at,
        seconds=seconds,
        **named,
    )


@pytest.fixture
def waits(world: World) -> World:
    """Red's queue: 10 s, 20 s, 30 s and one that gave up after 15 s; again 40 s. Blue's: 7 s."""
    for seconds in (10, 20, 30):
        rolled(world, "red", seconds)
    rolled(world, "red", 15, ended="gave_up", flavor="")
    rolled(world, "red", 40, which="again", size="1")
    rolled(world, "blue", 7)
    return world


def answer(world: World, role: str, query: str) -> dict[str, Any]:
    end = floor_step(world.now - timedelta(days=7), Step.DAY)
    start = end - timedelta(days=10)
    path = f"/api/v1/wait-times/?from={start:%Y-%m-%d}&to={end:%Y-%m-%d}{query}"
    response = world.client(role).get(path)
    assert response.status_code == 200, response.content
    found: dict[str, Any] = json.loads(response.content)
    return found


def test_percentiles_count_what_gave_up_as_longer(waits: World) -> None:
    """F(10) = 1/4; of the two after 15 s each is half of the 3/4 left: F(20) = 5/8, F(30) = 1. p50 = 20, p90 = p99 =
    30."""
    found = answer(waits, "red_lead", "")
    assert found["results"] == [
        {
            "key": "red-cq",
            "key_label": "red-cq",
            "which": "again",
            "p50_seconds": 40,
            "p90_seconds": 40,
            "p99_seconds": 40,
            "longest_seconds": 40,
            "count": 1,
            "reserved": 1,
            "gave_up": 0,
            "still_waiting": 0,
        },
        {
            "key": "red-cq",
            "key_label": "red-cq",
            "which": "first",
            "p50_seconds": 20,
            "p90_seconds": 30,
            "p99_seconds": 30,
            "longest_seconds": 30,
            "count": 4,
            "reserved": 3,
            "gave_up": 1,
            "still_waiting": 0,
        },
    ]
    assert set(found["window"]) == {"start", "end"}


def test_a_percentile_that_was_not_reached_is_null(waits: World) -> None:
    rolled(waits, "blue", 100, ended="gave_up", count=3)
    (row,) = answer(waits, "blue_lead", "&which=first")["results"]
    assert (row["p50_seconds"], row["p90_seconds"], row["longest_seconds"]) == (None, None, 100)


KEYS = [
    ("", [("blue-cq", "first"), ("red-cq", "again"), ("red-cq", "first")]),
    ("&by=team", [("blue", "first"), ("red", "again"), ("red", "first")]),
    ("&by=size", [("1", "again"), ("8", "first")]),
    ("&by=flavor", [("", "first"), ("h100", "again"), ("h100", "first")]),
    ("&by=cluster", [("east", "again"), ("east", "first")]),
    ("&which=again", [("red-cq", "again")]),
    ("&team=blue", [("blue-cq", "first")]),
    ("&queue=red-cq&size=8", [("red-cq", "first")]),
    ("&flavor=h100&which=first&by=size", [("8", "first")]),
    ("&cluster=east&size=33-128", []),
]


@pytest.mark.parametrize(("query", "keys"), KEYS)
def test_groups_and_filters(waits: World, query: str, keys: list[tuple[str, str]]) -> None:
    found = answer(waits, "admin", query)["results"]
    assert [(row["key"], row["which"]) for row in found] == keys


def test_pages_go_on_where_the_last_one_ended(waits: World) -> None:
    first = answer(waits, "admin", "&page_size=2")
    response = waits.client("admin").get(first["next"])
    rest = json.loads(response.content)
    assert [row["key"] for row in first["results"] + rest["results"]] == ["blue-cq", "red-cq", "red-cq"]
    assert rest["next"] is None


def test_a_lead_sees_no_wait_of_another_team(waits: World) -> None:
    assert {row["key"] for row in answer(waits, "red_lead", "&by=team")["results"]} == {"red"}
    assert answer(waits, "red_lead", "&queue=blue-cq")["results"] == []
