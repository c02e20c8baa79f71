"""When a finding was first and last found."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("fleet", "0005_volcano_plugin"),
    ]

    operations = [
        migrations.CreateModel(
            name="FindingSpan",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=600)),
                ("severity", models.CharField(max_length=10)),
                ("count", models.IntegerField(default=1)),
                ("first_seen_at", models.DateTimeField()),
                ("last_seen_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="fleet.cluster",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["key", "first_seen_at"], name="finding_by_key"),
                    models.Index(fields=["ended_at"], name="finding_by_end"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=("key",),
                        name="finding_open_once",
                    )
                ],
            },
        ),
    ]
