"""Provisional lines of open periods, and the names that a closed period keeps."""

import django.db.models.deletion
from django.db import migrations, models

NEVER_EMPTIED = """
CREATE TRIGGER chargeback_ledger_never_emptied BEFORE TRUNCATE ON chargeback_ledgerentry
    FOR EACH STATEMENT EXECUTE FUNCTION chargeback_is_frozen();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_membership_labels"),
        ("chargeback", "0003_frozen"),
        ("fleet", "0005_volcano_plugin"),
    ]

    operations = [
        migrations.RenameField(
            model_name="billingperiod",
            old_name="accepted",
            new_name="missing",
        ),
        migrations.AddField(
            model_name="billingperiod",
            name="names",
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name="billingperiod",
            name="by_team",
            field=models.JSONField(default=dict),
        ),
        migrations.CreateModel(
            name="ProvisionalLine",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("model", models.CharField(blank=True, max_length=120)),
                ("sharing_mode", models.CharField(blank=True, max_length=20)),
                ("profile", models.CharField(blank=True, max_length=120)),
                ("weight_over", models.BigIntegerField(null=True)),
                ("weight_under", models.BigIntegerField(null=True)),
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
                ("sequence", models.BigIntegerField()),
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
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="provisional",
                        to="chargeback.billingperiod",
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
            model_name="provisionalline",
            constraint=models.UniqueConstraint(fields=("period", "sequence"), name="provisional_line_once"),
        ),
        migrations.RunSQL(
            NEVER_EMPTIED, "DROP TRIGGER chargeback_ledger_never_emptied ON chargeback_ledgerentry"
        ),
    ]
