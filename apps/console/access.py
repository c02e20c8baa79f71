"""Who may see what on a page. What a reader may not see is 404, as if it did not exist."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.http import Http404, HttpRequest
from django.shortcuts import get_object_or_404

from apps.accounts.models import Team, User
from apps.accounts.selectors import sees_all_teams, visible_teams
from apps.fleet.selectors import BindingIndex
from apps.observations.models import Workload


def reader(request: HttpRequest) -> User:
    """The signed-in user: LoginRequiredMiddleware lets nobody else in."""
    if not isinstance(request.user, User):
        raise Http404
    return request.user


def readable_team_ids(request: HttpRequest) -> list[int] | None:
    """None for those who read every team (and work of no team), else the ids of the own ones."""
    user = reader(request)
    return None if sees_all_teams(user) else list(visible_teams(user).values_list("pk", flat=True))


def team_or_404(request: HttpRequest, slug: str) -> Team:
    return get_object_or_404(visible_teams(reader(request)), slug=slug)


def owner_or_404(
    *, workload: Workload, queue: str, team_ids: Collection[int] | None, at: datetime
) -> int | None:
    """The team that owns this work now; 404 when the reader may not see it. `queue`: where it leads."""
    team_id = BindingIndex.load(at, clusters=[workload.cluster_id]).team_id_for(
        workload.cluster_id,
        namespace=workload.namespace,
        queue_name=workload.queue_name,
        queue=queue,
        volcano=workload.kind == Workload.Kind.POD_GROUP,
    )
    if team_ids is not None and team_id not in team_ids:
        raise Http404
    return team_id
