"""`/capacity/stack/`: which versions of driver, CUDA, kernel, kubelet … the nodes run, and which nodes differ."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase

from apps.capacity.filters import StackForm
from apps.capacity.stack_labels import component_label
from apps.capacity.stack_selectors import StackReport, stack_report
from apps.console.frame import Page
from apps.console.stack_tables import NodeVersionTable, StackTable
from apps.core.tables import table_csv, wants_csv
from apps.observations.models import Source

SOURCES = (Source.NODES, Source.DEVICES)


def stack(request: HttpRequest) -> HttpResponseBase:
    page = Page.open(request, sources=SOURCES)
    form = StackForm(request.GET, now=page.now, team_ids=page.team_ids)
    report = stack_report(now=page.now, clusters=page.clusters)
    valid = form.is_valid()
    asked = valid and any(form.cleaned_data[name] for name in ("component", "version", "q"))
    versions = form.narrowed_versions(report.versions) if valid else []
    tables = {
        "versions": StackTable(form.narrowed_rows(report.rows) if valid else [], prefix="v-"),
        # Every node has every component: only what differs, until something is asked for.
        "nodes": NodeVersionTable(versions if asked else [r for r in versions if r.is_outlier], prefix="n-"),
    }
    for name, table in tables.items():
        if wants_csv(request, name):
            return table_csv(table, request)
    context = {
        "report": report,
        "form": form,
        "asked": asked,
        "components": _components(report),
        "versions": page.prepare(tables["versions"], per_page=200),
        "nodes": page.prepare(tables["nodes"]),
    }
    return page.render("console/stack.html", context, section="capacity")


def _components(report: StackReport) -> list[tuple[str, str]]:
    return [(name, component_label(name)) for name in dict.fromkeys(row.component for row in report.rows)]
