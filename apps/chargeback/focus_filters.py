"""Which FOCUS file is wanted. Input: query parameters; output: the period and the format."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.chargeback.charge_filters import PeriodField
from apps.chargeback.focus_export import Format


class FocusForm(forms.Form):
    period = PeriodField()
    format = forms.ChoiceField(
        label=_("Format"), required=False, choices=[("", "csv"), *((one.value, one.value) for one in Format)]
    )

    def __init__(self, data: Any, *, now: datetime, team_ids: Collection[int] | None) -> None:
        """Takes what all shared filters do."""
        super().__init__(data)

    @property
    def chosen_format(self) -> Format:
        """Only after `is_valid()`."""
        return Format(self.cleaned_data["format"] or Format.CSV)
