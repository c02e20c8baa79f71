"""`/capacity/topology/`: which jobs fit where, the domains with what is free in them, and how nodes are connected."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase

from apps.capacity.notes import readable
from apps.capacity.topology_filters import TopologyForm
from apps.capacity.topology_report import topology_report
from apps.console.frame import FLEET, QUOTA, Page
from apps.console.note_links import note_lines
from apps.console.topology_tables import DomainTable, FitTable, PlaceTable
from apps.core.tables import table_csv, wants_csv
from apps.observations.models import Source


def topology(request: HttpRequest) -> HttpResponseBase:
    page = Page.open(request, sources=(*FLEET, Source.DEVICES, *QUOTA))
    form = TopologyForm(request.GET, now=page.now, team_ids=page.team_ids)
    valid = form.is_valid()
    report = topology_report(now=page.now, clusters=page.clusters, pod=form.pod_size if valid else 1)
    fits = FitTable(form.narrowed_fits(report.fits) if valid else [], prefix="f-")
    domains = DomainTable(form.narrowed_domains(report.domains) if valid else [], prefix="d-")
    nodes = PlaceTable(form.narrowed_nodes(report.nodes) if valid else [], prefix="n-")
    for name, table in (("fits", fits), ("domains", domains), ("nodes", nodes)):
        if wants_csv(request, name):
            return table_csv(table, request)
    context = {
        "report": report,
        "form": form,
        "fits": page.prepare(fits, per_page=100),
        "domains": page.prepare(domains),
        "nodes": page.prepare(nodes, per_page=25),
        "notes": note_lines(readable(report.notes, every_team=page.team_ids is None)),
        "models": sorted({(row.model, row.model_label) for row in report.fits}),
        "levels": sorted({row.level for row in report.domains}),
        "narrowed": any(
            value for key, value in request.GET.items() if key in form.fields and key != "cluster"
        ),
    }
    return page.render("console/topology.html", context, section="capacity")
