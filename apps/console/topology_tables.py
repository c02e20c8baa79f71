"""Tables of room by topology. Input: rows of apps.capacity.topology_rows; the same columns on the page and in CSV."""

from __future__ import annotations

from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.capacity.labels import CAPACITY_TYPES
from apps.capacity.topology import HOSTNAME
from apps.capacity.topology_filters import KINDS
from apps.capacity.topology_rows import DomainRow, FitRow, PlaceRow
from apps.console.links import address, node_url
from apps.core.formats import NOT_APPLICABLE, number_text, show_value
from apps.core.tables import BarColumn, LinkColumn, NumberColumn, PortalTable, RatioColumn, TextColumn
from apps.core.templatetags.portal import segments

SCOPE_LABELS = {
    "node": _("same node"),
    "nvlink": _("same NVLink domain"),
    "rack": _("same rack"),
    "block": _("same block"),
}
_KIND_LABELS = dict(KINDS)


def _pool_url(row: FitRow | DomainRow) -> str:
    found = address("capacity", cluster=row.cluster.slug, model=row.model, sharing_mode=row.sharing_mode)
    return f"{found}#nodes"


def _bought(row: FitRow | DomainRow | PlaceRow) -> str:
    return str(CAPACITY_TYPES.get(row.capacity_type, row.capacity_type))


class JobsColumn(NumberColumn):
    """How many jobs fit; "–" where that is not known, which the row's scope says in words."""

    def __init__(self, size: int, **kwargs: Any) -> None:
        super().__init__(
            verbose_name=f"k = {size}",
            accessor=f"fits__{size}",
            absent=NOT_APPLICABLE,
            classes="nowrap",
            **kwargs,
        )


def _scope_note(row: FitRow) -> str:
    if not row.known:
        return gettext("not known: no topology says it")
    if row.free is None:
        return gettext("not known: pods were never read")
    return row.level


class FitTable(PortalTable):
    caption = _("How many jobs of 1 to 64 whole cards fit now, by how close together their cards must be")
    file_name = "fits"

    model_label = LinkColumn(verbose_name=_("Pool"), url=_pool_url, note=_bought, classes="name")
    cluster = TextColumn(verbose_name=_("Cluster"), accessor="cluster__name", hide_small=True)
    capacity_type = TextColumn(verbose_name=_("Bought as"), visible=False)
    scope = TextColumn(verbose_name=_("All cards in the"), classes="name")
    level = TextColumn(verbose_name=_("Level"), visible=False)
    topology = TextColumn(verbose_name=_("Topology"), visible=False)
    fit_1 = JobsColumn(1)
    fit_2 = JobsColumn(2)
    fit_4 = JobsColumn(4)
    fit_8 = JobsColumn(8)
    fit_16 = JobsColumn(16)
    fit_32 = JobsColumn(32)
    fit_64 = JobsColumn(64)
    largest_free = NumberColumn(verbose_name=_("Largest free block"), absent=NOT_APPLICABLE)
    free = NumberColumn(verbose_name=_("Free"), hide_small=True)
    allocatable = NumberColumn(verbose_name=_("Allocatable"), hide_small=True)
    fragmentation_ratio = RatioColumn(verbose_name=_("Fragmented"), absent=NOT_APPLICABLE, hide_small=True)

    class Meta(PortalTable.Meta):
        empty_text = _("No whole card was seen on any node.")

    def render_scope(self, record: FitRow) -> SafeString:
        label = SCOPE_LABELS[record.scope]
        note = _scope_note(record)
        return (
            format_html('{}<br><span class="muted">{}</span>', label, note)
            if note
            else format_html("{}", label)
        )

    def value_scope(self, record: FitRow) -> str:
        return record.scope


class DomainTable(PortalTable):
    caption = _("Domains with their whole cards, each before the domains inside it")
    file_name = "domains"

    domain = TextColumn(verbose_name=_("Domain"), classes="name")
    level = TextColumn(verbose_name=_("Level"), classes="wrap", hide_small=True)
    kind = TextColumn(verbose_name=_("Domains by"), visible=False)
    model_label = LinkColumn(verbose_name=_("Pool"), url=_pool_url, note=_bought)
    cluster = TextColumn(verbose_name=_("Cluster"), accessor="cluster__name", hide_small=True)
    capacity_type = TextColumn(verbose_name=_("Bought as"), visible=False)
    bar = BarColumn(verbose_name=_("Held and free of allocatable"), accessor="held", hide_small=True)
    nodes = NumberColumn(verbose_name=_("Nodes"), hide_small=True)
    allocatable = NumberColumn(verbose_name=_("Allocatable"), hide_small=True)
    held = NumberColumn(verbose_name=_("Held"))
    stranded = NumberColumn(verbose_name=_("Stranded"), visible=False)
    free = NumberColumn(verbose_name=_("Free"))
    largest_free_node = NumberColumn(verbose_name=_("Largest on one node"))
    fit_8 = JobsColumn(8, visible=False)
    fit_16 = JobsColumn(16, visible=False)
    fit_32 = JobsColumn(32, visible=False)
    fit_64 = JobsColumn(64, visible=False)

    class Meta(PortalTable.Meta):
        empty_text = _("No domain matches.")

    def render_domain(self, record: DomainRow) -> SafeString:
        """Indented by its depth; a node leads to its page."""
        if not record.domain:
            name: SafeString | str = gettext("in no domain")
        elif record.level == HOSTNAME and record.node:
            name = format_html('<a href="{}">{}</a>', node_url(record.cluster.slug, record.node), record.name)
        else:
            name = record.name
        return format_html('<div class="indent-{}">{}</div>', min(record.depth, 4), name)

    def value_domain(self, record: DomainRow) -> str:
        return record.domain

    def render_kind(self, value: str) -> str:
        return str(_KIND_LABELS.get(value, value))

    def render_bar(self, record: DomainRow) -> SafeString:
        if record.held is None or record.free is None:
            return show_value(None)
        label = gettext("%(held)s held, %(free)s free of %(total)s") % {
            "held": number_text(record.held),
            "free": number_text(record.free),
            "total": number_text(record.allocatable),
        }
        scale = max(record.allocatable, record.held, 1)
        parts = [("f-held", record.held), ("f-stranded", record.stranded or 0), ("f-free", record.free)]
        return segments(parts, scale=scale, label=label)


def _quiet(text: str) -> SafeString:
    return format_html('<span class="muted">{}</span>', text)


class PlaceTable(PortalTable):
    caption = _("Nodes with accelerators: where they stand, and what connects them")
    file_name = "node-locality"

    node = LinkColumn(
        verbose_name=_("Node"),
        url=lambda row: node_url(row.cluster.slug, row.node),
        note=_bought,
        classes="name",
    )
    cluster = TextColumn(verbose_name=_("Cluster"), accessor="cluster__name", hide_small=True)
    model_labels = TextColumn(verbose_name=_("Model"), hide_small=True)
    capacity_type = TextColumn(verbose_name=_("Bought as"), visible=False)
    domain = TextColumn(verbose_name=_("Domain"), classes="name")
    clique = TextColumn(verbose_name=_("NVLink clique"), classes="name", hide_small=True)
    rdma = TextColumn(verbose_name=_("RDMA"), orderable=False, empty_values=(), classes="name")
    numa = TextColumn(verbose_name=_("Cards by NUMA node"), orderable=False, empty_values=(), hide_small=True)
    pcie = NumberColumn(verbose_name=_("PCIe roots"), orderable=False, hide_small=True)

    class Meta(PortalTable.Meta):
        empty_text = _("No node matches.")

    def render_model_labels(self, value: tuple[str, ...]) -> str:
        return ", ".join(value)

    def value_model_labels(self, record: PlaceRow) -> str:
        return "; ".join(record.model_labels)

    def render_rdma(self, record: PlaceRow) -> SafeString | str:
        if record.rdma:
            return ", ".join(f"{name} × {amount}" for name, amount in record.rdma.items())
        return (
            gettext("a label says so")
            if record.rdma_said
            else format_html('<span class="muted">{}</span>', gettext("none"))
        )

    def value_rdma(self, record: PlaceRow) -> str:
        return "; ".join(f"{name}={amount}" for name, amount in record.rdma.items()) or (
            "label" if record.rdma_said else ""
        )

    def render_numa(self, record: PlaceRow) -> SafeString | str:
        """Only cards that are known by name say where they are."""
        if record.numa:
            return ", ".join(f"{name}: {count}" for name, count in record.numa.items())
        return gettext("several NUMA nodes") if record.numa_said else _quiet(gettext("not said"))

    def value_numa(self, record: PlaceRow) -> str:
        return "; ".join(f"{name}={count}" for name, count in record.numa.items()) or (
            "several" if record.numa_said else ""
        )

    def render_pcie(self, value: tuple[str, ...]) -> str | SafeString:
        return number_text(len(value)) if value else _quiet(gettext("not said"))

    def value_pcie(self, record: PlaceRow) -> str:
        return "; ".join(record.pcie)
