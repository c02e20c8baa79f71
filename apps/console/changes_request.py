"""`/changes/ID/`: one change request: where it stands, what it would do, what it did, and what the reader may do to it.

GET shows it; POST does one thing (`do`, with the version that was seen) and leads back here. What is refused is said on
the page as it is by then, with what was typed. Works without a script; a request on which the portal works is read anew
each few seconds while nobody types. What the reader may not see is 404."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from apps.accounts.models import User
from apps.changes.errors import (
    BadRequest,
    ChangeRefused,
    Conflict,
    NotAllowed,
    NotPossible,
    NotVisible,
    VersionRequired,
)
from apps.changes.models import ChangeRequest, State
from apps.changes.refusal_words import refusal_text, request_fault_text
from apps.changes.selectors import request_for
from apps.changes.services import DEEDS, act
from apps.console.access import reader
from apps.console.change_tables import PlanTable, request_url
from apps.console.changes_actions import actions_of, why_not
from apps.console.changes_view import Deed, deeds_since, for_page, shown, tables_of
from apps.console.frame import QUOTA, Page
from apps.core.formats import labelled, listed
from apps.core.tables import PortalTable, table_csv, wants_csv

LOOK_AGAIN_SECONDS = 5
SOON_SEEN = timedelta(minutes=10)
"""After this long the collectors should have seen what was written; who still waits looks less often."""
STATUSES: dict[type[ChangeRefused], int] = {
    Conflict: 409,
    NotPossible: 409,
    NotAllowed: 403,
    VersionRequired: 428,
    BadRequest: 400,
}


@dataclass(frozen=True, slots=True)
class Refused:
    """Why what was asked for was not done. `typed`: the reason that was given with it; `seen`: the version that was
    looked at, where somebody else came first."""

    status: int
    text: str
    typed: str
    seen: int | None = None
    meanwhile: Sequence[Deed] = ()


@require_http_methods(["GET", "HEAD", "POST"])
def change(request: HttpRequest, pk: int) -> HttpResponseBase:
    page, who = Page.open(request, sources=QUOTA), reader(request)
    refused = None
    if request.method == "POST":
        done = _do(request, page, who, pk)
        if isinstance(done, ChangeRequest):
            return HttpResponseRedirect(request_url(done), status=303)
        refused = done
    found = request_for(who, pk)
    if found is None:
        raise Http404
    return _show(page, who, found, refused)


def _do(request: HttpRequest, page: Page, who: User, pk: int) -> ChangeRequest | Refused:
    """The request to look at next, or why nothing was done."""
    name, reason = request.POST.get("do", ""), request.POST.get("reason", "")
    version = request.POST.get("version", "")
    seen = int(version) if version.isdecimal() else None
    if name not in DEEDS:
        return Refused(400, _("The form did not say what to do."), reason)
    try:
        return act(name, pk, actor=who, seen_version=seen, now=page.now, reason=reason)
    except NotVisible:
        raise Http404 from None
    except BadRequest as error:
        # A deed takes nothing but its reason.
        text = " ".join(labelled(_("Reason"), request_fault_text(fault)) for fault in error.faults)
        return Refused(STATUSES[BadRequest], text, reason)
    except ChangeRefused as error:
        return Refused(
            STATUSES[type(error)],
            refusal_text(error),
            reason,
            seen if isinstance(error, Conflict) else None,
        )


def _show(page: Page, who: User, found: ChangeRequest, refused: Refused | None) -> HttpResponseBase:
    steps = list(found.steps.all())
    tables = tables_of(found, steps)
    for name, table in tables.items():
        if wants_csv(page.request, name):
            return table_csv(table, page.request)
    actions = actions_of(found, who, now=page.now)
    context: dict[str, Any] = {
        "change": found,
        **shown(found, steps, who, now=page.now),
        "actions": actions,
        "asks_reason": any(action.reason for action in actions),
        "needed": listed(str(action.label) for action in actions if action.needed),
        "why_not": why_not(found, who, now=page.now),
        "refused": refused,
        **{name: page.prepare(table, hide=_unused(table)) for name, table in for_page(tables).items()},
    }
    if refused is not None:
        if refused.seen is not None:
            context["refused"] = replace(refused, meanwhile=deeds_since(found, refused.seen))
        # A silent refresh would take away what is said and what was typed.
        context["refresh_seconds"] = 0
    elif is_busy(found, page):
        context["refresh_seconds"] = LOOK_AGAIN_SECONDS
    answer = page.render("console/changes/request.html", context, section="changes")
    answer.status_code = 200 if refused is None else refused.status
    return answer


def _unused(table: PortalTable) -> list[str]:
    return table.unused() if isinstance(table, PlanTable) else []


def is_busy(found: ChangeRequest, page: Page) -> bool:
    """The portal works on it: it will look different in seconds."""
    begun = found.starts_at is None or found.starts_at <= page.now
    fresh = found.applied_at is not None and page.now - found.applied_at < SOON_SEEN
    return (
        found.check_wanted_at is not None
        or (found.state in (State.APPROVED, State.APPLYING) and begun)
        or (found.state == State.APPLIED and fresh)
    )
