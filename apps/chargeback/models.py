"""Rates for held GPU time. A published rate is never edited: a new one takes over from its start."""

from __future__ import annotations

from typing import ClassVar

from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.core.money import CURRENCIES
from apps.core.quantity import plain
from apps.fleet.models import Cluster


class Rate(models.Model):
    """Price of one unit-hour of `resource` in `flavor` (empty: any) of `cluster` (empty: any), from `valid_from`
    on until the next rate with the same key. Decimal, in `currency` (ISO 4217)."""

    cluster = models.ForeignKey(
        Cluster, on_delete=models.PROTECT, null=True, blank=True, related_name="rates"
    )
    flavor = models.CharField(_("flavor"), max_length=253, blank=True)
    resource = models.CharField(_("resource"), max_length=253, default="nvidia.com/gpu")
    currency = models.CharField(_("currency"), max_length=3, default="USD")
    price_per_hour = models.DecimalField(_("price per hour"), max_digits=14, decimal_places=6)
    valid_from = models.DateTimeField(_("valid from"))

    class Meta:
        verbose_name = _("rate")
        verbose_name_plural = _("rates")
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["cluster", "flavor", "resource", "currency", "valid_from"],
                nulls_distinct=False,
                name="rate_once",
            ),
            models.CheckConstraint(condition=models.Q(price_per_hour__gte=0), name="rate_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.resource} {self.flavor or '*'}: {plain(self.price_per_hour)} {self.currency}"

    def clean(self) -> None:
        """Usage is kept by the hour, so a price can only change on the hour."""
        if self.currency not in CURRENCIES:
            raise ValidationError({"currency": _("This is no ISO 4217 currency code.")})
        start = self.valid_from
        if start is not None and (start.minute or start.second or start.microsecond):
            raise ValidationError({"valid_from": _("A rate starts on a full hour.")})
