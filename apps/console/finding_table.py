"""The table of findings: what is wrong, since when, why it matters and what to do."""

from __future__ import annotations

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from apps.console.links import finding_url
from apps.core.tables import NumberColumn, PortalTable, TextColumn, TimeColumn
from apps.findings.filters import SEVERITIES
from apps.findings.selectors import Finding

_LABELS = dict(SEVERITIES)


class FindingTable(PortalTable):
    """Worst first, then oldest first."""

    caption = _("What needs attention")
    file_name = "findings"

    severity = TextColumn(verbose_name=_("Severity"), orderable=False)
    text = TextColumn(verbose_name=_("What"), classes="wide", orderable=False)
    why = TextColumn(verbose_name=_("Why it matters"), classes="wide", orderable=False, hide_small=True)
    advice = TextColumn(verbose_name=_("What to do"), classes="wide", orderable=False, hide_small=True)
    started = TimeColumn(verbose_name=_("Since"), hide_small=True)
    first_seen = TimeColumn(verbose_name=_("First seen"), visible=False)
    last_seen = TimeColumn(verbose_name=_("Last seen"), hide_small=True)
    count = NumberColumn(verbose_name=_("Objects"), visible=False)
    code = TextColumn(verbose_name=_("Code"), visible=False)
    objects = TextColumn(verbose_name=_("About"), visible=False, orderable=False)
    key = TextColumn(verbose_name=_("Key"), visible=False)

    class Meta(PortalTable.Meta):
        empty_text = _("Nothing needs attention now.")

    def render_severity(self, value: str) -> SafeString:
        return format_html('<span class="sev {}">{}</span>', value, _LABELS[value])

    def value_severity(self, record: Finding) -> str:
        return record.severity

    def render_text(self, record: Finding) -> SafeString | str:
        url = finding_url(record)
        return format_html('<a href="{}">{}</a>', url, record.text) if url else record.text

    def value_text(self, record: Finding) -> str:
        return record.text

    def value_objects(self, record: Finding) -> str:
        return " ".join("/".join(filter(None, (ref.kind, ref.namespace, ref.name))) for ref in record.objects)
