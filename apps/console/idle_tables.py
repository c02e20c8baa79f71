"""Tables of `/chargeback/idle/`. Input: rows of apps.usage in unit-seconds; output: hours on the page, seconds in the CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from apps.console.links import address, queue_url
from apps.console.use_tables import NOT_MEASURED, HoursColumn, unit_words
from apps.core.gpu import model_label
from apps.core.tables import PortalTable, RatioColumn, TextColumn
from apps.fleet.models import Cluster
from apps.usage.commitments import KIND_OF_WORK
from apps.usage.idling import Idling
from apps.usage.supply import Supply

SEVERAL = _("several kinds")
_QUEUES = {work: queue for queue, work in KIND_OF_WORK.items()}


class KindColumns(PortalTable):
    """The columns that say what one unit is; rows have `resource` and `unit`. The page has them in one."""

    model = TextColumn(verbose_name=_("Unit"), accessor="unit__model", empty_values=())
    resource = TextColumn(verbose_name=_("Resource"), visible=False)
    sharing_mode = TextColumn(verbose_name=_("Sharing mode"), accessor="unit__sharing_mode", visible=False)
    profile = TextColumn(verbose_name=_("Profile"), accessor="unit__profile", visible=False)

    class Meta(PortalTable.Meta):
        pass

    def render_model(self, record: Any) -> SafeString:
        model = model_label(record.unit.model) if record.unit.model else _("model not known")
        what = unit_words(record.resource, record.unit.sharing_mode, record.unit.profile)
        return format_html('{}<br><span class="muted">{}</span>', model, what)

    def value_model(self, record: Any) -> str:
        return str(record.unit.model)


class IdleTable(KindColumns):
    """By queue and kind of unit: promised and unused, reserved without a pod, held and not busy."""

    caption = _("What idles, by queue")
    file_name = "idle"

    queue = TextColumn(verbose_name=_("Queue"), accessor="whose__queue", classes="name", empty_values=())
    cluster = TextColumn(verbose_name=_("Cluster"), accessor="cluster_name", hide_small=True)
    team = TextColumn(verbose_name=_("Team"), accessor="team_name", empty_values=(), hide_small=True)
    nominal = HoursColumn(verbose_name=_("Promised"), hide_small=True)
    unused = HoursColumn(verbose_name=_("Promised, unused"), hide_small=True)
    reserved = HoursColumn(verbose_name=_("Reserved"), hide_small=True)
    unbound = HoursColumn(verbose_name=_("Reserved, no pod"), absent=SEVERAL)
    bound = HoursColumn(verbose_name=_("Bound to pods"), hide_small=True)
    measured = HoursColumn(verbose_name=_("Measured"), visible=False)
    held_idle = HoursColumn(verbose_name=_("Held idle"), absent=NOT_MEASURED)
    efficiency = RatioColumn(verbose_name=_("Efficiency"), absent="–", hide_small=True)
    kind = TextColumn(verbose_name=_("Kind of work"), accessor="whose__kind", visible=False)

    class Meta(KindColumns.Meta):
        empty_text = _("Nothing was promised or held in this time.")
        sequence = (
            "queue",
            "cluster",
            "team",
            "model",
            "...",
            "resource",
            "sharing_mode",
            "profile",
            "kind",
        )

    def render_queue(self, record: Idling) -> SafeString | str:
        name, kind = record.whose.queue, _QUEUES.get(record.whose.kind, "")
        if not name:
            return str(_("no queue"))
        if not kind:
            return name
        return format_html('<a href="{}">{}</a>', queue_url(record.cluster, kind, name), name)

    def value_queue(self, record: Idling) -> str:
        return record.whose.queue

    def value_cluster(self, record: Idling) -> str:
        return record.cluster

    def render_team(self, record: Idling) -> SafeString | str:
        if not record.team:
            return str(_("no team"))
        return format_html('<a href="{}">{}</a>', address("team", record.team), record.team_name)

    def value_team(self, record: Idling) -> str:
        return record.team


class SupplyTable(KindColumns):
    """What there was, hour by hour, and where it went."""

    caption = _("What there was, by kind of unit")
    file_name = "supply"

    cluster = TextColumn(verbose_name=_("Cluster"), accessor="cluster_id", classes="name")
    physical = HoursColumn(verbose_name=_("Physical"), hide_small=True)
    allocatable = HoursColumn(verbose_name=_("Allocatable"), hide_small=True)
    held = HoursColumn(verbose_name=_("Held by pods"))
    idle_reserved = HoursColumn(verbose_name=_("Idle, reserved"), hide_small=True)
    idle_free = HoursColumn(verbose_name=_("Idle, free"))
    out = HoursColumn(verbose_name=_("Out of use"), hide_small=True)
    unobserved = HoursColumn(verbose_name=_("Not observed"), hide_small=True)
    idle_share = RatioColumn(verbose_name=_("Idle share"), absent="–")

    class Meta(KindColumns.Meta):
        empty_text = _("What there was is not known for this time; it is noted from the first collection on.")
        sequence = ("cluster", "model", "...", "resource", "sharing_mode", "profile")

    def __init__(self, rows: Sequence[Supply], *, names: Mapping[int, Cluster], **kwargs: Any) -> None:
        super().__init__([row for row in rows if row.physical], **kwargs)
        self.names = names

    def render_cluster(self, record: Supply) -> str:
        return self.names[record.cluster_id].name

    def value_cluster(self, record: Supply) -> str:
        return self.names[record.cluster_id].slug
