"""The filter of change requests, shared by page, CSV and REST. Input: query parameters, and the requests that the reader may
see; output: those that match.

Invariant: a filter only narrows. A team that the reader may not see is "not_found"; any other name that is somebody
else's leaves nothing, like one that does not exist."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Team, User
from apps.changes.models import FINAL_STATES, ChangeRequest, State
from apps.changes.selectors import awaits
from apps.core.windows import WindowError, parse_instant
from apps.fleet.filters import TeamScopeForm
from apps.fleet.models import Cluster
from apps.fleet.selectors import UNBOUND

OPEN, CLOSED = "open", "closed"
KINDS = ("ClusterQueue", "Cohort", "LocalQueue", "VolcanoQueue")
STATES = [("", _("all")), (OPEN, _("not closed")), (CLOSED, _("closed")), *State.choices]


class ChangeFilterForm(TeamScopeForm):
    """`team` "-" is the platform itself. `state` "open", "closed": all such states. `kind`, `namespace`, `name`: of an object that is
    edited. `from`, `to` (exclusive): when it was asked for. `mine`: asked for by the reader; `inbox`: waits for the
    reader's decision. `team_ids`: give `team_ids_of_requests`."""

    state = forms.ChoiceField(label=_("State"), required=False, choices=STATES)
    origin = forms.ChoiceField(
        label=_("Origin"), required=False, choices=[("", _("all")), *ChangeRequest.Origin.choices]
    )
    kind = forms.ChoiceField(
        label=_("Kind of object"), required=False, choices=[("", _("all")), *((kind, kind) for kind in KINDS)]
    )
    namespace = forms.CharField(label=_("Namespace"), required=False, max_length=63)
    name = forms.CharField(label=_("Name of object"), required=False, max_length=253)
    requester = forms.CharField(label=_("Asked for by"), required=False, max_length=150)
    mine = forms.BooleanField(label=_("Mine"), required=False)
    inbox = forms.BooleanField(label=_("Waits for my decision"), required=False)

    def clusters(self) -> QuerySet[Cluster]:
        """Those that are not collected any more have requests too."""
        return Cluster.objects.all()

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        for name in ("from", "to"):
            try:
                cleaned[name] = parse_instant(cleaned[name]) if cleaned.get(name) else None
            except WindowError as error:
                self.add_error(name, ValidationError(str(error), code="invalid"))
        return cleaned

    def narrowed(
        self, requests: QuerySet[ChangeRequest], reader: User | AnonymousUser
    ) -> QuerySet[ChangeRequest]:
        """Only after `is_valid()`."""
        chosen = self.cleaned_data
        found = requests.filter(self._wanted())
        if chosen["mine"]:
            found = found.filter(created_by_id=reader.pk)
        return found.filter(awaits(reader)) if chosen["inbox"] else found

    def _wanted(self) -> Q:
        chosen = self.cleaned_data
        columns = {
            "cluster": "cluster__slug",
            "origin": "origin",
            "requester": "created_by__username",
            "from": "created_at__gte",
            "to": "created_at__lt",
        }
        found = Q(**{column: chosen[name] for name, column in columns.items() if chosen[name]})
        if chosen["team"]:
            found &= Q(team=None) if chosen["team"] == UNBOUND else Q(team__slug=chosen["team"])
        if chosen["state"] in (OPEN, CLOSED):
            final = Q(state__in=list(FINAL_STATES))
            found &= final if chosen["state"] == CLOSED else ~final
        elif chosen["state"]:
            found &= Q(state=chosen["state"])
        if edit := {part: chosen[part] for part in ("kind", "namespace", "name") if chosen[part]}:
            found &= Q(edits__contains=[edit])
        return found


# `from` is a keyword of Python, so that the two fields cannot be written in the class body.
ChangeFilterForm.base_fields["from"] = forms.CharField(label=_("From"), required=False, max_length=40)
ChangeFilterForm.base_fields["to"] = forms.CharField(label=_("To (exclusive)"), required=False, max_length=40)


def team_ids_of_requests(user: User) -> list[int] | None:
    """The teams whose requests `user` may name; None: every team. Narrower than what finance reads elsewhere."""
    if user.is_platform_admin:
        return None
    return list(Team.objects.filter(memberships__user=user).values_list("pk", flat=True))
