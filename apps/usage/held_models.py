"""Hours of what was held, of what there was and of what was used, by kind of unit. Part of this app's models."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from apps.accounts.models import Team
from apps.fleet.models import Cluster
from apps.usage.kinds import KindOfUnit


class Allocation(KindOfUnit):
    """What was held within [starts_at, ends_at) of one kind in every respect; from intervals of API state (`allocation`), not
    from samples.

    `basis` "reserved" (quota), "pod" (bound to a node) or "nominal" (promised to a queue, used or not; `kind` is that of
    its work); `seen` as `allocation.Seen`: "left_out" and "beyond" are reported and not charged. `unit_seconds`: 8 cards for
    10 minutes = 4800, exact; kinds are never added up. `team` and `cost_centre` at that time; `borrowed`: beyond the
    queue's own quota."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, db_index=False, related_name="+")
    team = models.ForeignKey(Team, on_delete=models.PROTECT, null=True, related_name="+")
    cost_centre = models.CharField(max_length=40, blank=True)
    basis = models.CharField(max_length=8)
    kind = models.CharField(max_length=20)
    queue = models.CharField(max_length=253, blank=True)
    flavor = models.CharField(max_length=253, blank=True)
    resource = models.CharField(max_length=253)
    priority_class = models.CharField(max_length=253, blank=True)
    borrowed = models.BooleanField(default=False)
    seen = models.CharField(max_length=8)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    unit_seconds = models.DecimalField(max_digits=30, decimal_places=9)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.starts_at:%Y-%m-%dT%HZ} {self.queue}: {self.resource}"


_KEY = (
    *("cluster", "starts_at", "basis", "team", "cost_centre", "kind", "queue", "flavor"),
    *("resource", "model", "sharing_mode", "profile", "weight_over", "weight_under"),
    *("priority_class", "borrowed", "seen"),
)


class AllocationHour(Allocation):
    """Of a UTC hour, or the part of one before or after the edge of a billing period."""

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=_KEY, nulls_distinct=False, name="allocation_hour_once"),
            models.CheckConstraint(
                condition=models.Q(ends_at__gt=models.F("starts_at")), name="allocation_hour_forward"
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["starts_at"], name="allocation_hour_by_time")
        ]


class AllocationDay(Allocation):
    """Of a UTC day, or the part of one before or after the edge of a billing period: sums of its hours, for longer windows."""

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=_KEY, nulls_distinct=False, name="allocation_day_once")
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["starts_at"], name="allocation_day_by_time")
        ]


class SupplyHour(KindOfUnit):
    """What there was of a kind of unit within [starts_at, ends_at), cut as AllocationHour, by `bucket`
    (`supply_hours`): out of use by the waterfall's own names, "held", "idle", "unobserved"; these add up to physical ×
    time. Besides, and no part of it: "held_out_of_use" and "held_unobserved", which pods held. Unit-seconds, exact."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, db_index=False, related_name="+")
    resource = models.CharField(max_length=253)
    bucket = models.CharField(max_length=20)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    unit_seconds = models.DecimalField(max_digits=30, decimal_places=9)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=[
                    *("cluster", "starts_at", "resource", "model", "sharing_mode", "profile"),
                    *("weight_over", "weight_under", "bucket"),
                ],
                nulls_distinct=False,
                name="supply_hour_once",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["starts_at"], name="supply_hour_by_time")
        ]

    def __str__(self) -> str:
        return f"{self.starts_at:%Y-%m-%dT%HZ} {self.resource}: {self.bucket}"


class UseHour(KindOfUnit):
    """How busy the devices were that pods of one team and queue held within [starts_at, ends_at), cut and keyed as
    AllocationHour of basis "pod" (`use_rollup`). Seconds are of cards or instances: `device_seconds` on which the exporter
    named such a pod; `…_seconds` of it with that value; `busy_seconds` times the utilisation. NULL: not measured.
    `shared`: devices of several pods of which nobody says whose part is which, of no team."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, db_index=False, related_name="+")
    team = models.ForeignKey(Team, on_delete=models.PROTECT, null=True, related_name="+")
    cost_centre = models.CharField(max_length=40, blank=True)
    kind = models.CharField(max_length=20, blank=True)
    queue = models.CharField(max_length=253, blank=True)
    shared = models.BooleanField(default=False)
    resource = models.CharField(max_length=253)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    device_seconds = models.DecimalField(max_digits=24, decimal_places=6)
    measured_seconds = models.DecimalField(max_digits=24, decimal_places=6)
    busy_seconds = models.DecimalField(max_digits=24, decimal_places=6, null=True)
    memory_seconds = models.DecimalField(max_digits=24, decimal_places=6)
    memory_byte_seconds = models.DecimalField(max_digits=40, decimal_places=6, null=True)
    power_seconds = models.DecimalField(max_digits=24, decimal_places=6)
    energy_joules = models.DecimalField(max_digits=30, decimal_places=6, null=True)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=[
                    *("cluster", "starts_at", "team", "cost_centre", "kind", "queue", "shared", "resource"),
                    *("model", "sharing_mode", "profile", "weight_over", "weight_under"),
                ],
                nulls_distinct=False,
                name="use_hour_once",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [models.Index(fields=["starts_at"], name="use_hour_by_time")]

    def __str__(self) -> str:
        return f"{self.starts_at:%Y-%m-%dT%HZ} {self.queue}: {self.resource}"
