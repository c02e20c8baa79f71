"""How long findings last. What is found is computed on reading; here is only when it was first and last found."""

# ruff: noqa: DJ008  facts are shown by their columns, never by str()
from __future__ import annotations

from typing import ClassVar

from django.db import models

from apps.fleet.models import Cluster


class FindingSpan(models.Model):
    """One uninterrupted stretch in which a finding was found, half-open; `ended_at` NULL: it still is. `key` is
    `Finding.key`. A finding that comes back begins a new span."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, null=True, related_name="+")
    key = models.CharField(max_length=600)
    severity = models.CharField(max_length=10)
    count = models.IntegerField(default=1)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["key"], condition=models.Q(ended_at__isnull=True), name="finding_open_once"
            )
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["key", "first_seen_at"], name="finding_by_key"),
            models.Index(fields=["ended_at"], name="finding_by_end"),
        ]
