"""Tables of work that runs and of work that has ended. Input: `WorkRow`s of apps.admissions.work."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from apps.admissions.work import WorkRow
from apps.console.links import address
from apps.core.formats import quantities_text
from apps.core.tables import DurationColumn, LinkColumn, PortalTable, QuantitiesColumn, TextColumn, TimeColumn


def _url(row: WorkRow) -> str:
    return address("workload", row.uid)


def _note(row: WorkRow) -> str:
    return " · ".join(part for part in (row.namespace, row.queue) if part)


class RunningTable(PortalTable):
    caption = _("Work that holds quota")
    file_name = "running"

    name = LinkColumn(verbose_name=_("Workload"), url=_url, note=_note, classes="name")
    namespace = TextColumn(verbose_name=_("Namespace"), visible=False)
    cluster_name = TextColumn(verbose_name=_("Cluster"), hide_small=True)
    devices = QuantitiesColumn(verbose_name=_("Holds"), orderable=False)
    flavors = TextColumn(verbose_name=_("Flavor"), hide_small=True)
    state_label = TextColumn(verbose_name=_("State"))
    held_since = TimeColumn(verbose_name=_("Since"), hide_small=True)
    held_seconds = DurationColumn(verbose_name=_("For"))
    uid = TextColumn(verbose_name=_("UID"), visible=False)

    class Meta(PortalTable.Meta):
        empty_text = _("Nothing holds quota now.")


class FinishedTable(PortalTable):
    caption = _("Work that ended lately")
    file_name = "finished"

    name = LinkColumn(verbose_name=_("Workload"), url=_url, note=_note, classes="name")
    namespace = TextColumn(verbose_name=_("Namespace"), visible=False)
    cluster_name = TextColumn(verbose_name=_("Cluster"), hide_small=True)
    devices = TextColumn(verbose_name=_("Asked for"), classes="num", orderable=False)
    outcome = TextColumn(verbose_name=_("Outcome"), classes="wide", hide_small=True)
    finished_at = TimeColumn(verbose_name=_("Ended"))
    held_seconds = DurationColumn(verbose_name=_("Held quota for"))
    uid = TextColumn(verbose_name=_("UID"), visible=False)

    class Meta(PortalTable.Meta):
        empty_text = _("Nothing has ended in the last 7 days.")

    def render_devices(self, record: WorkRow) -> str:
        return quantities_text(record.asked)
