"""Rows of new change requests, each with its entry in the audit trail. Input: what is wanted; output: the row, unchecked
as yet. Only inside a transaction. What may be asked for by whom is `services`' to say; how states move, `transitions`'.

Invariants: a new request wants a check at once; what takes another one back (`reverts`) carries the edits of that one,
since it is from what these did to the specs, not from the edits, that the way back is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.accounts.models import Team, User
from apps.changes import audit, notices
from apps.changes.acting import acting_as
from apps.changes.models import ChangeRequest, State, objects_of
from apps.changes.wake import wake
from apps.fleet.models import Cluster

SUBJECT = "ChangeRequest"
Origin = ChangeRequest.Origin


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody asks for. `team` None: the platform itself. `starts_at` None: as soon as it is approved; `ends_at`
    None: for good. `replaces`: the open request whose place this one takes when it is put before the approvers."""

    cluster: Cluster
    team: Team | None
    edits: Sequence[Mapping[str, Any]]
    reason: str
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    replaces: ChangeRequest | None = None


def make(wanted: Wanted, *, by: User, now: datetime, address: str = "") -> ChangeRequest:
    """A draft that `by` asks for."""
    return _made(
        ChangeRequest(
            cluster=wanted.cluster,
            team=wanted.team,
            replaces=wanted.replaces,
            edits=[dict(edit) for edit in wanted.edits],
            reason=wanted.reason,
            starts_at=wanted.starts_at,
            ends_at=wanted.ends_at,
            created_by=by,
            created_at=now,
            check_wanted_at=now,
        ),
        by,
        address,
    )


def make_undo(
    request: ChangeRequest, *, by: User, reason: str, now: datetime, address: str = ""
) -> ChangeRequest:
    """A draft that takes back what was done of `request`."""
    return _made(_taking_back(request, Origin.UNDO, by=by, reason=reason, now=now), by, address)


def make_end(request: ChangeRequest, *, now: datetime) -> ChangeRequest:
    """What takes `request` back at its end. It is checked when that has come, on what is there then."""
    end = _taking_back(request, Origin.END, by=request.created_by, reason=request.reason, now=now)
    end.starts_at, end.check_wanted_at = request.ends_at, None
    return _made(end, None, "")


def _taking_back(
    request: ChangeRequest, origin: Origin, *, by: User, reason: str, now: datetime
) -> ChangeRequest:
    return ChangeRequest(
        cluster=request.cluster,
        team=request.team,
        origin=origin,
        reverts=request,
        edits=request.edits,
        reason=reason,
        created_by=by,
        created_at=now,
        check_wanted_at=now,
    )


def _made(request: ChangeRequest, by: User | None, address: str) -> ChangeRequest:
    audit.lock()
    request.state = State.DRAFT
    request.save(force_insert=True)
    after = {
        field.attname: getattr(request, field.attname)
        for field in ChangeRequest._meta.concrete_fields
        if getattr(request, field.attname) is not None
    }
    audit.record(
        "change.create",
        subject_of(request),
        by=acting_as(by, address),
        at=request.created_at,
        reason=request.reason,
        after=after,
    )
    notices.write("create", request, actor=by, reason="", now=request.created_at)
    if request.check_wanted_at is not None:
        wake(request.pk)
    return request


def subject_of(request: ChangeRequest) -> audit.Subject:
    """The request as the trail names it."""
    return audit.Subject(
        SUBJECT,
        str(request.pk),
        label=", ".join(objects_of(request)),
        team=request.team.slug if request.team else "",
        cluster=request.cluster.slug,
    )
