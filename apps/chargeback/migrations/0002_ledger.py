"""Rate cards, billing periods and the ledger. New tables."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_membership_labels"),
        ("chargeback", "0001_initial"),
        ("fleet", "0005_volcano_plugin"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="BillingPeriod",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("month", models.CharField(help_text="YYYY-MM", max_length=7)),
                ("zone", models.CharField(max_length=64)),
                ("starts_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField()),
                (
                    "state",
                    models.CharField(
                        choices=[("open", "open"), ("closed", "closed")], default="open", max_length=6
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                ("closed_at", models.DateTimeField(null=True)),
                ("reason", models.TextField(blank=True)),
                ("accepted", models.JSONField(default=dict)),
                ("totals", models.JSONField(default=dict)),
                ("entries", models.BigIntegerField(default=0)),
                ("digest", models.CharField(blank=True, max_length=64)),
                (
                    "closed_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["starts_at"],
            },
        ),
        migrations.CreateModel(
            name="RateVersion",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[("draft", "draft"), ("published", "published")],
                        default="draft",
                        max_length=10,
                        verbose_name="state",
                    ),
                ),
                ("valid_from", models.DateTimeField(verbose_name="valid from")),
                ("currency", models.CharField(default="USD", max_length=3, verbose_name="currency")),
                (
                    "borrowed_factor",
                    models.DecimalField(
                        decimal_places=6, default=1, max_digits=10, verbose_name="factor of borrowed use"
                    ),
                ),
                (
                    "priority_factors",
                    models.JSONField(blank=True, default=dict, verbose_name="factors by priority class"),
                ),
                (
                    "idle",
                    models.CharField(
                        choices=[
                            ("platform", "the platform carries it"),
                            ("proportional", "shared in proportion to what each team held"),
                            ("even", "shared evenly"),
                        ],
                        default="platform",
                        max_length=12,
                        verbose_name="idle capacity",
                    ),
                ),
                ("note", models.TextField(blank=True, verbose_name="note")),
                ("published_at", models.DateTimeField(editable=False, null=True)),
                (
                    "published_by",
                    models.ForeignKey(
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "rate card",
                "verbose_name_plural": "rate cards",
                "ordering": ["-valid_from", "-pk"],
            },
        ),
        migrations.CreateModel(
            name="RatePrice",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "basis",
                    models.CharField(
                        choices=[
                            ("reserved", "reserved quota"),
                            ("pod", "bound pods"),
                            ("nominal", "nominal quota"),
                        ],
                        default="reserved",
                        max_length=8,
                        verbose_name="basis",
                    ),
                ),
                ("model", models.CharField(max_length=120, verbose_name="model")),
                ("sharing_mode", models.CharField(blank=True, max_length=20, verbose_name="sharing mode")),
                ("profile", models.CharField(blank=True, max_length=120, verbose_name="profile")),
                (
                    "per",
                    models.CharField(
                        choices=[("unit", "unit"), ("card", "whole card")],
                        default="unit",
                        max_length=4,
                        verbose_name="per",
                    ),
                ),
                (
                    "amount",
                    models.DecimalField(decimal_places=9, max_digits=20, verbose_name="price per hour"),
                ),
                (
                    "cluster",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="fleet.cluster",
                        verbose_name="cluster",
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="prices",
                        to="chargeback.rateversion",
                    ),
                ),
            ],
            options={
                "verbose_name": "price",
                "verbose_name_plural": "prices",
            },
        ),
        migrations.CreateModel(
            name="LedgerEntry",
            fields=[
                ("model", models.CharField(blank=True, max_length=120)),
                ("sharing_mode", models.CharField(blank=True, max_length=20)),
                ("profile", models.CharField(blank=True, max_length=120)),
                ("weight_over", models.BigIntegerField(null=True)),
                ("weight_under", models.BigIntegerField(null=True)),
                ("sequence", models.BigIntegerField(primary_key=True, serialize=False)),
                ("correction", models.BooleanField(default=False)),
                ("corrects", models.BigIntegerField(null=True)),
                ("cost_centre", models.CharField(blank=True, max_length=40)),
                ("basis", models.CharField(max_length=8)),
                ("kind", models.CharField(max_length=20)),
                ("queue", models.CharField(blank=True, max_length=253)),
                ("flavor", models.CharField(blank=True, max_length=253)),
                ("resource", models.CharField(max_length=253)),
                ("priority_class", models.CharField(blank=True, max_length=253)),
                ("borrowed", models.BooleanField(default=False)),
                ("seen", models.CharField(max_length=8)),
                ("starts_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField()),
                ("unit_seconds", models.DecimalField(decimal_places=9, max_digits=30)),
                ("currency", models.CharField(blank=True, max_length=3)),
                ("price_per_hour", models.DecimalField(decimal_places=9, max_digits=20, null=True)),
                ("factor", models.DecimalField(decimal_places=12, max_digits=20, null=True)),
                ("priced_over", models.BigIntegerField(null=True)),
                ("priced_under", models.BigIntegerField(null=True)),
                ("amount", models.DecimalField(decimal_places=18, max_digits=48, null=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="fleet.cluster",
                    ),
                ),
                (
                    "period",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="lines",
                        to="chargeback.billingperiod",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.team",
                    ),
                ),
                (
                    "price",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="chargeback.rateprice",
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="chargeback.rateversion",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="billingperiod",
            constraint=models.UniqueConstraint(fields=("month",), name="billing_period_once"),
        ),
        migrations.AddConstraint(
            model_name="billingperiod",
            constraint=models.CheckConstraint(
                condition=models.Q(("ends_at__gt", models.F("starts_at"))), name="billing_period_forward"
            ),
        ),
        migrations.AddConstraint(
            model_name="rateversion",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "published")), fields=("valid_from",), name="rate_version_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="rateversion",
            constraint=models.CheckConstraint(
                condition=models.Q(("borrowed_factor__gte", 0)), name="rate_version_factor_not_negative"
            ),
        ),
        migrations.AddConstraint(
            model_name="rateprice",
            constraint=models.UniqueConstraint(
                fields=("version", "basis", "cluster", "model", "sharing_mode", "profile"),
                name="rate_price_once",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="rateprice",
            constraint=models.CheckConstraint(
                condition=models.Q(("amount__gte", 0)), name="rate_price_not_negative"
            ),
        ),
        migrations.AddIndex(
            model_name="ledgerentry",
            index=models.Index(fields=["period", "sequence"], name="ledger_by_period"),
        ),
        migrations.AddIndex(
            model_name="ledgerentry",
            index=models.Index(fields=["team", "sequence"], name="ledger_by_team"),
        ),
    ]
