"""Indexes to find the nodes that changed since a moment. Built without blocking writers."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("observations", "0005_pods_by_change")]

    operations = [
        AddIndexConcurrently("node", models.Index(fields=["cluster", "observed_at"], name="node_by_change")),
        AddIndexConcurrently(
            "node",
            models.Index(
                fields=["cluster", "gone_at"], name="node_by_end", condition=models.Q(gone_at__isnull=False)
            ),
        ),
    ]
