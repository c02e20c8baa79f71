"""Tables of the software stack. Input: rows of apps.capacity.stack; numbers lead to the nodes behind them."""

from __future__ import annotations

from decimal import Decimal

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.capacity.stack import NodeVersion, StackRow
from apps.capacity.stack_labels import component_label, source_label
from apps.console.links import address, node_url
from apps.core.formats import NOT_APPLICABLE, listed, listed_apart, number_text, show_value
from apps.core.tables import BarColumn, LinkColumn, PortalTable, TextColumn
from apps.core.templatetags.portal import segments


def _nodes_url(row: StackRow, **more: str) -> str:
    if row.version is None:
        return ""
    query = {"cluster": row.cluster.slug, "component": row.component, "version": row.version, **more}
    return address("stack", **query) + "#nodes"


class StackTable(PortalTable):
    """One version of one component; bars are on the scale of the cluster's accelerator nodes."""

    caption = _("Versions in use, with the nodes that run them")
    file_name = "stack"

    component = TextColumn(verbose_name=_("Component"), classes="component")
    cluster = TextColumn(verbose_name=_("Cluster"), accessor="cluster__name", hide_small=True)
    version = TextColumn(verbose_name=_("Version"), classes="mono name", empty_values=())
    bar = BarColumn(verbose_name=_("Share of nodes"), accessor="nodes", hide_small=True)
    count = TextColumn(verbose_name=_("Nodes"), accessor="nodes", classes="num", empty_values=())
    differ = TextColumn(verbose_name=_("Differ"), accessor="outliers", classes="num", empty_values=())
    models = TextColumn(verbose_name=_("Models"), hide_small=True, orderable=False)
    sources = TextColumn(verbose_name=_("Said by"), hide_small=True, orderable=False, classes="nowrap")

    class Meta(PortalTable.Meta):
        empty_text = _("No version matches.")

    def render_component(self, value: str) -> str:
        return component_label(value)

    def render_version(self, value: str | None) -> SafeString | str:
        return show_value(None) if value is None else value

    def render_bar(self, record: StackRow) -> SafeString | str:
        if record.of is None:
            return ""
        differ = len(record.outliers)
        parts = [("f-held", Decimal(len(record.nodes) - differ)), ("f-borrowed", Decimal(differ))]
        if record.version is None:
            parts = [("f-stranded", Decimal(len(record.nodes)))]
        label = gettext("%(n)s of %(all)s nodes, %(differ)s of them differ from most of their model") % {
            "n": number_text(len(record.nodes)),
            "all": number_text(record.of),
            "differ": number_text(differ),
        }
        return segments(parts, scale=Decimal(max(1, record.of)), label=label, thin=True)

    def render_count(self, record: StackRow) -> SafeString | str:
        if record.of is None:
            return gettext("all")
        return _linked(_nodes_url(record), len(record.nodes))

    def value_count(self, record: StackRow) -> int | None:
        return None if record.of is None else len(record.nodes)

    def render_differ(self, record: StackRow) -> SafeString | str:
        if not record.outliers:
            return NOT_APPLICABLE
        url = _nodes_url(record, outliers="on")
        return format_html('<a class="state-warn" href="{}"><b>{}</b></a>', url, len(record.outliers))

    def value_differ(self, record: StackRow) -> str:
        return "; ".join(record.outliers)

    def render_models(self, value: tuple[str, ...]) -> str:
        return ", ".join(value)

    def value_models(self, record: StackRow) -> str:
        return "; ".join(record.models)

    def render_sources(self, value: tuple[str, ...]) -> str:
        return listed(source_label(name) for name in value)

    def value_sources(self, record: StackRow) -> str:
        return "; ".join(record.sources)


def _linked(url: str, amount: int) -> SafeString | str:
    text = number_text(amount)
    return format_html('<a href="{}">{}</a>', url, text) if url else text


class NodeVersionTable(PortalTable):
    caption = _("Nodes with their versions")
    file_name = "stack-nodes"

    node = LinkColumn(
        verbose_name=_("Node"), url=lambda row: node_url(row.cluster.slug, row.node), classes="name"
    )
    cluster = TextColumn(verbose_name=_("Cluster"), accessor="cluster__name", hide_small=True)
    models = TextColumn(verbose_name=_("Model"), hide_small=True, orderable=False)
    component = TextColumn(verbose_name=_("Component"))
    version = TextColumn(verbose_name=_("Version"), classes="mono", empty_values=())
    usual = TextColumn(verbose_name=_("Most of its model run"), classes="mono", orderable=False)
    source = TextColumn(verbose_name=_("Said by"), hide_small=True)
    disagrees = TextColumn(
        verbose_name=_("Others say"), orderable=False, hide_small=True, empty_values=(), classes="mono"
    )

    class Meta(PortalTable.Meta):
        empty_text = _("No node differs from most nodes of its model.")

    def render_models(self, value: tuple[str, ...]) -> str:
        return ", ".join(value)

    def value_models(self, record: NodeVersion) -> str:
        return "; ".join(record.models)

    def render_component(self, value: str) -> str:
        return component_label(value)

    def render_version(self, value: str | None) -> SafeString | str:
        return show_value(None) if value is None else value

    def render_source(self, value: str) -> str:
        return source_label(value)

    def render_disagrees(self, record: NodeVersion) -> str:
        parts = [
            gettext("%(text)s (%(names)s)") % {"text": said.text, "names": source_label(said.source)}
            for said in record.disagrees
        ]
        return listed_apart(parts) or NOT_APPLICABLE

    def value_disagrees(self, record: NodeVersion) -> str:
        return "; ".join(f"{said.text} ({said.source})" for said in record.disagrees)
