"""What one unit of a resource is, as columns. No table of its own."""

from __future__ import annotations

from django.db import models


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
