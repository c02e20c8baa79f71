"""How busy held devices were: a few devices worked out by hand, and that nothing is counted twice or made up."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from apps.accounts.models import Team
from apps.admissions.tests.builders import bind, hours, make_cluster, make_team
from apps.fleet.models import Cluster
from apps.observations.models import DeviceSample, Pod
from apps.usage.allocation_rollup import rollup_allocation
from apps.usage.models import UnitSeen, UseHour, Watermark
from apps.usage.use import GIB, use
from apps.usage.use_rollup import rollup_use

pytestmark = pytest.mark.django_db
D, GPU, MIG = Decimal, "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"


@pytest.fixture
def east(settings: Any) -> Cluster:
    """A sample stands for half an hour at the most."""
    settings.COLLECT_INTERVAL_SECONDS = 450
    return filled()


def filled() -> Cluster:
    cluster = make_cluster()
    for name in ("red", "blue"):
        bind(make_team(name), cluster, name, kind="namespace")
    for resource, profile, weight in ((GPU, "", 1), (MIG, "1g.10gb", 7)):
        UnitSeen.objects.create(
            cluster=cluster, basis="pod", on="n1", resource=resource, model="H100", profile=profile,
            weight_over=1, weight_under=weight, capacity=D(8), seen_from=hours(0),
        )  # fmt: skip
    return cluster


def pod(cluster: Cluster, namespace: str, end: float = 2, requests: Mapping[str, str] | None = None) -> None:
    Pod.objects.create(
        cluster=cluster, uid=f"uid-{namespace}", namespace=namespace, name="job", node_name="n1",
        requests=dict(requests or {GPU: "2"}), devices=D(2), first_seen_at=hours(0), observed_at=hours(0),
        created_at=hours(0), bound_at=hours(0), finished_at=hours(end),
    )  # fmt: skip


def sample(
    cluster: Cluster, minute: int, device: str = "g0", ratio: str | None = None, **fields: Any
) -> None:
    DeviceSample.objects.create(
        cluster=cluster, sampled_at=hours(minute / 60), device=device, node_name="n1",
        utilisation_ratio=None if ratio is None else D(ratio), **fields,
    )  # fmt: skip


def team(row: UseHour) -> str:
    return row.team.slug if row.team else ""


RED: dict[str, Any] = {"namespace": "red", "pod": "job", "attribution": "whole"}


def test_a_device_by_hand(east: Cluster) -> None:
    """Half busy for twenty minutes, then without a word, then busy until the exporter falls silent."""
    pod(east, "red")
    sample(east, 0, ratio="0.5", memory_used_bytes=10 * int(GIB), power_watts=D(300), **RED)
    sample(east, 20, **RED)
    sample(east, 40, ratio="1", **RED)
    rollup_allocation(cluster=east, now=hours(2))
    assert rollup_use(cluster=east, now=hours(2.5)) == 2
    first, second = UseHour.objects.order_by("starts_at")
    assert (first.starts_at, first.ends_at, team(first), first.model) == (hours(0), hours(1), "red", "H100")
    assert (first.device_seconds, first.measured_seconds, first.busy_seconds) == (D(3600), D(2400), D(1800))
    assert (first.memory_seconds, first.memory_byte_seconds) == (D(1200), 10 * 1200 * GIB)
    assert (first.power_seconds, first.energy_joules) == (D(1200), D(360_000))
    assert (second.device_seconds, second.busy_seconds, second.memory_byte_seconds) == (D(600), D(600), None)
    (found,) = use(start=hours(0), end=hours(2), clusters=[east.pk])
    assert (found.held, found.measured_seconds, found.busy_seconds) == (D(2 * 7200), D(3000), D(2400))
    assert (found.held_idle_seconds, found.memory_gib_seconds) == (D(600), D(12_000))


def test_what_was_never_measured_is_none(east: Cluster) -> None:
    pod(east, "red")
    sample(east, 0, **RED)
    rollup_allocation(cluster=east, now=hours(2))
    rollup_use(cluster=east, now=hours(2))
    (found,) = use(start=hours(0), end=hours(2), clusters=[east.pk])
    assert (found.device_seconds, found.measured_seconds) == (D(1800), D(0))
    assert (found.busy_seconds, found.held_idle_seconds, found.energy_joules) == (None, None, None)


def shares(*ratios: tuple[str, str | None]) -> list[dict[str, str | None]]:
    return [{"namespace": namespace, "pod": "job", "ratio": ratio} for namespace, ratio in ratios]


def test_each_pod_has_what_was_measured_of_it(east: Cluster) -> None:
    """Half an hour of one card: memory and power are the card's, and nobody says whose."""
    pod(east, "red")
    pod(east, "blue")
    sample(
        east, 0, ratio="0.5", memory_used_bytes=1000, power_watts=D(100), attribution="per_process",
        shares=shares(("red", "0.2"), ("blue", "0.3")),
    )  # fmt: skip
    rollup_use(cluster=east, now=hours(1))
    rows = {(team(row), row.shared): row for row in UseHour.objects.select_related("team")}
    found = {key: (row.measured_seconds, row.busy_seconds, row.energy_joules) for key, row in rows.items()}
    assert found == {
        ("red", False): (D(900), D(360), None),
        ("blue", False): (D(900), D(540), None),
        ("", True): (D(0), None, D(180_000)),
    }
    assert rows["", True].memory_byte_seconds == 1_800_000


def test_a_value_that_is_repeated_for_each_pod_counts_once(east: Cluster) -> None:
    pod(east, "red")
    pod(east, "blue")
    sample(east, 0, ratio="0.7", attribution="copies", shares=shares(("red", None), ("blue", None)))
    rollup_use(cluster=east, now=hours(1))
    found = {
        (team(row), row.device_seconds, row.busy_seconds) for row in UseHour.objects.select_related("team")
    }
    assert found == {("red", D(900), None), ("blue", D(900), None), ("", D(1800), D(1260))}
    assert use(start=hours(0), end=hours(1), clusters=[east.pk], team_ids=[Team.objects.get(slug="red").pk])


def test_instances_are_devices_and_power_is_the_boards(east: Cluster) -> None:
    pod(east, "red", requests={GPU: "1", MIG: "1"})
    sample(east, 0, ratio="0.5", instance="7", profile="1g.10gb", power_watts=D(300), **RED)
    sample(east, 0, device="g1", ratio="1", **RED)
    rollup_use(cluster=east, now=hours(1))
    found = {
        (row.resource, row.weight_under, row.busy_seconds, row.energy_joules) for row in UseHour.objects.all()
    }
    assert found == {(MIG, 7, D(900), None), (GPU, 1, D(1800), None)}


def test_rows_are_cut_at_periods_and_owners(east: Cluster) -> None:
    """From 00:15 on the red namespace is nobody's; a billing period ends at 00:20."""
    Team.objects.get(slug="red").bindings.update(valid_to=hours(0.25))
    pod(east, "red")
    sample(east, 0, ratio="1", **RED)
    rollup_use(cluster=east, now=hours(1), edges=[hours(1 / 3)])
    rows = UseHour.objects.select_related("team").order_by("starts_at", "busy_seconds")
    assert [(row.starts_at, row.ends_at, team(row), row.busy_seconds) for row in rows] == [
        (hours(0), hours(1 / 3), "", D(300)),
        (hours(0), hours(1 / 3), "red", D(900)),
        (hours(1 / 3), hours(1), "", D(600)),
    ]


moments = st.lists(
    st.tuples(st.integers(0, 170), st.integers(0, 4)), unique_by=lambda one: one[0], max_size=12
)


@examples(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=moments)
def test_each_moment_counts_once(settings: Any, said: list[tuple[int, int]]) -> None:
    """Minute by minute, instead of summed; whole hours only."""
    settings.COLLECT_INTERVAL_SECONDS = 450
    with transaction.atomic():
        cluster = filled()
        pod(cluster, "red", end=4)
        for minute, quarters in said:
            sample(cluster, minute, ratio=str(D(quarters) / 4), **RED)
        rollup_use(cluster=cluster, now=hours(3))
        expected: dict[datetime, Decimal] = {}
        for minute in range(180):
            stands = [one for one in said if one[0] <= minute < one[0] + 30]
            if stands:
                hour = hours(minute // 60)
                expected[hour] = expected.get(hour, D(0)) + D(60) * max(stands)[1] / 4
        found = dict(UseHour.objects.values_list("starts_at", "busy_seconds"))
        assert found == expected
        transaction.set_rollback(True)


def test_an_hour_is_done_once(east: Cluster) -> None:
    pod(east, "red")
    sample(east, 0, ratio="1", **RED)
    assert rollup_use(cluster=east, now=hours(0.9)) == 0
    assert rollup_use(cluster=east, now=hours(1.5)) == 1
    assert rollup_use(cluster=east, now=hours(1.6)) == 0
    assert Watermark.objects.get(rollup="use_hours").done_until == hours(1)
