"""What SQL of allocation is given: what spells are judged by, and hours, as arrays of columns. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from itertools import pairwise
from typing import Any

from apps.core.windows import HOUR, floor_hour
from apps.usage.allocation import Basis, Surroundings

FOREVER = datetime(9999, 12, 31, tzinfo=UTC)


def gap_params(around: Surroundings) -> dict[str, Any]:
    rows = [(kind, gap.start, gap.end) for kind, gaps in around.gaps.items() for gap in gaps]
    return columns(rows, "gap_kind", "gap_from", "gap_to")


def limit_params(around: Surroundings) -> dict[str, Any]:
    """Without those that are none."""
    rows = []
    for basis, limits in ((Basis.RESERVED, around.nominal), (Basis.POD, around.node_units)):
        for (_cluster, queue, place, resource), steps in limits.items():
            ends = [*(step.at for step in steps[1:]), FOREVER]
            for step, end in zip(steps, ends, strict=True):
                if step.units is not None:
                    rows.append((str(basis), queue, place, resource, step.at, end, step.units))
    names = ("basis", "queue", "place", "resource", "from", "to", "units")
    return columns(rows, *(f"limit_{name}" for name in names))


def owner_params(around: Surroundings) -> dict[str, Any]:
    rows = [
        (
            place.kind,
            place.namespace,
            place.queue_name,
            place.queue,
            owned.team_id,
            owned.cost_centre,
            owned.start,
            owned.end,
        )
        for place, stretches in around.owners.items()
        for owned in stretches
    ]
    names = ("kind", "namespace", "queue_name", "queue", "team", "cost_centre", "from", "to")
    return columns(rows, *(f"owner_{name}" for name in names))


def unit_params(around: Surroundings) -> dict[str, Any]:
    rows = [
        (str(basis), place, resource, unit.model, unit.sharing_mode, unit.profile, *_parts(unit.equivalents))
        for (basis, _cluster, place, resource), unit in around.units.items()
    ]
    names = ("basis", "place", "resource", "model", "mode", "profile", "over", "under")
    return columns(rows, *(f"unit_{name}" for name in names))


def _parts(weight: Fraction | None) -> tuple[int | None, int | None]:
    return (None, None) if weight is None else (weight.numerator, weight.denominator)


def slots(start: datetime, end: datetime, edges: Collection[datetime]) -> dict[str, Any]:
    """The hours of [start, end), cut at the edges."""
    rows = []
    hour = floor_hour(start)
    while hour < end:
        inside = sorted({hour, hour + HOUR, *(edge for edge in edges if hour < edge < hour + HOUR)})
        rows += [(hour, low, high) for low, high in pairwise(inside)]
        hour += HOUR
    return columns(rows, "slot_hour", "slot_from", "slot_to")


def columns(rows: Sequence[tuple[Any, ...]], *names: str) -> dict[str, Any]:
    """Arrays of the columns."""
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}
