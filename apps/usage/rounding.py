"""To what precision the lengths of waits are kept. Pure.

Input: seconds; output: whole seconds with three significant digits, so that a histogram of waits stays small. One rule,
in Python and in SQL. Invariants: rounding twice changes nothing; it keeps the order; the error is at most half a second
below 1,000 s and at most 0.5 % above.
"""

from __future__ import annotations

from decimal import Decimal

_DIGITS = 3


def rounded_seconds(seconds: Decimal) -> int:
    """Half up. `seconds` is not negative."""
    unit: int = 10 ** max(0, len(str(int(seconds))) - _DIGITS)
    return int(seconds / unit + Decimal("0.5")) * unit


def rounded_sql(seconds: str) -> str:
    """The same of an SQL expression (numeric, not negative), as bigint."""
    units = ",".join(str(10 ** max(0, length - _DIGITS)) for length in range(1, 19))
    unit = f"(ARRAY[{units}]::numeric[])[length(trunc({seconds})::text)]"
    return f"(trunc({seconds} / {unit} + 0.5) * {unit})::bigint"
