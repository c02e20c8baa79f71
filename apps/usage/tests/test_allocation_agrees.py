"""Hours computed in the database against the same made of pure intervals, on made-up histories: outages, limits that move,
teams that change, pods and claims on nodes, promises and stopped queues, parts of hours."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.admissions.tests.builders import hours, make_cluster, make_team
from apps.core.windows import floor_hour
from apps.fleet.models import Cluster, TeamBinding
from apps.observations.models import ClusterObject, Pod, StateSpan
from apps.quotas.models import QuotaPoint
from apps.usage.allocation import Basis, Interval, clip, intervals
from apps.usage.allocation_loading import fill_held, spells
from apps.usage.allocation_rollup import rollup_allocation
from apps.usage.models import AllocationHour, ClaimSeen, PromiseSeen, UnitSeen, UnseenStretch

pytestmark = pytest.mark.django_db
GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
LENGTH = 30
Key = tuple[object, ...]

minutes = st.integers(0, 6 * 60)
quantities = st.sampled_from(["1", "2", "4", "8"])
piece = st.tuples(minutes, st.integers(1, 120), quantities)


@st.composite
def histories(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "work": draw(
            st.lists(
                st.tuples(
                    st.sampled_from(["qa", "qb"]),
                    st.sampled_from(["h100", "mixed"]),
                    st.sampled_from([GPU, MIG]),
                    st.lists(piece, min_size=1, max_size=3),
                ),
                max_size=6,
            )
        ),
        "pods": draw(st.lists(st.tuples(st.sampled_from(["qa", "qb"]), piece), max_size=5)),
        "claims": draw(st.lists(st.tuples(st.sampled_from(["main", ""]), piece), max_size=3)),
        "gaps": draw(
            st.lists(st.tuples(st.sampled_from(["Workload", "Pod", "ResourceClaim"]), minutes), max_size=3)
        ),
        "limits": draw(st.lists(st.tuples(minutes, st.sampled_from([None, "0", "3", "6"])), max_size=3)),
        "stops": draw(st.lists(st.tuples(minutes, st.sampled_from(["", "stopped"])), max_size=2)),
        "moved": draw(minutes),
    }


def fill(history: dict[str, Any]) -> Cluster:
    cluster, red, blue = make_cluster(), make_team("red"), make_team("blue")
    moved = hours(history["moved"] / 60)
    for team, start, end in ((red, hours(-1), moved), (blue, moved, None)):
        TeamBinding.objects.create(
            team=team, cluster=cluster, kind="cluster_queue", name="qa", valid_from=start, valid_to=end
        )
    for on, resource, model, weight in (("h100", GPU, "H100", (1, 1)), ("mixed", MIG, "A100", (1, 7))):
        UnitSeen.objects.create(
            cluster=cluster, basis="reserved", on=on, resource=resource, model=model, weight_over=weight[0],
            weight_under=weight[1], seen_from=hours(0),
        )  # fmt: skip
    UnitSeen.objects.create(
        cluster=cluster,
        basis="pod",
        on="n1",
        resource=GPU,
        model="H100",
        capacity=Decimal(8),
        seen_from=hours(0),
    )
    for kind, start in dict.fromkeys(history["gaps"]):
        low = hours(start / 60)
        overlapping = UnseenStretch.objects.filter(
            kind=kind, started_at__lt=low + timedelta(minutes=45), ended_at__gt=low
        )
        if not overlapping.exists():
            UnseenStretch.objects.create(
                cluster=cluster, kind=kind, started_at=low, ended_at=low + timedelta(minutes=45)
            )
    for at, units in dict(history["limits"]).items():
        QuotaPoint.objects.create(
            cluster=cluster, at=hours(at / 60), kind="ClusterQueue", queue="qa", flavor="h100", resource=GPU,
            nominal=None if units is None else Decimal(units),
        )  # fmt: skip
    for at, left_out in dict(history["stops"]).items():
        PromiseSeen.objects.create(
            cluster=cluster, kind="ClusterQueue", queue="qa", left_out=left_out, seen_from=hours(at / 60)
        )
    for number, (queue, flavor, resource, parts) in enumerate(history["work"]):
        at = 0
        for start, length, quantity in parts:
            at = max(at, start)
            StateSpan.objects.create(
                cluster=cluster, kind="Workload", uid=f"w{number}", namespace="ns", name=f"w{number}",
                queue_name="main", queue=queue, state="admitted", started_at=hours(at / 60),
                usage=[{"flavor": flavor, "resource": resource, "quantity": quantity}],
                ended_at=hours((at + length) / 60),
            )  # fmt: skip
            at += length
    ClusterObject.objects.create(
        cluster=cluster, uid="lq", kind="LocalQueue", namespace="ns", name="main", spec={"cluster_queue": "qa"},
        first_seen_at=hours(0), observed_at=hours(0), created_at=hours(0),
    )  # fmt: skip
    for number, (_queue, (start, length, quantity)) in enumerate(history["pods"]):
        Pod.objects.create(
            cluster=cluster, uid=f"p{number}", namespace="ns", name=f"p{number}", queue_name="main",
            node_name="n1", requests={GPU: quantity, "cpu": "4"}, devices=Decimal(quantity),
            first_seen_at=hours(start / 60), observed_at=hours(start / 60), created_at=hours(start / 60),
            bound_at=hours(start / 60), finished_at=hours((start + length) / 60),
        )  # fmt: skip
    for number, (queue_name, (start, length, quantity)) in enumerate(history["claims"]):
        ClusterObject.objects.create(
            cluster=cluster, uid=f"c{number}", kind="ResourceClaim", namespace="ns", name=f"c{number}",
            first_seen_at=hours(start / 60), observed_at=hours((start + length) / 60), status={"allocated": False},
        )  # fmt: skip
        for at, units in ((start, Decimal(quantity)), (start + length, Decimal(0))):
            ClaimSeen.objects.create(
                cluster=cluster, uid=f"c{number}", namespace="ns", node="n1", resource=GPU, kind="Workload",
                queue_name=queue_name, units=units, seen_from=hours(at / 60),
            )  # fmt: skip
    return cluster


def from_intervals(cluster: Cluster) -> dict[Key, Fraction]:
    until = dict.fromkeys(("Workload", "PodGroup", "Pod", "ResourceClaim"), hours(LENGTH))
    with transaction.atomic():
        loaded = fill_held(cluster=cluster, start=hours(0), end=hours(LENGTH), until=until)
        found = intervals(spells(cluster), loaded.around)
    sums: defaultdict[Key, Fraction] = defaultdict(Fraction)
    for item in clip(found, hours(0), hours(LENGTH)):
        hour = floor_hour(item.start)
        while hour < item.end:
            for part in clip([item], hour, hour + timedelta(hours=1)):
                sums[hour, *_kind(part)] += Fraction(part.unit_seconds)
            hour += timedelta(hours=1)
    return dict(sums)


def _kind(item: Interval) -> Key:
    weight = item.unit.equivalents
    flavor = "" if item.basis is Basis.POD else item.on
    return (
        *(item.team_id, str(item.basis), item.place.queue, flavor, item.resource, item.unit.model),
        *(weight, item.borrowed, str(item.seen)),
    )


def from_the_database() -> dict[Key, Fraction]:
    return {
        (
            *(row.starts_at, row.team_id, row.basis, row.queue, row.flavor, row.resource, row.model),
            Fraction(row.weight_over, row.weight_under) if row.weight_over and row.weight_under else None,
            *(row.borrowed, row.seen),
        ): Fraction(row.unit_seconds)
        for row in AllocationHour.objects.all()
    }


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=histories())
def test_hours_are_those_of_the_intervals(history: dict[str, Any]) -> None:
    with transaction.atomic():
        cluster = fill(history)
        rollup_allocation(cluster=cluster, now=hours(LENGTH))
        assert from_the_database() == from_intervals(cluster)
        transaction.set_rollback(True)
