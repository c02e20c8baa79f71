"""`/queues/<cluster>/<kind>/<name>/`: one queue or cohort: its quota, its work, its policy in words, what is wrong.

A LocalQueue is named with `?namespace=`. What the reader may not see is 404, as what does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from django.http import Http404, HttpRequest, HttpResponseBase

from apps.accounts.models import User
from apps.accounts.selectors import visible_teams
from apps.admissions.queue_work import QueueName, holding_in, waiting_in
from apps.console.access import reader
from apps.console.change_form_links import ask_url
from apps.console.change_form_state import asks_for
from apps.console.charts import Chart
from apps.console.frame import WORK, Page
from apps.console.links import address, finding_url, queue_url, with_query
from apps.console.queue_charts import LABELS, window_of
from apps.console.queue_tables import (
    ChildTable,
    EventTable,
    LocalQueueTable,
    QueueQuotaTable,
    VolcanoQuotaTable,
)
from apps.console.waiting_table import WaitingTable
from apps.console.work_tables import RunningTable
from apps.core.tables import PortalTable, table_csv, wants_csv
from apps.findings.selectors import Finding, findings_about
from apps.quotas.policy_words import share_text
from apps.quotas.queue_detail import EVENTS_SHOWN, QueueDetail, queue_detail, queue_events
from apps.quotas.rows import QueueNode, QuotaRow

SIBLINGS_SHOWN = 30


def queue(request: HttpRequest, cluster: str, kind: str, name: str) -> HttpResponseBase:
    page, who = Page.open(request, sources=WORK), reader(request)
    found = _detail(page, cluster, kind, name)
    tables = _tables(page, found, who)
    for key, table in tables.items():
        if wants_csv(request, key):
            return table_csv(table, request)
    node = found.node
    team_ids = node.team_ids if node is not None and kind != "LocalQueue" else ()
    team_ids = team_ids or tuple(row.team_id for row in found.local_queues if row.team_id is not None)
    context = {
        "detail": found,
        "findings": _findings(page, found),
        "node": node,
        "rows": [row for row in node.rows if row.accelerator and row.matters] if node is not None else [],
        "ask_url": ask_url(who, found.cluster, kind, name, namespace=found.namespace, owners=team_ids)
        if found.whole and found.object is not None
        else "",
        "teams": visible_teams(who).filter(pk__in=team_ids),
        "path": [(above, _url(above)) for above in found.path],
        "own_url": _url(node) if node is not None else "",
        "siblings": [(one, _url(one)) for one in found.siblings[:SIBLINGS_SHOWN]],
        "more_siblings": max(0, len(found.siblings) - SIBLINGS_SHOWN),
        "siblings_url": _under(found.path[-1]) if found.path else "",
        "children_url": _under(node) if node is not None and node.children else "",
        "share": share_text(node.weighted_share) if node is not None and _shares(node) else "",
        "sums": _sums(found, tables),
        **_chart(page, found),
        "has_work": "waiting" in tables,
        **{key: page.prepare(table) for key, table in tables.items()},
    }
    return page.render("console/queue.html", context, section="queues")


def _detail(page: Page, cluster: str, kind: str, name: str) -> QueueDetail:
    chosen = next((c for c in page.all_clusters if c.slug == cluster), None)
    found = None
    if chosen is not None:
        found = queue_detail(
            now=page.now,
            cluster=chosen,
            kind=kind,
            name=name,
            namespace=page.request.GET.get("namespace", ""),
            team_ids=page.team_ids,
        )
    if found is None:
        raise Http404
    return found


def _findings(page: Page, found: QueueDetail) -> list[tuple[Finding, str]]:
    if not found.whole:
        return []
    about = findings_about(
        now=page.now,
        cluster=found.cluster,
        kind=found.kind,
        name=found.name,
        namespace=found.namespace,
        team_ids=page.team_ids,
    )
    here = page.request.path
    return [(one, "" if finding_url(one).startswith(here) else finding_url(one)) for one in about]


def _chart(page: Page, found: QueueDetail) -> dict[str, object]:
    """The history of one of its rows: the one that is asked for, else the one of which there is most to say."""
    rows = [
        row for row in (found.node.rows if found.node is not None else ()) if row.accelerator and row.matters
    ]
    if found.kind == "LocalQueue" or not rows:
        return {}
    asked = page.request.GET.get("of", "")
    shown = next((row for row in rows if _cell(row) == asked), None) or max(
        rows, key=lambda row: (row.reserved + row.pending, row.nominal or 0)
    )
    window = window_of(page.request.GET.get("window", ""))
    chart = Chart.of(
        "queue-quota",
        page,
        cluster=found.cluster.slug,
        kind=found.kind,
        queue=found.name,
        flavor=shown.flavor,
        resource=shown.resource,
        window=window,
    )
    return {
        "chart": chart,
        "windows": [(LABELS[key], with_query(page.request, window=key) + "#history") for key in LABELS],
        "window": LABELS[window],
        "of": [
            (row, with_query(page.request, of=_cell(row)) + "#history", row is shown)
            for row in rows
            if len(rows) > 1
        ],
    }


def _cell(row: QuotaRow) -> str:
    return f"{row.flavor}:{row.resource}"


def _url(node: QueueNode) -> str:
    return queue_url(node.cluster.slug, node.kind, node.name)


def _under(node: QueueNode) -> str:
    return address("queues", cluster=node.cluster.slug, under=f"{node.kind}/{node.name}")


def _shares(node: QueueNode) -> bool:
    return node.system == "kueue" and bool(node.parent or node.in_cycle)


def _tables(page: Page, found: QueueDetail, who: User) -> dict[str, PortalTable]:
    node = found.node
    rows = node.rows if node is not None else ()
    numbers = VolcanoQuotaTable if found.kind == "VolcanoQueue" else QueueQuotaTable
    tables: dict[str, PortalTable] = {
        "quota": numbers([row for row in rows if row.accelerator and row.matters], prefix="q-"),
        "other": numbers([row for row in rows if not row.accelerator], prefix="o-"),
    }
    if node is not None and node.children and found.kind != "LocalQueue":
        tables["children"] = ChildTable(node.children, prefix="c-")
    if found.kind == "ClusterQueue":
        tables["localqueues"] = LocalQueueTable(found.local_queues, asks_for=asks_for(who), prefix="l-")
    if found.kind != "Cohort":
        named = QueueName(found.cluster, found.kind, found.name, found.namespace)
        tables["waiting"] = WaitingTable(
            waiting_in(now=page.now, queue=named, team_ids=page.team_ids),
            prefix="w-",
            exclude=("cluster_name",),
        )
        tables["held"] = RunningTable(
            holding_in(now=page.now, queue=named, team_ids=page.team_ids),
            prefix="h-",
            exclude=("cluster_name",),
        )
    if found.object is not None:
        tables["events"] = EventTable(list(queue_events(found)[:EVENTS_SHOWN]), prefix="e-")
    return tables


def _sums(found: QueueDetail, tables: Mapping[str, PortalTable]) -> dict[str, object]:
    """What the listed work holds, and what work that is not listed (of other teams, or not seen) holds beside it."""
    if "held" not in tables:
        return {}
    held = _added(row.devices for row in tables["held"].data)
    waiting = tables["waiting"].total
    if found.node is None or found.kind == "LocalQueue":
        return {"held": held, "waiting": waiting}
    total: dict[str, Decimal] = {}
    for row in found.node.rows:
        if row.accelerator:
            total[row.resource] = total.get(row.resource, Decimal(0)) + row.reserved
    rest = {key: amount - held.get(key, Decimal(0)) for key, amount in total.items()}
    return {
        "held": held,
        "waiting": waiting,
        "held_elsewhere": {key: amount for key, amount in rest.items() if amount > 0},
        "waiting_elsewhere": max(0, found.node.waiting - waiting),
    }


def _added(each: Iterable[Mapping[str, Decimal]]) -> dict[str, Decimal]:
    sums: dict[str, Decimal] = {}
    for amounts in each:
        for key, amount in amounts.items():
            sums[key] = sums.get(key, Decimal(0)) + amount
    return sums
