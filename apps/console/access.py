"""Who may see what on a page. What a reader may not see is 404, as if it did not exist."""

from __future__ import annotations

from django import forms
from django.http import Http404, HttpRequest
from django.shortcuts import get_object_or_404

from apps.accounts.models import Team, User
from apps.accounts.selectors import sees_all_teams, visible_teams


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


def named_or_404(form: forms.BaseForm) -> None:
    """404 when a filter names what does not exist or may not be seen; other faults are for the page to show."""
    if any(error.code == "not_found" for errors in form.errors.as_data().values() for error in errors):
        raise Http404
