"""An index to find the hours that a cluster has. Built without blocking writers."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("usage", "0002_capacity_in_equivalents")]

    operations = [
        AddIndexConcurrently(
            "capacityhour", models.Index(fields=["cluster", "hour"], name="capacity_hour_by_hour")
        ),
    ]
