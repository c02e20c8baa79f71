"""The table of waiting work, the same on every page that shows it. Input: `WaitingRow`s."""

from __future__ import annotations

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from apps.admissions.labels import cause_label, next_step, reason_label, verdict_sentence
from apps.admissions.selectors import WaitingRow
from apps.console.links import address, workload_url
from apps.console.team_rows import cause_tag
from apps.core.formats import number_text, quantities_text
from apps.core.tables import DurationColumn, LinkColumn, NumberColumn, PortalTable, TextColumn, TimeColumn


def _note(row: WaitingRow) -> str:
    parts = [row.namespace, row.queue_name or row.queue]
    if row.priority is not None:
        parts.append(str(_("priority %(n)s") % {"n": row.priority}))
    return " · ".join(part for part in parts if part)


def _team_url(row: WaitingRow) -> str:
    return address("team", row.team_slug) if row.team_slug else ""


class WaitingTable(PortalTable):
    """`devices` are the accelerators asked for; the message is the cluster's own text, never shortened in CSV."""

    caption = _("Waiting work and why it waits")
    file_name = "waiting"

    name = LinkColumn(verbose_name=_("Workload"), url=workload_url, note=_note, classes="name")
    namespace = TextColumn(verbose_name=_("Namespace"), visible=False)
    cluster_name = TextColumn(verbose_name=_("Cluster"), hide_small=True)
    team_name = LinkColumn(verbose_name=_("Team"), url=_team_url, hide_small=True)
    queue = TextColumn(verbose_name=_("Queue"), visible=False)
    kind = TextColumn(verbose_name=_("Kind"), visible=False)
    cause = TextColumn(verbose_name=_("Why it waits"), classes="wide")
    devices = TextColumn(verbose_name=_("Needs"), classes="num", orderable=False)
    reason = TextColumn(verbose_name=_("Reason"), visible=False)
    message = TextColumn(verbose_name=_("Message"), visible=False)
    wait_seconds = DurationColumn(verbose_name=_("Waiting for"))
    since = TimeColumn(verbose_name=_("In this state since"), visible=False)
    priority = NumberColumn(verbose_name=_("Priority"), visible=False)
    uid = TextColumn(verbose_name=_("UID"), visible=False)

    class Meta(PortalTable.Meta):
        empty_text = _("Nothing waits here.")

    def render_devices(self, record: WaitingRow) -> str:
        return quantities_text(record.devices)

    def value_devices(self, record: WaitingRow) -> str:
        return "; ".join(f"{name}={number_text(n, places=3)}" for name, n in record.asked.items())

    def render_cause(self, record: WaitingRow) -> SafeString:
        """Cause, sentence, and the raw text behind a disclosure that works without a script."""
        said = format_html("{} {}", cause_tag(record.cause), verdict_sentence(record.verdict))
        if not record.message:
            return said
        return format_html(
            '{}<details class="twin"><summary>{} · {}</summary><pre class="raw mono">{}</pre><p class="soft mb-0">{}</p></details>',
            said,
            reason_label(record.reason) if record.reason else _("no reason"),
            _("full message"),
            record.message,
            next_step(record.verdict),
        )

    def value_cause(self, record: WaitingRow) -> str:
        return cause_label(record.cause)
