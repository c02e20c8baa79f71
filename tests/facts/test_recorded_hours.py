"""Recorded clusters rolled up: what the hours say is what the objects say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from apps.capacity.selectors import capacity_report
from apps.observations.models import Outcome, Source, SourceState, Workload
from apps.usage.models import CapacityHour, UsageHour
from apps.usage.services import capacity_snapshot, rollup_hours

from .recorded import collected
from .test_recorded_causes import KUEUE, VOLCANO

AT = datetime(2026, 12, 2, 3, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def held_units() -> dict[tuple[str, str, str], Decimal]:
    """{(queue, flavor, resource): quantity} of everything that holds quota, from the objects themselves."""
    sums: dict[tuple[str, str, str], Decimal] = {}
    for work in Workload.objects.filter(state__in=["reserved", "admitted"]):
        for use in work.usage:
            key = (work.cluster_queue, use["flavor"], use["resource"])
            sums[key] = sums.get(key, Decimal(0)) + Decimal(use["quantity"])
    return {key: quantity for key, quantity in sums.items() if quantity}


@pytest.mark.django_db
@pytest.mark.parametrize(
    "files", [KUEUE, [(kind, f"volcano-capacity/{file}") for kind, file in VOLCANO]], ids=["kueue", "volcano"]
)
def test_an_hour_of_standing_still_is_quantity_times_3600(files: list[tuple[str, str]]) -> None:
    cluster = collected("recorded", files, at=AT)
    rollup_hours(cluster=cluster, now=AT + HOUR)
    rows = UsageHour.objects.values_list("queue", "flavor", "resource", "reserved_unit_seconds")
    hours = {(queue, flavor, resource): units / 3600 for queue, flavor, resource, units in rows}
    assert hours == held_units() != {}
    assert set(UsageHour.objects.values_list("hour", flat=True)) == {AT}


@pytest.mark.django_db
def test_a_snapshot_is_the_capacity_report_of_that_hour() -> None:
    cluster = collected("recorded", [*KUEUE, ("ResourceFlavor", "kueue/resourceflavors.json")], at=AT)
    count = capacity_snapshot(cluster=cluster, at=AT + HOUR / 2, imported=True)
    again = capacity_snapshot(cluster=cluster, at=AT + HOUR * 0.9, imported=True)
    report = capacity_report(now=AT + HOUR / 2, clusters=[cluster], imported=True)
    stored = {
        (row.model, row.sharing_mode): (row.hour, row.physical, row.allocatable, row.held, row.nominal)
        for row in CapacityHour.objects.all()
    }
    assert count == again == len(stored) == len(report.pools) > 3
    assert stored == {
        (pool.model, pool.sharing_mode): (
            AT,
            pool.physical_units,
            pool.allocatable,
            pool.held_bound,
            pool.nominal,
        )
        for pool in report.pools
    }
    weighed = {
        (row.model, row.sharing_mode): (
            row.cards,
            row.allocatable_equivalents,
            row.held_equivalents,
            row.nominal_equivalents,
            row.stranded_equivalents,
        )
        for row in CapacityHour.objects.all()
    }
    totals = report.totals
    assert sum(found[0] or 0 for found in weighed.values()) == totals.physical_devices
    sums = [sum((found[i] or Decimal(0) for found in weighed.values()), Decimal(0)) for i in (1, 2, 4)]
    exact = [total or Decimal(0) for total in (totals.allocatable, totals.held_bound, totals.stranded)]
    # Each pool is rounded by itself.
    allowed = Decimal("0.001") * len(weighed)
    assert [abs(a - b) <= allowed for a, b in zip(sums, exact, strict=True)] == [True] * 3
    for pool in report.pools:
        nominal = weighed[pool.model, pool.sharing_mode][3]
        assert nominal == pool.amounts["equivalents"].nominal


@pytest.mark.django_db
def test_an_hour_in_which_pods_were_never_read_is_not_stored() -> None:
    cluster = collected("recorded", [*KUEUE, ("ResourceFlavor", "kueue/resourceflavors.json")], at=AT)
    assert capacity_snapshot(cluster=cluster, at=AT) == 0  # nothing was read
    read = {"cluster": cluster, "last_run_at": AT, "last_ok_at": AT, "last_outcome": Outcome.OK}
    SourceState.objects.create(source=Source.NODES, **read)
    assert capacity_snapshot(cluster=cluster, at=AT) == 0  # nodes were, pods were not
    SourceState.objects.create(source=Source.PODS, **read)
    assert capacity_snapshot(cluster=cluster, at=AT) == CapacityHour.objects.count() > 3
