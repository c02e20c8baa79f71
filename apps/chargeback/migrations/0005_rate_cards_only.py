"""Prices per flavor are gone: rate cards took their place, and no page or route read them any more. What is running while this
is applied must not be older than 0004."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("chargeback", "0004_provisional")]

    operations = [migrations.DeleteModel(name="Rate")]
