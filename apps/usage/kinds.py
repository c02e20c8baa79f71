"""What one unit of a resource is, as columns: the one place that makes a `Unit` of them. No table of its own."""

from __future__ import annotations

from fractions import Fraction

from django.db import models

from apps.usage.allocation import Unit


def weight_of(over: int | None, under: int | None) -> Fraction | None:
    """Whole cards per unit; None: not known."""
    return Fraction(over, under) if over is not None and under else None


def unit_of(model: str, sharing_mode: str, profile: str, over: int | None, under: int | None) -> Unit:
    return Unit(model, sharing_mode, profile, weight_of(over, under))


class KindOfUnit(models.Model):
    """What one unit is; base of what is remembered of it. `weight_over` / `weight_under`: whole cards per unit, as the
    exact fraction; NULL: not known. `model` "": not known."""

    model = models.CharField(max_length=120, blank=True)
    sharing_mode = models.CharField(max_length=20, blank=True)
    profile = models.CharField(max_length=120, blank=True)
    weight_over = models.BigIntegerField(null=True)
    weight_under = models.BigIntegerField(null=True)

    class Meta:
        abstract = True

    @property
    def unit(self) -> Unit:
        return unit_of(self.model, self.sharing_mode, self.profile, self.weight_over, self.weight_under)
