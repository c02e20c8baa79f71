"""`/findings/`: everything that needs attention, with filters; the overview shows the worst."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase

from apps.console.access import named_or_404
from apps.console.finding_table import FindingTable
from apps.console.frame import Page
from apps.core.tables import table_csv, wants_csv
from apps.findings.filters import AREAS, SEVERITIES, FindingForm
from apps.findings.selectors import findings as find
from apps.observations.models import Source


def findings(request: HttpRequest) -> HttpResponseBase:
    page = Page.open(request, sources=tuple(Source))
    form = FindingForm(request.GET, now=page.now, team_ids=page.team_ids)
    valid = form.is_valid()
    named_or_404(form)
    found = find(now=page.now, clusters=page.clusters, team_ids=form.narrowed_team_ids()) if valid else []
    shown = form.keep(found) if valid else []
    table = FindingTable(shown)
    if wants_csv(request, "findings"):
        return table_csv(table, request)
    chosen = [(name, request.GET.get(name, "")) for name in ("team", "kind", "name")]
    context = {
        "form": form,
        "severities": SEVERITIES,
        "areas": AREAS,
        "codes": sorted({item.code for item in found}),
        "hidden": [(name, value) for name, value in chosen if value],
        "filtered": any(request.GET.get(name) for name in form.fields if name != "cluster"),
        "found": len(found),
        "table": page.prepare(table),
    }
    return page.render("console/findings.html", context, section="overview")
