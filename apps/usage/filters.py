"""Filters of usage, of capacity over time and of a node's hours, shared by page, CSV and REST.

Input: query parameters; output: a `Question` or criteria, windows and steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from apps.admissions.filters import ScopedForm
from apps.admissions.sizes import SIZES
from apps.core.window_form import WindowForm
from apps.core.windows import Window
from apps.usage.admission_reading import AdmissionCriteria
from apps.usage.fleet import Step, step_of
from apps.usage.models import WaitHour
from apps.usage.reports import HOURS_UP_TO, KEYS, UNIT_KEYS, Question, edges_of
from apps.usage.reports import Step as ReportStep
from apps.usage.waits import WaitBy, WaitRow

BUCKETS = [("", _("automatic")), ("hour", _("hour")), ("day", _("day")), ("month", _("month"))]
BY_HOUR = HOURS_UP_TO, _("By hour a window is at most 62 days long.")
# How far back a trend looks by itself: about as many points as a chart shows well.
_LOOKS_BACK = {"": "14d", "hour": "3d", "day": "60d", "month": "730d"}


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
        self.longest = BY_HOUR if bucket == "hour" else None
        return super().clean()


class NodeHoursForm(WindowForm):
    """The hours of one node's devices, at most a week of them."""

    longest = timedelta(days=7), _("At most seven days of a node's devices are shown.")

    node = forms.CharField(label=_("Node"), max_length=253)


class UsageForm(ScopedForm):
    """What was held and used: by which keys, in which steps, and narrowed to which."""

    default_window = "7d"

    cost_centre = forms.CharField(label=_("Cost centre"), required=False, max_length=40)
    kind = forms.CharField(label=_("Kind of work"), required=False, max_length=20)
    flavor = forms.CharField(label=_("Flavor"), required=False, max_length=253)
    priority_class = forms.CharField(label=_("Priority class"), required=False, max_length=253)
    borrowed = forms.ChoiceField(
        label=_("Borrowed"), required=False, choices=[("", _("any")), ("true", _("yes")), ("false", _("no"))]
    )
    resource = forms.CharField(label=_("Resource"), required=False, max_length=253)
    model = forms.CharField(label=_("Model"), required=False, max_length=120)
    sharing_mode = forms.CharField(label=_("Sharing mode"), required=False, max_length=20)
    profile = forms.CharField(label=_("Profile"), required=False, max_length=120)
    group_by = forms.CharField(
        label=_("Group by"),
        required=False,
        max_length=200,
        help_text=_(
            "Keys with commas between: cluster, team, cost_centre, kind, queue, flavor, priority_class, borrowed. "
            "Default: team. Resource, model, sharing_mode and profile are always part of the key."
        ),
    )
    step = forms.ChoiceField(
        label=_("Step"),
        required=False,
        choices=[("", _("the whole window")), ("hour", _("hour")), ("day", _("day")), ("month", _("month"))],
    )
    nominal = forms.BooleanField(label=_("Also what was promised"), required=False)
    format = forms.ChoiceField(
        label=_("Format"), required=False, choices=[("", "json"), ("json", "json"), ("csv", "csv")]
    )

    def clean_group_by(self) -> frozenset[str]:
        given = [name.strip() for name in self.cleaned_data["group_by"].split(",") if name.strip()]
        if unknown := [name for name in given if name not in KEYS + UNIT_KEYS]:
            raise ValidationError(
                _("There is no key %(unknown)s; there are: %(keys)s.")
                % {"unknown": ", ".join(unknown), "keys": ", ".join(KEYS + UNIT_KEYS)},
                code="unknown",
            )
        return frozenset(given or ["team"]) & frozenset(KEYS)

    def clean(self) -> dict[str, Any]:
        self.longest = BY_HOUR if self.cleaned_data.get("step") == "hour" else None
        return super().clean()

    def question(self, months: Callable[[Window], Sequence[datetime]]) -> Question:
        """Only after `is_valid()`. `months`: bounds of the billing periods that cover a window."""
        data, window = self.cleaned_data, self.time_window
        step: ReportStep = data["step"]
        return Question(
            step=step,
            edges=edges_of(step, window, months(window) if step == "month" else ()),
            keys=data["group_by"],
            narrowed={name: data[name] for name in KEYS + UNIT_KEYS if data[name]},
            team_ids=self.team_ids,
            nominal=data["nominal"],
        )


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
