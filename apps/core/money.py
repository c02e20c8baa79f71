"""Money as Decimal. Input: exact amounts and an ISO 4217 code; output: amounts rounded once.

Invariants: no float; an amount keeps full precision until it is shown or billed, and is then rounded once, half
to even, to the currency's minor unit. Rounded parts are made to add up to the rounded total by giving the
left-over minor units to the largest remainders (ties: earlier part first).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

# Wide enough that no product of unit-seconds and a price is ever rounded on the way.
EXACT = Context(prec=80, rounding=ROUND_HALF_EVEN)

# ISO 4217, by the digits of the minor unit; funds, metals and test codes are left out.
_NO_DIGITS = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
_TWO_DIGITS = """AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF
  CHF CNY COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR
  ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR
  MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP
  STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VES WST XCD YER ZAR ZMW ZWG"""
_THREE_DIGITS = "BHD IQD JOD KWD LYD OMR TND"
_FOUR_DIGITS = "CLF UYW"
_DIGITS: dict[str, int] = {
    **dict.fromkeys(_NO_DIGITS.split(), 0),
    **dict.fromkeys(_TWO_DIGITS.split(), 2),
    **dict.fromkeys(_THREE_DIGITS.split(), 3),
    **dict.fromkeys(_FOUR_DIGITS.split(), 4),
}
CURRENCIES = frozenset(_DIGITS)


class CurrencyError(ValueError):
    """No ISO 4217 currency that money is kept in."""


def minor_digits(currency: str) -> int:
    """Digits after the point: USD 2, JPY 0, KWD 3."""
    if currency not in CURRENCIES:
        raise CurrencyError(f"{currency[:8]!r} is not an ISO 4217 currency")
    return _DIGITS[currency]


def minor_unit(currency: str) -> Decimal:
    return Decimal(1).scaleb(-minor_digits(currency))


def round_money(amount: Decimal, currency: str) -> Decimal:
    """`amount` in whole minor units, half to even: 0.125 USD → 0.12, 0.135 → 0.14."""
    return amount.quantize(minor_unit(currency), rounding=ROUND_HALF_EVEN, context=EXACT)


def round_parts(amounts: Sequence[Decimal | Fraction], currency: str) -> list[Decimal]:
    """Each amount in whole minor units, at most one unit from its exact value, so that the parts add up to the exact
    sum, rounded half to even."""
    digits = minor_digits(currency)
    scaled = [Fraction(amount) * 10**digits for amount in amounts]
    units = [math.floor(amount) for amount in scaled]
    left = round(sum(scaled, Fraction(0))) - sum(units)
    by_remainder = sorted(range(len(scaled)), key=lambda place: (units[place] - scaled[place], place))
    for place in by_remainder[:left]:
        units[place] += 1
    return [Decimal(count).scaleb(-digits) for count in units]
