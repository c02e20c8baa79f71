"""Budgets of teams, thresholds that were crossed, and messages about them."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

import apps.chargeback.budget_models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0003_api_token"),
        ("chargeback", "0007_ledger_keys"),
    ]

    operations = [
        migrations.CreateModel(
            name="BudgetCrossing",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "measure",
                    models.CharField(choices=[("spent", "spent"), ("forecast", "forecast")], max_length=8),
                ),
                ("percent", models.PositiveSmallIntegerField()),
                ("at", models.DateTimeField()),
                ("amount", models.DecimalField(decimal_places=4, max_digits=20)),
                ("cost", models.DecimalField(decimal_places=4, max_digits=24)),
                ("currency", models.CharField(max_length=3)),
                (
                    "period",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="chargeback.billingperiod",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="accounts.team"
                    ),
                ),
            ],
            options={
                "ordering": ["at", "pk"],
            },
        ),
        migrations.CreateModel(
            name="BudgetNotice",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("channel", models.CharField(max_length=10)),
                ("target", models.CharField(default="", max_length=320)),
                ("event_id", models.CharField(max_length=64)),
                ("payload", models.JSONField()),
                ("created_at", models.DateTimeField()),
                ("next_try_at", models.DateTimeField(null=True)),
                ("attempts", models.IntegerField(default=0)),
                ("sent_at", models.DateTimeField(null=True)),
                ("failure", models.TextField(default="")),
                (
                    "crossing",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notices",
                        to="chargeback.budgetcrossing",
                    ),
                ),
            ],
            options={
                "verbose_name": "message about a budget",
                "verbose_name_plural": "messages about budgets",
                "ordering": ["-created_at", "pk"],
            },
        ),
        migrations.CreateModel(
            name="Budget",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("from_month", models.CharField(max_length=7, verbose_name="from month")),
                ("until_month", models.CharField(blank=True, max_length=7, verbose_name="last month")),
                (
                    "amount",
                    models.DecimalField(decimal_places=4, max_digits=20, verbose_name="amount per month"),
                ),
                ("currency", models.CharField(default="USD", max_length=3, verbose_name="currency")),
                (
                    "percents",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.PositiveSmallIntegerField(),
                        blank=True,
                        default=apps.chargeback.budget_models.usual_percents,
                        size=None,
                        verbose_name="thresholds",
                    ),
                ),
                (
                    "forecast_percent",
                    models.PositiveSmallIntegerField(
                        blank=True, default=100, null=True, verbose_name="threshold of the forecast"
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="budgets",
                        to="accounts.team",
                        verbose_name="team",
                    ),
                ),
            ],
            options={
                "verbose_name": "budget",
                "verbose_name_plural": "budgets",
                "ordering": ["team__slug", "-from_month"],
                "constraints": [
                    models.UniqueConstraint(fields=("team", "from_month"), name="budget_once"),
                    models.CheckConstraint(condition=models.Q(("amount__gt", 0)), name="budget_is_something"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("until_month", ""), ("until_month__gte", models.F("from_month")), _connector="OR"
                        ),
                        name="budget_forward",
                    ),
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="budgetcrossing",
            constraint=models.UniqueConstraint(
                fields=("period", "team", "measure", "percent"), name="budget_crossing_once"
            ),
        ),
        migrations.AddIndex(
            model_name="budgetnotice",
            index=models.Index(
                condition=models.Q(("next_try_at__isnull", False)),
                fields=["next_try_at"],
                name="budget_notice_to_send",
            ),
        ),
        migrations.AddConstraint(
            model_name="budgetnotice",
            constraint=models.UniqueConstraint(
                fields=("event_id", "channel", "target"), name="budget_notice_once"
            ),
        ),
    ]
