"""Usage of the month that was worked out by hand: by month it is what statements say, by day and hour it adds up to that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

from apps.accounts.models import Team
from apps.chargeback.ledger import keep_periods
from apps.chargeback.models import BillingPeriod
from apps.chargeback.month_bounds import month_bounds
from apps.chargeback.team_use import fill_use, use_of
from apps.core.windows import HOUR, Window
from apps.usage.reports import KEYS, Question, Row, edges_of, gpu_hours, report
from apps.usage.tests import golden_month

from .test_ledger import LATER, PERIOD, filled, march

MARCH = Window(PERIOD["start"], PERIOD["end"])


@pytest.fixture
def period(db: None, settings: Any) -> BillingPeriod:
    filled(settings)
    return march()


def ask(step: Any, keys: Sequence[str], narrowed: dict[str, str] | None = None) -> list[Row]:
    edges = edges_of(step, MARCH, month_bounds(MARCH))
    return report(Question(step, edges, frozenset(keys), narrowed or {}, team_ids=None))


def hours_of(rows: Sequence[Row], name: str = "reserved") -> dict[tuple[str, str, str], Fraction]:
    """Unit-hours by team, model and profile, of what is not nothing."""
    found: defaultdict[tuple[str, str, str], Fraction] = defaultdict(Fraction)
    for row in rows:
        found[row.team or "", row.unit.model, row.unit.profile] += Fraction(getattr(row, name)) / 3600
    return {key: hours for key, hours in found.items() if hours}


def by_hand() -> dict[tuple[str, str, str], Fraction]:
    expected = golden_month.month()["expected"]
    found: defaultdict[tuple[str, str, str], Fraction] = defaultdict(Fraction)
    for team, model, profile, _price, _factor, hours, _amount in expected["lines"]:
        found[team, model, profile] += Fraction(hours)
    for team, _resource, hours in expected["unpriced"]:
        found[team, "", ""] += Fraction(hours)
    return dict(found)


@pytest.mark.parametrize("step", ["month", "day", "hour", ""])
def test_every_step_adds_up_to_what_was_worked_out(period: BillingPeriod, step: str) -> None:
    """UTC days stick out of a month of Berlin at both ends: there only rows within it are looked at."""
    rows = ask(step, ["team"])
    if step == "day":
        cut = {row.start for row in rows if row.start < PERIOD["start"] or row.end > PERIOD["end"]}
        assert cut == {PERIOD["start"] - 23 * HOUR, PERIOD["end"] - 22 * HOUR}
        # t01 holds eight cards throughout: an hour before the month's first and two after its last are not in it.
        hours = hours_of(rows)
        hours["t01", "H100", ""] -= 8 * (23 + 2)
        hours["t02", "H100", ""] -= 1
        assert hours == by_hand()
    else:
        assert hours_of(rows) == by_hand()


def test_a_month_is_what_its_statements_say(period: BillingPeriod) -> None:
    fill_use(period)
    rows = ask("month", ["team"])
    assert {(row.start, row.end) for row in rows} == {(PERIOD["start"], PERIOD["end"])}
    for team in [*Team.objects.all(), None]:
        slug = team.slug if team else None
        told = {
            (row.resource, row.unit): (
                *(row.reserved, row.bridged, row.left_out, row.bound, row.measured, row.held_idle),
            )
            for row in rows
            if row.team == slug
        }
        assert told == {
            (used.resource, used.unit): (
                *(used.reserved, used.bridged, used.left_out, used.bound, used.measured, used.held_idle),
            )
            for used in use_of(period, team)
        }


def test_what_nobody_saw_is_marked_or_beside_it(period: BillingPeriod) -> None:
    expected, rows = golden_month.month()["expected"], ask("month", ["team"])
    for name in ("bridged", "left_out"):
        found = {team: hours for (team, _model, _profile), hours in hours_of(rows, name).items()}
        assert found == {team: Fraction(hours) for team, hours in expected[name]}


def test_hours_of_cards_are_weighed(period: BillingPeriod) -> None:
    rows = ask("month", ["team"])
    for team, model, profile, hours in golden_month.month()["expected"]["equivalent_hours"]:
        (row,) = (r for r in rows if (r.team, r.unit.model, r.unit.profile) == (team, model, profile))
        found = gpu_hours(row.reserved, row.unit.equivalents)
        assert found is not None
        assert abs(Fraction(found) - Fraction(hours)) <= Fraction(1, 2 * 10**9)


@pytest.mark.parametrize("key", KEYS)
def test_every_key_keeps_the_sums_of_the_month(period: BillingPeriod, key: str) -> None:
    by_kind: defaultdict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for (_team, model, profile), hours in by_hand().items():
        by_kind[model, profile] += hours
    found: defaultdict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for row in ask("month", [key]):
        found[row.unit.model, row.unit.profile] += Fraction(row.reserved) / 3600
    assert found == by_kind


def test_bounds_of_months_are_the_stored_ones_and_those_of_the_zone_beyond(db: None, settings: Any) -> None:
    filled(settings)
    keep_periods(LATER)
    settings.BILLING_ZONE = "UTC"
    assert month_bounds(MARCH) == [PERIOD["start"], PERIOD["end"]]
    early = Window(golden_month.FIRST.replace(year=2025), golden_month.FIRST.replace(year=2025, day=3))
    assert month_bounds(early) == [early.start, early.start.replace(month=2)]
