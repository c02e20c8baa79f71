"""Idle capacity can have a price, and how busy a team's cards were is kept with each period; of a closed one the database
refuses any change to it."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models

FORWARDS = """
CREATE FUNCTION chargeback_use_is_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM chargeback_billingperiod p WHERE p.state = 'closed'
               AND p.id IN (CASE WHEN TG_OP = 'INSERT' THEN NULL ELSE OLD.period_id END,
                            CASE WHEN TG_OP = 'DELETE' THEN NULL ELSE NEW.period_id END)) THEN
        RAISE EXCEPTION 'use of a closed period: % refused, what is billed never changes', lower(TG_OP)
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER chargeback_use_frozen BEFORE INSERT OR UPDATE OR DELETE ON chargeback_teamuse
    FOR EACH ROW EXECUTE FUNCTION chargeback_use_is_frozen();
"""
BACKWARDS = """
DROP TRIGGER chargeback_use_frozen ON chargeback_teamuse;
DROP FUNCTION chargeback_use_is_frozen();
"""


class Migration(migrations.Migration):
    dependencies = [("accounts", "0003_api_token"), ("chargeback", "0005_rate_cards_only")]

    operations = [
        migrations.AlterField(
            model_name="rateprice",
            name="basis",
            field=models.CharField(
                choices=[
                    ("reserved", "reserved quota"),
                    ("pod", "bound pods"),
                    ("nominal", "nominal quota"),
                    ("idle", "idle capacity"),
                ],
                default="reserved",
                max_length=8,
                verbose_name="basis",
            ),
        ),
        migrations.CreateModel(
            name="TeamUse",
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
                ("resource", models.CharField(max_length=253)),
                ("reserved", models.DecimalField(decimal_places=9, max_digits=30)),
                ("bridged", models.DecimalField(decimal_places=9, max_digits=30)),
                ("left_out", models.DecimalField(decimal_places=9, max_digits=30)),
                ("bound", models.DecimalField(decimal_places=9, max_digits=30)),
                ("measured", models.DecimalField(decimal_places=6, max_digits=24, null=True)),
                ("busy", models.DecimalField(decimal_places=6, max_digits=24, null=True)),
                ("memory_byte_seconds", models.DecimalField(decimal_places=6, max_digits=40, null=True)),
                ("energy_joules", models.DecimalField(decimal_places=6, max_digits=30, null=True)),
                (
                    "period",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="use",
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
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=(
                            "period",
                            "team",
                            "resource",
                            "model",
                            "sharing_mode",
                            "profile",
                            "weight_over",
                            "weight_under",
                        ),
                        name="team_use_once",
                        nulls_distinct=False,
                    )
                ],
            },
        ),
        migrations.RunSQL(FORWARDS, BACKWARDS),
    ]
