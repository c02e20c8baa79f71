"""Tables of sources, of pulls, of quarantined objects, and of what telemetry covers."""

from __future__ import annotations

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.capacity.coverage import ClusterCoverage
from apps.console.links import address, node_url
from apps.core.formats import NOT_APPLICABLE, bytes_text, duration_text
from apps.core.tables import LinkColumn, NumberColumn, PortalTable, RatioColumn, TextColumn, TimeColumn
from apps.observations.models import CollectionRun, Quarantine
from apps.observations.selectors import SourceStatus

NODES_SHOWN = 5


class SourceTable(PortalTable):
    """One source of one cluster per row, in the order of clusters."""

    caption = _("Sources: what was read last, and what went wrong")
    file_name = "sources"

    source_label = TextColumn(verbose_name=_("Source"), classes="name")
    cluster = TextColumn(verbose_name=_("Cluster"), accessor="cluster__name")
    state = TextColumn(verbose_name=_("State"), order_by=("state",))
    age_seconds = TextColumn(verbose_name=_("Age of the data"), classes="num", empty_values=())
    observed_at = TimeColumn(verbose_name=_("Last good pull"), hide_small=True)
    last_run_at = TimeColumn(verbose_name=_("Last pull"), visible=False)
    sentence = TextColumn(verbose_name=_("What happened, what to do"), classes="wide", orderable=False)
    action = TextColumn(verbose_name=_("What to do"), visible=False)
    error = TextColumn(verbose_name=_("Raw message"), visible=False)
    failures = NumberColumn(verbose_name=_("Failures in a row"), visible=False)
    quarantined = NumberColumn(verbose_name=_("Quarantined"), hide_small=True)
    seen = NumberColumn(
        verbose_name=_("Objects read"), accessor="run__objects_seen", absent=NOT_APPLICABLE, hide_small=True
    )
    written = NumberColumn(
        verbose_name=_("Rows written"), accessor="run__rows_written", absent=NOT_APPLICABLE, hide_small=True
    )

    class Meta(PortalTable.Meta):
        empty_text = _(
            "No cluster is set up yet. A platform admin adds one on the admin pages or with ./portal up."
        )

    def render_state(self, record: SourceStatus) -> SafeString:
        return format_html(
            '<span class="nowrap"><span class="dot {}" aria-hidden="true"></span>{}</span>',
            record.state,
            record.state_label,
        )

    def render_age_seconds(self, record: SourceStatus) -> str:
        return NOT_APPLICABLE if record.age_seconds is None else duration_text(record.age_seconds)

    def value_age_seconds(self, record: SourceStatus) -> int | None:
        return record.age_seconds

    def render_sentence(self, record: SourceStatus) -> SafeString | str:
        said = format_html('{} <span class="soft">{}</span>', record.sentence, record.action)
        if record.failures > 1:
            times = ngettext("%(n)d failure in a row.", "%(n)d failures in a row.", record.failures)
            said = format_html("{} {}", said, times % {"n": record.failures})
        if "error" not in self.columns.names() or not record.error:
            return said
        return format_html(
            '{}<details class="twin"><summary>{}</summary><pre class="raw mono">{}</pre></details>',
            said,
            gettext("raw message"),
            record.error,
        )


class CoverageTable(PortalTable):
    """One cluster per row: the cards that the API counts and those that exporters see."""

    caption = _("Coverage: cards of the API against cards of telemetry")
    file_name = "coverage"

    cluster = LinkColumn(
        verbose_name=_("Cluster"),
        accessor="cluster__name",
        url=lambda row: address("capacity", cluster=row.cluster.slug) + "#nodes",
        classes="name",
    )
    counted = NumberColumn(verbose_name=_("Cards counted"))
    seen = NumberColumn(verbose_name=_("Cards seen"))
    matched = NumberColumn(verbose_name=_("Both"))
    ratio = RatioColumn(verbose_name=_("Covered"), absent=NOT_APPLICABLE)
    unseen = NumberColumn(verbose_name=_("Not seen"))
    beyond = NumberColumn(verbose_name=_("Not counted"))
    unplaced = NumberColumn(verbose_name=_("of them on no known node"), hide_small=True)
    dark_nodes = NumberColumn(verbose_name=_("Nodes without any"), hide_small=True)
    differing = TextColumn(
        verbose_name=_("Where they differ"), orderable=False, classes="wide", empty_values=()
    )

    class Meta(PortalTable.Meta):
        empty_text = _("No cluster has both nodes and telemetry.")

    def render_differing(self, record: ClusterCoverage) -> SafeString | str:
        if not record.differing:
            return NOT_APPLICABLE
        parts = [
            (node_url(record.cluster.slug, node.node), node.node, node.seen, node.counted)
            for node in record.differing[:NODES_SHOWN]
        ]
        said = format_html_join(", ", '<a href="{}">{}</a> {}/{}', parts)
        more = len(record.differing) - NODES_SHOWN
        return format_html("{} {}", said, gettext("and %(n)d more") % {"n": more}) if more > 0 else said

    def value_differing(self, record: ClusterCoverage) -> str:
        return "; ".join(f"{node.node}={node.seen}/{node.counted}" for node in record.differing)


class RunTable(PortalTable):
    caption = _("Pulls of the last two days, newest first")
    file_name = "pulls"

    started_at = TimeColumn(verbose_name=_("Started"))
    cluster = TextColumn(verbose_name=_("Cluster"), accessor="cluster__name", hide_small=True)
    source = TextColumn(verbose_name=_("Source"))
    outcome = TextColumn(verbose_name=_("Outcome"))
    mode = TextColumn(verbose_name=_("Mode"), hide_small=True)
    took = TextColumn(
        verbose_name=_("Took"), accessor="ended_at", classes="num", orderable=False, hide_small=True
    )
    objects_seen = NumberColumn(verbose_name=_("Objects read"))
    rows_written = NumberColumn(verbose_name=_("Rows written"))
    rows_gone = NumberColumn(verbose_name=_("Gone"), hide_small=True)
    quarantined = NumberColumn(verbose_name=_("Quarantined"), hide_small=True)
    bytes_read = TextColumn(verbose_name=_("Read"), classes="num", hide_small=True)
    error_kind = TextColumn(verbose_name=_("Problem"), hide_small=True)
    error = TextColumn(verbose_name=_("Raw message"), visible=False)

    class Meta(PortalTable.Meta):
        empty_text = _("No pull in this time.")

    def render_source(self, record: CollectionRun) -> str:
        return record.get_source_display()

    def render_outcome(self, record: CollectionRun) -> SafeString:
        dot = {"skipped": "absent"}.get(record.outcome, record.outcome)
        return format_html(
            '<span class="nowrap"><span class="dot {}" aria-hidden="true"></span>{}</span>',
            dot,
            record.get_outcome_display(),
        )

    def render_took(self, record: CollectionRun) -> str:
        milliseconds = (record.ended_at - record.started_at).total_seconds() * 1000
        return f"{milliseconds:,.0f} ms" if milliseconds < 10_000 else duration_text(milliseconds / 1000)

    def value_took(self, record: CollectionRun) -> float:
        return (record.ended_at - record.started_at).total_seconds()

    def render_bytes_read(self, value: int) -> str:
        return bytes_text(value)

    def render_error_kind(self, record: CollectionRun) -> str:
        return str(record.get_error_kind_display()) or NOT_APPLICABLE


class QuarantineTable(PortalTable):
    """Objects that could not be read; the rest of their list was taken."""

    caption = _("Quarantined objects")
    file_name = "quarantine"

    kind = TextColumn(verbose_name=_("Kind"))
    name = TextColumn(verbose_name=_("Object"), classes="name")
    cluster = TextColumn(verbose_name=_("Cluster"), accessor="cluster__name", hide_small=True)
    source = TextColumn(verbose_name=_("Source"), hide_small=True)
    error = TextColumn(verbose_name=_("Why it could not be read"), classes="wide")
    times_seen = NumberColumn(verbose_name=_("Times"))
    first_seen_at = TimeColumn(verbose_name=_("First"), hide_small=True)
    last_seen_at = TimeColumn(verbose_name=_("Last"))
    raw = TextColumn(verbose_name=_("As received"), accessor="pk", orderable=False, exclude_from_export=True)

    class Meta(PortalTable.Meta):
        empty_text = _("Everything that was read could be parsed.")

    def render_source(self, record: Quarantine) -> str:
        return record.get_source_display()

    def render_raw(self, value: int) -> SafeString:
        return format_html(
            '<a href="{}" download>{}</a>',
            reverse("console:quarantined_bytes", args=[value]),
            gettext("download"),
        )
