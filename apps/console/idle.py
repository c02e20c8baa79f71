"""`/chargeback/idle/`: what idles, by the queue that could end it, and what there was of each kind of unit."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase

from apps.accounts.selectors import visible_teams
from apps.console.access import named_or_404, reader
from apps.console.frame import FLEET, WORK, Page
from apps.console.idle_tables import IdleTable, SupplyTable
from apps.console.links import window_links
from apps.core.tables import table_csv, wants_csv
from apps.core.windows import Bucket
from apps.usage.idle_filters import IdleForm
from apps.usage.idling import idling
from apps.usage.selectors import computed_until
from apps.usage.supply import supply

WINDOWS = ("24h", "7d", "30d", "90d")
TEMPLATE = "console/idle.html"


def idle(request: HttpRequest) -> HttpResponseBase:
    page = Page.open(request, sources=(*FLEET, *WORK))
    form = IdleForm(request.GET, now=page.now, team_ids=page.team_ids)
    if not form.is_valid():
        named_or_404(form)
        return page.render(TEMPLATE, {"form": form}, section="chargeback")
    span, data = form.time_window.aligned(Bucket.HOUR), form.cleaned_data
    rows = idling(
        window=span, clusters=page.clusters, team_ids=page.team_ids, team=data["team"], queue=data["queue"]
    )
    names = {cluster.pk: cluster for cluster in page.clusters}
    queues = IdleTable(rows)
    kinds = SupplyTable(
        supply(start=span.start, end=span.end, clusters=list(names)), names=names, prefix="s-"
    )
    for name, table in (("", queues), ("supply", kinds)):
        if wants_csv(request, name):
            return table_csv(table, request)
    context = {
        "form": form,
        "span": span,
        "rolled": {"until": computed_until(page.clusters)},
        "queues": page.prepare(queues),
        "kinds": page.prepare(kinds, per_page=50),
        "teams": visible_teams(reader(request)),
        "windows": window_links(request, WINDOWS),
        "window": "" if request.GET.get("from") else request.GET.get("window") or form.default_window,
    }
    return page.render(TEMPLATE, context, section="chargeback")
