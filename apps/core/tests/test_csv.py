from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from apps.core.csv import BOM, FORMULA_STARTS, cell_text, csv_lines, csv_response


def test_numbers_stay_raw_and_unknown_stays_empty() -> None:
    cells = [Decimal("1024.500"), -4, 0, None, True, Decimal("NaN")]
    assert [cell_text(cell) for cell in cells] == ["1024.5", "-4", "0", "", "true", ""]


def test_times_are_iso_with_offset() -> None:
    assert cell_text(datetime(2026, 12, 1, 14, 5, tzinfo=UTC)) == "2026-12-01T14:05:00+00:00"


@given(st.text())
def test_no_text_is_read_as_a_formula(text: str) -> None:
    assert not cell_text(text).startswith(FORMULA_STARTS)


def test_a_download_opens_in_excel_and_reads_back() -> None:
    response = csv_response("teams/of all", [["Team", "Used"], ["视觉", Decimal(8)], ["=1+1", None]])
    body = b"".join(response.streaming_content).decode()  # type: ignore[arg-type]
    assert body.startswith(BOM)
    assert list(csv.reader(io.StringIO(body[1:]))) == [["Team", "Used"], ["视觉", "8"], ["'=1+1", ""]]
    assert response["Content-Disposition"] == 'attachment; filename="teamsof_all.csv"'


def test_rows_are_streamed_not_gathered() -> None:
    seen: list[int] = []

    def rows() -> Iterator[list[int]]:
        for number in range(3):
            seen.append(number)
            yield [number]

    lines = csv_lines(rows())
    next(lines), next(lines)
    assert seen == [0]
