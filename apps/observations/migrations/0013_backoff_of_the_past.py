"""Until when the cluster put off queueing work again, for every stretch of waiting. A nullable column."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("observations", "0012_past_run"),
    ]

    operations = [
        migrations.AddField(
            model_name="statespan",
            name="requeue_at",
            field=models.DateTimeField(null=True),
        ),
    ]
