"""Room for statements that sort or group a whole fleet's samples. Input: statements of a block; invariant: only these get
it, and a server that gives more by itself keeps that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

# In the server's own 4 MB a few hundred thousand rows are sorted on disk, which takes two to three times as long.
_ROOM_KB = 64 * 1024
_GIVE = """
SELECT set_config('work_mem', greatest(setting::int, %s) || 'kB', true) FROM pg_settings WHERE name = 'work_mem'
"""


@contextmanager
def sorted_in_memory() -> Iterator[None]:
    """Until the transaction ends, sorts and groups of this connection may take 64 MB, as those of the collectors do."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(_GIVE, [_ROOM_KB])
        yield
