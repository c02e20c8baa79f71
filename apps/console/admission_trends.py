"""`/admissions/over-time/`, `/admissions/wait-times/`, `/admissions/work/`: what kept work from running, how long it waited,
and the work behind a number. The first two read rollups; what waits now is `/admissions/`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cached_property

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
from apps.console.links import window_links, with_query
from apps.core.csv import csv_response
from apps.core.formats import resource_text
from apps.core.tables import CSV_PARAMETER, table_csv, wants_csv
from apps.usage.admission_filters import BlockedForm, BlockedWorkForm
from apps.usage.admission_reading import RolledUp, rolled_up
from apps.usage.blocked import (
    BlockedTable,
    blocked_by_hour_of_week,
    blocked_resources,
    blocked_table,
    blocked_trend,
)
from apps.usage.blocked_work import blocked_work
from apps.usage.filters import WAIT_GROUPS, WaitForm
from apps.usage.outcomes import outcome_table
from apps.usage.shapes import Shape, blocked_shapes, never_fitting
from apps.usage.waits import wait_table

WINDOWS = ("24h", "7d", "30d", "90d", "365d")


def over_time(request: HttpRequest) -> HttpResponseBase:
    page = Page.open(request, sources=WORK)
    form = BlockedForm(request.GET, now=page.now, team_ids=page.team_ids)
    if not form.is_valid():
        named_or_404(form)
        return page.render("console/admissions_over_time.html", {"form": form}, section="admissions")
    shown = _OverTime(page, form)
    if request.GET.get(CSV_PARAMETER) == "csv":
        asked = shown.csv(request.GET.get("table", ""))
        if asked is not None:
            return asked
    return page.render("console/admissions_over_time.html", shown.context(), section="admissions")


class _OverTime:
    """What the page and its tables as CSV show, each worked out when it is asked for."""

    def __init__(self, page: Page, form: BlockedForm) -> None:
        self.page, self.form = page, form
        self.criteria = form.criteria

    @cached_property
    def rolled(self) -> RolledUp:
        return rolled_up(self.criteria)

    @cached_property
    def trend(self) -> TrendTable:
        rows = blocked_trend(
            window=self.form.time_window,
            by=self.form.grouping,
            team_ids=self.page.team_ids,
            criteria=self.criteria,
            rolled=self.rolled,
        )
        return TrendTable(rows, prefix="t-")

    @cached_property
    def outcomes(self) -> OutcomeTable:
        rows = outcome_table(
            window=self.form.time_window, by="queue", team_ids=self.page.team_ids, criteria=self.criteria
        )
        return OutcomeTable(rows, prefix="o-")

    @cached_property
    def waiting(self) -> Sequence[Shape]:
        return blocked_shapes(now=self.page.now, team_ids=self.page.team_ids, criteria=self.criteria)

    @cached_property
    def shapes(self) -> ShapeTable:
        return ShapeTable(self.waiting, prefix="s-")

    @cached_property
    def never(self) -> NeverTable:
        return NeverTable(never_fitting(self.waiting), prefix="n-")

    @cached_property
    def queues(self) -> BlockedTable:
        return blocked_table(
            window=self.form.time_window, team_ids=self.page.team_ids, criteria=self.criteria
        )

    def csv(self, name: str) -> HttpResponseBase | None:
        """The named table; None: there is none of this name."""
        if name == "queues":
            cells = ((c.row, c.column, c.hours) for c in self.queues.cells.values())
            return csv_response("blocked-by-queue", [("cause", "queue", "hours"), *cells])
        attribute = _TABLES.get(name)
        return None if attribute is None else table_csv(getattr(self, attribute), self.page.request)

    def context(self) -> dict[str, object]:
        page, request, criteria = self.page, self.page.request, self.criteria
        window, teams = self.form.time_window, page.team_ids
        week = blocked_by_hour_of_week(window=window, team_ids=teams, criteria=criteria, rolled=self.rolled)
        resources = blocked_resources(window=window, team_ids=teams, criteria=criteria)
        return {
            **_frame(page, self.form, self.rolled),
            "trend": page.prepare(self.trend),
            "outcomes": page.prepare(self.outcomes, per_page=15),
            "shapes": page.prepare(self.shapes, per_page=15),
            "never": page.prepare(self.never, per_page=15),
            "queues": by_queue(self.queues),
            "week": None if week is None else by_week(week),
            "weeks": 0 if week is None else week.weeks,
            "chart": Chart.of("blocked", page),
            "by": self.form.grouping,
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


# `?table=`: what it names of _OverTime.
_TABLES: Mapping[str, str] = {"": "trend", **{name: name for name in ("outcomes", "shapes", "never")}}


def _frame(page: Page, form: BlockedForm | WaitForm, rolled: RolledUp | None = None) -> dict[str, object]:
    request = page.request
    return {
        "form": form,
        "windows": window_links(request, WINDOWS),
        "window": "" if request.GET.get("from") else request.GET.get("window") or form.default_window,
        "span": form.time_window,
        "teams": visible_teams(reader(request)),
        "rolled": rolled or rolled_up(form.criteria),
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
