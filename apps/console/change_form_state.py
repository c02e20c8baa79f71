"""A visit of the form of a change request: what is there, who asks, what is asked for so far. Input: a page and a
cluster; output: `Form`, 404 where an object is named that is not the reader's to change."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import uuid4

from django.http import Http404

from apps.accounts.models import Team, User
from apps.accounts.selectors import led_teams
from apps.changes.editable import Editable, place_of
from apps.changes.errors import Conflict, Fault
from apps.changes.form import Edited, Place
from apps.changes.models import ChangeRequest, State
from apps.changes.preview import Preview
from apps.console.change_form_request import Asked
from apps.console.frame import Page
from apps.fleet.models import Cluster
from apps.quotas.situation import load_scene
from apps.quotas.what_if_form import Json

EDITABLE = (State.DRAFT, State.CHECKED)


@dataclass(slots=True)
class Form:
    """One visit: the cluster as observed, what the reader may ask for, what is asked for so far."""

    page: Page
    user: User
    cluster: Cluster
    editable: Editable
    asked: Asked
    edits: list[Json]
    target: Edited | None = None
    present: ChangeRequest | None = None
    """The draft that is edited, None for a new request."""
    replaces: ChangeRequest | None = None
    version: int | None = None
    next_typed: str = ""
    key: str = field(default_factory=lambda: uuid4().hex)
    """Of this form: sent again with the same content, it asks for nothing more."""
    faults: list[Fault] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    conflict: Conflict | None = None
    preview: Preview | None = None

    @property
    def teams(self) -> list[Team]:
        return list(led_teams(self.user).order_by("name"))


def asks_for(user: User) -> list[int] | None:
    """Whose objects `user` may name in a request: None for everybody's."""
    return None if user.is_platform_admin else list(led_teams(user).values_list("pk", flat=True))


def opened(page: Page, user: User, cluster: Cluster) -> Form:
    editable = Editable.of(load_scene(now=page.now, cluster=cluster), asks_for(user))
    form = Form(page, user, cluster, editable, Asked(), [])
    if named := page.request.GET.get("object", ""):
        place = place_of(named)
        form.target = editable.find(place) if place is not None else None
        if form.target is None:
            raise Http404
    return form


def first_edited(form: Form) -> Edited | None:
    """The first edited object that can still be edited."""
    found = (form.editable.find(Place.of(edit)) for edit in form.edits)
    return next((one for one in found if one is not None), None)
