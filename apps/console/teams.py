"""`/teams/` and `/teams/<slug>/`: how much a team may use now, what holds its work back, what runs."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase

from apps.accounts.models import Team
from apps.admissions.filters import WaitingForm
from apps.admissions.selectors import waiting
from apps.admissions.work import recently_finished, running
from apps.console.access import team_or_404
from apps.console.frame import QUOTA, WORK, Page
from apps.console.quota_table import QuotaTable
from apps.console.team_rows import team_table
from apps.console.waiting_table import WaitingTable
from apps.console.work_tables import FinishedTable, RunningTable
from apps.core.tables import table_csv, wants_csv
from apps.fleet.selectors import bindings_of_team
from apps.quotas.rows import QuotaRow
from apps.quotas.selectors import quota_rows

LINES_SHOWN = 3


def teams(request: HttpRequest) -> HttpResponseBase:
    page = Page.open(request, sources=QUOTA)
    table = team_table(page, every_unit=True)
    if wants_csv(request):
        return table_csv(table, request)
    return page.render("console/teams.html", {"table": page.prepare(table)})


def team(request: HttpRequest, slug: str) -> HttpResponseBase:
    shown = team_or_404(request, slug)
    page = Page.open(request, sources=WORK)
    form = WaitingForm({**request.GET.dict(), "team": slug}, now=page.now, team_ids=page.team_ids)
    rows = quota_rows(now=page.now, clusters=page.clusters, team_ids=[shown.pk])
    wait = waiting(now=page.now, team_ids=page.team_ids, criteria=form.criteria) if form.is_valid() else []
    tables = {
        "quota": QuotaTable([row for row in rows if row.accelerator and row.matters], prefix="q-"),
        "other": QuotaTable([row for row in rows if not row.accelerator], prefix="o-"),
        "waiting": WaitingTable(wait, prefix="w-", exclude=("team_name",)),
        "running": RunningTable(running(now=page.now, team=shown, clusters=page.clusters), prefix="r-"),
        "finished": FinishedTable(
            recently_finished(now=page.now, team=shown, clusters=page.clusters), prefix="f-"
        ),
    }
    for name, table in tables.items():
        if wants_csv(request, name):
            return table_csv(table, request)
    prepared = {name: page.prepare(table, per_page=10) for name, table in tables.items()}
    bindings = _bindings(shown, page)
    context = {"team": shown, "bindings": bindings, "lines": _telling(rows), "form": form, **prepared}
    return page.render("console/team.html", context, section="teams")


def _bindings(shown: Team, page: Page) -> list[tuple[str, str, list[str]]]:
    """What is bound to the team in the selected clusters, as (cluster, kind, names); the cluster's name only where
    there are several."""
    groups: dict[tuple[str, str], list[str]] = {}
    for binding in bindings_of_team(shown.pk, page.now):
        if binding.cluster in page.clusters:
            name = f"{binding.namespace}/{binding.name}" if binding.namespace else binding.name
            groups.setdefault((binding.cluster.name, binding.get_kind_display()), []).append(name)
    several = len({cluster for cluster, _kind in groups}) > 1
    return [(cluster if several else "", kind, names) for (cluster, kind), names in groups.items()]


def _telling(rows: list[QuotaRow]) -> list[QuotaRow]:
    """The accelerator rows with most held and asked for: those that a lead asks about first."""
    busy = [row for row in rows if row.accelerator and (row.reserved or row.pending)]
    return sorted(busy, key=lambda row: -(row.reserved + row.pending))[:LINES_SHOWN]
