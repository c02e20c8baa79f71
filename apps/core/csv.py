"""CSV downloads. Input: rows of plain values; output: a streaming response that Excel opens as it is meant.

Invariants: UTF-8 with BOM (Excel reads Chinese right), raw numbers without grouping, ISO 8601 times with offset,
an empty cell for "not known" (never 0), and no cell that a spreadsheet would run as a formula.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from django.http import StreamingHttpResponse
from django.utils.text import get_valid_filename

from apps.core.quantity import plain

BOM = "\ufeff"
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def cell_text(value: Any) -> str:
    """One value as CSV text. Numbers stay numbers; text that starts like a formula gets a leading apostrophe."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return plain(value) if value.is_finite() else ""
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    text = str(value)
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


class _Echo:
    """A file that hands back what is written: csv.writer insists on one."""

    def write(self, text: str) -> str:
        return text


def csv_lines(rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    writer = csv.writer(_Echo())
    yield BOM
    for row in rows:
        yield writer.writerow([cell_text(value) for value in row])


def csv_response(name: str, rows: Iterable[Sequence[Any]]) -> StreamingHttpResponse:
    """`name` without extension; the first row is the header."""
    response = StreamingHttpResponse(csv_lines(rows), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{get_valid_filename(name)}.csv"'
    response["Cache-Control"] = "no-store"
    return response
