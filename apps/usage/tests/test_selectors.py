"""Usage rows and series: sums, scope, gaps."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from apps.admissions.tests.builders import T0, bind, hours, make_cluster, make_team
from apps.core.windows import Bucket, Window
from apps.fleet.selectors import UNBOUND
from apps.usage.filters import UsageForm
from apps.usage.selectors import (
    UsageCriteria,
    usage_rows,
    usage_series,
    watermarks,
)
from apps.usage.services import rollup_hours

from .test_rollup import span

pytestmark = pytest.mark.django_db
D = Decimal
GPU = "nvidia.com/gpu"


def window(start: float, end: float) -> Window:
    return Window(hours(start), hours(end))


@pytest.fixture
def fleet() -> dict[str, Any]:
    """Team `a` holds 8 GPUs for hours 0…2, team `b` 8 for hour 1, nobody 8 for hour 2."""
    cluster, a, b = make_cluster(), make_team("a"), make_team("b")
    bind(a, cluster, "team-a")
    bind(b, cluster, "team-b")
    span(cluster, 0, 2)
    span(cluster, 1, 2, queue="team-b")
    span(cluster, 2, 3, queue="other")
    rollup_hours(cluster=cluster, now=hours(4))
    return {"cluster": cluster, "a": a, "b": b}


def test_rows_add_up_over_the_window(fleet: dict[str, Any]) -> None:
    rows = usage_rows(window=window(0, 3), team_ids=None)
    assert [(r.team_slug, r.queue, r.flavor, r.resource, r.reserved_unit_hours) for r in rows] == [
        ("a", "team-a", "h100", GPU, D(16)),
        ("b", "team-b", "h100", GPU, D(8)),
        ("", "other", "h100", GPU, D(8)),
    ]
    assert (rows[0].cluster_slug, rows[0].team_name, rows[0].admitted_unit_hours) == ("east", "A", D(16))


def test_a_window_is_widened_to_whole_hours(fleet: dict[str, Any]) -> None:
    assert [r.reserved_unit_hours for r in usage_rows(window=window(1.5, 1.6), team_ids=None)] == [D(8), D(8)]
    assert usage_rows(window=window(3, 4), team_ids=None) == []


def test_scope_comes_before_filters(fleet: dict[str, Any]) -> None:
    a = fleet["a"].pk

    def queues(team_ids: list[int] | None, **narrowed: str) -> list[str]:
        rows = usage_rows(window=window(0, 3), team_ids=team_ids, criteria=UsageCriteria(**narrowed))
        return [row.queue for row in rows]

    assert queues([a]) == ["team-a"]
    assert queues([]) == []
    assert queues([a], team="b") == []
    assert queues([a], team=UNBOUND) == []
    assert queues(None, team=UNBOUND) == ["other"]
    assert queues(None, team="b") == ["team-b"]
    assert queues(None, queue="other") == ["other"]
    assert queues(None, cluster="nowhere") == []
    assert queues(None, resource="cpu") == []
    assert len(queues(None, flavor="h100")) == 3


def test_a_series_tells_zero_from_not_rolled_up(fleet: dict[str, Any]) -> None:
    found = usage_series(window=window(-1, 6), bucket=Bucket.HOUR, resource=GPU, team_ids=None)
    assert {key: list(values) for key, values in found.values.items()} == {
        UNBOUND: [None, D(0), D(0), D(8), D(0), None, None],
        "a": [None, D(8), D(8), D(0), D(0), None, None],
        "b": [None, D(0), D(8), D(0), D(0), None, None],
    }
    assert found.labels == {"a": "A", "b": "B", UNBOUND: "no team"}


def test_a_day_is_the_mean_of_its_rolled_up_part(fleet: dict[str, Any]) -> None:
    found = usage_series(
        window=Window(T0, T0 + timedelta(days=1)), bucket=Bucket.DAY, resource=GPU, by="flavor",
        team_ids=[fleet["a"].pk],
    )  # fmt: skip
    # 16 GPU-hours over the four hours that were rolled up.
    assert {key: list(values) for key, values in found.values.items()} == {"h100": [D(4)]}


@pytest.mark.parametrize("by", ["team", "queue", "flavor", "resource", "cluster"])
def test_every_grouping_keeps_the_sum(fleet: dict[str, Any], by: Any) -> None:
    found = usage_series(window=window(0, 3), bucket=Bucket.HOUR, resource=GPU, by=by, team_ids=None)
    assert sum(value or D(0) for line in found.values.values() for value in line) == D(32)
    assert set(found.labels) == set(found.values)


def test_stopped_rollups_end_the_series(fleet: dict[str, Any]) -> None:
    found = usage_series(window=window(3, 9), bucket=Bucket.HOUR, resource=GPU, team_ids=None)
    assert found.values == {}
    assert watermarks() == {fleet["cluster"].pk: hours(4)}


def test_the_form_makes_criteria() -> None:
    make_cluster()
    form = UsageForm({"resource": GPU, "by": "queue", "window": "14d"}, now=T0)
    assert form.is_valid()
    assert form.criteria == UsageCriteria(resource=GPU)
    assert (form.grouping, form.chosen_bucket) == ("queue", Bucket.DAY)
    default = UsageForm({"bucket": "hour"}, now=T0)
    assert default.is_valid()
    assert (default.grouping, default.chosen_bucket) == ("team", Bucket.HOUR)
    assert set(UsageForm({"by": "moon", "bucket": "week"}, now=T0).errors) == {"by", "bucket"}


def test_the_running_hour_is_the_mean_up_to_the_last_rollup() -> None:
    cluster = make_cluster()
    span(cluster, 0, None)
    rollup_hours(cluster=cluster, now=hours(1.25))
    found = usage_series(window=window(0, 3), bucket=Bucket.HOUR, resource=GPU, team_ids=None)
    # Nothing was added up after 01:15: the running hour is judged by its first quarter, the next is not known.
    assert list(found.values[UNBOUND]) == [D(8), D(8), None]
