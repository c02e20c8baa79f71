"""The tables of a what-if's result. Input: the answer's plain lines; output: tables for the page and for CSV."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.console.links import address, queue_url
from apps.core.tables import LinkColumn, NumberColumn, PortalTable, TextColumn
from apps.fleet.registry import is_device
from apps.quotas.engine.model import Work
from apps.quotas.sentences import amount_text
from apps.quotas.what_if import Answer
from apps.quotas.what_if_diff import Effect, QuotaLine, TeamLine, Waiting
from apps.quotas.what_if_words import holding_text, reason_text, refused_text, what_text, why_text

TeamName = Callable[[int | None], str]


@dataclass(frozen=True, slots=True)
class WorkRow:
    """One effect or one waiting workload, as it reads."""

    work: Work
    hypothetical: bool
    cluster: str
    team: str
    what: str
    before: str
    after: str
    by: str
    by_uid: str
    why: str
    details: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.work.name

    @property
    def queue(self) -> str:
        return self.work.queue

    @property
    def priority(self) -> int:
        return self.work.priority


def _work_url(row: WorkRow) -> str:
    return "" if row.hypothetical else address("workload", row.work.uid)


def _work_note(row: WorkRow) -> str:
    return gettext("hypothetical") if row.hypothetical else row.work.namespace


def _queue_of_work(row: WorkRow) -> str:
    return queue_url(row.cluster, "ClusterQueue", row.queue)


class EffectTable(PortalTable):
    caption = _("What would happen to which workload")
    file_name = "what-if-effects"

    name = LinkColumn(verbose_name=_("Workload"), url=_work_url, note=_work_note, classes="name")
    what = TextColumn(verbose_name=_("What happens"))
    team = TextColumn(verbose_name=_("Team"), hide_small=True)
    queue = LinkColumn(verbose_name=_("Queue"), url=_queue_of_work, hide_small=True)
    priority = NumberColumn(verbose_name=_("Priority"), hide_small=True, places=0)
    before = TextColumn(verbose_name=_("Holds without the change"))
    after = TextColumn(verbose_name=_("Holds with it"))
    by = TextColumn(verbose_name=_("For"), hide_small=True)
    why = TextColumn(verbose_name=_("Why"), hide_small=True)

    class Meta(PortalTable.Meta):
        empty_text = _("No work that you may see starts, stops or moves because of this change.")

    def render_by(self, value: str, record: WorkRow) -> str | SafeString:
        if not record.by_uid:
            return value
        return format_html('<a href="{}">{}</a>', address("workload", record.by_uid), value)


class StillWaitingTable(PortalTable):
    caption = _("Work that waits for another reason than before")
    file_name = "what-if-waiting"

    name = LinkColumn(verbose_name=_("Workload"), url=_work_url, note=_work_note, classes="name")
    team = TextColumn(verbose_name=_("Team"), hide_small=True)
    queue = LinkColumn(verbose_name=_("Queue"), url=_queue_of_work, hide_small=True)
    priority = NumberColumn(verbose_name=_("Priority"), hide_small=True, places=0)
    before = TextColumn(verbose_name=_("Without the change"))
    after = TextColumn(verbose_name=_("With it"))
    why = TextColumn(verbose_name=_("Exactly"), hide_small=True)

    class Meta(PortalTable.Meta):
        empty_text = _("Nothing waits for another reason than before.")


@dataclass(frozen=True, slots=True)
class NumberRow:
    """A quota line with its cluster, for links."""

    cluster: str
    line: QuotaLine

    @property
    def name(self) -> str:
        return self.line.name


def _node(row: NumberRow) -> str:
    return queue_url(row.cluster, row.line.kind, row.line.name)


def _node_note(row: NumberRow) -> str:
    if row.line.kind == "Cohort":
        return gettext("cohort")
    return gettext("cohort %(name)s") % {"name": row.line.cohort} if row.line.cohort else ""


class ChangeColumn(TextColumn):
    """A number before and after: "8 → 12", or the one number where it stays. The CSV has both, by two columns."""

    classes = ("num",)

    def __init__(self, number: str, **kwargs: Any) -> None:
        super().__init__(accessor="line", orderable=False, exclude_from_export=True, **kwargs)
        self.number = number

    def render(self, value: QuotaLine) -> str | SafeString:
        before, after = (getattr(side, self.number) for side in (value.before, value.after))
        return changed(before, after, value.resource)


def changed(before: Decimal | None, after: Decimal | None, resource: str) -> str | SafeString:
    first, second = (_amount(number, resource) for number in (before, after))
    if before == after:
        return first
    return format_html('<span class="was">{}</span> → <strong>{}</strong>', first, second)


def _amount(number: Decimal | None, resource: str) -> str:
    return "–" if number is None else amount_text(resource, number)


def _plain(side: str, number: str, label: object) -> TextColumn:
    return TextColumn(verbose_name=label, accessor=f"line__{side}__{number}", visible=False)


class NumbersTable(PortalTable):
    caption = _("Quota numbers that change")
    file_name = "what-if-quota"

    name = LinkColumn(verbose_name=_("Queue or cohort"), url=_node, note=_node_note, classes="name")
    kind = TextColumn(verbose_name=_("Kind"), accessor="line__kind", visible=False)
    cohort = TextColumn(verbose_name=_("Cohort"), accessor="line__cohort", visible=False)
    flavor = TextColumn(verbose_name=_("Flavor"), accessor="line__flavor", classes="name")
    resource = TextColumn(verbose_name=_("Resource"), accessor="line__resource", hide_small=True)
    nominal = ChangeColumn("nominal", verbose_name=_("Nominal"))
    ceiling = ChangeColumn("ceiling", verbose_name=_("Ceiling"))
    holds = ChangeColumn("holds", verbose_name=_("Held"))
    borrowed = ChangeColumn("borrowed", verbose_name=_("Borrowed"), hide_small=True)
    lent = ChangeColumn("lent", verbose_name=_("Lent"), hide_small=True)
    over = ChangeColumn("over", verbose_name=_("Over by"), hide_small=True)
    nominal_before = _plain("before", "nominal", _("Nominal before"))
    nominal_after = _plain("after", "nominal", _("Nominal after"))
    ceiling_before = _plain("before", "ceiling", _("Ceiling before"))
    ceiling_after = _plain("after", "ceiling", _("Ceiling after"))
    holds_before = _plain("before", "holds", _("Held before"))
    holds_after = _plain("after", "holds", _("Held after"))
    borrowed_before = _plain("before", "borrowed", _("Borrowed before"))
    borrowed_after = _plain("after", "borrowed", _("Borrowed after"))
    lent_before = _plain("before", "lent", _("Lent before"))
    lent_after = _plain("after", "lent", _("Lent after"))
    over_before = _plain("before", "over", _("Over before"))
    over_after = _plain("after", "over", _("Over after"))

    class Meta(PortalTable.Meta):
        empty_text = _("No number of quota changes.")


@dataclass(frozen=True, slots=True)
class HolderRow:
    """A team, or everybody else in one tree."""

    team: str
    flavor: str
    resource: str
    before: Decimal
    after: Decimal

    @property
    def change(self) -> Decimal:
        return self.after - self.before


class HoldersTable(PortalTable):
    caption = _("What teams hold with and without the change")
    file_name = "what-if-teams"

    team = TextColumn(verbose_name=_("Team"), classes="name")
    flavor = TextColumn(verbose_name=_("Flavor"), classes="name")
    resource = TextColumn(verbose_name=_("Resource"), hide_small=True)
    before = NumberColumn(verbose_name=_("Without the change"))
    after = NumberColumn(verbose_name=_("With it"))
    change = NumberColumn(verbose_name=_("Change"))

    class Meta(PortalTable.Meta):
        empty_text = _("No team holds more or less.")

    def render_before(self, value: Decimal, record: HolderRow) -> str:
        return amount_text(record.resource, value)

    def render_after(self, value: Decimal, record: HolderRow) -> str:
        return amount_text(record.resource, value)

    def render_change(self, value: Decimal, record: HolderRow) -> str:
        return f"{'+' if value > 0 else '−'}{amount_text(record.resource, abs(value))}"


def effect_rows(answer: Answer, team_name: TeamName) -> list[WorkRow]:
    return [_effect_row(answer, effect, team_name) for effect in answer.comparison.effects]


def _effect_row(answer: Answer, effect: Effect, team_name: TeamName) -> WorkRow:
    by = effect.by
    unseen = gettext("work of others") if effect.what == "preempted" else ""
    return WorkRow(
        work=effect.work,
        hypothetical=effect.work.uid in answer.added,
        cluster=answer.cluster.slug,
        team=team_name(answer.team_of(effect.work)),
        what=what_text(effect),
        before=holding_text(effect.before, is_device),
        after=holding_text(effect.after, is_device),
        by=by.name if by else unseen,
        by_uid=by.uid if by and by.uid not in answer.added else "",
        why=why_text(effect),
    )


def waiting_rows(answer: Answer, team_name: TeamName) -> list[WorkRow]:
    return [_waiting_row(answer, line, team_name) for line in answer.comparison.waiting]


def _waiting_row(answer: Answer, line: Waiting, team_name: TeamName) -> WorkRow:
    return WorkRow(
        work=line.work,
        hypothetical=line.work.uid in answer.added,
        cluster=answer.cluster.slug,
        team=team_name(answer.team_of(line.work)),
        what="",
        before=refused_text(line.before),
        after=refused_text(line.after),
        by="",
        by_uid="",
        why="; ".join(dict.fromkeys(reason_text(reason) for reason in line.after.reasons)),
    )


def number_rows(answer: Answer) -> list[NumberRow]:
    lines = sorted(answer.comparison.quotas, key=lambda line: not is_device(line.resource))
    return [NumberRow(answer.cluster.slug, line) for line in lines]


def holder_rows(answer: Answer, team_name: TeamName) -> list[HolderRow]:
    def row(line: TeamLine) -> HolderRow:
        return HolderRow(team_name(line.team_id), line.flavor, line.resource, line.before, line.after)

    rows = [row(line) for line in answer.comparison.teams]
    for others in answer.comparison.others:
        name = (
            gettext("others in %(cohort)s") % {"cohort": others.cohort}
            if others.cohort
            else gettext("others")
        )
        rows += [HolderRow(name, *held) for held in others.holds if held[2] != held[3]]
    return sorted(rows, key=lambda found: not is_device(found.resource))
