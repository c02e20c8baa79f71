"""Where a change request stands, in one sentence, and what its parts are called. Input: a request; output: text in the
active language. No queries beyond the request's own people and steps that the caller loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.changes.models import ChangeRequest, ChangeStep, State
from apps.core.formats import time_text

ACTIONS = {
    "create": gettext_lazy("Asked for"),
    "save": gettext_lazy("Edited"),
    "ask_check": gettext_lazy("Check asked for"),
    "note_check": gettext_lazy("Checked"),
    "submit": gettext_lazy("Put before the approvers"),
    "approve": gettext_lazy("Approved"),
    "reject": gettext_lazy("Rejected"),
    "cancel": gettext_lazy("Cancelled"),
    "begin": gettext_lazy("Writing began"),
    "finish": gettext_lazy("Written"),
    "back_to_check": gettext_lazy("Sent back: the cluster had changed"),
    "fail": gettext_lazy("Failed"),
    "observe": gettext_lazy("Seen in the cluster"),
    "supersede": gettext_lazy("Replaced"),
    "expire": gettext_lazy("Expired"),
    "undo": gettext_lazy("Undo asked for"),
}
TONES = {
    State.OBSERVED: "ok",
    State.FAILED: "bad",
    State.REJECTED: "bad",
    State.AWAITING: "warn",
    State.APPLYING: "warn",
    State.APPLIED: "warn",
}


def action_text(action: str) -> str:
    """A deed of the trail in words; one that has none reads as it is written."""
    return str(ACTIONS.get(action.rpartition(".")[2], action))


def tone(state: str) -> str:
    return TONES.get(State(state), "note")


def standing(request: ChangeRequest, steps: Sequence[ChangeStep], *, now: datetime) -> str:
    """What has happened last and who has to do what next."""
    return _SENTENCES[State(request.state)](request, steps, now)


def _draft(request: ChangeRequest, _steps: Sequence[ChangeStep], _now: datetime) -> str:
    who = request.created_by.username
    if request.check_wanted_at is not None:
        return _("A draft of %(who)s that is being checked against the cluster.") % {"who": who}
    return _("A draft that only %(who)s has worked on: it waits to be checked.") % {"who": who}


def _checked(request: ChangeRequest, _steps: Sequence[ChangeStep], _now: datetime) -> str:
    who = request.created_by.username
    if request.check_wanted_at is not None:
        return _("It is being checked once more against the cluster.")
    if found := refusal_count(request):
        text = ngettext(
            "Checked, and %(n)d thing stands in its way: %(who)s has to change it.",
            "Checked, and %(n)d things stand in its way: %(who)s has to change it.",
            found,
        )
        return text % {"n": found, "who": who}
    if request.failure:
        text = _(
            "The cluster had changed, so that nothing was written. It waits for %(who)s to look at it again."
        )
        return text % {"who": who}
    return _("Checked without a refusal: it waits for %(who)s to put it before the approvers.") % {"who": who}


def refusal_count(request: ChangeRequest) -> int:
    """Rules and answers of the API server that refuse it."""
    report = request.report or {}
    dry = [one for one in report.get("dry_run") or () if one.get("verdict") == "refused"]
    return len(report.get("refusals") or ()) + len(dry)


def _awaiting(request: ChangeRequest, _steps: Sequence[ChangeStep], _now: datetime) -> str:
    text = _("It waits for a platform admin to approve or reject it; %(who)s asked for it at %(at)s.")
    return text % {"who": request.created_by.username, "at": _at(request.asked_at or request.created_at)}


def _approved(request: ChangeRequest, _steps: Sequence[ChangeStep], now: datetime) -> str:
    names = {"who": _decider(request)}
    if request.starts_at is not None and request.starts_at > now:
        text = _("Approved by %(who)s: the portal will write it at %(at)s.")
        return text % {**names, "at": _at(request.starts_at)}
    return _("Approved by %(who)s: the portal is about to write it.") % names


def _applying(_request: ChangeRequest, steps: Sequence[ChangeStep], _now: datetime) -> str:
    text = _("It is being written: %(done)d of %(all)d steps are done.")
    return text % {"done": done_count(steps), "all": len(steps)}


def done_count(steps: Sequence[ChangeStep]) -> int:
    return sum(step.done_at is not None for step in steps)


def _applied(request: ChangeRequest, _steps: Sequence[ChangeStep], _now: datetime) -> str:
    text = _("Written at %(at)s: it waits until the collector has seen it in the cluster.")
    return text % {"at": _at(request.applied_at)}


def _observed(request: ChangeRequest, steps: Sequence[ChangeStep], now: datetime) -> str:
    values = {"at": _at(request.observed_at), "until": _at(request.ends_at)}
    if drifted := sum(step.drift_since is not None for step in steps):
        text = ngettext(
            "It was in force, and somebody has since changed %(n)d object in another way.",
            "It was in force, and somebody has since changed %(n)d objects in another way.",
            drifted,
        )
        return text % {"n": drifted}
    if request.ends_at is None:
        return _("In force: seen in the cluster at %(at)s.") % values
    if request.ends_at > now:
        return _("In force until %(until)s: seen in the cluster at %(at)s.") % values
    return _("It was in force from %(at)s and was to end at %(until)s.") % values


def _rejected(request: ChangeRequest, _steps: Sequence[ChangeStep], _now: datetime) -> str:
    text = _("%(who)s rejected it at %(at)s.")
    return text % {"who": _decider(request), "at": _at(request.decided_at)}


def _cancelled(request: ChangeRequest, _steps: Sequence[ChangeStep], _now: datetime) -> str:
    return _("It was cancelled at %(at)s; nothing was written.") % {"at": _at(request.closed_at)}


def _failed(_request: ChangeRequest, steps: Sequence[ChangeStep], _now: datetime) -> str:
    done = done_count(steps)
    if not done:
        return _("It failed, and nothing was written.")
    text = _("It failed after %(done)d of %(all)d steps, which still stand: they can be undone.")
    return text % {"done": done, "all": len(steps)}


def _superseded(_request: ChangeRequest, _steps: Sequence[ChangeStep], _now: datetime) -> str:
    return _("Another request took its place; nothing was written.")


def _expired(_request: ChangeRequest, _steps: Sequence[ChangeStep], _now: datetime) -> str:
    return _("Its time passed before it was approved; nothing was written.")


def _decider(request: ChangeRequest) -> str:
    return request.decided_by.username if request.decided_by is not None else "–"


def _at(at: datetime | None) -> str:
    return "–" if at is None else time_text(at)


_SENTENCES: dict[State, Callable[[ChangeRequest, Sequence[ChangeStep], datetime], str]] = {
    State.DRAFT: _draft,
    State.CHECKED: _checked,
    State.AWAITING: _awaiting,
    State.APPROVED: _approved,
    State.APPLYING: _applying,
    State.APPLIED: _applied,
    State.OBSERVED: _observed,
    State.REJECTED: _rejected,
    State.CANCELLED: _cancelled,
    State.FAILED: _failed,
    State.SUPERSEDED: _superseded,
    State.EXPIRED: _expired,
}
