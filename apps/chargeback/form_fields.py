"""Fields of the admin site's forms: what is kept as a list or an object is written as text. Input: text; output: the value."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.chargeback.factors import factor_lines, read_factors


class FactorsField(forms.CharField):
    """One line for each priority class: "urgent = 1.5"."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            label=gettext_lazy("Factors by priority class"),
            help_text=gettext_lazy(
                "One line for each priority class, such as “urgent = 1.5”. What held of a class costs its price times the factor; a class without a line has the factor 1."
            ),
            required=False,
            widget=forms.Textarea(attrs={"rows": 5, "cols": 60, "spellcheck": "false"}),
            **kwargs,
        )

    def prepare_value(self, value: Any) -> Any:
        return factor_lines(value) if isinstance(value, dict) else value

    def to_python(self, value: Any) -> Any:
        if isinstance(value, dict):
            return value
        found, faults = read_factors(value or "")
        if faults:
            raise ValidationError(faults)
        return found


class PercentsField(forms.CharField):
    """ "50, 80, 100"."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            label=gettext_lazy("Thresholds"),
            help_text=gettext_lazy(
                "Percents of the budget, from the lowest up, such as “50, 80, 100”. When a month's cost reaches one, the team's leads and finance are told, once."
            ),
            required=False,
            **kwargs,
        )

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(map(str, value)) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        if isinstance(value, list):
            return value
        return [_percent(part.strip()) for part in (value or "").split(",") if part.strip()]


def _percent(text: str) -> int:
    """Below 0 and above what there is are judged with the budget."""
    if not text.lstrip("-").isdecimal() or len(text) > 6 or text.count("-") > 1:
        raise ValidationError(_("“%(text)s” is no whole percent.") % {"text": text[:40]})
    return int(text)
