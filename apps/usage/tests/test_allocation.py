"""Intervals against the month that was worked out by hand, and what must hold for any month."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from apps.usage.allocation import (
    Basis,
    Interval,
    Owned,
    Place,
    Seen,
    Spell,
    Stretch,
    Surroundings,
    Unit,
    clip,
    gaps_between,
    intervals,
)
from apps.usage.limits import Limit
from apps.usage.tests import golden_month

T0 = datetime(2026, 3, 1, tzinfo=UTC)
D = Decimal


def unit_hours(items: list[Interval]) -> Fraction:
    return sum((Fraction(item.unit_seconds) / 3600 for item in items), Fraction(0))


def of_the_month() -> list[Interval]:
    period = golden_month.month()["period"]
    found = intervals(golden_month.spells(), golden_month.surroundings())
    return clip(found, period["start"], period["end"])


def test_the_period_has_the_hours_that_were_counted() -> None:
    period = golden_month.month()["period"]
    assert (period["end"] - period["start"]) == timedelta(hours=period["hours"])


def test_every_team_held_what_was_worked_out() -> None:
    expected: defaultdict[tuple[int, str, str, bool], Fraction] = defaultdict(Fraction)
    for team, model, profile, _price, factor, hours, _amount in golden_month.month()["expected"]["lines"]:
        borrowed = factor == "1.25"
        expected[golden_month.team_number(team), model, profile, borrowed] += Fraction(hours)
    for team, _resource, hours in golden_month.month()["expected"]["unpriced"]:
        expected[golden_month.team_number(team), "", "", False] += Fraction(hours)
    found: defaultdict[tuple[int | None, str, str, bool], Fraction] = defaultdict(Fraction)
    for item in of_the_month():
        if item.seen.counts:
            found[item.team_id, item.unit.model, item.unit.profile, item.borrowed] += unit_hours([item])
    assert found == expected


def test_what_could_not_be_seen_is_told_apart() -> None:
    for seen, name in ((Seen.BRIDGED, "bridged"), (Seen.LEFT_OUT, "left_out")):
        found = {item.team_id: unit_hours([item]) for item in of_the_month() if item.seen is seen}
        rows = golden_month.month()["expected"][name]
        assert found == {golden_month.team_number(team): Fraction(hours) for team, hours in rows}


def test_parts_of_cards_weigh_what_the_table_says() -> None:
    for team, model, profile, hours in golden_month.month()["expected"]["equivalent_hours"]:
        own = [
            item
            for item in of_the_month()
            if item.team_id == golden_month.team_number(team)
            and (item.unit.model, item.unit.profile) == (model, profile)
        ]
        seconds = sum(
            Fraction((item.end - item.start) // timedelta(microseconds=1)) * (item.gpu_equivalents or 0)
            for item in own
        )
        assert seconds / 3_600_000_000 == Fraction(hours)
    assert {item.gpu_equivalents for item in of_the_month() if item.team_id == 12} == {None}


def test_two_pods_on_one_card_are_flagged_and_the_node_gives_no_more_than_it_has() -> None:
    expected = golden_month.month()["expected"]["pods"]
    found = intervals(golden_month.pod_spells(), golden_month.surroundings())
    for uid, hours in expected["unit_hours"].items():
        assert unit_hours([i for i in found if i.uid == uid and i.seen.counts]) == Fraction(hours)
    beyond = [item for item in found if item.seen is Seen.BEYOND]
    assert {item.uid: unit_hours([item]) for item in beyond} == {
        uid: Fraction(hours) for uid, hours in expected["beyond_the_node"].items()
    }


def test_a_name_used_again_is_other_work() -> None:
    """The same name from 12 to 17 and from 19 to 22 minutes: 5 + 3 minutes of two UIDs, nothing in between."""
    one = _spell("u1", 12, 17, "1")
    found = intervals([one, replace(_spell("u2", 19, 22, "1"), place=one.place)], _around())
    assert [(item.uid, item.unit_seconds) for item in found] == [("u1", D(300)), ("u2", D(180))]


def test_nobody_looked_where_pulls_are_far_apart() -> None:
    pulls = [T0 + timedelta(seconds=at) for at in (60, 0, 120, 240, 240)]
    assert gaps_between(pulls, longest=60) == [Stretch(pulls[2], pulls[3])]
    assert gaps_between(pulls[:1], longest=60) == []


def test_of_what_changed_unseen_the_smaller_counts() -> None:
    """4 before, 6 after, noticed at the end: 4 are sure. 6 before, 4 after: 4 are sure, 2 are left out."""
    around = _around(gaps=[(10, 20)])
    grown = intervals([_spell("u", 0, 20, "4"), _spell("u", 20, 30, "6")], around)
    shrunk = intervals([_spell("u", 0, 20, "6"), _spell("u", 20, 30, "4")], around)
    assert [(i.quantity, i.seen) for i in grown] == [
        (D(4), Seen.OBSERVED),
        (D(4), Seen.BRIDGED),
        (D(6), Seen.OBSERVED),
    ]
    assert {(i.quantity, i.seen) for i in shrunk} == {
        (D(6), Seen.OBSERVED),
        (D(4), Seen.BRIDGED),
        (D(2), Seen.LEFT_OUT),
        (D(4), Seen.OBSERVED),
    }


# ---- any month ------------------------------------------------------------------------------------------------

PLACES = [Place(1, "Workload", "ml", "main", queue) for queue in ("a", "b")]


def _at(minute: int) -> datetime:
    return T0 + timedelta(minutes=minute)


def _spell(uid: str, start: int, end: int, quantity: str, queue: int = 0) -> Spell:
    return Spell(Basis.RESERVED, uid, PLACES[queue], "h", "gpu", D(quantity), _at(start), _at(end), T0)


def _around(gaps: list[tuple[int, int]] | None = None, nominal: str | None = None) -> Surroundings:
    return Surroundings(
        owners={PLACES[0]: [Owned(1, "c", _at(-999), _at(33)), Owned(2, "d", _at(33), _at(999))]},
        units={(Basis.RESERVED, 1, "h", "gpu"): Unit("H", "mig", "1g", Fraction(1, 7))},
        gaps={"Workload": [Stretch(_at(low), _at(high)) for low, high in gaps or []]},
        nominal={} if nominal is None else {(1, "a", "h", "gpu"): [Limit(_at(-999), D(nominal))]},
        node_units={},
    )


@st.composite
def spells_of(draw: st.DrawFn) -> list[Spell]:
    found = []
    for uid in "uvw":
        edges = sorted(draw(st.sets(st.integers(0, 100), max_size=8)))
        for low, high in zip(edges[::2], edges[1::2], strict=False):
            quantity = draw(st.sampled_from(["1", "2.5", "8"]))
            found.append(_spell(uid, low, high, quantity, queue="uvw".index(uid) % 2))
    return found


gap_lists = st.sampled_from([[], [(20, 40)], [(10, 15), (50, 80)]])


@given(spells_of(), gap_lists, st.randoms(), st.sampled_from([None, "0", "3", "8"]))
def test_order_and_repeats_change_nothing(spells, gaps, random, nominal) -> None:  # type: ignore[no-untyped-def]
    around = _around(gaps, nominal)
    again = spells + spells[: len(spells) // 2]
    random.shuffle(again)
    assert intervals(again, around) == intervals(spells, around)


@given(spells_of(), gap_lists, st.data(), st.sampled_from([None, "3"]))
def test_cutting_a_spell_anywhere_changes_nothing(spells, gaps, data, nominal) -> None:  # type: ignore[no-untyped-def]
    around = _around(gaps, nominal)
    cut: list[Spell] = []
    for spell in spells:
        inside = timedelta(microseconds=data.draw(st.integers(0, 60_000_000 * 100)))
        at = min(spell.start + inside, spell.end)
        cut += [replace(spell, end=at), replace(spell, start=at)]
    assert intervals(cut, around) == intervals(spells, around)


@given(spells_of(), gap_lists, st.sampled_from([None, "0", "3", "8"]))
def test_nothing_is_lost_and_nothing_is_added(spells, gaps, nominal) -> None:  # type: ignore[no-untyped-def]
    """Own, borrowed, bridged and left out together are what was held; nobody's is somebody's nowhere."""
    held = sum((D(int((s.end - s.start).total_seconds())) * s.quantity for s in spells), D(0))
    found = intervals(spells, _around(gaps, nominal))
    assert sum((item.unit_seconds for item in found), D(0)) == held
    for minute in range(0, 100, 7):
        own = [i for i in found if i.start <= _at(minute) < i.end and i.place.queue == "a" and i.seen.counts]
        within = sum((i.quantity for i in own if not i.borrowed), D(0))
        total = sum((i.quantity for i in own), D(0))
        assert within == (total if nominal is None else min(total, D(nominal)))
    assert {item.team_id for item in found if item.place.queue == "b"} <= {None}
