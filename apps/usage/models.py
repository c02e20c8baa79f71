"""Rollups of held quota and of capacity, per hour, with a watermark. Zero rows are not stored."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from apps.accounts.models import Team
from apps.fleet.models import Cluster


class UsageHour(models.Model):
    """What one team held through one queue in one UTC hour [hour, hour + 1 h), from state spans, not samples.

    `team` is the owner at that time (NULL: no binding). Seconds are unit-seconds of `resource` in `flavor`
    (8 GPUs for 10 minutes = 4800); kinds of units are never added up. admitted ≤ reserved."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    team = models.ForeignKey(Team, on_delete=models.PROTECT, null=True, related_name="+")
    queue = models.CharField(max_length=253)
    flavor = models.CharField(max_length=253, blank=True)
    resource = models.CharField(max_length=253)
    hour = models.DateTimeField()
    reserved_unit_seconds = models.DecimalField(max_digits=24, decimal_places=3)
    admitted_unit_seconds = models.DecimalField(max_digits=24, decimal_places=3)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["cluster", "hour", "team", "queue", "flavor", "resource"],
                nulls_distinct=False,
                name="usage_hour_once",
            )
        ]
        indexes: ClassVar[list[models.Index]] = [models.Index(fields=["hour"], name="usage_hour_by_hour")]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%dT%HZ} {self.queue}: {self.resource} in {self.flavor or '-'}"


class CapacityHour(models.Model):
    """A pool's capacity as it stood at the end of one UTC hour: the supply side of the charts, in units of the
    pool's own kind. `nominal` NULL: no queue of the cluster promises this pool; `stranded` NULL: not known.
    `cards` counts whole cards, `*_equivalents` are the same numbers as GPU-equivalents; NULL in hours before they
    were noted."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    model = models.CharField(max_length=120)
    sharing_mode = models.CharField(max_length=20)
    hour = models.DateTimeField()
    physical = models.DecimalField(max_digits=14, decimal_places=3)
    allocatable = models.DecimalField(max_digits=14, decimal_places=3)
    held = models.DecimalField(max_digits=14, decimal_places=3)
    nominal = models.DecimalField(max_digits=14, decimal_places=3, null=True)
    stranded = models.DecimalField(max_digits=14, decimal_places=3, null=True)
    cards = models.PositiveIntegerField(null=True)
    allocatable_equivalents = models.DecimalField(max_digits=14, decimal_places=3, null=True)
    held_equivalents = models.DecimalField(max_digits=14, decimal_places=3, null=True)
    nominal_equivalents = models.DecimalField(max_digits=14, decimal_places=3, null=True)
    stranded_equivalents = models.DecimalField(max_digits=14, decimal_places=3, null=True)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["cluster", "model", "sharing_mode", "hour"], name="capacity_hour_once"
            )
        ]
        # Which hours a cluster has, without reading its pools.
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["cluster", "hour"], name="capacity_hour_by_hour")
        ]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%dT%HZ} {self.model} ({self.sharing_mode})"


class Watermark(models.Model):
    """How far one rollup of one cluster has been computed: every hour before `done_until` is complete."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    rollup = models.CharField(max_length=40)
    done_until = models.DateTimeField()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["cluster", "rollup"], name="watermark_once")
        ]

    def __str__(self) -> str:
        return f"{self.rollup}: {self.done_until:%Y-%m-%dT%HZ}"
