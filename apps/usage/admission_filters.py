"""The filter of what kept work from running, shared by pages, CSV and REST. Input: query parameters; output:
`AdmissionCriteria`, a window and a grouping. Use like `WaitingForm`."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.admissions.filters import ScopedForm
from apps.admissions.labels import CAUSE_LABELS, LAYER_LABELS
from apps.usage.admission_reading import AdmissionCriteria
from apps.usage.blocked import BlockBy
from apps.usage.outcomes import OutcomeBy

GROUPS = [
    ("", _("cause")),
    ("cause", _("cause")),
    ("layer", _("layer")),
    ("reason", _("reason")),
    ("queue", _("queue")),
    ("team", _("team")),
    ("flavor", _("flavor")),
    ("cluster", _("cluster")),
]
LISTED_UP_TO = timedelta(days=31)


class BlockedForm(ScopedForm):
    """Every field is optional. `resource` "" counts pieces of work, else units of that device."""

    default_window = "7d"

    cause = forms.ChoiceField(
        label=_("Cause"), required=False, choices=[("", _("any")), *CAUSE_LABELS.items()]
    )
    layer = forms.ChoiceField(
        label=_("Layer"), required=False, choices=[("", _("any")), *LAYER_LABELS.items()]
    )
    reason = forms.CharField(label=_("Reason"), required=False, max_length=120)
    flavor = forms.CharField(label=_("Flavor"), required=False, max_length=253)
    resource = forms.CharField(label=_("Resource"), required=False, max_length=253)
    by = forms.ChoiceField(label=_("Group by"), required=False, choices=GROUPS)

    @property
    def criteria(self) -> AdmissionCriteria:
        """Only after `is_valid()`."""
        names = ("cluster", "team", "queue", "flavor", "layer", "cause", "reason", "resource")
        return AdmissionCriteria(**{name: self.cleaned_data[name] for name in names})

    @property
    def grouping(self) -> BlockBy:
        return cast(BlockBy, self.cleaned_data["by"] or "cause")


class BlockedWorkForm(BlockedForm):
    """The pieces of work themselves: their lives are read, so the window is at most LISTED_UP_TO."""

    longest = LISTED_UP_TO, _("Choose at most 31 days: workloads are listed one by one.")


class OutcomeForm(ScopedForm):
    """What became of work, together or by one of its groupings."""

    default_window = "7d"

    by = forms.ChoiceField(
        label=_("Group by"),
        required=False,
        choices=[("", _("queue")), ("queue", _("queue")), ("team", _("team")), ("cluster", _("cluster"))],
    )

    @property
    def criteria(self) -> AdmissionCriteria:
        """Only after `is_valid()`."""
        return AdmissionCriteria(**{name: self.cleaned_data[name] for name in ("cluster", "team", "queue")})

    @property
    def grouping(self) -> OutcomeBy:
        return cast(OutcomeBy, self.cleaned_data["by"] or "queue")
