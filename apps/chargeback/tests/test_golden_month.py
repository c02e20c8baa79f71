"""Money of the month that was worked out by hand, to the last decimal, and what must hold for any statement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from apps.chargeback.statement import lines
from apps.chargeback.tariff import Applied, Per, Price, Tariff, Use, Version
from apps.core.money import round_parts
from apps.usage.allocation import Interval, clip, intervals
from apps.usage.tests import golden_month

Key = tuple[int, str, str, Decimal, Decimal]


def tariff() -> Tariff:
    rates = golden_month.month()["rates"]
    return Tariff(
        Version(
            id=number,
            valid_from=row["valid_from"],
            currency=rates["currency"],
            prices=tuple(
                Price(
                    place,
                    "reserved",
                    p["model"],
                    Decimal(p["price"]),
                    Per.UNIT,
                    None,
                    p["mode"],
                    p["profile"],
                )
                for place, p in enumerate(row["prices"])
            ),
            borrowed_factor=Decimal(rates["borrowed_factor"]),
            priority_factors={name: Decimal(value) for name, value in rates["priority_factors"].items()},
        )
        for number, row in enumerate(rates["versions"])
    )


def use_of(item: Interval) -> Use:
    unit = item.unit
    return Use(
        *("reserved", item.place.cluster_id, unit.model, unit.sharing_mode, unit.profile),
        *(unit.equivalents, item.priority_class, item.borrowed),
    )


def priced() -> Iterator[tuple[Interval, Applied | None]]:
    """Everything that counts, cut where another version takes over."""
    period, card = golden_month.month()["period"], tariff()
    held = intervals(golden_month.spells(), golden_month.surroundings())
    edges = [period["start"], *card.changes(period["start"], period["end"]), period["end"]]
    for start, end in pairwise(edges):
        version = card.at(start)
        for item in clip(held, start, end):
            if item.seen.counts:
                yield item, version.applied_to(use_of(item)) if version else None


def test_every_line_costs_what_was_worked_out() -> None:
    expected = {
        (golden_month.team_number(team), model, profile, Decimal(price), Decimal(factor)): (
            Fraction(hours),
            Fraction(amount),
        )
        for team, model, profile, price, factor, hours, amount in golden_month.month()["expected"]["lines"]
    }
    hours: defaultdict[Key, Fraction] = defaultdict(Fraction)
    amounts: defaultdict[Key, Fraction] = defaultdict(Fraction)
    for item, applied in priced():
        if applied is not None:
            key = (
                item.team_id or 0,
                item.unit.model,
                item.unit.profile,
                applied.price.amount,
                applied.factor,
            )
            hours[key] += Fraction(item.unit_seconds) / 3600
            amounts[key] += applied.amount(item.unit_seconds)
    assert {key: (hours[key], amounts[key]) for key in hours} == expected


def test_an_unknown_model_has_no_price_and_is_there() -> None:
    unpriced = [
        (item.team_id, item.resource, item.unit_seconds / 3600) for item, found in priced() if not found
    ]
    assert unpriced == [(12, "example.com/npu", Decimal(10))]


def test_every_statement_and_the_month_add_up() -> None:
    by_team: defaultdict[int, list[tuple[str, str, Fraction | None]]] = defaultdict(list)
    for item, applied in priced():
        amount = None if applied is None else applied.amount(item.unit_seconds)
        by_team[item.team_id or 0].append((item.unit.model, "EUR", amount))
    totals = {team: lines(parts)[1] for team, parts in by_team.items()}
    expected = golden_month.month()["expected"]
    assert {f"t{team:02}": str(found["EUR"]) for team, found in totals.items() if found} == expected[
        "statements"
    ]
    assert sum(found.get("EUR", Decimal(0)) for found in totals.values()) == Decimal(expected["total"])


@given(st.lists(st.fractions(min_value=-1000, max_value=1000, max_denominator=9999), max_size=30))
def test_lines_add_up_to_the_rounded_sum(parts: list[Fraction]) -> None:
    found = round_parts(parts, "EUR")
    assert sum(found, Decimal(0)) * 100 == round(sum(parts, Fraction(0)) * 100)
    assert all(abs(Fraction(one) - part) <= Fraction(1, 100) for one, part in zip(found, parts, strict=True))


def test_a_price_of_the_cluster_comes_before_one_of_any_and_the_closer_before_the_wider() -> None:
    def price(number: int, cluster: int | None, mode: str, profile: str) -> Price:
        return Price(number, "reserved", "A100", Decimal(number), Per.UNIT, cluster, mode, profile)

    prices = (
        price(1, None, "", ""),
        price(2, None, "mig", ""),
        price(3, None, "mig", "1g"),
        price(4, 7, "", ""),
    )
    version = Version(1, golden_month.FIRST, "EUR", prices)
    uses = [(1, "mig", "1g"), (1, "mig", "3g"), (1, "exclusive", ""), (7, "mig", "1g")]
    found = [version.applied_to(Use("reserved", c, "A100", mode, prof, None)) for c, mode, prof in uses]
    assert [one.price.id if one else None for one in found] == [3, 2, 1, 4]


def test_a_price_per_card_weighs_the_unit_or_is_none() -> None:
    version = Version(1, golden_month.FIRST, "EUR", (Price(1, "reserved", "A100", Decimal(7), Per.CARD),))
    seventh = version.applied_to(Use("reserved", 1, "A100", "mig", "1g", Fraction(1, 7)))
    assert seventh is not None
    assert seventh.amount(Decimal(3600)) == 1
    assert version.applied_to(Use("reserved", 1, "A100", "mig", "1g", None)) is None
    assert version.applied_to(Use("reserved", 1, "H100", "", "", Fraction(1))) is None
