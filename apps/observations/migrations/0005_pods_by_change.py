"""Indexes to find the pods that changed since a moment. Built without blocking writers."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("observations", "0004_device_objects")]

    operations = [
        AddIndexConcurrently("pod", models.Index(fields=["cluster", "observed_at"], name="pod_by_change")),
        AddIndexConcurrently(
            "pod",
            models.Index(
                fields=["cluster", "gone_at"], name="pod_by_end", condition=models.Q(gone_at__isnull=False)
            ),
        ),
    ]
