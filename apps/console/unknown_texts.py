"""`/admissions/unknown/`: texts that no rule knows, by what they cost. For platform admins: a sample may name the work of
any team. To others the page does not exist."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponseBase
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from apps.admissions.rulebook import rule_book
from apps.admissions.unknown import UnknownText, unknown_texts
from apps.admissions.unknown_filters import ORIGIN_LABELS, UnknownForm
from apps.console.access import reader
from apps.console.frame import WORK, Page
from apps.console.links import address, window_links
from apps.core.tables import (
    DurationColumn,
    NumberColumn,
    PortalTable,
    TextColumn,
    TimeColumn,
    table_csv,
    wants_csv,
)
from apps.core.windows import PRESETS


class UnknownTable(PortalTable):
    """`group` holds placeholders for numbers and names; `sample` is one text as it came, never shortened in CSV."""

    caption = _("Texts that no rule knows")
    file_name = "unknown-texts"

    group = TextColumn(verbose_name=_("Text"), classes="wide")
    decides = TextColumn(verbose_name=_("Decides the cause"))
    seconds = DurationColumn(verbose_name=_("Kept work waiting for"))
    works = NumberColumn(verbose_name=_("Workloads"))
    texts = NumberColumn(verbose_name=_("Wordings"), hide_small=True)
    origins = TextColumn(verbose_name=_("Read from"), orderable=False, hide_small=True)
    reason = TextColumn(verbose_name=_("Reason"), visible=False)
    sample = TextColumn(verbose_name=_("Sample"), visible=False)
    clusters = TextColumn(verbose_name=_("Clusters"), orderable=False, visible=False)
    last_at = TimeColumn(verbose_name=_("Last said"), hide_small=True)

    class Meta(PortalTable.Meta):
        empty_text = _("Every text of this window is known.")

    def render_group(self, record: UnknownText) -> SafeString:
        """The group, and behind a disclosure that works without a script a sample and who said it."""
        links = format_html_join(
            " ", '<a href="{}">{}</a>', ((address("workload", uid), uid) for uid in record.uids)
        )
        return format_html(
            '<span class="mono">{}</span><details class="twin"><summary>{} · {}</summary><pre class="raw mono">{}</pre>'
            '<p class="soft mb-0">{}</p></details>',
            record.group,
            record.reason or _("no reason given"),
            _("a sample"),
            record.sample,
            links,
        )

    def value_group(self, record: UnknownText) -> str:
        return record.group

    def render_decides(self, record: UnknownText) -> str:
        return str(_("yes")) if record.decides else str(_("no, a part"))

    def render_origins(self, record: UnknownText) -> str:
        return ", ".join(str(ORIGIN_LABELS[origin]) for origin in record.origins)

    def value_origins(self, record: UnknownText) -> str:
        return "; ".join(record.origins)

    def value_clusters(self, record: UnknownText) -> str:
        return "; ".join(record.clusters)


def unknown(request: HttpRequest) -> HttpResponseBase:
    if not reader(request).is_platform_admin:
        raise Http404
    page = Page.open(request, sources=WORK)
    form = UnknownForm(request.GET, now=page.now)
    if not form.is_valid():
        return page.render("console/unknown_texts.html", {"form": form}, section="admissions")
    window, origin = form.time_window, form.cleaned_data["origin"]
    rows = unknown_texts(clusters=page.clusters, window=window, now=page.now, origin=origin)
    table = UnknownTable(rows)
    if wants_csv(request):
        return table_csv(table, request)
    context = {
        "form": form,
        "table": page.prepare(table),
        "windows": window_links(request, PRESETS),
        "window": request.GET.get("window") or form.default_window,
        "origins": ORIGIN_LABELS,
        "origin": origin,
        "version": rule_book().version,
        "count": len(rows),
    }
    return page.render("console/unknown_texts.html", context, section="admissions")
