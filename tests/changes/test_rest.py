"""Change requests over REST: what each write answers, what a repeated one does, what is told to whom."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.changes.models import AuditEntry, ChangeRequest, IdempotencyKey
from apps.changes.selectors import in_force
from tests.changes.conftest import CLEAN, NOMINAL, Desk

V1 = "/api/v1/quota-changes/"
BODY: dict[str, Any] = {"cluster": "east", "team": "red", "edits": [NOMINAL], "reason": "a new model"}


def call(
    desk: Desk, who: str, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, dict[str, Any]]:
    response = answer(desk.world.client(who), method, path, body, **headers)
    return response.status_code, response.json()


def answer(client: Client, method: str, path: str, body: Any = None, **headers: str) -> Any:
    given: dict[str, Any] = (
        {} if method == "get" else {"data": body or {}, "content_type": "application/json"}
    )
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return getattr(client, method)(f"{V1}{path}", headers=named, **given)


def faults(body: dict[str, Any]) -> list[tuple[str, str]]:
    return [(fault["parameter"], fault["code"]) for fault in body["errors"]]


# ---- the whole life -------------------------------------------------------------------------------------------------


def test_a_request_goes_from_asked_for_to_undone(desk: Desk) -> None:
    made = answer(desk.world.client("red_lead"), "post", "", BODY)
    result = made.json()["result"]
    pk = result["id"]
    assert (made.status_code, made.headers["Location"], made.headers["ETag"]) == (201, f"{V1}{pk}/", '"1"')
    assert (result["state"], result["team"], result["created_by"]) == ("draft", "red", "red_lead")
    assert result["objects"] == [{"kind": "ClusterQueue", "namespace": "", "name": "red-cq"}]
    assert result["possible"] == ["save", "ask_check", "cancel"]
    request = desk.checked(ChangeRequest.objects.get(pk=pk))
    assert call(desk, "red_lead", "get", f"{pk}/")[1]["result"]["possible"] == [
        "save", "ask_check", "submit", "cancel",
    ]  # fmt: skip
    status, body = call(desk, "red_lead", "post", f"{pk}/submit/", {"version": request.version})
    assert (status, body["result"]["state"], body["result"]["version"]) == (200, "awaiting_approval", 3)
    assert call(desk, "admin", "get", "?inbox=on")[1]["results"][0]["id"] == pk
    status, body = call(desk, "admin", "post", f"{pk}/approve/", {"reason": "fine"}, If_Match='"3"')
    assert (status, body["result"]["decided_by"], body["result"]["decision_reason"]) == (200, "admin", "fine")
    desk.do("begin", request)
    request.steps.update(done_at=desk.world.now)
    desk.do("finish", request)
    assert call(desk, "viewer", "get", f"{pk}/")[1]["result"]["possible"] == []
    status, body = call(desk, "red_lead", "post", f"{pk}/undo/", {"reason": "too much"})
    undo = body["result"]
    assert (status, undo["origin"], undo["reverts"], undo["state"]) == (201, "undo", pk, "draft")
    first = call(desk, "red_lead", "get", f"{pk}/")[1]["result"]
    assert (first["reverted_by"], first["possible"]) == ([undo["id"]], [])
    assert [(deed["action"], deed["actor"]) for deed in first["timeline"]] == [
        ("create", "red_lead"), ("note_check", "portal"), ("submit", "red_lead"), ("approve", "admin"),
        ("begin", "portal"), ("finish", "portal"),
    ]  # fmt: skip
    step = first["steps"][0]
    assert (step["words"], step["before"]["nominal"]) == (["/spec/nominal 8 → 12"], "8")
    assert "-  nominal: '8'\n+  nominal: '12'" in step["diff"]


def test_a_draft_is_edited_as_a_whole_or_in_part(desk: Desk) -> None:
    ends = (desk.world.now + timedelta(days=2)).isoformat()
    pk = call(desk, "red_lead", "post", "", BODY | {"ends_at": ends})[1]["result"]["id"]
    status, body = call(desk, "red_lead", "patch", f"{pk}/", {"reason": "two models"}, If_Match='"1"')
    result = body["result"]
    assert (status, result["reason"], result["edits"], result["version"]) == (200, "two models", [NOMINAL], 2)
    assert result["ends_at"] is not None
    status, body = call(
        desk, "red_lead", "put", f"{pk}/", {"reason": "three", "edits": [NOMINAL], "version": 2}
    )
    assert (status, body["result"]["reason"], body["result"]["ends_at"]) == (200, "three", None)
    assert call(desk, "red_lead", "patch", f"{pk}/", {"reason": "x"})[0] == 428
    assert call(desk, "viewer", "patch", f"{pk}/", {"reason": "x", "version": 3})[0] == 403
    assert (
        AuditEntry.objects.filter(action="change.save", outcome="refused", actor_name="viewer").count() == 1
    )
    status, body = call(desk, "red_lead", "put", f"{pk}/", {"version": 3})
    assert (status, faults(body)) == (400, [("reason", "required"), ("edits", "nothing")])
    assert ChangeRequest.objects.get(pk=pk).version == 3


def test_a_request_takes_no_place_of_its_own(desk: Desk) -> None:
    pk = call(desk, "red_lead", "post", "", BODY)[1]["result"]["id"]
    status, body = call(desk, "red_lead", "patch", f"{pk}/", {"replaces": pk, "version": 1})
    assert (status, faults(body)) == (400, [("replaces", "unknown")])
    other = call(desk, "red_lead", "post", "", BODY)[1]["result"]["id"]
    status, body = call(desk, "red_lead", "patch", f"{pk}/", {"replaces": other, "version": 1})
    assert (status, body["result"]["replaces"]) == (200, other)
    assert call(desk, "red_lead", "get", f"{other}/")[1]["result"]["replaced_by"] == [pk]


def test_what_somebody_else_asked_for_is_not_replaced(desk: Desk) -> None:
    """It would be refused when the new one is put before the approvers: better said at once, also when it is edited."""
    theirs = call(desk, "admin", "post", "", BODY)[1]["result"]["id"]
    status, body = call(desk, "red_lead", "post", "", BODY | {"replaces": theirs})
    assert (status, faults(body)) == (400, [("replaces", "not_yours")])
    own = call(desk, "red_lead", "post", "", BODY)[1]["result"]["id"]
    status, body = call(desk, "red_lead", "patch", f"{own}/", {"replaces": theirs, "version": 1})
    assert (status, faults(body)) == (400, [("replaces", "not_yours")])
    assert call(desk, "admin", "post", "", BODY | {"replaces": own})[0] == 201


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"cluster": "nowhere"}, [("cluster", "unknown")]),
        ({"cluster": "west"}, [("cluster", "unknown")]),
        ({"cluster": 7}, [("cluster", "unknown")]),
        ({"team": "blue"}, [("team", "unknown")]),
        ({"team": "none"}, [("team", "unknown")]),
        ({"team": ["red"]}, [("team", "unknown")]),
        ({"edits": {}}, [("edits", "shape")]),
        ({"edits": [1]}, [("edits", "shape")]),
        ({"edits": []}, [("edits", "nothing")]),
        ({"reason": 5}, [("reason", "shape")]),
        ({"reason": " "}, [("reason", "required")]),
        ({"reason": "x" * 2001}, [("reason", "too_long")]),
        ({"reason": "a\x00b"}, [("", "shape")]),
        ({"reason": "\ud800"}, [("", "shape")]),
        ({"starts_at": "tomorrow"}, [("starts_at", "time")]),
        ({"starts_at": "2026-12-01T08:00:00"}, [("starts_at", "time")]),
        ({"ends_at": "2020-01-01T00:00:00Z"}, [("ends_at", "past")]),
        ({"ends_at": "9999-01-01", "starts_at": "9999-01-02"}, [("ends_at", "order")]),
        ({"ends_at": 1}, [("ends_at", "shape")]),
        ({"replaces": 12345}, [("replaces", "unknown")]),
        ({"replaces": "1"}, [("replaces", "unknown")]),
        ({"colour": "red"}, [("colour", "unknown_field")]),
        ({"edits": [NOMINAL | {"name": "blue-cq"}]}, [("edits.0.name", "unknown")]),
        ({"edits": [NOMINAL | {"name": "none"}]}, [("edits.0.name", "unknown")]),
        (
            {"edits": [{"kind": "ClusterQueue", "name": "red-cq", "set": {"cohort": "blue-a"}}]},
            [("edits.0.set.cohort", "unknown")],
        ),
        ({"edits": [{"kind": "Cohort", "name": "all", "set": {"fair_weight": "2"}}]}, [("edits.0.name", "unknown")]),
        (
            {"edits": [{"kind": "ClusterQueue", "name": "red-cq", "set": {"stop_policy": "Maybe"}}], "reason": ""},
            [("reason", "required"), ("edits.0.set.stop_policy", "choice")],
        ),
    ],
)  # fmt: skip
def test_every_fault_stands_at_its_field(desk: Desk, change: dict[str, Any], expected: Any) -> None:
    status, body = call(desk, "red_lead", "post", "", BODY | change)
    assert (status, faults(body)) == (400, expected)
    assert all(fault["detail"] for fault in body["errors"])
    assert not ChangeRequest.objects.exists()


@pytest.mark.parametrize("who", ["red_lead", "admin"])
@pytest.mark.parametrize("left_out", ["cluster", "team", "edits", "reason"])
def test_what_is_needed_is_said(desk: Desk, who: str, left_out: str) -> None:
    body = {name: value for name, value in BODY.items() if name != left_out}
    status, found = call(desk, who, "post", "", body)
    assert (status, faults(found)) == (400, [(left_out, "required")])


def test_a_foreign_name_answers_like_one_that_does_not_exist(desk: Desk) -> None:
    client = desk.world.client("red_lead")
    blue = desk.ask("blue_lead", team=desk.world.blue, edits=[NOMINAL | {"name": "blue-cq"}]).pk
    for path in ("{}/", "{}/approve/", "{}/undo/", "{}/nonsense/"):
        method = "get" if path == "{}/" else "post"
        answers = [
            answer(client, method, path.format(pk), {"version": 1, "reason": "x"}) for pk in (blue, 987654)
        ]
        assert [found.status_code for found in answers] == [404, 404]
        told = [
            found.content.replace(f"/{pk}/".encode(), b"/N/")
            for found, pk in zip(answers, (blue, 987654), strict=True)
        ]
        assert told[0] == told[1]
    for method in ("put", "patch"):
        assert answer(client, method, f"{blue}/", {"reason": "x", "version": 1}).status_code == 404
    replaced = [call(desk, "red_lead", "post", "", BODY | {"replaces": pk}) for pk in (blue, 987654)]
    assert replaced[0] == replaced[1]


def test_only_leads_and_admins_ask(desk: Desk) -> None:
    assert call(desk, "viewer", "post", "", BODY)[0] == 403
    assert call(desk, "finance", "post", "", BODY)[0] == 403
    assert call(desk, "guest", "post", "", BODY)[0] == 400
    assert call(desk, "anonymous", "post", "", BODY)[0] == 401
    assert call(desk, "red_lead", "post", "", BODY | {"team": None})[0] == 403
    assert call(desk, "admin", "post", "", BODY | {"team": None})[0] == 201


def test_a_conflict_says_what_is_now_and_who_did_it(desk: Desk) -> None:
    request = desk.do("submit", desk.checked(desk.ask()), "red_lead")
    version = request.version
    desk.do("approve", request, "approver")
    status, body = call(desk, "admin", "post", f"{request.pk}/reject/", {"version": version, "reason": "no"})
    assert (status, body["type"]) == (409, "urn:gpu-portal:problem:conflict")
    assert (body["state"], body["version"], body["who"]) == ("approved", version + 1, "approver")
    assert "approver" in body["detail"]


def test_what_is_in_the_way_has_a_code_and_words(desk: Desk) -> None:
    request = desk.ask()
    status, body = call(desk, "red_lead", "post", f"{request.pk}/submit/", {"version": 1})
    assert (status, body["code"], body["state"]) == (409, "state", "draft")
    refused = CLEAN | {"refusals": [{"code": "negative", "field": "edits.0", "params": {"value": "-1"}}]}
    desk.checked(request, refused)
    status, body = call(desk, "red_lead", "post", f"{request.pk}/submit/", {"version": 2})
    assert (status, body["code"], body["type"]) == (409, "refused", "urn:gpu-portal:problem:not-possible")
    assert call(desk, "red_lead", "post", f"{request.pk}/submit/")[0] == 428
    status, body = call(desk, "red_lead", "post", f"{request.pk}/approve/", {"version": 2})
    assert (status, body["code"]) == (403, "role")
    own = desk.do("submit", desk.checked(desk.ask("admin")), "admin")
    status, body = call(desk, "admin", "post", f"{own.pk}/approve/", {"version": own.version})
    assert (status, body["code"]) == (403, "own")
    status, body = call(desk, "approver", "post", f"{own.pk}/reject/", {"version": own.version})
    assert (status, faults(body)) == (400, [("reason", "required")])


@pytest.mark.parametrize(
    ("given", "headers", "expected"),
    [
        ({"version": "1"}, {}, ("version", "shape")),
        ({"version": True}, {}, ("version", "shape")),
        ({"version": 1.5}, {}, ("version", "shape")),
        ({"version": -1}, {}, ("version", "shape")),
        ({"version": 2**40}, {}, ("version", "shape")),
        ({}, {"If_Match": "1"}, ("If-Match", "shape")),
        ({}, {"If_Match": "*"}, ("If-Match", "shape")),
        ({"version": 1}, {"If_Match": '"2"'}, ("version", "repeated")),
        ({"reason": 1}, {}, ("reason", "shape")),
        ({"why": "x"}, {}, ("why", "unknown_field")),
    ],
)
def test_versions_are_read_strictly(desk: Desk, given: Any, headers: dict[str, str], expected: Any) -> None:
    pk = desk.ask().pk
    status, body = call(desk, "red_lead", "post", f"{pk}/cancel/", given, **headers)
    assert (status, faults(body)) == (400, [expected])


# ---- idempotency ----------------------------------------------------------------------------------------------------


def test_the_same_call_with_the_same_key_is_done_once(desk: Desk) -> None:
    client = desk.world.client("red_lead")
    first, second = (answer(client, "post", "", BODY, Idempotency_Key="k1") for _turn in range(2))
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert first.headers["ETag"] == second.headers["ETag"]
    assert first.headers["Location"] == second.headers["Location"]
    assert ChangeRequest.objects.count() == 1
    assert answer(client, "post", "", BODY, Idempotency_Key="k2").status_code == 201
    assert answer(client, "post", "", BODY).status_code == 201
    assert ChangeRequest.objects.count() == 3


def test_a_key_belongs_to_one_call_and_one_person(desk: Desk) -> None:
    assert call(desk, "red_lead", "post", "", BODY, Idempotency_Key="k")[0] == 201
    status, body = call(desk, "red_lead", "post", "", BODY | {"reason": "other"}, Idempotency_Key="k")
    assert (status, body["type"]) == (422, "urn:gpu-portal:problem:key-reused")
    assert call(desk, "admin", "post", "", BODY, Idempotency_Key="k")[0] == 201
    pk = ChangeRequest.objects.get(created_by=desk.person("red_lead")).pk
    assert call(desk, "red_lead", "post", f"{pk}/cancel/", BODY and {}, Idempotency_Key="k")[0] == 422
    assert call(desk, "red_lead", "post", "", BODY, Idempotency_Key="x" * 201)[0] == 400


def test_refusals_are_remembered_and_their_entries_stay(desk: Desk) -> None:
    request = desk.do("submit", desk.checked(desk.ask()), "red_lead")
    given = {"version": request.version}
    first = call(desk, "red_lead", "post", f"{request.pk}/approve/", given, Idempotency_Key="k")
    again = call(desk, "red_lead", "post", f"{request.pk}/approve/", given, Idempotency_Key="k")
    assert first == again
    assert first[0] == 403
    assert AuditEntry.objects.filter(action="change.approve", outcome="refused").count() == 1
    assert IdempotencyKey.objects.get().status == 403


def test_a_decision_is_not_taken_twice(desk: Desk) -> None:
    request = desk.do("submit", desk.checked(desk.ask()), "red_lead")
    given = {"version": request.version}
    first = call(desk, "admin", "post", f"{request.pk}/approve/", given, Idempotency_Key="k")
    again = call(desk, "admin", "post", f"{request.pk}/approve/", given, Idempotency_Key="k")
    assert first == again
    assert first[0] == 200
    # Without the key the second one meets the first.
    assert call(desk, "admin", "post", f"{request.pk}/approve/", given)[0] == 409


# ---- reading --------------------------------------------------------------------------------------------------------


def test_who_reads_which_requests(desk: Desk) -> None:
    red = desk.ask().pk
    blue = desk.ask("blue_lead", team=desk.world.blue, edits=[NOMINAL | {"name": "blue-cq"}]).pk
    platform = desk.ask("admin", team=None).pk
    found = {
        who: [row["id"] for row in call(desk, who, "get", "")[1]["results"]]
        for who in ("guest", "viewer", "red_lead", "blue_lead", "finance", "admin")
    }
    assert found == {
        "guest": [], "viewer": [red], "red_lead": [red], "blue_lead": [blue], "finance": [],
        "admin": [platform, blue, red],
    }  # fmt: skip
    assert call(desk, "finance", "get", f"{red}/")[0] == 404
    assert [row["id"] for row in call(desk, "admin", "get", "?team=-")[1]["results"]] == [platform]
    page = call(desk, "admin", "get", "?page_size=2")[1]
    assert [row["id"] for row in page["results"]] == [platform, blue]
    rest = desk.world.client("admin").get(page["next"]).json()
    assert ([row["id"] for row in rest["results"]], rest["next"]) == ([red], None)


def test_a_lead_is_told_of_others_in_sums(desk: Desk) -> None:
    red, blue = str(desk.world.red.pk), str(desk.world.blue.pk)
    params: dict[str, Any] = {
        "queue": "red-cq", "flavor": "h100", "resource": "nvidia.com/gpu", "held": "6", "nominal": "4", "beyond": "2",
        "ceiling": "4", "over": "2", "then": "stays",
        "teams": [{"team": blue, "held": "4"}, {"team": red, "held": "2"}],
    }  # fmt: skip
    line = {"admitted": 0, "loses": 1, "waits": 0, "moves": 0, "holds": []}
    what_if = {
        "teams": [{"team": int(red)} | line, {"team": int(blue)} | line],
        "work": [], "volcano": [], "anyway": 3, "whole": True, "gaps": [], "workloads": 5, "queues": 2,
    }  # fmt: skip
    warning = {"code": "below_use", "field": "edits.0.set.quotas.0.nominal", "params": params}
    request = desk.checked(desk.ask(), CLEAN | {"warnings": [warning], "what_if": what_if})
    lead = call(desk, "red_lead", "get", f"{request.pk}/")[1]["result"]["report"]
    assert lead["warnings"][0]["params"]["teams"] == [
        {"team": "red", "held": "2"}, {"team": "others", "held": "4"},
    ]  # fmt: skip
    assert "Held by: Red 2, other teams 4." in lead["warnings"][0]["text"]
    assert lead["what_if"]["teams"] == [{"team": "red"} | line]
    assert lead["what_if"]["others"] == line
    admin = call(desk, "admin", "get", f"{request.pk}/")[1]["result"]["report"]
    assert [one["team"] for one in admin["what_if"]["teams"]] == ["red", "blue"]
    assert "blue" not in str(lead).lower()


def test_the_calendar_says_what_changes_next(desk: Desk) -> None:
    now = desk.world.now
    held = desk.applied(ends_at=now + timedelta(days=5))
    coming = desk.approved(starts_at=now + timedelta(days=2), ends_at=now + timedelta(days=9))
    desk.applied()  # for good
    over = desk.applied(ends_at=now + timedelta(days=1))
    found = call(desk, "red_lead", "get", "calendar/")[1]["results"]
    assert [row["id"] for row in found] == [over.pk, coming.pk, held.pk]
    later = now + timedelta(days=3)
    assert [row.pk for row in in_force(desk.person("admin"), later)] == [over.pk, held.pk]
    end = ChangeRequest.objects.get(reverts=over)
    desk.do("cancel_end", end, "admin", reason="it stays")
    assert [row.pk for row in in_force(desk.person("admin"), later)] == [held.pk]
    assert call(desk, "blue_lead", "get", "calendar/")[1]["results"] == []
