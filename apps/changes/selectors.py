"""Reading change requests: whose are shown to whom, what waits for a decision, what is in force, what needs the worker.
Input: the reader or the clock; output: query sets and rows, in a constant number of queries.

Invariants: what somebody may not read does not exist for them."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, When

from apps.accounts.models import User
from apps.changes.models import AuditEntry, ChangeEffect, ChangeRequest, State
from apps.changes.permissions import visible_requests
from apps.changes.requests import SUBJECT, Origin

__all__ = [
    "awaits",
    "effects_due",
    "in_force",
    "inbox",
    "inbox_count",
    "pending_work",
    "request_for",
    "timeline",
    "visible_requests",
]

EFFECTS = {"15m": timedelta(minutes=15), "1d": timedelta(days=1)}
"""When after it was applied the effect of a change is noted; `ChangeEffect.moment`."""
EFFECT_GRACE = timedelta(hours=6)
"""How late an effect may be noted and still count as of that moment."""


def request_for(user: User | AnonymousUser, request_id: int) -> ChangeRequest | None:
    """The request, or None where there is none that `user` may read."""
    return visible_requests(user).select_related("reverts", "replaces").filter(pk=request_id).first()


def awaits(user: User | AnonymousUser) -> Q:
    """The condition that a request waits for a decision which `user` may take."""
    if not isinstance(user, User) or not user.is_platform_admin:
        return Q(pk__in=())
    found = Q(state=State.AWAITING)
    return found if settings.SELF_APPROVAL else found & ~Q(created_by=user)


def inbox(user: User | AnonymousUser) -> QuerySet[ChangeRequest]:
    """What waits for a decision that `user` may take."""
    return visible_requests(user).filter(awaits(user))


def inbox_count(user: User | AnonymousUser) -> int:
    return inbox(user).count()


def in_force(user: User | AnonymousUser, now: datetime) -> QuerySet[ChangeRequest]:
    """The calendar: what holds until somebody takes it back at its end (which may have passed: then it waits for
    somebody), and what is approved to start later. `next_at`: when it ends or starts; the next first."""
    ends = ChangeRequest.objects.filter(
        reverts=OuterRef("pk"),
        origin=Origin.END,
        state__in=(State.DRAFT, State.CHECKED, State.AWAITING, State.APPROVED, State.APPLYING),
    )
    held = Q(Exists(ends), state__in=(State.APPLIED, State.OBSERVED))
    coming = Q(state=State.APPROVED, starts_at__gt=now) & ~Q(origin=Origin.END)
    found = visible_requests(user).filter(held | coming)
    start = When(state=State.APPROVED, then=F("starts_at"))
    return found.annotate(next_at=Case(start, default=F("ends_at"))).order_by("next_at", "pk")


def timeline(request: ChangeRequest) -> list[AuditEntry]:
    """What was done to it, the first deed first."""
    entries = AuditEntry.objects.filter(subject_kind=SUBJECT, subject_id=str(request.pk))
    return list(entries.order_by("sequence"))


def pending_work(now: datetime) -> list[int]:
    """The requests that need the worker now, the longest waiting first."""
    open_states = (State.DRAFT, State.CHECKED, State.AWAITING)
    checks = Q(check_wanted_at__isnull=False, state__in=open_states)
    begun = Q(starts_at=None) | Q(starts_at__lte=now)
    writes = (Q(state=State.APPROVED) & begun) | Q(state=State.APPLYING)
    ends = Q(origin=Origin.END, state__in=open_states, starts_at__lte=now)
    found = ChangeRequest.objects.filter(checks | writes | ends)
    return list(found.order_by("created_at", "pk").values_list("pk", flat=True))


def effects_due(now: datetime) -> list[tuple[int, str]]:
    """(request, moment) of effects that can be seen by now and are not noted yet, the longest due first."""
    found: list[tuple[datetime, int, str]] = []
    for moment, after in EFFECTS.items():
        noted = ChangeEffect.objects.filter(request=OuterRef("pk"), moment=moment)
        due = ChangeRequest.objects.filter(
            ~Exists(noted), applied_at__gt=now - after - EFFECT_GRACE, applied_at__lte=now - after
        )
        found += [(at + after, pk, moment) for pk, at in due.values_list("pk", "applied_at") if at]
    return [(pk, moment) for _at, pk, moment in sorted(found)]
