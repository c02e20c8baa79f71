"""The filter of all workloads, waiting or not. Input: query parameters; output: `criteria`."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.admissions.workloads import WorkloadCriteria
from apps.fleet.filters import TeamScopeForm
from apps.observations.models import Workload

_ANY = [("", _("any"))]


class WorkloadForm(TeamScopeForm):
    """Every field is optional."""

    queue = forms.CharField(label=_("Queue"), required=False, max_length=253)
    namespace = forms.CharField(label=_("Namespace"), required=False, max_length=63)
    state = forms.ChoiceField(label=_("State"), required=False, choices=[*_ANY, *Workload.State.choices])
    kind = forms.ChoiceField(label=_("Kind"), required=False, choices=[*_ANY, *Workload.Kind.choices])

    @property
    def criteria(self) -> WorkloadCriteria:
        """Only after `is_valid()`."""
        names = ("team", "state", "kind", "namespace", "queue")
        return WorkloadCriteria(**{name: self.cleaned_data[name] for name in names})
