"""The capacity ladder: physical ≥ allocatable ≥ committed on one scale. Pure. Input: capacity totals; output: rungs.

Physical and what is out of use count whole cards; held, free, nominal and ceiling are GPU-equivalents (the
published weight table turns slices and MIG instances into shares of a card). Stranded is neither held nor free. A number nobody said is None; what of
the allocatable nobody knows to be held or free is not drawn, and no ratio is taken over it.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from apps.capacity.rows import Totals
from apps.console.measures import shaded

ZERO = Decimal(0)
Segment = tuple[str, Decimal]


@dataclass(frozen=True, slots=True)
class Ladder:
    """`scale` is the amount at full width. `out`: (bucket, cards), the largest first; `gap`: nominal minus
    allocatable, positive when more is promised than usable."""

    scale: Decimal
    physical: tuple[Segment, ...]
    allocatable: tuple[Segment, ...]
    committed: tuple[Segment, ...]
    out: tuple[tuple[str, int], ...]
    out_total: int
    gap: Decimal | None
    held_ratio: Decimal | None
    committed_ratio: Decimal | None


def _ratio(part: Decimal | None, whole: Decimal) -> Decimal | None:
    return None if part is None or whole <= 0 else part / whole


def ladder(totals: Totals) -> Ladder:
    out = tuple(
        sorted(((b, n) for b, n in totals.buckets.items() if n), key=lambda item: (-item[1], item[0]))
    )
    out_total = sum(n for _, n in out)
    nominal, ceiling = totals.nominal, totals.ceiling
    over = ZERO if nominal is None or ceiling is None else max(ZERO, ceiling - nominal)
    widest = max(Decimal(totals.physical_devices), totals.allocatable, nominal or ZERO, Decimal(1))
    # The ceilings may reach far past what exists: they are cut at a quarter more than everything else.
    scale = min(max(widest, (nominal or ZERO) + over), widest * Decimal("1.25"))
    return Ladder(
        scale=scale,
        physical=(("f-free", Decimal(totals.allocatable_devices)), *shaded(totals.buckets)),
        allocatable=(
            ("f-held", totals.held_bound or ZERO),
            ("f-stranded", totals.stranded or ZERO),
            ("f-free", max(ZERO, totals.free or ZERO)),
        ),
        committed=(("f-commit", nominal or ZERO), ("f-ceiling", min(over, scale - (nominal or ZERO)))),
        out=out,
        out_total=out_total,
        gap=None if nominal is None else nominal - totals.allocatable,
        held_ratio=_ratio(totals.held_bound, totals.allocatable_of_read),
        committed_ratio=_ratio(nominal, totals.allocatable),
    )
