"""What is known only at present and asked for later, as tables: a row is written when something differs from the one before.
Part of this app's models."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Team
from apps.fleet.models import Cluster
from apps.usage.kinds import KindOfUnit


class UnitSeen(KindOfUnit):
    """What a unit of `resource` was, from `seen_from` on until the next row of the same key: what a flavor stands for,
    or a node has, is known only while nodes are there. `basis` "reserved": `on` is a flavor ("" for Volcano); "pod": a
    node, and `capacity` its units (NULL: not known)."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, db_index=False, related_name="+")
    basis = models.CharField(max_length=8)
    on = models.CharField(max_length=253, blank=True)
    resource = models.CharField(max_length=253)
    capacity = models.DecimalField(max_digits=20, decimal_places=3, null=True)
    seen_from = models.DateTimeField()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["cluster", "basis", "on", "resource", "seen_from"], name="unit_seen_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.on} {self.resource}: {self.model} {self.profile}"


class CostCentreSeen(models.Model):
    """A team's cost centre from `seen_from` on until the next row, so that what was held then stays with it."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, db_index=False, related_name="+")
    cost_centre = models.CharField(max_length=40, blank=True)
    seen_from = models.DateTimeField()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["team", "seen_from"], name="cost_centre_seen_once")
        ]

    def __str__(self) -> str:
        return f"{self.team_id}: {self.cost_centre}"


class UnseenStretch(models.Model):
    """Nobody could see objects of `kind` ("Workload", "PodGroup", "Pod", "ResourceClaim", "Node") of the cluster during
    [started_at, ended_at): between two good pulls that are further apart than a few intervals. Kept longer than the log of
    pulls."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, db_index=False, related_name="+")
    kind = models.CharField(max_length=20)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["cluster", "kind", "started_at"], name="unseen_stretch_once"),
            models.CheckConstraint(
                condition=models.Q(ended_at__gt=models.F("started_at")), name="unseen_forward"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.started_at} – {self.ended_at}"


class PromiseSeen(models.Model):
    """Whether a queue's nominal quota is a promise of its own, from `seen_from` on until the next row of the queue: no
    number says that. `kind`: "ClusterQueue" or "VolcanoQueue"."""

    class LeftOut(models.TextChoices):
        """Why it is none. PARENT: its numbers are its children's; BY_DEMAND: they move with demand."""

        NOT = "", ""
        STOPPED = "stopped", _("stopped")
        PARENT = "parent", _("has queues below it")
        BY_DEMAND = "by_demand", _("moves with demand")

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, db_index=False, related_name="+")
    kind = models.CharField(max_length=20)
    queue = models.CharField(max_length=253)
    left_out = models.CharField(max_length=10, choices=LeftOut.choices, blank=True)
    seen_from = models.DateTimeField()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["cluster", "kind", "queue", "seen_from"], name="promise_seen_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.queue}: {self.left_out or 'counts'}"


class SupplySeen(models.Model):
    """What a node had of `resource` from `seen_from` on until the next row: `physical` units, of which `out_of_use`
    {waterfall bucket: units as text} could not be allocated. A node that goes has one last row with nothing."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, db_index=False, related_name="+")
    node = models.CharField(max_length=253)
    resource = models.CharField(max_length=253)
    physical = models.DecimalField(max_digits=20, decimal_places=3)
    out_of_use = models.JSONField(default=dict)
    seen_from = models.DateTimeField()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["cluster", "node", "resource", "seen_from"], name="supply_seen_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.node} {self.resource}: {self.physical}"


class ClaimSeen(models.Model):
    """What a ResourceClaim held on a node, from `seen_from` on until the next row of the same key: of an object only its present
    state is kept. `units` 0: none any more. `kind`, `queue_name`: of the pods that use it, as of AllocationHour's work; `queue_name` ""
    where they are of several queues, so that only the namespace tells whose it is."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, db_index=False, related_name="+")
    uid = models.CharField(max_length=128)
    namespace = models.CharField(max_length=63)
    node = models.CharField(max_length=253, blank=True)
    resource = models.CharField(max_length=253)
    kind = models.CharField(max_length=20)
    queue_name = models.CharField(max_length=253, blank=True)
    units = models.DecimalField(max_digits=20, decimal_places=6)
    seen_from = models.DateTimeField()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["cluster", "uid", "node", "resource", "seen_from"], name="claim_seen_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.uid} on {self.node}: {self.units} {self.resource}"
