"""`/chargeback/work/`: which pieces of work held what in some hours of one cluster; where the hours of a statement lead."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponseBase
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from apps.accounts.selectors import visible_teams
from apps.chargeback.overview import BASIS_LABELS
from apps.console.access import named_or_404, reader
from apps.console.frame import QUOTA, Page
from apps.console.idle_tables import KindColumns
from apps.console.links import address
from apps.console.use_tables import HoursColumn
from apps.core.tables import NumberColumn, TextColumn, TimeColumn, table_csv, wants_csv
from apps.observations.models import Source
from apps.usage.allocation import Basis, Seen
from apps.usage.held_work import HeldWork, held_work
from apps.usage.idle_filters import HeldWorkForm

TEMPLATE = "console/held_work.html"
SEEN = {
    Seen.OBSERVED: _("observed"),
    Seen.BRIDGED: _("bridged"),
    Seen.LEFT_OUT: _("seen by nobody"),
    Seen.BEYOND: _("more than the node has"),
}


class HeldWorkTable(KindColumns):
    """Intervals of holding, cut to the chosen time."""

    caption = _("Work behind the hours")
    file_name = "held-work"

    name = TextColumn(verbose_name=_("Work"), classes="name", empty_values=())
    team = TextColumn(verbose_name=_("Team"), accessor="team_name", empty_values=(), hide_small=True)
    queue = TextColumn(verbose_name=_("Queue"), accessor="of__place__queue", hide_small=True)
    start = TimeColumn(verbose_name=_("From"), accessor="of__start")
    end = TimeColumn(verbose_name=_("To"), accessor="of__end")
    quantity = NumberColumn(verbose_name=_("Units"), accessor="of__quantity", places=2)
    held = HoursColumn(verbose_name=_("Unit-hours"), accessor="of__unit_seconds", places=3)
    borrowed = TextColumn(verbose_name=_("Borrowed"), accessor="of__borrowed", hide_small=True)
    seen = TextColumn(verbose_name=_("Seen"), accessor="of__seen", hide_small=True)
    uid = TextColumn(verbose_name=_("UID"), accessor="of__uid", visible=False)
    namespace = TextColumn(verbose_name=_("Namespace"), accessor="of__place__namespace", visible=False)
    on = TextColumn(verbose_name=_("Flavor or node"), accessor="of__on", visible=False)
    priority_class = TextColumn(
        verbose_name=_("Priority class"), accessor="of__priority_class", visible=False
    )

    class Meta(KindColumns.Meta):
        empty_text = _("Nothing was held in this time, or its single observations are not kept any more.")
        sequence = ("name", "team", "queue", "model", "...", "resource", "sharing_mode", "profile")

    def render_name(self, record: HeldWork) -> SafeString | str:
        item = record.of
        text = f"{item.place.namespace}/{record.name}" if record.name else item.uid
        if item.basis is not Basis.RESERVED:
            return text
        return format_html('<a href="{}">{}</a>', address("workload", item.uid), text)

    def value_name(self, record: HeldWork) -> str:
        return record.name

    def render_team(self, record: HeldWork) -> str:
        return record.team_name or str(_("no team"))

    def value_team(self, record: HeldWork) -> str:
        return record.team

    def render_borrowed(self, value: bool) -> str:
        return str(_("yes") if value else _("no"))

    def value_borrowed(self, record: HeldWork) -> str:
        return "true" if record.of.borrowed else "false"

    def render_seen(self, value: Seen) -> str:
        return str(SEEN[value])

    def value_seen(self, record: HeldWork) -> str:
        return record.of.seen.value


def work(request: HttpRequest) -> HttpResponseBase:
    page = Page.open(request, sources=(*QUOTA, Source.PODS))
    form = HeldWorkForm(_given(request, page), now=page.now, team_ids=page.team_ids)
    if not form.is_valid():
        named_or_404(form)
        return page.render(TEMPLATE, {"form": form}, section="chargeback")
    data, span, cluster = form.cleaned_data, form.time_window, form.chosen_cluster
    rows = held_work(
        cluster=cluster,
        window=span,
        now=page.now,
        basis=form.chosen_basis,
        team_ids=page.team_ids,
        team=data["team"],
        queue=data["queue"],
    )
    table = HeldWorkTable(rows)
    if wants_csv(request):
        return table_csv(table, request)
    context = {
        "form": form,
        "span": span,
        "cluster": cluster,
        "basis": form.chosen_basis.value,
        "bases": [(basis.value, BASIS_LABELS[basis.value]) for basis in (Basis.RESERVED, Basis.POD)],
        "table": page.prepare(table),
        "teams": visible_teams(reader(request)),
    }
    return page.render(TEMPLATE, context, section="chargeback")


def _given(request: HttpRequest, page: Page) -> dict[str, str]:
    """Without a cluster the first one: intervals are of one."""
    given = {name: value for name, value in request.GET.items() if isinstance(value, str)}
    if not given.get("cluster"):
        if not page.all_clusters:
            raise Http404
        given["cluster"] = page.all_clusters[0].slug
    return given
