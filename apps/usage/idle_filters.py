"""The filters of what idles, of what there was and of the work behind hours, shared by page, CSV and REST. Input: query
parameters; output: a window, and of what idles or held a team and a queue."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.admissions.filters import ClusterWindowForm, ScopedForm
from apps.fleet.models import Cluster
from apps.usage.allocation import Basis

LISTED_AT_MOST = timedelta(hours=24)
AT_MOST = timedelta(days=92)
"""Hours are read one by one."""


class SupplyForm(ClusterWindowForm):
    """What there was, by kind of unit."""

    default_window = "7d"

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if not self.errors and self.time_window.length > AT_MOST:
            self.add_error("window", _("Choose at most 92 days: hours are read one by one."))
        return cleaned


class IdleForm(SupplyForm, ScopedForm):
    """What idles, by queue."""


class HeldWorkForm(ScopedForm):
    """Which work held what: one by one, of one cluster and at most a day."""

    default_window = "1h"

    cluster = forms.CharField(label=_("Cluster"), max_length=60)
    basis = forms.ChoiceField(
        label=_("Basis"),
        required=False,
        choices=[("", _("reserved quota")), ("reserved", _("reserved quota")), ("pod", _("bound pods"))],
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if not self.errors and self.time_window.length > LISTED_AT_MOST:
            self.add_error("window", _("Choose at most 24 hours: work is listed piece by piece."))
        return cleaned

    @property
    def chosen_basis(self) -> Basis:
        """Only after `is_valid()`."""
        return Basis(self.cleaned_data["basis"] or Basis.RESERVED)

    @property
    def chosen_cluster(self) -> Cluster:
        """Only after `is_valid()`. Also one that is collected no more: its past stays."""
        return Cluster.objects.get(slug=self.cleaned_data["cluster"])
