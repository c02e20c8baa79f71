"""Who may see what. `visible_teams` is the one question every page and API route asks first."""

from __future__ import annotations

from typing import Literal

from django.contrib.auth.models import AnonymousUser
from django.db.models import QuerySet

from apps.accounts.models import Membership, Team, User


def sees_all_teams(user: User | AnonymousUser) -> bool:
    """Platform admins and finance read every team; everybody else only the own ones."""
    return isinstance(user, User) and (user.is_platform_admin or user.is_finance)


def visible_teams(user: User | AnonymousUser) -> QuerySet[Team]:
    """The teams whose work and quota `user` may read. Anything else must look as if it did not exist (404)."""
    if sees_all_teams(user):
        return Team.objects.all()
    if not isinstance(user, User):
        return Team.objects.none()
    return Team.objects.filter(memberships__user=user).distinct()


def led_teams(user: User | AnonymousUser) -> QuerySet[Team]:
    """The teams for which `user` may ask for changes: the led ones, or all for a platform admin."""
    if not isinstance(user, User):
        return Team.objects.none()
    if user.is_platform_admin:
        return Team.objects.all()
    return Team.objects.filter(memberships__user=user.pk, memberships__role=Membership.Role.LEAD).distinct()


def visible_team_ids(user: User | AnonymousUser) -> list[int] | None:
    """What selectors take as `team_ids`: None for whoever sees all teams and unowned work, else the own teams."""
    return None if sees_all_teams(user) else list(visible_teams(user).values_list("pk", flat=True))


def role_in(user: User, team: Team) -> Literal["lead", "member", ""]:
    """The membership of `user` in `team`, "" when there is none."""
    membership = Membership.objects.filter(user=user, team=team).first()
    if membership is None:
        return ""
    return "lead" if membership.role == Membership.Role.LEAD else "member"
