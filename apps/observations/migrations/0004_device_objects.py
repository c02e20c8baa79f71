"""Room for device objects (DRA, GPU operator), claims of pods, software of nodes, and what exporters say of sharing.

Adding a column with a constant default rewrites nothing; the default stays in the database, so that a worker of the
version before goes on writing meanwhile."""

from django.db import migrations, models

SOURCES = [
    ("nodes", "Nodes"),
    ("pods", "Pods"),
    ("events", "Events"),
    ("kueue", "Kueue"),
    ("volcano", "Volcano"),
    ("devices", "Device objects"),
    ("dcgm", "Prometheus / DCGM"),
]

SAMPLE_COLUMNS = """ALTER TABLE observations_devicesample
  ADD COLUMN vendor varchar(30) NOT NULL DEFAULT '', ADD COLUMN profile varchar(40) NOT NULL DEFAULT '',
  ADD COLUMN driver varchar(60) NOT NULL DEFAULT '', ADD COLUMN attribution varchar(20) NOT NULL DEFAULT '',
  ADD COLUMN shares jsonb NOT NULL DEFAULT '[]'"""
BACK = """ALTER TABLE observations_devicesample
  DROP COLUMN vendor, DROP COLUMN profile, DROP COLUMN driver, DROP COLUMN attribution, DROP COLUMN shares"""


def unmanaged(name: str, field: models.Field) -> migrations.AddField:
    return migrations.AddField(model_name="devicesample", name=name, field=field)


class Migration(migrations.Migration):
    dependencies = [("observations", "0003_no_index_on_cluster_alone")]

    operations = [
        migrations.AddField("node", "info", models.JSONField(db_default={}, default=dict)),
        migrations.AddField("pod", "claims", models.JSONField(db_default=[], default=list)),
        migrations.AlterField("quarantine", "source", models.CharField(choices=SOURCES, max_length=20)),
        migrations.AlterField("sourcestate", "source", models.CharField(choices=SOURCES, max_length=20)),
        migrations.AlterField("collectionrun", "source", models.CharField(choices=SOURCES, max_length=20)),
        migrations.RunSQL(
            SAMPLE_COLUMNS,
            BACK,
            state_operations=[
                unmanaged("vendor", models.CharField(blank=True, max_length=30)),
                unmanaged("profile", models.CharField(blank=True, max_length=40)),
                unmanaged("driver", models.CharField(blank=True, max_length=60)),
                unmanaged("attribution", models.CharField(blank=True, max_length=20)),
                unmanaged("shares", models.JSONField(default=list)),
            ],
        ),
    ]
