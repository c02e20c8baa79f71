"""Prices of groups of clusters. Processes of the version before go on: they leave the new column at its default. To them a
price of a group is one of any cluster, so publish the first card with groups once all of them are gone."""

import django.db.models.deletion
from django.db import migrations, models

FORWARDS = """
CREATE OR REPLACE FUNCTION chargeback_price_is_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM chargeback_rateversion v WHERE v.state = 'published'
               AND v.id IN (CASE WHEN TG_OP = 'INSERT' THEN NULL ELSE OLD.version_id END,
                            CASE WHEN TG_OP = 'DELETE' THEN NULL ELSE NEW.version_id END)) THEN
        RAISE EXCEPTION '%: % refused on a published rate card, make a new version', TG_TABLE_NAME, lower(TG_OP)
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER chargeback_group_frozen BEFORE INSERT OR UPDATE OR DELETE ON chargeback_rategroupcluster
    FOR EACH ROW EXECUTE FUNCTION chargeback_price_is_frozen();
"""
BACKWARDS = "DROP TRIGGER chargeback_group_frozen ON chargeback_rategroupcluster"


class Migration(migrations.Migration):
    dependencies = [("chargeback", "0008_budgets"), ("fleet", "0005_volcano_plugin")]

    operations = [
        migrations.CreateModel(
            name="RateGroupCluster",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("group", models.CharField(max_length=80, verbose_name="cluster group")),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="group_clusters",
                        to="chargeback.rateversion",
                    ),
                ),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="fleet.cluster",
                        verbose_name="cluster",
                    ),
                ),
            ],
            options={
                "verbose_name": "cluster of a group",
                "verbose_name_plural": "cluster groups",
                "ordering": ["group", "cluster__slug"],
                "constraints": [
                    models.UniqueConstraint(fields=("version", "cluster"), name="rate_group_cluster_once"),
                    models.CheckConstraint(
                        condition=models.Q(("group", ""), _negated=True), name="rate_group_has_a_name"
                    ),
                ],
            },
        ),
        migrations.AddField(
            model_name="rateprice",
            name="group",
            field=models.CharField(blank=True, db_default="", max_length=80, verbose_name="cluster group"),
        ),
        migrations.RemoveConstraint(model_name="rateprice", name="rate_price_once"),
        migrations.AddConstraint(
            model_name="rateprice",
            constraint=models.UniqueConstraint(
                fields=("version", "basis", "cluster", "group", "model", "sharing_mode", "profile"),
                name="rate_price_of_group_once",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="rateprice",
            constraint=models.CheckConstraint(
                condition=models.Q(("cluster", None), ("group", ""), _connector="OR"),
                name="rate_price_of_cluster_or_group",
                violation_error_message="A price is of a cluster or of a group of clusters, not of both.",
            ),
        ),
        migrations.RunSQL(FORWARDS, BACKWARDS),
    ]
