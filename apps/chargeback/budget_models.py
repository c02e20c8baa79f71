"""Budgets of teams, thresholds that were crossed, and messages about them."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Team
from apps.chargeback.budget import Measure
from apps.core.outgoing import Outgoing, once, to_send
from apps.core.quantity import plain


def usual_percents() -> list[int]:
    return [50, 80, 100]


class Budget(models.Model):
    """What a team means to spend in each month from `from_month` on, until its next row begins or `until_month` ("": none) is
    over. Somebody is told when `percents` of it are spent, and when it will be `forecast_percent` at the present pace."""

    team = models.ForeignKey(
        Team, on_delete=models.CASCADE, related_name="budgets", verbose_name=_("team"), db_index=False
    )
    from_month = models.CharField(_("from month"), max_length=7)
    until_month = models.CharField(_("last month"), max_length=7, blank=True)
    amount = models.DecimalField(_("amount per month"), max_digits=20, decimal_places=4)
    currency = models.CharField(_("currency"), max_length=3, default="USD")
    percents = ArrayField(
        models.PositiveSmallIntegerField(), verbose_name=_("thresholds"), default=usual_percents, blank=True
    )
    forecast_percent = models.PositiveSmallIntegerField(
        _("threshold of the forecast"), null=True, blank=True, default=100
    )

    class Meta:
        verbose_name = _("budget")
        verbose_name_plural = _("budgets")
        ordering: ClassVar[list[str]] = ["team__slug", "-from_month"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["team", "from_month"], name="budget_once"),
            models.CheckConstraint(condition=models.Q(amount__gt=0), name="budget_is_something"),
            models.CheckConstraint(
                condition=models.Q(until_month="") | models.Q(until_month__gte=models.F("from_month")),
                name="budget_forward",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.team} {self.from_month}: {plain(self.amount)} {self.currency}"


class BudgetCrossing(models.Model):
    """That a team reached a threshold of its budget in a month: noted once, whatever becomes of the cost or the budget later.
    `amount`, `currency` and `cost` (spent, or of the whole month at the pace of then) as they were."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="+")
    period = models.ForeignKey(
        "chargeback.BillingPeriod", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    measure = models.CharField(max_length=8, choices=[(one.value, one.value) for one in Measure])
    percent = models.PositiveSmallIntegerField()
    at = models.DateTimeField()
    amount = models.DecimalField(max_digits=20, decimal_places=4)
    cost = models.DecimalField(max_digits=24, decimal_places=4)
    currency = models.CharField(max_length=3)

    class Meta:
        ordering: ClassVar[list[str]] = ["at", "pk"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["period", "team", "measure", "percent"], name="budget_crossing_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.measure} {self.percent} %"


class BudgetNotice(Outgoing):
    """A message about thresholds that were found crossed together; `crossing` is the first of them."""

    crossing = models.ForeignKey(BudgetCrossing, on_delete=models.CASCADE, related_name="notices")

    class Meta:
        verbose_name = _("message about a budget")
        verbose_name_plural = _("messages about budgets")
        ordering: ClassVar[list[str]] = ["-created_at", "pk"]
        constraints: ClassVar[list[models.BaseConstraint]] = [once("budget_notice_once")]
        indexes: ClassVar[list[models.Index]] = [to_send("budget_notice_to_send")]
