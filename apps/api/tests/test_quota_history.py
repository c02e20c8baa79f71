"""What `/api/v1/quotas/history/` says: values, gaps, bounds of the window, and to whom. Worked out by hand."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from apps.api.tests.world import GPU, World
from apps.quotas.history import SOURCE_KIND
from apps.quotas.models import QuotaPoint

PATH = "/api/v1/quotas/history/?cluster=east&kind=ClusterQueue&flavor=h100&window=hour"


def note(world: World, at: datetime, **values: Any) -> None:
    key = {"kind": "ClusterQueue", "queue": "red-cq", "flavor": "h100", "resource": GPU}
    QuotaPoint.objects.create(cluster=world.east, at=at, **{**key, **values})


def seen(world: World, since: datetime, until: datetime) -> None:
    key = {"kind": SOURCE_KIND, "queue": "kueue", "flavor": "", "resource": ""}
    note(world, since, **key)
    note(world, until, **key, ended=True)


@pytest.fixture
def base(world: World) -> datetime:
    """A whole minute. Observed: 30 to 20 and 10 to 2 minutes before it. Holds 4 of 8 from long ago, and 8 from half a
    minute after the sixth minute before it; what may be borrowed was not said."""
    base = world.now.replace(second=0, microsecond=0)
    QuotaPoint.objects.all().delete()
    seen(world, base - timedelta(minutes=30), base - timedelta(minutes=20))
    seen(world, base - timedelta(minutes=10), base - timedelta(minutes=2))
    note(world, base - timedelta(hours=5), nominal=8, reserved=4)
    note(world, base - timedelta(minutes=5, seconds=30), nominal=8, reserved=8)
    return base


def answer(world: World, role: str, queue: str = "red-cq", path: str = PATH) -> tuple[int, dict[str, Any]]:
    response = world.client(role).get(f"{path}&queue={queue}&resource={GPU}")
    body: dict[str, Any] = json.loads(response.content)
    return response.status_code, body


def test_values_gaps_and_bounds(world: World, base: datetime) -> None:
    status, whole = answer(world, "red_lead")
    assert status == 200
    body = whole["result"]
    assert (body["queue"], body["window"], body["step_seconds"]) == ("red-cq", "hour", 60)
    steps = {datetime.fromisoformat(step["at"]): step for step in body["steps"]}
    # An hour of whole minutes that follow each other, of which the last holds now.
    at = sorted(steps)
    assert list(steps) == at
    assert len(at) == 60
    assert {later - sooner for sooner, later in pairwise(at)} == {timedelta(minutes=1)}
    assert base <= at[-1] <= base + timedelta(minutes=1)

    def of(minutes: int) -> tuple[bool, Any, Any, Any]:
        step = steps[base - timedelta(minutes=minutes)]
        return (
            step["is_observed"],
            step["mean"]["reserved"],
            step["max"]["reserved"],
            step["mean"]["nominal"],
        )

    def numbers(minutes: int) -> tuple[Any, ...]:
        observed, *texts = of(minutes)
        assert observed
        assert all(isinstance(text, str) for text in texts)
        return tuple(Decimal(text) for text in texts)

    assert numbers(30) == numbers(21) == numbers(10) == (4, 4, 8)
    # Half a minute of 4, half a minute of 8.
    assert numbers(6) == (6, 8, 8)
    assert numbers(3) == (8, 8, 8)
    gap = (False, None, None, None)
    assert of(31) == of(20) == of(11) == gap
    assert steps[base - timedelta(minutes=3)]["mean"]["ceiling"] is None


@pytest.mark.parametrize(
    ("role", "queue", "status"), [("red_lead", "blue-cq", 404), ("blue_lead", "red-cq", 404)]
)
def test_another_teams_queue_is_not_found(
    world: World, base: datetime, role: str, queue: str, status: int
) -> None:
    assert answer(world, role, queue)[0] == status
    assert answer(world, role, "no-such-queue") == answer(world, role, queue)
