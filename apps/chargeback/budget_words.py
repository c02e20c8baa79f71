"""How a budget stands, in words, for pages and messages. Input: its figures, or the payload of a message; output: text in the
language in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.utils import translation
from django.utils.translation import gettext as _

from apps.chargeback.budget import Measure
from apps.core.formats import labelled, listed, money_text


def spent_text(*, percent: int, amount: Decimal, currency: str, at_least: bool) -> str:
    """ "spent 61 % of 12,000.00 USD"."""
    if at_least:
        text = _(
            "spent at least %(percent)s %% of %(amount)s %(currency)s, since some of the use has no price"
        )
    else:
        text = _("spent %(percent)s %% of %(amount)s %(currency)s")
    return text % {"percent": percent, "amount": money_text(amount), "currency": currency}


def pace_text(percent: int | None) -> str:
    """ "" without a forecast."""
    if percent is None:
        return ""
    return _("at this pace %(percent)s %% by the month's end") % {"percent": percent}


def budget_text(
    *, percent: int, amount: Decimal, currency: str, at_least: bool, forecast_percent: int | None
) -> str:
    spent = spent_text(percent=percent, amount=amount, currency=currency, at_least=at_least)
    pace = pace_text(forecast_percent)
    return _("%(spent)s; %(pace)s") % {"spent": spent, "pace": pace} if pace else spent


def threshold_text(measure: str, percent: int) -> str:
    if measure == Measure.FORECAST:
        return _("%(percent)s %% at the present pace") % {"percent": percent}
    return _("%(percent)s %% spent") % {"percent": percent}


def elsewhere_text(elsewhere: Mapping[str, Decimal]) -> str:
    """What is not of the budget's currency; "" where there is none."""
    if not elsewhere:
        return ""
    parts = [f"{money_text(amount)} {currency}" for currency, amount in sorted(elsewhere.items())]
    return _("not counted, since the budget is in another currency: %(amounts)s") % {"amounts": listed(parts)}


# ---- e-mails ---------------------------------------------------------------------------------------------------------


def subject_of(payload: Mapping[str, Any]) -> str:
    text = _("Budget of %(team)s, %(month)s: %(reached)s")
    said = {"team": payload["team"], "month": payload["period"], "reached": _reached(payload["thresholds"])}
    return " ".join((text % said).split())[:200]


def body_of(payload: Mapping[str, Any]) -> str:
    """In the portal's language and below in the others: nobody's language is known to it."""
    languages = [settings.LANGUAGE_CODE, *(code for code, _name in settings.LANGUAGES)]
    parts = []
    for code in dict.fromkeys(languages):
        with translation.override(code):
            parts.append(_body(payload))
    return "\n\n----\n\n".join([*parts, f"{settings.PUBLIC_URL}{payload['path']}\n"])


def _body(payload: Mapping[str, Any]) -> str:
    stands = budget_text(
        percent=payload["percent"],
        amount=Decimal(payload["amount"]),
        currency=payload["currency"],
        at_least=payload["at_least"],
        forecast_percent=payload["forecast_percent"],
    )
    elsewhere = elsewhere_text({code: Decimal(text) for code, text in payload["elsewhere"].items()})
    said = [
        (_("Team"), payload["team"]),
        (_("Month"), payload["period"]),
        (_("Reached"), _reached(payload["thresholds"])),
        (_("Budget"), stands),
        (_("Besides"), elsewhere),
    ]
    return "\n".join(labelled(name, value) for name, value in said if value)


def _reached(thresholds: Sequence[Mapping[str, Any]]) -> str:
    return listed(threshold_text(one["measure"], one["percent"]) for one in thresholds)
