"""Hours of capacity also in whole cards and GPU-equivalents. Hours of the past keep NULL: nobody noted them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("usage", "0001_initial")]

    operations = [
        migrations.AddField("capacityhour", "cards", models.PositiveIntegerField(null=True)),
        migrations.AddField(
            "capacityhour", "stranded", models.DecimalField(max_digits=14, decimal_places=3, null=True)
        ),
        migrations.AddField(
            "capacityhour",
            "allocatable_equivalents",
            models.DecimalField(max_digits=14, decimal_places=3, null=True),
        ),
        migrations.AddField(
            "capacityhour",
            "held_equivalents",
            models.DecimalField(max_digits=14, decimal_places=3, null=True),
        ),
        migrations.AddField(
            "capacityhour",
            "nominal_equivalents",
            models.DecimalField(max_digits=14, decimal_places=3, null=True),
        ),
        migrations.AddField(
            "capacityhour",
            "stranded_equivalents",
            models.DecimalField(max_digits=14, decimal_places=3, null=True),
        ),
    ]
