"""The filters of what idles, of what there was and of the work behind hours, shared by page, CSV and REST. Input: query
parameters; output: a window, and of what idles or held a team and a queue."""

from __future__ import annotations

from datetime import timedelta

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.admissions.filters import ClusterWindowForm, ScopedForm
from apps.fleet.models import Cluster
from apps.usage.allocation import Basis


class SupplyForm(ClusterWindowForm):
    """What there was, by kind of unit."""

    default_window = "7d"
    longest = timedelta(days=92), _("Choose at most 92 days: hours are read one by one.")


class IdleForm(SupplyForm, ScopedForm):
    """What idles, by queue."""


class HeldWorkForm(ScopedForm):
    """Which work held what: one by one, of one cluster and at most a day."""

    default_window = "1h"
    longest = timedelta(hours=24), _("Choose at most 24 hours: work is listed piece by piece.")

    cluster = forms.CharField(label=_("Cluster"), max_length=60)
    basis = forms.ChoiceField(
        label=_("Basis"),
        required=False,
        choices=[("", _("reserved quota")), ("reserved", _("reserved quota")), ("pod", _("bound pods"))],
    )

    @property
    def chosen_basis(self) -> Basis:
        """Only after `is_valid()`."""
        return Basis(self.cleaned_data["basis"] or Basis.RESERVED)

    @property
    def chosen_cluster(self) -> Cluster:
        """Only after `is_valid()`. Also one that is collected no more: its past stays."""
        return Cluster.objects.get(slug=self.cleaned_data["cluster"])
