"""On which nodes a waiting pod may run."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("observations", "0010_work_by_change")]

    operations = [
        migrations.AddField(
            model_name="pod", name="placement", field=models.JSONField(db_default={}, default=dict)
        ),
    ]
