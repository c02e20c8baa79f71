"""How a test that committed leaves the database as the next one expects it.

Django's flush does not know the partitioned tables. It has to make the content types again, which `inhibit_post_migrate`
would prevent: what is remembered of them in this process would then name rows that are gone.
"""

from __future__ import annotations

from django.core.management import call_command
from django.db import connection

from apps.observations.retention import partitioned_tables


def empty_partitioned_tables() -> None:
    names = ", ".join(table.table for table in partitioned_tables())
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {names}")


def empty_database() -> None:
    """For fixtures that keep the database open over several tests."""
    call_command("flush", interactive=False, verbosity=0)
    empty_partitioned_tables()
