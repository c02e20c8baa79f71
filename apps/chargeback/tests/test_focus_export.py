"""Files of a closed month: what the ledger has, to the last decimal, the same bytes for ever."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.db import connection
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.accounts.models import Team
from apps.chargeback.focus import COLUMNS, Kind, Line
from apps.chargeback.focus_export import Format, closed_export, closed_lines, csv_pieces, open_export
from apps.chargeback.focus_parquet import parquet_pieces
from apps.chargeback.ledger import provide
from apps.chargeback.models import BillingPeriod, LedgerEntry
from apps.chargeback.tests import test_ledger
from apps.chargeback.tests.test_focus import BILL, LINE, lines
from apps.chargeback.tests.test_ledger import LATER, PERIOD, close_until_march, filled
from apps.fleet.models import Cluster, TeamBinding
from apps.usage.allocation_rollup import rollup_allocation
from apps.usage.models import Watermark

D = Decimal


@pytest.fixture
def month(db: None, settings: object) -> Cluster:
    return filled(settings)


def written(period: BillingPeriod, format_: Format) -> bytes:
    return b"".join(closed_export(period, format_).pieces())


def from_csv(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def from_parquet(data: bytes) -> list[dict[str, Any]]:
    return pq.read_table(io.BytesIO(data)).to_pylist()  # type: ignore[no-any-return]


def april() -> BillingPeriod:
    return BillingPeriod.objects.get(month="2026-04")


def test_the_month_is_there_to_the_last_decimal(month: Cluster) -> None:
    period = close_until_march()
    priced = LedgerEntry.objects.filter(period=period, amount__isnull=False).order_by("sequence")
    amounts = list(priced.values_list("sequence", "amount"))
    for rows in (
        from_csv(written(period, Format.CSV)),
        from_parquet(written(period, Format.PARQUET)),
    ):
        assert [(int(row["x_Sequence"]), D(row["BilledCost"])) for row in rows] == amounts
        # The statements' total, before it is rounded for each team: t02 has 361/90 = 4.0111… of an odd 10 seconds.
        total = sum((D(row["BilledCost"]) for row in rows), D(0))
        assert total == sum((amount for _sequence, amount in amounts if amount is not None), D(0))
        assert total.quantize(D("0.01")) == D("26151.61")


def test_a_row_of_the_month_as_it_is_written(month: Cluster) -> None:
    """t06 had 4 cards beyond its own from 06:00 to 10:00 of the 3rd: an hour is 4 × 4.00 × 1.25 = 20."""
    data = written(close_until_march(), Format.CSV)
    assert data.startswith(b"AvailabilityZone,BilledCost,BillingAccountId,")
    assert data.splitlines()[0].decode().split(",") == list(COLUMNS)
    found = next(row for row in from_csv(data) if row["x_Borrowed"] == "true")
    expected = {
        "BilledCost": "20.0",
        "ContractedCost": "20.0",
        "ContractedUnitPrice": "5.0",
        "ListCost": "16.0",
        "ListUnitPrice": "4.0",
        "PricingQuantity": "4.0",
        "ConsumedQuantity": "4.0",
        "ConsumedUnit": "GPU-Hours",
        "PricingCategory": "Dynamic",
        "BillingPeriodStart": "2026-02-28T23:00:00Z",
        "BillingPeriodEnd": "2026-03-31T22:00:00Z",
        "ChargePeriodStart": "2026-03-03T06:00:00Z",
        "ChargePeriodEnd": "2026-03-03T07:00:00Z",
        "BillingAccountName": "GPU Portal",
        "SubAccountId": "t06",
        "SubAccountName": "t06",
        "InvoiceId": "2026-03",
        "ChargeClass": "",
        "x_Factor": "1.25",
    }
    assert {name: found[name] for name in expected} == expected


def test_every_number_has_a_point_and_every_time_ends_in_z(month: Cluster) -> None:
    rows = from_csv(written(close_until_march(), Format.CSV))
    for name, kind in COLUMNS.items():
        cells = {row[name] for row in rows} - {""}
        if kind is Kind.DECIMAL:
            assert all(cell.lstrip("-").replace(".", "", 1).isdigit() and "." in cell for cell in cells), name
        if kind is Kind.TIME:
            assert all(datetime.strptime(cell, "%Y-%m-%dT%H:%M:%SZ") for cell in cells), name


def test_both_formats_say_the_same(month: Cluster) -> None:
    period = close_until_march()
    in_csv, in_parquet = (
        from_csv(written(period, Format.CSV)),
        from_parquet(written(period, Format.PARQUET)),
    )
    assert len(in_csv) == len(in_parquet) > 0
    for text, value in zip(in_csv, in_parquet, strict=True):
        for name, kind in COLUMNS.items():
            if value[name] is None:
                assert text[name] == "", name
            elif kind is Kind.DECIMAL:
                assert D(text[name]) == value[name], name
            elif kind is Kind.TIME:
                assert value[name].utcoffset() == timedelta(0)
                assert datetime.fromisoformat(text[name]) == value[name], name
            else:
                assert text[name] == str(value[name]).replace("True", "true").replace("False", "false"), name


def test_parquet_has_exact_types_and_says_what_it_leaves_out(month: Cluster) -> None:
    """t12 held a device without a price for 10 hours: 10 lines."""
    export = closed_export(close_until_march(), Format.PARQUET)
    file = pq.ParquetFile(io.BytesIO(b"".join(export.pieces())))
    types = {field.name: str(field.type) for field in file.schema_arrow}
    assert types["BilledCost"] == types["PricingQuantity"] == "decimal128(38, 18)"
    assert types["ChargePeriodStart"] == "timestamp[us, tz=UTC]"
    assert types["x_Sequence"] == "int64"
    assert set(types.values()) == {
        *("decimal128(38, 18)", "timestamp[us, tz=UTC]", "int64", "bool", "string")
    }
    assert file.schema_arrow.metadata[b"unpriced_lines"] == b"10"
    assert export.unpriced == 10
    assert "mystery" not in file.read(["x_Flavor"])["x_Flavor"].to_pylist()


def test_a_closed_month_keeps_its_bytes_when_facts_come_late(month: Cluster) -> None:
    period = close_until_march()
    before = {format_: (written(period, format_), closed_export(period, format_).tag) for format_ in Format}
    assert written(period, Format.CSV) == before[Format.CSV][0]
    assert written(period, Format.PARQUET) == before[Format.PARQUET][0]
    late_facts(month)
    period.refresh_from_db()
    assert {
        format_: (written(period, format_), closed_export(period, format_).tag) for format_ in Format
    } == before


def test_a_month_that_is_closed_meanwhile_has_the_lines_of_the_ledger(month: Cluster) -> None:
    """The export was begun while it was open; its lines are in the ledger by the time that they are read."""
    period = provide(test_ledger.march().pk, now=LATER)
    export = open_export(period, Format.CSV)
    assert export.provisional
    closed = close_until_march()
    rows, billed = from_csv(b"".join(export.pieces())), from_csv(written(closed, Format.CSV))
    assert rows == [row | {"InvoiceId": ""} for row in billed]
    assert {row["InvoiceId"] for row in billed} == {"2026-03"}


def late_facts(month: Cluster) -> None:
    """w07 has an hour less and t02 one more; April is closed with both corrections."""
    test_ledger.test_late_facts_are_corrected_in_the_next_period(month)


def test_corrections_have_their_own_hour_on_the_later_bill(month: Cluster) -> None:
    """−2 cards × 1 h × 4.00 of the 4th, +1 × 1 h × 4.00 of the 5th."""
    late_facts(month)
    rows = from_csv(written(april(), Format.CSV))
    names = (
        *("ChargeClass", "ChargePeriodStart", "BillingPeriodStart", "InvoiceId", "SubAccountId"),
        *("PricingQuantity", "ListCost", "ContractedCost", "BilledCost"),
    )
    bill = ("2026-03-31T22:00:00Z", "2026-04")
    expected = [
        ("Correction", "2026-03-04T07:00:00Z", *bill, "t07", "-2.0", "-8.0", "-8.0", "-8.0"),
        ("Correction", "2026-03-05T10:00:00Z", *bill, "t02", "1.0", "4.0", "4.0", "4.0"),
    ]
    assert [tuple(row[name] for name in names) for row in rows] == expected
    original = next(
        row
        for row in from_csv(written(BillingPeriod.objects.get(month="2026-03"), Format.CSV))
        if row["SubAccountId"] == "t07" and row["ChargePeriodStart"] == "2026-03-04T07:00:00Z"
    )
    assert [row["x_Corrects"] for row in rows] == [original["x_Sequence"], ""]


def test_a_new_name_changes_no_closed_month_the_organisation_does(month: Cluster, settings: Any) -> None:
    period = close_until_march()
    first, data = closed_export(period, Format.CSV).tag, written(period, Format.CSV)
    assert first != closed_export(period, Format.PARQUET).tag
    Team.objects.filter(slug="t06").update(slug="t06-renamed", name="Team Six")
    Cluster.objects.update(slug="renamed")
    period.refresh_from_db()
    assert (closed_export(period, Format.CSV).tag, written(period, Format.CSV)) == (first, data)
    settings.ORGANISATION = "Example Platform"
    other = closed_export(period, Format.CSV)
    assert other.tag != first
    assert {row["InvoiceIssuerName"] for row in from_csv(b"".join(other.pieces()))} == {"Example Platform"}


def unbind(month: Cluster, queue: str) -> None:
    """Before anything is closed."""
    TeamBinding.objects.filter(name=queue).delete()
    Watermark.objects.update(done_until=PERIOD["start"])
    rollup_allocation(cluster=month, now=LATER, edges=[PERIOD["start"], PERIOD["end"]])


def test_use_of_nobodys_is_in_the_file_without_a_sub_account(month: Cluster) -> None:
    """t11's queue belongs to nobody: 38 h × 4.00 = 152."""
    unbind(month, "q11")
    rows = from_csv(written(close_until_march(), Format.CSV))
    unowned = [row for row in rows if not row["SubAccountId"]]
    assert {(row["SubAccountName"], row["SubAccountType"], row["x_Queue"]) for row in unowned} == {
        ("", "", "q11")
    }
    assert sum(D(row["BilledCost"]) for row in unowned) == 152


def test_lines_come_through_a_cursor_of_the_servers(month: Cluster) -> None:
    period = close_until_march()
    found = closed_lines(period, fetched=5)
    first = list(islice(found, 1))
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM pg_cursors WHERE statement LIKE '%chargeback_ledgerentry%'")
        ((name,),) = cursor.fetchall()
        # Five rows were fetched for the first one that was asked for; the sixth is still the server's.
        cursor.execute(f'FETCH 1 FROM "{name}"')
        (row,) = cursor.fetchall()
    assert row[0] == first[0].sequence + 5
    found.close()  # type: ignore[attr-defined]
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_cursors WHERE name = %s", [name])
        assert cursor.fetchall() == [(0,)]


def counted(asked: list[int], given: Iterable[Line]) -> Iterable[Line]:
    for line in given:
        asked.append(line.sequence)
        yield line


def test_a_piece_leaves_before_the_rest_is_read(month: Cluster) -> None:
    every = list(closed_lines(close_until_march()))
    asked: list[int] = []
    pieces = parquet_pieces(counted(asked, every), BILL, unpriced=0, group=50)
    next(pieces)
    assert len(asked) == 50
    rest = b"".join(pieces)
    assert rest.endswith(b"PAR1")
    assert len(asked) == len(every) == 891
    asked.clear()
    pieces = csv_pieces(counted(asked, [*every, *every]), BILL)
    assert next(pieces).count(b"\r\n") == 1
    assert next(pieces).count(b"\r\n") == 1000 == len(asked)


def test_a_month_without_lines_is_a_file_without_rows() -> None:
    assert from_csv(b"".join(csv_pieces([], BILL))) == []
    file = pq.ParquetFile(io.BytesIO(b"".join(parquet_pieces([], BILL, unpriced=0))))
    assert (file.metadata.num_rows, file.schema_arrow.names) == (0, list(COLUMNS))


def test_text_that_a_spreadsheet_would_run_is_defused_in_csv_only() -> None:
    line = LINE._replace(cost_centre='=HYPERLINK("http://example.com")')
    (in_csv,) = from_csv(b"".join(csv_pieces([line], BILL)))
    (in_parquet,) = from_parquet(b"".join(parquet_pieces([line], BILL, unpriced=0)))
    assert in_csv["x_CostCentre"] == '\'=HYPERLINK("http://example.com")'
    assert in_parquet["x_CostCentre"] == '=HYPERLINK("http://example.com")'


@settings(max_examples=40, deadline=None)
@given(st.lists(lines(), max_size=30))
def test_the_sum_of_any_file_is_the_sum_of_its_lines(some: list[Line]) -> None:
    total = sum((line.amount for line in some), D(0))
    for rows in (
        from_csv(b"".join(csv_pieces(some, BILL))),
        from_parquet(b"".join(parquet_pieces(some, BILL, unpriced=0, group=7))),
    ):
        assert sum((D(row["BilledCost"]) for row in rows), D(0)) == total
        assert [D(row["x_UnitSeconds"]) for row in rows] == [line.unit_seconds for line in some]
