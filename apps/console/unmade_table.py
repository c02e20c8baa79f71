"""The table of work of which no Workload was made, the same on every page that shows it. Input: `UnmadeRow`s."""

from __future__ import annotations

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from apps.admissions.labels import cause_label, next_step, verdict_sentence
from apps.admissions.unmade import UnmadeRow
from apps.console.links import address
from apps.console.team_rows import cause_tag
from apps.core.tables import LinkColumn, NumberColumn, PortalTable, TextColumn, TimeColumn


def _team_url(row: UnmadeRow) -> str:
    return address("team", row.team_slug) if row.team_slug else ""


class UnmadeTable(PortalTable):
    """The message is the cluster's own text, never shortened in CSV."""

    caption = _("Work of which no workload was made, and why")
    file_name = "no-workload"

    name = LinkColumn(
        verbose_name=_("Belongs to"),
        url=lambda row: "",
        note=lambda row: f"{row.kind} · {row.namespace}",
        classes="name",
    )
    kind = TextColumn(verbose_name=_("Kind"), visible=False)
    namespace = TextColumn(verbose_name=_("Namespace"), visible=False)
    cluster_name = TextColumn(verbose_name=_("Cluster"), hide_small=True)
    team_name = LinkColumn(verbose_name=_("Team"), url=_team_url, hide_small=True)
    cause = TextColumn(verbose_name=_("Why no workload was made"), classes="wide")
    reason = TextColumn(verbose_name=_("Reason"), visible=False)
    message = TextColumn(verbose_name=_("Message"), visible=False)
    times = NumberColumn(verbose_name=_("Times"), hide_small=True)
    since = TimeColumn(verbose_name=_("Since"))
    last_at = TimeColumn(verbose_name=_("Last seen"), visible=False)
    uid = TextColumn(verbose_name=_("UID"), visible=False)

    class Meta(PortalTable.Meta):
        empty_text = _("Nothing of the kind.")

    def render_cause(self, record: UnmadeRow) -> SafeString:
        said = format_html("{} {}", cause_tag(record.cause), verdict_sentence(record.verdict))
        return format_html(
            '{}<br><span class="soft">{}</span><details class="twin"><summary>{}</summary>'
            '<pre class="raw mono">{}\n{}</pre></details>',
            said,
            next_step(record.verdict),
            _("full message"),
            record.message,
            record.reason,
        )

    def value_cause(self, record: UnmadeRow) -> str:
        return cause_label(record.cause)
