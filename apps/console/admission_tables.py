"""Tables of `/admissions/over-time/`, `/admissions/work/` and `/admissions/wait-times/`. Input: rows of apps.usage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal

from django.utils.functional import Promise
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.admissions.labels import cause_label
from apps.admissions.statistics import Seconds
from apps.console.links import address, workload_url
from apps.console.team_rows import cause_tag
from apps.core.formats import duration_text, number_text, percent_text, quantities_text
from apps.core.tables import (
    DurationColumn,
    LinkColumn,
    NumberColumn,
    PortalTable,
    RatioColumn,
    TextColumn,
    TimeColumn,
)
from apps.core.windows import Window
from apps.usage.admission_filters import LISTED_UP_TO
from apps.usage.blocked import BlockedTable, Trend, WeekHeat
from apps.usage.blocked_work import BlockedWork
from apps.usage.outcomes import OutcomeRow
from apps.usage.shapes import Shape
from apps.usage.waits import WaitRow

HEAT_STEPS = 5
QUEUES_SHOWN = 15
_SMALLEST = Decimal("0.05")
WEEKDAYS = (_("Mon"), _("Tue"), _("Wed"), _("Thu"), _("Fri"), _("Sat"), _("Sun"))


def behind(query: Mapping[str, str]) -> str:
    """The list of the work behind a number; of a span that is too long to list, the same page narrowed to it."""
    length = datetime.fromisoformat(query["to"]) - datetime.fromisoformat(query["from"])
    return address("blocked_work" if length <= LISTED_UP_TO else "admissions_over_time", **query)


def _hours_text(hours: Decimal) -> str:
    if 0 < hours < _SMALLEST:
        return "<0.1"
    return f"{hours.quantize(Decimal('0.1'), rounding=ROUND_HALF_UP):,f}"


class HoursColumn(NumberColumn):
    """Hours with their tenth, so that the figures of a column stand below each other."""

    def render(self, value: Decimal | None) -> str | SafeString:
        return super().render(None) if value is None else _hours_text(value)


class TrendTable(PortalTable):
    """One row per cause (or layer, …): hours blocked now and in the week before."""

    caption = _("Blocked, against the week before")
    file_name = "blocked-trend"

    label = LinkColumn(verbose_name=_("Cause"), url=lambda row: behind(row.query))
    hours = HoursColumn(verbose_name=_("Hours"))
    before = HoursColumn(verbose_name=_("Week before"), absent=_("not recorded"))
    change = RatioColumn(verbose_name=_("Change"), absent="–")
    key = TextColumn(verbose_name=_("Key"), visible=False)

    class Meta(PortalTable.Meta):
        empty_text = _("Nothing was blocked in this time.")

    @property
    def covered(self) -> Window | None:
        """The whole hours that are added up; None: no row says."""
        first: Trend | None = next(iter(self.data), None)
        return None if first is None else first.covered

    def render_change(self, record: Trend) -> str:
        if record.change is None:
            return "–"
        sign = "+" if record.change > 0 else ""
        return f"{sign}{percent_text(record.change)}"


class BlockedWorkTable(PortalTable):
    """The work behind a number: how long each piece of it was blocked in the window, and by what."""

    caption = _("Work that was blocked")
    file_name = "blocked-work"

    name = LinkColumn(
        verbose_name=_("Workload"),
        url=workload_url,
        note=lambda row: " · ".join(part for part in (row.namespace, row.queue) if part),
        classes="name",
    )
    namespace = TextColumn(verbose_name=_("Namespace"), visible=False)
    kind = TextColumn(verbose_name=_("Kind"), visible=False)
    cluster_name = TextColumn(verbose_name=_("Cluster"), hide_small=True)
    team_name = TextColumn(verbose_name=_("Team"), hide_small=True)
    queue = TextColumn(verbose_name=_("Queue"), visible=False)
    causes = TextColumn(verbose_name=_("By"), orderable=False)
    hours = HoursColumn(verbose_name=_("Hours"))
    uid = TextColumn(verbose_name=_("UID"), visible=False)

    class Meta(PortalTable.Meta):
        empty_text = _("Nothing was blocked in this time.")

    def render_causes(self, value: Sequence[str]) -> SafeString:
        return format_html_join(" ", "{}", ((cause_tag(cause),) for cause in value))

    def value_causes(self, record: BlockedWork) -> str:
        return "; ".join(record.causes)


class OutcomeTable(PortalTable):
    """What became of work, one row per queue; rates say below what they are shares of."""

    caption = _("What became of work")
    file_name = "outcomes"

    label = TextColumn(verbose_name=_("Queue"), classes="name")
    submitted = NumberColumn(verbose_name=_("Submitted"), accessor="counts__submitted", absent="0")
    reserved = NumberColumn(verbose_name=_("Got quota"), accessor="counts__reserved", absent="0")
    over = NumberColumn(verbose_name=_("Work ended"))
    completion = RatioColumn(verbose_name=_("Completed"), absent="–")
    failure = RatioColumn(verbose_name=_("Failed"), absent="–")
    retry = RatioColumn(verbose_name=_("Retries"), absent="–")
    eviction = RatioColumn(verbose_name=_("Evictions"), absent="–")
    preemption = RatioColumn(verbose_name=_("Preemptions"), absent="–")

    class Meta(PortalTable.Meta):
        empty_text = _("Nothing happened in this time.")

    def value_submitted(self, record: OutcomeRow) -> int:
        return record.count("submitted")

    def value_reserved(self, record: OutcomeRow) -> int:
        return record.count("reserved")


def _asks(shape: Shape) -> str:
    return quantities_text(shape.devices) or gettext("no devices")


def _waiting_like(shape: Shape) -> str:
    return address("admissions", **shape.query)


class ShapeTable(PortalTable):
    """Waiting work that asks the same of the same queue, once."""

    caption = _("Identical requests that wait")
    file_name = "blocked-shapes"

    queue = LinkColumn(verbose_name=_("Queue"), url=_waiting_like, note=_asks, classes="name")
    cluster = TextColumn(verbose_name=_("Cluster"), hide_small=True)
    count = NumberColumn(verbose_name=_("Workloads"))
    causes = TextColumn(verbose_name=_("Why"), orderable=False)
    waited_seconds = DurationColumn(verbose_name=_("Waited together"))
    oldest_at = TimeColumn(verbose_name=_("Oldest since"), hide_small=True)
    beyond = TextColumn(verbose_name=_("Beyond any quota"), orderable=False, visible=False)
    devices = TextColumn(verbose_name=_("Asks for"), orderable=False, visible=False)

    class Meta(PortalTable.Meta):
        empty_text = _("Nothing waits here.")

    def render_causes(self, value: Sequence[tuple[str, int]]) -> SafeString:
        return format_html_join(
            " ", "{} {}", ((cause_tag(cause), number_text(count)) for cause, count in value)
        )

    def value_causes(self, record: Shape) -> str:
        return "; ".join(f"{cause_label(cause)}={count}" for cause, count in record.causes)

    def value_devices(self, record: Shape) -> str:
        return "; ".join(f"{name}={number_text(n, places=3)}" for name, n in record.devices.items())

    def render_beyond(self, record: Shape) -> str:
        return self.value_beyond(record)

    def value_beyond(self, record: Shape) -> str:
        nowhere = gettext("not offered")
        return "; ".join(
            f"{lack.resource}: {nowhere if lack.beyond is None else '+' + number_text(lack.beyond)}"
            for lack in record.beyond
        )


class NeverTable(ShapeTable):
    """Of these only what no quota of its queue could ever give."""

    caption = _("Requests that no quota could ever meet")
    file_name = "never-fits"

    beyond = TextColumn(verbose_name=_("Beyond any quota"), orderable=False)

    class Meta(PortalTable.Meta):
        empty_text = _("Everything that waits could fit one day.")
        sequence = ("queue", "cluster", "count", "beyond", "...")


class WaitTable(PortalTable):
    """Percentiles of waits. What gave up or still waits counts as lasting longer than it was seen to."""

    caption = _("How long work waited for quota")
    file_name = "wait-times"

    label = TextColumn(verbose_name=_("Queue"), classes="name")
    which = TextColumn(verbose_name=_("Wait"))
    p50 = DurationColumn(verbose_name=_("Half within"), empty_values=())
    p90 = DurationColumn(verbose_name=_("90 % within"), empty_values=())
    p99 = DurationColumn(verbose_name=_("99 % within"), empty_values=())
    count = NumberColumn(verbose_name=_("Waits"))
    reserved = NumberColumn(verbose_name=_("Got quota"), hide_small=True)
    gave_up = NumberColumn(verbose_name=_("Gave up"), hide_small=True)
    still_waiting = NumberColumn(verbose_name=_("Still waiting"))

    class Meta(PortalTable.Meta):
        empty_text = _("No wait began in this time.")

    def render_label(self, record: WaitRow) -> str:
        return record.label or str(_("not given"))

    def render_which(self, value: str) -> str:
        return str(_("first") if value == "first" else _("again"))

    def value_which(self, record: WaitRow) -> str:
        return record.which

    def render_p50(self, record: WaitRow) -> str:
        return _reached(record.p50, record)

    def render_p90(self, record: WaitRow) -> str:
        return _reached(record.p90, record)

    def render_p99(self, record: WaitRow) -> str:
        return _reached(record.p99, record)


def _reached(seconds: Seconds | None, row: WaitRow) -> str:
    if seconds is not None:
        return duration_text(seconds)
    # What was held on purpose all the time has not waited for quota at all.
    return "–" if not row.longest else gettext("more than %(time)s") % {"time": duration_text(row.longest)}


# ---- heat maps --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeatCell:
    """`level` 0 (nothing) … HEAT_STEPS: how dark. `url` "" leads nowhere."""

    text: str
    level: int
    url: str = ""


@dataclass(frozen=True, slots=True)
class Heat:
    """A table of shaded numbers; `rest`: rows that are not shown; `covered`: the time they are of, where that differs
    from the page's own."""

    title: str | Promise
    corner: str | Promise
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[HeatCell]]]
    rest: int = 0
    covered: Window | None = None


def _cell(hours: Decimal, most: Decimal, url: str = "") -> HeatCell:
    if not hours:
        return HeatCell("", 0)
    level = 1 + min(HEAT_STEPS - 1, int(hours / most * HEAT_STEPS)) if most else 1
    text = "<0.1" if hours < _SMALLEST else number_text(hours, places=0 if hours >= 10 else 1)
    return HeatCell(text, level, url)


def by_queue(found: BlockedTable) -> Heat:
    """Queue × cause, the queues with most first."""
    most = max((cell.hours for cell in found.cells.values()), default=Decimal(0))
    shown = found.columns[:QUEUES_SHOWN]
    rows = []
    for queue in shown:
        cells = [found.cells.get((cause, queue)) for cause in found.rows]
        label = found.column_labels[queue] or gettext("no queue")
        rows.append((label, [_cell(c.hours, most, behind(c.query)) if c else HeatCell("", 0) for c in cells]))
    columns = [found.row_labels[cause] for cause in found.rows]
    return Heat(
        _("Hours blocked by queue and cause"),
        _("Queue"),
        columns,
        rows,
        rest=len(found.columns) - len(shown),
        covered=found.covered,
    )


def by_week(found: WeekHeat) -> Heat:
    """Weekday × hour of the day, in UTC."""
    most = max((hours for day in found.hours for hours in day), default=Decimal(0))
    rows = [(str(WEEKDAYS[i]), [_cell(hours, most) for hours in day]) for i, day in enumerate(found.hours)]
    return Heat(
        _("Hours blocked by weekday and hour (UTC)"), _("Day"), [f"{hour:02d}" for hour in range(24)], rows
    )
