"""A place in the open transaction where a pull puts its rows before anything stored is touched.

Input: tuples in the order of `columns`, each with the time of our observation and whether the object is gone;
output: a temporary table with those rows in order of arrival. Invariants: memory does not grow with the number
of rows; a row that PostgreSQL refuses (a NUL in a text, a name too long, a number out of range) is given back
with the reason and costs only itself; the table vanishes with the transaction, so a pull that breaks half way
leaves nothing. Temporary tables are not dropped by hand: every statement counts in a small pull.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import psycopg
from django.db import connection, models, transaction
from psycopg import sql

from .models import Workload

_names = itertools.count(1)
BULK = 1000
TELL_FROM = 4000
Row = tuple[Any, ...]


class Change(NamedTuple):
    """One version of one object: when we saw it, whether it is its last, and its columns."""

    at: datetime
    gone: bool
    row: Row


class Rejected(NamedTuple):
    """A row that the database refused, and why."""

    row: Row
    error: str


def run(statement: sql.Composable, params: Sequence[Any] | None = None) -> int:
    """Execute and give the number of rows touched."""
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return int(cursor.rowcount)


def value(statement: sql.Composable, params: Sequence[Any] | None = None) -> Any:
    """Execute and give the first column of the first row."""
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        found = cursor.fetchone()
        return None if found is None else found[0]


def names(columns: Iterable[str], table: str = "") -> sql.Composed:
    """`a, b, c` or `t.a, t.b, t.c`, quoted."""
    made = [sql.Identifier(table, column) if table else sql.Identifier(column) for column in columns]
    return sql.SQL(", ").join(made)


@dataclass(frozen=True, slots=True)
class Target:
    """A table that takes rows of one kind: its model, the kind's name, and the columns that rows come in."""

    model: type[models.Model]
    kind: str
    columns: tuple[str, ...]

    @property
    def table(self) -> sql.Identifier:
        return sql.Identifier(self.model._meta.db_table)

    @property
    def has_kind(self) -> bool:
        """Whether the table holds several kinds, told apart by a column."""
        return "kind" in self.columns

    def index(self, column: str) -> int:
        return self.columns.index(column)


class Staging:
    """Rows of one target waiting to be merged. Needs an open transaction."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.name = f"stage_{target.kind.lower()}_{next(_names)}"
        self.table = sql.Identifier(self.name)
        self.count = 0
        self.gone = 0
        run(
            sql.SQL(
                "CREATE TEMP TABLE {} ON COMMIT DROP AS SELECT 0::bigint AS seq, now() AS at, false AS gone,"
                " {} FROM {} WITH NO DATA"
            ).format(self.table, names(target.columns), target.table)
        )

    def add(self, changes: Sequence[Change]) -> list[Rejected]:
        """Stage the versions in the order given; returns those that the database refused."""
        if not changes:
            return []
        try:
            with transaction.atomic():
                self._copy(changes)
        except psycopg.DataError as error:
            if len(changes) == 1:
                return [Rejected(changes[0].row, str(error).splitlines()[0])]
            middle = len(changes) // 2
            return self.add(changes[:middle]) + self.add(changes[middle:])
        self.count += len(changes)
        self.gone += sum(change.gone for change in changes)
        return []

    def add_rows(self, rows: Iterable[Row], *, at: datetime) -> list[Rejected]:
        """Stage rows that exist at one time: a page of a list."""
        return self.add([Change(at, False, row) for row in rows])

    @contextmanager
    def stream(self, *, at: datetime) -> Iterator[Callable[[Sequence[Row]], None]]:
        """Stage page after page in one COPY, which the database reads while the next page is fetched and parsed.
        One refused row costs all of them and raises psycopg.DataError: begin anew and add them page by page."""
        with transaction.atomic(), self._copying() as copy:

            def put(rows: Sequence[Row]) -> None:
                for seq, row in enumerate(rows, self.count):
                    copy.write_row((seq, at, False, *row))
                self.count += len(rows)

            yield put

    def _copy(self, changes: Sequence[Change]) -> None:
        with self._copying() as copy:
            for seq, (at, gone, row) in enumerate(changes, self.count):
                copy.write_row((seq, at, gone, *row))

    @contextmanager
    def _copying(self) -> Iterator[psycopg.Copy]:
        statement = sql.SQL("COPY {} (seq, at, gone, {}) FROM STDIN").format(
            self.table, names(self.target.columns)
        )
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            yield copy

    @property
    def is_bulk(self) -> bool:
        return self.count >= BULK

    def prepare(self) -> None:
        """Before joining. A planner that does not know yet how much a new cluster has takes its rows for few and
        nests loops over all of them: for many rows joins have to be hashed or merged, for few ones looked up."""
        settings = "set_config('enable_nestloop', {nested}, true), set_config('enable_material', 'off', true)"
        run(sql.SQL("SELECT " + settings).format(nested=sql.Literal("off" if self.is_bulk else "on")))
        if self.is_bulk:
            run(sql.SQL("SET LOCAL default_statistics_target = 20"))
            run(sql.SQL("ANALYZE {} (uid, seq)").format(self.table))


def tell_planner(target: Target, inserted: int) -> None:
    """After many new rows: the next pull must not take the tables for what they were before."""
    if inserted < TELL_FROM:
        return
    run(sql.SQL("SET LOCAL default_statistics_target = 10"))
    run(sql.SQL("ANALYZE {}").format(target.table))
    if target.model is Workload:
        run(sql.SQL("ANALYZE observations_statespan"))
