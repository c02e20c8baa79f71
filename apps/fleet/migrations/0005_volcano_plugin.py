"""Which Volcano plugin decides what a queue deserves, where the cluster does not tell."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("fleet", "0004_reserve_by_selector"),
    ]

    operations = [
        migrations.AddField(
            model_name="cluster",
            name="volcano_plugin",
            field=models.CharField(
                blank=True,
                choices=[("proportion", "proportion"), ("capacity", "capacity")],
                db_default="",
                default="",
                help_text="Which plugin decides what a Volcano queue deserves. Empty: told from the cluster.",
                max_length=20,
                verbose_name="Volcano queue plugin",
            ),
        ),
    ]
