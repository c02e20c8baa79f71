"""How busy a team's cards are, where its pods share them with others'."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from apps.api.tests.world import World
from apps.observations.models import DeviceSample
from apps.observations.retention import keep_observation_partitions

from .test_pages import download, text


def sample(world: World, device: str, ratio: str, **fields: Any) -> None:
    keep_observation_partitions(now=world.now)
    DeviceSample.objects.create(
        cluster=world.east, sampled_at=world.now, device=device, node_name="gpu-1", utilisation_ratio=Decimal(ratio),
        **fields,
    )  # fmt: skip


def share(team: str, ratio: str | None) -> dict[str, str | None]:
    return {"namespace": f"{team}-ns", "pod": f"{team}-pod", "ratio": ratio}


@pytest.fixture
def shared(world: World) -> World:
    """red: 0.8 of its own card and 0.2 of a shared one, (0.8 + 0.2) / 2; blue: 0.1 of that. Of GPU-3, which they
    share too, only copies of its 0.9 are there."""
    sample(world, "GPU-1", "0.8", namespace="red-ns", pod="red-pod", attribution="whole")
    parts = [share("red", "0.2"), share("blue", "0.1")]
    sample(world, "GPU-2", "0.3", attribution="per_process", shares=parts)
    sample(world, "GPU-3", "0.9", attribution="copies", shares=[share("red", None), share("blue", None)])
    return world


def test_a_team_sees_what_is_its_own_and_how_many_cards_are_not_told_apart(shared: World) -> None:
    head, *rows = download(shared.client("admin"), "/teams/?format=csv")
    columns = [head.index(name) for name in ("Team", "GPU util.", "Shared cards left out of it")]
    assert {tuple(row[i] for i in columns) for row in rows} == {("Red", "0.5", "1"), ("Blue", "0.1", "1")}
    assert "without 1 shared card<" in text(shared.client("red_lead"), "/teams/")


def test_rest_has_the_same_ratio(shared: World) -> None:
    client = shared.client("admin")
    found = {
        slug: client.get(f"/api/v1/teams/{slug}/").json()["result"]["utilisation_ratio"]
        for slug in ("red", "blue")
    }
    assert found == {"red": "0.5", "blue": "0.1"}


def test_a_team_on_shared_cards_alone_has_no_ratio(world: World) -> None:
    sample(world, "GPU-3", "0.9", attribution="flips", shares=[share("red", None), share("blue", None)])
    assert world.client("admin").get("/api/v1/teams/red/").json()["result"]["utilisation_ratio"] is None
    assert "without 1 shared card<" in text(world.client("admin"), "/teams/")
