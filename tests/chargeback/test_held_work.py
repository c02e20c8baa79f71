"""The work behind the hours: piece by piece it adds up to what the hours of the golden month say."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db.models import F, Sum
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.accounts.models import User
from apps.chargeback.tests.test_ledger import LATER, PERIOD, filled
from apps.core.windows import Window
from apps.fleet.models import Cluster
from apps.usage.allocation import Basis
from apps.usage.held_work import held_work
from apps.usage.models import AllocationHour

HOUR = timedelta(hours=1)
HOURS = PERIOD["hours"]


@pytest.fixture
def month(db: None, settings: object) -> Cluster:
    return filled(settings)


def of_work(cluster: Cluster, start: Any, hours: int) -> dict[tuple[Any, ...], Decimal]:
    window = Window(start, start + hours * HOUR)
    sums: defaultdict[tuple[Any, ...], Decimal] = defaultdict(Decimal)
    for row in held_work(cluster=cluster, window=window, now=LATER, basis=Basis.RESERVED):
        item = row.of
        sums[row.team, item.place.queue, item.on, item.unit.model, item.borrowed, item.seen.value] += (
            item.unit_seconds
        )
    return dict(sums)


def of_hours(start: Any, hours: int) -> dict[tuple[Any, ...], Decimal]:
    found = AllocationHour.objects.filter(
        basis="reserved", starts_at__gte=start, starts_at__lt=start + hours * HOUR
    ).values_list(F("team__slug"), "queue", "flavor", "model", "borrowed", "seen")
    return {(row[0] or "", *row[1:-1]): row[-1] for row in found.annotate(units=Sum("unit_seconds"))}


@settings(
    max_examples=25, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(first=st.integers(0, HOURS - 24), hours=st.integers(1, 24))
def test_pieces_add_up_to_the_hours(month: Cluster, first: int, hours: int) -> None:
    start = PERIOD["start"] + first * HOUR
    assert of_work(month, start, hours) == of_hours(start, hours)


def test_page_and_rest_name_the_work_of_an_hour(month: Cluster, client: Client) -> None:
    row = AllocationHour.objects.filter(basis="reserved", team__slug="t02", seen="observed").earliest(
        "starts_at"
    )
    client.force_login(User.objects.get(username="finance-lead"))
    path = (
        f"/chargeback/work/?cluster={row.cluster.slug}&team=t02&queue={row.queue}&basis=reserved"
        f"&from={row.starts_at:%Y-%m-%dT%H:%M:%SZ}&to={row.ends_at:%Y-%m-%dT%H:%M:%SZ}"
    )
    body = client.get(path).content.decode()
    assert "w02" in body
    rest = client.get(path.replace("/chargeback/work/", "/api/v1/usage/work/")).json()
    assert {one["team"] for one in rest["results"]} == {"t02"}
    assert sum(Decimal(one["unit_seconds"]) for one in rest["results"]) == row.unit_seconds
