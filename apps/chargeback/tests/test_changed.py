"""Closed months are compared again only where their hours were computed anew since the latest close."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from apps.chargeback.ledger import keep_periods, provide
from apps.chargeback.models import BillingPeriod, ProvisionalLine
from apps.chargeback.tests.test_ledger import LATER, PERIOD, close_until_march, filled
from apps.core.windows import floor_hour
from apps.fleet.models import Cluster
from apps.observations.models import SourceState, StateSpan
from apps.usage.allocation_rollup import rollup_allocation
from apps.usage.changed import CHANGED, changed_since
from apps.usage.models import AllocationHour, Watermark

NEXT = LATER + timedelta(days=1)
EDGES = [PERIOD["start"], PERIOD["end"]]


@pytest.fixture
def month(db: None, settings: object) -> Cluster:
    return filled(settings)


def april() -> BillingPeriod:
    return provide(next(one for one in keep_periods(NEXT) if one.month == "2026-04").pk, now=NEXT)


def corrections(period: BillingPeriod) -> list[tuple[str, Decimal | None]]:
    lines = ProvisionalLine.objects.filter(period=period, correction=True).select_related("team")
    return [(line.team.slug if line.team else "", line.unit_seconds) for line in lines]


def test_a_fact_that_came_late_takes_the_note_back_and_is_corrected(month: Cluster) -> None:
    close_until_march()
    assert changed_since() == floor_hour(LATER)
    late = StateSpan.objects.get(uid="w02b")
    late.pk, late.uid = None, "w02c"
    late.started_at = floor_hour(PERIOD["end"] - timedelta(days=2))
    late.ended_at = late.started_at + timedelta(hours=1)
    late.save(force_insert=True)
    SourceState.objects.update(last_ok_at=NEXT)
    rollup_allocation(cluster=month, now=NEXT, edges=EDGES)
    assert changed_since() == late.started_at
    assert corrections(april()) == [("t02", Decimal(3600))]


def test_a_closed_month_from_before_the_note_is_not_read(month: Cluster) -> None:
    close_until_march()
    hours = AllocationHour.objects.filter(starts_at__lt=PERIOD["end"], seen="observed")
    assert hours.update(unit_seconds=1) > 0  # behind the rollup's back: whoever reads them finds a difference
    assert corrections(april()) == []
    Watermark.objects.filter(rollup=CHANGED).delete()
    assert changed_since() is None
    assert len(corrections(april())) > 0
