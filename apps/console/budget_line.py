"""The line that says how a team's budget stands. Input: a month and a team; output: words, and what the thin meter below them
draws. Words come first: the meter tells nothing that they do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.models import Team
from apps.chargeback.budget import Standing
from apps.chargeback.budget_words import budget_text, elsewhere_text, threshold_text
from apps.chargeback.budgets import Told, team_budget, told_of
from apps.chargeback.overview import Period
from apps.core.formats import listed, money_text, time_text

Parts = Sequence[tuple[str, Decimal]]


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """`parts`, `marks`, `scale`: of the bar. `notes`: further sentences, `troubles` those about messages that did not
    arrive."""

    month: str
    text: str
    over: bool
    parts: Parts
    marks: Parts
    scale: Decimal
    notes: Sequence[str]
    troubles: Sequence[str] = ()


def budget_line(
    period: Period, team: Team | None, *, told: bool = False, everything: bool = False
) -> BudgetLine | None:
    """None: there is no budget. `told`: with the thresholds that were crossed; `everything`: with what went wrong of the
    messages about them."""
    found = None if team is None else team_budget(period, team)
    if found is None or team is None:
        return None
    standing = found.standing
    crossings = told_of(period, team) if told else []
    return BudgetLine(
        month=period.month,
        text=_sentence(standing),
        over=standing.left < 0,
        parts=_parts(standing),
        marks=_marks(standing),
        scale=max(standing.plan.amount, standing.spent, standing.forecast or Decimal(0)),
        notes=_notes(standing, crossings),
        troubles=[text for one in crossings for text in _troubles(one)] if everything else [],
    )


def _sentence(standing: Standing) -> str:
    return budget_text(
        percent=standing.percent,
        amount=standing.plan.amount,
        currency=standing.plan.currency,
        at_least=standing.at_least,
        forecast_percent=standing.forecast_percent,
    )


def _parts(standing: Standing) -> Parts:
    """Up to the budget, and beyond it."""
    within = min(standing.spent, standing.plan.amount)
    return (("f-held", within), ("f-borrowed", max(standing.spent - standing.plan.amount, Decimal(0))))


def _marks(standing: Standing) -> Parts:
    found = [("mark", standing.plan.amount)]
    if standing.forecast is not None:
        found.append(("mark-ceiling", standing.forecast))
    return found


def _notes(standing: Standing, crossings: Sequence[Told]) -> list[str]:
    left = standing.left
    text = _("%(amount)s %(currency)s beyond it") if left < 0 else _("%(amount)s %(currency)s left")
    notes = [text % {"amount": money_text(abs(left)), "currency": standing.plan.currency}]
    notes += [note for note in (elsewhere_text(standing.elsewhere),) if note]
    if crossings:
        notes.append(
            _("reached: %(thresholds)s") % {"thresholds": listed(_crossed(one) for one in crossings)}
        )
    return notes


def _crossed(one: Told) -> str:
    crossing = one.crossing
    return _("%(threshold)s (%(at)s)") % {
        "threshold": threshold_text(crossing.measure, crossing.percent),
        "at": time_text(crossing.at),
    }


def _troubles(one: Told) -> list[str]:
    found = []
    if one.given_up:
        text = ngettext(
            "%(count)s message was given up: %(why)s",
            "%(count)s messages were given up: %(why)s",
            one.given_up,
        )
        found.append(text % {"count": one.given_up, "why": listed(one.failures)})
    elif one.waiting and one.failures:
        text = ngettext(
            "%(count)s message is tried again: %(why)s",
            "%(count)s messages are tried again: %(why)s",
            one.waiting,
        )
        found.append(text % {"count": one.waiting, "why": listed(one.failures)})
    return found
