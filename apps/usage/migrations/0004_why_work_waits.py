"""Rollups of why work waits, how long, and what becomes of it. Only new tables and nullable columns."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_membership_labels"),
        ("fleet", "0005_volcano_plugin"),
        ("usage", "0003_capacity_by_hour"),
    ]

    operations = [
        migrations.AddField(
            model_name="watermark",
            name="seen_id",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="watermark",
            name="started_until",
            field=models.DateTimeField(null=True),
        ),
        migrations.CreateModel(
            name="Reclassification",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("rules", models.PositiveIntegerField()),
                ("from_hour", models.DateTimeField()),
                ("done_until", models.DateTimeField()),
                ("done", models.BooleanField(default=False)),
                (
                    "cluster",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="fleet.cluster"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="BlockHour",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("queue", models.CharField(blank=True, max_length=253)),
                (
                    "step",
                    models.CharField(
                        choices=[("hour", "hour"), ("day", "day"), ("week", "week")], max_length=4
                    ),
                ),
                ("hour", models.DateTimeField()),
                ("flavor", models.CharField(blank=True, max_length=253)),
                ("layer", models.CharField(max_length=20)),
                ("cause", models.CharField(max_length=20)),
                ("reason", models.CharField(blank=True, max_length=120)),
                ("resource", models.CharField(blank=True, max_length=253)),
                ("rules", models.PositiveIntegerField()),
                ("current", models.BooleanField(default=True)),
                ("seconds", models.DecimalField(decimal_places=6, max_digits=24)),
                (
                    "cluster",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="fleet.cluster",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.team",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["step", "hour"], name="block_by_step")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=(
                            "cluster",
                            "step",
                            "hour",
                            "rules",
                            "team",
                            "queue",
                            "flavor",
                            "layer",
                            "cause",
                            "reason",
                            "resource",
                        ),
                        name="block_hour_once",
                        nulls_distinct=False,
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="OutcomeHour",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("queue", models.CharField(blank=True, max_length=253)),
                (
                    "step",
                    models.CharField(
                        choices=[("hour", "hour"), ("day", "day"), ("week", "week")], max_length=4
                    ),
                ),
                ("hour", models.DateTimeField()),
                (
                    "what",
                    models.CharField(
                        choices=[
                            ("submitted", "submitted"),
                            ("reserved", "quota reserved"),
                            ("admitted", "admitted"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("evicted", "evicted"),
                            ("preempted", "preempted"),
                            ("retried", "retried"),
                            ("deactivated", "deactivated"),
                        ],
                        max_length=11,
                    ),
                ),
                ("reason", models.CharField(blank=True, max_length=128)),
                ("count", models.IntegerField()),
                (
                    "cluster",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="fleet.cluster",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.team",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["step", "hour"], name="outcome_by_step")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("cluster", "step", "hour", "team", "queue", "what", "reason"),
                        name="outcome_hour_once",
                        nulls_distinct=False,
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="UnseenEvictions",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("uid", models.CharField(max_length=128)),
                ("noticed_at", models.DateTimeField()),
                ("count", models.IntegerField()),
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
                "constraints": [
                    models.UniqueConstraint(
                        fields=("cluster", "uid", "noticed_at"), name="unseen_evictions_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="WaitHour",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("queue", models.CharField(blank=True, max_length=253)),
                (
                    "step",
                    models.CharField(
                        choices=[("hour", "hour"), ("day", "day"), ("week", "week")], max_length=4
                    ),
                ),
                ("hour", models.DateTimeField()),
                ("flavor", models.CharField(blank=True, max_length=253)),
                ("size", models.CharField(max_length=10)),
                (
                    "which",
                    models.CharField(
                        choices=[("first", "first wait"), ("again", "wait after an eviction")], max_length=5
                    ),
                ),
                (
                    "ended",
                    models.CharField(
                        choices=[("reserved", "quota reserved"), ("gave_up", "gave up")], max_length=8
                    ),
                ),
                ("ended_in", models.DateTimeField()),
                ("seconds", models.BigIntegerField()),
                ("count", models.IntegerField()),
                (
                    "cluster",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="fleet.cluster",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.team",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["step", "hour"], name="wait_by_step")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=(
                            "cluster",
                            "step",
                            "ended_in",
                            "hour",
                            "team",
                            "queue",
                            "flavor",
                            "size",
                            "which",
                            "ended",
                            "seconds",
                        ),
                        name="wait_hour_once",
                        nulls_distinct=False,
                    )
                ],
            },
        ),
    ]
