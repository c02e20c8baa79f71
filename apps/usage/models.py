"""Rollups of held quota, of capacity and of waiting work, with a watermark. Zero rows are not stored."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Team
from apps.fleet.models import Cluster
from apps.usage.held_models import AllocationDay, AllocationHour, SupplyHour, UseHour
from apps.usage.seen import ClaimSeen, CostCentreSeen, PromiseSeen, SupplySeen, UnitSeen, UnseenStretch

__all__ = [
    "ALLOCATION",
    "USE",
    "AllocationDay",
    "AllocationHour",
    "BlockHour",
    "CapacityHour",
    "ClaimSeen",
    "CostCentreSeen",
    "OutcomeHour",
    "PromiseSeen",
    "Reclassification",
    "Step",
    "SupplyHour",
    "SupplySeen",
    "UnitSeen",
    "UnseenEvictions",
    "UnseenStretch",
    "UsageHour",
    "UseHour",
    "WaitHour",
    "Watermark",
]


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


ALLOCATION = "allocation_hours"
"""The mark of the hours of what was held."""
USE = "use_hours"
"""That of the hours of how busy devices were."""


class Watermark(models.Model):
    """How far one rollup of one cluster has been computed: every hour before `done_until` is complete. Hours from there to
    `started_until` were begun and not finished. `seen_id`: the newest state span that was taken into account, `seen_run` the newest
    pull."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    rollup = models.CharField(max_length=40)
    done_until = models.DateTimeField()
    started_until = models.DateTimeField(null=True)
    seen_id = models.BigIntegerField(null=True)
    seen_run = models.BigIntegerField(null=True)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["cluster", "rollup"], name="watermark_once")
        ]

    def __str__(self) -> str:
        return f"{self.rollup}: {self.done_until:%Y-%m-%dT%HZ}"


class Step(models.TextChoices):
    """How long a stretch a rolled-up row sums: coarser rows are sums of the hours, for longer windows."""

    HOUR = "hour", _("hour")
    DAY = "day", _("day")
    WEEK = "week", _("week")


class RolledUp(models.Model):
    """Base of the rollups of waiting work: `hour` is the start of the `step`, in UTC (weeks begin on Monday); `team` the
    owner at that time (NULL: no binding)."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, db_index=False, related_name="+")
    team = models.ForeignKey(Team, on_delete=models.PROTECT, null=True, related_name="+")
    queue = models.CharField(max_length=253, blank=True)
    step = models.CharField(max_length=4, choices=Step.choices)
    hour = models.DateTimeField()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.step} {self.hour:%Y-%m-%dT%HZ} {self.queue}"


class BlockHour(RolledUp):
    """How long work was kept from running, by the classifier's layer and cause and the cluster's own `reason`.

    With `resource` "" `seconds` are those of pieces of work; else unit-seconds of that device (8 GPUs for 10 minutes
    = 4800), which are never added up with another device's. `flavor` is that of the reservation, "" before there is
    one. `rules`: version of the classifier's rules; rows that are not `current` are kept to compare with."""

    flavor = models.CharField(max_length=253, blank=True)
    layer = models.CharField(max_length=20)
    cause = models.CharField(max_length=20)
    reason = models.CharField(max_length=120, blank=True)
    resource = models.CharField(max_length=253, blank=True)
    rules = models.PositiveIntegerField()
    current = models.BooleanField(default=True)
    seconds = models.DecimalField(max_digits=24, decimal_places=6)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=[
                    "cluster",
                    "step",
                    "hour",
                    "rules",
                    "team",
                    "queue",
                    "flavor",
                    "layer",
                    "cause",
                    "reason",
                    "resource",
                ],
                nulls_distinct=False,
                name="block_hour_once",
            )
        ]
        indexes: ClassVar[list[models.Index]] = [models.Index(fields=["step", "hour"], name="block_by_step")]


class WaitHour(RolledUp):
    """How many waits for quota began in the hour and took so long. Only what ended: open waits are read live.

    `seconds` are rounded (apps.usage.rounding); backoff and being held are not part of them. `size` is the class of
    apps.admissions.sizes; `flavor` what was reserved, "" for what gave up. `ended_in` is the `step` in which the wait
    ended: the rows of an hour are computed when it has passed, whenever the waits in them began."""

    class Which(models.TextChoices):
        FIRST = "first", _("first wait")
        AGAIN = "again", _("wait after an eviction")

    class Ended(models.TextChoices):
        RESERVED = "reserved", _("quota reserved")
        GAVE_UP = "gave_up", _("gave up")

    flavor = models.CharField(max_length=253, blank=True)
    size = models.CharField(max_length=10)
    which = models.CharField(max_length=5, choices=Which.choices)
    ended = models.CharField(max_length=8, choices=Ended.choices)
    ended_in = models.DateTimeField()
    seconds = models.BigIntegerField()
    count = models.IntegerField()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=[
                    "cluster",
                    "step",
                    "ended_in",
                    "hour",
                    "team",
                    "queue",
                    "flavor",
                    "size",
                    "which",
                    "ended",
                    "seconds",
                ],
                nulls_distinct=False,
                name="wait_hour_once",
            )
        ]
        indexes: ClassVar[list[models.Index]] = [models.Index(fields=["step", "hour"], name="wait_by_step")]


class OutcomeHour(RolledUp):
    """What happened to work in the hour, as counts. `reason`: the cluster's token where it gives one; of `retried` one of
    requeued, recreated (a new Workload for the same work), not_seen."""

    class What(models.TextChoices):
        SUBMITTED = "submitted", _("submitted")
        RESERVED = "reserved", _("quota reserved")
        ADMITTED = "admitted", _("admitted")
        SUCCEEDED = "succeeded", _("succeeded")
        FAILED = "failed", _("failed")
        EVICTED = "evicted", _("evicted")
        PREEMPTED = "preempted", _("preempted")
        RETRIED = "retried", _("retried")
        DEACTIVATED = "deactivated", _("deactivated")

    what = models.CharField(max_length=11, choices=What.choices)
    reason = models.CharField(max_length=128, blank=True)
    count = models.IntegerField()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["cluster", "step", "hour", "team", "queue", "what", "reason"],
                nulls_distinct=False,
                name="outcome_hour_once",
            )
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["step", "hour"], name="outcome_by_step")
        ]


class UnseenEvictions(models.Model):
    """Evictions that a Workload's own counter has and no observation saw: it was evicted and came back between two
    pulls. `noticed_at`: when the counter was read. `run_seconds`: how long these attempts ran in all, as the cluster counts;
    NULL where it does not say. How long each waited or ran is not known."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, db_index=False, related_name="+")
    uid = models.CharField(max_length=128)
    noticed_at = models.DateTimeField()
    count = models.IntegerField()
    run_seconds = models.IntegerField(null=True)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["cluster", "uid", "noticed_at"], name="unseen_evictions_once")
        ]

    def __str__(self) -> str:
        return f"{self.uid}: {self.count}"


class Reclassification(models.Model):
    """Progress of bringing one cluster's history under the present rules: every hour from `from_hour` up to `done_until`
    is; with `done` all of it. The hours of `former` rules stay beside the new ones until the next reclassification."""

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="+")
    rules = models.PositiveIntegerField()
    from_hour = models.DateTimeField()
    done_until = models.DateTimeField()
    done = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"rules {self.rules}: {self.done_until:%Y-%m-%dT%HZ}"
