"""The filter of the audit trail, shared by page, CSV and REST. Input: query parameters; output: the entries that match.

Invariants: a filter only narrows; names are those that the trail holds, which may be of what is no more. `ACTIONS` are all
that the portal records (a test compares)."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from apps.changes.audit_signals import DEEDS, WATCHED
from apps.changes.models import AuditEntry
from apps.changes.requests import SUBJECT
from apps.changes.transitions import TABLE
from apps.core.windows import WindowError, parse_instant
from apps.fleet.filters import ClusterForm
from apps.fleet.models import Cluster

ACTIONS: tuple[str, ...] = (
    "change.create",
    *(f"change.{name}" for name in TABLE),
    "change.drift",
    "change.drift_over",
    *(f"{watched.name}.{deed}" for watched in WATCHED.values() for deed in DEEDS),
    "trail.verify",
)
KINDS: tuple[str, ...] = (SUBJECT, *(model.__name__ for model in WATCHED), "AuditTrail")
_COLUMNS = {
    "cluster": "cluster_slug",
    "who": "actor_name",
    "action": "action",
    "kind": "subject_kind",
    "id": "subject_id",
    "team": "team_slug",
    "outcome": "outcome",
    "from": "at__gte",
    "to": "at__lt",
    "about": "subject_label__icontains",
    "q": "reason__icontains",
}


class AuditForm(ClusterForm):
    """`who`: a user name as it was then, "portal" for the portal itself. `kind` and `id`: what was done to; `about`: a part
    of its name; `q`: a part of the reason. `from`, `to` (exclusive): when it was done."""

    who = forms.CharField(label=_("Who"), required=False, max_length=150)
    action = forms.ChoiceField(
        label=_("Deed"), required=False, choices=[("", _("all")), *((name, name) for name in ACTIONS)]
    )
    kind = forms.ChoiceField(
        label=_("Kind"), required=False, choices=[("", _("all")), *((kind, kind) for kind in KINDS)]
    )
    id = forms.CharField(label=_("Identifier"), required=False, max_length=320)
    about = forms.CharField(label=_("Name"), required=False, max_length=320)
    team = forms.CharField(label=_("Team"), required=False, max_length=80)
    outcome = forms.ChoiceField(
        label=_("Outcome"),
        required=False,
        choices=[("", _("all")), ("done", _("done")), ("refused", _("refused"))],
    )
    q = forms.CharField(label=_("Text in the reason"), required=False, max_length=200)

    def clusters(self) -> QuerySet[Cluster]:
        """Those that are not collected any more have entries too."""
        return Cluster.objects.all()

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        for name in ("from", "to"):
            try:
                cleaned[name] = parse_instant(cleaned[name]) if cleaned.get(name) else None
            except WindowError as error:
                self.add_error(name, ValidationError(str(error), code="invalid"))
        return cleaned

    def keep(self, entries: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        """Only after `is_valid()`."""
        chosen = self.cleaned_data
        return entries.filter(**{column: chosen[name] for name, column in _COLUMNS.items() if chosen[name]})


# `from` is a keyword of Python, so that the two fields cannot be written in the class body.
AuditForm.base_fields["from"] = forms.CharField(label=_("From"), required=False, max_length=40)
AuditForm.base_fields["to"] = forms.CharField(label=_("To (exclusive)"), required=False, max_length=40)
