"""`/capacity/` and `/capacity/nodes/<name>/`: physical → allocatable → committed, per pool and per node."""

from __future__ import annotations

from collections import Counter

from django.http import Http404, HttpRequest, HttpResponseBase
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from apps.capacity.cards import card_rows, without_others
from apps.capacity.coverage import node_coverage
from apps.capacity.device_objects import device_objects
from apps.capacity.filters import NodeForm
from apps.capacity.notes import readable
from apps.capacity.rows import NodeDetail, NodePod, NodeRow
from apps.capacity.selectors import capacity_and_nodes, node_detail
from apps.capacity.stack_labels import component_label
from apps.capacity.stack_selectors import node_operators, node_stack
from apps.console.capacity_tables import DeviceObjectTable, NodeTable, PodTable, PoolTable
from apps.console.card_table import CardTable
from apps.console.charts import STEPS, Chart
from apps.console.frame import FLEET, QUOTA, Page
from apps.console.ladder import ladder
from apps.console.links import address, with_query
from apps.console.measures import measure_links, measure_of, show_amount, unit_text
from apps.console.note_links import note_lines
from apps.core.formats import NOT_APPLICABLE
from apps.core.tables import table_csv, wants_csv
from apps.findings.selectors import Finding, findings_about_node
from apps.fleet.unregistered import is_rdma
from apps.observations.models import Source

PODS_UNREAD = _("Pods of this cluster were never read: what runs here is not known.")


def capacity(request: HttpRequest) -> HttpResponseBase:
    page = Page.open(request, sources=(*FLEET, Source.DEVICES, *QUOTA))
    form = NodeForm(request.GET, now=page.now, team_ids=page.team_ids)
    measure = measure_of(request)
    report, rows = capacity_and_nodes(now=page.now, clusters=page.clusters, statuses=page.statuses)
    pools = PoolTable(report.pools, prefix="p-", measure=measure)
    found = form.narrowed(rows) if form.is_valid() else []
    nodes = NodeTable(found, prefix="n-", measure=measure, typed=rows.typed)
    for name, table in (("pools", pools), ("nodes", nodes)):
        if wants_csv(request, name):
            return table_csv(table, request)
    step = request.GET.get("step", "")
    filters = [name for name in form.fields if name != "cluster"]
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
        "filtered": any(request.GET.get(name) for name in filters),
        "unfiltered": with_query(request, **dict.fromkeys(filters, "")) + "#nodes",
        "charts": [
            Chart.of(name, page, bucket=step, **pool) for name in ("capacity-trend", "allocation-ratio")
        ],
        "buckets": [(key, with_query(request, step=key) + "#trend", key == step) for key in STEPS],
    }
    return page.render("console/capacity.html", context)


def _node_findings(found: NodeDetail, page: Page) -> list[Finding]:
    return findings_about_node(
        now=page.now,
        cluster=found.cluster,
        name=found.node.name,
        rows=found.rows,
        team_ids=page.team_ids,
    )


def node(request: HttpRequest, name: str) -> HttpResponseBase:
    page = Page.open(request, sources=(*FLEET, Source.DEVICES, Source.DCGM))
    found = _first_node(page, name)
    cluster = found.cluster
    shown, others = _split_pods(found, page)
    cards = card_rows(now=page.now, clusters=[cluster], node=name)
    tables = {
        "cards": CardTable(without_others(cards, page.team_ids), prefix="c-"),
        "pods": PodTable(shown, prefix="p-", **({} if found.pods_read else {"empty_text": PODS_UNREAD})),
        "objects": DeviceObjectTable(
            device_objects(now=page.now, cluster=cluster, node=found.node),
            prefix="o-",
            named=page.team_ids is None,
        ),
    }
    for part, table in tables.items():
        if wants_csv(request, part):
            return table_csv(table, request)
    versions = node_stack(now=page.now, cluster=cluster, node=found.node)
    operators = node_operators(cluster=cluster, vendors={row.vendor for row in found.rows})
    context = {
        "detail": found,
        "node": found.node,
        **{part: page.prepare(table, per_page=100) for part, table in tables.items()},
        "others": len(others),
        "others_held": sum((Counter(dict(pod.requests)) for pod in others if pod.held), Counter()),
        "amounts": [(row, _amount_lines(row)) for row in found.rows],
        "coverage": node_coverage(now=page.now, cluster=cluster, node=name),
        "software": [
            (component_label(row.component), row, _stack_url(cluster.slug, row.component, row.version))
            for row in versions
            if row.version is not None
        ],
        "operators": [(component_label(row.component), row.version) for row in operators],
        "rdma": {key: n for key, n in found.node.allocatable.items() if is_rdma(key) and n != "0"},
        "idle": sum(card.is_idle for card in cards),
        "findings": [(one, "") for one in _node_findings(found, page)],
        "chart": Chart.of("node-utilisation", page, node=name, cluster=cluster.slug),
    }
    return page.render("console/node.html", context, section="capacity")


def _stack_url(cluster: str, component: str, version: str | None) -> str:
    return address("stack", cluster=cluster, component=component, version=version) + "#nodes"


def _amount_lines(row: NodeRow) -> list[tuple[str, list[SafeString | str]]]:
    """(what is counted, physical … stranded) of a node's row: as GPU-equivalents and as memory."""
    lines = []
    for measure in ("equivalents", "memory"):
        found = row.amounts[measure]
        if found.physical is None:
            continue
        numbers = (found.physical, found.allocatable, found.held_bound, found.free, found.stranded)
        said = measure == "memory" and found.held_bound is None and row.held_bound is not None
        lines.append(
            (
                unit_text(found.unit),
                [NOT_APPLICABLE if said and n is None else show_amount(n, found.unit) for n in numbers],
            )
        )
    return lines


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
