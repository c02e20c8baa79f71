"""Who may do what to a change request. Input: a person and a request; output: what they are to it.

Invariants
- The requester is whoever made the request and may still ask for its team: what others change nobody could approve
  with four eyes.
- An approver is a platform admin other than the requester. With PORTAL_SELF_APPROVAL the requester may be one too.
- Members of the team read its requests. What somebody may not read does not exist for them.
"""

from __future__ import annotations

from typing import Literal

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db.models import Q, QuerySet

from apps.accounts.models import Team, User
from apps.accounts.selectors import led_teams
from apps.changes.models import ChangeRequest

# "admin" is any platform admin, "approver" one who may decide on this request.
Standing = Literal["requester", "admin", "approver", "portal"]


def visible_requests(user: User | AnonymousUser) -> QuerySet[ChangeRequest]:
    """The requests that `user` may read: all for platform admins, else those of teams that they are in. Finance reads
    none, unless it is in a team."""
    found = ChangeRequest.objects.select_related("cluster", "team", "created_by", "decided_by")
    if not isinstance(user, User) or not user.is_active:
        return found.none()
    if user.is_platform_admin:
        return found
    return found.filter(Q(team__in=Team.objects.filter(memberships__user=user)))


def may_ask_for(user: User | AnonymousUser, team: Team | None) -> bool:
    """Leads ask for their team; platform admins for any, and for the platform itself (None)."""
    if not isinstance(user, User) or not user.is_active:
        return False
    if user.is_platform_admin:
        return True
    return team is not None and led_teams(user).filter(pk=team.pk).exists()


def standings(user: User | None, request: ChangeRequest) -> frozenset[Standing]:
    """What `user` is to `request`; None is the portal's worker."""
    if user is None:
        return frozenset({"portal"})
    if not user.is_active:
        return frozenset()
    found: set[Standing] = set()
    own = request.created_by_id == user.pk
    if own and may_ask_for(user, request.team):
        found.add("requester")
    if user.is_platform_admin:
        found.add("admin")
        if not own or settings.SELF_APPROVAL:
            found.add("approver")
    return frozenset(found)
