"""What was noted of waiting work's surroundings, for the time when they are no longer the same."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from apps.fleet.models import Cluster


class SurroundingsNote(models.Model):
    """What the nodes and the queue were for one piece of work that waited: from `noted_at` to its next note, the first one
    back to its beginning. Written when it differs from the one before; see noting.py.

    `uid` of a Workload, PodGroup or pod. `steps`: how many of the five numbers of NodeFacts were not 0, of which each is part
    of the one before; NULL: nothing was known of nodes. `over_ceiling`: the resources of which it asked for more than its
    Volcano queue might ever have."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, db_index=False, related_name="+")
    uid = models.CharField(max_length=128)
    noted_at = models.DateTimeField()
    steps = models.SmallIntegerField(null=True)
    over_ceiling = models.JSONField(default=list)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["cluster", "uid", "noted_at"], name="surroundings_note_once")
        ]

    def __str__(self) -> str:
        return f"{self.uid}: {self.steps}"
