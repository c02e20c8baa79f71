"""The newest pull that a rollup took into account. A nullable column."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("usage", "0005_past_run_of_unseen"),
    ]

    operations = [
        migrations.AddField(
            model_name="watermark",
            name="seen_run",
            field=models.BigIntegerField(null=True),
        ),
    ]
