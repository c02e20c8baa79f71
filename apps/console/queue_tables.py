"""The tables of a queue's own page. Input: rows of apps.quotas; columns that only this page shows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.changes.form import Place
from apps.console.links import address, queue_url
from apps.console.queue_tree import by_unit
from apps.console.quota_table import AmountColumn, QuotaTable
from apps.core.formats import NOT_APPLICABLE, listed, number_text, resource_text, show_value, time_text
from apps.core.tables import LinkColumn, NumberColumn, PortalTable, TextColumn, TimeColumn
from apps.observations.models import Event
from apps.quotas.queue_detail import LocalQueueRow
from apps.quotas.rows import QueueNode, QuotaRow
from apps.quotas.sentences import amount_text, noun_of


class QueueQuotaTable(QuotaTable):
    """Every number of each (flavor, resource) of one queue."""

    caption = _("Quota by flavor")

    flavor = TextColumn(verbose_name=_("Flavor"), classes="name", empty_values=())
    guaranteed = AmountColumn(verbose_name=_("Never lent"), absent=NOT_APPLICABLE, hide_small=True)
    borrowing_limit = AmountColumn(verbose_name=_("Borrowing limit"), visible=False)
    lending_limit = AmountColumn(verbose_name=_("Lending limit"), visible=False)
    over = AmountColumn(verbose_name=_("Over the ceiling"), visible=False)
    status_reserved = AmountColumn(verbose_name=_("By its own status"), visible=False)

    class Meta(QuotaTable.Meta):
        exclude: tuple[str, ...] = ("queue",)
        sequence = (
            "flavor",
            "bar",
            "reserved",
            "admitted",
            "nominal",
            "guaranteed",
            "borrowed",
            "lent",
            "available",
            "ceiling",
            "pending",
            "...",
        )
        empty_text = _("It has no quota of accelerators of its own.")

    def render_flavor(self, record: QuotaRow) -> SafeString:
        noun = noun_of(record) if record.accelerator else resource_text(record.resource)
        if noun == record.flavor or not record.flavor:
            return format_html("{}", noun)
        return format_html('{}<br><span class="muted">{}</span>', record.flavor, noun)

    def render_available(self, record: QuotaRow) -> str | SafeString:
        value = record.available
        if value is None:
            return str(_("no limit")) if record.system == "volcano" else NOT_APPLICABLE
        if value < 0:
            text = _("over by %(n)s") % {"n": amount_text(record.resource, -value)}
            return format_html('<span class="state-bad">{}</span>', text)
        return show_value(value) if not value else amount_text(record.resource, value)


class VolcanoQuotaTable(QueueQuotaTable):
    """The same for a Volcano queue, which has no book of who lends to whom."""

    caption = _("Quota by resource")

    flavor = TextColumn(verbose_name=_("Resource"), classes="name", empty_values=())
    nominal = AmountColumn(verbose_name=_("Deserved"), absent=NOT_APPLICABLE)
    guarantee = AmountColumn(verbose_name=_("Guarantee"), absent=NOT_APPLICABLE, hide_small=True)
    capability = AmountColumn(verbose_name=_("Capability"), absent=_("no limit"), hide_small=True)
    real_capability = AmountColumn(verbose_name=_("Real capability"), absent=NOT_APPLICABLE, hide_small=True)
    plugin = TextColumn(verbose_name=_("Plugin"), visible=False)
    plugin_from = TextColumn(verbose_name=_("Plugin known from"), visible=False)

    class Meta(QueueQuotaTable.Meta):
        exclude = ("queue", "guaranteed", "borrowed", "lent", "borrowing_limit", "lending_limit")
        sequence = (
            "flavor",
            "bar",
            "reserved",
            "admitted",
            "guarantee",
            "nominal",
            "capability",
            "real_capability",
            "available",
            "ceiling",
            "pending",
            "...",
        )
        empty_text = _("It has no quota of accelerators of its own.")


class ChildTable(PortalTable):
    """What lies directly below a cohort or a Volcano queue."""

    caption = _("Queues and cohorts directly below")
    file_name = "below"

    name = LinkColumn(
        verbose_name=_("Queue"),
        url=lambda node: queue_url(node.cluster.slug, node.kind, node.name),
        classes="name",
    )
    kind = TextColumn(verbose_name=_("Kind"), hide_small=True)
    held = TextColumn(verbose_name=_("Held / nominal"), classes="num", orderable=False, empty_values=())
    state = TextColumn(verbose_name=_("State"), orderable=False, empty_values=())
    waiting = NumberColumn(verbose_name=_("Waiting workloads"))

    class Meta(PortalTable.Meta):
        empty_text = _("Nothing lies below it.")

    def render_held(self, record: QueueNode) -> str:
        shown = [row for row in record.rows if row.accelerator and row.matters]
        parts = [
            f"{number_text(one.reserved)} / {NOT_APPLICABLE if one.nominal is None else number_text(one.nominal)} {one.label}"
            for one in by_unit(shown)
        ]
        return listed(parts) or NOT_APPLICABLE

    value_held = render_held

    def render_state(self, record: QueueNode) -> SafeString | str:
        if record.stopped:
            return format_html('<span class="state-warn">{}</span>', _("stopped"))
        if not record.active:
            return format_html('<span class="state-bad">{}</span>', _("inactive"))
        return str(_("active"))

    def value_state(self, record: QueueNode) -> str:
        return "stopped" if record.stopped else "active" if record.active else "inactive"


class LocalQueueTable(PortalTable):
    """LocalQueues that lead to a ClusterQueue, with what their own status counts."""

    caption = _("LocalQueues that lead here")
    file_name = "localqueues"

    name = LinkColumn(
        verbose_name=_("LocalQueue"),
        url=lambda row: address("queue", row.cluster.slug, "LocalQueue", row.name, namespace=row.namespace),
        note=lambda row: row.namespace,
        classes="name",
    )
    namespace = TextColumn(verbose_name=_("Namespace"), visible=False)
    pending = NumberColumn(verbose_name=_("Waiting"))
    reserving = NumberColumn(verbose_name=_("Reserved"))
    admitted = NumberColumn(verbose_name=_("Admitted"))
    stop_policy = TextColumn(verbose_name=_("Stop policy"), visible=False)
    reason = TextColumn(verbose_name=_("State"), empty_values=())
    ask = TextColumn(
        verbose_name=_("Change"), empty_values=(), orderable=False, exclude_from_export=True, hide_small=True
    )

    class Meta(PortalTable.Meta):
        empty_text = _("No LocalQueue leads here: no work can enter.")

    def __init__(
        self, rows: Sequence[LocalQueueRow], *, asks_for: Collection[int] | None = (), **kwargs: Any
    ) -> None:
        """`asks_for`: the teams for whose queues the reader may ask for changes, None for all."""
        self._asks_for = asks_for
        super().__init__(rows, **kwargs)
        if not any(self._may_ask(row) for row in rows):
            self.columns.hide("ask")

    def _may_ask(self, row: LocalQueueRow) -> bool:
        return self._asks_for is None or row.team_id in self._asks_for

    def render_ask(self, record: LocalQueueRow) -> SafeString | str:
        if not self._may_ask(record):
            return NOT_APPLICABLE
        place = Place("LocalQueue", record.namespace, record.name)
        url = address("change_new", cluster=record.cluster.slug, object=place.key)
        return format_html(
            '<a href="{}" aria-label="{}">{}</a>',
            url,
            gettext("Ask for a change of %(name)s") % {"name": place.label},
            gettext("Ask"),
        )

    def render_reason(self, record: LocalQueueRow) -> SafeString | str:
        if record.stop_policy != "None":
            return format_html('<span class="state-warn">{}</span>', _("stopped"))
        if record.active is False:
            return format_html('<span class="state-bad" title="{}">{}</span>', record.message, record.reason)
        return NOT_APPLICABLE if record.active is None else str(_("active"))


class EventTable(PortalTable):
    """What the cluster said about the object."""

    caption = _("Events, newest first")
    file_name = "events"

    last_at = TimeColumn(verbose_name=_("Last"), empty_values=())
    type = TextColumn(verbose_name=_("Kind"), hide_small=True)
    reason = TextColumn(verbose_name=_("Reason"))
    message = TextColumn(verbose_name=_("Message"), classes="wide")
    count = NumberColumn(verbose_name=_("Times"), hide_small=True)

    class Meta(PortalTable.Meta):
        empty_text = _("No event about it was stored.")

    def render_last_at(self, record: Event) -> SafeString:
        at = record.last_at or record.created_at
        return format_html('<time datetime="{}">{}</time>', at.isoformat(), time_text(at))

    def value_last_at(self, record: Event) -> str:
        return (record.last_at or record.created_at).isoformat()
