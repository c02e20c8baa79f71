"""Telling that a budget's thresholds are crossed. Input: a period whose lines were computed; output: what is newly crossed,
noted, and messages about it.

Invariants
- A threshold is noted once for each team and month: not again after the cost fell and rose, nor after the budget changed.
- What is noted and the messages about it are one transaction, which holds the period's row: of two workers one does it, and
  what a crash prevented is found by the next computation, since it looks at how things stand and not at what moved.
- What a team crosses at once is one message to each: the team's leads and finance by e-mail, and the webhook."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import Q

from apps.accounts.models import Membership, Team, User
from apps.chargeback.budget import Measure, Standing, Threshold
from apps.chargeback.budget_words import body_of, subject_of
from apps.chargeback.budgets import TeamBudget, team_budgets
from apps.chargeback.models import BillingPeriod, BudgetCrossing, BudgetNotice
from apps.core.outgoing import copies
from apps.core.sending import Kind

KIND = Kind(BudgetNotice, subject_of, body_of)
LATELY = timedelta(days=1)
"""For so long the last figures of a month that was closed are looked at: a close computes them once more."""


def note_all_crossed(now: datetime) -> int:
    """Of the months that move, or did lately; returns how many thresholds are newly crossed."""
    moving = BillingPeriod.objects.filter(Q(state=BillingPeriod.State.OPEN) | Q(closed_at__gte=now - LATELY))
    return sum(note_crossed(pk, now=now) for pk in list(moving.values_list("pk", flat=True)))


def note_crossed(period_id: int, *, now: datetime) -> int:
    with transaction.atomic():
        period = BillingPeriod.objects.select_for_update().get(pk=period_id)
        rows = BudgetCrossing.objects.filter(period=period)
        known = set(rows.values_list("team_id", "measure", "percent"))
        noted = 0
        for one in team_budgets(period, team_ids=None):
            fresh = [
                each
                for each in one.standing.crossed
                if (one.team.pk, each.measure.value, each.percent) not in known
            ]
            if fresh:
                _note(one, fresh, now)
                noted += len(fresh)
    return noted


def _note(one: TeamBudget, fresh: Sequence[Threshold], now: datetime) -> None:
    crossings = BudgetCrossing.objects.bulk_create(
        BudgetCrossing(
            team=one.team,
            period=one.period,
            measure=each.measure.value,
            percent=each.percent,
            at=now,
            amount=one.standing.plan.amount,
            cost=_cost(one.standing, each),
            currency=one.standing.plan.currency,
        )
        for each in fresh
    )
    payload = payload_of(one, fresh, number=crossings[0].pk, now=now)
    people = addresses(one.team)
    BudgetNotice.objects.bulk_create(copies(BudgetNotice, payload, people, now=now, crossing=crossings[0]))


def _cost(found: Standing, threshold: Threshold) -> Decimal:
    if threshold.measure is Measure.FORECAST and found.forecast is not None:
        return found.forecast
    return found.spent


def addresses(team: Team) -> list[str]:
    """Of the team's leads and of finance, each once."""
    led = Membership.objects.filter(team=team, role=Membership.Role.LEAD).values("user")
    people = User.objects.filter(Q(pk__in=led) | Q(role=User.Role.FINANCE), is_active=True).exclude(email="")
    return list(dict.fromkeys(people.order_by("pk").values_list("email", flat=True)))


def payload_of(
    one: TeamBudget, thresholds: Sequence[Threshold], *, number: int, now: datetime
) -> dict[str, Any]:
    found = one.standing
    return {
        "id": f"budget-{number}",
        "event": "budget.crossed",
        "at": now.isoformat(),
        "team": one.team.slug,
        "period": one.period.month,
        "thresholds": [{"measure": each.measure.value, "percent": each.percent} for each in thresholds],
        "amount": str(found.plan.amount),
        "currency": found.plan.currency,
        "spent": str(found.spent),
        "percent": found.percent,
        "forecast": None if found.forecast is None else str(found.forecast),
        "forecast_percent": found.forecast_percent,
        "elsewhere": {code: str(amount) for code, amount in found.elsewhere.items()},
        "at_least": found.at_least,
        "path": f"/chargeback/{one.period.month}/{one.team.slug}/",
    }
