"""What the quota views remember over time. Everything else in this app is computed on reading."""

# ruff: noqa: DJ008  facts are shown by their columns, never by str()
from __future__ import annotations

from typing import ClassVar

from django.db import models

from apps.fleet.models import Cluster


class QuotaPoint(models.Model):
    """Quota and use of one (queue, flavor, resource) from `at` until the next point of the same key: a row is written
    only when one of the numbers differs from the last. Accelerators only; NULL is not said, never zero. `ended`: the
    queue no longer has the row from `at` on, and all numbers are NULL.

    kind          "ClusterQueue", "Cohort" or "VolcanoQueue"
    nominal       Kueue: nominal quota; Volcano: deserved
    pending       asked by waiting work, on the first flavor of the resource (`QuotaRow.pending`)

    Points older than a month are thinned to the last of each hour, and dropped after PORTAL_TRANSITION_RETENTION_DAYS."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, db_index=False, related_name="+")
    at = models.DateTimeField()
    kind = models.CharField(max_length=20)
    queue = models.CharField(max_length=253)
    flavor = models.CharField(max_length=253, blank=True)
    resource = models.CharField(max_length=253)
    nominal = models.DecimalField(max_digits=24, decimal_places=3, null=True)
    ceiling = models.DecimalField(max_digits=24, decimal_places=3, null=True)
    reserved = models.DecimalField(max_digits=24, decimal_places=3, null=True)
    admitted = models.DecimalField(max_digits=24, decimal_places=3, null=True)
    borrowed = models.DecimalField(max_digits=24, decimal_places=3, null=True)
    lent = models.DecimalField(max_digits=24, decimal_places=3, null=True)
    pending = models.DecimalField(max_digits=24, decimal_places=3, null=True)
    waiting = models.IntegerField(null=True)
    ended = models.BooleanField(default=False)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["cluster", "kind", "queue", "flavor", "resource", "at"], name="quota_point_once"
            )
        ]
        indexes: ClassVar[list[models.Index]] = [models.Index(fields=["at"], name="quota_point_by_time")]
