"""Kubernetes quantities, exactly. Input: the text (or number) of a quantity in any legal form; output: Decimal.

The one place in the portal that reads a quantity: no float ever holds one. Grammar: apimachinery's
`resource.Quantity` — a decimal number with one suffix out of m k M G T P E (powers of 1000, also u and n),
Ki Mi Gi Ti Pi Ei (powers of 1024) or a decimal exponent (e3, E-2).
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

_SUFFIXES: dict[str, Decimal] = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12,
    "P": Decimal(10) ** 15,
    "E": Decimal(10) ** 18,
    "Ki": Decimal(2) ** 10,
    "Mi": Decimal(2) ** 20,
    "Gi": Decimal(2) ** 30,
    "Ti": Decimal(2) ** 40,
    "Pi": Decimal(2) ** 50,
    "Ei": Decimal(2) ** 60,
}
_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)")


class QuantityError(ValueError):
    """The text is no Kubernetes quantity; the message quotes it."""


@lru_cache(maxsize=4096)
def _parse_text(text: str) -> Decimal:
    match = _QUANTITY.fullmatch(text)
    if match is None or len(text) > 64:
        raise QuantityError(f"{text[:64]!r} is not a Kubernetes quantity")
    number, exponent, suffix = match.groups()
    if exponent and abs(int(exponent[1:])) > 36:
        raise QuantityError(f"{text!r} has an exponent outside of a quantity's range")
    return Decimal(number + (exponent or "")) * _SUFFIXES[suffix or ""]


def parse_quantity(value: str | int | float) -> Decimal:
    """`"2500m"` → Decimal("2.500"), `"16k"` → 16000, `8` → 8. Raises QuantityError for anything else."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise QuantityError(f"{value!r} is not a Kubernetes quantity")
    return _parse_text(value.strip() if isinstance(value, str) else str(value))


def plain(value: Decimal) -> str:
    """A Decimal as short plain digits, without exponent or trailing zeros: Decimal("8.000") → "8"."""
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text or "0"
