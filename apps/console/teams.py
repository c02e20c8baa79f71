"""`/teams/` and `/teams/<slug>/`: how much a team may use now, what holds its work back, what runs."""

from __future__ import annotations

from collections.abc import Sequence

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render

from apps.accounts.models import Team
from apps.admissions.filters import WaitingForm
from apps.admissions.queued import QueuedList
from apps.admissions.selectors import WaitingRow, waiting
from apps.admissions.unmade import UnmadeRow, unmade
from apps.admissions.work import Places, recently_finished, running
from apps.chargeback.overview import latest_costs
from apps.console.access import reader, team_or_404
from apps.console.budget_line import budget_line
from apps.console.change_form_links import team_ask_url
from apps.console.cost_tables import totals_text
from apps.console.frame import QUOTA, WORK, Page
from apps.console.links import address, finding_url, with_query
from apps.console.quota_table import QuotaTable
from apps.console.team_rows import team_table
from apps.console.team_tables import BorrowedTable, LentTable, NumbersTable, QueuedTable, TeamQuotaTable
from apps.console.unmade_table import UnmadeTable
from apps.console.work_tables import FinishedTable, RunningTable
from apps.core.tables import PortalTable, table_csv, wants_csv
from apps.findings.selectors import findings
from apps.fleet.selectors import BindingIndex, bindings_of_team
from apps.quotas.team_quota import TeamQuota, offers_of, team_quota
from apps.quotas.volcano_plugin import plugin_text
from apps.usage.start_estimates import wait_history

ROWS_SHOWN = 10
FINDINGS_SHOWN = 3


def teams(request: HttpRequest) -> HttpResponseBase:
    page = Page.open(request, sources=QUOTA)
    table = team_table(page, every_unit=True)
    if wants_csv(request):
        return table_csv(table, request)
    return page.render("console/teams.html", {"table": page.prepare(table)})


def team(request: HttpRequest, slug: str) -> HttpResponseBase:
    shown = team_or_404(request, slug)
    page = Page.open(request, sources=WORK)
    if request.GET.get("attention"):
        return _attention(page, shown)
    form = WaitingForm({**request.GET.dict(), "team": slug}, now=page.now, team_ids=page.team_ids)
    valid = form.is_valid()
    bindings = BindingIndex.load(page.now, clusters=[cluster.pk for cluster in page.clusters])
    found = team_quota(now=page.now, clusters=page.clusters, team_ids=[shown.pk], bindings=bindings)
    tables = {**_quota_tables(page, shown, found), **_work_tables(page, shown, form, found, bindings)}
    for name, table in tables.items():
        if wants_csv(request, name):
            return table_csv(table, request)
    costs = latest_costs(shown)
    context = {
        "team": shown,
        "bindings": _bindings(shown, page),
        "ask_url": team_ask_url(reader(request), shown, page.cluster_slug),
        "costs": [
            (period, totals_text(totals), address("statement", period.month, slug))
            for period, totals in costs
        ],
        "budget": budget_line(costs[0][0], shown) if costs else None,
        "form": form,
        "queue": form.cleaned_data["queue"] if valid else "",
        "attention_url": address("team", slug, cluster=page.cluster_slug, attention="1"),
        "lends": any(row.system == "kueue" for row in found.rows),
        "plugins": [(str(cluster), plugin_text(plugin)) for cluster, plugin in found.plugins],
        "whole_url": with_query(request, queue=""),
        **{name: page.prepare(table, per_page=ROWS_SHOWN) for name, table in tables.items()},
    }
    return page.render("console/team.html", context, section="teams")


def _attention(page: Page, shown: Team) -> HttpResponse:
    """The worst of what concerns the team, for a page that is shown already; what the portal cannot see stands in the
    frame of every page."""
    every = findings(now=page.now, clusters=page.clusters, team_ids=[shown.pk])
    worst = [one for one in every if one.area != "sight"][:FINDINGS_SHOWN]
    context = {
        "findings": [(one, finding_url(one)) for one in worst],
        "all_url": address("findings", team=shown.slug, cluster=page.cluster_slug),
    }
    return render(page.request, "console/_findings.html", context)


def _quota_tables(page: Page, shown: Team, found: TeamQuota) -> dict[str, PortalTable]:
    telling = [row for row in found.rows if row.accelerator and row.matters]
    loans = [loan for loan in found.loans if loan.accelerator]
    return {
        "quota": TeamQuotaTable(telling, team=shown.slug, loans=found.loans, prefix="q-"),
        "numbers": NumbersTable(telling, prefix="n-"),
        "other": QuotaTable([row for row in found.rows if not row.accelerator], prefix="o-"),
        "lent": LentTable([row for row in loans if row.lends([shown.pk])], seen=page.team_ids, prefix="l-"),
        "borrowed": BorrowedTable(
            [row for row in loans if row.borrows([shown.pk])], seen=page.team_ids, prefix="b-"
        ),
    }


def _work_tables(
    page: Page, shown: Team, form: WaitingForm, found: TeamQuota, bindings: BindingIndex
) -> dict[str, PortalTable]:
    wait: Sequence[WaitingRow] = []
    none_made: list[UnmadeRow] = []
    queue = ""
    if form.is_valid():
        queue = form.criteria.queue
        none_made = unmade(now=page.now, team_ids=page.team_ids, criteria=form.criteria)
        every = waiting(now=page.now, team_ids=page.team_ids, criteria=form.criteria, bindings=bindings)
        history = wait_history(now=page.now, queues={(item.cluster_id, item.queue) for item in every.found})
        wait = QueuedList(every, now=page.now, offers=offers_of(found.rows), history=history)
    places = Places(now=page.now, team=shown, clusters=page.clusters, bindings=bindings, queue=queue)
    return {
        "waiting": QueuedTable(wait, prefix="w-", exclude=("team_name",)),
        "unmade": UnmadeTable(none_made, prefix="u-", exclude=("team_name",)),
        "running": RunningTable(running(places), prefix="r-"),
        "finished": FinishedTable(recently_finished(places), prefix="f-"),
    }


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
