"""Who may see what. `visible_teams` is the one question every page and API route asks first."""

from __future__ import annotations

from django.db.models import QuerySet

from apps.accounts.models import Membership, Team, User


def sees_all_teams(user: User) -> bool:
    """Platform admins and finance read every team; everybody else only the own ones."""
    return bool(user.is_authenticated and (user.is_platform_admin or user.is_finance))


def visible_teams(user: User) -> QuerySet[Team]:
    """The teams whose work and quota `user` may read. Anything else must look as if it did not exist (404)."""
    if sees_all_teams(user):
        return Team.objects.all()
    if not user.is_authenticated:
        return Team.objects.none()
    return Team.objects.filter(memberships__user=user).distinct()


def led_teams(user: User) -> QuerySet[Team]:
    """The teams for which `user` may ask for changes: the led ones, or all for a platform admin."""
    if user.is_authenticated and user.is_platform_admin:
        return Team.objects.all()
    return Team.objects.filter(memberships__user=user.pk, memberships__role=Membership.Role.LEAD).distinct()
