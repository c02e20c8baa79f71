"""A billing period's lines as a FOCUS file. Input: a period; output: the file in pieces, as CSV or Parquet.

Invariants
- Never more than a few thousand lines are in memory, however long the month was: they come through a cursor of the
  server's and leave in pieces.
- The same lines give the same bytes; a closed period's lines never change, and teams and clusters go by the slugs that
  they had when it was closed. `tag` is another one when anything else changes that the bytes depend on: the organisation,
  the layout, the library that writes Parquet.
- An open period's file is provisional: its lines are those of one moment, its `InvoiceId` is null, and `tag` moves when
  the lines are computed anew. Of one that is closed meanwhile they are the ledger's.
- Decimals have a point and no exponent, times are UTC and end in Z. Text that a spreadsheet would run is defused in CSV
  as in the portal's other downloads; Parquet has it as it is.
- Lines without a price are not in the file but counted: FOCUS has no row for them."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from importlib.metadata import version
from itertools import chain, islice, pairwise
from typing import Any

from django.conf import settings

from apps.chargeback.focus import COLUMNS, PLACES, VERSION, Bill, Line, Row, Shared, Value
from apps.chargeback.ledger import names_of_today
from apps.chargeback.models import BillingPeriod
from apps.chargeback.statements import lines_model
from apps.core.batches import batches
from apps.core.csv import cell_text
from apps.core.quantity import plain

LAYOUT = 1
"""Of the files: another number when the same lines are written differently."""
FETCHED = 2_000
CSV_LINES = 1_000
END_OF_ROW = "\r\n"
_FIELDS = (
    *("sequence", "correction", "corrects", "cluster_id", "team_id"),
    *("cost_centre", "basis", "queue", "flavor", "resource", "model", "sharing_mode", "profile"),
    *("priority_class", "borrowed", "seen", "starts_at", "ends_at", "unit_seconds", "version_id", "price_id"),
    *("price__per", "currency", "price_per_hour", "factor", "priced_over", "priced_under", "amount"),
)


class Format(StrEnum):
    """What a file is written as."""

    CSV = "csv"
    PARQUET = "parquet"

    @property
    def media_type(self) -> str:
        return "text/csv; charset=utf-8" if self is Format.CSV else "application/vnd.apache.parquet"


@dataclass(frozen=True, slots=True)
class Export:
    """A file that can be written once. `unpriced`: lines without a price, which it leaves out; `tag`: the same for the
    same bytes."""

    format: Format
    bill: Bill
    lines: Iterable[Line]
    unpriced: int
    tag: str

    @property
    def provisional(self) -> bool:
        return self.bill.invoice is None

    def pieces(self) -> Iterator[bytes]:
        if self.format is Format.CSV:
            return csv_pieces(self.lines, self.bill)
        from apps.chargeback.focus_parquet import parquet_pieces

        return parquet_pieces(self.lines, self.bill, unpriced=self.unpriced)


def open_export(period: BillingPeriod, format_: Format) -> Export:
    """Of an open period, as closed_export."""
    return _export(period, format_, open_lines(period))


def closed_export(period: BillingPeriod, format_: Format) -> Export:
    """Of a closed period; its lines are read when the file is written."""
    return _export(period, format_, closed_lines(period))


def _export(period: BillingPeriod, format_: Format, lines: Iterable[Line]) -> Export:
    invoice = period.month if period.is_closed else None
    bill = Bill(settings.ORGANISATION, period.starts_at, period.ends_at, invoice)
    unpriced = lines_model(period).objects.filter(period=period, amount=None).count()
    written_by = version("pyarrow") if format_ is Format.PARQUET else ""
    state: object = period.digest if period.is_closed else [period.updated_at.isoformat(), names_of_today()]
    told = [VERSION, LAYOUT, period.month, state, format_, written_by, bill.organisation]
    tag = hashlib.sha256(json.dumps(told).encode()).hexdigest()
    return Export(format_, bill, lines, unpriced, tag)


def closed_lines(period: BillingPeriod, fetched: int = FETCHED) -> Iterator[Line]:
    """The priced ones, `fetched` at a time."""
    return _lines(period, period.names, fetched)


def open_lines(period: BillingPeriod, fetched: int = FETCHED) -> Iterator[Line]:
    """As closed_lines, with the names of today. A close drops an open period's lines: then those of the ledger."""
    lines = _lines(period, names_of_today(), fetched)
    begun = list(islice(lines, 1))  # from here on the server keeps the others as they are
    yield from chain(begun, lines)
    if not begun:
        yield from closed_lines(period) if _closed_meanwhile(period) else ()


def _lines(period: BillingPeriod, names: Mapping[str, Mapping[Any, str]], fetched: int) -> Iterator[Line]:
    clusters, teams = (
        {int(key): slug for key, slug in names[kind].items()} for kind in ("clusters", "teams")
    )
    found = lines_model(period).objects.filter(period=period, amount__isnull=False).order_by("sequence")
    rows = found.values_list(*_FIELDS).iterator(chunk_size=fetched)
    for sequence, correction, corrects, cluster_id, team_id, *rest in rows:
        yield Line(sequence, correction, corrects, clusters[cluster_id], teams.get(team_id), *rest)


def _closed_meanwhile(period: BillingPeriod) -> bool:
    period.refresh_from_db()
    return period.is_closed


def csv_pieces(lines: Iterable[Line], bill: Bill) -> Iterator[bytes]:
    """Without a byte order mark: it would become part of the first column's name."""
    yield _csv_text([list(COLUMNS)])
    shared = Shared(bill, _between)
    for some in batches(lines, CSV_LINES):
        yield "".join(_csv_row(*shared.of(line)) for line in some).encode()


def _csv_text(rows: Iterable[list[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _between(shared: Row) -> list[str]:
    """What stands before, between and after the columns of SINGLE, commas and the end of the row included."""
    cells = [_cell(shared.get(name)) for name in COLUMNS]
    edges = [-1, *PLACES, len(cells)]
    parts = [_between_commas(cells[low + 1 : high]) for low, high in pairwise(edges)]
    return [parts[0][1:], *parts[1:-1], parts[-1][:-1] + END_OF_ROW]


def _between_commas(cells: list[str]) -> str:
    """With an empty column on either side, so that nothing is quoted for standing alone."""
    return _csv_text([["", *cells, ""]]).decode().removesuffix(END_OF_ROW)


def _csv_row(single: tuple[Value, ...], between: list[str]) -> str:
    """Numbers and times need no quotes."""
    parts = between.copy()
    for place, value in enumerate(single):
        parts[place] += _cell(value)
    return "".join(parts)


def _cell(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, Decimal):
        digits = plain(value)
        return digits if "." in digits else f"{digits}.0"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return cell_text(value)
