"""Usage by REST: the small world's months by hand, whose rows are whose, pages, CSV, and what cannot be told."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from apps.api.pagination import encode_cursor
from apps.api.tests.test_reads import get, results
from apps.api.tests.world import GPU, MODEL, World
from apps.usage import reports

MONTHS = "usage/?from=2025-01-01&to=2025-03-01"


def told(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["start"], row["team"], row["model"], row["reserved_unit_seconds"]) for row in rows]


@pytest.mark.parametrize("step", ["day", "month"])
def test_the_months_by_hand(world: World, step: str) -> None:
    """In the first hour of each month red, blue and nobody held two cards."""
    assert told(results(world, "finance", f"{MONTHS}&step={step}")) == [
        (f"2025-{month}-01T00:00:00Z", team, MODEL, "7200")
        for month in ("01", "02")
        for team in (None, "blue", "red")
    ]


def test_hours_and_the_whole_window_say_the_same(world: World) -> None:
    hours = results(world, "finance", "usage/?from=2025-01-01&to=2025-01-03&step=hour&group_by=queue")
    whole = results(world, "finance", "usage/?from=2025-01-01&to=2025-01-03&group_by=queue")
    assert [(row["queue"], row["reserved_gpu_hours"]) for row in hours] == [
        *(("blue-cq", "2"), ("nobodys-cq", "2"), ("red-cq", "2")),
    ]
    assert [(row["queue"], row["reserved_gpu_hours"]) for row in whole] == [
        *(("blue-cq", "2"), ("nobodys-cq", "2"), ("red-cq", "2")),
    ]
    (sum_,) = results(world, "finance", "usage/?from=2025-01-01&to=2025-01-03&group_by=model")
    assert (sum_["resource"], sum_["team"], sum_["reserved_gpu_hours"]) == (GPU, None, "6")


def test_a_lead_adds_up_only_what_is_the_teams(world: World) -> None:
    (row,) = results(world, "red_lead", f"{MONTHS}&group_by=model")
    assert row["reserved_unit_seconds"] == "14400"
    assert results(world, "guest", f"{MONTHS}&group_by=model") == []


def test_pages_are_the_whole_list(world: World) -> None:
    path: str | None = f"{MONTHS}&step=month&page_size=4"
    rows: list[dict[str, Any]] = []
    while path:
        body = get(world, "finance", path)
        rows += body["results"]
        path = body["next"] and body["next"].removeprefix("/api/v1/")
    assert rows == results(world, "finance", f"{MONTHS}&step=month")
    assert len(rows) == 6


def test_the_file_has_the_rows_of_the_list(world: World) -> None:
    response = world.client("finance").get(f"/api/v1/{MONTHS}&step=month&format=csv")
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    text = b"".join(response.streaming_content).decode("utf-8-sig")  # type: ignore[attr-defined]
    found = list(csv.DictReader(io.StringIO(text)))
    listed = results(world, "finance", f"{MONTHS}&step=month")
    assert [list(row) for row in found] == [list(row) for row in listed]
    assert [(row["team"], row["reserved_unit_seconds"], row["measured_seconds"]) for row in found] == [
        (row["team"] or "", row["reserved_unit_seconds"], "") for row in listed
    ]


def test_what_a_key_does_not_tell_is_said(world: World) -> None:
    body = get(world, "finance", f"{MONTHS}&group_by=team,flavor")
    assert body["group_by"] == ["team", "flavor"]
    assert [(note["measure"], note["keys"]) for note in body["notes"]] == [
        ("bound", ["flavor"]),
        ("measured", ["flavor"]),
    ]
    assert {row["bound_unit_seconds"] for row in body["results"]} == {None}


def test_an_answer_that_is_too_long_says_how_long_it_may_be(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "MOST_ROWS", 2)
    for ending in ("", "&format=csv"):
        response = world.client("finance").get(f"/api/v1/{MONTHS}&step=month{ending}")
        assert response.status_code == 400
        (fault,) = response.json()["errors"]
        assert (fault["parameter"], fault["code"]) == ("step", "too_many_rows")
        assert fault["detail"].startswith("6 rows are more than ")


@pytest.mark.parametrize("place", [["x"], ["2025-01-01"], ["", "\x00"]])
def test_a_cursor_that_nobody_gave_out_is_refused(world: World, place: list[str]) -> None:
    key = (*place, *[""] * (reports.PLACE_LENGTH - len(place)))
    response = world.client("finance").get(f"/api/v1/usage/?cursor={encode_cursor(key, route='usage')}")
    assert response.status_code == 400
    assert response.json()["errors"][0]["code"] == "cursor"
