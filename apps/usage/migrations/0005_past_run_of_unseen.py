"""How long attempts that nobody saw ran in all, as the cluster counts. A nullable column."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("usage", "0004_why_work_waits"),
    ]

    operations = [
        migrations.AddField(
            model_name="unseenevictions",
            name="run_seconds",
            field=models.IntegerField(null=True),
        ),
    ]
