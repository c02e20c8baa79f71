"""A line of the ledger as a row of FOCUS 1.2. Input: a priced line with its names, and the bill it stands on; output: the
values of `COLUMNS`, by name.

Pure. Invariants
- Every row has the 57 columns of FOCUS in the order of the specification, then our own (`x_`); null where there is
  nothing to say.
- BilledCost and EffectiveCost are the ledger's amount, unrounded: a file's sum is the ledger's.
- ListCost is ListUnitPrice × PricingQuantity and ContractedCost is ContractedUnitPrice × PricingQuantity, in the very
  decimals that are written: quantities and unit prices have 9 of them, their products 18. An hour of seconds that does
  not end in 9 decimals (1 s = 0.000277777… h) is rounded there; the amount is not, and `x_UnitSeconds` has it exactly.
- What has no price has no row: FOCUS wants a unit price and a cost of every use, and 0 would be one.
- A SkuPriceId has one SkuId, one unit and one price: a price that fits several kinds of units is named once for each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

from apps.core.gpu import SharingMode
from apps.core.money import EXACT

VERSION = "1.2"
Value = str | Decimal | datetime | int | bool | None
Row = Mapping[str, Value]
DIGITS = 9
"""Decimals of quantities and unit prices."""


class Kind(StrEnum):
    """What a column holds."""

    TEXT = "text"
    DECIMAL = "decimal"
    TIME = "time"
    INTEGER = "integer"
    FLAG = "flag"


FOCUS_COLUMNS = (
    *("AvailabilityZone", "BilledCost", "BillingAccountId", "BillingAccountName", "BillingAccountType"),
    *("BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "CapacityReservationId"),
    *("CapacityReservationStatus", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency"),
    *("ChargePeriodEnd", "ChargePeriodStart", "CommitmentDiscountCategory", "CommitmentDiscountId"),
    *("CommitmentDiscountName", "CommitmentDiscountQuantity", "CommitmentDiscountStatus"),
    *("CommitmentDiscountType", "CommitmentDiscountUnit", "ConsumedQuantity", "ConsumedUnit"),
    *("ContractedCost", "ContractedUnitPrice", "EffectiveCost", "InvoiceId", "InvoiceIssuerName"),
    *("ListCost", "ListUnitPrice", "PricingCategory", "PricingCurrency"),
    *("PricingCurrencyContractedUnitPrice", "PricingCurrencyEffectiveCost", "PricingCurrencyListUnitPrice"),
    *("PricingQuantity", "PricingUnit", "ProviderName", "PublisherName", "RegionId", "RegionName"),
    *("ResourceId", "ResourceName", "ResourceType", "ServiceCategory", "ServiceName", "ServiceSubcategory"),
    *("SkuId", "SkuMeter", "SkuPriceDetails", "SkuPriceId", "SubAccountId", "SubAccountName"),
    *("SubAccountType", "Tags"),
)
OWN_COLUMNS = (
    *("x_Basis", "x_Borrowed", "x_Corrects", "x_CostCentre", "x_Factor", "x_Flavor", "x_GpuModel"),
    *("x_Observed", "x_PriorityClass", "x_Profile", "x_Queue", "x_Resource", "x_Sequence"),
    *("x_SharingMode", "x_UnitSeconds"),
)
_DECIMALS = frozenset(
    {
        *("BilledCost", "CommitmentDiscountQuantity", "ConsumedQuantity", "ContractedCost"),
        *("ContractedUnitPrice", "EffectiveCost", "ListCost", "ListUnitPrice"),
        *("PricingCurrencyContractedUnitPrice", "PricingCurrencyEffectiveCost"),
        *("PricingCurrencyListUnitPrice", "PricingQuantity", "x_Factor", "x_UnitSeconds"),
    }
)
_TIMES = frozenset({"BillingPeriodEnd", "BillingPeriodStart", "ChargePeriodEnd", "ChargePeriodStart"})
_INTEGERS = frozenset({"x_Corrects", "x_Sequence"})
_FLAGS = frozenset({"x_Borrowed"})


def _kind(name: str) -> Kind:
    for kind, names in (
        (Kind.DECIMAL, _DECIMALS),
        (Kind.TIME, _TIMES),
        (Kind.INTEGER, _INTEGERS),
        (Kind.FLAG, _FLAGS),
    ):
        if name in names:
            return kind
    return Kind.TEXT


COLUMNS: Mapping[str, Kind] = {name: _kind(name) for name in (*FOCUS_COLUMNS, *OWN_COLUMNS)}

# One unit of each sharing mode, as FOCUS writes units: what is counted in the singular, capitalised.
UNITS: Mapping[str, str] = {
    SharingMode.EXCLUSIVE: "GPU",
    SharingMode.MIG: "MIG Instance",
    SharingMode.PARTITION: "Card Partition",
    SharingMode.TIME_SLICING: "Time Slice",
    SharingMode.MPS: "MPS Client",
    SharingMode.VGPU: "vGPU Share",
}
ANY_UNIT = "Device"
CARD = UNITS[SharingMode.EXCLUSIVE]
HELD = {
    "reserved": "reserved quota",
    "pod": "bound pods",
    "nominal": "nominal quota",
    "idle": "idle capacity",
}


@dataclass(frozen=True, slots=True)
class Bill:
    """On which lines are billed: by whom, for which stretch; `invoice` None: nothing has been billed yet."""

    organisation: str
    starts_at: datetime
    ends_at: datetime
    invoice: str | None


class Line(NamedTuple):
    """A priced line of the ledger, fields as there; `cluster`, `team`: slugs. `team` None: nobody's; `per`: what the price is of,
    "unit" or "card"."""

    sequence: int
    correction: bool
    corrects: int | None
    cluster: str
    team: str | None
    cost_centre: str
    basis: str
    queue: str
    flavor: str
    resource: str
    model: str
    sharing_mode: str
    profile: str
    priority_class: str
    borrowed: bool
    seen: str
    starts_at: datetime
    ends_at: datetime
    unit_seconds: Decimal
    version_id: int
    price_id: int
    per: str
    currency: str
    price_per_hour: Decimal
    factor: Decimal
    priced_over: int
    priced_under: int
    amount: Decimal


class UnitPrices(NamedTuple):
    """For one hour of the unit that is priced, as written: of the rate card, and with the line's factor."""

    listed: Decimal
    contracted: Decimal


SINGLE = (
    *("BilledCost", "ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity", "ContractedCost"),
    *("EffectiveCost", "ListCost", "PricingCurrencyEffectiveCost", "PricingQuantity"),
    *("x_Corrects", "x_Sequence", "x_UnitSeconds"),
)
"""Columns of a line alone, in the order of `COLUMNS`; all others are the same of lines that differ in time and quantity."""
PLACES = tuple(list(COLUMNS).index(name) for name in SINGLE)
_ALONE = ("sequence", "corrects", "starts_at", "ends_at", "unit_seconds", "amount")
_shared = attrgetter(*(name for name in Line._fields if name not in _ALONE))
MOST_KNOWN = 10_000
Made = TypeVar("Made")


class Shared(Generic[Made]):
    """What lines of one bill share, as `make` has it; made once. Only that and the two unit prices are kept: of a large fleet
    there are thousands."""

    def __init__(self, bill: Bill, make: Callable[[Row], Made]) -> None:
        self._bill, self._make = bill, make
        self._known: dict[object, tuple[UnitPrices, Made]] = {}

    def of(self, line: Line) -> tuple[tuple[Value, ...], Made]:
        """The values of SINGLE, and what `make` made of the others."""
        key = _shared(line)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            shared = _alike(line, self._bill)
            known = self._known[key] = _unit_prices(line), self._make(shared)
        return _single(line, known[0]), known[1]


def _alike(line: Line, bill: Bill) -> Row:
    return {**_account(line, bill), **_time(bill), **_what(line), **_prices(line), **_sku(line), **_own(line)}


def _single(line: Line, prices: UnitPrices) -> tuple[Value, ...]:
    """In the order of SINGLE."""
    seconds = int(line.unit_seconds.scaleb(DIGITS, EXACT))
    consumed = _written(seconds, 3600)
    priced = _written(seconds * line.priced_over, 3600 * line.priced_under)
    return (
        *(line.amount, line.ends_at, line.starts_at, consumed, EXACT.multiply(prices.contracted, priced)),
        *(line.amount, EXACT.multiply(prices.listed, priced), line.amount, priced),
        *(line.corrects, line.sequence, line.unit_seconds),
    )


def _account(line: Line, bill: Bill) -> Row:
    found: dict[str, Value] = {
        "BillingAccountId": bill.organisation,
        "BillingAccountName": bill.organisation,
        "BillingAccountType": "Organisation",
        "InvoiceId": bill.invoice,
        # All three are the same, else the cost that is billed here would have to be 0.
        "InvoiceIssuerName": bill.organisation,
        "ProviderName": bill.organisation,
        "PublisherName": bill.organisation,
    }
    if line.team:
        found |= {
            "SubAccountId": line.team,
            "SubAccountName": line.team,
            "SubAccountType": "Team",
        }
    return found


def _time(bill: Bill) -> Row:
    return {"BillingPeriodStart": bill.starts_at, "BillingPeriodEnd": bill.ends_at}


def _what(line: Line) -> Row:
    kind = " ".join(part for part in (line.model, line.sharing_mode, line.profile) if part)
    held = HELD.get(line.basis, line.basis)
    queue = f" in queue {line.queue}" if line.queue else ""
    found: dict[str, Value] = {
        "ChargeCategory": "Usage",
        "ChargeClass": "Correction" if line.correction else None,
        "ChargeDescription": f"{kind}: {held}{queue}",
        "ChargeFrequency": "Usage-Based",
        "RegionId": line.cluster,
        "RegionName": line.cluster,
        "ServiceCategory": "Compute",
        "ServiceName": "GPU Compute",
        "ServiceSubcategory": "Containers",
        "Tags": _json(
            {
                name: text
                for name, text in (
                    ("cost_centre", line.cost_centre),
                    ("flavor", line.flavor),
                    ("priority_class", line.priority_class),
                    ("queue", line.queue),
                )
                if text
            }
        ),
    }
    if line.queue:
        found |= {
            "ResourceId": f"{line.cluster}/{line.queue}",
            "ResourceName": line.queue,
            "ResourceType": "Queue",
        }
    return found


def _unit_prices(line: Line) -> UnitPrices:
    price = Fraction(line.price_per_hour)
    listed, contracted = (
        _written(one.numerator * 10**DIGITS, one.denominator)
        for one in (price, price * Fraction(line.factor))
    )
    return UnitPrices(listed, contracted)


def _prices(line: Line) -> Row:
    listed, contracted = _unit_prices(line)
    return {
        "BillingCurrency": line.currency,
        "PricingCurrency": line.currency,
        "ConsumedUnit": _hours(_unit(line)),
        "PricingUnit": _hours(_priced_unit(line)),
        "PricingCategory": "Dynamic" if line.borrowed else "Standard",
        "ListUnitPrice": listed,
        "PricingCurrencyListUnitPrice": listed,
        "ContractedUnitPrice": contracted,
        "PricingCurrencyContractedUnitPrice": contracted,
    }


def _sku(line: Line) -> Row:
    sku = "/".join(part for part in (line.model, line.sharing_mode, line.profile) if part)
    details: dict[str, str | int] = {
        "x_Basis": line.basis,
        "x_GpuModel": line.model,
        "x_RateCard": str(line.version_id),
    }
    if _priced_unit(line) == CARD:
        details["GpuCount"] = 1
    return {
        "SkuId": sku,
        "SkuMeter": f"{_unit(line)} Hours",
        "SkuPriceDetails": _json(details),
        "SkuPriceId": f"{line.version_id}/{line.price_id}/{sku}",
    }


def _own(line: Line) -> Row:
    return {
        "x_Basis": line.basis,
        "x_Borrowed": line.borrowed,
        "x_CostCentre": line.cost_centre or None,
        "x_Factor": line.factor,
        "x_Flavor": line.flavor or None,
        "x_GpuModel": line.model,
        "x_Observed": line.seen,
        "x_PriorityClass": line.priority_class or None,
        "x_Profile": line.profile or None,
        "x_Queue": line.queue or None,
        "x_Resource": line.resource,
        "x_SharingMode": line.sharing_mode or None,
    }


def _unit(line: Line) -> str:
    return UNITS.get(line.sharing_mode, ANY_UNIT)


def _priced_unit(line: Line) -> str:
    return CARD if line.per == "card" else _unit(line)


def _hours(unit: str) -> str:
    return f"{unit}-Hours"


def _written(parts: int, divisor: int) -> Decimal:
    """A billionth times parts / divisor, to the billionth, half to even."""
    whole, rest = divmod(parts, divisor)
    if 2 * rest > divisor or (2 * rest == divisor and whole % 2):
        whole += 1
    return Decimal(whole).scaleb(-DIGITS, EXACT)


def _json(found: Mapping[str, str | int]) -> str:
    return json.dumps(found, sort_keys=True, ensure_ascii=False)
