"""Analytics read rolled-up rows and never raw ones, and for a year about as many as for a month."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.admissions.tests.builders import T0, make_cluster
from apps.core.windows import Window
from apps.usage.admission_reading import REACH, SINCE, reading
from apps.usage.admission_rollup import sum_tiers
from apps.usage.blocked import (
    blocked_by_hour_of_week,
    blocked_resources,
    blocked_series,
    blocked_table,
    blocked_trend,
)
from apps.usage.models import BlockHour, Step, Watermark
from apps.usage.outcomes import outcome_table

pytestmark = pytest.mark.django_db
YEAR, MONTH = (Window(T0 - timedelta(days=days), T0) for days in (365, 30))
READS: list[Callable[..., Any]] = [
    blocked_series,
    blocked_table,
    blocked_by_hour_of_week,
    blocked_trend,
    outcome_table,
]


@pytest.mark.parametrize("read", READS)
def test_raw_rows_are_never_read(read: Callable[..., Any]) -> None:
    make_cluster()
    with CaptureQueriesContext(connection) as captured:
        read(window=YEAR, team_ids=None)
    tables = {table for query in captured for table in re.findall(r'(?:FROM|JOIN) "(\w+)"', query["sql"])}
    assert not {table for table in tables if table.startswith("observations_")}
    assert len(captured) <= 8


def test_steps_follow_the_length_of_the_window() -> None:
    assert [reading(Window(T0 - timedelta(days=days), T0)).step for days in (1, 3, 4, 62, 63, 365)] == [
        Step.HOUR,
        Step.HOUR,
        Step.DAY,
        Step.DAY,
        Step.WEEK,
        Step.WEEK,
    ]
    assert (len(reading(YEAR).pieces), len(reading(MONTH).pieces)) == (53, 30)


def test_steps_cover_the_window_without_a_gap() -> None:
    for days in (1, 5, 30, 100, 365):
        window = Window(T0 - timedelta(days=days, minutes=7), T0 - timedelta(minutes=3))
        found = reading(window)
        assert found.covered.start <= window.start
        assert found.covered.end >= window.end
        assert all(left.end == right.start for left, right in pairwise(found.pieces))
        assert (found.pieces[0].start, found.pieces[-1].end) == (found.covered.start, found.covered.end)


def test_hour_of_the_week_is_a_mean_of_whole_weeks() -> None:
    cluster = make_cluster()
    start = T0 - timedelta(days=42)
    for rollup, at in ((SINCE, start), (REACH, T0)):
        Watermark.objects.create(cluster=cluster, rollup=rollup, done_until=at)
    hour = start
    rows = []
    while hour < T0:
        if hour.hour == 9:
            rows.append(
                BlockHour(
                    cluster=cluster, queue="q", layer="admission", cause="quota", resource="", step="hour", hour=hour,
                    rules=1, seconds=3600 * (1 + hour.weekday()),
                )
            )  # fmt: skip
        hour += timedelta(hours=1)
    BlockHour.objects.bulk_create(rows)
    heat = blocked_by_hour_of_week(window=YEAR, team_ids=None)
    assert heat is not None
    assert heat.weeks == 4
    assert [day[9] for day in heat.hours] == [1, 2, 3, 4, 5, 6, 7]
    assert sum(sum(day) for day in heat.hours) == 28
    assert blocked_by_hour_of_week(window=Window(T0 - timedelta(days=6), T0), team_ids=None) is None


def test_resources_and_tiers() -> None:
    cluster = make_cluster()
    for resource, step_hour in (("nvidia.com/gpu", 0), ("amd.com/gpu", 5), ("", 5)):
        BlockHour.objects.create(
            cluster=cluster, queue="q", layer="admission", cause="quota", resource=resource, step="hour",
            hour=T0 - timedelta(days=9) + timedelta(hours=step_hour), rules=1, seconds=60,
        )  # fmt: skip
    sum_tiers(cluster=cluster, start=T0 - timedelta(days=30), end=T0)
    assert blocked_resources(window=MONTH, team_ids=None) == ["amd.com/gpu", "nvidia.com/gpu"]
    assert BlockHour.objects.filter(step=Step.WEEK).count() == 3
