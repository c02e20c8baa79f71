"""The history of waiting work, against values computed by hand."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from apps.admissions.selectors import NO_REASON, Criteria, ReasonSeries, reason_series
from apps.core.windows import Bucket, Window
from apps.fleet.selectors import UNBOUND

from .builders import T0, bind, hours, make_cluster, make_event, make_object, make_span, make_team, make_work

pytestmark = pytest.mark.django_db
D = Decimal


def series(start: float, end: float, now: float = 24, **asked: Any) -> ReasonSeries:
    values = {"now": hours(now), "team_ids": None, "bucket": Bucket.HOUR, **asked}
    return reason_series(window=Window(hours(start), hours(end)), **values)


def lines(found: ReasonSeries) -> dict[str, list[Decimal | None]]:
    return {key: list(values) for key, values in found.values.items()}


def span(cluster: Any, name: str, start: float, end: float | None, **fields: Any) -> None:
    work = make_work(cluster, name, gone_at=hours(24))
    make_span(work, start=hours(start), end=None if end is None else hours(end), **fields)


def test_the_mean_number_that_waited_by_reason() -> None:
    cluster = make_cluster()
    span(cluster, "whole", 0, 3, reason="Pending")
    span(cluster, "half", 1.5, 2, reason="Pending")
    span(cluster, "quarter", 1, 1.25, reason="Inadmissible")
    span(cluster, "silent", 2, 3, reason="", message="")
    span(cluster, "running", 0, 3, state="admitted")
    assert lines(series(0, 3)) == {
        "Pending": [D(1), D("1.5"), D(1)],
        "none": [D(0), D(0), D(1)],
        "Inadmissible": [D(0), D("0.25"), D(0)],
    }


def test_open_spans_reach_to_now_and_the_future_is_not_zero() -> None:
    cluster = make_cluster()
    span(cluster, "open", 1, None)
    found = series(0, 5, now=3.5)
    # Before the first observation and after now nothing is known; the last bucket is judged by its observed half.
    assert lines(found) == {"Pending": [None, D(1), D(1), D(1), None]}
    assert [piece.start for piece in found.buckets] == [hours(h) for h in range(5)]


def test_no_observation_at_all() -> None:
    make_cluster()
    assert lines(series(0, 3)) == {}
    assert lines(series(0, 3, by="cause")) == {}


def test_by_cause_from_the_texts() -> None:
    cluster = make_cluster()
    span(cluster, "quota", 0, 2)
    span(
        cluster,
        "model",
        0,
        1,
        message="couldn't assign flavors to pod set main: flavor a doesn't match node affinity",
    )
    span(cluster, "odd", 1, 2, message="never heard of this")
    found = series(0, 2, by="cause")
    assert lines(found) == {"quota": [D(1), D(1)], "model": [D(1), D(0)], "unknown": [D(0), D(1)]}
    assert found.labels["model"] == "model"
    assert lines(series(0, 2, by="reason", criteria=Criteria(cause="model"))) == {"Pending": [D(1), D(0)]}


def test_a_volcano_groups_event_counts_in_its_past_too() -> None:
    cluster = make_cluster()
    work = make_work(
        cluster, "gang", kind="PodGroup", queue_name="research", reason="", message="", gone_at=hours(9)
    )
    make_span(work, start=hours(0), end=hours(2))
    make_event(work, "queue resource quota insufficient: insufficient nvidia.com/gpu", at=hours(1))
    make_event(work, "resource in cluster is overused: overused nvidia.com/gpu", at=hours(5))
    assert lines(series(0, 2, by="cause")) == {"quota": [D(1), D(1)]}


def test_days_are_utc_days() -> None:
    cluster = make_cluster()
    span(cluster, "a", 12, 36)
    window = Window(T0, T0 + timedelta(days=2))
    found = reason_series(now=hours(48), window=window, bucket=Bucket.DAY, team_ids=None)
    # Observed from 12:00 on: the first day's mean is over its second half.
    assert lines(found) == {"Pending": [D(1), D("0.5")]}


def test_work_belongs_to_its_team_of_that_time() -> None:
    cluster, old, new = make_cluster(), make_team("old"), make_team("new")
    bind(old, cluster, "team-a", valid_to=hours(1.5))
    bind(new, cluster, "team-a", valid_from=hours(1.5), valid_to=hours(2))
    span(cluster, "a", 0, 4)
    assert lines(series(0, 4, team_ids=[old.pk])) == {"Pending": [D(1), D("0.5"), D(0), D(0)]}
    assert lines(series(0, 4, team_ids=[new.pk])) == {"Pending": [D(0), D("0.5"), D(0), D(0)]}
    assert lines(series(0, 4, criteria=Criteria(team="new"))) == {"Pending": [D(0), D("0.5"), D(0), D(0)]}
    assert lines(series(0, 4, criteria=Criteria(team=UNBOUND))) == {"Pending": [D(0), D(0), D(1), D(1)]}
    assert lines(series(0, 4, team_ids=[new.pk], criteria=Criteria(team="old"))) == {}
    assert lines(series(0, 4, team_ids=[])) == {}
    assert lines(series(0, 4)) == {"Pending": [D(1)] * 4}


def test_filters_narrow_the_history() -> None:
    east, west = make_cluster("east"), make_cluster("west")
    span(east, "a", 0, 1)
    span(west, "b", 0, 1, queue="team-b", reason="Inadmissible")
    span(west, "c", 0, 1, state="deactivated", reason="Deactivated")
    span(west, "silent", 0, 1, reason="", message="")
    assert lines(series(0, 1, criteria=Criteria(cluster="east"))) == {"Pending": [D(1)]}
    assert lines(series(0, 1, criteria=Criteria(queue="team-b"))) == {"Inadmissible": [D(1)]}
    assert lines(series(0, 1, criteria=Criteria(q="ML/B"))) == {"Inadmissible": [D(1)]}
    assert lines(series(0, 1, criteria=Criteria(reason=NO_REASON))) == {"none": [D(1)]}
    assert lines(series(0, 1, criteria=Criteria(kind="PodGroup"))) == {}
    assert set(lines(series(0, 1, criteria=Criteria(deactivated=True)))) == {
        "Pending", "Inadmissible", "Deactivated", "none",
    }  # fmt: skip


def test_the_phase_counts_as_it_does_in_the_life_of_work() -> None:
    """Whatever the rollups make of a span is made of it here: checks that ask for nodes, silence, broken queues."""
    cluster = make_cluster()
    make_object(
        cluster, "AdmissionCheck", "capacity", spec={"controller": "kueue.x-k8s.io/provisioning-request"}
    )
    broken = {"Active": {"status": "False", "reason": "FlavorNotFound"}}
    make_object(cluster, "ClusterQueue", "team-b", status={"conditions": broken})
    reserved = {"state": "reserved", "reason": "ChecksOpen"}
    span(cluster, "nodes", 0, 1, message="capacity: Pending", **reserved)
    span(cluster, "silent", 0, 1, state="reserved", reason="", message="")
    span(
        cluster,
        "broken",
        0,
        1,
        reason="Inadmissible",
        message="ClusterQueue team-b is inactive",
        queue="team-b",
    )
    gang = make_work(cluster, "gang", kind="PodGroup", queue_name="research", gone_at=hours(9))
    make_span(gang, start=hours(0), end=hours(1), state="reserved", reason="", message="")
    span(cluster, "given-up", 0, 1, state="deactivated", reason="", message="")
    found = lines(series(0, 1, by="cause", criteria=Criteria(deactivated=True)))
    assert found == {"configuration": [D(1)], "held": [D(2)], "scale_up": [D(1)], "transient": [D(1)]}
    assert lines(series(0, 1, criteria=Criteria(cause="scale_up"))) == {"ChecksOpen": [D(1)]}
