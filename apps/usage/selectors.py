"""Capacity over time, and how far the hours of what was held and used are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from apps.fleet.models import Cluster
from apps.usage.models import ALLOCATION, USE, AllocationHour, Watermark


@dataclass(frozen=True, slots=True)
class CapacitySeries:
    """A pool's supply per hour in its own units; None: no snapshot in that hour, or nothing promised."""

    hours: Sequence[datetime]
    physical: Sequence[Decimal | None]
    allocatable: Sequence[Decimal | None]
    held: Sequence[Decimal | None]
    nominal: Sequence[Decimal | None]
    stranded: Sequence[Decimal | None] = ()


def first_allocation() -> datetime | None:
    """When the first hour of what was held begins."""
    rows = AllocationHour.objects.order_by("starts_at").values_list("starts_at", flat=True)
    return rows.first()


def computed_until(clusters: Collection[Cluster]) -> datetime | None:
    """Up to where hours of what was held are finished for all of them; None: not one is for some."""
    done = allocation_done_until()
    marks = [done.get(cluster.pk) for cluster in clusters]
    known = [mark for mark in marks if mark is not None]
    return min(known) if known and len(known) == len(marks) else None


def allocation_done_until() -> dict[int, datetime]:
    """By cluster, up to where hours of what was held are finished."""
    return _done_until(ALLOCATION)


def use_done_until() -> dict[int, datetime]:
    """By cluster that measures, up to where hours of how busy devices were are finished."""
    return _done_until(USE)


def _done_until(rollup: str) -> dict[int, datetime]:
    return dict(Watermark.objects.filter(rollup=rollup).values_list("cluster_id", "done_until"))
