"""Who may do what to a change request, by page and by REST: every role × every deed and transition, expected by hand in
tests/data/changes/matrix.yaml. What is not allowed changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client

from apps.accounts.models import Membership, User
from apps.changes.models import ChangeRequest, State
from apps.changes.services import DEEDS
from apps.changes.transitions import TABLE
from tests.changes.conftest import CLEAN, NOMINAL, Desk, a_step

MATRIX: dict[str, Any] = yaml.safe_load((Path(__file__).parents[1] / "data/changes/matrix.yaml").read_text())
ROLES: list[str] = MATRIX["roles"]
ROWS = {name: row for name, row in MATRIX.items() if name not in ("roles", "self_approval")}
BY_PEOPLE = {name for name, row in ROWS.items() if "yes" in row}
PORTALS = ROWS.keys() - BY_PEOPLE
BODY: dict[str, Any] = {"cluster": "east", "team": "red", "edits": [NOMINAL], "reason": "a new model"}
REST = {"login": 401, "absent": 404, "no": 403, "fault": 400, "yes": 200}
HTML = {"login": 302, "absent": 404, "no": 403, "yes": 303}
CASES = [(role, name) for name in ROWS for role in ROLES]


@pytest.fixture
def people(desk: Desk) -> Desk:
    """Two leads of red: one asks, the other looks on."""
    requester = User(username="requester")
    requester.set_unusable_password()
    requester.save()
    Membership.objects.create(user=requester, team=desk.world.red, role=Membership.Role.LEAD)
    desk.world.users["requester"] = requester
    return desk


def ready(desk: Desk, name: str, role: str) -> ChangeRequest:
    """A request where the deed could be done, asked for by the admin in the admin's column."""
    who = "admin" if role == "admin" else "requester"
    if name == "cancel_end":
        return an_end(desk, who)
    request = desk.ask(who)
    if name in ("read", "save", "ask_check"):
        return request
    request = desk.checked(request)
    if name == "submit":
        return request
    request = desk.do("submit", request, who)
    if name != "undo":
        return request
    return finished(desk, request)


def finished(desk: Desk, request: ChangeRequest) -> ChangeRequest:
    request = desk.do("begin", desk.do("approve", request, "approver"))
    request.steps.update(done_at=desk.world.now, sent_at=desk.world.now, written_version="43")
    return desk.do("finish", request)


def an_end(desk: Desk, who: str) -> ChangeRequest:
    """An end that waits for a human."""
    request = desk.checked(desk.ask(who, ends_at=desk.world.now.replace(year=desk.world.now.year + 1)))
    finished(desk, desk.do("submit", request, who))
    end = desk.do("ask_check", ChangeRequest.objects.get(reverts=request))
    end = desk.do("note_check", end, fields={"report": CLEAN}, steps=[a_step()])
    return desk.do("submit_end", end)


def by_rest(client: Client, name: str, request: ChangeRequest) -> int:
    path = f"/api/v1/quota-changes/{request.pk}/"
    body = {"version": request.version, "reason": "for the test"}
    if name == "read":
        return int(client.get(path).status_code)
    if name == "create":
        return int(client.post("/api/v1/quota-changes/", BODY, content_type="application/json").status_code)
    if name == "save":
        return int(client.patch(path, body, content_type="application/json").status_code)
    deed = "cancel" if name == "cancel_end" else name
    return int(client.post(f"{path}{deed}/", body, content_type="application/json").status_code)


def by_page(client: Client, name: str, request: ChangeRequest) -> int:
    path = f"/changes/{request.pk}/"
    if name == "read":
        # Seen is 200; after a deed the reader is sent on with 303.
        status = int(client.get(path).status_code)
        return 303 if status == 200 else status
    deed = "cancel" if name == "cancel_end" else name
    body = {"do": deed, "version": str(request.version), "reason": "for the test"}
    return int(client.post(path, body).status_code)


def present(request: ChangeRequest) -> tuple[str, int, int]:
    now = ChangeRequest.objects.get(pk=request.pk)
    return now.state, now.version, ChangeRequest.objects.count()


def test_every_transition_and_deed_has_a_row() -> None:
    assert ROWS.keys() == TABLE.keys() | set(DEEDS) | {"create", "read"}
    assert all(len(row) == len(ROLES) for row in ROWS.values())


@pytest.mark.parametrize(("role", "name"), CASES, ids=[f"{name}-{role}" for role, name in CASES])
def test_by_rest(people: Desk, role: str, name: str) -> None:
    expected = ROWS[name][ROLES.index(role)]
    request = ready(people, "read" if name in PORTALS else name, role)
    before = present(request)
    status = by_rest(people.world.client(role), name, request)
    made = expected == "yes" and name in ("create", "undo")
    assert status == (201 if made else REST[expected])
    if expected != "yes":
        assert present(request) == before
    elif name != "read":
        assert present(request) != before


DEEDS_BY_PAGE = [(role, name) for role, name in CASES if name not in ("create", "save")]


@pytest.mark.parametrize(
    ("role", "name"), DEEDS_BY_PAGE, ids=[f"{name}-{role}" for role, name in DEEDS_BY_PAGE]
)
def test_by_page(people: Desk, role: str, name: str) -> None:
    """Who may open the forms that make and edit requests is among all addresses (tests/access/test_roles.py)."""
    expected = ROWS[name][ROLES.index(role)]
    request = ready(people, "read" if name in PORTALS else name, role)
    before = present(request)
    status = by_page(people.world.client(role), name, request)
    if name in PORTALS and ROWS["read"][ROLES.index(role)] == "yes":
        assert status == 400  # the page is theirs, the form says nothing that it knows
    else:
        assert status == HTML[expected]
    if expected != "yes":
        assert present(request) == before
    elif name != "read":
        assert present(request) != before


@pytest.mark.parametrize("channel", [by_rest, by_page])
@pytest.mark.parametrize("name", MATRIX["self_approval"])
def test_an_admin_decides_on_an_own_request_where_that_is_allowed(
    people: Desk, settings: Any, channel: Any, name: str
) -> None:
    settings.SELF_APPROVAL = True
    request = ready(people, name, "admin")
    assert channel(people.world.client("admin"), name, request) in (200, 303)
    now = ChangeRequest.objects.get(pk=request.pk)
    assert now.state != State.AWAITING
    assert now.self_approved is (name == "approve")
