"""`/admissions/`: why work does not start. Counts by reason or cause now and over time, and the waiting work."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase

from apps.accounts.selectors import visible_teams
from apps.admissions.filters import WaitingForm
from apps.admissions.labels import CAUSE_LABELS
from apps.admissions.selectors import reason_counts, waiting
from apps.admissions.unmade import unmade
from apps.console.access import named_or_404, reader
from apps.console.charts import Chart
from apps.console.frame import WORK, Page
from apps.console.links import window_links, with_query
from apps.console.unmade_table import UnmadeTable
from apps.console.waiting_table import WaitingTable
from apps.core.tables import table_csv, wants_csv
from apps.core.windows import PRESETS


def admissions(request: HttpRequest) -> HttpResponseBase:
    page = Page.open(request, sources=WORK)
    form = WaitingForm(request.GET, now=page.now, team_ids=page.team_ids)
    if not form.is_valid():
        named_or_404(form)
        return page.render("console/admissions.html", {"form": form})
    table = WaitingTable(waiting(now=page.now, team_ids=page.team_ids, criteria=form.criteria))
    if wants_csv(request):
        return table_csv(table, request)
    none_made = UnmadeTable(unmade(now=page.now, team_ids=page.team_ids, criteria=form.criteria), prefix="u-")
    if wants_csv(request, "unmade"):
        return table_csv(none_made, request)
    by = form.grouping
    counts = reason_counts(now=page.now, team_ids=page.team_ids, criteria=form.criteria, by=by)
    most = max((count.count for count in counts), default=0)
    context = {
        "form": form,
        "by": by,
        "counts": [(count, with_query(request, **{by: count.key})) for count in counts],
        "most": most,
        "total": sum(count.count for count in counts),
        "table": page.prepare(table),
        "unmade": page.prepare(none_made),
        "chart": Chart.of("reasons", page),
        "windows": window_links(request, PRESETS),
        "groupings": [(key, with_query(request, by=key)) for key in ("reason", "cause")],
        "causes": CAUSE_LABELS,
        "teams": visible_teams(reader(request)),
        "window": request.GET.get("window") or form.default_window,
    }
    return page.render("console/admissions.html", context)
