"""Old steps of what is remembered. Input: a table whose rows hold from `seen_from` on until the next one of their key; output: how
many are gone.

Invariant: what held at the horizon, and since, stays known: only steps that a later one replaced before it go, and steps to
nothing that none follows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection, models

_DROP = """
DELETE FROM {table} s WHERE s.seen_from < %(horizon)s AND (s.{amount} = 0 AND NOT EXISTS (
  SELECT 1 FROM {table} n WHERE {same} AND n.seen_from > s.seen_from)
OR EXISTS (
  SELECT 1 FROM {table} n WHERE {same} AND n.seen_from > s.seen_from AND n.seen_from <= %(horizon)s))
"""


def forget_steps(table: type[models.Model], *, key: Sequence[str], amount: str, now: datetime) -> int:
    """Before pods of that time are forgotten. `key`: columns; `amount`: the column that is 0 where there is nothing."""
    horizon = now - timedelta(days=settings.GONE_RETENTION_DAYS)
    same = " AND ".join(f"n.{column} = s.{column}" for column in key)
    with connection.cursor() as cursor:
        cursor.execute(
            _DROP.format(table=table._meta.db_table, amount=amount, same=same), {"horizon": horizon}
        )
        return int(cursor.rowcount)
