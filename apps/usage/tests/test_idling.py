"""What idles, and in whose hands: two hours of two queues worked out by hand."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from apps.accounts.models import Team
from apps.admissions.tests.builders import hours, make_cluster, make_team
from apps.core.windows import Window
from apps.fleet.models import Cluster
from apps.usage.idling import Idling, idling
from apps.usage.models import AllocationHour, UseHour

pytestmark = pytest.mark.django_db
D, GPU = Decimal, "nvidia.com/gpu"
BOTH = Window(hours(0), hours(2))


def held(team: Team, hour: int, basis: str, units: int, *, model: str = "H100", **more: Any) -> None:
    """So many units for the whole hour."""
    AllocationHour.objects.create(
        **{
            "cluster": Cluster.objects.get(), "team": team, "basis": basis, "kind": "Workload",
            "queue": f"{team.slug}-cq", "resource": GPU, "model": model, "seen": "observed",
            "starts_at": hours(hour), "ends_at": hours(hour + 1), "unit_seconds": D(units * 3600),
            **({"weight_over": 1, "weight_under": 1} if model else {}), **more,
        }
    )  # fmt: skip


@pytest.fixture
def east() -> Cluster:
    """Red: 8 promised; in the first hour 6 of them reserved and 4 bound, of which a quarter is busy; in the second hour 8
    and 2 borrowed reserved and 12 bound. Blue: 3 reserved of a flavor over several kinds of cards, 2 bound."""
    cluster, red, blue = make_cluster(), make_team("red"), make_team("blue")
    held(red, 0, "nominal", 8)
    held(red, 0, "reserved", 6)
    held(red, 0, "reserved", 5, seen="left_out")
    held(red, 0, "pod", 4)
    held(red, 1, "nominal", 8)
    held(red, 1, "reserved", 8)
    held(red, 1, "reserved", 2, borrowed=True)
    held(red, 1, "pod", 12)
    UseHour.objects.create(
        cluster=cluster, team=red, kind="Workload", queue="red-cq", resource=GPU, model="H100", weight_over=1,
        weight_under=1, starts_at=hours(0), ends_at=hours(1), device_seconds=D(4 * 3600),
        measured_seconds=D(4 * 3600), busy_seconds=D(3600), memory_seconds=D(0), power_seconds=D(0),
    )  # fmt: skip
    held(blue, 0, "reserved", 3, model="")
    held(blue, 0, "pod", 2)
    return cluster


def found(cluster: Cluster, **more: Any) -> dict[tuple[str, str], Idling]:
    rows = idling(window=BOTH, clusters=[cluster], **more)
    return {(row.team, row.unit.model): row for row in rows}


def in_hours(*seconds: Decimal | None) -> list[Decimal | None]:
    return [None if one is None else one / 3600 for one in seconds]


def test_what_was_too_much_in_one_hour_does_not_make_up_for_another(east: Cluster) -> None:
    row = found(east)["red", "H100"]
    assert in_hours(row.nominal, row.unused, row.reserved, row.unbound, row.bound) == [16, 2, 16, 2, 16]
    assert in_hours(row.measured, row.busy, row.held_idle) == [4, 1, 3]
    assert row.efficiency == D("0.25")


def test_of_several_kinds_of_cards_nobody_says_which_had_no_pod(east: Cluster) -> None:
    rows = found(east)
    assert in_hours(rows["blue", ""].reserved, rows["blue", ""].unbound) == [3, None]
    bound = rows["blue", "H100"]
    assert in_hours(bound.reserved, bound.unbound, bound.bound, bound.held_idle) == [0, 0, 2, None]


def test_rows_are_those_of_the_reader_and_of_what_was_asked(east: Cluster) -> None:
    red = Team.objects.get(slug="red")
    assert {team for team, _model in found(east, team_ids=[red.pk])} == {"red"}
    assert {team for team, _model in found(east, team="blue")} == {"blue"}
    assert {team for team, _model in found(east, queue="red-cq")} == {"red"}
    assert found(east, team="-") == {}
    assert idling(window=BOTH, clusters=[]) == []


def test_what_idles_most_stands_first(east: Cluster) -> None:
    assert [row.team for row in idling(window=BOTH, clusters=[east])] == ["red", "blue", "blue"]
