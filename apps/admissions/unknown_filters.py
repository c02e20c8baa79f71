"""The filter of unknown texts, shared by page, CSV and REST. Input: query parameters; output: window and origin."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from apps.core.window_form import WindowForm
from apps.fleet.models import Cluster

ORIGIN_LABELS = {"condition": _("conditions and checks"), "event": _("events"), "pod": _("pods")}


class UnknownForm(WindowForm):
    """Every field is optional; an empty query means the last 7 days of all clusters."""

    default_window = "7d"

    cluster = forms.CharField(label=_("Cluster"), required=False, max_length=60)
    origin = forms.ChoiceField(
        label=_("Read from"), required=False, choices=[("", _("any")), *ORIGIN_LABELS.items()]
    )

    def __init__(
        self, data: Mapping[str, Any], *, now: datetime, team_ids: Collection[int] | None = None
    ) -> None:
        super().__init__(data, now=now)

    def clean_cluster(self) -> str:
        slug: str = self.cleaned_data["cluster"]
        if slug and not Cluster.objects.filter(slug=slug).exists():
            raise ValidationError(_("There is no cluster of this name."), code="not_found")
        return slug
