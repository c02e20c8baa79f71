"""Filters of change requests and of the audit trail, shared by pages and REST. Input: query parameters and the rows that
the reader may see; output: the rows that are kept.

Invariant: a filter only narrows; what it names and the reader may not see leaves nothing, or is "not_found"."""

from __future__ import annotations

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Team, User
from apps.changes.models import AuditEntry, ChangeRequest, State
from apps.fleet.filters import ClusterForm
from apps.fleet.selectors import UNBOUND

KINDS = ("ClusterQueue", "Cohort", "LocalQueue", "VolcanoQueue")
TIME_FORMATS = ["%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"]


class ChangeForm(ClusterForm):
    """`team` "-" is the platform itself. `object`: KIND/NAME, of a LocalQueue KIND/NAMESPACE/NAME. `inbox`: what
    waits for the reader."""

    team = forms.CharField(label=_("Team"), required=False, max_length=80)
    state = forms.ChoiceField(label=_("State"), required=False, choices=[("", _("all")), *State.choices])
    object = forms.CharField(label=_("Queue"), required=False, max_length=340)
    requester = forms.CharField(label=_("Asked by"), required=False, max_length=150)
    inbox = forms.BooleanField(label=_("Waits for me"), required=False)

    def clean_team(self) -> str:
        """Membership and not the reach of reading decides what requests are seen, so that only members may name it."""
        slug: str = self.cleaned_data["team"]
        known = Team.objects.filter(slug=slug)
        if self.team_ids is not None:
            known = known.filter(pk__in=list(self.team_ids))
        if slug and not (slug == UNBOUND and self.team_ids is None) and not known.exists():
            raise ValidationError(_("There is no team of this name."), code="not_found")
        return slug

    def clean_object(self) -> str:
        text: str = self.cleaned_data["object"].strip()
        if text and about(text) is None:
            raise ValidationError(_("Write KIND/NAME, or LocalQueue/NAMESPACE/NAME."))
        return text

    def keep(self, requests: QuerySet[ChangeRequest]) -> QuerySet[ChangeRequest]:
        """Only after `is_valid()`. `inbox` is for the caller, who knows the reader."""
        chosen = self.cleaned_data
        if chosen["cluster"]:
            requests = requests.filter(cluster__slug=chosen["cluster"])
        if chosen["team"]:
            named = Q(team=None) if chosen["team"] == UNBOUND else Q(team__slug=chosen["team"])
            requests = requests.filter(named)
        if chosen["state"]:
            requests = requests.filter(state=chosen["state"])
        if chosen["requester"]:
            requests = requests.filter(created_by__username=chosen["requester"])
        if chosen["object"]:
            requests = requests.filter(edits__contains=[about(chosen["object"])])
        return requests


def about(text: str) -> dict[str, str] | None:
    """What the edits of a queue contain: {"kind", "name"} and, of a LocalQueue, its namespace. None: not readable."""
    kind, *names = text.split("/")
    if kind not in KINDS or len(names) != (2 if kind == "LocalQueue" else 1) or not all(names):
        return None
    found = {"kind": kind, "name": names[-1]}
    return found | {"namespace": names[0]} if len(names) > 1 else found


class AuditForm(forms.Form):
    """Narrow the trail by who, what was done, to what and when (the portal's time zone)."""

    actor = forms.CharField(label=_("Who"), required=False, max_length=150)
    action = forms.CharField(label=_("Deed"), required=False, max_length=40)
    kind = forms.CharField(label=_("Kind"), required=False, max_length=40)
    subject = forms.CharField(label=_("What"), required=False, max_length=320)
    outcome = forms.ChoiceField(
        label=_("Outcome"),
        required=False,
        choices=[("", _("all")), ("done", _("done")), ("refused", _("refused"))],
    )
    since = forms.DateTimeField(label=_("From"), required=False, input_formats=TIME_FORMATS)
    until = forms.DateTimeField(label=_("Until"), required=False, input_formats=TIME_FORMATS)

    def keep(self, entries: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        """Only after `is_valid()`."""
        chosen = self.cleaned_data
        exact = {"actor": "actor_name", "action": "action", "kind": "subject_kind", "outcome": "outcome"}
        for name, column in exact.items():
            if chosen[name]:
                entries = entries.filter(**{column: chosen[name]})
        if chosen["subject"]:
            text = chosen["subject"]
            entries = entries.filter(Q(subject_id=text) | Q(subject_label__icontains=text))
        if chosen["since"]:
            entries = entries.filter(at__gte=chosen["since"])
        if chosen["until"]:
            entries = entries.filter(at__lt=chosen["until"])
        return entries


def team_ids_of_requests(user: User) -> list[int] | None:
    """The teams whose requests `user` may name; None: every team. Narrower than what finance reads elsewhere."""
    if user.is_platform_admin:
        return None
    return list(Team.objects.filter(memberships__user=user).values_list("pk", flat=True))
