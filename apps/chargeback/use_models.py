"""What stands beside a period's charges. Part of this app's models."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from apps.accounts.models import Team
from apps.usage.kinds import KindOfUnit


class TeamUse(KindOfUnit):
    """What one team held of one kind of unit in a period and how busy it was; kept with the period's lines, and frozen with
    them by the database. `reserved` quota, of it `bridged` (held before and after a stretch that nobody saw) and beside
    it `left_out` (nobody saw it); `bound`: by pods; all in unit-seconds. `measured` device-seconds with a utilisation,
    `busy` times the utilisation; NULL: not measured. `team` NULL: nobody's, and devices of which nobody says whose part is
    which. Without foreign keys, as lines."""

    period = models.ForeignKey(
        "chargeback.BillingPeriod",
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="use",
    )
    team = models.ForeignKey(
        Team, on_delete=models.PROTECT, null=True, db_constraint=False, db_index=False, related_name="+"
    )
    resource = models.CharField(max_length=253)
    reserved = models.DecimalField(max_digits=30, decimal_places=9)
    bridged = models.DecimalField(max_digits=30, decimal_places=9)
    left_out = models.DecimalField(max_digits=30, decimal_places=9)
    bound = models.DecimalField(max_digits=30, decimal_places=9)
    measured = models.DecimalField(max_digits=24, decimal_places=6, null=True)
    busy = models.DecimalField(max_digits=24, decimal_places=6, null=True)
    memory_byte_seconds = models.DecimalField(max_digits=40, decimal_places=6, null=True)
    energy_joules = models.DecimalField(max_digits=30, decimal_places=6, null=True)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=[
                    *("period", "team", "resource", "model", "sharing_mode", "profile"),
                    *("weight_over", "weight_under"),
                ],
                nulls_distinct=False,
                name="team_use_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.resource} {self.model}"
