"""Rows of the teams table. Input: team summaries and the longest waits; output: one row per team and unit kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from apps.accounts.models import Team, User
from apps.accounts.selectors import sees_all_teams, visible_teams
from apps.admissions.labels import cause_label
from apps.admissions.selectors import WaitingRow, oldest_wait
from apps.console.access import reader
from apps.console.frame import Page
from apps.console.links import address
from apps.core.formats import NOT_APPLICABLE, number_text, percent_text
from apps.core.tables import (
    BarColumn,
    DurationColumn,
    LinkColumn,
    NumberColumn,
    PortalTable,
    RatioColumn,
    TextColumn,
)
from apps.core.templatetags.portal import quota_bar
from apps.quotas.rows import TeamLine, TeamSummary
from apps.quotas.selectors import team_summaries
from apps.usage.devices import TeamBusy, team_utilisation


@dataclass(frozen=True, slots=True)
class TeamRow:
    """`used` … `waiting` in units of `unit`; None: the team has no quota of that kind, or nothing was read.
    `utilisation_ratio`: mean over the devices that the team's pods are on; None: no device said. `left_out`:
    shared devices that are not in it, see usage.devices."""

    name: str
    slug: str
    unit: str
    used: Decimal | None
    nominal: Decimal | None
    borrowed: Decimal | None
    ceiling: Decimal | None
    waiting_units: Decimal | None
    waiting: int | None
    cause: str
    wait_seconds: int | None
    utilisation_ratio: Decimal | None
    left_out: int = 0
    more: int = 0


def _telling(lines: Iterable[TeamLine]) -> list[TeamLine]:
    """Most held and asked for first; without those of which there is nothing to say."""
    some = [line for line in lines if line.used or line.waiting or line.nominal or line.ceiling]
    return sorted(some, key=lambda line: -(line.used + line.waiting_units))


def team_rows(
    *,
    teams: Iterable[Team],
    summaries: Iterable[TeamSummary],
    oldest: Mapping[int | None, WaitingRow],
    busy: Mapping[int, TeamBusy],
    every_unit: bool,
) -> list[TeamRow]:
    """One row per team with its largest unit kind, or with `every_unit` one per kind."""
    by_team = {summary.team_id: summary for summary in summaries}
    rows = []
    for team in teams:
        lines = _telling(by_team[team.pk].lines if team.pk in by_team else ())
        wait = oldest.get(team.pk)
        devices = busy.get(team.pk)
        common: dict[str, Any] = {
            "name": team.name,
            "slug": team.slug,
            "cause": wait.cause if wait is not None else "",
            "wait_seconds": wait.wait_seconds if wait is not None else None,
            "utilisation_ratio": devices.ratio if devices is not None else None,
            "left_out": devices.left_out if devices is not None else 0,
        }
        shown = lines if every_unit else lines[:1]
        for line in shown:
            rows.append(
                TeamRow(
                    **common,
                    unit=line.unit_label,
                    used=line.used,
                    nominal=line.nominal,
                    borrowed=line.borrowed,
                    ceiling=line.ceiling,
                    waiting_units=line.waiting_units,
                    waiting=line.waiting,
                    more=len(lines) - len(shown),
                )
            )
        if not shown:
            rows.append(
                TeamRow(
                    **common,
                    unit="",
                    used=None,
                    nominal=None,
                    borrowed=None,
                    ceiling=None,
                    waiting_units=None,
                    waiting=None,
                )
            )
    return rows


def _unit_note(row: TeamRow) -> str:
    if not row.unit:
        return str(_("no quota"))
    if not row.more:
        return row.unit
    more = ngettext("%(unit)s, %(n)d more kind", "%(unit)s, %(n)d more kinds", row.more)
    return more % {"unit": row.unit, "n": row.more}


class TeamTable(PortalTable):
    """The teams with their use against quota."""

    caption = _("Teams: use against quota, and what waits")
    file_name = "teams"

    name = LinkColumn(
        verbose_name=_("Team"), url=lambda row: address("team", row.slug), note=_unit_note, classes="name"
    )
    unit = TextColumn(verbose_name=_("Unit"), visible=False)
    bar = BarColumn(
        verbose_name=_("Use, nominal (mark), ceiling"),
        accessor="used",
    )
    used = NumberColumn(verbose_name=_("Used"), absent=NOT_APPLICABLE)
    nominal = NumberColumn(verbose_name=_("Nominal"), visible=False)
    borrowed = NumberColumn(verbose_name=_("Borrowed"), absent=NOT_APPLICABLE, hide_small=True)
    ceiling = NumberColumn(verbose_name=_("Ceiling"), absent=NOT_APPLICABLE, hide_small=True)
    waiting_units = NumberColumn(verbose_name=_("Waiting"), absent=NOT_APPLICABLE)
    cause = TextColumn(verbose_name=_("Held back by"), hide_small=True)
    wait_seconds = DurationColumn(verbose_name=_("Oldest wait"), hide_small=True)
    utilisation_ratio = RatioColumn(verbose_name=_("GPU util."), absent=NOT_APPLICABLE, hide_small=True)
    left_out = NumberColumn(verbose_name=_("Shared cards left out of it"), visible=False)

    class Meta(PortalTable.Meta):
        empty_text = _("You belong to no team yet. A platform admin can add you to one.")

    def render_bar(self, record: TeamRow) -> SafeString | str:
        if record.used is None:
            return NOT_APPLICABLE
        return quota_bar(record.used, record.nominal, record.ceiling)

    def render_used(self, record: TeamRow) -> SafeString | str:
        if record.used is None:
            return NOT_APPLICABLE
        nominal = NOT_APPLICABLE if record.nominal is None else number_text(record.nominal)
        return format_html('{}<span class="muted"> / {}</span>', number_text(record.used), nominal)

    def render_cause(self, value: str) -> SafeString:
        return cause_tag(value)

    def render_utilisation_ratio(self, record: TeamRow) -> SafeString | str:
        ratio = record.utilisation_ratio
        said = NOT_APPLICABLE if ratio is None else percent_text(ratio)
        if not record.left_out:
            return said
        note = ngettext("without %(n)d shared card", "without %(n)d shared cards", record.left_out)
        return format_html('{}<br><span class="muted">{}</span>', said, note % {"n": record.left_out})


NO_TEAM = _("No team is set up yet. Make teams and bind their queues in Admin.")


def no_team_text(user: User) -> SafeString | str | None:
    """What an empty table says to those who read every team, with the way there for who may go; None: others, to
    whom the table's own words apply."""
    if not sees_all_teams(user):
        return None
    if not user.is_staff:
        return str(NO_TEAM)
    return format_html('<a href="{}">{}</a>', reverse("admin:index"), NO_TEAM)


def cause_tag(cause: str) -> SafeString:
    """A cause as a coloured square and a word."""
    return format_html('<span class="tag {}"><b>{}</b></span>', cause, cause_label(cause))


def team_table(page: Page, *, every_unit: bool) -> TeamTable:
    """The table of the teams that the reader of `page` may see."""
    who = reader(page.request)
    rows = team_rows(
        teams=visible_teams(who),
        summaries=team_summaries(now=page.now, team_ids=page.team_ids, clusters=page.clusters),
        oldest=oldest_wait(now=page.now, team_ids=page.team_ids),
        busy=team_utilisation(now=page.now, clusters=page.clusters, team_ids=page.team_ids),
        every_unit=every_unit,
    )
    return TeamTable(rows, empty_text=no_team_text(who))
