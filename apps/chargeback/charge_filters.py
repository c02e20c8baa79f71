"""Filters of charges and statements, shared by pages, CSV and REST. Input: query parameters; output: `ChargeCriteria`."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from apps.chargeback.charge_lines import ChargeCriteria
from apps.chargeback.models import BillingPeriod, RatePrice
from apps.chargeback.overview import period_of
from apps.chargeback.periods import Month
from apps.fleet.filters import OwnerForm, TeamScopeForm
from apps.fleet.models import Cluster

BASES = [("", _("all")), *RatePrice.Basis.choices]


class PeriodField(forms.CharField):
    """A billing period by its month."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(label=_("Period"), max_length=7, help_text=_("A month such as 2026-03."), **kwargs)

    def clean(self, value: Any) -> BillingPeriod | None:
        text = super().clean(value)
        if not text:
            return None
        try:
            month = Month.parse(text)
        except ValueError as error:
            raise ValidationError(_("Give a month such as 2026-03."), code="invalid") from error
        found = period_of(str(month))
        if found is None:
            raise ValidationError(_("There is no billing period of this month."), code="no_period")
        return found


class StatementsForm(TeamScopeForm):
    """Of which period, and of one team."""

    period = PeriodField()


class BudgetsForm(OwnerForm):
    """Of which period, and of one team: what is nobody's has no budget."""

    period = PeriodField()


class ChargesForm(TeamScopeForm):
    period = PeriodField(required=False)
    after_seq = forms.IntegerField(
        label=_("After sequence number"),
        required=False,
        min_value=0,
        max_value=2**63 - 1,
        help_text=_("Lines with a higher `sequence` only: give the highest one that you have."),
    )
    queue = forms.CharField(label=_("Queue"), required=False, max_length=253)
    flavor = forms.CharField(label=_("Flavor"), required=False, max_length=253)
    model = forms.CharField(label=_("Model"), required=False, max_length=120)
    basis = forms.ChoiceField(label=_("Basis"), required=False, choices=BASES)
    correction = forms.ChoiceField(
        label=_("Corrections"),
        required=False,
        choices=[("", _("all")), ("only", _("only corrections")), ("none", _("no corrections"))],
    )

    def clusters(self) -> QuerySet[Cluster]:
        """What was charged of one that is not collected any more stays."""
        return Cluster.objects.all()

    @property
    def criteria(self) -> ChargeCriteria:
        """Only after `is_valid()`."""
        data = self.cleaned_data
        return ChargeCriteria(
            cluster=data["cluster"],
            team=data["team"],
            queue=data["queue"],
            flavor=data["flavor"],
            model=data["model"],
            basis=data["basis"],
            correction={"only": True, "none": False}.get(data["correction"]),
        )
