"""`/sources/`: which numbers are old or partial, and why. The same for everybody, but for raw text: that may name
hosts, paths and other teams' objects, and is for platform admins."""

from __future__ import annotations

from datetime import timedelta

from django import forms
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext_lazy as _

from apps.capacity.coverage import coverage
from apps.console.access import reader
from apps.console.frame import Page
from apps.console.source_tables import CoverageTable, QuarantineTable, RunTable, SourceTable
from apps.core.tables import table_csv, wants_csv
from apps.observations.models import Outcome, Quarantine, Source
from apps.observations.selectors import quarantined, runs

RUNS_SINCE = timedelta(days=2)


class RunForm(forms.Form):
    source = forms.ChoiceField(label=_("Source"), required=False, choices=[("", _("any")), *Source.choices])
    outcome = forms.ChoiceField(
        label=_("Outcome"), required=False, choices=[("", _("any")), *Outcome.choices]
    )


def sources(request: HttpRequest) -> HttpResponseBase:
    page = Page.open(request, sources=Source.values)
    form = RunForm(request.GET)
    wanted = form.cleaned_data if form.is_valid() else {"source": "", "outcome": ""}
    since = page.now - RUNS_SINCE
    log = runs(clusters=page.clusters, source=wanted["source"] or None, since=since)
    log = log.filter(outcome=wanted["outcome"]) if wanted["outcome"] else log
    raw = reader(request).is_platform_admin
    hidden = () if raw else ("error",)
    tables = {
        "sources": SourceTable(page.as_of.statuses, exclude=hidden),
        "coverage": CoverageTable(coverage(now=page.now, clusters=page.clusters), prefix="c-"),
        "quarantine": QuarantineTable(
            quarantined(clusters=page.clusters), prefix="q-", exclude=() if raw else ("error", "name", "raw")
        ),
        "runs": RunTable(log, prefix="r-", exclude=hidden),
    }
    for name, table in tables.items():
        if wants_csv(request, name):
            return table_csv(table, request)
    prepared = {
        f"{name}_table": page.prepare(table, per_page=100 if name in ("sources", "coverage") else 20)
        for name, table in tables.items()
    }
    return page.render("console/sources.html", {"form": form, "raw": raw, **prepared})


def quarantined_bytes(request: HttpRequest, pk: int) -> HttpResponse:
    """The object as it came, for platform admins; to others it does not exist."""
    if not reader(request).is_platform_admin:
        raise Http404
    found = get_object_or_404(Quarantine, pk=pk)
    response = HttpResponse(bytes(found.raw), content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="quarantine-{pk}.txt"'
    return response
