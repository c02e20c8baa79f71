"""Reports of what was held and used: a small week by hand, and that no grouping and no step changes a sum."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from apps.admissions.tests.builders import make_cluster, make_team
from apps.core.windows import HOUR, Window
from apps.fleet.models import Cluster
from apps.fleet.selectors import UNBOUND
from apps.usage import report_sql, reports
from apps.usage.allocation import Unit
from apps.usage.allocation_days import add_days
from apps.usage.filters import UsageForm
from apps.usage.models import AllocationHour, UseHour
from apps.usage.reports import KEYS, Question, Row, TooManyRows, cards_per_device, edges_of, gpu_hours, report

pytestmark = pytest.mark.django_db
D, GPU, MIG = Decimal, "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
START = datetime(2026, 3, 1, tzinfo=UTC)
CARD: dict[str, Any] = {"resource": GPU, "model": "H100", "sharing_mode": "exclusive", "weight_over": 1, "weight_under": 1}  # fmt: skip
SEVENTH: dict[str, Any] = {
    **{"resource": MIG, "model": "A100", "sharing_mode": "mig", "profile": "1g.10gb"},
    **{"weight_over": 1, "weight_under": 7},
}
UNKNOWN: dict[str, Any] = {"resource": "example.com/npu"}


def at(hours: int) -> datetime:
    return START + hours * HOUR


def held(cluster: Cluster, hour: int, units: int, kind: dict[str, Any], **fields: Any) -> None:
    values = {
        "basis": "reserved",
        "kind": "Workload",
        "queue": "q",
        "flavor": "f",
        "seen": "observed",
        **fields,
    }
    AllocationHour.objects.create(
        cluster=cluster, starts_at=at(hour), ends_at=at(hour + 1), unit_seconds=units, **kind, **values
    )


def used(
    cluster: Cluster, hour: int, measured: int, busy: int | None, kind: dict[str, Any], **fields: Any
) -> None:
    values = {"kind": "Workload", "queue": "q", "memory_seconds": 0, "power_seconds": 0, **fields}
    UseHour.objects.create(
        cluster=cluster, starts_at=at(hour), ends_at=at(hour + 1), device_seconds=measured,
        measured_seconds=measured, busy_seconds=busy, **kind, **values,
    )  # fmt: skip


@pytest.fixture
def east() -> Cluster:
    return filled()


def filled() -> Cluster:
    """Red: two cards for an hour of each day, one of them borrowed on the second, bound half of the time and busy a third of
    what was measured. Blue: seven slices, of which nobody saw an hour. Nobody: a device that nobody knows."""
    cluster, red, blue = make_cluster(), make_team("red"), make_team("blue")
    mine = {"team": red, "cost_centre": "cc-1"}
    held(cluster, 1, 7200, CARD, priority_class="high", **mine)
    held(cluster, 25, 3600, CARD, **mine)
    held(cluster, 25, 3600, CARD, borrowed=True, seen="bridged", **mine)
    for hour in (1, 25):
        held(cluster, hour, 3600, CARD, basis="pod", flavor="", **mine)
        held(cluster, hour, 900, CARD, basis="pod", flavor="", seen="beyond", **mine)
        used(cluster, hour, 1800, 600, CARD, memory_byte_seconds=2**31, energy_joules=500, **mine)
    held(cluster, 1, 14400, CARD, basis="nominal", **mine)
    held(cluster, 2, 25200, SEVENTH, team=blue, queue="b")
    held(cluster, 3, 25200, SEVENTH, team=blue, queue="b", seen="left_out")
    used(cluster, 2, 0, None, SEVENTH, team=blue, queue="b")
    held(cluster, 30, 3600, UNKNOWN, queue="n")
    add_days(cluster=cluster, start=START, end=at(48), edges=[])
    return cluster


def ask(step: Any = "", keys: Sequence[str] = ("team",), days: int = 2, **fields: Any) -> Question:
    edges = fields.pop("edges", None) or edges_of(step, Window(START, START + timedelta(days=days)))
    given = {"narrowed": {}, "team_ids": None, **fields}
    return Question(step=step, edges=edges, keys=frozenset(keys), **given)


def test_the_week_by_hand(east: Cluster) -> None:
    nobody, blue, red = report(ask())
    assert (nobody.team, nobody.resource, nobody.unit, nobody.reserved) == (
        None,
        "example.com/npu",
        Unit(),
        D(3600),
    )
    assert (blue.team, blue.reserved, blue.left_out, blue.bound) == ("blue", D(25200), D(25200), D(0))
    assert (blue.measured, blue.busy, blue.held_idle, blue.memory_gib_seconds) == (None,) * 4
    assert gpu_hours(blue.reserved, blue.unit.equivalents) == 1
    assert gpu_hours(nobody.reserved, nobody.unit.equivalents) is None
    assert (red.team, red.reserved, red.bridged, red.left_out, red.bound) == (
        *("red", D(14400), D(3600), D(0), D(7200)),
    )
    assert (red.measured, red.busy, red.held_idle) == (D(3600), D(1200), D(2400))
    assert (red.memory_gib_seconds, red.energy_joules, red.nominal) == (D(4), D(1000), None)
    assert (red.start, red.end, red.cluster, red.borrowed) == (START, at(48), None, None)


def test_by_day_each_has_its_own(east: Cluster) -> None:
    rows = [row for row in report(ask("day", ["team", "cost_centre"])) if row.team == "red"]
    assert [(row.start, row.cost_centre, row.reserved, row.bridged, row.bound, row.busy) for row in rows] == [
        (at(0), "cc-1", D(7200), D(0), D(3600), D(600)),
        (at(24), "cc-1", D(7200), D(3600), D(3600), D(600)),
    ]


def test_months_are_what_is_passed_in(east: Cluster) -> None:
    edges = [START - timedelta(days=30), at(24), START + timedelta(days=30)]
    rows = report(ask("month", ["queue"], edges=edges))
    assert [(row.start, row.queue, row.reserved) for row in rows] == [
        (edges[0], "b", D(25200)),
        (edges[0], "q", D(7200)),
        (at(24), "n", D(3600)),
        (at(24), "q", D(7200)),
    ]


def test_what_a_key_does_not_tell_is_null_in_every_row(east: Cluster) -> None:
    asked = ask(keys=["borrowed"], narrowed={"team": "red"}, nominal=True)
    assert asked.untold == {name: ["borrowed"] for name in ("nominal", "bound", "measured")}
    assert [(row.borrowed, row.reserved, row.bound, row.measured, row.nominal) for row in report(asked)] == [
        (False, D(10800), None, None, None),
        (True, D(3600), None, None, None),
    ]
    by_flavor = ask(keys=["flavor"], narrowed={"resource": GPU}, nominal=True)
    assert by_flavor.untold == {"bound": ["flavor"], "measured": ["flavor"]}
    assert [(row.flavor, row.reserved, row.bound, row.nominal) for row in report(by_flavor)] == [
        ("f", D(14400), None, D(14400)),
    ]
    narrowed = ask(keys=[], narrowed={"priority_class": "high"})
    assert [(row.reserved, row.bound) for row in report(narrowed)] == [(D(7200), None)]


@pytest.mark.parametrize(
    ("narrowed", "found"),
    [
        ({"team": "red"}, ["red"]),
        ({"team": UNBOUND}, [None]),
        ({"cost_centre": "cc-1"}, ["red"]),
        ({"queue": "b"}, ["blue"]),
        ({"kind": "PodGroup"}, []),
        ({"flavor": "f"}, [None, "blue", "red"]),
        ({"borrowed": "true"}, ["red"]),
        ({"resource": MIG}, ["blue"]),
        ({"model": "H100"}, ["red"]),
        ({"sharing_mode": "mig", "profile": "1g.10gb"}, ["blue"]),
        ({"cluster": "nowhere"}, []),
        ({"cluster": "east"}, [None, "blue", "red"]),
    ],
)
def test_every_key_narrows(east: Cluster, narrowed: dict[str, str], found: list[str | None]) -> None:
    assert [row.team for row in report(ask(narrowed=narrowed))] == found


def test_whose_it_is_comes_before_what_is_asked_for(east: Cluster) -> None:
    red = make_team("third").pk
    assert report(ask(team_ids=[])) == report(ask(team_ids=[red])) == []
    mine = AllocationHour.objects.filter(team__slug="red").values_list("team_id", flat=True)[:1]
    assert {row.team for row in report(ask(team_ids=list(mine)))} == {"red"}
    assert report(ask(team_ids=list(mine), narrowed={"team": UNBOUND})) == []
    assert report(ask(team_ids=list(mine), narrowed={"team": "blue"})) == []


SUMMED = (
    "reserved",
    "bridged",
    "left_out",
    "bound",
    "nominal",
    "measured",
    "busy",
    "memory_byte_seconds",
    "energy_joules",
)


def totals(rows: Sequence[Row]) -> dict[Any, dict[str, Decimal]]:
    """By kind of unit, of what is told."""
    found: defaultdict[Any, defaultdict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for row in rows:
        for name in SUMMED:
            if (value := getattr(row, name)) is not None:
                found[row.resource, row.unit][name] += value
    return {kind: dict(sums) for kind, sums in found.items()}


HIDES = {
    "flavor": {"bound", "measured", "busy", "memory_byte_seconds", "energy_joules"},
    "priority_class": {"bound", "nominal", "measured", "busy", "memory_byte_seconds", "energy_joules"},
}
HIDES["borrowed"] = HIDES["priority_class"]


@examples(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keys=st.sets(st.sampled_from(KEYS)), step=st.sampled_from(["", "hour", "day"]))
def test_no_grouping_and_no_step_changes_a_sum(east: Cluster, keys: set[str], step: str) -> None:
    whole = totals(report(ask(keys=[], nominal=True)))
    hidden = set().union(*(HIDES.get(key, set()) for key in keys))
    found = totals(report(ask(step, sorted(keys), nominal=True)))
    expected = {
        kind: {name: value for name, value in sums.items() if name not in hidden}
        for kind, sums in whole.items()
    }
    assert found == expected


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("step", ["", "hour", "day"])
def test_pages_hold_every_row_once_and_in_order(east: Cluster, step: str, most: int) -> None:
    asked = ask(step, KEYS)
    whole, pages, after = report(asked), [], None
    while page := report(asked, after=after, most=most):
        pages += page
        after = page[-1].place
    assert pages == whole
    assert [row.place for row in whole] == sorted(row.place for row in whole)


def test_a_place_stays_when_the_window_moves_on(east: Cluster) -> None:
    hours = report(ask("hour"))
    moved = edges_of("hour", Window(at(2), at(48)))
    after = report(ask("hour", edges=moved), after=hours[0].place)
    assert after == hours[1:]
    assert report(ask("hour", edges=edges_of("hour", Window(START, at(24)))), after=hours[-1].place) == []


def test_an_answer_has_an_end(east: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "MOST_ROWS", 2)
    with pytest.raises(TooManyRows) as error:
        report(ask(), most=1)
    assert error.value.found == 3


@pytest.mark.parametrize("table", [report_sql.HOURS, report_sql.DAYS])
def test_only_rows_of_the_window_are_read(east: Cluster, table: str) -> None:
    """The plan for many rows: with what is cheap for a few left out."""
    places = dict.fromkeys(report_sql.AFTER, "") | {"after_0": 0}
    given: dict[str, Any] = {
        "start": START,
        "end": at(1),
        "edges": [START, at(1)],
        "bases": ["reserved"],
        "with_use": True,
    }
    query = report_sql.grouped(held=table, keys=frozenset({"team"}), conditions="team_id = ANY(%(teams)s)")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {query}", {**given, **places, "teams": [1], "most": 10})
        plan = "\n".join(line for (line,) in cursor.fetchall())
    for index in (f"{table.removeprefix('usage_allocation')}_by_time", "use_hour_by_time"):
        assert index in plan, plan


def test_cards_of_what_was_measured() -> None:
    def cards(mode: str, profile: str = "") -> Fraction | None:
        return cards_per_device(Unit("H100", mode, profile, Fraction(1, 4)))

    # A shared card is measured whole; of a shared instance nobody says which part of a card it is.
    assert [cards("exclusive"), cards("mig", "1g.10gb"), cards("time_slicing"), cards("mps")] == [
        *(Fraction(1, 4), Fraction(1, 4), Fraction(1), Fraction(1)),
    ]
    assert [cards("time_slicing", "1g.10gb"), cards("vgpu"), cards("")] == [None, None, None]


@given(seconds=st.integers(0, 10**12), over=st.integers(1, 8), under=st.integers(1, 56))
def test_gpu_hours_are_exact_to_nine_digits(seconds: int, over: int, under: int) -> None:
    found = gpu_hours(D(seconds), Fraction(over, under))
    assert found is not None
    assert abs(Fraction(found) - Fraction(seconds * over, under * 3600)) <= Fraction(1, 2 * 10**9)


def test_the_form_makes_a_question() -> None:
    make_cluster()
    now = at(48)

    def form(**data: str) -> UsageForm:
        return UsageForm(data, now=now)

    asked = form(group_by="queue, model,queue", step="day", window="2d", borrowed="false", nominal="true")
    assert asked.is_valid(), asked.errors
    found = asked.question(lambda window: [])
    assert (found.keys, found.narrowed, found.nominal) == (frozenset({"queue"}), {"borrowed": "false"}, True)
    assert list(found.edges) == [at(0), at(24), at(48)]
    plain = form()
    assert plain.is_valid()
    assert plain.question(lambda window: []).keys == {"team"}
    assert form(group_by="moon").errors["group_by"] == [
        "There is no key moon; there are: cluster, team, cost_centre, kind, queue, flavor, priority_class, borrowed, "
        "resource, model, sharing_mode, profile."
    ]
    assert set(form(step="week", borrowed="maybe").errors) == {"step", "borrowed"}
    assert set(form(step="hour", window="63d").errors) == {"window"}
    months = form(step="month")
    assert months.is_valid()
    assert list(months.question(lambda window: [at(0), at(700)]).edges) == [at(0), at(700)]
    long = form(window="63d")
    assert long.is_valid()
    assert long.question(lambda window: []).window.start.hour == 0
