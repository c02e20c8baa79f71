"""Objects as served, and where the visibility API says that work stands."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("fleet", "0005_volcano_plugin"),
        ("observations", "0008_cards_seen_until_now"),
    ]

    operations = [
        migrations.AddField(
            model_name="clusterobject", name="raw", field=models.JSONField(db_default={}, default=dict)
        ),
        migrations.CreateModel(
            name="QueuePosition",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("cluster_queue", models.CharField(max_length=253)),
                ("namespace", models.CharField(max_length=63)),
                ("name", models.CharField(max_length=253)),
                ("position", models.IntegerField(help_text="in the ClusterQueue")),
                ("local_position", models.IntegerField(help_text="in the LocalQueue")),
                ("observed_at", models.DateTimeField()),
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
        ),
        migrations.AddConstraint(
            model_name="queueposition",
            constraint=models.UniqueConstraint(
                fields=("cluster", "cluster_queue", "namespace", "name"), name="queue_position_once"
            ),
        ),
    ]
