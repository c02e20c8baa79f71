"""Tables of pools, nodes and pods. Input: rows of apps.capacity; each number leads to the rows behind it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_lazy as _
from django_tables2 import A

from apps.capacity.device_objects import DeviceObject
from apps.capacity.labels import CAPACITY_TYPES, bucket_label
from apps.capacity.rows import Amounts, NodePod, NodeRow, PoolRow
from apps.console.links import address, node_url
from apps.console.measures import (
    amounts_of,
    capacity_bar,
    linked,
    mode_text,
    show_amount,
    unit_text,
)
from apps.core.formats import NOT_APPLICABLE, number_text, percent_text, show_value
from apps.core.gpu import mode_label, unit_of
from apps.core.tables import (
    BarColumn,
    BytesColumn,
    LinkColumn,
    NumberColumn,
    PortalTable,
    QuantitiesColumn,
    TextColumn,
    TimeColumn,
)

_VOLCANO = ("guarantee", "deserved", "capability")
_ABSENT_QUOTA = frozenset({"nominal", "ceiling", *_VOLCANO})


def _nodes_url(row: PoolRow, **more: str) -> str:
    """The nodes of a pool that add up to one of its numbers."""
    own = {"cluster": row.cluster.slug, "model": row.model, "sharing_mode": row.sharing_mode}
    return address("capacity", **own, **more) + "#nodes"


def _queues_url(row: PoolRow) -> str:
    return address("queues", cluster=row.cluster.slug)


class AmountColumn(TextColumn):
    """A number of `row.amounts` in the table's measure; `url(row, measure)` leads to what adds up to it."""

    classes = ("num",)

    def __init__(self, *args: Any, of: str, url: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, empty_values=(), **kwargs)
        self.of = of
        self.url = url

    def render(self, record: PoolRow | NodeRow, table: MeasuredTable) -> SafeString | str:
        found = amounts_of(record, table.measure)
        amount: Decimal | None = getattr(found, self.of)
        if amount is None:
            return self._absent(record, found)
        shown = show_amount(amount, found.unit)
        return linked(shown, self.url(record, table.measure)) if self.url and amount else shown

    def _absent(self, record: PoolRow | NodeRow, found: Amounts) -> SafeString | str:
        """Not known: not collected. Known, but not to be said in this measure, or in flavors over several pools:
        does not apply. A promise that nobody made is "none"."""
        if found.allocatable is None or found.physical is None:
            return show_value(None) if self.of == "physical" else NOT_APPLICABLE
        if getattr(record.amounts["equivalents"], self.of) is not None:
            return NOT_APPLICABLE
        if self.of in _ABSENT_QUOTA:
            return gettext("none")
        if self.of in ("held_reserved", "held_admitted") and getattr(record, "reserved_known", False):
            return NOT_APPLICABLE
        return show_value(None)


class MeasuredTable(PortalTable):
    """A table whose numbers are all in one measure."""

    def __init__(self, rows: Sequence[Any], *, measure: str = "units", **kwargs: Any) -> None:
        self.measure = measure
        super().__init__(rows, **kwargs)
        for bound in self.columns.iterall():
            if isinstance(bound.column, AmountColumn):
                # Rows of several kinds stand under their equivalents in units, too: the accessor only sorts.
                bound.accessor = A(f"amounts__{measure}__{bound.column.of}")

    def _raw(self, column: Any, record: Any) -> Any:
        if isinstance(column.column, AmountColumn):
            return getattr(amounts_of(record, self.measure), column.column.of)
        return super()._raw(column, record)


def _to_nodes(row: PoolRow, measure: str, **more: str) -> str:
    return _nodes_url(row, measure="" if measure == "units" else measure, **more)


def _state_url(state: str) -> Any:
    return lambda row, measure: _to_nodes(row, measure, state=state)


class PoolTable(MeasuredTable):
    """Cards are whole cards; the other numbers are in the measure: in units of the pool's mode, unless the line
    under its name says otherwise."""

    caption = _("Pools: cards, what of them is usable, and what is promised")
    file_name = "pools"

    model_label = TextColumn(verbose_name=_("Pool"), classes="wide-name")
    cluster = TextColumn(verbose_name=_("Cluster"), accessor="cluster__name", hide_small=True)
    sharing_mode = TextColumn(verbose_name=_("Sharing mode"), visible=False)
    bar = BarColumn(
        verbose_name=_("Held, stranded, free, out of use"),
        accessor="key",
        hide_small=True,
    )
    physical_devices = NumberColumn(verbose_name=_("Cards"))
    out_of_use = TextColumn(verbose_name=_("Out of use"), accessor="buckets", visible=False)
    physical = AmountColumn(verbose_name=_("Physical"), of="physical", url=_to_nodes, visible=False)
    allocatable = AmountColumn(verbose_name=_("Allocatable"), of="allocatable", url=_to_nodes)
    unit = TextColumn(verbose_name=_("Unit"), visible=False)
    held_bound = AmountColumn(
        verbose_name=_("Held"), of="held_bound", url=_state_url("held"), hide_small=True
    )
    free = AmountColumn(verbose_name=_("Free"), of="free", url=_state_url("free"))
    stranded = AmountColumn(
        verbose_name=_("Stranded"), of="stranded", url=_state_url("stranded"), hide_small=True
    )
    nominal = AmountColumn(verbose_name=_("Nominal"), of="nominal", url=lambda row, _m: _queues_url(row))
    allocation_ratio = TextColumn(verbose_name=_("Promised"), classes="num", hide_small=True)
    ceiling = AmountColumn(verbose_name=_("Ceiling"), of="ceiling", visible=False)
    held_reserved = AmountColumn(
        verbose_name=_("Reserved"), of="held_reserved", url=lambda row, _m: _queues_url(row), hide_small=True
    )
    held_admitted = AmountColumn(
        verbose_name=_("Admitted"), of="held_admitted", hide_small=True, visible=False
    )
    volcano = BarColumn(
        verbose_name=_("Volcano guarantee / deserved / capability"),
        accessor="key",
        visible=False,
        attrs={"th": {"class": "volcano hide-s"}, "td": {"class": "nowrap hide-s"}},
    )
    guarantee = AmountColumn(verbose_name=_("Guarantee"), of="guarantee", visible=False)
    deserved = AmountColumn(verbose_name=_("Deserved"), of="deserved", visible=False)
    capability = AmountColumn(verbose_name=_("Capability"), of="capability", visible=False)
    stranded_compute = NumberColumn(
        verbose_name=_("Uncovered compute slices"), accessor="stranded_slices", visible=False
    )
    stranded_memory = NumberColumn(
        verbose_name=_("Uncovered memory slices"), accessor="stranded_slices", visible=False
    )
    nodes = NumberColumn(verbose_name=_("Nodes"), hide_small=True)

    class Meta(PortalTable.Meta):
        empty_text = _("No accelerator was seen on any node.")

    def __init__(self, rows: Sequence[PoolRow], **kwargs: Any) -> None:
        super().__init__(rows, **kwargs)
        if self.measure == "memory":
            self.columns.show("physical")
            self.columns.hide("physical_devices")
        # Columns of what only some clusters have: shown when any row says something there.
        if _said(rows, ("held_admitted",)):
            self.columns.show("held_admitted")
        if _said(rows, _VOLCANO):
            self.columns.show("volcano")

    def render_model_label(self, record: PoolRow, value: str) -> SafeString:
        name = format_html(
            '<a href="{}">{}</a> <span class="soft">{}</span>',
            _to_nodes(record, self.measure),
            value,
            mode_label(record.sharing_mode),
        )
        return format_html(
            "{}{}",
            name,
            format_html_join(
                "", '<br><span class="muted note">{}</span>', ((t,) for t in self._lines(record))
            ),
        )

    def _lines(self, record: PoolRow) -> list[str]:
        unit = amounts_of(record, self.measure).unit
        numbers = gettext("Numbers in %(unit)s.") % {"unit": unit_text(unit)}
        same = unit == unit_of(record.sharing_mode) or self.measure != "units"
        return [text for text in (record.mode_sentence, "" if same else numbers, slices_text(record)) if text]

    def render_physical_devices(self, record: PoolRow, value: int) -> SafeString | str:
        return linked(show_value(value), _to_nodes(record, self.measure)) if value else show_value(value)

    def render_nodes(self, record: PoolRow, value: int) -> SafeString | str:
        return linked(show_value(value), _to_nodes(record, self.measure)) if value else show_value(value)

    def render_bar(self, record: PoolRow) -> SafeString | str:
        parts = [
            (_to_nodes(record, self.measure, bucket=name), number_text(n), bucket_label(name))
            for name, n in record.buckets.items()
            if n
        ]
        words = format_html_join(" · ", '<a href="{}"><b>{}</b> {}</a>', parts)
        under = format_html('<div class="under">{}</div>', words) if parts else ""
        return format_html("{}{}", capacity_bar(record, self.measure), under)

    def render_volcano(self, record: PoolRow) -> SafeString | str:
        found = amounts_of(record, self.measure)
        amounts = [getattr(found, name) for name in _VOLCANO]
        if all(amount is None for amount in amounts):
            return NOT_APPLICABLE
        return format_html_join(
            " / ", "{}", ((NOT_APPLICABLE if a is None else show_amount(a, found.unit),) for a in amounts)
        )

    def value_out_of_use(self, record: PoolRow) -> str:
        return "; ".join(f"{name}={n}" for name, n in record.buckets.items() if n)

    def value_unit(self, record: PoolRow) -> str:
        return amounts_of(record, self.measure).unit

    def value_stranded_compute(self, record: PoolRow) -> int:
        return record.stranded_slices[0]

    def value_stranded_memory(self, record: PoolRow) -> int:
        return record.stranded_slices[1]

    def render_allocation_ratio(self, value: Decimal) -> SafeString | str:
        return (
            format_html('<b class="state-warn">{}</b>', percent_text(value))
            if value > 1
            else percent_text(value)
        )


def _said(rows: Sequence[PoolRow], names: Sequence[str]) -> bool:
    return any(getattr(row.amounts["equivalents"], name) is not None for row in rows for name in names)


def slices_text(row: PoolRow | NodeRow) -> str:
    """Slices of partitioned cards that no instance covers; "" when there are none."""
    compute, memory = row.stranded_slices
    if not compute and not memory:
        return ""
    return gettext("No instance covers %(compute)s compute and %(memory)s memory slices of its cards.") % {
        "compute": number_text(compute),
        "memory": number_text(memory),
    }


class NodeTable(MeasuredTable):
    caption = _("Accelerator nodes, one row per model and sharing mode")
    file_name = "nodes"

    node = LinkColumn(
        verbose_name=_("Node"), url=lambda row: node_url(row.cluster.slug, row.node), classes="name"
    )
    cluster = TextColumn(verbose_name=_("Cluster"), accessor="cluster__name", hide_small=True)
    model_label = TextColumn(verbose_name=_("Model"), classes="nowrap")
    sharing_mode = TextColumn(verbose_name=_("Sharing mode"), hide_small=True)
    bar = BarColumn(verbose_name=_("Held, stranded, free, out of use"), accessor="node", hide_small=True)
    physical_devices = NumberColumn(verbose_name=_("Cards"))
    physical = AmountColumn(verbose_name=_("Physical"), of="physical", visible=False)
    allocatable = AmountColumn(verbose_name=_("Allocatable"), of="allocatable")
    unit = TextColumn(verbose_name=_("Unit"), visible=False)
    held_bound = AmountColumn(verbose_name=_("Held"), of="held_bound")
    free = AmountColumn(verbose_name=_("Free"), of="free")
    stranded = AmountColumn(verbose_name=_("Stranded"), of="stranded", hide_small=True)
    state = TextColumn(
        verbose_name=_("Out of use"),
        accessor="reasons",
        orderable=False,
        empty_values=(),
        classes="mid small-mid",
    )
    capacity_type = TextColumn(verbose_name=_("Bought as"), hide_small=True, visible=False, classes="nowrap")
    flavors = TextColumn(verbose_name=_("Flavors"), orderable=False, hide_small=True, empty_values=())

    class Meta(PortalTable.Meta):
        empty_text = _("No node matches.")

    def __init__(self, rows: Sequence[NodeRow], *, typed: bool = False, **kwargs: Any) -> None:
        """`typed`: some node says whether it is spot or on demand. Rows of nodes are kept while nothing changes, and
        so is how they read."""
        super().__init__(rows, **kwargs)
        self.repeats = self.measure
        if self.measure == "memory":
            self.columns.show("physical")
        if typed:
            self.columns.show("capacity_type")

    def value_unit(self, record: NodeRow) -> str:
        return amounts_of(record, self.measure).unit

    def render_sharing_mode(self, record: NodeRow, value: str) -> str:
        """With the unit of the numbers where it is not the mode's own."""
        unit = amounts_of(record, self.measure).unit
        mode = mode_text(get_language(), value)
        if self.measure != "units" or unit == unit_of(value):
            return mode
        return gettext("%(mode)s, in %(unit)s") % {"mode": mode, "unit": unit_text(unit)}

    def render_bar(self, record: NodeRow) -> SafeString | str:
        return capacity_bar(record, self.measure)

    def render_state(self, record: NodeRow) -> SafeString | str:
        if not record.reasons:
            return NOT_APPLICABLE
        return format_html_join(gettext("; "), "<b>{}</b> {}", ((r.devices, r.label) for r in record.reasons))

    def value_state(self, record: NodeRow) -> str:
        return "; ".join(f"{reason.bucket}={reason.devices}" for reason in record.reasons)

    def render_capacity_type(self, value: str) -> str:
        return str(CAPACITY_TYPES.get(value, value))

    def render_flavors(self, record: NodeRow) -> str:
        return ", ".join(record.flavors) or gettext("none")

    def value_flavors(self, record: NodeRow) -> str:
        return "; ".join(record.flavors)


class DeviceObjectTable(PortalTable):
    """Devices as DRA drivers publish them. Claims are named to readers who see every team."""

    caption = _("Devices that DRA drivers publish for this node")
    file_name = "device-objects"

    name = TextColumn(verbose_name=_("Device"), classes="mono name")
    driver = TextColumn(verbose_name=_("Driver"), hide_small=True)
    pool = TextColumn(verbose_name=_("Pool"), visible=False)
    kind = TextColumn(verbose_name=_("Kind"))
    model = TextColumn(verbose_name=_("Model"), hide_small=True)
    memory_bytes = BytesColumn(verbose_name=_("Memory"), hide_small=True)
    uuid = TextColumn(verbose_name=_("UUID"), visible=False)
    parent = TextColumn(verbose_name=_("Part of"), visible=False)
    taints = TextColumn(verbose_name=_("Taints"), orderable=False, empty_values=())
    claims = TextColumn(verbose_name=_("Taken by"), orderable=False, empty_values=())
    remarks = TextColumn(verbose_name=_("Remarks"), orderable=False, empty_values=(), hide_small=True)

    class Meta(PortalTable.Meta):
        empty_text = _("No DRA driver publishes a device for this node.")

    def __init__(self, rows: Sequence[DeviceObject], *, named: bool, **kwargs: Any) -> None:
        self.named = named
        super().__init__(rows, **kwargs)

    def render_name(self, record: DeviceObject) -> SafeString | str:
        return format_html("{}<br>{}", record.name, record.uuid) if record.uuid else record.name

    def render_taints(self, record: DeviceObject) -> str:
        return record.taints or NOT_APPLICABLE

    def value_taints(self, record: DeviceObject) -> str:
        return record.taints

    def render_remarks(self, record: DeviceObject) -> str:
        return self.value_remarks(record) or NOT_APPLICABLE

    def value_remarks(self, record: DeviceObject) -> str:
        if record.down:
            return gettext("No longer listed by its driver: as last known")
        return (
            gettext("The driver's list is not complete: this is its last whole one, or what there is of it")
            if record.incomplete
            else ""
        )

    def render_claims(self, record: DeviceObject) -> str:
        return self.value_claims(record) or NOT_APPLICABLE

    def value_claims(self, record: DeviceObject) -> str:
        if not self.named:
            return gettext("taken") if record.is_taken else ""
        return "; ".join(
            f"{claim.namespace}/{claim.name}" + (f" ({', '.join(claim.pods)})" if claim.pods else "")
            for claim in record.claims
        )


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
