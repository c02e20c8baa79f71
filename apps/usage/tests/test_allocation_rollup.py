"""Hours of what was held: the month worked out by hand as rows of the database, and that it does not matter when and how
often they are computed."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest

from apps.accounts.models import Team
from apps.admissions.tests.builders import make_cluster
from apps.fleet.models import Cluster, TeamBinding
from apps.observations.models import Presence, Source, SourceState, StateSpan, Workload
from apps.quotas.models import QuotaPoint
from apps.usage.allocation_rollup import rollup_allocation
from apps.usage.models import (
    AllocationDay,
    AllocationHour,
    CostCentreSeen,
    UnitSeen,
    UnseenStretch,
    Watermark,
)
from apps.usage.tests import golden_month

pytestmark = pytest.mark.django_db
Sums = dict[tuple[str, str, str, bool], Fraction]


def make_month() -> Cluster:
    """The golden month as the collectors would have left it."""
    month, cluster = golden_month.month(), make_cluster()
    period = month["period"]
    for number in range(1, 13):
        Team.objects.create(slug=f"t{number:02}", name=f"Team {number}", cost_centre=f"CC-{number}")
    for number in range(1, 13):
        bind(cluster, f"q{number:02}", month["bindings_moved"])
    for row in month["units"]:
        weight = Fraction(row["equivalents"])
        UnitSeen.objects.create(
            cluster=cluster,
            basis="reserved",
            on=row["flavor"],
            resource=row["resource"],
            model=row["model"],
            sharing_mode=row["mode"],
            profile=row["profile"],
            weight_over=weight.numerator,
            weight_under=weight.denominator,
            seen_from=golden_month.FIRST,
        )
    for row in month["nominal"]:
        QuotaPoint.objects.create(
            cluster=cluster,
            at=golden_month.FIRST,
            kind="ClusterQueue",
            queue=row["queue"],
            flavor=row["flavor"],
            resource=row["resource"],
            nominal=Decimal(row["units"]),
        )
    for row in month["outages"]:
        UnseenStretch.objects.create(
            cluster=cluster, kind="Workload", started_at=row["start"], ended_at=row["end"]
        )
    SourceState.objects.create(
        cluster=cluster, source=Source.KUEUE, presence=Presence.INSTALLED, last_ok_at=period["end"]
    )
    for row in month["work"]:
        StateSpan.objects.create(
            cluster=cluster,
            kind="Workload",
            uid=row["uid"],
            namespace=f"ns-{row['queue']}",
            name=row["uid"],
            queue_name="main",
            queue=row["queue"],
            state="admitted",
            usage=[
                {"flavor": flavor, "resource": resource, "quantity": quantity}
                for flavor, resource, quantity in row["usage"]
            ],
            started_at=row["start"],
            ended_at=row.get("end"),
        )
        if "priority" in row:
            Workload.objects.create(
                cluster=cluster,
                uid=row["uid"],
                kind="Workload",
                namespace=f"ns-{row['queue']}",
                name=row["uid"],
                state="finished",
                priority_class=row["priority"],
                first_seen_at=row["start"],
                observed_at=row["end"],
                created_at=row["start"],
            )
    return cluster


def bind(cluster: Cluster, queue: str, moves: list[dict[str, object]]) -> None:
    own = Team.objects.get(slug="t" + queue.removeprefix("q"))
    edges: list[tuple[datetime, datetime | None, Team]] = [(golden_month.FIRST, None, own)]
    for moved in moves:
        if moved["queue"] == queue:
            at, other = moved["at"], Team.objects.get(slug=moved["to"])
            assert isinstance(at, datetime)
            edges = [(golden_month.FIRST, at, own), (at, None, other)]
    for start, end, team in edges:
        TeamBinding.objects.create(
            team=team, cluster=cluster, kind="cluster_queue", name=queue, valid_from=start, valid_to=end
        )


def sums(rows: list[AllocationHour]) -> Sums:
    found: defaultdict[tuple[str, str, str, bool], Fraction] = defaultdict(Fraction)
    for row in rows:
        key = (row.team.slug if row.team else "", row.model, row.profile, row.borrowed)
        found[key] += Fraction(row.unit_seconds) / 3600
    return dict(found)


def rows_of_the_month(*seen: str) -> list[AllocationHour]:
    period = golden_month.month()["period"]
    rows = AllocationHour.objects.filter(
        basis="reserved", starts_at__gte=period["start"], ends_at__lte=period["end"]
    )
    return list(rows.filter(seen__in=seen).select_related("team"))


def expected_hours() -> Sums:
    expected: defaultdict[tuple[str, str, str, bool], Fraction] = defaultdict(Fraction)
    for team, model, profile, _price, factor, hours, _amount in golden_month.month()["expected"]["lines"]:
        expected[team, model, profile, factor == "1.25"] += Fraction(hours)
    for team, _resource, hours in golden_month.month()["expected"]["unpriced"]:
        expected[team, "", "", False] += Fraction(hours)
    return dict(expected)


def test_the_month_comes_out_of_the_database() -> None:
    cluster = make_month()
    rollup_allocation(cluster=cluster, now=golden_month.month()["period"]["end"])
    assert sums(rows_of_the_month("observed", "bridged")) == expected_hours()
    left_out = sums(rows_of_the_month("left_out"))
    assert left_out == {("t03", "H100", "", False): Fraction(12)}
    bridged = sums(rows_of_the_month("bridged"))
    assert bridged == {("t01", "H100", "", False): Fraction(24)}


def test_it_does_not_matter_when_it_is_computed() -> None:
    """Day by day, every run anew from a day before, or at once."""
    cluster, period = make_month(), golden_month.month()["period"]
    at = period["start"] - timedelta(days=2)
    while at < period["end"]:
        SourceState.objects.update(last_ok_at=at)
        rollup_allocation(cluster=cluster, now=at)
        at += timedelta(hours=31)
    SourceState.objects.update(last_ok_at=period["end"])
    rollup_allocation(cluster=cluster, now=period["end"])
    assert sums(rows_of_the_month("observed", "bridged")) == expected_hours()
    Watermark.objects.update(done_until=period["start"])
    again = rollup_allocation(cluster=cluster, now=period["end"])
    assert again.from_hour == period["start"]
    assert sums(rows_of_the_month("observed", "bridged")) == expected_hours()


def test_an_hour_is_cut_where_a_period_ends() -> None:
    """Half past six in the evening UTC is midnight in India."""
    cluster = make_month()
    edge = golden_month.month()["period"]["start"] + timedelta(days=3, hours=19, minutes=30)
    rollup_allocation(cluster=cluster, now=golden_month.month()["period"]["end"], edges=[edge])
    hour = edge - timedelta(minutes=30)
    rows = AllocationHour.objects.filter(
        basis="reserved", team__slug="t01", starts_at__gte=hour, starts_at__lt=hour + timedelta(hours=1)
    )
    found = [(row.starts_at, row.ends_at, row.unit_seconds) for row in rows.order_by("starts_at")]
    half = Decimal(8 * 1800)
    assert found == [(hour, edge, half), (edge, edge + timedelta(minutes=30), half)]


def test_a_cost_centre_stays_with_what_was_held_then() -> None:
    cluster, period = make_month(), golden_month.month()["period"]
    middle = period["start"] + timedelta(days=10)
    rollup_allocation(cluster=cluster, now=middle)
    Team.objects.filter(slug="t01").update(cost_centre="CC-new")
    SourceState.objects.update(last_ok_at=period["end"])
    rollup_allocation(cluster=cluster, now=period["end"])
    Watermark.objects.update(done_until=period["start"])
    rollup_allocation(cluster=cluster, now=period["end"])
    assert CostCentreSeen.objects.filter(team__slug="t01").count() == 2
    found = {
        row.cost_centre
        for row in rows_of_the_month("observed")
        if row.team and row.team.slug == "t01" and row.ends_at <= middle
    }
    assert found == {"CC-1"}


def test_days_are_the_sums_of_their_hours() -> None:
    """Whatever is computed when; midnight in India cuts the day."""
    cluster, period = make_month(), golden_month.month()["period"]
    edge = period["start"] + timedelta(days=3, hours=19, minutes=30)
    SourceState.objects.update(last_ok_at=edge)
    rollup_allocation(cluster=cluster, now=edge, edges=[edge])
    AllocationDay.objects.all().delete()
    SourceState.objects.update(last_ok_at=period["end"])
    rollup_allocation(cluster=cluster, now=period["end"], edges=[edge])
    names = [
        one.name for one in AllocationHour._meta.fields if one.name not in ("id", "starts_at", "ends_at")
    ]
    hours: defaultdict[tuple[object, ...], Decimal] = defaultdict(Decimal)
    for row in AllocationHour.objects.values(*names, "starts_at"):
        at = row["starts_at"].replace(hour=0, minute=0)
        if edge.date() == at.date() and row["starts_at"] >= edge:
            at = edge
        hours[at, *(row[name] for name in names if name != "unit_seconds")] += row["unit_seconds"]
    days = {
        (row["starts_at"], *(row[name] for name in names if name != "unit_seconds")): row["unit_seconds"]
        for row in AllocationDay.objects.values(*names, "starts_at")
    }
    assert days == dict(hours)
    parts = AllocationDay.objects.filter(
        team__slug="t01", basis="reserved", starts_at__date=edge.date()
    ).order_by("starts_at")
    assert [(row.starts_at, row.ends_at) for row in parts] == [
        (edge.replace(hour=0, minute=0), edge),
        (edge, edge.replace(hour=0, minute=0) + timedelta(days=1)),
    ]
