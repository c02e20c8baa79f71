"""What there was and what of it was idle: three hours of a node worked out by hand, every moment of made-up histories against
its own definition, and computed hours against those of what was held."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.admissions.tests.builders import bind, hours, make_cluster, make_team
from apps.fleet.models import Cluster
from apps.observations.models import Node, Outcome, Pod, Presence, Source, SourceState
from apps.usage.allocation import Stretch
from apps.usage.allocation_loading import fill_held, spells
from apps.usage.allocation_rollup import rollup_allocation
from apps.usage.models import AllocationHour, SupplyHour, SupplySeen, UnitSeen, UnseenStretch
from apps.usage.remembering import watched_by
from apps.usage.spans import Held
from apps.usage.supply import imbalances, supply
from apps.usage.supply_hours import NOT_SUPPLY, Offer, between, merged, supply_seconds
from apps.usage.supply_rollup import drop_old_supply, offers_of, unseen_in
from apps.usage.tests.test_allocation_agrees import fill, histories

D, GPU = Decimal, "nvidia.com/gpu"
OFFERS = [Offer(hours(0), D(8), {}), Offer(hours(1.5), D(8), {"device_unhealthy": D(2)})]
TAKEN = [Held(hours(0.5), hours(1.5), D(4)), Held(hours(1.75), hours(3), D(8))]
GAP = Stretch(hours(2), hours(2.5))
EXPECTED = [
    {"held": D(2), "idle": D(6)},
    {"held": D("3.5"), "idle": D("3.5"), "device_unhealthy": D(1), "held_out_of_use": D("0.5")},
    {
        "held": D(3), "device_unhealthy": D(1), "unobserved": D(4), "held_out_of_use": D(1),
        "held_unobserved": D(4),
    },
]  # fmt: skip


def in_hours(found: dict[str, Decimal]) -> dict[str, Decimal]:
    return {bucket: seconds / 3600 for bucket, seconds in found.items()}


def test_three_hours_by_hand() -> None:
    found = [supply_seconds(OFFERS, TAKEN, [GAP], hours(hour), hours(hour + 1)) for hour in range(3)]
    assert [in_hours(one) for one in found] == EXPECTED


def test_before_a_node_is_known_nothing_is_said_of_it() -> None:
    found = supply_seconds(
        [Offer(hours(1), D(8), {})], [Held(hours(0), hours(2), D(1))], [], hours(0), hours(2)
    )
    assert in_hours(found) == {"held_unobserved": D(1), "held": D(1), "idle": D(7)}


moments = st.integers(0, 48).map(lambda quarter: hours(quarter / 4))
stretches = st.tuples(moments, moments).map(lambda pair: Stretch(min(pair), max(pair)))
units = st.integers(0, 9).map(D)


@given(
    offers=st.dictionaries(moments, st.tuples(units, units), max_size=4),
    taken=st.lists(st.tuples(stretches, units), max_size=4),
    gaps=st.lists(stretches, max_size=3),
)
def test_everything_is_in_one_place(
    offers: dict[datetime, tuple[Decimal, Decimal]],
    taken: list[tuple[Stretch, Decimal]],
    gaps: list[Stretch],
) -> None:
    start, end = hours(1), hours(11)
    offered = [
        Offer(at, physical, {"cordoned": min(physical, out)})
        for at, (physical, out) in sorted(offers.items())
    ]
    held = [Held(one.start, one.end, quantity) for one, quantity in taken]
    unseen = merged(gaps, start, end)
    found = supply_seconds(offered, held, unseen, start, end)
    known = [*((one.at, one.physical) for one in offered), (end, D(0))]
    physical = sum(
        (
            units * D((min(high, end) - max(low, start)).total_seconds())
            for (low, units), (high, _units) in pairwise(known)
            if max(low, start) < min(high, end)
        ),
        D(0),
    )
    asked = sum(
        (
            one.quantity * D((min(one.end, end) - max(one.start, start)).total_seconds())
            for one in held
            if max(one.start, start) < min(one.end, end)
        ),
        D(0),
    )
    assert sum((n for bucket, n in found.items() if bucket not in NOT_SUPPLY), D(0)) == physical
    assert sum((found.get(each, D(0)) for each in ("held", *NOT_SUPPLY)), D(0)) == asked
    assert all(amount > 0 for amount in found.values())
    seen = between(unseen, start, end)
    parts = [supply_seconds(offered, held, [], one.start, one.end) for one in seen]
    for bucket in ("held", "idle", "cordoned"):
        assert found.get(bucket, D(0)) == sum((one.get(bucket, D(0)) for one in parts), D(0))


# ---- in the database ------------------------------------------------------------------------------------------------


def offer(cluster: Cluster, at: datetime, physical: int, **out: int) -> None:
    SupplySeen.objects.create(
        cluster=cluster, node="n1", resource=GPU, physical=physical,
        out_of_use={bucket: str(n) for bucket, n in out.items()}, seen_from=at,
    )  # fmt: skip


def make_pod(cluster: Cluster, name: str, start: datetime, end: datetime, units: int, **fields: Any) -> None:
    Pod.objects.create(
        cluster=cluster, uid=name, namespace="ml", name=name, node_name="n1", requests={GPU: str(units)},
        devices=D(units), first_seen_at=start, observed_at=start, created_at=start, bound_at=start,
        finished_at=end, **fields,
    )  # fmt: skip


@pytest.mark.django_db
def test_the_three_hours_in_the_database() -> None:
    """The first pod is the red team's, the second nobody's."""
    cluster = make_cluster()
    bind(make_team("red"), cluster, "ml", kind="namespace", valid_to=hours(1.6))
    UnitSeen.objects.create(
        cluster=cluster, basis="pod", on="n1", resource=GPU, model="H100", sharing_mode="exclusive",
        weight_over=1, weight_under=1, capacity=D(8), seen_from=hours(0),
    )  # fmt: skip
    offer(cluster, hours(0), 8)
    offer(cluster, hours(1.5), 8, device_unhealthy=2)
    UnseenStretch.objects.create(cluster=cluster, kind="Node", started_at=hours(2), ended_at=hours(2.5))
    make_pod(cluster, "a", hours(0.5), hours(1.5), 4)
    make_pod(cluster, "b", hours(1.75), hours(3), 8)
    rollup_allocation(cluster=cluster, now=hours(3))
    for hour, expected in enumerate(EXPECTED):
        rows = SupplyHour.objects.filter(starts_at=hours(hour))
        assert in_hours({row.bucket: row.unit_seconds for row in rows}) == expected
        assert {(row.ends_at, row.model, row.weight_over) for row in rows} == {(hours(hour + 1), "H100", 1)}
    (found,) = supply(start=hours(0), end=hours(3), clusters=[cluster.pk])
    assert (found.physical, found.allocatable) == (D(24 * 3600), D(18 * 3600))
    assert (found.attributed, found.unattributed) == (D(4 * 3600), D(10 * 3600))
    pods = found.attributed + found.unattributed - found.held_out_of_use - found.held_unobserved
    assert pods + found.idle == found.allocatable
    assert found.out_of_use == {"device_unhealthy": D(2 * 3600)}
    assert imbalances(start=hours(0), end=hours(3), clusters=[cluster.pk]) == []


@pytest.mark.django_db
def test_idle_for_which_quota_was_reserved() -> None:
    """Of eight cards two are held by pods and five reserved: three of the six idle ones are not free."""
    cluster = make_cluster()
    kind: dict[str, Any] = {
        "cluster": cluster,
        "resource": GPU,
        "model": "H100",
        "weight_over": 1,
        "weight_under": 1,
    }
    when = {"starts_at": hours(0), "ends_at": hours(1)}
    for bucket, units in (("held", 2), ("idle", 6)):
        SupplyHour.objects.create(**kind, **when, bucket=bucket, unit_seconds=units * 3600)
    for basis, units in (("pod", 2), ("reserved", 5)):
        AllocationHour.objects.create(
            **kind, **when, basis=basis, kind="Workload", seen="observed", unit_seconds=units * 3600
        )
    (found,) = supply(start=hours(0), end=hours(1), clusters=[cluster.pk])
    assert (found.idle_reserved, found.idle_free) == (D(3 * 3600), D(3 * 3600))
    AllocationHour.objects.filter(basis="pod").update(unit_seconds=3 * 3600)
    (wrong,) = imbalances(start=hours(0), end=hours(1), clusters=[cluster.pk])
    assert (wrong.pods, wrong.placed) == (D(3 * 3600), D(2 * 3600))


@pytest.mark.django_db
def test_what_nodes_have_is_noted_when_it_changes() -> None:
    cluster = make_cluster()
    for source in (Source.NODES, Source.PODS):
        SourceState.objects.create(
            cluster=cluster, source=source, presence=Presence.INSTALLED, last_ok_at=hours(9), last_run_at=hours(9),
            last_outcome=Outcome.OK,
        )  # fmt: skip
    node = Node.objects.create(
        cluster=cluster, uid="n1", name="n1", first_seen_at=hours(0), observed_at=hours(0),
        labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8"},
        conditions={"Ready": {"status": "True"}}, capacity={GPU: "8", "cpu": "96"},
        allocatable={GPU: "8", "cpu": "96"},
    )  # fmt: skip
    make_pod(cluster, "a", hours(0), hours(9), 4)
    rollup_allocation(cluster=cluster, now=hours(1))
    rollup_allocation(cluster=cluster, now=hours(2))
    Node.objects.filter(pk=node.pk).update(unschedulable=True, observed_at=hours(3))
    rollup_allocation(cluster=cluster, now=hours(3))
    Node.objects.filter(pk=node.pk).update(gone_at=hours(4))
    rollup_allocation(cluster=cluster, now=hours(4))
    rollup_allocation(cluster=cluster, now=hours(5))
    noted = SupplySeen.objects.order_by("seen_from").values_list("physical", "out_of_use", "seen_from")
    assert list(noted) == [
        (D(8), {}, hours(1)),
        (D(8), {"cordoned": "8"}, hours(3)),
        (D(0), {}, hours(4)),
    ]
    rows = SupplyHour.objects.order_by("starts_at", "bucket")
    assert [(row.starts_at, row.bucket, row.unit_seconds / 3600) for row in rows] == [
        (hours(0), "held_unobserved", D(4)),
        (hours(1), "held", D(4)),
        (hours(1), "idle", D(4)),
        (hours(2), "held", D(4)),
        (hours(2), "idle", D(4)),
        (hours(3), "cordoned", D(8)),
        (hours(3), "held_out_of_use", D(4)),
        (hours(4), "held_out_of_use", D(4)),
    ]


@pytest.mark.django_db
def test_what_nodes_had_is_forgotten_with_their_pods(settings: Any) -> None:
    settings.GONE_RETENTION_DAYS = 1
    cluster = make_cluster()
    for at, physical in ((0, 8), (1, 4), (20, 2), (50, 6)):
        offer(cluster, hours(at), physical)
    for at, physical in ((0, 8), (2, 0)):
        SupplySeen.objects.create(
            cluster=cluster, node="gone", resource=GPU, physical=physical, seen_from=hours(at)
        )
    assert drop_old_supply(now=hours(24 + 24)) == 4
    left = SupplySeen.objects.order_by("seen_from").values_list("node", "physical")
    assert list(left) == [("n1", D(2)), ("n1", D(6))]


supplies = st.lists(
    st.tuples(st.integers(0, 360), st.integers(0, 10), st.integers(0, 10)),
    max_size=4,
    unique_by=lambda one: one[0],
)


@pytest.mark.django_db
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=histories(), noted=supplies, gap=st.none() | st.integers(0, 300))
def test_computed_hours_are_those_of_every_node(
    history: dict[str, Any], noted: list[tuple[int, int, int]], gap: int | None
) -> None:
    length = 8
    with transaction.atomic():
        cluster = fill(history)
        for minute, physical, out in noted:
            offer(cluster, hours(minute / 60), physical, cordoned=min(physical, out))
        if gap is not None:
            low = hours(gap / 60)
            UnseenStretch.objects.create(
                cluster=cluster, kind="Node", started_at=low, ended_at=low + timedelta(minutes=50)
            )
        rollup_allocation(cluster=cluster, now=hours(length))
        until = dict.fromkeys((*watched_by(cluster), "Node"), hours(length))
        with transaction.atomic():
            around = fill_held(cluster=cluster, start=hours(0), end=hours(length), until=until).around
            taken = [Held(one.start, one.end, one.quantity) for one in spells(cluster) if one.basis == "pod"]
        offers = offers_of(cluster, hours(0), hours(length)).get(("n1", GPU), [])
        first = AllocationHour.objects.order_by("starts_at").values_list("starts_at", flat=True).first()
        expected = {
            (hours(hour), bucket): seconds
            for hour in range(length)
            if first is not None
            for bucket, seconds in supply_seconds(
                offers,
                taken,
                unseen_in(around.gaps, until, hours(0), hours(length)),
                hours(hour),
                hours(hour + 1),
            ).items()
        }
        began = SupplyHour.objects.order_by("starts_at").values_list("starts_at", flat=True).first()
        found = {(row.starts_at, row.bucket): row.unit_seconds for row in SupplyHour.objects.all()}
        assert found == {key: n for key, n in expected.items() if began is not None and key[0] >= began}
        assert imbalances(start=hours(0), end=hours(length), clusters=[cluster.pk]) == []
        transaction.set_rollback(True)
