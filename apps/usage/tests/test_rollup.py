"""The hourly rollup: what it stores equals what the spans say, however often and in whatever order it runs."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.admissions.tests.builders import T0, bind, hours, make_cluster, make_team
from apps.fleet.models import Cluster
from apps.observations.models import SourceState, StateSpan
from apps.usage.models import UsageHour, Watermark
from apps.usage.services import REDO_AT_MOST, ROLLUP, rollup_hours
from apps.usage.spans import Held, unit_seconds_by_hour

pytestmark = pytest.mark.django_db
D = Decimal
GPUS = [{"flavor": "h100", "resource": "nvidia.com/gpu", "quantity": "8"}]


def span(cluster: Cluster, start: float, end: float | None, **fields: Any) -> StateSpan:
    values = {
        "kind": "Workload",
        "uid": f"u-{start}-{end}-{random.random()}",
        "namespace": "ml",
        "name": "job",
        "queue_name": "main",
        "queue": "team-a",
        "state": "admitted",
        "usage": GPUS,
        **fields,
    }
    ended = None if end is None else hours(end)
    return StateSpan.objects.create(cluster=cluster, started_at=hours(start), ended_at=ended, **values)


def stored(**narrowed: Any) -> dict[tuple[int, str | None], tuple[Decimal, Decimal]]:
    """{(hour since T0, team): (reserved, admitted)}."""
    rows = UsageHour.objects.filter(resource="nvidia.com/gpu", **narrowed)
    return {
        ((row.hour - T0) // timedelta(hours=1), row.team.slug if row.team else None): (
            row.reserved_unit_seconds,
            row.admitted_unit_seconds,
        )
        for row in rows.select_related("team")
    }


def test_reserved_and_admitted_hours() -> None:
    cluster, team = make_cluster(), make_team("vision")
    bind(team, cluster, "team-a")
    span(cluster, 0.25, 0.5, state="reserved")
    span(cluster, 0.5, 2.25)
    span(cluster, 0, 3, state="pending")
    span(cluster, 0, 3, usage=[])
    result = rollup_hours(cluster=cluster, now=hours(4))
    assert (result.from_hour, result.until, result.rows) == (hours(0), hours(4), 3)
    assert stored() == {
        (0, "vision"): (D(8 * 2700), D(8 * 1800)),
        (1, "vision"): (D(8 * 3600), D(8 * 3600)),
        (2, "vision"): (D(8 * 900), D(8 * 900)),
    }
    assert Watermark.objects.get(cluster=cluster, rollup=ROLLUP).done_until == hours(4)


def test_nothing_seen_yet_is_nothing_done() -> None:
    cluster = make_cluster()
    assert rollup_hours(cluster=cluster, now=hours(4)).until is None
    assert not Watermark.objects.exists()


def test_the_unfinished_hour_is_done_again() -> None:
    cluster = make_cluster()
    first = span(cluster, 0.5, None)
    rollup_hours(cluster=cluster, now=hours(1.5))
    assert stored() == {(0, None): (D(14400), D(14400)), (1, None): (D(14400), D(14400))}
    first.ended_at = hours(1.75)
    first.save()
    result = rollup_hours(cluster=cluster, now=hours(3))
    assert result.from_hour == hours(1)
    assert stored() == {(0, None): (D(14400), D(14400)), (1, None): (D(21600), D(21600))}


def test_running_twice_changes_nothing() -> None:
    cluster = make_cluster()
    span(cluster, 0.5, 7.5)
    rollup_hours(cluster=cluster, now=hours(5.5))
    before = stored()
    rollup_hours(cluster=cluster, now=hours(5.5))
    rollup_hours(cluster=cluster, now=hours(5.2))
    rollup_hours(cluster=cluster, now=hours(2))
    again = rollup_hours(cluster=cluster, now=hours(5.5))
    assert stored() == before
    assert again.rows == 1
    assert Watermark.objects.get(cluster=cluster, rollup=ROLLUP).done_until == hours(5)


def test_each_stretch_belongs_to_the_team_of_that_time() -> None:
    cluster, old, new = make_cluster(), make_team("old"), make_team("new")
    bind(old, cluster, "team-a", valid_to=hours(1.25))
    bind(new, cluster, "team-a", valid_from=hours(1.5))
    span(cluster, 0, 2)
    rollup_hours(cluster=cluster, now=hours(2))
    full, quarter = D(8 * 3600), D(8 * 900)
    assert stored() == {
        (0, "old"): (full, full),
        (1, "old"): (quarter, quarter),
        (1, None): (quarter, quarter),
        (1, "new"): (quarter * 2, quarter * 2),
    }


def test_an_outage_holds_the_watermark_back() -> None:
    cluster = make_cluster()
    held = span(cluster, 0, None)
    state = SourceState.objects.create(
        cluster=cluster, source="kueue", presence="installed", last_run_at=hours(6), last_ok_at=hours(2.5)
    )
    SourceState.objects.create(cluster=cluster, source="volcano", presence="absent", last_ok_at=hours(1))
    rollup_hours(cluster=cluster, now=hours(6))
    assert sorted(stored()) == [(0, None), (1, None), (2, None)]
    assert stored()[2, None][0] == D(8 * 1800)
    assert Watermark.objects.get(cluster=cluster, rollup=ROLLUP).done_until == hours(2)
    held.ended_at = hours(3.5)
    held.save()
    state.last_ok_at = hours(6)
    state.save()
    rollup_hours(cluster=cluster, now=hours(6))
    assert stored()[2, None][0] == D(8 * 3600)
    assert stored()[3, None][0] == D(8 * 1800)
    assert Watermark.objects.get(cluster=cluster, rollup=ROLLUP).done_until == hours(6)


def test_one_dead_source_does_not_stop_the_other_for_ever() -> None:
    cluster = make_cluster()
    span(cluster, 0, 24 * 20)
    SourceState.objects.create(
        cluster=cluster, source="kueue", presence="installed", last_ok_at=hours(24 * 20)
    )
    SourceState.objects.create(cluster=cluster, source="volcano", presence="installed", last_ok_at=hours(1))
    now = hours(24 * 20)
    rollup_hours(cluster=cluster, now=now)
    assert UsageHour.objects.count() == 480
    assert Watermark.objects.get(cluster=cluster, rollup=ROLLUP).done_until == now - REDO_AT_MOST


def test_units_without_a_flavor_and_several_resources_stay_apart() -> None:
    cluster = make_cluster()
    group = [
        {"flavor": "", "resource": "nvidia.com/gpu", "quantity": "2"},
        {"flavor": "", "resource": "cpu", "quantity": "0.5"},
        {"flavor": "", "resource": "pods", "quantity": "0"},
    ]
    span(cluster, 0, 1, kind="PodGroup", queue="research", queue_name="research", usage=group)
    rollup_hours(cluster=cluster, now=hours(1))
    rows = UsageHour.objects.order_by("resource").values_list(
        "queue", "flavor", "resource", "reserved_unit_seconds"
    )
    assert list(rows) == [("research", "", "cpu", D(1800)), ("research", "", "nvidia.com/gpu", D(7200))]


def test_clusters_do_not_mix() -> None:
    east, west = make_cluster("east"), make_cluster("west")
    span(east, 0, 1)
    span(west, 0, 1)
    rollup_hours(cluster=east, now=hours(2))
    assert set(UsageHour.objects.values_list("cluster__slug", flat=True)) == {"east"}


Spec = tuple[int, int, int]
specs = st.lists(
    st.tuples(st.integers(0, 6 * 3600), st.integers(1, 4 * 3600), st.integers(1, 16)), min_size=1, max_size=8
)


def put(cluster: Cluster, found: Iterable[Spec]) -> list[Held]:
    held = []
    for start, length, quantity in found:
        usage = [{"flavor": "h100", "resource": "nvidia.com/gpu", "quantity": str(quantity)}]
        row = span(cluster, start / 3600, (start + length) / 3600, usage=usage)
        assert row.ended_at is not None
        held.append(Held(row.started_at, row.ended_at, D(quantity)))
    return held


def by_hour(cluster: Cluster) -> dict[datetime, Decimal]:
    rows = UsageHour.objects.filter(cluster=cluster).order_by("hour")
    return dict(rows.values_list("hour", "reserved_unit_seconds"))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(specs, st.lists(st.integers(0, 12 * 3600), max_size=5), st.randoms(use_true_random=False))
def test_hours_equal_spans_whatever_the_order_and_the_runs(
    db: None, found: list[Spec], runs: list[int], rng: random.Random
) -> None:
    """One cluster rolled up at once, one in several runs with its spans stored in another order."""
    StateSpan.objects.all().delete()
    Cluster.objects.filter(slug__in=["once", "often"]).delete()
    once, often = make_cluster("once"), make_cluster("often")
    held = put(once, found)
    shuffled = list(found)
    rng.shuffle(shuffled)
    put(often, shuffled)
    end = T0 + timedelta(hours=12)
    rollup_hours(cluster=once, now=end)
    for seconds in [*runs, 12 * 3600]:
        rollup_hours(cluster=often, now=T0 + timedelta(seconds=seconds))
    expected = unit_seconds_by_hour(held)
    assert by_hour(once) == expected
    assert by_hour(often) == expected
