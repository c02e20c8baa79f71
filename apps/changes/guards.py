"""What a transition wants of a request beside its state and who asks. Input: a transition's name, a request, the clock;
output: None, or the code of what is in the way.

Codes: "unchecked" (there is no check of what is asked now), "refused" (the check found what cannot be), "early" and
"late" (before its start, after its end), "steps" (not all was written; or something was), "empty" (the plan writes
nothing)."""

from __future__ import annotations

from datetime import datetime

from apps.changes.checks_model import report_from_json
from apps.changes.errors import BadRequest, Fault, NotPossible
from apps.changes.models import ChangeRequest

Origin = ChangeRequest.Origin


def check(name: str, request: ChangeRequest, *, now: datetime, reason: str | None) -> None:
    """Raises NotPossible, and BadRequest where a reason is wanted and missing. `reason` None: none is wanted."""
    code = refused(name, request, now=now)
    if code is not None:
        raise NotPossible(name, request.state, code)
    if reason == "":
        raise BadRequest([Fault("reason", "required")])


def refused(name: str, request: ChangeRequest, *, now: datetime) -> str | None:
    """The code of what is in the way of the transition, or None."""
    match name:
        case "submit" | "approve" | "approve_end":
            return _checked(request) or _in_time(request, now)
        case "submit_end":
            return None if request.report is not None and request.check_wanted_at is None else "unchecked"
        case "begin":
            early = request.starts_at is not None and request.starts_at > now
            return "early" if early else _in_time(request, now)
        case "finish":
            return "steps" if request.steps.filter(done_at=None).exists() else None
        case "back_to_check":
            return "steps" if request.steps.exclude(done_at=None).exists() else None
    return None


def _checked(request: ChangeRequest) -> str | None:
    if request.report is None or request.checked_at is None or request.check_wanted_at is not None:
        return "unchecked"
    if report_from_json(request.report).refused:
        return "refused"
    return None if request.steps.exists() else "empty"


def _in_time(request: ChangeRequest, now: datetime) -> str | None:
    """An end that has passed: there would be nothing left of it."""
    return "late" if request.ends_at is not None and request.ends_at <= now else None


def original(request: ChangeRequest) -> ChangeRequest:
    """The request that `request` takes back."""
    if request.reverts_id is None:
        raise NotPossible("original", request.state, "origin")
    return ChangeRequest.objects.get(pk=request.reverts_id)
