"""What people ask of change requests beside moving them on: making, editing and taking back. Input: who, what, the
clock; output: the request, or every fault of what was asked for.

Invariants: what is stored can be read (`edits.parse_edits`), names only what the asker may name, has a reason, and ends
after it starts and after now. Moving a request on is `transitions.perform`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from apps.accounts.models import User
from apps.changes import audit, requests
from apps.changes.editable import Editable
from apps.changes.edits import ChangeError, Edit, NodeEdit, key_of, parse_edits
from apps.changes.errors import BadRequest, Fault, NotAllowed, NotPossible, NotVisible
from apps.changes.form import Place
from apps.changes.models import ChangeRequest, State
from apps.changes.permissions import may_ask_for, standings, visible_requests
from apps.changes.requests import Origin, Wanted
from apps.changes.transitions import OPEN, TABLE, Deed, perform, possible, record_refusal
from apps.quotas.situation import load_scene

MOST_REASON = 2000
DEEDS = ("ask_check", "submit", "approve", "reject", "cancel", "undo")
"""What people do to a request beside editing it, by the names of addresses."""


def create_request(wanted: Wanted, *, actor: User, now: datetime, address: str = "") -> ChangeRequest:
    """A draft, on its way to its check. Raises NotAllowed, BadRequest."""
    wanted = replace(wanted, reason=wanted.reason.strip())
    if not may_ask_for(actor, wanted.team):
        raise NotAllowed("create", None, "role")
    _look_at(wanted, actor=actor, now=now)
    with transaction.atomic():
        return requests.make(wanted, by=actor, now=now, address=address)


def edit_request(
    request_id: int,
    wanted: Wanted,
    *,
    actor: User,
    seen_version: int | None,
    now: datetime,
    address: str = "",
) -> ChangeRequest:
    """The draft with other edits; its check is void. Cluster and team stay. Raises what `perform` raises."""
    present = _present(request_id, actor)
    wanted = replace(wanted, cluster=present.cluster, team=present.team, reason=wanted.reason.strip())
    if seen_version is not None and "requester" in standings(actor, present):
        # Whoever may not edit it learns nothing of what could be named, but why (below).
        _look_at(wanted, actor=actor, now=now, request_id=request_id)
    fields: Mapping[str, Any] = {
        "edits": [dict(edit) for edit in wanted.edits],
        "reason": wanted.reason,
        "starts_at": wanted.starts_at,
        "ends_at": wanted.ends_at,
        "replaces_id": wanted.replaces.pk if wanted.replaces else None,
    }
    return perform(
        "save", request_id, actor=actor, seen_version=seen_version, now=now, address=address, fields=fields
    )


def act(
    name: str,
    request_id: int,
    *,
    actor: User,
    seen_version: int | None,
    now: datetime,
    address: str = "",
    reason: str = "",
) -> ChangeRequest:
    """One of DEEDS, as a person says it: the request after it; of "undo" the new one. Raises what `perform` raises."""
    present = _present(request_id, actor)
    if reason.strip():
        _raise_faults(_of_reason(reason.strip()))
    if name == "undo":
        return ask_undo(request_id, actor=actor, reason=reason, now=now, address=address)
    transition = "cancel_end" if name == "cancel" and present.origin == Origin.END else name
    return perform(
        transition,
        request_id,
        actor=actor,
        seen_version=seen_version,
        now=now,
        address=address,
        reason=reason,
    )


def offered(user: User, request: ChangeRequest, *, now: datetime) -> tuple[str, ...]:
    """Which of DEEDS, and "save", `user` could do to `request` as it was read."""
    found = {name.removesuffix("_end") for name in possible(user, request, now=now)}
    if may_ask_for(user, request.team) and can_be_undone(request):
        found.add("undo")
    return tuple(name for name in ("save", *DEEDS) if name in found)


def ask_undo(request_id: int, *, actor: User, reason: str, now: datetime, address: str = "") -> ChangeRequest:
    """A draft that takes back what was done. Raises NotVisible, NotAllowed, NotPossible, BadRequest."""
    present = _present(request_id, actor)
    if not may_ask_for(actor, present.team):
        refusal = NotAllowed("undo", present.pk, "role")
        record_refusal(refusal, Deed("undo", actor, now, address, reason.strip()))
        raise refusal
    with transaction.atomic():
        audit.lock()
        present = _present(request_id, actor)
        if not can_be_undone(present):
            raise NotPossible("undo", present.state)
        _raise_faults(_of_reason(reason.strip()))
        return requests.make_undo(present, by=actor, reason=reason.strip(), now=now, address=address)


def _present(request_id: int, actor: User) -> ChangeRequest:
    found = visible_requests(actor).filter(pk=request_id).first()
    if found is None:
        raise NotVisible
    return found


def can_be_undone(request: ChangeRequest) -> bool:
    """Something of it is in the cluster, and nobody is taking it back already."""
    if request.state not in (State.APPLIED, State.OBSERVED, State.FAILED):
        return False
    if not request.steps.exclude(done_at=None).exists():
        return False
    busy = Q(state__in=(*OPEN, State.APPLYING, State.APPLIED, State.OBSERVED))
    return not request.reverted_by.filter(busy, origin=Origin.UNDO).exists() and not (
        request.reverted_by.filter(
            origin=Origin.END, state__in=(State.APPLYING, State.APPLIED, State.OBSERVED)
        ).exists()
    )


def expire_due(now: datetime) -> list[int]:
    """Let go of what nobody moved on for long, and of what would end before it began. Returns which."""
    idle = now - timedelta(days=settings.CHANGE_EXPIRY_DAYS)
    old = Q(created_at__lt=idle) & (Q(asked_at=None) | Q(asked_at__lt=idle))
    waits = Q(state=State.APPROVED, starts_at__gt=now)
    due = ChangeRequest.objects.filter(state__in=OPEN).exclude(origin=Origin.END)
    due = due.filter(Q(ends_at__lte=now) | (old & ~waits))
    found = []
    for pk in list(due.order_by("pk").values_list("pk", flat=True)):
        try:
            perform("expire", pk, actor=None, seen_version=None, now=now)
        except NotPossible:  # somebody moved it on meanwhile
            continue
        found.append(pk)
    return found


# ---- what may be asked for ------------------------------------------------------------------------------------------


def _look_at(wanted: Wanted, *, actor: User, now: datetime, request_id: int | None = None) -> None:
    if not storable(list(wanted.edits)):
        raise BadRequest([Fault("edits", "shape", "text")])
    faults = [*_of_reason(wanted.reason), *_of_times(wanted, now), *_of_replaced(wanted, actor, request_id)]
    _raise_faults([*faults, *_of_edits(wanted, actor, now)])


def storable(value: Any) -> bool:
    """Every text in `value` can be stored: PostgreSQL takes neither NUL nor half of a character."""
    if isinstance(value, str):
        return "\x00" not in value and not any("\ud800" <= letter <= "\udfff" for letter in value)
    if isinstance(value, Mapping):
        return all(storable(key) and storable(item) for key, item in value.items())
    return all(storable(item) for item in value) if isinstance(value, list | tuple) else True


def _raise_faults(faults: Iterable[Fault]) -> None:
    if found := list(faults):
        raise BadRequest(found)


def _of_reason(reason: str) -> Iterator[Fault]:
    if not reason:
        yield Fault("reason", "required")
    elif len(reason) > MOST_REASON:
        yield Fault("reason", "too_long", str(MOST_REASON))
    elif not storable(reason):
        yield Fault("reason", "shape", "text")


def _of_times(wanted: Wanted, now: datetime) -> Iterator[Fault]:
    if wanted.ends_at is None:
        return
    if wanted.ends_at <= now:
        yield Fault("ends_at", "past")
    elif wanted.starts_at is not None and wanted.ends_at <= wanted.starts_at:
        yield Fault("ends_at", "order")


def _of_replaced(wanted: Wanted, actor: User, request_id: int | None) -> Iterator[Fault]:
    """Only another open request of the same team and cluster, that the asker may read and could let go of, can be
    replaced: else it would be refused when this one is put before the approvers."""
    other = wanted.replaces
    if other is None:
        return
    seen = visible_requests(actor).filter(pk=other.pk, cluster=wanted.cluster, team=wanted.team)
    seen = seen.exclude(pk=request_id) if request_id else seen
    found = seen.filter(state__in=OPEN).exclude(origin=Origin.END).first()
    if found is None:
        yield Fault("replaces", "unknown", str(other.pk))
    elif not TABLE["supersede"].who & standings(actor, found):
        yield Fault("replaces", "not_yours", str(other.pk))


def _of_edits(wanted: Wanted, actor: User, now: datetime) -> list[Fault]:
    try:
        edits = parse_edits(list(wanted.edits))
    except ChangeError as error:
        return [Fault(one.field, one.code, one.part) for one in error.faults]
    own = None if wanted.team is None else [wanted.team.pk]
    editable = Editable.of(load_scene(now=now, cluster=wanted.cluster), own)
    faults = [
        Fault(f"{edit.field}.name", "unknown", edit.name)
        for edit in edits
        if editable.find(Place(*key_of(edit))) is None
    ]
    return faults if actor.is_platform_admin else [*faults, *_of_cohorts(edits, editable)]


def _of_cohorts(edits: Iterable[Edit], editable: Editable) -> Iterator[Fault]:
    """Teams name the cohorts above their queues and no other: which there are is not theirs to find out."""
    for edit in edits:
        parent = edit.values.get("parent") if isinstance(edit, NodeEdit) else None
        if parent and not editable.names.cohort(parent):
            yield Fault(f"{edit.field}.set.cohort", "unknown", parent)
