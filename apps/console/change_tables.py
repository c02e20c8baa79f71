"""Tables of change requests: the list, the calendar and what belongs to one request. Input: rows of `apps.changes`; output:
tables for pages and CSV."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.changes.checks_model import DryRun
from apps.changes.models import AuditEntry, ChangeRequest, ChangeStep
from apps.console.change_words import action_text, actor_text, names_of, since, state_text, team_text, tone
from apps.console.changes_objects import lines_of
from apps.console.links import address
from apps.core.formats import listed_apart, time_text
from apps.core.tables import PortalTable, TextColumn, TimeColumn

LINES_SHOWN = 3


def request_url(request: ChangeRequest) -> str:
    return address("change", str(request.pk))


def for_table(requests: QuerySet[ChangeRequest]) -> QuerySet[ChangeRequest]:
    """With what the tables show of each, in a constant number of queries."""
    drifted = ChangeStep.objects.filter(request=OuterRef("pk"), drift_since__isnull=False)
    return requests.annotate(drifted=Exists(drifted)).prefetch_related("steps")


class ChangeTable(PortalTable):
    """Newest first. Rows of `for_table`."""

    caption = _("Change requests")
    file_name = "changes"

    pk = TextColumn(verbose_name=_("No."))
    edits = TextColumn(verbose_name=_("Change"), classes="wide", orderable=False)
    state = TextColumn(verbose_name=_("State"))
    since = TimeColumn(verbose_name=_("Since"), empty_values=(), orderable=False, hide_small=True)
    team = TextColumn(verbose_name=_("Team"), accessor="team__name", empty_values=(), hide_small=True)
    cluster = TextColumn(verbose_name=_("Cluster"), accessor="cluster__name", hide_small=True)
    created_by = TextColumn(verbose_name=_("Asked by"), accessor="created_by__username", hide_small=True)
    created_at = TimeColumn(verbose_name=_("Asked at"), visible=False)
    starts_at = TimeColumn(verbose_name=_("From"), hide_small=True)
    ends_at = TimeColumn(verbose_name=_("Until"), hide_small=True)
    origin = TextColumn(verbose_name=_("Origin"), visible=False)
    drifted = TextColumn(verbose_name=_("Changed back by somebody else"), visible=False, orderable=False)
    decided_by = TextColumn(verbose_name=_("Decided by"), accessor="decided_by__username", visible=False)
    decided_at = TimeColumn(verbose_name=_("Decided at"), visible=False)
    applied_at = TimeColumn(verbose_name=_("Written at"), visible=False)
    reason = TextColumn(verbose_name=_("Reason"), visible=False, orderable=False)

    class Meta(PortalTable.Meta):
        attrs = {"class": "data top"}
        empty_text = _("There is no such request.")

    def render_pk(self, record: ChangeRequest) -> SafeString:
        return format_html('<a href="{}">#{}</a>', request_url(record), record.pk)

    def render_edits(self, record: ChangeRequest) -> SafeString:
        lines = lines_of(record, list(record.steps.all()))
        told = lines[:LINES_SHOWN]
        if len(lines) > LINES_SHOWN:
            told.append(gettext("and %(n)d more") % {"n": len(lines) - LINES_SHOWN})
        shown = format_html_join("", "<br>{}", [(line,) for line in told])
        return format_html(
            '<a href="{}">{}</a><span class="soft">{}</span><br><span class="muted">{}</span>',
            request_url(record),
            _what(record),
            shown,
            record.reason[:160],
        )

    def value_edits(self, record: ChangeRequest) -> str:
        return listed_apart([_what(record), *lines_of(record, list(record.steps.all()))])

    def render_state(self, record: ChangeRequest) -> SafeString:
        text = format_html('<span class="sev {}">{}</span>', tone(record.state), state_text(record))
        if record.drifted:  # type: ignore[attr-defined]
            mark = gettext("changed back since")
            return format_html('{}<br><span class="sev bad">{}</span>', text, mark)
        return text

    def value_state(self, record: ChangeRequest) -> str:
        return record.state

    def render_since(self, record: ChangeRequest) -> SafeString:
        at = since(record) or record.created_at
        return format_html('<time datetime="{}">{}</time>', at.isoformat(), time_text(at))

    def value_since(self, record: ChangeRequest) -> datetime | None:
        return since(record)

    def render_team(self, record: ChangeRequest) -> str:
        return team_text(record)

    def value_team(self, record: ChangeRequest) -> str:
        return record.team.slug if record.team is not None else ""

    def value_cluster(self, record: ChangeRequest) -> str:
        return record.cluster.slug

    def value_origin(self, record: ChangeRequest) -> str:
        return record.origin

    def value_drifted(self, record: ChangeRequest) -> str:
        return "yes" if record.drifted else "no"  # type: ignore[attr-defined]


def _what(record: ChangeRequest) -> str:
    if record.origin == ChangeRequest.Origin.UNDO:
        return gettext("%(names)s: undo of #%(n)d") % {"names": names_of(record), "n": record.reverts_id or 0}
    if record.origin == ChangeRequest.Origin.END:
        return gettext("%(names)s: end of #%(n)d") % {"names": names_of(record), "n": record.reverts_id or 0}
    return names_of(record)


class CalendarTable(ChangeTable):
    """What is in force, and what will be, in the order of time."""

    caption = _("Changes with a start or an end")
    file_name = "changes-calendar"

    class Meta(ChangeTable.Meta):
        empty_text = _("No change with a start or an end is in force or to come.")


# ---- of one request -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One write of the plan. `trial`: the API server's answer to it as a dry run, None where none was made."""

    step: ChangeStep
    text: str
    trial: DryRun | None

    @property
    def number(self) -> int:
        return self.step.position + 1


class PlanTable(PortalTable):
    """In the order of writing."""

    caption = _("What is written, in order")
    file_name = "change-plan"

    number = TextColumn(verbose_name=_("Step"), orderable=False)
    text = TextColumn(verbose_name=_("Write"), classes="name", orderable=False)
    path = TextColumn(verbose_name=_("Object in the API"), accessor="step__path", visible=False)
    resource_version = TextColumn(
        verbose_name=_("Version that was checked"), accessor="step__resource_version", visible=False
    )
    trial = TextColumn(verbose_name=_("Dry run"), empty_values=(), classes="wide", orderable=False)
    sent_at = TimeColumn(verbose_name=_("Sent"), accessor="step__sent_at", orderable=False, hide_small=True)
    done_at = TimeColumn(verbose_name=_("Written"), accessor="step__done_at", orderable=False)
    written_version = TextColumn(
        verbose_name=_("Version"), accessor="step__written_version", orderable=False, hide_small=True
    )
    observed_at = TimeColumn(
        verbose_name=_("Seen by the collector"),
        accessor="step__observed_at",
        orderable=False,
        hide_small=True,
    )
    answer = TextColumn(
        verbose_name=_("What the cluster said"), accessor="step__answer", classes="wide", orderable=False
    )

    class Meta(PortalTable.Meta):
        empty_text = _("Nothing is planned yet: the check says what would be written.")

    def unused(self) -> list[str]:
        """Columns that say nothing yet."""
        steps = [row.step for row in self.data]
        return [
            name
            for name in ("sent_at", "done_at", "written_version", "observed_at", "answer")
            if not any(getattr(step, name) for step in steps)
        ]

    def render_trial(self, record: PlanRow) -> SafeString | str:
        if record.trial is None:
            return gettext("not tried")
        tag = format_html(
            '<span class="sev {}">{}</span>',
            _TRIAL_TONES[record.trial.verdict],
            _TRIALS[record.trial.verdict],
        )
        if record.trial.verdict == "accepted" or not record.trial.text:
            return tag
        return format_html('{}<pre class="raw mono">{}</pre>', tag, record.trial.text)

    def value_trial(self, record: PlanRow) -> str:
        return "" if record.trial is None else f"{record.trial.verdict} {record.trial.text}".strip()

    def render_answer(self, value: str) -> SafeString:
        return format_html('<pre class="raw mono">{}</pre>', value)


_TRIALS = {"accepted": _("accepted"), "refused": _("refused"), "unknown": _("no answer")}
_TRIAL_TONES = {"accepted": "ok", "refused": "bad", "unknown": "note"}


@dataclass(frozen=True, slots=True)
class MeasureRow:
    """One number of a queue at the moments around a change: as text, "" where it was not noted (yet). `tells` False:
    there is nothing to see in it."""

    queue: str
    resource: str
    what: str
    moments: Mapping[str, str]
    is_device: bool
    tells: bool


class MeasureTable(PortalTable):
    """Queue by queue, resource by resource."""

    caption = _("Before, after 15 minutes and after a day")
    file_name = "change-effects"

    queue = TextColumn(verbose_name=_("Queue"), classes="name", orderable=False)
    resource = TextColumn(verbose_name=_("Resource"), orderable=False)
    what = TextColumn(verbose_name=_("Number"), orderable=False)
    before = TextColumn(verbose_name=_("Before"), accessor="moments__before", classes="num", orderable=False)
    soon = TextColumn(
        verbose_name=_("After 15 minutes"), accessor="moments__15m", classes="num", orderable=False
    )
    later = TextColumn(verbose_name=_("After a day"), accessor="moments__1d", classes="num", orderable=False)

    class Meta(PortalTable.Meta):
        empty_text = _("Nothing was measured yet.")


class TimelineTable(PortalTable):
    """The trail of one request, the first deed first."""

    caption = _("What was done to this request")
    file_name = "change-timeline"

    at = TimeColumn(verbose_name=_("When"), orderable=False)
    actor_name = TextColumn(verbose_name=_("Who"), orderable=False)
    action = TextColumn(verbose_name=_("Deed"), classes="wide", orderable=False)
    reason = TextColumn(verbose_name=_("Why"), visible=False, orderable=False)
    outcome = TextColumn(verbose_name=_("Outcome"), visible=False, orderable=False)

    class Meta(PortalTable.Meta):
        empty_text = _("Nothing was recorded.")

    def render_actor_name(self, value: str) -> str:
        return actor_text(value)

    def render_action(self, record: AuditEntry) -> SafeString:
        text = format_html("{}", action_text(record.action))
        if record.outcome != "done":
            mark = gettext("was not allowed, nothing was done")
            text = format_html('{}<br><span class="sev warn">{}</span>', text, mark)
        if not record.reason:
            return text
        return format_html('{}<br><span class="soft prose">{}</span>', text, record.reason)

    def value_action(self, record: AuditEntry) -> str:
        return record.action
