"""The lock of the audit trail's writers. Input: the present transaction; output: nobody else writes until it ends.

It lies below the trail itself, because whoever locks other things of a deed (rows, the periods of a binding) takes this
one first: two transactions that took them in either order would wait for each other."""

from __future__ import annotations

from django.db import connection, transaction


def lock_trail() -> None:
    """Keep other writers of the trail out until the transaction ends. Raises TransactionManagementError outside of one:
    the lock would be gone at once."""
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("an entry belongs into the transaction of its deed")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('audit trail', 0))")
