"""What Django's flush leaves behind: the partitioned tables are not its own."""

from __future__ import annotations

from django.db import connection

from apps.observations.retention import partitioned_tables


def empty_partitioned_tables() -> None:
    names = ", ".join(table.table for table in partitioned_tables())
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {names}")
