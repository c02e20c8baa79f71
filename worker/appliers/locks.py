"""One worker at a time changes a cluster. Input: a cluster's id; output: whether this process may, while the block lasts.

Invariants: the lock is the database session's: it ends with the process, however that ends, and is never waited for;
losing it (the connection was cut) lets nothing be written twice, since every write names the version that it changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.db import InterfaceError, OperationalError, connection

_NAME = "hashtext('cluster edits')"


@contextmanager
def cluster_lock(cluster_id: int) -> Iterator[bool]:
    """True while this process alone changes the cluster; False where another one does."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_try_advisory_lock({_NAME}, %s)", [cluster_id])
        held = bool(cursor.fetchone()[0])
    try:
        yield held
    finally:
        if held:
            # A connection that is gone took the lock with it.
            with suppress(OperationalError, InterfaceError), connection.cursor() as cursor:
                cursor.execute(f"SELECT pg_advisory_unlock({_NAME}, %s)", [cluster_id])
