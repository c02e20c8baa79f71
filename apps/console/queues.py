"""`/queues/` and one queue: the cohort trees and the Volcano hierarchy with their quota numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.http import Http404, HttpRequest, HttpResponseBase

from apps.accounts.selectors import visible_teams
from apps.admissions.selectors import Criteria, waiting
from apps.console.access import reader
from apps.console.frame import QUOTA, WORK, Page
from apps.console.links import queue_url
from apps.console.quota_table import QuotaTable
from apps.console.waiting_table import WaitingTable
from apps.core.tables import table_csv, wants_csv
from apps.quotas.filters import QueueFilterForm, flat
from apps.quotas.rows import QueueNode, QuotaRow
from apps.quotas.selectors import queue_forest


@dataclass(frozen=True, slots=True)
class TreeLine:
    """One row of the tree: the queue (on its first quota row only), the quota row (None: it has none)."""

    depth: int
    node: QueueNode
    row: QuotaRow | None
    first: bool
    url: str


def _lines(nodes: Iterable[tuple[int, QueueNode]]) -> list[TreeLine]:
    lines = []
    for depth, node in nodes:
        url = queue_url(node.cluster.slug, node.kind, node.name)
        rows: list[QuotaRow | None] = [*node.rows] if node.rows else [None]
        lines += [TreeLine(min(depth, 4), node, row, i == 0, url) for i, row in enumerate(rows)]
    return lines


def queues(request: HttpRequest) -> HttpResponseBase:
    page = Page.open(request, sources=QUOTA)
    form = QueueFilterForm(request.GET, now=page.now, team_ids=page.team_ids)
    lines = []
    if form.is_valid():
        forest = queue_forest(now=page.now, clusters=page.clusters, team_ids=form.narrowed_team_ids())
        lines = _lines(form.narrowed_nodes(forest))
    if wants_csv(request):
        return table_csv(QuotaTable([line.row for line in lines if line.row is not None]), request)
    groups = [
        (system, [line for line in lines if line.node.system == system])
        for system in sorted({line.node.system for line in lines})
    ]
    teams = visible_teams(reader(request))
    return page.render(
        "console/queues.html",
        {
            "form": form,
            "groups": groups,
            "teams": teams,
            "count": len({(line.node.cluster.pk, line.node.kind, line.node.name) for line in lines}),
        },
    )


def queue(request: HttpRequest, cluster: str, kind: str, name: str) -> HttpResponseBase:
    page = Page.open(request, sources=WORK)
    chosen = [c for c in page.all_clusters if c.slug == cluster]
    forest = queue_forest(now=page.now, clusters=chosen, team_ids=page.team_ids) if chosen else []
    found = next((node for _depth, node in flat(forest) if (node.kind, node.name) == (kind, name)), None)
    if found is None:
        raise Http404
    criteria = Criteria(cluster=cluster, queue=name)
    wait = [] if kind == "Cohort" else waiting(now=page.now, team_ids=page.team_ids, criteria=criteria)
    tables = {
        "quota": QuotaTable([row for row in found.rows if row.accelerator and row.matters], prefix="q-"),
        "other": QuotaTable([row for row in found.rows if not row.accelerator], prefix="o-"),
        "waiting": WaitingTable(wait, prefix="w-", exclude=("cluster_name",)),
    }
    for key, table in tables.items():
        if wants_csv(request, key):
            return table_csv(table, request)
    teams = visible_teams(reader(request)).filter(pk__in=found.team_ids)
    children = [(node, queue_url(cluster, node.kind, node.name)) for node in found.children]
    prepared = {key: page.prepare(table) for key, table in tables.items()}
    parent = (
        queue_url(cluster, "Cohort" if found.system == "kueue" else "VolcanoQueue", found.parent)
        if found.parent
        else ""
    )
    context = {"node": found, "teams": teams, "children": children, "parent": parent, **prepared}
    return page.render("console/queue.html", context, section="queues")
