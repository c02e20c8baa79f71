"""Budgets of teams: what is planned for a month and how it stands. Input: rows of budgets and the kept totals of a period;
output: `TeamBudget`s for pages, REST and messages, and what is wrong with a budget that somebody gives.

Invariants: of a team's budgets the one that began last holds, until its last month is over; how it stands is computed by
`budget` alone, from what the statements come to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import Prefetch
from django.utils.translation import gettext as _

from apps.accounts.models import Team
from apps.chargeback.budget import Course, Plan, Standing, standing
from apps.chargeback.models import BillingPeriod, Budget, BudgetCrossing, BudgetNotice
from apps.chargeback.overview import team_totals
from apps.chargeback.periods import Month
from apps.chargeback.rate_cards import currencies_of
from apps.chargeback.statements import lines_model
from apps.core.money import CurrencyError, minor_digits, round_money

HIGHEST_PERCENT = 1000


@dataclass(frozen=True, slots=True)
class TeamBudget:
    """A team's budget of one month."""

    team: Team
    period: BillingPeriod
    standing: Standing


@dataclass(frozen=True, slots=True)
class Told:
    """A threshold that was crossed and what became of the messages about it, of which there may be none. `failures`: what
    was said of those that nobody took yet, or that were given up."""

    crossing: BudgetCrossing
    sent: int
    waiting: int
    given_up: int
    failures: Sequence[str]


def team_budgets(period: BillingPeriod, *, team_ids: Collection[int] | None) -> list[TeamBudget]:
    """Of the teams that have one in that month, by slug; `team_ids` None: of all. At most two queries."""
    found = _in_force(period.month, team_ids)
    unpriced = _with_unpriced(period, [row.team_id for row in found])
    course = Course(period.starts_at, period.ends_at, period.updated_at)
    return [
        TeamBudget(
            row.team,
            period,
            standing(_plan(row), team_totals(period, row.team), course, at_least=row.team_id in unpriced),
        )
        for row in found
    ]


def team_budget(period: BillingPeriod, team: Team) -> TeamBudget | None:
    return next(iter(team_budgets(period, team_ids=[team.pk])), None)


def told_of(period: BillingPeriod, team: Team) -> list[Told]:
    """The oldest first. Two queries."""
    notices = Prefetch("notices", BudgetNotice.objects.order_by("pk"))
    rows = BudgetCrossing.objects.filter(period=period, team=team).prefetch_related(notices)
    return [_told(row, list(row.notices.all())) for row in rows]


def _told(row: BudgetCrossing, notices: Sequence[BudgetNotice]) -> Told:
    unsent = [one for one in notices if one.sent_at is None]
    waiting = sum(one.next_try_at is not None for one in unsent)
    failures = sorted({one.failure for one in unsent if one.failure})
    return Told(row, len(notices) - len(unsent), waiting, len(unsent) - waiting, failures)


def _in_force(month: str, team_ids: Collection[int] | None) -> list[Budget]:
    begun = Budget.objects.filter(from_month__lte=month).select_related("team")
    if team_ids is not None:
        begun = begun.filter(team_id__in=team_ids)
    latest = begun.order_by("team__slug", "-from_month").distinct("team__slug")
    return [row for row in latest if not row.until_month or row.until_month >= month]


def _plan(row: Budget) -> Plan:
    amount = round_money(row.amount, row.currency)
    return Plan(amount, row.currency, tuple(row.percents), row.forecast_percent)


def _with_unpriced(period: BillingPeriod, team_ids: Collection[int]) -> set[int | None]:
    """Teams some of whose use has no price."""
    if not period.missing.get("unpriced") or not team_ids:
        return set()
    rows = lines_model(period)._default_manager.filter(
        period=period, amount__isnull=True, team_id__in=team_ids
    )
    return set(rows.order_by().values_list("team_id", flat=True).distinct())


def begin_budget(team: Team, *, from_month: str, amount: Decimal, currency: str) -> bool:
    """The first of a team, with the usual thresholds; False: it has one. Raises ValidationError."""
    if Budget.objects.filter(team=team).exists():
        return False
    budget = Budget(team=team, from_month=from_month, amount=amount, currency=currency)
    check(budget)
    budget.save()
    return True


# ---- what somebody gives ---------------------------------------------------------------------------------------------


def check(budget: Budget) -> None:
    """Raises ValidationError, by field, with what is wrong."""
    faults: dict[str, Any] = {
        "amount": amount_fault(budget.amount, budget.currency),
        "currency": currency_fault(budget),
        "until_month": _until_fault(budget),
        "percents": percents_fault(budget.percents),
        "forecast_percent": None
        if budget.forecast_percent is None
        else percents_fault([budget.forecast_percent]),
    }
    for name in ("from_month", "until_month"):
        faults[name] = faults.get(name) or _month_fault(getattr(budget, name))
    wrong = {name: [text] for name, text in faults.items() if text}
    if wrong:
        raise ValidationError(wrong)


def amount_fault(amount: Decimal | None, currency: str) -> str:
    if amount is None:
        return ""
    if amount <= 0:
        return _("A budget is more than 0.")
    try:
        digits = minor_digits(currency)
    except CurrencyError:
        return ""
    if round_money(amount, currency) != amount:
        return _("%(currency)s has %(digits)s decimals.") % {"currency": currency, "digits": digits}
    return ""


def currency_fault(budget: Budget) -> str:
    """It has to be one that something is charged in while the budget holds."""
    try:
        minor_digits(budget.currency)
    except CurrencyError:
        return _("%(currency)s is no currency: give a code such as USD.") % {"currency": budget.currency}
    if not budget.from_month or _month_fault(budget.from_month):
        return ""
    known = currencies_of(_start_of(budget.from_month))
    if known and budget.currency not in known:
        return _(
            "Rate cards of that time are in %(known)s: nothing would ever be spent of a budget in %(currency)s."
        ) % {"known": ", ".join(sorted(known)), "currency": budget.currency}
    return ""


def percents_fault(percents: Sequence[int]) -> str:
    for each in percents:
        if not 1 <= each <= HIGHEST_PERCENT:
            return _("%(percent)s is no threshold: give percents from 1 to %(highest)s.") % {
                "percent": each,
                "highest": HIGHEST_PERCENT,
            }
    for before, after in pairwise(percents):
        if after == before:
            return _("%(percent)s is given twice.") % {"percent": after}
        if after < before:
            return _("Give them from the lowest up: %(after)s stands after %(before)s.") % {
                "after": after,
                "before": before,
            }
    return ""


def _month_fault(text: str) -> str:
    if text:
        try:
            Month.parse(text)
        except ValueError:
            return _("Give a month such as 2026-03.")
    return ""


def _until_fault(budget: Budget) -> str:
    if budget.until_month and budget.until_month < budget.from_month:
        return _("The last month lies before the first.")
    return ""


def _start_of(month: str) -> datetime:
    return Month.parse(month, settings.BILLING_ZONE).start
