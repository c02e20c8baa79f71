"""Range partitions of fast-moving tables: made ahead of time, dropped after their retention.

Input: a registry of tables (partition column, "day" or "month", days ahead, retention) and the clock; output:
partitions named <table>_pYYYYMMDD or _pYYYYMM over half-open UTC ranges. Invariants: rows are never lost — those
that already lie in the DEFAULT partition move into the new one; a partition is dropped only when its whole range
is older than the retention; running twice does nothing. A DEFAULT partition that is not empty afterwards is an
alarm: something writes outside of the known time.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

from django.db import connection, transaction
from psycopg import sql

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartitionedTable:
    """A table partitioned by RANGE (column), with a DEFAULT partition named <table>_default."""

    table: str
    column: str
    interval: Literal["day", "month"]
    retention_days: int
    ahead: int = 14


@dataclass(slots=True)
class Upkeep:
    """What one run did. `stranded`: rows per table that still lie in the DEFAULT partition."""

    created: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    stranded: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """One partition's half-open range."""

    start: datetime
    end: datetime
    name: str


def slot_of(table: PartitionedTable, at: datetime) -> Slot:
    """The partition in which `at` lies."""
    day = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if table.interval == "day":
        return Slot(day, day + timedelta(days=1), f"{table.table}_p{day:%Y%m%d}")
    start = day.replace(day=1)
    end = (start + timedelta(days=32)).replace(day=1)
    return Slot(start, end, f"{table.table}_p{start:%Y%m}")


def slots_between(table: PartitionedTable, start: datetime, end: datetime) -> list[Slot]:
    """The partitions that cover [start, end]."""
    found = [slot_of(table, start)]
    while found[-1].end <= end:
        found.append(slot_of(table, found[-1].end))
    return found


def existing(table: PartitionedTable) -> list[Slot]:
    """The partitions that are there (without DEFAULT), oldest first; the name tells the range."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            " WHERE i.inhparent = %s::regclass",
            [table.table],
        )
        found = [row[0] for row in cursor.fetchall()]
    slots = []
    for name in found:
        match = re.fullmatch(rf"{re.escape(table.table)}_p(\d{{4}})(\d\d)(\d\d)?", name)
        if match:
            year, month, day = (int(part or 1) for part in match.groups())
            slots.append(slot_of(table, datetime(year, month, day, tzinfo=UTC)))
    return sorted(slots)


def _create(table: PartitionedTable, slot: Slot) -> None:
    """Make one partition; rows of its range move out of DEFAULT in the same transaction."""
    parts = {
        "table": sql.Identifier(table.table),
        "default": sql.Identifier(f"{table.table}_default"),
        "column": sql.Identifier(table.column),
        "name": sql.Identifier(slot.name),
        "start": sql.Literal(slot.start),
        "end": sql.Literal(slot.end),
    }
    with transaction.atomic(), connection.cursor() as cursor:
        # Writers wait for a moment instead of adding rows to DEFAULT while they move.
        cursor.execute(sql.SQL("LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE").format(**parts))
        # Workers that start together all do the upkeep: another one may just have made it.
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [slot.name])
        if cursor.fetchone() == (True,):
            return
        cursor.execute(
            sql.SQL("CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)").format(
                **parts
            )
        )
        cursor.execute(
            sql.SQL(
                "WITH moved AS (DELETE FROM {default} WHERE {column} >= {start} AND {column} < {end} RETURNING *)"
                " INSERT INTO {name} SELECT * FROM moved"
            ).format(**parts)
        )
        cursor.execute(
            sql.SQL(
                "ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({start}) TO ({end})"
            ).format(**parts)
        )


def ensure_range(table: PartitionedTable, start: datetime, end: datetime) -> list[str]:
    """Make the missing partitions that cover [start, end]; returns the names of those made."""
    there = {slot.name for slot in existing(table)}
    made = []
    for slot in slots_between(table, start, end):
        if slot.name not in there:
            _create(table, slot)
            made.append(slot.name)
    return made


def _stranded_span(table: PartitionedTable) -> tuple[datetime, datetime] | None:
    """The oldest and newest time in DEFAULT; None when it is empty."""
    with connection.cursor() as cursor:
        cursor.execute(
            sql.SQL("SELECT min({c}), max({c}) FROM {d}").format(
                c=sql.Identifier(table.column), d=sql.Identifier(f"{table.table}_default")
            )
        )
        oldest, newest = cursor.fetchone()
    return None if oldest is None else (oldest, newest)


def _stranded(table: PartitionedTable) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(f"{table.table}_default")))
        return int(cursor.fetchone()[0])


def _drop(table: PartitionedTable, slot: Slot) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        # Give up rather than queue every reader and writer behind a long query; tomorrow tries again.
        cursor.execute("SET LOCAL lock_timeout = '5s'")
        parts = {"table": sql.Identifier(table.table), "name": sql.Identifier(slot.name)}
        cursor.execute(sql.SQL("ALTER TABLE {table} DETACH PARTITION {name}").format(**parts))
        cursor.execute(sql.SQL("DROP TABLE {name}").format(**parts))


def _adopt(table: PartitionedTable, now: datetime) -> list[str]:
    """Partitions for rows that lie in DEFAULT, within the retention and the time ahead."""
    span = _stranded_span(table)
    if span is None:
        return []
    oldest = max(span[0], now - timedelta(days=table.retention_days))
    newest = min(span[1], now + timedelta(days=31 + table.ahead))
    return ensure_range(table, oldest, newest) if oldest <= newest else []


def keep_partitions(*, tables: Iterable[PartitionedTable], now: datetime) -> Upkeep:
    """Create ahead, take rows out of DEFAULT, drop what is past its retention, report what is stranded."""
    done = Upkeep()
    for table in tables:
        ahead = now + timedelta(days=table.ahead)
        done.created += ensure_range(table, now - timedelta(days=1), ahead)
        done.created += _adopt(table, now)
        horizon = now - timedelta(days=table.retention_days)
        for slot in existing(table):
            if slot.end <= horizon:
                _drop(table, slot)
                done.dropped.append(slot.name)
        left = _stranded(table)
        if left:
            done.stranded[table.table] = left
            logger.error("partitions: %d rows of %s lie outside of every partition", left, table.table)
    return done
