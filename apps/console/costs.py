"""`/chargeback/`: what a month cost, by team and model; one team's statement; the hours behind it; and closing a month.

All of it is of whole months and of all clusters: `?cluster=` narrows nothing here. `?period=` chooses the month."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal

from django import forms
from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from apps.accounts.models import Team
from apps.chargeback.budgets import team_budgets
from apps.chargeback.close_words import missing_text, refusal_text
from apps.chargeback.ledger import NotClosable, close
from apps.chargeback.overview import (
    Period,
    TeamCost,
    model_costs,
    models_of,
    period_before,
    period_of,
    periods_shown,
    statement_lines,
    team_costs,
)
from apps.chargeback.permissions import may_close
from apps.chargeback.statements import statement_of
from apps.chargeback.team_use import use_of
from apps.console.access import readable_team_ids, reader, team_or_404
from apps.console.budget_line import budget_line
from apps.console.charts import Chart
from apps.console.cost_tables import LinesTable, ModelCostTable, StatementTable, TeamCostTable
from apps.console.frame import Page
from apps.console.links import address
from apps.console.use_tables import UsedTable, coverage_notes
from apps.core.formats import money_text, quantities_text
from apps.core.tables import table_csv, wants_csv
from apps.fleet.selectors import UNBOUND
from apps.observations.selectors import AsOf, State

MODELS_SHOWN = 5


class CloseForm(forms.Form):
    reason = forms.CharField(label=_("Reason"), required=False, max_length=2000)


def chargeback(request: HttpRequest) -> HttpResponseBase:
    months = periods_shown()
    return _overview(request, months, _chosen(months, request.GET.get("period", "")))


@require_POST
def close_month(request: HttpRequest, month: str) -> HttpResponseBase:
    """Close it and show it; what is in the way is said on the page, with the reason that was typed."""
    period = _period_or_404(month)
    who = reader(request)
    if not may_close(who):
        raise Http404
    form = CloseForm(request.POST)
    if not form.is_valid():
        return _overview(request, periods_shown(), period, form=form)
    try:
        close(period.pk, by=who, reason=form.cleaned_data["reason"], now=timezone.now())
    except NotClosable as error:
        return _overview(request, periods_shown(), period, form=form, refused=refusal_text(error))
    return HttpResponseRedirect(address("chargeback", period=period.month))


def statement(request: HttpRequest, month: str, team: str) -> HttpResponseBase:
    period, owner = _period_or_404(month), _owner(request, team)
    found, before = statement_of(period, owner), period_before(period)
    page = _opened(request, period)
    lines = StatementTable(found.lines)
    models = ModelCostTable(
        model_costs(found, None if before is None else statement_of(before, owner)), prefix="m-"
    )
    held = use_of(period, owner)
    used = UsedTable(held, prefix="u-")
    for name, table in (("lines", lines), ("models", models), ("use", used)):
        if wants_csv(request, name):
            return table_csv(table, request)
    context = {
        "period": period,
        "team": owner,
        "name": owner.name if owner else gettext("no team"),
        "slug": team,
        "before": before,
        "budget": budget_line(period, owner, told=True, everything=page.team_ids is None),
        "totals": _amounts(found.totals),
        "unpriced": quantities_text(found.unpriced) if found.unpriced else "",
        "lines": page.prepare(lines, per_page=200),
        "models": page.prepare(models, per_page=50),
        "used": page.prepare(used, per_page=50),
        "notes": coverage_notes(held),
        "lines_url": address("charges", month, team),
    }
    return page.render("console/statement.html", context, section="chargeback")


def charges(request: HttpRequest, month: str, team: str) -> HttpResponseBase:
    """The single hours behind a statement; `?model=` and `?queue=` narrow them."""
    period, owner = _period_or_404(month), _owner(request, team)
    rows = statement_lines(period, owner)
    wanted = {name: request.GET.get(name, "")[:253] for name in ("model", "queue", "flavor")}
    table = LinesTable(rows.filter(**{name: value for name, value in wanted.items() if value}))
    if wants_csv(request):
        return table_csv(table, request)
    page = _opened(request, period)
    context = {
        "period": period,
        "name": owner.name if owner else gettext("no team"),
        "wanted": wanted,
        "table": page.prepare(table),
        "statement_url": address("statement", month, team),
    }
    return page.render("console/charges.html", context, section="chargeback")


# ---- parts ----------------------------------------------------------------------------------------------------------


def _overview(
    request: HttpRequest,
    months: list[Period],
    period: Period | None,
    *,
    form: CloseForm | None = None,
    refused: str = "",
) -> HttpResponseBase:
    page = _opened(request, period)
    context: dict[str, object] = {"months": months, "period": period, "form": form, "refused": refused}
    if period is not None:
        costs = team_costs(period, team_ids=page.team_ids)
        budgets = {one.team.pk: one.standing for one in team_budgets(period, team_ids=page.team_ids)}
        table = TeamCostTable(
            costs, month=period.month, models=models_of(costs, MODELS_SHOWN), budgets=budgets
        )
        if wants_csv(request, "teams"):
            return table_csv(table, request)
        who = reader(request)
        context |= {
            "teams": page.prepare(table),
            "totals": _amounts(_sums(costs)),
            "missing": missing_text(period.missing) if page.team_ids is None else "",
            "may_close": may_close(who) and not period.is_closed and period.ends_at <= page.now,
            "chart": Chart.of("costs", page),
        }
    return page.render("console/chargeback.html", context, section="chargeback")


def _opened(request: HttpRequest, period: Period | None) -> Page:
    """As of when the period's lines were computed last: it is the portal's own, whatever was read from the clusters since."""
    page = Page.open(request, sources=())
    at = page.now if period is None else period.closed_at or period.updated_at
    return replace(page, as_of=AsOf(observed_at=at, state=State.OK))


def _chosen(months: list[Period], month: str) -> Period | None:
    """The named month; without a name the latest that has lines, else the latest."""
    if month:
        return _period_or_404(month)
    return next((one for one in months if one.entries), months[0] if months else None)


def _period_or_404(month: str) -> Period:
    found = period_of(month)
    if found is None:
        raise Http404
    return found


def _owner(request: HttpRequest, slug: str) -> Team | None:
    """None: what belonged to nobody, for those who read every team."""
    if slug != UNBOUND:
        return team_or_404(request, slug)
    if readable_team_ids(request) is not None:
        raise Http404
    return None


def _sums(costs: Iterable[TeamCost]) -> Mapping[str, Decimal]:
    found: defaultdict[str, Decimal] = defaultdict(Decimal)
    for cost in costs:
        if cost.amount is not None:
            found[cost.currency] += cost.amount
    return found


def _amounts(totals: Mapping[str, Decimal]) -> list[tuple[str, str]]:
    """(amount, currency) to be shown."""
    return [(money_text(amount), currency) for currency, amount in sorted(totals.items())]
