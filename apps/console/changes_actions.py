"""What the reader may do to a change request, as buttons. Input: a request and who reads; output: actions in the order in
which they stand, and why a decision is not the reader's. What is offered would be carried out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.accounts.models import User
from apps.changes import guards
from apps.changes.errors import NotPossible
from apps.changes.models import ChangeRequest, State
from apps.changes.permissions import standings
from apps.changes.refusal_words import refusal_text
from apps.changes.services import offered


@dataclass(frozen=True, slots=True)
class Action:
    """A button. `reason`: what is typed goes along with it; `needed`: it has to be typed. `main`: what is expected next."""

    name: str
    label: str | Promise
    reason: bool = False
    needed: bool = False
    main: bool = False


ACTIONS = (
    Action("submit", gettext_lazy("Ask for approval"), main=True),
    Action("approve", gettext_lazy("Approve"), reason=True, main=True),
    Action("reject", gettext_lazy("Reject"), reason=True, needed=True),
    Action("ask_check", gettext_lazy("Check it now")),
    Action("cancel", gettext_lazy("Cancel this request"), reason=True),
    Action("undo", gettext_lazy("Ask to undo it"), reason=True, needed=True),
)
CANCEL_END = Action("cancel", gettext_lazy("Leave the change in force"), reason=True, needed=True)


def actions_of(request: ChangeRequest, who: User, *, now: datetime) -> list[Action]:
    """Only what would be carried out now; a check that is on its way need not be asked for."""
    names = set(offered(who, request, now=now))
    if request.check_wanted_at is not None:
        names.discard("ask_check")
    found = [action for action in ACTIONS if action.name in names]
    if request.origin != ChangeRequest.Origin.END:
        return found
    return [CANCEL_END if action.name == "cancel" else action for action in found]


def may_edit(request: ChangeRequest, who: User, *, now: datetime) -> bool:
    return "save" in offered(who, request, now=now)


def why_not(request: ChangeRequest, who: User, *, now: datetime) -> str:
    """What keeps a reader who decides on requests from deciding on this one; "" when nothing does."""
    if request.state != State.AWAITING or not who.is_platform_admin:
        return ""
    if "approver" not in standings(who, request):
        return _("You asked for it yourself: another platform admin has to decide.")
    code = guards.refused("approve", request, now=now)
    return "" if code is None else refusal_text(NotPossible("approve", request.state, code))
