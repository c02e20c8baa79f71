"""The trail as a page, CSV and REST list: one filter for all three, what differs in words, and where an entry leads."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from apps.changes import audit
from apps.changes.acting import Acting
from apps.changes.audit_differences import Difference, differences
from apps.changes.audit_filters import ACTIONS, KINDS
from apps.changes.models import AuditEntry
from tests.changes.conftest import Desk
from tests.pages.test_pages import download, text

PAGE, CSV, REST = "/audit/", "/audit/?format=csv&table=audit", "/api/v1/audit/"


@pytest.fixture
def trail(desk: Desk) -> Desk:
    """What the fleet left behind, a request up to its application, and a refusal."""
    request = desk.applied()
    audit.record(
        "change.approve",
        audit.Subject("ChangeRequest", str(request.pk), "LocalQueue/red-ns/red-lq", "red", "east"),
        by=Acting(None, "mallory", "10.9.9.9"),
        at=desk.world.now + timedelta(hours=3),
        reason="let me in",
        outcome="refused",
    )
    return desk


def rest(desk: Desk, query: str = "") -> dict[str, Any]:
    found: dict[str, Any] = desk.world.client("admin").get(f"{REST}?page_size=500{query}").json()
    return found


def sequences(desk: Desk, query: str = "") -> list[int]:
    return [row["sequence"] for row in rest(desk, query)["results"]]


def kept(**wanted: Any) -> list[int]:
    found = AuditEntry.objects.filter(**wanted).order_by("-sequence")
    return list(found.values_list("sequence", flat=True))


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("who=red_lead", {"actor_name": "red_lead"}),
        ("action=change.approve", {"action": "change.approve"}),
        ("kind=TeamBinding", {"subject_kind": "TeamBinding"}),
        ("kind=ChangeRequest&id={id}", {"subject_kind": "ChangeRequest"}),
        ("team=blue", {"team_slug": "blue"}),
        ("cluster=east", {"cluster_slug": "east"}),
        ("outcome=refused", {"actor_name": "mallory"}),
        ("about=RED-LQ", {"subject_label__contains": "red-lq"}),
        ("q=let+ME", {"actor_name": "mallory"}),
        ("team=red&outcome=refused", {"actor_name": "mallory"}),
    ],
)
def test_page_csv_and_rest_keep_the_same(trail: Desk, query: str, wanted: dict[str, Any]) -> None:
    request = AuditEntry.objects.filter(action="change.approve").first()
    assert request is not None
    query = query.format(id=request.subject_id)
    expected = kept(**wanted)
    assert expected, "a filter that keeps nothing shows nothing"
    assert len(expected) < AuditEntry.objects.count()
    assert sequences(trail, f"&{query}") == expected
    client = trail.world.client("admin")
    assert [int(row[0]) for row in download(client, f"{CSV}&{query}")[1:]] == expected
    assert text(client, f"{PAGE}?{query}").count('<td class="num">') == min(len(expected), 50)


def test_times_are_half_open(trail: Desk) -> None:
    at = AuditEntry.objects.latest("sequence").at.isoformat().replace("+00:00", "Z")
    last = kept(actor_name="mallory")
    assert sequences(trail, f"&from={at}") == last
    assert sequences(trail, f"&to={at}") == kept(sequence__lt=last[0])


@pytest.mark.parametrize(
    "query", ["action=none", "outcome=maybe", "from=noon", "kind=Pod", "cluster=none", "whom=x"]
)
def test_rest_refuses_what_it_cannot_answer(trail: Desk, query: str) -> None:
    assert trail.world.client("admin").get(f"{REST}?{query}").status_code == 400


def test_the_page_tells_a_fault_of_its_filter(trail: Desk) -> None:
    assert 'role="alert"' in text(trail.world.client("admin"), f"{PAGE}?from=noon")


def test_pages_of_rest_follow_each_other_while_entries_come(trail: Desk) -> None:
    client, whole = trail.world.client("admin"), kept()
    found, address = [], f"{REST}?page_size=7"
    while address:
        answer = client.get(address).json()
        found += [row["sequence"] for row in answer["results"]]
        address = answer["next"]
        audit.record("team.edit", audit.Subject("Team", "1"), by=Acting(), at=trail.world.now)
    assert found == whole


def test_rest_tells_the_tip_and_how_far_it_was_verified(trail: Desk) -> None:
    sequence, digest = audit.tip()
    found = rest(trail)
    assert (found["tip"], found["verified"]) == ({"sequence": sequence, "hash": digest}, None)
    assert (found["results"][0]["sequence"], found["results"][0]["hash"]) == (sequence, digest)
    audit.note_verified(audit.walk())
    assert rest(trail)["verified"] | {"at": ""} == {"at": "", "sequence": sequence, "hash": digest}
    body = text(trail.world.client("admin"), PAGE)
    assert f"Verified up to entry {sequence}" in body
    assert f"{sequence + 1}:{audit.tip()[1]}" in body


def test_the_csv_holds_all_that_was_hashed(trail: Desk) -> None:
    header, *rows = download(trail.world.client("admin"), CSV)
    first = AuditEntry.objects.latest("sequence")
    assert (len(header), len(rows)) == (17, first.sequence)
    made = next(dict(zip(header, row, strict=True)) for row in rows if row[3] == "change.create")
    entry = AuditEntry.objects.get(action="change.create")
    assert (made["Hash"], made["Hash before"], made["From where"]) == (entry.hash, entry.previous_hash, "")
    assert json.loads(made["After"]) == entry.after


def test_an_entry_leads_to_what_it_is_about(trail: Desk) -> None:
    client = trail.world.client("admin")
    pk = AuditEntry.objects.get(action="change.create").subject_id
    body = text(client, f"{PAGE}?kind=ChangeRequest")
    for address in (
        f"/changes/{pk}/",
        "/queues/east/ClusterQueue/red-cq/",
        "/queues/east/LocalQueue/red-lq/?namespace=red-ns",
    ):
        assert f'href="{address}"' in body
        assert client.get(address).status_code == 200
    assert 'href="/teams/blue/"' in text(client, f"{PAGE}?kind=TeamBinding&team=blue")
    assert 'href="/sources/?cluster=east"' in text(client, f"{PAGE}?kind=Cluster&cluster=east")


def test_what_differs_is_told_and_nothing_in_it_is_markup(trail: Desk) -> None:
    team = trail.world.red
    team.name = "<b>Crimson</b>"
    team.save()
    body = text(trail.world.client("admin"), f"{PAGE}?action=team.edit&team=red")
    assert "<del>Red</del> → <ins>&lt;b&gt;Crimson&lt;/b&gt;</ins>" in body
    assert "<b>Crimson" not in body


def test_the_step_of_a_plan_reads_as_the_fields_of_its_object(trail: Desk) -> None:
    body = text(trail.world.client("admin"), f"{PAGE}?action=change.finish")
    assert '<span class="mono">ClusterQueue/red-cq nominal</span>: <del>8</del> → <ins>12</ins>' in body


def test_everything_that_was_recorded_can_be_chosen(trail: Desk) -> None:
    for action, kind in AuditEntry.objects.values_list("action", "subject_kind"):
        assert action in ACTIONS
        assert kind in KINDS
    body = text(trail.world.client("admin"), PAGE)
    assert all(f'<option value="{name}"' in body for name in (*ACTIONS, *KINDS))


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        (None, None, []),
        ({}, {}, []),
        ({"a": "1"}, {"a": "1"}, []),
        ({"a": "1"}, {"a": "2"}, [("a", "1", "2")]),
        ({"a": None}, {"a": ""}, [("a", None, "")]),
        (None, {"a": 1, "b": None}, [("a", None, "1")]),
        ({"a": True}, None, [("a", "true", None)]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, [("a.c", "2", "3")]),
        ({"a": {"b": 1}}, {"a": None}, [("a.b", "1", None)]),
        ({"a": [1, 2]}, {"a": [2, 1]}, [("a", "[1, 2]", "[2, 1]")]),
        (None, {"steps": ["odd"]}, [("steps", None, '["odd"]')]),
        (
            {"state": "x"},
            {
                "state": "y",
                "steps": [{"object": "Cohort/all", "before": {"a": {"b": 1}}, "after": {"a": {}}}],
            },
            [("state", "x", "y"), ("Cohort/all a/b", "1", None)],
        ),
    ],
)
def test_differences(before: Any, after: Any, lines: list[tuple[str, Any, Any]]) -> None:
    assert differences(before, after) == [Difference(*line) for line in lines]
