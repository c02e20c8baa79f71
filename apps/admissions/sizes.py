"""How large work is, in classes that its waits are compared in. Pure.

Input: devices asked for in all, the largest of the kinds (kinds are never added up); output: one of SIZES.
Invariant: the classes do not overlap, cover every amount, and stand in the order of size; `size_sql` is the same rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

SIZES = ("0", "1", "2-7", "8", "9-32", "33-128", "129+")

# (class, the largest amount in it); a part of a device counts as the next larger amount does.
_UP_TO = (("0", 0), ("1", 1), ("2-7", 7), ("8", 8), ("9-32", 32), ("33-128", 128))


def size_class(amounts: Iterable[Decimal]) -> str:
    """The class of work that asks for these amounts, one per kind of device; "0" for none."""
    most = max(amounts, default=Decimal(0))
    return next((name for name, limit in _UP_TO if most <= limit), SIZES[-1])


def size_sql(amount: str) -> str:
    """The class of an SQL expression (numeric; NULL for none)."""
    cases = " ".join(f"WHEN coalesce({amount}, 0) <= {limit} THEN '{name}'" for name, limit in _UP_TO)
    return f"(CASE {cases} ELSE '{SIZES[-1]}' END)"


def at_least(size: str) -> tuple[str, ...]:
    """This class and the larger ones."""
    return SIZES[SIZES.index(size) :]
