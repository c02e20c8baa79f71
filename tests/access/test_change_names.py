"""What somebody may ask to be changed: by role, over every object of a cluster."""

from __future__ import annotations

from datetime import timedelta

import pytest

from apps.accounts.selectors import led_teams
from apps.api.tests.world import World, cluster_object
from apps.changes.editable import Editable, place_of
from apps.fleet.models import TeamBinding
from apps.quotas.situation import load_scene

RED = ["ClusterQueue/red-cq", "LocalQueue/red-ns/red-lq", "VolcanoQueue/red-vq"]
BLUE = [key.replace("red", "blue") for key in RED]
ALL = sorted([*RED, *BLUE, "Cohort/all"])


@pytest.fixture
def fleet(world: World) -> World:
    """Each team owns a Volcano queue too."""
    for team in (world.red, world.blue):
        name = f"{team.slug}-vq"
        cluster_object(
            world,
            "VolcanoQueue",
            name,
            spec={
                "weight": 1,
                "capability": {},
                "deserved": {},
                "guarantee": {},
                "parent": "",
                "priority": None,
            },
            status={"state": "Open", "allocated": {}},
        )
        TeamBinding.objects.create(
            team=team,
            cluster=world.east,
            kind="volcano_queue",
            name=name,
            valid_from=world.now - timedelta(days=1),
        )
    return world


def editable(fleet: World, role: str) -> Editable:
    user = fleet.users[role]
    teams = None if user.is_platform_admin else list(led_teams(user).values_list("pk", flat=True))
    return Editable.of(load_scene(now=fleet.now, cluster=fleet.east), teams)


@pytest.mark.parametrize(
    ("role", "may"),
    [("guest", []), ("viewer", []), ("red_lead", RED), ("blue_lead", BLUE), ("finance", []), ("admin", ALL)],
)
def test_what_each_role_may_ask_to_be_changed(fleet: World, role: str, may: list[str]) -> None:
    """Every object of the cluster is tried: what is not offered cannot be opened either."""
    found = editable(fleet, role)
    assert sorted(place.key for place in found.places()) == may
    opened = [key for key in ALL if (place := place_of(key)) is not None and found.find(place) is not None]
    assert opened == sorted(may)


def test_what_is_opened_is_as_it_was_observed(fleet: World) -> None:
    found = editable(fleet, "admin")
    volcano = found.find(place_of("VolcanoQueue/red-vq"))  # type: ignore[arg-type]
    queue = found.find(place_of("ClusterQueue/red-cq"))  # type: ignore[arg-type]
    assert volcano is not None
    assert (volcano.spec["weight"], volcano.state) == (1, "Open")
    assert queue is not None
    assert queue.node is not None
    assert queue.node.node.parent == "all"


def test_a_queue_is_of_whom_it_is_bound_to(fleet: World) -> None:
    found = editable(fleet, "admin")
    for key in RED:
        assert list(found.owners(place_of(key))) == [fleet.red.pk]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["", "ClusterQueue", "ClusterQueue/", "ClusterQueue/a/b", "LocalQueue/a", "LocalQueue//b"]
)
def test_what_names_no_object_is_no_place(text: str) -> None:
    assert place_of(text) is None
