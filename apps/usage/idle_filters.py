"""The filters of what idles and of what there was, shared by page, CSV and REST. Input: query parameters; output: a window, and
of what idles a team and a queue."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils.translation import gettext_lazy as _

from apps.admissions.filters import ClusterWindowForm, ScopedForm

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
