"""How long work ran in admissions that it lost, as the cluster counts. A nullable column."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("observations", "0011_pod_placement"),
    ]

    operations = [
        migrations.AddField(
            model_name="workload",
            name="past_run_seconds",
            field=models.IntegerField(null=True),
        ),
    ]
