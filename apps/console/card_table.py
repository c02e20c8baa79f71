"""The table of a node's cards, and the sentences that its numbers need. Input: CardRows; output: a PortalTable.

A card's instances are lines in its own row, so that rows stay as many as cards; the CSV has a column for each part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.capacity.card_labels import attribution_sentence, holder_sentence, state_label
from apps.capacity.carding import Holder
from apps.capacity.cards import CardRow, InstanceRow
from apps.capacity.idle import Idle
from apps.core.formats import NOT_APPLICABLE, percent_text, show_value
from apps.core.tables import BytesColumn, NumberColumn, PortalTable, RatioColumn, TextColumn, TimeColumn

Lines = Sequence[SafeString | str]
NAMED = 4


def _lines(parts: Lines) -> SafeString:
    return format_html_join(format_html("<br>"), "{}", ((part,) for part in parts))


def _pods(holders: Iterable[Holder]) -> list[str]:
    """Pods by name, and how many more there are of other teams."""
    found = list(holders)
    names = [f"{holder.namespace}/{holder.pod}" for holder in found if holder.pod]
    hidden = len(found) - len(names)
    return [*names, *([gettext("%(n)d of other teams") % {"n": hidden}] if hidden else [])]


def _folded(names: Sequence[str]) -> SafeString:
    """Many pods may share a card: the page stays as long as its cards, the names are one click away."""
    text = ngettext("%(n)d more", "%(n)d more", len(names)) % {"n": len(names)}
    return format_html('<details class="twin"><summary>{}</summary>{}</details>', text, _lines(names))


def idle_sentence(idle: Idle) -> str:
    """The evidence that a held card does nothing."""
    values = {
        "highest": percent_text(idle.highest_ratio),
        "samples": idle.samples,
        "expected": idle.expected,
        "memory": "" if idle.memory_ratio is None else percent_text(idle.memory_ratio),
    }
    if idle.memory_held:
        return (
            gettext(
                "at most %(highest)s in half an hour (%(samples)d of %(expected)d samples), %(memory)s of memory taken"
            )
            % values
        )
    return gettext("at most %(highest)s in half an hour (%(samples)d of %(expected)d samples)") % values


class CardTable(PortalTable):
    """One row per physical card. Utilisation is efficiency, not capacity."""

    caption = _("Cards of this node: state, holders and what their exporter says")
    file_name = "cards"

    device = TextColumn(verbose_name=_("Card"), classes="mono name", empty_values=())
    position = NumberColumn(verbose_name=_("Position"), visible=False)
    model = TextColumn(verbose_name=_("Model"), visible=False)
    sharing_mode = TextColumn(verbose_name=_("Sharing mode"), visible=False)
    state = TextColumn(verbose_name=_("State"), classes="state")
    bucket = TextColumn(verbose_name=_("Out of use"), visible=False)
    why = TextColumn(verbose_name=_("Why"), visible=False)
    identified = TextColumn(verbose_name=_("Card known"), visible=False)
    holders = TextColumn(verbose_name=_("Held by"), orderable=False, empty_values=())
    utilisation_ratio = RatioColumn(verbose_name=_("Utilisation"))
    utilisation_source = TextColumn(verbose_name=_("Measured as"), hide_small=True, empty_values=())
    idle = TextColumn(verbose_name=_("Idle"), orderable=False, empty_values=(), hide_small=True)
    memory_used_bytes = BytesColumn(verbose_name=_("Memory used"))
    memory_total_bytes = BytesColumn(verbose_name=_("Memory"), hide_small=True)
    power_watts = NumberColumn(verbose_name=_("Power, W"), hide_small=True, places=0)
    xid = NumberColumn(verbose_name=_("Last XID"), hide_small=True, absent=NOT_APPLICABLE)
    numa = TextColumn(verbose_name=_("NUMA node"), visible=False)
    pcie = TextColumn(verbose_name=_("PCIe root"), visible=False)
    driver = TextColumn(verbose_name=_("Driver"), visible=False)
    sampled_at = TimeColumn(verbose_name=_("Sampled"), visible=False)

    class Meta(PortalTable.Meta):
        empty_text = _("No accelerator is known on this node.")

    def render_device(self, record: CardRow) -> SafeString:
        name = record.device or gettext("card %(n)d, no name") % {"n": record.position}
        parts = [
            f"{row.instance}: {row.profile}" if row.profile else row.instance for row in record.instances
        ]
        return _lines([name, *parts])

    def value_device(self, record: CardRow) -> str:
        return record.device

    def render_state(self, record: CardRow) -> SafeString | str:
        if not record.bucket:
            return state_label(record.state)
        mark = "" if record.identified else " (?)"
        return format_html(
            '<b class="state-warn">{}{}</b><br><span class="soft">{}</span>',
            record.bucket_label,
            mark,
            record.why,
        )

    def value_state(self, record: CardRow) -> str:
        return record.state

    def value_identified(self, record: CardRow) -> str:
        return "true" if record.identified else "false"

    def render_holders(self, record: CardRow) -> SafeString | str:
        note = holder_sentence(record)
        if not record.holders and not note:
            return NOT_APPLICABLE
        soft = [format_html('<span class="soft">{}</span>', note)] if note else []
        names = _pods(record.holders)
        shown, more = (names, []) if len(names) <= NAMED else (names[: NAMED - 1], names[NAMED - 1 :])
        rest = [_folded(more)] if more else []
        return _lines([*shown, *rest, *soft])

    def value_holders(self, record: CardRow) -> str:
        return "; ".join(f"{name} ({holder.how})" for holder in record.holders for name in _pods([holder]))

    def render_utilisation_ratio(self, record: CardRow) -> SafeString | str:
        if record.instances:
            return _lines(["", *(_ratio(row.utilisation_ratio) for row in record.instances)])
        parts = [
            f"{share.get('pod')}: {percent_text(Decimal(str(share['ratio'])))}"
            for share in record.shares
            if share.get("ratio") is not None
        ]
        return _lines([_ratio(record.utilisation_ratio), *parts])

    def value_utilisation_ratio(self, record: CardRow) -> str:
        if record.instances:
            return "; ".join(f"{row.instance}={_plain(row)}" for row in record.instances)
        return "" if record.utilisation_ratio is None else str(record.utilisation_ratio)

    def render_utilisation_source(self, record: CardRow) -> SafeString | str:
        source = record.utilisation_source or next(
            (row.utilisation_source for row in record.instances if row.utilisation_source), ""
        )
        note = attribution_sentence(record)
        if not note:
            return source or NOT_APPLICABLE
        return format_html('{}<br><span class="soft">{}</span>', source, note)

    def value_utilisation_source(self, record: CardRow) -> str:
        return record.utilisation_source

    def render_idle(self, record: CardRow) -> SafeString | str:
        if record.instances and record.is_idle:
            found = [idle_sentence(row.idle) if row.idle else "" for row in record.instances]
            return _lines(["", *found])
        return idle_sentence(record.idle) if record.idle else NOT_APPLICABLE

    def value_idle(self, record: CardRow) -> str:
        return "; ".join(idle_sentence(idle) for idle in record.idles)


def _ratio(ratio: Decimal | None) -> SafeString | str:
    return show_value(None) if ratio is None else percent_text(ratio)


def _plain(row: InstanceRow) -> str:
    return "" if row.utilisation_ratio is None else str(row.utilisation_ratio)
