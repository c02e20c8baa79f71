"""Where a change request stands, in one sentence, and what its parts and deeds are called. Input: a request with its people,
its steps as loaded, a deed of the trail; output: text in the active language. No queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.changes.acting import PORTAL
from apps.changes.models import ChangeRequest, ChangeStep, State, objects_of
from apps.core.formats import listed, time_text

ACTIONS = {
    "create": gettext_lazy("Request made"),
    "save": gettext_lazy("Edited"),
    "ask_check": gettext_lazy("Check asked for"),
    "note_check": gettext_lazy("Checked against the cluster"),
    "submit": gettext_lazy("Put before the approvers"),
    "submit_end": gettext_lazy("Put before the approvers, as its time has come"),
    "approve": gettext_lazy("Approved"),
    "approve_end": gettext_lazy("Approved along with the change that it ends"),
    "reject": gettext_lazy("Rejected"),
    "cancel": gettext_lazy("Cancelled"),
    "cancel_end": gettext_lazy("Cancelled: the change stays in force"),
    "begin": gettext_lazy("Writing began"),
    "finish": gettext_lazy("Written"),
    "back_to_check": gettext_lazy("Sent back: the cluster had changed"),
    "fail": gettext_lazy("Failed"),
    "observe": gettext_lazy("Seen in the cluster"),
    "supersede": gettext_lazy("Replaced by another request"),
    "expire": gettext_lazy("Expired"),
    "drift": gettext_lazy("Found changed by somebody else"),
    "drift_over": gettext_lazy("Found as it was written again"),
}
TONES = {
    State.OBSERVED: "ok",
    State.FAILED: "bad",
    State.REJECTED: "bad",
    State.AWAITING: "warn",
    State.APPLYING: "warn",
    State.APPLIED: "warn",
}
_SINCE = {
    State.DRAFT: "created_at",
    State.CHECKED: "checked_at",
    State.AWAITING: "asked_at",
    State.APPROVED: "decided_at",
    State.APPLYING: "decided_at",
    State.APPLIED: "applied_at",
}

# ---- names ----------------------------------------------------------------------------------------------------------


def action_text(action: str) -> str:
    """A deed of the trail in words; one that has none reads as it is written."""
    return str(ACTIONS.get(action.rpartition(".")[2], action))


def actor_text(name: str) -> str:
    return _("the portal") if name == PORTAL else name


def tone(state: str) -> str:
    return TONES.get(State(state), "note")


def state_text(request: ChangeRequest) -> str:
    """What is on its way without anybody working on it is no draft."""
    if request.origin == ChangeRequest.Origin.END and request.state in (State.DRAFT, State.CHECKED):
        return _("To come")
    return str(State(request.state).label)


def team_text(request: ChangeRequest) -> str:
    """For whom it is."""
    return request.team.name if request.team is not None else _("the platform")


def names_of(request: ChangeRequest) -> str:
    """What it is about, without kinds: "red-cq, red-ns/red-lq"."""
    return listed(name.partition("/")[2] for name in objects_of(request))


def title(request: ChangeRequest) -> str:
    """ "Undo of change 12: red-cq" """
    words = {
        ChangeRequest.Origin.ASKED: _("Change %(n)d: %(names)s"),
        ChangeRequest.Origin.UNDO: _("Undo of change %(of)d: %(names)s"),
        ChangeRequest.Origin.END: _("End of change %(of)d: %(names)s"),
    }[ChangeRequest.Origin(request.origin)]
    return words % {"n": request.pk, "of": request.reverts_id or request.pk, "names": names_of(request)}


def since(request: ChangeRequest) -> datetime | None:
    """When it came to where it stands."""
    found: datetime | None = getattr(request, _SINCE.get(State(request.state), "closed_at"))
    return found or request.created_at


# ---- where it stands ------------------------------------------------------------------------------------------------


def standing(request: ChangeRequest, steps: Sequence[ChangeStep], *, now: datetime) -> str:
    """What has happened last and who has to do what next."""
    if request.origin == ChangeRequest.Origin.END and request.state in _ENDS:
        return _ENDS[State(request.state)](request, now)
    return _SENTENCES[State(request.state)](request, steps, now)


def _draft(request: ChangeRequest, _steps: Sequence[ChangeStep], _now: datetime) -> str:
    who = request.created_by.username
    if request.check_wanted_at is not None:
        return _("A draft of %(who)s that is being checked against the cluster.") % {"who": who}
    return _("A draft that only %(who)s has worked on: it waits to be checked.") % {"who": who}


def _checked(request: ChangeRequest, _steps: Sequence[ChangeStep], _now: datetime) -> str:
    who = request.created_by.username
    if request.check_wanted_at is not None:
        if request.failure:
            return _(
                "The cluster had changed, so that nothing was written: it is being checked once more against it."
            )
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


def done_count(steps: Iterable[ChangeStep]) -> int:
    return sum(step.done_at is not None for step in steps)


def _applied(request: ChangeRequest, _steps: Sequence[ChangeStep], _now: datetime) -> str:
    text = _("Written at %(at)s: it waits until the collector has seen it in the cluster.")
    return text % {"at": _at(request.applied_at)}


def _observed(request: ChangeRequest, steps: Sequence[ChangeStep], now: datetime) -> str:
    values = {"at": _at(request.observed_at), "until": _at(request.ends_at)}
    if drifted := len({(step.kind, step.namespace, step.name) for step in steps if step.drift_since}):
        text = ngettext(
            "It was in force, and somebody has since changed %(n)d object in another way.",
            "It was in force, and somebody has since changed %(n)d objects in another way.",
            drifted,
        )
        return text % {"n": drifted}
    if request.origin != ChangeRequest.Origin.ASKED:
        return _("Taken back: seen in the cluster at %(at)s.") % values
    if request.ends_at is None:
        return _("In force: seen in the cluster at %(at)s.") % values
    if request.ends_at > now:
        return _("In force until %(until)s: seen in the cluster at %(at)s.") % values
    return _("It was in force from %(at)s and was to end at %(until)s.") % values


def _rejected(request: ChangeRequest, _steps: Sequence[ChangeStep], _now: datetime) -> str:
    text = _("%(who)s rejected it at %(at)s; nothing was written.")
    return text % {"who": _decider(request), "at": _at(request.decided_at)}


def _cancelled(request: ChangeRequest, _steps: Sequence[ChangeStep], _now: datetime) -> str:
    return _("It was cancelled at %(at)s; nothing was written.") % {"at": _at(request.closed_at)}


def _failed(_request: ChangeRequest, steps: Sequence[ChangeStep], _now: datetime) -> str:
    done = done_count(steps)
    if not done:
        return _("It failed, and nothing was written.")
    text = _("It failed after %(done)d of %(all)d steps. What was written still stands and can be undone.")
    return text % {"done": done, "all": len(steps)}


def _superseded(_request: ChangeRequest, _steps: Sequence[ChangeStep], _now: datetime) -> str:
    return _("Another request took its place; nothing was written.")


def _expired(_request: ChangeRequest, _steps: Sequence[ChangeStep], _now: datetime) -> str:
    return _("Its time passed before it was approved; nothing was written.")


def _end_to_come(request: ChangeRequest, now: datetime) -> str:
    if request.starts_at is not None and request.starts_at > now:
        text = _("It takes change %(n)d back at %(at)s, after a check of what is there then.")
        return text % {"n": request.reverts_id or 0, "at": _at(request.starts_at)}
    return _("Its time has come: it is being checked against the cluster.")


def _end_awaiting(request: ChangeRequest, _now: datetime) -> str:
    if refusal_count(request):
        return _(
            "Its time has come, and what the change had set was changed by somebody else: a platform admin has to look at it."
        )
    return _("Its time has come: it waits for a platform admin to approve that the change is taken back.")


def _end_cancelled(request: ChangeRequest, _now: datetime) -> str:
    text = _("It was cancelled at %(at)s: change %(n)d stays in force.")
    return text % {"at": _at(request.closed_at), "n": request.reverts_id or 0}


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
_ENDS: dict[State, Callable[[ChangeRequest, datetime], str]] = {
    State.DRAFT: _end_to_come,
    State.CHECKED: _end_to_come,
    State.AWAITING: _end_awaiting,
    State.CANCELLED: _end_cancelled,
}
