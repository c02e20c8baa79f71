"""`/capacity/` and `/capacity/nodes/<name>/`: physical → allocatable → committed, per pool and per node."""

from __future__ import annotations

from collections import Counter

from django.http import Http404, HttpRequest, HttpResponseBase
from django.utils.translation import gettext_lazy as _

from apps.capacity.filters import NodeForm
from apps.capacity.notes import readable
from apps.capacity.rows import NodeDetail, NodePod
from apps.capacity.selectors import capacity_and_nodes, node_detail
from apps.console.capacity_tables import DeviceTable, NodeTable, PodTable, PoolTable
from apps.console.charts import STEPS, Chart
from apps.console.frame import FLEET, QUOTA, Page
from apps.console.ladder import ladder
from apps.console.links import with_query
from apps.console.measures import measure_links, measure_of
from apps.console.note_links import note_lines
from apps.core.tables import table_csv, wants_csv
from apps.observations.models import Source
from apps.usage.devices import device_rows, without_others

PODS_UNREAD = _("Pods of this cluster were never read: what runs here is not known.")


def capacity(request: HttpRequest) -> HttpResponseBase:
    page = Page.open(request, sources=(*FLEET, *QUOTA))
    form = NodeForm(request.GET, now=page.now, team_ids=page.team_ids)
    measure = measure_of(request)
    report, rows = capacity_and_nodes(now=page.now, clusters=page.clusters)
    pools = PoolTable(report.pools, prefix="p-", measure=measure)
    found = form.narrowed(rows) if form.is_valid() else []
    typed = any(row.capacity_type for row in rows)
    nodes = NodeTable(found, prefix="n-", measure=measure, typed=typed)
    for name, table in (("pools", pools), ("nodes", nodes)):
        if wants_csv(request, name):
            return table_csv(table, request)
    step = request.GET.get("step", "")
    pool = {name: form.cleaned_data.get(name, "") for name in ("model", "sharing_mode")}
    context = {
        "report": report,
        "ladder": ladder(report.totals),
        "notes": note_lines(readable(report.notes, every_team=page.team_ids is None)),
        "form": form,
        "measure": measure,
        "measures": measure_links(request),
        "pools": page.prepare(pools, per_page=100),
        "nodes": page.prepare(nodes),
        "models": sorted({(row.model, row.model_label) for row in report.pools}),
        "shown_buckets": [bucket for bucket, n in report.totals.buckets.items() if n],
        "filtered": any(request.GET.get(name) for name in form.fields if name != "cluster"),
        "charts": [
            Chart.of(name, page, bucket=step, **pool) for name in ("capacity-trend", "allocation-ratio")
        ],
        "buckets": [(key, with_query(request, step=key) + "#trend", key == step) for key in STEPS],
    }
    return page.render("console/capacity.html", context)


def node(request: HttpRequest, name: str) -> HttpResponseBase:
    page = Page.open(request, sources=(*FLEET, Source.DCGM))
    found = _first_node(page, name)
    shown, others = _split_pods(found, page)
    sampled = device_rows(now=page.now, clusters=[found.cluster], node_name=name)
    tables = {
        "pods": PodTable(shown, prefix="p-", **({} if found.pods_read else {"empty_text": PODS_UNREAD})),
        "devices": DeviceTable(without_others(sampled, page.team_ids), prefix="d-"),
    }
    for part, table in tables.items():
        if wants_csv(request, part):
            return table_csv(table, request)
    context = {
        "detail": found,
        "node": found.node,
        **{part: page.prepare(table) for part, table in tables.items()},
        "others": len(others),
        "others_held": sum((Counter(dict(pod.requests)) for pod in others if pod.held), Counter()),
    }
    return page.render("console/node.html", context, section="capacity")


def _first_node(page: Page, name: str) -> NodeDetail:
    for cluster in page.clusters:
        found = node_detail(now=page.now, name=name, cluster=cluster)
        if found is not None:
            return found
    raise Http404


def _split_pods(detail: NodeDetail, page: Page) -> tuple[list[NodePod], list[NodePod]]:
    """The pods that the reader may see, and the others, of which only their number is shown."""
    ids = page.team_ids
    shown = [pod for pod in detail.pods if ids is None or pod.team_id in ids]
    return shown, [pod for pod in detail.pods if ids is not None and pod.team_id not in ids]
