"""Thirty pieces of work with known lives: every statistic equals what was worked out by hand beside them."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from apps.accounts.models import Team
from apps.core.windows import Window
from apps.fleet.models import Cluster
from apps.usage.admission_reading import AdmissionCriteria
from apps.usage.blocked import blocked_series, blocked_table, blocked_trend
from apps.usage.blocked_work import blocked_work
from apps.usage.models import Step, UnseenEvictions
from apps.usage.outcomes import outcome_table
from apps.usage.waits import wait_table

from .by_hand import EXPECTED, GPU, NOW, PIECES, WINDOW, lay, lay_rolled_up

pytestmark = pytest.mark.django_db
D = Decimal


@pytest.fixture
def clusters() -> dict[str, Cluster]:
    return lay()


@pytest.fixture
def rolled() -> dict[str, Cluster]:
    return lay_rolled_up()


def _totals(by: Any, **criteria: str) -> dict[str, Decimal]:
    found = blocked_series(window=WINDOW, by=by, team_ids=None, criteria=AdmissionCriteria(**criteria))
    return found.totals


def _said(name: str) -> dict[str, Decimal]:
    return {key: D(value) for key, value in EXPECTED[name].items()}


@pytest.mark.usefixtures("rolled")
def test_hours_blocked() -> None:
    assert _totals("cause") == _said("blocked_work_hours_by_cause")
    assert _totals("layer") == _said("blocked_work_hours_by_layer")
    assert _totals("cause", resource=GPU) == _said("blocked_gpu_hours_by_cause")
    assert _totals("cause", resource="amd.com/gpu") == _said("blocked_amd_hours_by_cause")
    assert _totals("queue", cause="quota") == _said("blocked_quota_hours_by_queue")
    assert _totals("team", cause="quota") == _said("blocked_quota_hours_by_team")
    assert _totals("flavor", cause="quota")["h100"] == _said("blocked_quota_hours_with_flavor")["h100"]


@pytest.mark.usefixtures("rolled")
def test_hours_blocked_by_hour_day_and_week() -> None:
    quota = AdmissionCriteria(cause="quota")
    days = blocked_series(window=WINDOW, team_ids=None, criteria=quota, step=Step.DAY)
    assert [list(line) for line in days.hours.values()] == [
        [D(value) for value in line] for line in EXPECTED["blocked_quota_hours_by_day"]
    ]
    first = blocked_series(window=WINDOW, team_ids=None, criteria=quota, step=Step.HOUR).hours["quota"]
    assert list(first[:5]) == [D(value) for value in EXPECTED["blocked_quota_hours_of_first_five_hours"]]
    week = blocked_series(window=WINDOW, team_ids=None, criteria=quota, step=Step.WEEK)
    assert week.totals == {"quota": D(EXPECTED["blocked_work_hours_by_cause"]["quota"])}


@pytest.mark.usefixtures("rolled")
def test_cause_by_queue() -> None:
    table = blocked_table(window=WINDOW, team_ids=None)
    assert {row: cell.hours for (row, queue), cell in table.cells.items() if queue == "team-b"} == {
        "quota": D("37.5125"),
        "held": D(2),
    }
    assert table.rows[0] == "quota"
    cell = table.cells["quota", "team-b"]
    assert cell.query == {
        "cause": "quota",
        "queue": "team-b",
        "from": "2026-11-30T00:00:00Z",
        "to": "2026-12-03T00:00:00Z",
    }


@pytest.mark.usefixtures("rolled")
def test_up_to_a_week_the_table_adds_up_to_the_trend_beside_it() -> None:
    """Neither takes the whole first day in."""
    part = Window(WINDOW.start + timedelta(hours=5), WINDOW.start + timedelta(days=4, hours=5))
    before = sum(D(value) for value in EXPECTED["blocked_quota_hours_of_first_five_hours"])
    expected = D(EXPECTED["blocked_work_hours_by_cause"]["quota"]) - before
    table = blocked_table(window=part, team_ids=None)
    assert table.covered == part
    assert sum(cell.hours for (cause, _queue), cell in table.cells.items() if cause == "quota") == expected
    trend = {row.key: row.hours for row in blocked_trend(window=part, team_ids=None)}
    assert trend["quota"] == expected


@pytest.mark.parametrize("by", ["queue", "team", "size", "flavor"])
@pytest.mark.usefixtures("rolled")
def test_waits(by: Any) -> None:
    rows = wait_table(now=NOW, window=WINDOW, by=by, team_ids=None)
    found = {
        f"{row.key} {row.which}": [row.p50, row.p90, row.p99, row.reserved, row.gave_up, row.still_waiting]
        for row in rows
    }
    assert found == EXPECTED["waits"][by]


@pytest.mark.usefixtures("rolled")
def test_outcomes() -> None:
    [row] = outcome_table(window=WINDOW, team_ids=None)
    expected = EXPECTED["outcomes"]
    assert row.counts == expected["counts"]
    assert dict(row.reasons["retried"]) == expected["retried"]
    for rate in ("completion", "failure", "eviction", "preemption", "retry"):
        part, whole = expected[rate]
        assert getattr(row, rate) == D(part) / D(whole), rate
    notes = UnseenEvictions.objects.values_list("uid", "count", "run_seconds")
    assert [list(note) for note in notes] == EXPECTED["not_seen"]
    by_team = outcome_table(window=WINDOW, by="team", team_ids=None)
    assert {row.key: row.count("submitted") for row in by_team} == expected["submitted_by_team"]
    by_queue = outcome_table(window=WINDOW, by="queue", team_ids=None)
    assert {r.key: r.count("reserved") for r in by_queue if r.key} == expected["reserved_by_queue"]


@pytest.mark.usefixtures("rolled")
def test_the_work_behind_each_bar_adds_up_to_it() -> None:
    series = blocked_series(window=WINDOW, team_ids=None, step=Step.DAY)
    for cause, line in series.hours.items():
        for bucket, hours in zip(series.buckets, line, strict=True):
            behind = blocked_work(
                now=NOW, window=bucket, team_ids=None, criteria=AdmissionCriteria(cause=cause)
            )
            assert sum((row.hours for row in behind), D(0)) == hours, (cause, bucket)
    gpus = AdmissionCriteria(cause="topology", resource=GPU)
    [row] = blocked_work(now=NOW, window=WINDOW, team_ids=None, criteria=gpus)
    assert (row.name, row.hours, row.cluster) == ("a04", D(64), "east")
    speech = [Team.objects.get(slug="speech").pk]
    own = blocked_work(now=NOW, window=WINDOW, team_ids=speech, criteria=AdmissionCriteria(cause="quota"))
    assert {row.name: row.hours for row in own} == {"b01": 2, "v01": 4, "v02": 8, "v03": 22, "v04": 3}
    assert (
        blocked_work(now=NOW, window=WINDOW, team_ids=speech, criteria=AdmissionCriteria(team="vision")) == []
    )
    assert blocked_work(now=NOW, window=WINDOW, team_ids=None, criteria=AdmissionCriteria(team="-")) == []


@pytest.mark.usefixtures("rolled")
def test_the_week_before() -> None:
    both = blocked_trend(window=WINDOW, team_ids=None)
    assert {row.before for row in both} == {None}
    east = AdmissionCriteria(cluster="east")
    found = {row.key: row for row in blocked_trend(window=WINDOW, team_ids=None, criteria=east)}
    for cause, (now, before) in EXPECTED["trend_of_east"].items():
        assert (found[cause].hours, found[cause].before) == (D(now), D(before)), cause
    assert found["topology"].change == 0
    assert found["model"].change == 3
    assert found["held"].change is None


@pytest.mark.usefixtures("rolled")
def test_a_reader_of_one_team_sees_its_own() -> None:
    speech = [Team.objects.get(slug="speech").pk]
    seen = blocked_series(window=WINDOW, by="team", team_ids=speech)
    assert set(seen.hours) == {"speech"}
    assert {row.key for row in wait_table(now=NOW, window=WINDOW, by="team", team_ids=speech)} == {"speech"}
    assert {row.key for row in outcome_table(window=WINDOW, by="team", team_ids=speech)} == {"speech"}


def test_thirty_pieces() -> None:
    copies = {"a11-again", "a12-copy"}
    names = {piece[0] for piece in PIECES["pieces"]} - copies
    assert len(names) + len(PIECES["pods"]) == 30
    assert Fraction(*EXPECTED["outcomes"]["completion"]) == Fraction(4, 5)
