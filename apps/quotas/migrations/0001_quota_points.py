"""Quota and use over time, a row per change."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("fleet", "0005_volcano_plugin"),
    ]

    operations = [
        migrations.CreateModel(
            name="QuotaPoint",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField()),
                ("kind", models.CharField(max_length=20)),
                ("queue", models.CharField(max_length=253)),
                ("flavor", models.CharField(blank=True, max_length=253)),
                ("resource", models.CharField(max_length=253)),
                ("nominal", models.DecimalField(decimal_places=3, max_digits=24, null=True)),
                ("ceiling", models.DecimalField(decimal_places=3, max_digits=24, null=True)),
                ("reserved", models.DecimalField(decimal_places=3, max_digits=24, null=True)),
                ("admitted", models.DecimalField(decimal_places=3, max_digits=24, null=True)),
                ("borrowed", models.DecimalField(decimal_places=3, max_digits=24, null=True)),
                ("lent", models.DecimalField(decimal_places=3, max_digits=24, null=True)),
                ("pending", models.DecimalField(decimal_places=3, max_digits=24, null=True)),
                ("waiting", models.IntegerField(null=True)),
                ("ended", models.BooleanField(default=False)),
                (
                    "cluster",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="fleet.cluster",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["at"], name="quota_point_by_time")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("cluster", "kind", "queue", "flavor", "resource", "at"),
                        name="quota_point_once",
                    )
                ],
            },
        ),
    ]
