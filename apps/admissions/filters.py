"""The filter of waiting work, shared by page, CSV and REST. Input: query parameters; output: `Criteria`, `Window`.

Use: `form = WaitingForm(request.GET, now=now, team_ids=team_ids)`; `form.is_valid()`; `form.criteria`,
`form.time_window`, `form.grouping`. A team that the reader may not see is the same error (code "not_found") as one that
does not exist.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from apps.admissions.labels import CAUSE_LABELS
from apps.admissions.selectors import By, Criteria
from apps.core.window_form import WindowForm
from apps.fleet.filters import readable_team
from apps.fleet.models import Cluster

KINDS = [("", _("any")), ("Workload", "Workload"), ("PodGroup", "PodGroup"), ("Pod", "Pod")]


class ClusterWindowForm(WindowForm):
    """A window of one cluster, or of all."""

    cluster = forms.CharField(label=_("Cluster"), required=False, max_length=60)

    def __init__(
        self, data: Mapping[str, Any], *, now: datetime, team_ids: Collection[int] | None = None
    ) -> None:
        super().__init__(data, now=now)
        self.team_ids = team_ids

    def clean_cluster(self) -> str:
        slug: str = self.cleaned_data["cluster"]
        if slug and not Cluster.objects.filter(slug=slug).exists():
            raise ValidationError(_("There is no cluster of this name."), code="not_found")
        return slug


class ScopedForm(ClusterWindowForm):
    """Cluster and team, checked against what exists and what the reader may see."""

    team = forms.CharField(label=_("Team"), required=False, max_length=80)
    queue = forms.CharField(label=_("Queue"), required=False, max_length=253)

    def clean_team(self) -> str:
        return readable_team(self.cleaned_data["team"], self.team_ids)


class WaitingForm(ScopedForm):
    """Every field is optional; an empty query is valid and means all visible waiting work."""

    default_window = "7d"

    cause = forms.ChoiceField(
        label=_("Cause"), required=False, choices=[("", _("any")), *CAUSE_LABELS.items()]
    )
    reason = forms.CharField(label=_("Reason"), required=False, max_length=120)
    kind = forms.ChoiceField(label=_("Kind"), required=False, choices=KINDS)
    q = forms.CharField(label=_("Search"), required=False, max_length=200)
    deactivated = forms.BooleanField(label=_("Also deactivated work"), required=False)
    by = forms.ChoiceField(
        label=_("Group by"),
        required=False,
        choices=[("", _("reason")), ("reason", _("reason")), ("cause", _("cause"))],
    )

    @property
    def criteria(self) -> Criteria:
        """Only after `is_valid()`."""
        data = self.cleaned_data
        return Criteria(
            cluster=data["cluster"],
            team=data["team"],
            queue=data["queue"],
            cause=data["cause"],
            reason=data["reason"],
            kind=data["kind"],
            q=data["q"],
            deactivated=data["deactivated"],
        )

    @property
    def grouping(self) -> By:
        return "cause" if self.cleaned_data["by"] == "cause" else "reason"
