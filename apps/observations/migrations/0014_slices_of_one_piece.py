"""What slices of one elastic job have in common. A column with a constant default: no row is rewritten."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("observations", "0013_backoff_of_the_past"),
    ]

    operations = [
        migrations.AddField(
            model_name="workload",
            name="slice_name",
            field=models.CharField(blank=True, db_default="", default="", max_length=253),
        ),
    ]
