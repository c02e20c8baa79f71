"""What queues were promised: by hand, and as hours in the database with prices."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.admissions.tests.builders import bind, hours, make_cluster, make_object, make_team
from apps.fleet.models import Cluster
from apps.observations.models import Outcome, Presence, Source, SourceState
from apps.quotas.models import QuotaPoint
from apps.usage.allocation_rollup import rollup_allocation
from apps.usage.commitments import Promised, Standing, commitments
from apps.usage.limits import Limit
from apps.usage.models import AllocationHour, PromiseSeen, UnitSeen, UnseenStretch

D, GPU = Decimal, "nvidia.com/gpu"
KUEUE = Promised("ClusterQueue", "qa", "h100", GPU)
VOLCANO = Promised("VolcanoQueue", "research", "", GPU)
UNTIL = {"Workload": hours(10), "PodGroup": hours(5)}
Found = list[tuple[str, str, Decimal, datetime, datetime]]


def promised(
    nominal: dict[Promised, list[Limit]], standings: dict[tuple[str, str], list[Standing]] | None = None
) -> Found:
    spells = commitments(1, nominal, standings or {}, UNTIL)
    return [(one.place.kind, one.place.queue, one.quantity, one.start, one.end) for one in spells]


def test_each_number_holds_until_the_next_and_none_before_the_first() -> None:
    steps = [Limit(hours(1), D(8)), Limit(hours(4), D(16)), Limit(hours(6), None), Limit(hours(9), D(4))]
    assert promised({KUEUE: steps}) == [
        ("Workload", "qa", D(8), hours(1), hours(4)),
        ("Workload", "qa", D(16), hours(4), hours(6)),
        ("Workload", "qa", D(4), hours(9), hours(10)),
    ]


def test_a_volcano_queue_lasts_as_far_as_its_own_source_is_known() -> None:
    assert promised({VOLCANO: [Limit(hours(1), D(8))]}) == [
        ("PodGroup", "research", D(8), hours(1), hours(5))
    ]


def test_nothing_is_promised_while_a_queue_is_stopped() -> None:
    stops = {("ClusterQueue", "qa"): [Standing(hours(2), "stopped"), Standing(hours(3), "")]}
    assert promised({KUEUE: [Limit(hours(1), D(8)), Limit(hours(4), D(0))]}, stops) == [
        ("Workload", "qa", D(8), hours(3), hours(4))
    ]
    stops["ClusterQueue", "qa"].insert(0, Standing(hours(0), ""))
    assert promised({KUEUE: [Limit(hours(1), D(8)), Limit(hours(4), D(0))]}, stops) == [
        ("Workload", "qa", D(8), hours(1), hours(2)),
        ("Workload", "qa", D(8), hours(3), hours(4)),
    ]


moments = st.integers(0, 12)
numbers = st.dictionaries(moments, st.sampled_from([None, 0, 4, 8]), max_size=5)
standing = st.dictionaries(moments, st.sampled_from(["", "stopped", "parent"]), max_size=4)


@given(numbers=numbers, stood=standing)
def test_every_hour_is_what_was_last_said(numbers: dict[int, int | None], stood: dict[int, str]) -> None:
    """Looked up hour by hour, instead of cut."""
    steps = [Limit(hours(at), None if n is None else D(n)) for at, n in sorted(numbers.items())]
    own = [Standing(hours(at), why) for at, why in sorted(stood.items())]
    found = promised({KUEUE: steps}, {("ClusterQueue", "qa"): own})
    for hour in range(12):
        said = [n for at, n in sorted(numbers.items()) if at <= hour][-1:]
        why = [why for at, why in sorted(stood.items()) if at <= hour][-1:] or [
            why for _at, why in sorted(stood.items())
        ][:1]
        expected = D(said[0] or 0) if said and why in ([], [""]) and hour < 10 else D(0)
        assert sum((q for *_, q, low, high in found if low <= hours(hour) < high), D(0)) == expected


# ---- hours ----------------------------------------------------------------------------------------------------------


def point(cluster: Cluster, at: float, nominal: str | None, **fields: object) -> None:
    values = {"kind": "ClusterQueue", "queue": "qa", "flavor": "h100", "resource": GPU, **fields}
    QuotaPoint.objects.create(
        cluster=cluster, at=hours(at), nominal=None if nominal is None else D(nominal), **values
    )


def rows() -> list[tuple[datetime, str, str, str, Decimal]]:
    found = AllocationHour.objects.filter(basis="nominal").select_related("team")
    return sorted(
        (row.starts_at, row.team.slug if row.team else "", row.model, row.seen, row.unit_seconds / 3600)
        for row in found
    )


@pytest.mark.django_db
def test_hours_of_what_was_promised_without_any_work() -> None:
    """Another team from 01:30 on; from 02:00 to 03:00 nobody could look, and there are fewer cards after it."""
    cluster, red, blue = make_cluster(), make_team("red"), make_team("blue")
    bind(red, cluster, "qa", valid_to=hours(1.5))
    bind(blue, cluster, "qa", valid_from=hours(1.5))
    UnitSeen.objects.create(
        cluster=cluster, basis="reserved", on="h100", resource=GPU, model="H100", weight_over=1,
        weight_under=1, seen_from=hours(0),
    )  # fmt: skip
    UnseenStretch.objects.create(cluster=cluster, kind="Workload", started_at=hours(2), ended_at=hours(3))
    point(cluster, 0.5, "8", reserved=D(3))
    point(cluster, 1.25, "8", reserved=D(4))
    point(cluster, 3, "6")
    point(cluster, 3.75, None, ended=True)
    point(cluster, 0, "9", kind="Cohort")
    rollup_allocation(cluster=cluster, now=hours(6))
    assert rows() == [
        (hours(0), "red", "H100", "observed", D(4)),
        (hours(1), "blue", "H100", "observed", D(4)),
        (hours(1), "red", "H100", "observed", D(4)),
        (hours(2), "blue", "H100", "bridged", D(6)),
        (hours(2), "blue", "H100", "left_out", D(2)),
        (hours(3), "blue", "H100", "observed", D("4.5")),
    ]


@pytest.mark.django_db
def test_a_stopped_queue_is_noted_and_ends_its_promise() -> None:
    cluster = make_cluster()
    SourceState.objects.create(
        cluster=cluster, source=Source.KUEUE, presence=Presence.INSTALLED, last_ok_at=hours(5),
        last_outcome=Outcome.OK,
    )  # fmt: skip
    quota = {"name": GPU, "nominal": "8", "borrowing_limit": None, "lending_limit": None}
    groups = [{"covered": [GPU], "flavors": [{"name": "h100", "resources": [quota]}]}]
    queue = make_object(cluster, "ClusterQueue", "qa", spec={"resource_groups": groups})
    point(cluster, 0, "8")
    rollup_allocation(cluster=cluster, now=hours(2))
    queue.spec |= {"stop_policy": "Hold"}
    queue.save()
    rollup_allocation(cluster=cluster, now=hours(3))
    rollup_allocation(cluster=cluster, now=hours(4))
    noted = PromiseSeen.objects.order_by("seen_from").values_list("kind", "queue", "left_out", "seen_from")
    assert list(noted) == [
        ("ClusterQueue", "qa", "", hours(2)),
        ("ClusterQueue", "qa", "stopped", hours(3)),
    ]
    assert sum(units for *_key, units in rows()) == 3 * 8


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("plugin", "parent", "child"),
    [("capacity", "parent", ""), ("", "parent", ""), ("proportion", "by_demand", "by_demand")],
)
def test_what_a_volcano_queue_promises(plugin: str, parent: str, child: str) -> None:
    cluster = make_cluster(volcano_plugin=plugin)
    open_ = {"state": "Open"}
    make_object(cluster, "VolcanoQueue", "lab", spec={"deserved": {GPU: "8"}}, status=open_)
    make_object(
        cluster, "VolcanoQueue", "vision", spec={"parent": "lab", "deserved": {GPU: "4"}}, status=open_
    )
    point(cluster, 0, "8", kind="VolcanoQueue", queue="lab", flavor="")
    point(cluster, 0, "4", kind="VolcanoQueue", queue="vision", flavor="")
    rollup_allocation(cluster=cluster, now=hours(1))
    found = dict(PromiseSeen.objects.values_list("queue", "left_out"))
    assert found == {"lab": parent, "vision": child}
    counted = AllocationHour.objects.filter(basis="nominal").values_list("queue", "kind", "unit_seconds")
    assert list(counted) == ([] if child else [("vision", "PodGroup", D(4 * 3600))])
