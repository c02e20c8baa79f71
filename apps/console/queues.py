"""`/queues/`: the cohort trees and Volcano's hierarchy with their quota, opened as far as the reader opens them.

Without a filter that narrows queues the page is the tree: roots with sums, each opened by its link (`open=` in the
address) or, with a script, in place (`part=` answers the lines below one node). With one it is a list of what
matches, in the order of the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from django.core.paginator import Page as Slice
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils.safestring import SafeString
from django.views.decorators.gzip import gzip_page

from apps.accounts.selectors import visible_teams
from apps.console.access import reader
from apps.console.frame import QUOTA, Page
from apps.console.links import address, finding_url, with_query
from apps.console.queue_tree import (
    LINES_OPEN,
    Amounts,
    View,
    Writer,
    below,
    default_open,
    list_lines,
    node_key,
    totals,
    tree_lines,
    tree_totals,
)
from apps.console.quota_table import QuotaTable
from apps.core.tables import table_csv, wants_csv
from apps.findings.selectors import worst_of_queues
from apps.quotas.filters import QueueFilterForm, flat
from apps.quotas.rows import QueueNode, QuotaRow
from apps.quotas.selectors import queue_forest

PER_PAGE = 60
SYSTEMS = ("kueue", "volcano")
OWN_PARAMETERS = ("open", "part", "page", "format", "table", "attention")
FINDINGS_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Panel:
    """One system's part of the page. `sums`: of all its queues, also those on other pages."""

    system: str
    rows: SafeString
    slice: Slice[QueueNode]
    sums: list[Amounts]


@gzip_page
def queues(request: HttpRequest) -> HttpResponseBase:
    page = Page.open(request, sources=QUOTA)
    form = QueueFilterForm(request.GET, now=page.now, team_ids=page.team_ids)
    forest: list[QueueNode] = []
    if form.is_valid():
        forest = queue_forest(now=page.now, clusters=page.clusters, team_ids=form.narrowed_team_ids())
    if wants_csv(request):
        found = form.narrowed_nodes(forest) if form.is_valid() else []
        return table_csv(QuotaTable([row for _depth, node in found for row in node.rows]), request)
    if request.GET.get("attention"):
        return _attention(page)
    if part := request.GET.get("part"):
        return _part(page, form, forest, part)
    panels, count = _list(page, form, forest) if form.is_valid() and form.lists else _tree(page, form, forest)
    named = form.fields.keys() - {"cluster"}
    context = {
        "form": form,
        "attention_url": address("queues", cluster=page.cluster_slug, attention="1"),
        "findings_url": address("findings", area="quota", cluster=page.cluster_slug),
        "panels": panels,
        "count": count,
        "teams": visible_teams(reader(request)),
        "listed": form.is_valid() and form.lists,
        "flavors": sorted({row.flavor for root in forest for row in root.rows if row.flavor}),
        "resources": sorted({row.resource for root in forest for row in root.rows}),
        "waiting_url": with_query(request, state="waiting", open="", part=""),
        "narrowed": any(request.GET.get(name) for name in named),
        "unfiltered": urlencode({"cluster": page.cluster_slug}) if page.cluster else "",
    }
    return page.render("console/queues.html", context)


def _attention(page: Page) -> HttpResponse:
    """The worst few of what does not fit together, for a page that is shown already: looking for them takes longer
    than the page itself."""
    worst = worst_of_queues(
        now=page.now, clusters=page.clusters, team_ids=page.team_ids, limit=FINDINGS_SHOWN
    )
    context = {
        "findings": [(one, finding_url(one)) for one in worst],
        "all_url": address("findings", area="quota", cluster=page.cluster_slug),
    }
    return render(page.request, "console/_findings.html", context)


def _roots(form: QueueFilterForm, forest: Sequence[QueueNode]) -> list[QueueNode]:
    if not form.is_valid():
        return []
    system = form.cleaned_data["system"]
    return [node for node in forest if system in ("", node.system)]


def _writer(page: Page, opened: Sequence[str]) -> Writer:
    kept = [
        (key, value)
        for key, values in page.request.GET.lists()
        if key not in OWN_PARAMETERS
        for value in values
        if value
    ]
    return Writer(query=urlencode(kept), opened=opened, many=len(page.clusters) > 1)


def _panels(page: Page, system_nodes: dict[str, list[QueueNode]]) -> list[tuple[str, Slice[QueueNode]]]:
    return [
        (system, Paginator(nodes, PER_PAGE).get_page(page.request.GET.get("page")))
        for system, nodes in system_nodes.items()
        if nodes
    ]


def _by_system(nodes: Sequence[QueueNode]) -> dict[str, list[QueueNode]]:
    return {system: [node for node in nodes if node.system == system] for system in SYSTEMS}


def _tree(page: Page, form: QueueFilterForm, forest: list[QueueNode]) -> tuple[list[Panel], int]:
    roots = _roots(form, forest)
    asked = page.request.GET.getlist("open")
    view = View(form.rows_of, _by_flavor(page, flat(roots), form.rows_of))
    by_system = _by_system(roots)
    panels = []
    for system, piece in _panels(page, by_system):
        shown = list(piece.object_list)
        opened = asked or sorted(default_open(shown, view)) or ["-"]
        lines = tree_lines(shown, replace(view, opened=set(opened)), depth=0)
        rows = _writer(page, opened).rows(lines)
        panels.append(Panel(system, rows, piece, tree_totals(by_system[system], view)))
    return panels, sum(1 for _each in flat(roots))


def _list(page: Page, form: QueueFilterForm, forest: list[QueueNode]) -> tuple[list[Panel], int]:
    found = form.narrowed_nodes(forest)
    every = [node for _depth, node in found]
    flavors = _by_flavor(page, found, lambda node: node.rows)
    panels = []
    for system, piece in _panels(page, _by_system(every)):
        lines = list_lines(piece.object_list, flavors=flavors)
        rows = _writer(page, []).rows(lines)
        panels.append(Panel(system, rows, piece, totals(n for n in every if n.system == system)))
    return panels, len(every)


def _by_flavor(
    page: Page, nodes: Iterable[tuple[int, QueueNode]], rows_of: Callable[[QueueNode], Sequence[QuotaRow]]
) -> bool:
    """A line per flavor while that fits on a screen, or where it is asked for; else one per kind of unit."""
    asked = page.request.GET.get("lines", "")
    if asked in ("flavors", "units"):
        return asked == "flavors"
    lines = 0
    for _depth, node in nodes:
        lines += max(1, len(rows_of(node)))
        if lines > LINES_OPEN:
            return False
    return True


def _part(page: Page, form: QueueFilterForm, forest: list[QueueNode], key: str) -> HttpResponse:
    """The lines below one node, for a page that is shown already."""
    roots = _roots(form, forest)
    for depth, node in flat(roots):
        if node_key(node) == key:
            opened = page.request.GET.getlist("open")
            view = View(form.rows_of, _by_flavor(page, flat(roots), form.rows_of), set(opened))
            return HttpResponse(_writer(page, opened).rows(below(node, view, depth=depth + 1)))
    raise Http404
