"""The life of a change request, from asked for to observed, and what the trail says of it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from apps.changes import audit
from apps.changes.errors import BadRequest, Conflict, NotAllowed
from apps.changes.models import AuditEntry, ChangeRequest, State
from apps.changes.selectors import inbox_count, pending_work
from tests.changes.conftest import Desk


def test_from_asked_for_to_observed(desk: Desk) -> None:
    request = desk.ask()
    assert request.state == State.DRAFT
    assert pending_work(desk.world.now) == [request.pk]
    request = desk.checked(request)
    assert (request.state, request.check_wanted_at) == (State.CHECKED, None)
    assert pending_work(desk.world.now) == []
    request = desk.do("submit", request, "red_lead")
    assert (inbox_count(desk.person("admin")), inbox_count(desk.person("red_lead"))) == (1, 0)
    request = desk.do("approve", request, "admin", reason="agreed")
    assert (request.decided_by, request.decision_reason) == (desk.person("admin"), "agreed")
    assert pending_work(desk.world.now) == [request.pk]
    request = desk.do("begin", request)
    request.steps.update(done_at=desk.world.now)
    request = desk.do("observe", desk.do("finish", request))
    assert (request.state, request.closed_at) == (State.OBSERVED, desk.world.now)
    entries = AuditEntry.objects.filter(subject_kind="ChangeRequest").order_by("sequence")
    assert list(entries.values_list("action", "actor_name")) == [
        ("change.create", "red_lead"),
        ("change.note_check", "portal"),
        ("change.submit", "red_lead"),
        ("change.approve", "admin"),
        ("change.begin", "portal"),
        ("change.finish", "portal"),
        ("change.observe", "portal"),
    ]
    assert audit.verify() is None


def test_what_ends_gets_its_end_when_it_is_applied(desk: Desk) -> None:
    ends = desk.world.now + timedelta(days=2)
    request = desk.applied(ends_at=ends)
    end = ChangeRequest.objects.get(reverts=request)
    assert (end.origin, end.state, end.starts_at, end.check_wanted_at) == ("end", State.DRAFT, ends, None)
    assert end.pk not in pending_work(desk.world.now)
    assert end.pk in pending_work(ends)


def test_a_second_decision_meets_the_first(desk: Desk) -> None:
    request = desk.do("submit", desk.checked(desk.ask()), "red_lead")
    desk.do("approve", request, "admin")
    with pytest.raises(Conflict) as caught:
        desk.do("reject", request, "approver", seen_version=request.version, reason="no")
    assert (caught.value.state, caught.value.who) == (State.APPROVED, "admin")


def test_nobody_approves_an_own_request(desk: Desk) -> None:
    request = desk.do("submit", desk.checked(desk.ask("admin")), "admin")
    with pytest.raises(NotAllowed) as caught:
        desk.do("approve", request, "admin")
    assert caught.value.code == "own"
    assert AuditEntry.objects.filter(action="change.approve", outcome="refused").count() == 1


def test_every_fault_of_what_is_asked_for_is_named(desk: Desk) -> None:
    past = desk.world.now - timedelta(days=1)
    edits = [{"kind": "ClusterQueue", "name": "blue-cq", "set": {"fair_weight": "2"}}]
    with pytest.raises(BadRequest) as caught:
        desk.ask(edits=edits, reason=" ", ends_at=past)
    assert [(one.field, one.code) for one in caught.value.faults] == [
        ("reason", "required"),
        ("ends_at", "past"),
        ("edits.0.name", "unknown"),
    ]
    assert not ChangeRequest.objects.exists()
