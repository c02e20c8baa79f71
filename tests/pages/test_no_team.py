"""Before any team is made, the teams' tables say what to do, and to whom."""

from __future__ import annotations

import pytest

from apps.accounts.models import Team, User
from apps.api.tests.world import World, make_world
from apps.fleet.models import TeamBinding
from apps.usage.models import AllocationDay, AllocationHour, UsageHour

from .test_pages import text

NONE_YET = "No team is set up yet. Make teams and bind their queues in Admin."
NOT_YOURS = "You belong to no team yet. A platform admin can add you to one."


@pytest.fixture
def without_teams(db: None) -> World:
    world = make_world(charged=False)
    for held in (UsageHour, AllocationHour, AllocationDay):
        held.objects.all().delete()
    TeamBinding.objects.all().delete()
    Team.objects.all().delete()
    return world


@pytest.mark.parametrize("path", ["/", "/teams/"])
def test_who_sees_all_teams_reads_that_there_is_none(without_teams: World, path: str) -> None:
    linked = f'<a href="/admin/">{NONE_YET}</a>'
    assert linked in text(without_teams.client("admin"), path)
    page = text(without_teams.client("finance"), path)
    assert NONE_YET in page
    assert linked not in page
    User.objects.filter(username="finance").update(is_staff=True)
    assert linked in text(without_teams.client("finance"), path)


@pytest.mark.parametrize("path", ["/", "/teams/"])
def test_others_read_that_they_belong_to_none(without_teams: World, path: str) -> None:
    page = text(without_teams.client("guest"), path)
    assert NOT_YOURS in page
    assert NONE_YET not in page


def test_whoever_has_a_team_reads_neither(world: World) -> None:
    page = text(world.client("admin"), "/")
    assert NONE_YET not in page
    assert NOT_YOURS not in page
