"""From when on a pull told of something new. A nullable column of the partitioned log."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("observations", "0014_slices_of_one_piece"),
    ]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE observations_collectionrun ADD COLUMN told_from timestamptz",
            "ALTER TABLE observations_collectionrun DROP COLUMN told_from",
            state_operations=[
                migrations.AddField("collectionrun", "told_from", models.DateTimeField(null=True)),
            ],
        ),
    ]
