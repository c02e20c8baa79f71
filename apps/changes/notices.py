"""Which messages a transition sends. Input: the request after it; output: Notice rows, in the same transaction.

Invariants: a webhook hears every change of state; people hear what they do not know already, and approvers what waits
for them; without an address or a configured way nothing is written. `event_id` is the request and its version, so that
a message that arrives twice is known by it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Q

from apps.accounts.models import User
from apps.changes.acting import PORTAL
from apps.changes.models import ChangeRequest, Notice, objects_of
from apps.changes.notice_words import body_of, subject_of
from apps.core.outgoing import copies
from apps.core.sending import Kind

KIND = Kind(Notice, subject_of, body_of)

# Of the others the requester waits on the page, or does them.
TOLD = frozenset(
    {
        "submit", "submit_end", "approve", "approve_end", "reject", "cancel", "cancel_end", "supersede", "expire",
        "finish", "back_to_check", "fail", "observe", "drift",
    }
)  # fmt: skip
SILENT = frozenset({"create", "save", "ask_check"})
ASKS = frozenset({"submit", "submit_end"})


def write(event: str, request: ChangeRequest, *, actor: User | None, reason: str, now: datetime) -> None:
    """`event`: a transition's name, or "drift"."""
    if event in SILENT:
        return
    payload = payload_of(event, request, actor=actor, reason=reason, now=now)
    people = addresses(event, request, actor) if settings.EMAIL_ENABLED and event in TOLD else []
    Notice.objects.bulk_create(
        copies(Notice, payload, people, now=now, request=request), ignore_conflicts=True
    )


def addresses(event: str, request: ChangeRequest, actor: User | None) -> list[str]:
    """Each once, and not that of whoever did it."""
    people: Iterable[User] = [request.created_by]
    if event in ASKS:
        people = [*people, *approvers(request)]
    found = {
        person.email: None
        for person in people
        if person.is_active and person.email and (actor is None or person.pk != actor.pk)
    }
    return list(found)


def approvers(request: ChangeRequest) -> list[User]:
    admins = User.objects.filter(
        Q(role=User.Role.PLATFORM_ADMIN) | Q(is_superuser=True), is_active=True
    ).order_by("pk")
    return list(admins if settings.SELF_APPROVAL else admins.exclude(pk=request.created_by_id))


def payload_of(
    event: str, request: ChangeRequest, *, actor: User | None, reason: str, now: datetime
) -> dict[str, Any]:
    """What is sent: facts and the path of the page, no text of a specification."""
    # A drift moves no version, and there may be another one.
    again = f"-{int(now.timestamp())}" if event == "drift" else ""
    return {
        "id": f"{request.pk}-{request.version}-{event}{again}",
        "event": f"change.{event}",
        "at": now.isoformat(),
        "request": request.pk,
        "version": request.version,
        "state": str(request.state),
        "origin": str(request.origin),
        "cluster": request.cluster.slug,
        "team": request.team.slug if request.team else None,
        "requested_by": request.created_by.username,
        "request_reason": request.reason,
        "by": actor.username if actor else PORTAL,
        "reason": reason,
        "failure": request.failure,
        "objects": objects_of(request),
        "path": f"/changes/{request.pk}/",
    }
