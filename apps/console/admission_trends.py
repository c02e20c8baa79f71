"""`/admissions/over-time/`, `/admissions/wait-times/`, `/admissions/work/`: what kept work from running, how long it waited,
and the work behind a number. The first two read rollups; what waits now is `/admissions/`."""

from __future__ import annotations

from decimal import Decimal

from django.http import HttpRequest, HttpResponseBase
from django.utils.text import capfirst

from apps.accounts.selectors import visible_teams
from apps.admissions.labels import CAUSE_LABELS, LAYER_LABELS
from apps.admissions.sizes import SIZES
from apps.console.access import named_or_404, reader
from apps.console.admission_tables import (
    BlockedWorkTable,
    NeverTable,
    OutcomeTable,
    ShapeTable,
    TrendTable,
    WaitTable,
    by_queue,
    by_week,
)
from apps.console.charts import Chart
from apps.console.frame import WORK, Page
from apps.console.links import with_query
from apps.core.csv import csv_response
from apps.core.formats import resource_text
from apps.core.tables import table_csv, wants_csv
from apps.usage.admission_filters import BlockedForm, BlockedWorkForm
from apps.usage.admission_reading import rolled_up
from apps.usage.blocked import (
    blocked_by_hour_of_week,
    blocked_resources,
    blocked_table,
    blocked_trend,
)
from apps.usage.blocked_work import blocked_work
from apps.usage.filters import WAIT_GROUPS, WaitForm
from apps.usage.outcomes import outcome_table
from apps.usage.shapes import blocked_shapes, never_fitting
from apps.usage.waits import wait_table

WINDOWS = ("24h", "7d", "30d", "90d", "365d")


def over_time(request: HttpRequest) -> HttpResponseBase:
    page = Page.open(request, sources=WORK)
    form = BlockedForm(request.GET, now=page.now, team_ids=page.team_ids)
    if not form.is_valid():
        named_or_404(form)
        return page.render("console/admissions_over_time.html", {"form": form}, section="admissions")
    window, criteria, teams = form.time_window, form.criteria, page.team_ids
    trend = TrendTable(
        blocked_trend(window=window, by=form.grouping, team_ids=teams, criteria=criteria), prefix="t-"
    )
    if wants_csv(request):
        return table_csv(trend, request)
    outcomes = OutcomeTable(
        outcome_table(window=window, by="queue", team_ids=teams, criteria=criteria), prefix="o-"
    )
    if wants_csv(request, "outcomes"):
        return table_csv(outcomes, request)
    waiting = blocked_shapes(now=page.now, team_ids=teams, criteria=criteria)
    shapes = ShapeTable(waiting, prefix="s-")
    if wants_csv(request, "shapes"):
        return table_csv(shapes, request)
    never = NeverTable(never_fitting(waiting), prefix="n-")
    if wants_csv(request, "never"):
        return table_csv(never, request)
    crossed = blocked_table(window=window, team_ids=teams, criteria=criteria)
    if wants_csv(request, "queues"):
        return csv_response(
            "blocked-by-queue",
            [("cause", "queue", "hours"), *((c.row, c.column, c.hours) for c in crossed.cells.values())],
        )
    week = blocked_by_hour_of_week(window=window, team_ids=teams, criteria=criteria)
    resources = blocked_resources(window=window, team_ids=teams, criteria=criteria)
    context = {
        **_frame(page, form),
        "trend": page.prepare(trend),
        "outcomes": page.prepare(outcomes, per_page=15),
        "shapes": page.prepare(shapes, per_page=15),
        "never": page.prepare(never, per_page=15),
        "queues": by_queue(crossed),
        "week": None if week is None else by_week(week),
        "weeks": 0 if week is None else week.weeks,
        "chart": Chart.of("blocked", page),
        "by": form.grouping,
        "groupings": [(key, with_query(request, by=key)) for key in ("cause", "layer", "reason")],
        "resource": criteria.resource,
        "units": [
            ("", with_query(request, resource="")),
            *((name, with_query(request, resource=name)) for name in resources),
        ],
        "unit": resource_text(criteria.resource) if criteria.resource else "",
        "causes": CAUSE_LABELS,
        "layers": LAYER_LABELS,
    }
    return page.render("console/admissions_over_time.html", context, section="admissions")


def _frame(page: Page, form: BlockedForm | WaitForm) -> dict[str, object]:
    request = page.request
    return {
        "form": form,
        "windows": [
            (preset, with_query(request, window=preset, **{"from": "", "to": ""})) for preset in WINDOWS
        ],
        "window": "" if request.GET.get("from") else request.GET.get("window") or form.default_window,
        "span": form.time_window,
        "teams": visible_teams(reader(request)),
        "rolled": rolled_up(form.criteria),
    }


def work(request: HttpRequest) -> HttpResponseBase:
    page = Page.open(request, sources=WORK)
    form = BlockedWorkForm(request.GET, now=page.now, team_ids=page.team_ids)
    if not form.is_valid():
        named_or_404(form)
        return page.render("console/blocked_work.html", {"form": form}, section="admissions")
    rows = blocked_work(now=page.now, window=form.time_window, team_ids=page.team_ids, criteria=form.criteria)
    table = BlockedWorkTable(rows)
    if wants_csv(request):
        return table_csv(table, request)
    chosen = [(name, request.GET[name]) for name in _NARROWING if request.GET.get(name)]
    context = {
        **_frame(page, form),
        "table": page.prepare(table),
        "hours": sum((row.hours for row in rows), Decimal(0)),
        "count": len(rows),
        "unit": resource_text(form.criteria.resource) if form.criteria.resource else "",
        "chosen": [
            (form.fields[name].label, value, with_query(request, **{name: ""})) for name, value in chosen
        ],
    }
    return page.render("console/blocked_work.html", context, section="admissions")


_NARROWING = ("cause", "layer", "reason", "queue", "team", "flavor", "resource")


def wait_times(request: HttpRequest) -> HttpResponseBase:
    page = Page.open(request, sources=WORK)
    form = WaitForm(request.GET, now=page.now, team_ids=page.team_ids)
    if not form.is_valid():
        named_or_404(form)
        return page.render("console/wait_times.html", {"form": form}, section="admissions")
    rows = wait_table(
        now=page.now,
        window=form.time_window,
        by=form.grouping,
        team_ids=page.team_ids,
        criteria=form.criteria,
    )
    table = WaitTable(form.keep(rows))
    if wants_csv(request):
        return table_csv(table, request)
    by, groups = form.grouping, {key: label for key, label in WAIT_GROUPS if key}
    table.columns["label"].column.verbose_name = capfirst(groups[by])
    context = {
        **_frame(page, form),
        "table": page.prepare(table),
        "by": by,
        "groupings": [(key, label, with_query(request, by=key)) for key, label in groups.items()],
        "sizes": SIZES,
    }
    return page.render("console/wait_times.html", context, section="admissions")
