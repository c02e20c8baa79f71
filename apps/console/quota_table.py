"""The table of quota rows. Input: `QuotaRow`s; the same columns on the team page, on queues and in CSV."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from apps.console.links import queue_url
from apps.core.formats import NOT_APPLICABLE, resource_text
from apps.core.tables import BarColumn, LinkColumn, NumberColumn, PortalTable, TextColumn
from apps.core.templatetags.portal import quota_bar
from apps.quotas.rows import QuotaRow
from apps.quotas.sentences import amount_text, is_bytes, noun_of


def _queue(row: QuotaRow) -> str:
    return queue_url(row.cluster.slug, row.kind, row.queue)


def above(row: QuotaRow) -> str:
    """What stands above the queue: a cohort, or a Volcano queue."""
    if not row.cohort:
        return ""
    text = _("below %(name)s") if row.system == "volcano" else _("cohort %(name)s")
    return str(text % {"name": row.cohort})


class AmountColumn(NumberColumn):
    """An amount of the row's resource: memory reads in binary units, everything else as a plain number. Less
    than nothing free is "over by" in words; the CSV keeps the number."""

    def render(self, value: Any, record: QuotaRow) -> str | SafeString:  # type: ignore[override]
        if value is not None and value < 0:
            return str(_("over by %(n)s") % {"n": amount_text(record.resource, -value)})
        if value is None or not value or not is_bytes(record.resource):
            return super().render(value)
        return amount_text(record.resource, value)


class QuotaTable(PortalTable):
    caption = _("Quota by queue and flavor")
    file_name = "quota"
    # A row says the same wherever it is shown; rows of a queue are kept as long as nothing of it changes.
    repeats: Hashable | None = ""

    queue = LinkColumn(verbose_name=_("Queue"), url=_queue, note=above, classes="name")
    kind = TextColumn(verbose_name=_("Kind"), visible=False)
    cluster = TextColumn(verbose_name=_("Cluster"), accessor="cluster__name", hide_small=True)
    cohort = TextColumn(verbose_name=_("Cohort"), visible=False)
    flavor = TextColumn(verbose_name=_("Flavor"), classes="name")
    resource = TextColumn(verbose_name=_("Resource"), visible=False)
    bar = BarColumn(
        verbose_name=_("Use, nominal (mark), ceiling"),
        accessor="reserved",
    )
    reserved = AmountColumn(verbose_name=_("Reserved"))
    admitted = AmountColumn(verbose_name=_("Running"), hide_small=True)
    nominal = AmountColumn(verbose_name=_("Nominal"), absent=NOT_APPLICABLE)
    borrowed = AmountColumn(verbose_name=_("Borrowed"), absent=NOT_APPLICABLE, hide_small=True)
    lent = AmountColumn(verbose_name=_("Lent"), absent=NOT_APPLICABLE, hide_small=True)
    available = AmountColumn(verbose_name=_("Free now"), absent=NOT_APPLICABLE)
    ceiling = AmountColumn(verbose_name=_("Ceiling"), absent=_("no limit"), hide_small=True)
    pending = AmountColumn(verbose_name=_("Waiting"), hide_small=True)
    waiting = NumberColumn(verbose_name=_("Waiting workloads"), visible=False)

    class Meta(PortalTable.Meta):
        empty_text = _("No queue with quota leads here.")

    def render_flavor(self, record: QuotaRow) -> SafeString:
        note = noun_of(record) if record.accelerator else resource_text(record.resource)
        return format_html('{}<br><span class="muted">{}</span>', record.flavor or NOT_APPLICABLE, note)

    def render_bar(self, record: QuotaRow) -> SafeString:
        return quota_bar(record.reserved, record.nominal, record.ceiling)
