"""`/`: what we own, what of it is usable, what we have promised, what is wrong now."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase

from apps.capacity.selectors import capacity_report
from apps.console.charts import Chart
from apps.console.frame import FLEET, QUOTA, Page
from apps.console.ladder import ladder
from apps.console.links import address, finding_url
from apps.console.team_rows import team_table
from apps.core.tables import table_csv, wants_csv
from apps.findings.selectors import findings
from apps.observations.models import Source

FINDINGS_SHOWN = 8


def overview(request: HttpRequest) -> HttpResponseBase:
    page = Page.open(request, sources=(*FLEET, Source.DEVICES, *QUOTA))
    table = team_table(page, every_unit=False)
    if wants_csv(request, "teams"):
        return table_csv(table, request)
    report = capacity_report(now=page.now, clusters=page.clusters)
    found = findings(now=page.now, clusters=page.clusters, team_ids=page.team_ids)
    shown = [(finding, finding_url(finding)) for finding in found[:FINDINGS_SHOWN]]
    context = {
        "report": report,
        "ladder": ladder(report.totals),
        "findings": shown,
        "finding_count": len(found),
        "findings_url": address("findings", cluster=page.cluster_slug),
        "table": page.prepare(table, hide=("ceiling",)),
        "chart": Chart.of("capacity", page),
    }
    return page.render("console/overview.html", context)
