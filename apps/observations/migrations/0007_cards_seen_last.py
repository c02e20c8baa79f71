"""A table of the cards that telemetry saw last on each node."""

from django.db import migrations, models
from django.db.models.deletion import CASCADE


class Migration(migrations.Migration):
    dependencies = [("fleet", "0001_initial"), ("observations", "0006_nodes_by_change")]

    operations = [
        migrations.CreateModel(
            name="NodeCards",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("node_name", models.CharField(max_length=253)),
                ("cards", models.IntegerField()),
                ("model_names", models.JSONField()),
                ("seen_at", models.DateTimeField()),
                ("silent", models.BooleanField()),
                (
                    "cluster",
                    models.ForeignKey(
                        db_index=False, on_delete=CASCADE, related_name="+", to="fleet.cluster"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("cluster", "node_name"), name="node_cards_once")
                ]
            },
        ),
    ]
