"""The form of a change request, saved: each field, times and teams, one request for one form; edited and replaced."""

from __future__ import annotations

import html
import json
import re
from datetime import timedelta
from typing import Any

import pytest

from apps.api.tests.world import GPU, World, cluster_object
from apps.changes.models import ChangeRequest
from apps.quotas.what_if_places import input_id

from .asking import (
    BORROWING,
    MORE,
    NOMINAL,
    RED,
    beside,
    keep_as_served,
    only,
    page,
    post,
)


@pytest.fixture(autouse=True)
def _as_served(world: World) -> None:
    keep_as_served(world)


# ---- saving ---------------------------------------------------------------------------------------------------------


def test_saving_leads_to_the_request(world: World) -> None:
    answer = post(
        world,
        role="red_lead",
        do="save",
        reason="a new model",
        team="red",
        starts_at="2031-01-01T10:00",
        ends_at="2031-02-01T10:00",
        **{NOMINAL: "12"},
    )
    made = only()
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/changes/{made.pk}/")
    assert (made.edits, made.team, made.created_by, made.reason) == (
        [MORE],
        world.red,
        world.users["red_lead"],
        "a new model",
    )
    assert made.starts_at is not None
    assert made.ends_at is not None
    assert made.starts_at.isoformat() == "2031-01-01T10:00:00+00:00"
    assert made.ends_at - made.starts_at == timedelta(days=31)


VOLCANO = "/changes/new/?cluster=east&object=VolcanoQueue/train"
COHORT = "/changes/new/?cluster=east&object=Cohort/all"
EACH: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "nominal": (
        RED,
        {NOMINAL: "6500m"},
        {"quotas": [{"flavor": "h100", "resource": GPU, "nominal": "6500m"}]},
    ),
    "limits": (
        RED,
        {NOMINAL: "8", BORROWING: "4", f"lending_limit:h100:{GPU}": "2"},
        {"quotas": [{"flavor": "h100", "resource": GPU, "borrowing_limit": "4", "lending_limit": "2"}]},
    ),
    "weight": (RED, {"fair_weight": "0.5"}, {"fair_weight": "0.5"}),
    "cohort": (RED, {"parent": ""}, {"cohort": ""}),
    "stop": (RED, {"stop_policy": "HoldAndDrain"}, {"stop_policy": "HoldAndDrain"}),
    "order": (RED, {"strategy": "StrictFIFO"}, {"strategy": "StrictFIFO"}),
    "preemption": (
        RED,
        {
            "within_cluster_queue": "LowerPriority",
            "reclaim_within_cohort": "Any",
            "borrow_within_cohort": "LowerPriority",
            "max_priority_threshold": "100",
        },
        {
            "preemption": {
                "within_cluster_queue": "LowerPriority",
                "reclaim_within_cohort": "Any",
                "borrow_within_cohort": {"policy": "LowerPriority", "max_priority_threshold": "100"},
            }
        },
    ),
    "fungibility": (
        RED,
        {"when_can_borrow": "TryNextFlavor", "when_can_preempt": "MayStopSearch"},
        {"fungibility": {"when_can_borrow": "TryNextFlavor", "when_can_preempt": "MayStopSearch"}},
    ),
    "flavor": (
        RED,
        {"new_flavor": "a100", "new_resource": GPU, "new_nominal": "2"},
        {"quotas": [{"flavor": "a100", "resource": GPU, "nominal": "2"}]},
    ),
    "no flavor": (RED, {"remove:h100": "1"}, {"remove": [{"flavor": "h100"}]}),
    "no resource": (RED, {f"remove-resource:{GPU}": "1"}, {"remove": [{"resource": GPU}]}),
    "cohort's": (
        COHORT,
        {"parent": "company", "fair_weight": "2", NOMINAL: "5"},
        {
            "parent": "company",
            "fair_weight": "2",
            "quotas": [{"flavor": "h100", "resource": GPU, "nominal": "5"}],
        },
    ),
    "local queue": (
        "/changes/new/?cluster=east&object=LocalQueue/red-ns/red-lq",
        {"stop_policy": "Hold"},
        {"stop_policy": "Hold"},
    ),
    "volcano": (
        VOLCANO,
        {"weight": "3", "priority": "7", "state": "Closed", f"capability:{GPU}": "", f"deserved:{GPU}": "5"},
        {
            "weight": "3",
            "priority": "7",
            "state": "Closed",
            "capability": {GPU: None},
            "deserved": {GPU: "5"},
        },
    ),
    "volcano's new resource": (
        VOLCANO,
        {"new_resource": "cpu", "new_guarantee": "4"},
        {"guarantee": {"cpu": "4"}},
    ),
}


@pytest.mark.parametrize(("path", "typed", "wanted"), EACH.values(), ids=EACH)
def test_each_field_comes_from_the_form_into_the_request(
    world: World, path: str, typed: dict[str, str], wanted: dict[str, Any]
) -> None:
    quota = {"name": GPU, "nominal": "4", "borrowing_limit": None, "lending_limit": None}
    groups = [{"covered": [GPU], "flavors": [{"name": "h100", "resources": [quota]}]}]
    cluster_object(world, "Cohort", "all", spec={"resource_groups": groups, "parent": ""}, status={})
    answer = post(world, path, do="save", reason="x", team="", **typed)
    assert answer.status_code == 303, answer.content.decode()
    (edit,) = only().edits
    place = path.partition("object=")[2].split("/")
    assert (edit["kind"], edit["name"]) == (place[0], place[-1])
    assert edit["set"] == wanted


def test_a_button_that_is_pressed_twice_makes_one_request(world: World) -> None:
    key = re.search(r'name="key" value="([0-9a-f]{32})"', page(world))
    assert key is not None
    once = {"do": "save", "reason": "x", "team": "", "key": key[1], NOMINAL: "12"}
    first, second = post(world, **once), post(world, **once)
    assert first.headers["Location"] == second.headers["Location"]
    assert ChangeRequest.objects.count() == 1
    post(world, **(once | {"reason": "went back and asked for another"}))
    assert ChangeRequest.objects.count() == 2


def test_a_fault_does_not_use_up_the_form(world: World) -> None:
    data = {"do": "save", "team": "", "key": "0" * 32, NOMINAL: "12"}
    assert post(world, **data, reason="").status_code == 200
    assert post(world, **data, reason="x").status_code == 303


def test_a_queue_of_many_cells_is_posted_whole(world: World) -> None:
    many = {f"nominal:f{number}:{GPU}": "0" for number in range(1200)}
    answer = post(world, do="preview", **many, **{NOMINAL: "12"})
    assert answer.status_code == 200
    assert "There may be at most 512 here" in answer.content.decode()


def test_what_volcano_would_do_is_not_made_up(world: World) -> None:
    path = "/changes/new/?cluster=east&object=VolcanoQueue/train"
    text = post(world, path, do="preview", weight="3").content.decode()
    assert "Which work Volcano would start or stop cannot be told" in text
    assert "No work would start" not in text


def test_times_are_of_the_zone_that_is_shown(world: World, settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Shanghai"
    post(world, do="save", reason="x", team="", starts_at="2031-01-01T10:00", **{NOMINAL: "12"})
    made = only()
    assert made.starts_at is not None
    assert made.starts_at.isoformat() == "2031-01-01T02:00:00+00:00"
    text = page(world, f"/changes/{made.pk}/edit/")
    assert 'value="2031-01-01T10:00"' in text
    assert "Start, Asia/Shanghai" in text


def test_a_time_that_the_clocks_jump_over_is_a_fault(world: World, settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    answer = post(world, do="save", reason="x", starts_at="2031-03-30T02:30", **{NOMINAL: "12"})
    assert "Europe/Berlin" in beside(answer, "starts_at")


def test_the_platform_asks_for_whom_it_says(world: World) -> None:
    assert '<option value="red" selected>' in page(world)
    post(world, do="save", reason="x", team="", **{NOMINAL: "12"})
    assert only().team is None


def test_what_is_not_the_teams_is_a_fault_of_the_team(world: World) -> None:
    answer = post(world, do="save", reason="x", team="blue", **{NOMINAL: "12"})
    assert "red-cq does not belong to this team" in beside(answer, "team")


def test_a_lead_asks_for_no_other_team(world: World) -> None:
    answer = post(world, role="red_lead", do="save", reason="x", team="blue", **{NOMINAL: "12"})
    assert beside(answer, "team")
    assert not ChangeRequest.objects.exists()


# ---- editing and replacing ------------------------------------------------------------------------------------------


@pytest.fixture
def draft(world: World) -> ChangeRequest:
    post(world, role="red_lead", do="save", reason="first", team="red", **{NOMINAL: "12"})
    return only()


def test_the_creator_edits_a_draft(world: World, draft: ChangeRequest) -> None:
    path = f"/changes/{draft.pk}/edit/"
    text = page(world, path, role="red_lead")
    assert f'name="{NOMINAL}" id="{input_id(NOMINAL)}" value="12" ' in text
    assert ">first</textarea>" in text
    answer = post(
        world,
        f"{path}?object=ClusterQueue/red-cq",
        "red_lead",
        do="save",
        reason="second",
        version=str(draft.version),
        edits=json.dumps([MORE]),
        **{NOMINAL: "10"},
    )
    assert answer.headers["Location"] == f"/changes/{draft.pk}/"
    draft.refresh_from_db()
    assert draft.edits[0]["set"]["quotas"][0]["nominal"] == "10"
    assert (draft.reason, draft.team) == ("second", world.red)


def test_what_was_saved_meanwhile_is_shown_and_what_was_typed_is_kept(
    world: World, draft: ChangeRequest
) -> None:
    path = f"/changes/{draft.pk}/edit/?object=ClusterQueue/red-cq"
    seen = str(draft.version)
    post(world, path, "red_lead", do="save", reason="faster", version=seen, **{NOMINAL: "9"})
    answer = post(world, path, "red_lead", do="save", reason="slower", version=seen, **{NOMINAL: "10"})
    text = html.unescape(answer.content.decode())
    assert answer.status_code == 200
    assert "red_lead saved something else meanwhile" in text
    assert "red-cq: h100 nvidia.com/gpu nominal quota 9" in text
    assert "Reason: faster" in text
    assert ">slower</textarea>" in text
    assert 'value="10"' in text
    draft.refresh_from_db()
    assert draft.reason == "faster"
    again = post(
        world, path, "red_lead", do="save", reason="slower", version=str(draft.version), **{NOMINAL: "10"}
    )
    assert again.status_code == 303
    assert f'name="version" value="{draft.version}"' in text


@pytest.mark.parametrize(
    ("role", "status"),
    [
        ("red_lead", 200),
        ("admin", 403),
        ("viewer", 403),
        ("blue_lead", 404),
        ("finance", 404),
        ("guest", 404),
    ],
)
def test_only_the_creator_gets_the_form(world: World, draft: ChangeRequest, role: str, status: int) -> None:
    path = f"/changes/{draft.pk}/edit/"
    assert world.client(role).get(path).status_code == status
    assert world.client(role).post(path, {"do": "preview"}).status_code == status


def test_what_waits_for_a_decision_is_replaced_not_edited(world: World, draft: ChangeRequest) -> None:
    ChangeRequest.objects.filter(pk=draft.pk).update(state="awaiting_approval")
    answer = world.client("red_lead").get(f"/changes/{draft.pk}/edit/")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/changes/{draft.pk}/")
    path = f"/changes/new/?replaces={draft.pk}"
    text = page(world, path, role="red_lead")
    assert f"takes the place of change {draft.pk}" in text
    assert ">first</textarea>" in text
    action = re.search(r'<form method="post" action="([^"]*)" class="whatif', text)
    assert action is not None
    saved = post(world, action[1], "red_lead", do="save", reason="again", team="red", **{NOMINAL: "14"})
    assert saved.status_code == 303
    assert ChangeRequest.objects.get(reason="again").replaces_id == draft.pk
    assert world.client("blue_lead").get(path).status_code == 404
    assert world.client("admin").get("/changes/new/?replaces=999").status_code == 404
