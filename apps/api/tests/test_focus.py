"""The FOCUS file of a month over REST: who gets it, what it says about itself, and when it need not be sent."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from decimal import Decimal
from typing import Any, Literal

import pyarrow.parquet as pq
import pytest
from django.test import Client

from apps.accounts.models import User
from apps.api.tests.test_problems import assert_problem, faults
from apps.chargeback.focus import COLUMNS
from apps.chargeback.ledger import provide
from apps.chargeback.models import BillingPeriod
from apps.chargeback.tests.test_ledger import LATER, close_until_march, filled
from apps.chargeback.tests.test_ledger import march as march_of_the_test

URL = "/api/v1/focus/?period=2026-03"


@pytest.fixture
def march(db: None, settings: object) -> BillingPeriod:
    filled(settings)
    return close_until_march()


def client_of(role: str) -> Client:
    client = Client()
    client.force_login(User.objects.create(username=role, role=role))
    return client


def body(response: Any) -> bytes:
    return b"".join(response.streaming_content)


def test_finance_gets_the_closed_month_in_both_formats(march: BillingPeriod) -> None:
    client = client_of("finance")
    response = client.get(URL)
    assert response.status_code == 200
    assert response.streaming
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert response.headers["Content-Disposition"] == 'attachment; filename="focus-1.2-2026-03.csv"'
    assert response.headers["X-Unpriced-Lines"] == "10"
    rows = list(csv.DictReader(io.StringIO(body(response).decode(), newline="")))
    assert len(rows) == march.entries - 10
    assert round(sum(Decimal(row["BilledCost"]) for row in rows), 2) == Decimal("26151.61")
    response = client.get(f"{URL}&format=parquet")
    assert response.headers["Content-Type"] == "application/vnd.apache.parquet"
    assert response.headers["Content-Disposition"] == 'attachment; filename="focus-1.2-2026-03.parquet"'
    assert pq.read_table(io.BytesIO(body(response))).num_rows == len(rows)


def test_who_has_the_file_gets_no_second_one(march: BillingPeriod) -> None:
    client = client_of("platform_admin")
    first = client.get(URL)
    etag = first.headers["ETag"]
    assert etag.startswith('"')
    assert set(first.headers["Cache-Control"].split(", ")) == {"private", "max-age=3600"}
    assert {"Authorization", "Cookie"} <= set(first.headers["Vary"].replace(" ", "").split(","))
    again = client.get(URL, headers={"If-None-Match": f'"other", {etag}'})
    assert (again.status_code, again.content) == (304, b"")
    assert (again.headers["ETag"], again.headers["Cache-Control"]) == (etag, first.headers["Cache-Control"])
    assert body(client.get(URL)) == body(first)
    other = client.get(f"{URL}&format=parquet", headers={"If-None-Match": etag})
    assert other.status_code == 200
    assert other.headers["ETag"] != etag


@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_an_open_month_is_provisional_until_it_is_closed(
    db: None, settings: object, format_: Literal["csv", "parquet"]
) -> None:
    filled(settings)
    client, url = client_of("finance"), f"{URL}&format={format_}"
    provide(march_of_the_test().pk, now=LATER)
    response = client.get(url)
    assert response.status_code == 200
    assert response.headers["X-Provisional"] == "true"
    assert response.headers["X-Unpriced-Lines"] == "10"
    assert response.headers["Cache-Control"] == "private, no-cache"
    name = f"focus-1.2-2026-03-provisional.{format_}"
    assert response.headers["Content-Disposition"] == f'attachment; filename="{name}"'
    etag = response.headers["ETag"]
    assert etag.startswith('W/"')
    provisional = rows_of(body(response), format_)
    assert {row["InvoiceId"] for row in provisional} <= {None, ""}
    again = client.get(url, headers={"If-None-Match": etag})
    assert (again.status_code, again.headers["X-Provisional"]) == (304, "true")
    provide(march_of_the_test().pk, now=LATER + timedelta(hours=1))
    assert client.get(url, headers={"If-None-Match": etag}).status_code == 200

    close_until_march()
    closed = client.get(url)
    assert not closed.has_header("X-Provisional")
    assert closed.headers["ETag"].startswith('"')
    billed = rows_of(body(closed), format_)
    assert {row["InvoiceId"] for row in billed} == {"2026-03"}
    assert [without_bill(row) for row in provisional] == [without_bill(row) for row in billed]


def rows_of(data: bytes, format_: Literal["csv", "parquet"]) -> list[dict[str, Any]]:
    if format_ == "csv":
        return list(csv.DictReader(io.StringIO(data.decode(), newline="")))
    return pq.read_table(io.BytesIO(data)).to_pylist()  # type: ignore[no-any-return]


def without_bill(row: dict[str, Any]) -> dict[str, Any]:
    """Without what only a billed line has: the numbers of an open month's lines begin at 1."""
    return {name: value for name, value in row.items() if name not in ("InvoiceId", "x_Sequence")}


def test_a_month_without_lines_yet_is_the_columns_alone(march: BillingPeriod) -> None:
    response = client_of("finance").get("/api/v1/focus/?period=2026-04")
    assert response.headers["X-Provisional"] == "true"
    assert body(response).decode().splitlines() == [",".join(COLUMNS)]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", {("period", "required")}),
        ("?period=2019-03", {("period", "no_period")}),
        ("?period=2026-13", {("period", "invalid")}),
        ("?period=2026-03&format=xlsx", {("format", "invalid_choice")}),
        ("?period=2026-03&month=3", {("month", "unknown")}),
    ],
)
def test_what_cannot_be_understood_is_named(
    march: BillingPeriod, query: str, found: set[tuple[str, str]]
) -> None:
    response = client_of("finance").get(f"/api/v1/focus/{query}")
    assert faults(assert_problem(response, 400, "invalid-parameters")) == found


def test_who_may_not_have_it_learns_of_no_month(march: BillingPeriod) -> None:
    client = client_of("viewer")
    closed, absent = client.get(URL), client.get("/api/v1/focus/?period=2019-03")
    assert assert_problem(closed, 404, "not-found") == assert_problem(absent, 404, "not-found")
