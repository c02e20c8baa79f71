"""Statements: what one team held in a period, line by line, rounded once.

Input: a period and whose statements; output: `Statement`s, of a closed period from the ledger and of an open one from its
provisional lines. Invariants
- A line is of one kind of unit at one price and factor; amounts are exact fractions until each line is rounded once, so
  that the lines of a currency add up to the statement's total.
- A period's total is the sum of its statements, that of what belongs to no team included.
- What has no price is a line without an amount and never counted as 0."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from itertools import groupby
from operator import itemgetter
from typing import Any

from django.db import connection

from apps.accounts.models import Team
from apps.chargeback import lines_sql as sql
from apps.chargeback.models import BillingPeriod, LedgerEntry, ProvisionalLine
from apps.chargeback.statement import lines
from apps.core.quantity import plain
from apps.usage.kinds import weight_of

HOUR = 3600
Lines = type[LedgerEntry] | type[ProvisionalLine]


@dataclass(frozen=True, slots=True)
class Charged:
    """What a line is of. `price_per_hour` and `factor` None: unpriced. `weight`: whole cards per unit that the price is
    multiplied by."""

    model: str
    sharing_mode: str
    profile: str
    resource: str
    basis: str
    correction: bool
    price_per_hour: Decimal | None
    factor: Decimal | None
    weight: Fraction | None


@dataclass(frozen=True, slots=True)
class StatementLine:
    """`amount` in whole minor units of `currency`; None and "": unpriced. `entries`: how many lines of the ledger it sums."""

    charged: Charged
    unit_seconds: Decimal
    entries: int
    currency: str
    amount: Decimal | None

    @property
    def unit_hours(self) -> Decimal:
        return self.unit_seconds / HOUR


@dataclass(frozen=True, slots=True)
class Statement:
    """`team` None: what belonged to nobody. `totals`: {currency: sum of the lines}. `unpriced`: {resource: unit-hours}."""

    period: BillingPeriod
    team: Team | None
    lines: Sequence[StatementLine]
    totals: Mapping[str, Decimal]
    unpriced: Mapping[str, Decimal] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        """The team's, of a closed period as it was when that was closed; "" of what belonged to nobody."""
        if self.team is None:
            return ""
        return str(self.period.names.get("teams", {}).get(str(self.team.pk), self.team.slug))


def lines_model(period: BillingPeriod) -> Lines:
    return LedgerEntry if period.is_closed else ProvisionalLine


def statements(period: BillingPeriod, *, team_ids: Collection[int] | None) -> list[Statement]:
    """Those of these teams that have lines, by slug; `team_ids` None: all, the one of nobody last. Two queries."""
    rows = _rows(period, lines_model(period), team_ids)
    teams = Team.objects.in_bulk({row[0] for row in rows if row[0] is not None})
    found = [
        _statement(period, teams.get(team_id), list(group))
        for team_id, group in groupby(rows, key=itemgetter(0))
    ]
    return sorted(found, key=lambda one: (one.team is None, one.slug))


def statement_of(period: BillingPeriod, team: Team | None) -> Statement:
    """One team's, empty where it held nothing; None: what belonged to nobody."""
    rows = _rows(period, lines_model(period), None if team is None else [team.pk])
    return _statement(period, team, [row for row in rows if row[0] == (team and team.pk)])


Totals = dict[str, dict[str, str]]


def totals_by_team(period: BillingPeriod, model: Lines) -> Totals:
    """{team's id as text, "" for nobody: {currency: total of its statement}} of the lines in `model`."""
    found: Totals = {}
    for team_id, group in groupby(_rows(period, model, None), key=itemgetter(0)):
        totals = _statement(period, None, list(group)).totals
        found["" if team_id is None else str(team_id)] = {
            currency: plain(total) for currency, total in totals.items()
        }
    return found


def totals_of(by_team: Totals) -> dict[str, str]:
    """{currency: sum over the teams}."""
    found: defaultdict[str, Decimal] = defaultdict(Decimal)
    for totals in by_team.values():
        for currency, total in totals.items():
            found[currency] += Decimal(total)
    return {currency: plain(total) for currency, total in sorted(found.items())}


def exact_amount(seconds: Decimal, price: Decimal, factor: Decimal, weight: Fraction) -> Fraction:
    return Fraction(seconds) * Fraction(price) * Fraction(factor) * weight / HOUR


Row = tuple[Any, ...]


def _rows(
    period: BillingPeriod,
    model: Lines,
    team_ids: Collection[int] | None,
) -> list[Row]:
    teams = None if team_ids is None else list(team_ids)
    with connection.cursor() as cursor:
        cursor.execute(
            sql.STATEMENT_PARTS.format(lines=model._meta.db_table), {"period": period.pk, "teams": teams}
        )
        found: list[Row] = cursor.fetchall()
        return found


def _statement(period: BillingPeriod, team: Team | None, rows: Sequence[Row]) -> Statement:
    parts, sums = [], {}
    for _team, model, mode, profile, resource, basis, correction, *priced, seconds, entries in rows:
        currency, price, factor, over, under = priced
        weight = weight_of(over, under)
        charged = Charged(model, mode, profile, resource, basis, correction, price, factor, weight)
        exact = None
        if price is not None and factor is not None and weight is not None:
            exact = exact_amount(seconds, price, factor, weight)
        parts.append((charged, currency, exact))
        sums[charged, currency] = (seconds, entries)
    made, totals = lines(parts)
    unpriced: defaultdict[str, Decimal] = defaultdict(Decimal)
    found = []
    for one in made:
        seconds, entries = sums[one.key, one.currency]
        found.append(StatementLine(one.key, seconds, entries, one.currency, one.amount))
        if one.amount is None:
            unpriced[one.key.resource] += seconds / HOUR
    return Statement(period, team, found, totals, dict(unpriced))
