"""When waiting work may start, over REST, on its page and in its list: the same range everywhere."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from typing import Any

import pytest

from apps.admissions.queued import size_of
from apps.api.tests.world import World
from apps.observations.models import StateSpan, Workload
from apps.usage.admission_reading import floor_step
from apps.usage.models import Step, WaitHour

PATH = "/api/v1/workloads/uid-red-waits/"


def known(world: World, count: int) -> Workload:
    """Waits of 1,000,000 s, twice, three times … that long, in the queue and size of red's waiting work, whose own is far
    below the first."""
    work = Workload.objects.get(uid="uid-red-waits")
    at = floor_step(world.now - timedelta(days=2), Step.DAY)
    WaitHour.objects.bulk_create(
        WaitHour(
            cluster=world.east,
            step=Step.DAY,
            hour=at,
            ended_in=at,
            queue="red-cq",
            size=size_of(work.requests),
            which="first",
            ended="reserved",
            seconds=1_000_000 * n,
            count=1,
        )
        for n in range(1, count + 1)
    )
    return work


def estimate(world: World, role: str, path: str = PATH) -> Any:
    response = world.client(role).get(path)
    assert response.status_code == 200
    return json.loads(response.content)["result"]["start_estimate"]


def explanation(world: World, uid: str) -> Any:
    response = world.client("red_lead").get(f"/api/v1/workloads/{uid}/explanation/")
    assert response.status_code == 200
    return json.loads(response.content)["result"]


def test_the_same_range_over_rest_on_the_page_and_in_the_list(world: World) -> None:
    """n = 20: the 2nd and the 19th, less what was waited: 2,000,000 s are 23 d 3 h."""
    work = known(world, 20)
    since = work.queued_at or work.created_at or work.first_seen_at
    found = estimate(world, "red_lead")
    waited = (world.now - since).total_seconds()
    assert abs(found["low_seconds"] - (2_000_000 - waited)) < 60
    assert found["high_seconds"] - found["low_seconds"] == 17_000_000
    rest = {name: found[name] for name in ("share", "sample", "ended", "basis", "why_not")}
    assert rest == {"share": "0.8", "sample": 20, "ended": 20, "basis": "size", "why_not": ""}
    assert explanation(world, "uid-red-waits")["start_estimate"].keys() == found.keys()
    for name in ("share", "sample", "ended", "basis", "why_not"):
        assert explanation(world, "uid-red-waits")["start_estimate"][name] == found[name]
    said = "(80 %, 20 comparable waits)"
    assert said in world.client("red_lead").get("/workloads/uid-red-waits/").content.decode()
    text = b"".join(world.client("red_lead").get("/teams/red/?format=csv&table=waiting")).decode("utf-8-sig")
    (row,) = [row for row in csv.DictReader(io.StringIO(text)) if row["UID"] == "uid-red-waits"]
    assert row["Start estimate"].endswith(said)
    assert (row["Comparable waits"], int(row["Latest start in seconds"]) // 1_000_000) == ("20", 18)


def test_too_little_history_is_said(world: World) -> None:
    known(world, 19)
    found = estimate(world, "red_lead")
    assert (found["low_seconds"], found["high_seconds"], found["why_not"]) == (None, None, "too_few")
    text = world.client("red_lead").get("/workloads/uid-red-waits/").content.decode()
    assert "not enough history: 19 comparable waits ended in the last 28 days, 20 are needed" in text


def test_what_runs_has_none(world: World) -> None:
    known(world, 20)
    assert estimate(world, "red_lead", "/api/v1/workloads/uid-red-runs/") is None
    assert explanation(world, "uid-red-runs")["start_estimate"] is None
    assert "Start estimate" not in world.client("red_lead").get("/workloads/uid-red-runs/").content.decode()


@pytest.mark.parametrize("message", ["ClusterQueue red-cq is stopped", "ClusterQueue red-cq doesn't exist"])
def test_what_waiting_does_not_end_has_no_range(world: World, message: str) -> None:
    work = known(world, 20)
    work.reason, work.message = "Inadmissible", message
    work.save()
    StateSpan.objects.filter(uid=work.uid).update(reason=work.reason, message=message)
    found = estimate(world, "red_lead")
    assert (found["low_seconds"], found["why_not"]) == (None, "not_by_waiting")
    assert explanation(world, "uid-red-waits")["start_estimate"]["why_not"] == "not_by_waiting"
