"""A line of the ledger as a row of FOCUS: worked out by hand, and what must hold for any line."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from apps.chargeback.focus import COLUMNS, FOCUS_COLUMNS, OWN_COLUMNS, SINGLE, Bill, Line, Row, Shared, Value
from apps.chargeback.focus_export import csv_pieces
from apps.chargeback.focus_parquet import parquet_pieces
from apps.core.csv import cell_text

D = Decimal
BILL = Bill("Example Platform", datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC), "2026-03")
# Two H100 for an hour: 7200 unit-seconds × 4.00 = 8.
LINE = Line(
    sequence=17,
    correction=False,
    corrects=None,
    cluster="east",
    team="red",
    cost_centre="CC-1",
    basis="reserved",
    queue="red-cq",
    flavor="h100",
    resource="nvidia.com/gpu",
    model="H100",
    sharing_mode="exclusive",
    profile="",
    priority_class="",
    borrowed=False,
    seen="observed",
    starts_at=datetime(2026, 3, 4, 5, tzinfo=UTC),
    ends_at=datetime(2026, 3, 4, 6, tzinfo=UTC),
    unit_seconds=D("7200.000000000"),
    version_id=3,
    price_id=41,
    per="unit",
    currency="EUR",
    price_per_hour=D("4.000000000"),
    factor=D("1.000000000000"),
    priced_over=1,
    priced_under=1,
    amount=D("8.000000000000000000"),
)
# The specification's own list, in its order.
SPECIFIED = (Path(__file__).parents[3] / "tests" / "data" / "focus" / "columns-1.2.txt").read_text().split()


def test_the_columns_are_those_of_the_specification_then_our_own() -> None:
    assert list(FOCUS_COLUMNS) == SPECIFIED
    assert len(SPECIFIED) == 57
    assert list(COLUMNS) == SPECIFIED + list(OWN_COLUMNS)
    assert all(name.startswith("x_") and name[2].isupper() and len(name) <= 50 for name in OWN_COLUMNS)
    assert list(OWN_COLUMNS) == sorted(OWN_COLUMNS)


def row(line: Line, bill: Bill) -> Row:
    """Of every column that says something, of this line alone."""
    single, shared = Shared(bill, dict).of(line)
    return {**shared, **dict(zip(SINGLE, single, strict=True))}


def test_a_line_is_this_row() -> None:
    found = dict(row(LINE, BILL))
    assert found.keys() <= COLUMNS.keys()
    assert json.loads(str(found.pop("Tags"))) == {"cost_centre": "CC-1", "flavor": "h100", "queue": "red-cq"}
    assert json.loads(str(found.pop("SkuPriceDetails"))) == {
        "GpuCount": 1,
        "x_Basis": "reserved",
        "x_GpuModel": "H100",
        "x_RateCard": "3",
    }
    assert {name: value for name, value in found.items() if value is not None} == {
        "BillingAccountId": "Example Platform",
        "BillingAccountName": "Example Platform",
        "BillingAccountType": "Organisation",
        "InvoiceId": "2026-03",
        "InvoiceIssuerName": "Example Platform",
        "ProviderName": "Example Platform",
        "PublisherName": "Example Platform",
        "SubAccountId": "red",
        "SubAccountName": "red",
        "SubAccountType": "Team",
        "BillingPeriodStart": datetime(2026, 3, 1, tzinfo=UTC),
        "BillingPeriodEnd": datetime(2026, 4, 1, tzinfo=UTC),
        "ChargePeriodStart": datetime(2026, 3, 4, 5, tzinfo=UTC),
        "ChargePeriodEnd": datetime(2026, 3, 4, 6, tzinfo=UTC),
        "ChargeCategory": "Usage",
        "ChargeDescription": "H100 exclusive: reserved quota in queue red-cq",
        "ChargeFrequency": "Usage-Based",
        "RegionId": "east",
        "RegionName": "east",
        "ResourceId": "east/red-cq",
        "ResourceName": "red-cq",
        "ResourceType": "Queue",
        "ServiceCategory": "Compute",
        "ServiceName": "GPU Compute",
        "ServiceSubcategory": "Containers",
        "BillingCurrency": "EUR",
        "PricingCurrency": "EUR",
        "BilledCost": D(8),
        "EffectiveCost": D(8),
        "PricingCurrencyEffectiveCost": D(8),
        "ConsumedQuantity": D(2),
        "ConsumedUnit": "GPU-Hours",
        "PricingQuantity": D(2),
        "PricingUnit": "GPU-Hours",
        "PricingCategory": "Standard",
        "ListUnitPrice": D(4),
        "PricingCurrencyListUnitPrice": D(4),
        "ListCost": D(8),
        "ContractedUnitPrice": D(4),
        "PricingCurrencyContractedUnitPrice": D(4),
        "ContractedCost": D(8),
        "SkuId": "H100/exclusive",
        "SkuMeter": "GPU Hours",
        "SkuPriceId": "3/41/H100/exclusive",
        "x_Basis": "reserved",
        "x_Borrowed": False,
        "x_CostCentre": "CC-1",
        "x_Factor": D(1),
        "x_Flavor": "h100",
        "x_GpuModel": "H100",
        "x_Observed": "observed",
        "x_Queue": "red-cq",
        "x_Resource": "nvidia.com/gpu",
        "x_Sequence": 17,
        "x_SharingMode": "exclusive",
        "x_UnitSeconds": D(7200),
    }


def test_borrowed_use_is_listed_at_the_price_and_contracted_with_the_factor() -> None:
    """Two hours × 4.00 = 8 listed; × 1.25 = 10."""
    found = row(LINE._replace(borrowed=True, factor=D("1.25"), amount=D(10)), BILL)
    assert found["PricingCategory"] == "Dynamic"
    assert (found["ListUnitPrice"], found["ListCost"]) == (D(4), D(8))
    assert (found["ContractedUnitPrice"], found["ContractedCost"]) == (D(5), D(10))
    assert (found["BilledCost"], found["x_Borrowed"], found["x_Factor"]) == (D(10), True, D("1.25"))


def test_a_price_of_the_whole_card_is_of_gpu_hours_whatever_is_held() -> None:
    """Seven 1g for an hour are 7 instance-hours, and 1 card's hour at 7.00."""
    held = LINE._replace(
        sharing_mode="mig", profile="1g.10gb", model="A100", unit_seconds=D(25200), per="card"
    )
    found = row(held._replace(price_per_hour=D(7), priced_over=1, priced_under=7, amount=D(7)), BILL)
    assert (found["ConsumedQuantity"], found["ConsumedUnit"]) == (D(7), "MIG Instance-Hours")
    assert (found["PricingQuantity"], found["PricingUnit"]) == (D(1), "GPU-Hours")
    assert (found["ListCost"], found["BilledCost"]) == (D(7), D(7))
    assert (found["SkuId"], found["SkuPriceId"]) == ("A100/mig/1g.10gb", "3/41/A100/mig/1g.10gb")
    assert found["SkuMeter"] == "MIG Instance Hours"
    assert "GpuCount" in str(found["SkuPriceDetails"])
    assert "GpuCount" not in str(row(held._replace(per="unit"), BILL)["SkuPriceDetails"])


def test_a_correction_has_its_own_hour_and_the_later_bill() -> None:
    april = Bill(
        "Example Platform", datetime(2026, 4, 1, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC), "2026-04"
    )
    found = row(
        LINE._replace(correction=True, corrects=5, unit_seconds=D(-7200), amount=D(-8), sequence=99), april
    )
    assert (found["ChargeClass"], found["x_Corrects"], found["x_Sequence"]) == ("Correction", 5, 99)
    assert found["ChargePeriodStart"] == datetime(2026, 3, 4, 5, tzinfo=UTC)
    assert (found["BillingPeriodStart"], found["InvoiceId"]) == (april.starts_at, "2026-04")
    assert (found["PricingQuantity"], found["ListCost"], found["BilledCost"]) == (D(-2), D(-8), D(-8))


def values(line: Line, bill: Bill) -> list[Value]:
    alone = row(line, bill)
    return [alone.get(name) for name in COLUMNS]


def test_use_of_nobodys_has_no_sub_account_and_what_is_not_billed_no_invoice() -> None:
    found = dict(
        zip(
            COLUMNS,
            values(LINE._replace(team=None, queue="", cost_centre=""), replace(BILL, invoice=None)),
            strict=True,
        )
    )
    nothing = {name for name in SPECIFIED if found[name] is None}
    assert nothing == {
        *("AvailabilityZone", "CapacityReservationId", "CapacityReservationStatus", "ChargeClass"),
        *(name for name in SPECIFIED if name.startswith("CommitmentDiscount")),
        *("InvoiceId", "ResourceId", "ResourceName", "ResourceType"),
        *("SubAccountId", "SubAccountName", "SubAccountType"),
    }


def test_ten_seconds_are_written_with_nine_decimals_and_billed_exactly() -> None:
    """10 s × 4.00 / 3600 = 0.0111…; 10 s = 0.002777778 h, which at 4.00 are 0.011111112."""
    found = row(LINE._replace(unit_seconds=D(10), amount=D("0.011111111111111111")), BILL)
    assert found["PricingQuantity"] == D("0.002777778")
    assert (found["ListCost"], found["ContractedCost"]) == (D("0.011111112"), D("0.011111112"))
    assert (found["BilledCost"], found["EffectiveCost"]) == (D("0.011111111111111111"),) * 2


@st.composite
def lines(draw: st.DrawFn) -> Line:
    """Any that the ledger could hold, with the amount that it would have."""
    seconds = draw(st.decimals("-1000000", "1000000", places=9))
    price = draw(st.decimals("0", "10000", places=9))
    factor = draw(st.decimals("0", "100", places=12))
    over, under = draw(st.tuples(st.integers(1, 64), st.integers(1, 64)))
    exact = Fraction(seconds) * Fraction(price) * Fraction(factor) * Fraction(over, under) / 3600
    return LINE._replace(
        unit_seconds=seconds,
        price_per_hour=price,
        factor=factor,
        priced_over=over,
        priced_under=under,
        per=draw(st.sampled_from(["unit", "card"])),
        amount=Decimal(round(exact * 10**18)).scaleb(-18),
    )


@given(lines())
def test_the_products_hold_to_the_last_decimal_and_stay_next_to_the_amount(line: Line) -> None:
    found = {name: value for name, value in row(line, BILL).items() if isinstance(value, Decimal)}
    exactly = {name: Fraction(value) for name, value in found.items()}
    assert exactly["ListCost"] == exactly["ListUnitPrice"] * exactly["PricingQuantity"]
    assert exactly["ContractedCost"] == exactly["ContractedUnitPrice"] * exactly["PricingQuantity"]
    assert exactly["BilledCost"] == exactly["EffectiveCost"] == Fraction(line.amount)
    for value in found.values():
        assert -value.as_tuple().exponent <= 18  # type: ignore[operator]
    # Each of the two factors is at most half a billionth off.
    half = Fraction(1, 2 * 10**9)
    bound = half * (abs(exactly["PricingQuantity"]) + exactly["ContractedUnitPrice"] + 1)
    assert abs(exactly["ContractedCost"] - exactly["BilledCost"]) <= bound


@given(lines(), lines())
def test_one_price_id_is_one_price_in_one_unit_of_one_sku(one: Line, other: Line) -> None:
    """Whatever is not part of the price: how long, at which factor, in which bill."""
    other = other._replace(per=one.per, price_per_hour=one.price_per_hour)
    first, second = row(one, BILL), row(other, BILL)
    same = ("SkuPriceId", "SkuId", "SkuMeter", "SkuPriceDetails", "PricingUnit", "ListUnitPrice")
    assert [first[name] for name in same] == [second[name] for name in same]


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)


@given(st.lists(lines(), max_size=4), texts)
def test_what_lines_share_is_made_once_and_files_have_the_row_of_each(several: list[Line], text: str) -> None:
    """Lines one after the other give the row that each gives alone, also where they differ in one field only and whatever
    stands in it."""
    given_lines = [
        one
        for line in several
        for one in (line, line._replace(cost_centre=text), line._replace(borrowed=True, team=text), line)
    ]
    written = b"".join(csv_pieces(given_lines, BILL)).decode()
    read = list(csv.reader(io.StringIO(written, newline="")))
    assert read == [list(COLUMNS), *([cell_of(value) for value in values(one, BILL)] for one in given_lines)]
    file = b"".join(parquet_pieces(given_lines, BILL, unpriced=0))
    rows = [list(one.values()) for one in parquet.read_table(io.BytesIO(file)).to_pylist()]
    assert rows == [values(one, BILL) for one in given_lines]


def cell_of(value: Value) -> str:
    """As the documents say: a point in each decimal, a Z after each time, formulas defused."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, Decimal):
        text = f"{value:f}".rstrip("0") if "." in f"{value:f}" else f"{value:f}."
        return f"{text}0" if text.endswith(".") else text
    return cell_text(value)
