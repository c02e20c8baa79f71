"""Indexes to find work and queue objects that changed since a moment. Built without blocking writers."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("observations", "0009_objects_as_served")]

    operations = [
        AddIndexConcurrently(
            "workload", models.Index(fields=["cluster", "observed_at"], name="workload_by_change")
        ),
        AddIndexConcurrently(
            "workload",
            models.Index(
                fields=["cluster", "gone_at"],
                name="workload_by_end",
                condition=models.Q(gone_at__isnull=False),
            ),
        ),
        AddIndexConcurrently(
            "clusterobject", models.Index(fields=["cluster", "kind", "observed_at"], name="object_by_change")
        ),
        AddIndexConcurrently(
            "clusterobject",
            models.Index(
                fields=["cluster", "kind", "gone_at"],
                name="object_by_end",
                condition=models.Q(gone_at__isnull=False),
            ),
        ),
    ]
