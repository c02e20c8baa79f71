"""Who sees which team: each role against own, foreign and led teams."""

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser

from apps.accounts.models import Membership, Team, User
from apps.accounts.selectors import led_teams, role_in, sees_all_teams, visible_team_ids, visible_teams

pytestmark = pytest.mark.django_db


@pytest.fixture
def teams() -> dict[str, Team]:
    return {slug: Team.objects.create(slug=slug, name=slug.title()) for slug in ("own", "led", "foreign")}


def person(role: str, teams: dict[str, Team], **extra: Any) -> User:
    user = User.objects.create_user(f"u-{role}-{len(extra)}", password="demo", role=role, **extra)
    Membership.objects.create(user=user, team=teams["own"])
    Membership.objects.create(user=user, team=teams["led"], role=Membership.Role.LEAD)
    return user


@pytest.mark.parametrize(
    ("role", "visible", "led"),
    [
        ("viewer", {"own", "led"}, {"led"}),
        ("finance", {"own", "led", "foreign"}, {"led"}),
        ("platform_admin", {"own", "led", "foreign"}, {"own", "led", "foreign"}),
    ],
)
def test_teams_follow_role_and_membership(
    teams: dict[str, Team], role: str, visible: set[str], led: set[str]
) -> None:
    user = person(role, teams)
    assert {team.slug for team in visible_teams(user)} == visible
    assert {team.slug for team in led_teams(user)} == led
    assert sees_all_teams(user) is (role != "viewer")


def test_a_superuser_sees_all_whatever_the_role_says(teams: dict[str, Team]) -> None:
    user = person("viewer", teams, is_superuser=True)
    assert sees_all_teams(user)
    assert visible_team_ids(user) is None
    assert led_teams(user).count() == 3


def test_nobody_sees_nothing(teams: dict[str, Team]) -> None:
    nobody = AnonymousUser()
    assert not sees_all_teams(nobody)
    assert visible_team_ids(nobody) == []
    assert not visible_teams(nobody).exists()
    assert not led_teams(nobody).exists()


def test_team_ids_of_a_viewer_are_the_own_ones(teams: dict[str, Team]) -> None:
    assert set(visible_team_ids(person("viewer", teams)) or []) == {teams["own"].pk, teams["led"].pk}


def test_a_viewer_without_a_team_gets_an_empty_list_and_not_everything(teams: dict[str, Team]) -> None:
    assert visible_team_ids(User.objects.create_user("new")) == []


def test_role_in_a_team(teams: dict[str, Team]) -> None:
    user = person("viewer", teams)
    assert [role_in(user, teams[slug]) for slug in ("own", "led", "foreign")] == ["member", "lead", ""]
