"""Tables of pools, nodes and pods. Input: rows of apps.capacity; each number leads to the rows behind it."""

from __future__ import annotations

from decimal import Decimal

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.capacity.labels import bucket_label
from apps.capacity.rows import NodePod, NodeRow, PoolRow
from apps.console.links import address, node_url
from apps.core.formats import NOT_APPLICABLE, number_text, percent_text, show_value
from apps.core.gpu import mode_label, unit_label
from apps.core.tables import (
    BarColumn,
    BytesColumn,
    LinkColumn,
    NumberColumn,
    PortalTable,
    QuantitiesColumn,
    RatioColumn,
    TextColumn,
    TimeColumn,
)
from apps.core.templatetags.portal import segments
from apps.usage.devices import DeviceRow


def _pool_url(row: PoolRow, **more: str) -> str:
    return (
        address("capacity", cluster=row.cluster.slug, model=row.model, sharing_mode=row.sharing_mode, **more)
        + "#nodes"
    )


def _pool_note(row: PoolRow) -> str:
    return mode_label(row.sharing_mode)


def held_bar(row: PoolRow | NodeRow) -> SafeString:
    """Held and free on the scale of what is usable; in words where nobody knows what is held."""
    held, free, total = row.held_bound, row.free, row.allocatable
    if held is None or free is None:
        return show_value(None)
    label = gettext("%(held)s held, %(free)s free of %(total)s") % {
        "held": number_text(held),
        "free": number_text(free),
        "total": number_text(total),
    }
    scale = max(total, held, Decimal(1))
    return segments([("f-held", held), ("f-free", max(Decimal(0), free))], scale=scale, label=label)


def _buckets(buckets: dict[str, int]) -> SafeString | str:
    parts = [(number_text(n), bucket_label(name)) for name, n in sorted(buckets.items()) if n]
    return (
        format_html_join(" · ", "<b>{}</b> {}", parts)
        if parts
        else format_html('<span class="v-zero">0</span>')
    )


class PoolTable(PortalTable):
    """Cards are whole cards; held, free, nominal and ceiling are in the pool's unit, which the row names."""

    caption = _("Pools: cards, what of them is usable, and what is promised")
    file_name = "pools"

    model_label = LinkColumn(verbose_name=_("Pool"), url=_pool_url, note=_pool_note, classes="name")
    cluster = TextColumn(verbose_name=_("Cluster"), accessor="cluster__name", hide_small=True)
    sharing_mode = TextColumn(verbose_name=_("Sharing mode"), visible=False)
    bar = BarColumn(
        verbose_name=_("Held and free of allocatable"),
        accessor="held_bound",
        hide_small=True,
    )
    physical_devices = NumberColumn(verbose_name=_("Cards"))
    out_of_use = TextColumn(
        verbose_name=_("Out of use"), accessor="buckets", orderable=False, empty_values=(), hide_small=True
    )
    allocatable = NumberColumn(verbose_name=_("Allocatable"))
    unit = TextColumn(verbose_name=_("Unit"))
    held_bound = NumberColumn(verbose_name=_("Held by pods"), hide_small=True)
    held_reserved = NumberColumn(verbose_name=_("Reserved"), hide_small=True)
    free = NumberColumn(verbose_name=_("Free"))
    nominal = NumberColumn(verbose_name=_("Nominal"), absent=_("none"), hide_small=True)
    allocation_ratio = TextColumn(verbose_name=_("Promised"), classes="num", hide_small=True)
    ceiling = NumberColumn(verbose_name=_("Ceiling"), absent=NOT_APPLICABLE, visible=False)
    nodes = NumberColumn(verbose_name=_("Nodes"), hide_small=True)

    class Meta(PortalTable.Meta):
        empty_text = _("No accelerator was seen on any node.")

    def render_bar(self, record: PoolRow) -> SafeString:
        return held_bar(record)

    def render_held_reserved(self, record: PoolRow) -> SafeString | str:
        """A sum in flavors over several pools is collected, but no pool can claim it."""
        if record.held_reserved is None and record.reserved_known:
            return NOT_APPLICABLE
        return show_value(record.held_reserved)

    def render_out_of_use(self, record: PoolRow) -> SafeString | str:
        return _buckets(dict(record.buckets))

    def value_out_of_use(self, record: PoolRow) -> str:
        return "; ".join(f"{name}={n}" for name, n in sorted(record.buckets.items()) if n)

    def render_unit(self, value: str) -> str:
        return unit_label(value)

    def render_allocation_ratio(self, value: Decimal) -> SafeString | str:
        return (
            format_html('<b class="state-warn">{}</b>', percent_text(value))
            if value > 1
            else percent_text(value)
        )


class NodeTable(PortalTable):
    caption = _("Accelerator nodes, one row per model and sharing mode")
    file_name = "nodes"

    node = LinkColumn(
        verbose_name=_("Node"), url=lambda row: node_url(row.cluster.slug, row.node), classes="name"
    )
    cluster = TextColumn(verbose_name=_("Cluster"), accessor="cluster__name", hide_small=True)
    model_label = TextColumn(verbose_name=_("Model"), classes="nowrap")
    sharing_mode = TextColumn(verbose_name=_("Sharing mode"), hide_small=True)
    bar = BarColumn(
        verbose_name=_("Held and free of allocatable"),
        accessor="held_bound",
        hide_small=True,
    )
    physical_devices = NumberColumn(verbose_name=_("Cards"))
    allocatable = NumberColumn(verbose_name=_("Allocatable"))
    unit = TextColumn(verbose_name=_("Unit"), hide_small=True)
    held_bound = NumberColumn(verbose_name=_("Held"))
    free = NumberColumn(verbose_name=_("Free"))
    state = TextColumn(
        verbose_name=_("Out of use"), accessor="reasons", orderable=False, empty_values=(), classes="mid"
    )
    flavors = TextColumn(verbose_name=_("Flavors"), orderable=False, hide_small=True, empty_values=())

    class Meta(PortalTable.Meta):
        empty_text = _("No node matches.")

    def render_unit(self, value: str) -> str:
        return unit_label(value)

    def render_sharing_mode(self, value: str) -> str:
        return mode_label(value)

    def render_bar(self, record: NodeRow) -> SafeString:
        return held_bar(record)

    def render_state(self, record: NodeRow) -> SafeString | str:
        if not record.reasons:
            return NOT_APPLICABLE
        return format_html_join("; ", "<b>{}</b> {}", ((r.devices, r.label) for r in record.reasons))

    def value_state(self, record: NodeRow) -> str:
        return "; ".join(f"{reason.bucket}={reason.devices}" for reason in record.reasons)

    def render_flavors(self, record: NodeRow) -> str:
        return ", ".join(record.flavors) or gettext("none")

    def value_flavors(self, record: NodeRow) -> str:
        return "; ".join(record.flavors)


class DeviceTable(PortalTable):
    """Devices as their exporter sees them: efficiency, not capacity."""

    caption = _("Devices of this node at their newest sample")
    file_name = "devices"

    device = TextColumn(verbose_name=_("Device"), classes="mono name")
    model = TextColumn(verbose_name=_("Model"), visible=False)
    utilisation_ratio = RatioColumn(verbose_name=_("Utilisation"))
    utilisation_source = TextColumn(verbose_name=_("Measured as"), hide_small=True)
    memory_used_bytes = BytesColumn(verbose_name=_("Memory used"))
    memory_total_bytes = BytesColumn(verbose_name=_("Memory"), hide_small=True)
    power_watts = NumberColumn(verbose_name=_("Power, W"), hide_small=True, places=0)
    pod = TextColumn(verbose_name=_("Pod"), hide_small=True)
    sampled_at = TimeColumn(verbose_name=_("Sampled"), visible=False)

    class Meta(PortalTable.Meta):
        empty_text = _("No fresh sample of this node's devices. Sources says why.")

    def render_device(self, record: DeviceRow) -> str:
        return f"{record.device} / {record.instance}" if record.instance else record.device

    def value_device(self, record: DeviceRow) -> str:
        return self.render_device(record)

    def render_pod(self, record: DeviceRow) -> str:
        return f"{record.namespace}/{record.pod}" if record.namespace else record.pod


class PodTable(PortalTable):
    caption = _("Pods on this node that ask for accelerators")
    file_name = "pods"

    name = TextColumn(verbose_name=_("Pod"), classes="name")
    namespace = TextColumn(verbose_name=_("Namespace"))
    requests = QuantitiesColumn(verbose_name=_("Asks for"), orderable=False)
    phase = TextColumn(verbose_name=_("Phase"))
    queue_name = TextColumn(verbose_name=_("Queue"), hide_small=True)
    owner = TextColumn(verbose_name=_("Belongs to"), accessor="owner_name", hide_small=True)
    bound_at = TimeColumn(verbose_name=_("On this node since"), hide_small=True)

    class Meta(PortalTable.Meta):
        empty_text = _("No pod of your teams runs here.")

    def render_owner(self, record: NodePod) -> str:
        return f"{record.owner_kind} {record.owner_name}".strip()
