"""What a transition wants beside state and standing, what follows from it, whom it tells; and that whatever is tried in
whatever order, states move by the table and the trail fits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.accounts.models import Membership, User
from apps.changes import audit
from apps.changes.errors import BadRequest, ChangeRefused, Conflict, NotAllowed, NotPossible, VersionRequired
from apps.changes.models import AuditEntry, ChangeRequest, Notice, State
from apps.changes.services import ask_undo, expire_due
from apps.changes.transitions import TABLE, perform
from tests.changes.conftest import CLEAN, Desk, a_step

REFUSED: dict[str, Any] = CLEAN | {
    "refusals": [{"code": "lending_over_nominal", "field": "edits.0", "params": {}}]
}
BY_DRY_RUN: dict[str, Any] = CLEAN | {
    "dry_run": [{"position": 0, "verdict": "refused", "status": 422, "text": "no"}]
}
HOUR = timedelta(hours=1)

# Name of the guard → (what is done to a request, the transition, who tries it).
Prepare = Callable[[Desk], ChangeRequest]


def unchecked_again(desk: Desk) -> ChangeRequest:
    return desk.do("ask_check", desk.checked(desk.ask()), "red_lead")


def late_to_submit(desk: Desk) -> ChangeRequest:
    request = desk.checked(desk.ask(ends_at=desk.world.now + HOUR))
    desk.world.now += 2 * HOUR
    return request


def late_to_begin(desk: Desk) -> ChangeRequest:
    request = desk.approved(ends_at=desk.world.now + HOUR)
    desk.world.now += 2 * HOUR
    return request


def half_written(desk: Desk) -> ChangeRequest:
    request = desk.do("note_check", desk.ask(), fields={"report": CLEAN}, steps=[a_step(0), a_step(1)])
    request = desk.do("begin", desk.do("approve", desk.do("submit", request, "red_lead"), "admin"))
    request.steps.filter(position=0).update(done_at=desk.world.now)
    return request


GUARDS: list[tuple[str, Prepare, str, str | None]] = [
    ("unchecked", unchecked_again, "submit", "red_lead"),
    ("refused", lambda desk: desk.checked(desk.ask(), REFUSED), "submit", "red_lead"),
    ("refused", lambda desk: desk.checked(desk.ask(), BY_DRY_RUN), "submit", "red_lead"),
    ("empty", lambda desk: desk.do("note_check", desk.ask(), fields={"report": CLEAN}), "submit", "red_lead"),
    ("late", late_to_submit, "submit", "red_lead"),
    ("early", lambda desk: desk.approved(starts_at=desk.world.now + HOUR), "begin", None),
    ("late", late_to_begin, "begin", None),
    ("steps", half_written, "finish", None),
    ("steps", half_written, "back_to_check", None),
]


@pytest.mark.parametrize(("code", "prepare", "name", "who"), GUARDS)
def test_each_guard_refuses_by_its_code(
    desk: Desk, code: str, prepare: Prepare, name: str, who: str | None
) -> None:
    request = prepare(desk)
    with pytest.raises(NotPossible) as caught:
        desk.do(name, request, who)
    assert caught.value.code == code
    assert ChangeRequest.objects.get(pk=request.pk).state == request.state


@pytest.mark.parametrize("name", sorted(name for name, row in TABLE.items() if row.sees))
def test_people_say_which_version_they_saw_wherever_it_matters(desk: Desk, name: str) -> None:
    request = desk.ask()
    who = "red_lead" if "requester" in TABLE[name].who else "admin"
    ChangeRequest.objects.filter(pk=request.pk).update(
        state=TABLE[name].sources[0], origin=sorted(TABLE[name].origins)[0]
    )
    with pytest.raises(VersionRequired):
        desk.do(name, request, who, seen_version=None)
    with pytest.raises(Conflict):
        desk.do(name, request, who, seen_version=request.version + 1)


@pytest.mark.parametrize("reason", ["", "  "])
def test_whoever_says_no_says_why(desk: Desk, reason: str) -> None:
    request = desk.do("submit", desk.checked(desk.ask()), "red_lead")
    with pytest.raises(BadRequest) as caught:
        desk.do("reject", request, "admin", reason=reason)
    assert [(one.field, one.code) for one in caught.value.faults] == [("reason", "required")]


# ---- what follows ---------------------------------------------------------------------------------------------------


def test_what_takes_a_requests_place_closes_it(desk: Desk) -> None:
    first = desk.do("submit", desk.checked(desk.ask()), "red_lead")
    second = desk.checked(desk.ask(replaces=first))
    assert ChangeRequest.objects.get(pk=first.pk).state == State.AWAITING
    desk.do("submit", second, "red_lead")
    assert ChangeRequest.objects.get(pk=first.pk).state == State.SUPERSEDED
    entry = AuditEntry.objects.get(action="change.supersede")
    assert (entry.subject_id, entry.actor_name, entry.reason) == (
        str(first.pk), "red_lead", f"replaced by {second.pk}",
    )  # fmt: skip


def test_a_refusal_of_what_follows_stands_under_its_own_request(desk: Desk) -> None:
    """The lead asked to replace an own request; before it was put forward, an admin took the other one over."""
    first, other = desk.checked(desk.ask()), User.objects.get(username="admin")
    second = desk.checked(desk.ask(replaces=first))
    ChangeRequest.objects.filter(pk=first.pk).update(created_by=other)
    with pytest.raises(NotAllowed):
        desk.do("submit", second, "red_lead")
    assert ChangeRequest.objects.get(pk=second.pk).state == State.CHECKED
    entry = AuditEntry.objects.get(outcome="refused")
    assert (entry.action, entry.subject_id) == ("change.supersede", str(first.pk))


def test_an_undo_is_asked_for_once(desk: Desk) -> None:
    request = desk.applied()
    lead = desk.person("red_lead")
    undo = ask_undo(request.pk, actor=lead, reason="too much", now=desk.world.now)
    with pytest.raises(NotPossible):
        ask_undo(request.pk, actor=lead, reason="again", now=desk.world.now)
    desk.do("cancel", undo, "red_lead")
    assert ask_undo(request.pk, actor=lead, reason="after all", now=desk.world.now).reverts_id == request.pk


def test_what_nobody_moves_on_expires(desk: Desk, settings: Any) -> None:
    old = desk.world.now
    idle, decided = desk.ask(), desk.approved()
    coming = desk.approved(starts_at=old + timedelta(days=90))
    ending = desk.ask(ends_at=old + timedelta(days=1))
    assert expire_due(old) == []
    assert expire_due(old + timedelta(days=2)) == [ending.pk]
    assert expire_due(old + timedelta(days=settings.CHANGE_EXPIRY_DAYS, seconds=1)) == [idle.pk, decided.pk]
    assert ChangeRequest.objects.get(pk=coming.pk).state == State.APPROVED


def test_a_person_who_may_no_longer_ask_moves_nothing(desk: Desk) -> None:
    request = desk.checked(desk.ask())
    Membership.objects.filter(user=desk.person("red_lead")).update(role=Membership.Role.MEMBER)
    with pytest.raises(NotAllowed):
        desk.do("submit", request, "red_lead")


# ---- who is told ----------------------------------------------------------------------------------------------------


def test_nothing_is_sent_where_no_way_is_set(desk: Desk) -> None:
    desk.applied()
    assert not Notice.objects.exists()


def test_approvers_and_the_requester_are_told_by_mail_and_not_of_own_deeds(desk: Desk, settings: Any) -> None:
    settings.EMAIL_ENABLED = True
    for name in ("red_lead", "admin"):
        person = desk.person(name)
        person.email = f"{name}@example.com"
        person.save()
    request = desk.do("submit", desk.checked(desk.ask()), "red_lead")
    told = Notice.objects.filter(payload__event="change.submit").values_list("target", flat=True)
    assert sorted(told) == ["admin@example.com", "approver@example.com"]
    desk.do("approve", request, "admin")
    told = Notice.objects.filter(payload__event="change.approve").values_list("target", flat=True)
    assert list(told) == ["red_lead@example.com"]


def test_a_refused_transition_sends_nothing(desk: Desk, settings: Any) -> None:
    settings.WEBHOOK_URL = "http://127.0.0.1:1/"
    request = desk.ask()
    with pytest.raises(ChangeRefused):
        desk.do("approve", request, "admin")
    assert not Notice.objects.filter(payload__event="change.approve").exists()


def test_the_worker_is_woken_after_commit_only(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr("apps.changes.wake._send", sent.append)
    with django_capture_on_commit_callbacks(execute=True):
        request = desk.ask()
        assert sent == []
    assert sent == [request.pk]
    sent.clear()

    def and_fails() -> None:
        with transaction.atomic():
            desk.do("ask_check", request, "red_lead")
            raise RuntimeError

    with django_capture_on_commit_callbacks(execute=True), pytest.raises(RuntimeError):
        and_fails()
    assert sent == []


# ---- whatever is tried ----------------------------------------------------------------------------------------------

TRIES = st.lists(
    st.tuples(
        st.sampled_from(sorted(TABLE)),
        st.sampled_from([None, "red_lead", "blue_lead", "viewer", "admin", "approver"]),
        st.sampled_from([-1, 0, None]),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tries=TRIES)
def test_states_move_by_the_table_and_the_trail_fits(desk: Desk, tries: list[Any]) -> None:
    with transaction.atomic():
        request = desk.ask()
        for name, who, back in tries:
            before = ChangeRequest.objects.get(pk=request.pk)
            seen = None if back is None else before.version + back
            actor = None if who is None else desk.person(who)
            more: dict[str, Any] = (
                {"fields": {"report": CLEAN}, "steps": [a_step()]} if name == "note_check" else {}
            )
            try:
                perform(
                    name,
                    request.pk,
                    actor=actor,
                    seen_version=seen,
                    now=desk.world.now,
                    reason="why not",
                    **more,
                )
            except ChangeRefused:
                present = ChangeRequest.objects.get(pk=request.pk)
                assert (present.state, present.version) == (before.state, before.version)
                continue
            present, row = ChangeRequest.objects.get(pk=request.pk), TABLE[name]
            assert before.state in row.sources
            assert present.state == (before.state if row.target is None else row.target)
            assert present.version == before.version + 1
            assert (actor is None) == ("portal" in row.who and actor is None)
        assert audit.verify() is None
        transaction.set_rollback(True)
