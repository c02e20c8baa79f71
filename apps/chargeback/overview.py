"""What a month cost, by team and model, and how that went over the months. Input: a period and whose; output: rows for
pages and CSV. Everything rests on statements; nothing is priced or rounded here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db.models import QuerySet

from apps.accounts.models import Team
from apps.chargeback.models import BillingPeriod, LedgerEntry, ProvisionalLine, RatePrice
from apps.chargeback.statements import Statement, Totals, lines_model, statements
from apps.core.money import round_money

NOBODY = ""
MONTHS_SHOWN = 13
Period = BillingPeriod
ChargeLine = LedgerEntry | ProvisionalLine
BASIS_LABELS: Mapping[str, Any] = dict(RatePrice.Basis.choices)


@dataclass(frozen=True, slots=True)
class TeamCost:
    """One team in one currency. `team_id` None, `slug` "": what belonged to nobody. `before`: its total of the period before, None where
    there is no such period. `models`: {model: amount}; `unpriced`: {resource: unit-hours without a price}, which stand in the
    team's first row. `currency` "": nothing of the team has a price."""

    team_id: int | None
    slug: str
    name: str
    currency: str
    amount: Decimal | None
    before: Decimal | None
    models: Mapping[str, Decimal]
    unpriced: Mapping[str, Decimal]

    @property
    def change(self) -> Decimal | None:
        return None if self.before is None or self.amount is None else self.amount - self.before


@dataclass(frozen=True, slots=True)
class ModelCost:
    """One model in one currency. `before`: of the period before, None where there is none; 0 where it was not held."""

    model: str
    currency: str
    amount: Decimal
    before: Decimal | None

    @property
    def change(self) -> Decimal | None:
        return None if self.before is None else self.amount - self.before


@dataclass(frozen=True, slots=True)
class Trend:
    """`amounts`: {team's id, "" for nobody: one amount per period}, those that cost most first, in one currency."""

    periods: Sequence[BillingPeriod]
    currency: str
    amounts: Mapping[str, Sequence[Decimal]]
    names: Mapping[str, str]


def periods_shown() -> list[BillingPeriod]:
    """The latest, newest first."""
    return list(BillingPeriod.objects.order_by("-starts_at")[:MONTHS_SHOWN])


def period_of(month: str) -> BillingPeriod | None:
    """By its month, such as "2026-03"."""
    return BillingPeriod.objects.filter(month=month).first()


def period_before(period: BillingPeriod) -> BillingPeriod | None:
    return BillingPeriod.objects.filter(ends_at__lte=period.starts_at).last()


def team_costs(period: BillingPeriod, *, team_ids: Collection[int] | None) -> list[TeamCost]:
    before = period_before(period)
    found: list[TeamCost] = []
    for statement in statements(period, team_ids=team_ids):
        found += _costs(statement, before)
    return found


def _costs(statement: Statement, before: BillingPeriod | None) -> list[TeamCost]:
    team = statement.team
    earlier = {} if before is None else team_totals(before, team)
    by_model = _by_model(statement)
    currencies = sorted({*statement.totals, *earlier}) or [""]
    return [
        TeamCost(
            team_id=team.pk if team else None,
            slug=statement.slug,
            name=team.name if team else "",
            currency=currency,
            amount=statement.totals.get(currency, Decimal(0) if currency else None),
            before=None
            if before is None or not currency
            else earlier.get(currency, round_money(Decimal(0), currency)),
            models={model: amount for (model, code), amount in by_model.items() if code == currency},
            unpriced=statement.unpriced if place == 0 else {},
        )
        for place, currency in enumerate(currencies)
    ]


def model_costs(statement: Statement, before: Statement | None) -> list[ModelCost]:
    """Most expensive first."""
    now, earlier = _by_model(statement), {} if before is None else _by_model(before)
    found = [
        ModelCost(
            model,
            currency,
            now.get((model, currency), Decimal(0)),
            None if before is None else earlier.get((model, currency), Decimal(0)),
        )
        for model, currency in {*now, *earlier}
    ]
    return sorted(found, key=lambda one: (one.currency, -one.amount, one.model))


def _by_model(statement: Statement) -> dict[tuple[str, str], Decimal]:
    found: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for line in statement.lines:
        if line.amount is not None:
            found[line.charged.model, line.currency] += line.amount
    return dict(found)


def models_of(costs: Sequence[TeamCost], most: int) -> list[str]:
    """The models that cost most, at most so many; amounts of different currencies are not compared in value."""
    sums: defaultdict[str, Decimal] = defaultdict(Decimal)
    for cost in costs:
        for model, amount in cost.models.items():
            sums[model] += amount
    return sorted(sums, key=lambda model: (-sums[model], model))[:most]


def latest_costs(team: Team) -> list[tuple[BillingPeriod, Mapping[str, Decimal]]]:
    """(period, {currency: the team's total}) of the two latest periods that have lines, newest first. One query."""
    periods = BillingPeriod.objects.filter(entries__gt=0).order_by("-starts_at")[:2]
    return [
        (
            period,
            team_totals(period, team),
        )
        for period in periods
    ]


def team_totals(period: BillingPeriod, team: Team | None) -> dict[str, Decimal]:
    """{currency: total of the team's statement, with the currency's digits}, as kept with the period."""
    kept = period.by_team.get(NOBODY if team is None else str(team.pk), {})
    return {code: round_money(Decimal(amount), code) for code, amount in kept.items()}


def cost_trend(*, team_ids: Collection[int] | None) -> Trend:
    """The latest periods, in the currency of the latest that has one. Two queries."""
    periods = list(reversed(periods_shown()))
    shown = [_readable(period, team_ids) for period in periods]
    currencies = [code for sums in shown for totals in sums.values() for code in totals]
    currency = currencies[-1] if currencies else ""
    found: dict[str, list[Decimal]] = {}
    for place, sums in enumerate(shown):
        for team, totals in sums.items():
            amounts = found.setdefault(team, [Decimal(0)] * len(periods))
            amounts[place] = Decimal(totals.get(currency, "0"))
    names = dict(Team.objects.filter(pk__in=[int(team) for team in found if team]).values_list("pk", "name"))
    ordered = sorted(found.items(), key=lambda pair: (-sum(pair[1]), pair[0]))
    return Trend(periods, currency, dict(ordered), {str(pk): name for pk, name in names.items()})


def _readable(period: BillingPeriod, team_ids: Collection[int] | None) -> Totals:
    return {
        team: totals
        for team, totals in period.by_team.items()
        if team_ids is None or (team and int(team) in team_ids)
    }


def statement_lines(
    period: BillingPeriod, team: Team | None
) -> QuerySet[LedgerEntry] | QuerySet[ProvisionalLine]:
    """The single lines behind one team's statement, in their order."""
    rows = lines_model(period)._default_manager.filter(period=period, team=team)
    return rows.select_related("cluster", "team").order_by("sequence")
