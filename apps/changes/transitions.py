"""The one door through which the state of a change request moves. Input: a transition's name, a request, who wants it
and which version they saw; output: the request after it, or why not.

Invariants
- `TABLE` is all there is; nothing else writes `state` (a test reads the whole project for it).
- Permission, compare-and-set, steps, audit entry and notices are one transaction. A transition that somebody may see
  but not do leaves an entry "refused"; every other refusal leaves nothing.
- `version` grows by one with every transition, so that whoever decides did see what they decide on.
- An approval covers the plan that was checked: whatever puts that in question voids the approval.
- What was asked for by one person is decided by another, unless PORTAL_SELF_APPROVAL says otherwise; then it is marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from django.db import transaction

from apps.accounts.models import User
from apps.changes import audit, guards, notices, requests
from apps.changes.acting import acting_as
from apps.changes.errors import Conflict, NotAllowed, NotPossible, NotVisible, VersionRequired
from apps.changes.models import AuditEntry, ChangeRequest, ChangeStep, State
from apps.changes.permissions import Standing, standings, visible_requests
from apps.changes.requests import SUBJECT
from apps.changes.wake import wake

Origin = ChangeRequest.Origin
DRAFT, CHECKED, AWAITING, APPROVED = State.DRAFT, State.CHECKED, State.AWAITING, State.APPROVED
OPEN = (DRAFT, CHECKED, AWAITING, APPROVED)


@dataclass(frozen=True, slots=True)
class Transition:
    """`target` None: the state stays. `who`: any of these standings. `fields`: the columns that the caller may write.
    `sees`: people have to say which version they saw. `origins`: of which requests. `final`: it ends them. `steps`: it
    writes the plan anew."""

    name: str
    sources: tuple[State, ...]
    target: State | None
    who: frozenset[Standing]
    fields: frozenset[str] = frozenset()
    sees: bool = False
    origins: frozenset[str] = frozenset(Origin.values)
    final: bool = False
    steps: bool = False


def _row(
    name: str, sources: Iterable[State], target: State | None, *who: Standing, fields: str = "", **more: Any
) -> Transition:
    return Transition(name, tuple(sources), target, frozenset(who), frozenset(fields.split()), **more)


_ASKED, _END = frozenset({str(Origin.ASKED)}), frozenset({str(Origin.END)})
_NOT_END = frozenset(Origin.values) - _END
TABLE: Mapping[str, Transition] = {
    row.name: row
    for row in (
        _row("save", (DRAFT, CHECKED), DRAFT, "requester", fields="edits reason starts_at ends_at replaces_id",
             sees=True, origins=_ASKED, steps=True),
        _row("ask_check", (DRAFT, CHECKED), None, "requester", "portal"),
        _row("note_check", (DRAFT, CHECKED, AWAITING), CHECKED, "portal", fields="report", steps=True),
        _row("submit", (CHECKED,), AWAITING, "requester", sees=True, origins=_NOT_END),
        _row("submit_end", (CHECKED,), AWAITING, "portal", origins=_END),
        _row("approve", (AWAITING,), APPROVED, "approver", sees=True),
        _row("approve_end", (AWAITING,), APPROVED, "portal", origins=_END),
        _row("reject", (AWAITING,), State.REJECTED, "approver", sees=True, origins=_NOT_END, final=True),
        _row("cancel", OPEN, State.CANCELLED, "requester", "admin", origins=_NOT_END, final=True),
        _row("cancel_end", OPEN, State.CANCELLED, "approver", sees=True, origins=_END, final=True),
        _row("supersede", OPEN, State.SUPERSEDED, "requester", "admin", "portal", final=True),
        _row("expire", OPEN, State.EXPIRED, "portal", origins=_NOT_END, final=True),
        _row("begin", (APPROVED,), State.APPLYING, "portal"),
        _row("finish", (State.APPLYING,), State.APPLIED, "portal"),
        _row("back_to_check", (APPROVED, State.APPLYING), CHECKED, "portal", fields="report failure"),
        _row("fail", (State.APPLYING,), State.FAILED, "portal", fields="failure", final=True),
        _row("observe", (State.APPLIED,), State.OBSERVED, "portal", final=True),
    )
}  # fmt: skip
_NEEDS_REASON = frozenset({"reject", "cancel_end"})
_VOID = {
    "decided_by_id": None,
    "decided_at": None,
    "decision_reason": "",
    "self_approved": False,
    "asked_at": None,
}


@dataclass(frozen=True, slots=True)
class Deed:
    """Who does what, when, from where and why. `actor` None: the portal."""

    name: str
    actor: User | None
    now: datetime
    address: str = ""
    reason: str = ""


def perform(
    name: str,
    request_id: int,
    *,
    actor: User | None,
    seen_version: int | None,
    now: datetime,
    address: str = "",
    reason: str = "",
    fields: Mapping[str, Any] | None = None,
    steps: Iterable[ChangeStep] | None = None,
) -> ChangeRequest:
    """Carry out one transition. `actor` None: the portal's worker. `seen_version` None: whatever is there (the portal
    only, where the transition decides something). `steps`: the new plan, unsaved, of "note_check". Inside a
    transaction of the caller's, the caller catches what is raised there, or the entry of a refusal goes with it.
    Raises NotVisible, NotAllowed, VersionRequired, Conflict, NotPossible, BadRequest."""
    deed = Deed(name, actor, now, address, reason.strip())
    try:
        with transaction.atomic():
            return _carry_out(deed, request_id, seen_version=seen_version, fields=fields or {}, steps=steps)
    except NotAllowed as error:
        record_refusal(error, deed)
        raise


def possible(user: User | None, request: ChangeRequest, *, now: datetime) -> frozenset[str]:
    """The transitions that `user` (None: the portal) could carry out on `request` as it was read."""
    standing = standings(user, request)
    return frozenset(
        row.name
        for row in TABLE.values()
        if request.state in row.sources
        and request.origin in row.origins
        and row.who & standing
        and guards.refused(row.name, request, now=now) is None
    )


# ---- steps of perform -------------------------------------------------------------------------------------------


def _carry_out(
    deed: Deed,
    request_id: int,
    *,
    seen_version: int | None = None,
    fields: Mapping[str, Any] = MappingProxyType({}),
    steps: Iterable[ChangeStep] | None = None,
) -> ChangeRequest:
    row = TABLE[deed.name]
    if unknown := fields.keys() - row.fields:
        raise TypeError(f"{deed.name} does not write {', '.join(sorted(unknown))}")
    audit.lock()
    request = _load(request_id, deed.actor)
    _admit(row, request, deed.actor, seen_version)
    guards.check(row.name, request, now=deed.now, reason=deed.reason if row.name in _NEEDS_REASON else None)
    after = _move(row, request, {**fields, **_written(deed, request)}, deed.now)
    if row.steps:
        _replace_steps(after, steps or ())
    _record(row, request, after, deed)
    notices.write(row.name, after, actor=deed.actor, reason=deed.reason, now=deed.now)
    _follow(deed, after)
    wake(request_id)
    return after


def _load(request_id: int, actor: User | None) -> ChangeRequest:
    rows = ChangeRequest.objects.select_related("cluster", "team", "created_by", "decided_by")
    found = (rows if actor is None else visible_requests(actor)).filter(pk=request_id).first()
    if found is None:
        raise NotVisible
    return found


def _admit(row: Transition, request: ChangeRequest, actor: User | None, seen_version: int | None) -> None:
    standing = standings(actor, request)
    if not row.who & standing:
        own = "approver" in row.who and "admin" in standing
        raise NotAllowed(row.name, request.pk, "own" if own else "role")
    if actor is not None and row.sees and seen_version is None:
        raise VersionRequired
    if seen_version is not None and seen_version != request.version:
        raise _conflict(request.pk)
    if request.origin not in row.origins:
        raise NotPossible(row.name, request.state, "origin")
    if request.state not in row.sources:
        raise NotPossible(row.name, request.state)


def _move(row: Transition, seen: ChangeRequest, fields: Mapping[str, Any], now: datetime) -> ChangeRequest:
    """Compare and set."""
    state = seen.state if row.target is None else row.target
    closed = {"closed_at": now, "check_wanted_at": None} if row.final else {}
    moved = ChangeRequest.objects.filter(pk=seen.pk, state=seen.state, version=seen.version).update(
        state=state, version=seen.version + 1, **closed, **fields
    )
    if not moved:
        raise _conflict(seen.pk)
    return _load(seen.pk, None)


def _conflict(request_id: int) -> Conflict:
    request = _load(request_id, None)
    last = AuditEntry.objects.filter(subject_kind=SUBJECT, subject_id=str(request_id), outcome="done")
    who = last.order_by("-sequence").values_list("actor_name", flat=True).first()
    return Conflict(request.state, request.version, who or request.created_by.username)


def _written(deed: Deed, request: ChangeRequest) -> dict[str, Any]:
    """What a transition writes besides the state."""
    by = None if deed.actor is None else deed.actor.pk
    now = deed.now
    decided = {"decided_by_id": by, "decided_at": now, "decision_reason": deed.reason}
    match deed.name:
        case "save":
            return _VOID | {"report": None, "checked_at": None, "check_wanted_at": now, "failure": ""}
        case "ask_check":
            return {"check_wanted_at": now}
        case "note_check":
            return _VOID | {"checked_at": now, "check_wanted_at": None}
        case "back_to_check":
            # What was approved is void: only a new check knows what would be written now.
            return _VOID | {"check_wanted_at": now}
        case "submit" | "submit_end":
            return {"asked_at": now, "failure": ""}
        case "approve":
            return decided | {"self_approved": by == request.created_by_id}
        case "reject":
            return decided
        case "approve_end":
            first = guards.original(request)
            return {
                "decided_by_id": first.decided_by_id,
                "decided_at": now,
                "decision_reason": first.decision_reason,
                "self_approved": first.self_approved,
            }
        case "finish":
            return {"applied_at": now}
        case "observe":
            return {"observed_at": now}
    return {}


def _replace_steps(request: ChangeRequest, steps: Iterable[ChangeStep]) -> None:
    request.steps.all().delete()
    made = list(steps)
    for step in made:
        step.request = request
    ChangeStep.objects.bulk_create(made)


def _follow(deed: Deed, request: ChangeRequest) -> None:
    """What else moves with it: a request that is asked for takes the place of the one that it replaces; what was
    applied for a time gets its end; an early undo leaves nothing for the end to undo."""
    if deed.name == "submit" and request.replaces_id is not None:
        reason = f"replaced by {request.pk}"
        _carry_out(replace(deed, name="supersede", reason=reason), request.replaces_id)
    if deed.name == "finish" and request.origin == Origin.ASKED and request.ends_at is not None:
        requests.make_end(request, now=deed.now)
    if deed.name == "finish" and request.origin == Origin.UNDO:
        ends = ChangeRequest.objects.filter(reverts=request.reverts_id, origin=Origin.END, state__in=OPEN)
        for pk in list(ends.values_list("pk", flat=True)):
            _carry_out(Deed("supersede", None, deed.now, reason=f"undone by {request.pk}"), pk)


# ---- the trail --------------------------------------------------------------------------------------------------


def _record(row: Transition, before: ChangeRequest, after: ChangeRequest, deed: Deed) -> None:
    names = [field.attname for field in ChangeRequest._meta.concrete_fields]
    differs = [name for name in names if getattr(before, name) != getattr(after, name)]
    # The report is long and not a deed; what it refused decides nothing but the next transition.
    shown = [name for name in differs if name != "report" or row.name == "back_to_check"]
    plan = list(after.steps.all()) if row.name in ("approve", "approve_end", "finish", "fail") else []
    versions = {step.written_version for step in plan if step.written_version}
    audit.record(
        f"change.{row.name}",
        requests.subject_of(after),
        by=acting_as(deed.actor, deed.address),
        at=deed.now,
        reason=deed.reason,
        before={name: getattr(before, name) for name in shown},
        after={name: getattr(after, name) for name in shown} | ({"steps": _steps(plan)} if plan else {}),
        resource_version=versions.pop() if len(versions) == 1 else "",
    )


def _steps(plan: Iterable[ChangeStep]) -> list[dict[str, Any]]:
    return [
        {
            "object": "/".join(part for part in (step.kind, step.namespace, step.name) if part),
            "before": step.before,
            "after": step.after,
            "resource_version": step.resource_version,
            "written_version": step.written_version,
            "done_at": step.done_at,
        }
        for step in plan
    ]


def record_refusal(error: NotAllowed, deed: Deed) -> None:
    """The entry of the request that was refused: it need not be the one that was asked for (see `_follow`)."""
    if error.request_id is None:
        return
    with transaction.atomic():
        audit.record(
            f"change.{error.transition}",
            requests.subject_of(_load(error.request_id, None)),
            by=acting_as(deed.actor, deed.address),
            at=deed.now,
            reason=deed.reason,
            after={"refused": error.code},
            outcome="refused",
        )
