"""The first list of a kind of a cluster: straight into its table, because there is nothing to compare with.

Input: pages of rows; output: current objects, and for workloads their open spans. Needs an open transaction; what
is written vanishes with the savepoint when the list breaks. Invariants: the same result as staging and merging the
same list; a row that the database refuses, or an object listed twice, raises DataError or IntegrityError, after
which the list has to be staged instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from django.db import connection, transaction
from psycopg import sql

from .models import Event, Workload
from .spans import open_spans
from .staging import Row, Target, names, tell_planner, value
from .writers import Written


def is_first(*, cluster_id: int, target: Target) -> bool:
    """Whether nothing of this kind is stored. Events have no current state; and work may wait for LocalQueues
    before these are read, which merging them takes care of."""
    if target.model is Event or target.kind == "LocalQueue":
        return False
    same_kind = sql.SQL("kind = {}").format(sql.Literal(target.kind)) if target.has_kind else sql.SQL("true")
    stored = sql.SQL("SELECT EXISTS (SELECT 1 FROM {} WHERE cluster_id = {} AND {})").format(
        target.table, sql.Literal(cluster_id), same_kind
    )
    return not value(stored)


@contextmanager
def write_first(
    *, cluster_id: int, target: Target, now: datetime, written: Written
) -> Iterator[Callable[[Sequence[Row]], None]]:
    """Gives a function that takes the rows of a page. `written` is filled when the list is complete."""
    statement = sql.SQL("COPY {} (cluster_id, first_seen_at, observed_at, {}) FROM STDIN").format(
        target.table, names(target.columns)
    )
    count = 0
    with transaction.atomic():
        with connection.cursor() as cursor, cursor.copy(statement) as copy:

            def put(rows: Sequence[Row]) -> None:
                nonlocal count
                for row in rows:
                    copy.write_row((cluster_id, now, now, *row))
                count += len(rows)

            yield put
        if target.model is Workload:
            written.spans += open_spans(cluster_id=cluster_id, kind=target.kind)
        tell_planner(target, count)
    written.inserted += count
