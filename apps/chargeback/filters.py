"""The filter of charges, shared by page, CSV and REST: usage's filter with the basis of the charge."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.chargeback.selectors import Basis
from apps.usage.filters import UsageForm


class ChargesForm(UsageForm):
    default_window = "30d"

    basis = forms.ChoiceField(
        label=_("Basis"),
        required=False,
        choices=[("", _("reserved")), ("reserved", _("reserved")), ("admitted", _("admitted"))],
    )

    @property
    def chosen_basis(self) -> Basis:
        """Only after `is_valid()`."""
        return "admitted" if self.cleaned_data["basis"] == "admitted" else "reserved"
