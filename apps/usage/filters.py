"""Filters of usage, of capacity over time and of a node's hours, shared by page, CSV and REST.

Input: query parameters; output: `UsageCriteria`, windows and steps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.admissions.filters import ScopedForm
from apps.admissions.sizes import SIZES
from apps.core.window_form import WindowForm
from apps.core.windows import Bucket, choose_bucket
from apps.usage.admission_reading import AdmissionCriteria
from apps.usage.fleet import Step, step_of
from apps.usage.models import WaitHour
from apps.usage.selectors import UsageBy, UsageCriteria
from apps.usage.waits import WaitBy, WaitRow

GROUPS = [
    ("", _("team")),
    ("team", _("team")),
    ("queue", _("queue")),
    ("flavor", _("flavor")),
    ("resource", _("resource")),
    ("cluster", _("cluster")),
]

BUCKETS = [("", _("automatic")), ("hour", _("hour")), ("day", _("day")), ("month", _("month"))]
# How far back a trend looks by itself: about as many points as a chart shows well.
_LOOKS_BACK = {"": "14d", "hour": "3d", "day": "60d", "month": "730d"}
_HOURS_UP_TO = timedelta(days=62)


class TrendForm(WindowForm):
    """Capacity over time: `bucket` hour, day or month; `model` and `sharing_mode` narrow the pools."""

    bucket = forms.ChoiceField(label=_("Bucket"), required=False, choices=BUCKETS)
    model = forms.CharField(label=_("Model"), required=False, max_length=120)
    sharing_mode = forms.CharField(label=_("Sharing mode"), required=False, max_length=20)

    @property
    def step(self) -> Step:
        """Only after `is_valid()`. Without a bucket what a chart of the window can show."""
        return cast(Step, self.cleaned_data.get("bucket") or step_of(self.time_window))

    def clean(self) -> dict[str, Any]:
        bucket = self.cleaned_data.get("bucket", "")
        self.default_window = _LOOKS_BACK[bucket]
        cleaned = super().clean()
        if not self.errors and bucket == "hour" and self.time_window.length > _HOURS_UP_TO:
            self.add_error("window", _("By hour a window is at most 62 days long."))
        return cleaned


class NodeHoursForm(WindowForm):
    """The hours of one node's devices, at most a week of them."""

    node = forms.CharField(label=_("Node"), max_length=253)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if not self.errors and self.time_window.length > timedelta(days=7):
            self.add_error("window", _("At most seven days of a node's devices are shown."))
        return cleaned


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


WAIT_GROUPS = [
    ("", _("queue")),
    ("queue", _("queue")),
    ("team", _("team")),
    ("flavor", _("flavor")),
    ("size", _("devices asked for")),
    ("cluster", _("cluster")),
]


class WaitForm(ScopedForm):
    """How long work waited: which waits, and by what they are grouped."""

    default_window = "28d"

    flavor = forms.CharField(label=_("Flavor"), required=False, max_length=253)
    size = forms.ChoiceField(
        label=_("Devices asked for"),
        required=False,
        choices=[("", _("any")), *((size, size) for size in SIZES)],
    )
    which = forms.ChoiceField(
        label=_("Which waits"), required=False, choices=[("", _("any")), *WaitHour.Which.choices]
    )
    by = forms.ChoiceField(
        label=_("Group by"),
        required=False,
        choices=WAIT_GROUPS,
    )

    @property
    def criteria(self) -> AdmissionCriteria:
        """Only after `is_valid()`."""
        names = ("cluster", "team", "queue", "flavor", "size")
        return AdmissionCriteria(**{name: self.cleaned_data[name] for name in names})

    @property
    def grouping(self) -> WaitBy:
        return cast(WaitBy, self.cleaned_data["by"] or "queue")

    def keep(self, rows: list[WaitRow]) -> list[WaitRow]:
        """Those of the chosen kind of waits."""
        which = self.cleaned_data["which"]
        return [row for row in rows if which in ("", row.which)]
