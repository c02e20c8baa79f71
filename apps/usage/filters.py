"""The filter of usage, shared by page, CSV and REST. Input: query parameters; output: `UsageCriteria`, window."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.admissions.filters import ScopedForm
from apps.core.windows import Bucket, choose_bucket
from apps.usage.selectors import UsageBy, UsageCriteria

GROUPS = [
    ("", _("team")),
    ("team", _("team")),
    ("queue", _("queue")),
    ("flavor", _("flavor")),
    ("resource", _("resource")),
    ("cluster", _("cluster")),
]


class UsageForm(ScopedForm):
    """Use like WaitingForm: `UsageForm(request.GET, now=now, team_ids=team_ids)`."""

    default_window = "7d"

    flavor = forms.CharField(label=_("Flavor"), required=False, max_length=253)
    resource = forms.CharField(label=_("Resource"), required=False, max_length=253)
    by = forms.ChoiceField(label=_("Group by"), required=False, choices=GROUPS)
    bucket = forms.ChoiceField(
        label=_("Bucket"),
        required=False,
        choices=[("", _("automatic")), ("hour", _("hour")), ("day", _("day"))],
    )

    @property
    def criteria(self) -> UsageCriteria:
        """Only after `is_valid()`."""
        data = self.cleaned_data
        return UsageCriteria(
            cluster=data["cluster"],
            team=data["team"],
            queue=data["queue"],
            flavor=data["flavor"],
            resource=data["resource"],
        )

    @property
    def grouping(self) -> UsageBy:
        return self.cleaned_data["by"] or "team"

    @property
    def chosen_bucket(self) -> Bucket:
        text = self.cleaned_data["bucket"]
        return Bucket(text) if text else choose_bucket(self.time_window)
