"""Reserves by node selector, of all that is selected, with who made and ended them.

New columns are empty or carry a database default, so that processes of the version before keep writing while
this is applied; nothing is rewritten.
"""

import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("fleet", "0003_binding_one_owner"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="reserve",
            options={
                "ordering": ["cluster", "valid_from", "id"],
                "verbose_name": "platform reserve",
                "verbose_name_plural": "platform reserves",
            },
        ),
        migrations.AddField(
            model_name="reserve",
            name="created_by",
            field=models.ForeignKey(
                blank=True,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
                verbose_name="created by",
            ),
        ),
        migrations.AddField(
            model_name="reserve",
            name="ended_by",
            field=models.ForeignKey(
                blank=True,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
                verbose_name="ended by",
            ),
        ),
        migrations.AddField(
            model_name="reserve",
            name="selector",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Labels of nodes as kubectl takes them: pool=infer,zone in (a,b),!spot. Empty: every node.",
                max_length=1000,
                verbose_name="node selector",
            ),
        ),
        migrations.AlterField(
            model_name="reserve",
            name="devices",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Whole cards. Empty: all that are selected, new nodes included.",
                null=True,
                validators=[django.core.validators.MinValueValidator(1)],
                verbose_name="cards",
            ),
        ),
        migrations.AlterField(
            model_name="reserve",
            name="model",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="As a label or this portal names it. Empty: every model.",
                max_length=120,
                verbose_name="device model",
            ),
        ),
        migrations.AlterField(
            model_name="reserve",
            name="sharing_mode",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Empty: every mode.",
                max_length=20,
                verbose_name="sharing mode",
            ),
        ),
    ]
