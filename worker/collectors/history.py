"""Past changes of a cluster, replayed through the parsers and writers that serve live pulls.

Input: lines {"at", "kind", "version", "event": {"type", "object"}} in order of time, and exporters' series over a range;
output: the same tables as from live pulls, with the time of each line as the time of observation. Invariants: the
same lines twice write nothing; a batch is one transaction that also moves the cursor, so an import that was cut
goes on where it stopped; within a batch, kinds are merged in the registry's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec
from django.db import transaction

from apps.core.partitions import ensure_range
from apps.observations.models import SourceState
from apps.observations.retention import partitioned_tables
from apps.observations.services import BadObject, Change, apply_changes, quarantine_put, write_samples
from worker.clients.prom import PromClient
from worker.parsers import exporters
from worker.parsers.kinds import KINDS, Bad, decode_watch, watch_row

from .kindpull import target_of

SOURCE = "history"
CURSOR = "imported_until"
SAMPLE_CURSOR = "samples_until"
BATCH = timedelta(hours=6)
BATCH_LINES = 20_000
SAMPLE_STEP_SECONDS = 3600
SAMPLE_WINDOW = timedelta(days=2)
RECENT_STEP_SECONDS = 60
RECENT_WINDOW = timedelta(minutes=35)
"""The end of the past in as many samples as live pulls make, for what looks at the last half hour."""


class HistoryLine(msgspec.Struct):
    """One change that happened at `at`."""

    at: datetime
    kind: str
    version: str
    event: msgspec.Raw


_line = msgspec.json.Decoder(HistoryLine)


@dataclass(slots=True)
class Imported:
    """Totals of an import."""

    lines: int = 0
    rows: int = 0
    bad: int = 0
    samples: int = 0
    refused_samples: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None
    kinds: dict[str, int] = field(default_factory=dict)


def cursor_at(*, cluster_id: int, name: str) -> datetime | None:
    """How far the last import came with changes (CURSOR) or samples (SAMPLE_CURSOR)."""
    state = SourceState.objects.filter(cluster_id=cluster_id, source=SOURCE).first()
    text = state.cursors.get(name) if state else None
    return datetime.fromisoformat(text) if text else None


def _move_cursor(cluster_id: int, name: str, at: datetime) -> None:
    """In the open transaction; changes and samples are imported side by side and share the row."""
    SourceState.objects.bulk_create(
        [SourceState(cluster_id=cluster_id, source=SOURCE)], ignore_conflicts=True
    )
    state = SourceState.objects.select_for_update().get(cluster_id=cluster_id, source=SOURCE)
    state.cursors = {**state.cursors, name: at.isoformat()}
    state.save(update_fields=["cursors"])


def batches(lines: Iterable[bytes]) -> Iterator[list[HistoryLine]]:
    """Lines in batches that end at each multiple of BATCH and at BATCH_LINES of them; lines of one instant stay
    together, because the cursor is a time."""
    held: list[HistoryLine] = []
    for raw in lines:
        line = _line.decode(raw)
        full = held and (_slot(line.at) != _slot(held[0].at) or len(held) >= BATCH_LINES)
        if full and line.at > held[-1].at:
            yield held
            held = []
        held.append(line)
    if held:
        yield held


def _slot(at: datetime) -> int:
    return int(at.timestamp() // BATCH.total_seconds())


def import_batch(*, cluster_id: int, batch: list[HistoryLine], done: Imported) -> None:
    """Write one batch and move the cursor, in one transaction."""
    changes: dict[str, list[Change]] = {}
    bad: dict[str, list[BadObject]] = {}
    for line in batch:
        kind = KINDS.get(line.kind)
        if kind is None:
            # A kind that no collector reads.
            continue
        watched = decode_watch(kind, line.version, bytes(line.event))
        if watched.type not in ("ADDED", "MODIFIED", "DELETED"):
            done.bad += 1
            continue
        row = watch_row(kind, watched)
        if isinstance(row, Bad):
            bad.setdefault(kind.name, []).append(BadObject(row.key, row.name, row.raw, row.error))
        else:
            changes.setdefault(kind.name, []).append(Change(line.at, watched.type == "DELETED", row))
    with transaction.atomic():
        for name, kind in KINDS.items():
            if name in changes:
                written, rejected = apply_changes(
                    cluster_id=cluster_id, target=target_of(kind), changes=changes[name]
                )
                done.rows += written.rows
                done.bad += len(rejected)
                done.kinds[name] = done.kinds.get(name, 0) + len(changes[name])
            if name in bad:
                done.bad += len(bad[name])
                quarantine_put(
                    cluster_id=cluster_id, source=kind.source, kind=name, objects=bad[name], now=batch[-1].at
                )
        _move_cursor(cluster_id, CURSOR, batch[-1].at)
    done.lines += len(batch)
    done.first_at = done.first_at or batch[0].at
    done.last_at = batch[-1].at


def prepare_partitions(*, start: datetime, end: datetime) -> None:
    """Partitions for the time that is going to be imported, within each table's retention."""
    for table in partitioned_tables():
        oldest = max(start, end - timedelta(days=table.retention_days))
        ensure_range(table, oldest, end)


def import_samples(
    *, cluster_id: int, client: PromClient, start: datetime, end: datetime, done: Imported
) -> None:
    """Device samples of [start, end] from a Prometheus' past, window by window: hourly, and at the end by minute."""
    for at, until, step in _sample_windows(start, end):
        series = [one for query in exporters.queries() for one in client.range(query, at, until, step)]
        found = exporters.samples(exporters.group_by_metric(series))
        with transaction.atomic():
            written, rejected = write_samples(cluster_id=cluster_id, columns=found.columns, rows=found.rows)
            _move_cursor(cluster_id, SAMPLE_CURSOR, until)
        done.samples += written
        done.refused_samples += len(rejected)


def _sample_windows(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime, int]]:
    """(from, to, step in seconds), in order of time."""
    at = start.replace(minute=0, second=0, microsecond=0)
    while at <= end:
        yield at, min(end, at + SAMPLE_WINDOW - timedelta(seconds=SAMPLE_STEP_SECONDS)), SAMPLE_STEP_SECONDS
        at += SAMPLE_WINDOW
    last = end.replace(second=0, microsecond=0)
    yield max(start.replace(second=0, microsecond=0), last - RECENT_WINDOW), last, RECENT_STEP_SECONDS
