"""`/changes/`: the change requests that the reader may see; `/changes/calendar/`: what holds for a time, now and next.

Whoever may decide and has something to decide is led there, unless the address asks for something else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime

from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.utils import timezone
from django.utils.translation import gettext as _

from apps.accounts.models import Team, User
from apps.accounts.selectors import led_teams
from apps.changes.filters import CLOSED, KINDS, OPEN, ChangeFilterForm, team_ids_of_requests
from apps.changes.models import ChangeRequest, State
from apps.changes.permissions import visible_requests
from apps.changes.selectors import in_force, inbox_count
from apps.console.access import named_or_404, reader
from apps.console.change_tables import CalendarTable, ChangeTable, for_table, request_url
from apps.console.change_words import names_of, team_text
from apps.console.changes_objects import lines_of
from apps.console.frame import QUOTA, Page
from apps.console.links import address
from apps.core.formats import listed_apart
from apps.core.tables import table_csv, wants_csv
from apps.fleet.selectors import UNBOUND


def changes(request: HttpRequest) -> HttpResponseBase:
    page, who = Page.open(request, sources=QUOTA), reader(request)
    waiting = inbox_count(who)
    if waiting and not set(request.GET) - {"cluster"}:
        return HttpResponseRedirect(address("changes", cluster=page.cluster_slug, inbox="on"))
    form = ChangeFilterForm(request.GET, now=page.now, team_ids=team_ids_of_requests(who))
    valid = form.is_valid()
    named_or_404(form)
    found = form.narrowed(visible_requests(who), who) if valid else ChangeRequest.objects.none()
    # What waits longest is decided first; elsewhere what is new is looked for.
    order = "asked_at" if request.GET.get("inbox") else "-created_at"
    table = ChangeTable(for_table(found.order_by(order, "-pk")))
    if wants_csv(request, "changes"):
        return table_csv(table, request)
    context = {
        "form": form,
        "states": [(OPEN, _("all open")), (CLOSED, _("all closed")), *State.choices],
        "origins": ChangeRequest.Origin.choices,
        "kinds": KINDS,
        "teams": _teams(who),
        "platform": UNBOUND if who.is_platform_admin else "",
        "filtered": any(request.GET.get(name) for name in _NARROWING),
        # Without an input of their own: links set them.
        "kept": [(name, request.GET[name]) for name in _LINKED if request.GET.get(name)],
        "waiting": waiting,
        "may_ask": led_teams(who).exists(),
        "table": page.prepare(table),
    }
    return page.render("console/changes/list.html", context, section="changes")


_LINKED = ("namespace", "requester", "from", "to")
_NARROWING = ("team", "kind", "name", "origin", "mine", *_LINKED)


def _teams(who: User) -> list[Team]:
    chosen = team_ids_of_requests(who)
    found = Team.objects.order_by("name")
    return list(found if chosen is None else found.filter(pk__in=chosen))


def calendar(request: HttpRequest) -> HttpResponseBase:
    page, who = Page.open(request, sources=QUOTA), reader(request)
    found = in_force(who, page.now)
    if page.cluster is not None:
        found = found.filter(cluster=page.cluster)
    table = CalendarTable(for_table(found))
    if wants_csv(request, "calendar"):
        return table_csv(table, request)
    context = {"days": days(for_table(found)), "waiting": inbox_count(who), "table": table}
    return page.render("console/changes/calendar.html", context, section="changes")


@dataclass(frozen=True, slots=True)
class Event:
    """What happens to a request at a time: it starts, or else it ends."""

    at: datetime
    starts: bool
    request: ChangeRequest

    @property
    def url(self) -> str:
        return request_url(self.request)

    @property
    def names(self) -> str:
        return names_of(self.request)

    @property
    def team(self) -> str:
        return team_text(self.request)

    @property
    def lines(self) -> str:
        return listed_apart(lines_of(self.request, list(self.request.steps.all())))


def days(requests: Iterable[ChangeRequest]) -> list[tuple[date, list[Event]]]:
    """The next start or end of each, by day in the display zone; of what starts later and ends, both."""
    events = []
    for request in requests:
        coming = request.state == State.APPROVED
        if coming and request.starts_at is not None:
            events.append(Event(request.starts_at, True, request))
        if request.ends_at is not None:
            events.append(Event(request.ends_at, False, request))
    found: dict[date, list[Event]] = {}
    for event in sorted(events, key=lambda one: (one.at, one.request.pk)):
        found.setdefault(timezone.localtime(event.at).date(), []).append(event)
    return list(found.items())
