"""The form of a change request: what may be chosen, how edits are read and kept, where faults stand, what leads to it."""

from __future__ import annotations

import html
import json
import re

import pytest

from apps.api.tests.world import GPU, World, cluster_object
from apps.changes.models import ChangeRequest
from apps.observations.models import Workload
from apps.quotas.what_if_places import input_id

from .asking import (
    BORROWING,
    MORE,
    NOMINAL,
    RED,
    STOP,
    beside,
    keep_as_served,
    kept,
    only,
    page,
    post,
)


@pytest.fixture(autouse=True)
def _as_served(world: World) -> None:
    keep_as_served(world)


@pytest.fixture
def draft(world: World) -> ChangeRequest:
    post(world, role="red_lead", do="save", reason="first", team="red", **{NOMINAL: "12"})
    return only()


# ---- choosing -------------------------------------------------------------------------------------------------------


def test_everybody_chooses_among_what_is_theirs_to_change(world: World) -> None:
    admin, lead = page(world, "/changes/new/"), page(world, "/changes/new/", role="red_lead")
    assert all(name in admin for name in ("red-cq", "blue-cq", "red-ns/red-lq", "train"))
    assert "object=Cohort" not in admin, "the cohort is only named by queues: there is nothing to change"
    assert all(name in lead for name in ("red-cq", "red-ns/red-lq"))
    assert not [name for name in ("blue", "train") if name in lead[lead.index("<main") :]]


def test_the_choice_is_narrowed_and_downloaded(world: World) -> None:
    narrowed = page(world, "/changes/new/", q="RED", kind="LocalQueue")
    assert "1 object<" in narrowed
    assert "red-ns/red-lq" in narrowed
    rows = b"".join(world.client("admin").get("/changes/new/?format=csv&team=red")).decode()
    assert "red-cq" in rows
    assert "blue-cq" not in rows


def test_a_cluster_is_chosen_first_where_there_are_several(world: World) -> None:
    world.west.enabled = True
    world.west.save()
    text = page(world, "/changes/new/")
    assert 'href="?cluster=east"' in text
    assert "red-cq" not in text


# ---- the form -------------------------------------------------------------------------------------------------------


def test_the_form_says_what_is_now_what_is_held_and_what_there_is(world: World) -> None:
    text = page(world)
    assert "held now: 4" in text
    assert "nodes have: 16" in text
    assert f'name="{NOMINAL}" id="{input_id(NOMINAL)}" value="8"' in text
    assert "Times in UTC" in text
    assert "Start, UTC" in text


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (
            RED,
            [
                *(NOMINAL, BORROWING, f"lending_limit:h100:{GPU}", "parent", "fair_weight", "stop_policy"),
                *("strategy", "within_cluster_queue", "reclaim_within_cohort", "borrow_within_cohort"),
                *("max_priority_threshold", "when_can_borrow", "when_can_preempt", "preference"),
                *("new_flavor", "new_resource", "new_nominal", "remove:h100", f"remove-resource:{GPU}"),
            ],
        ),
        ("/changes/new/?cluster=east&object=LocalQueue/red-ns/red-lq", ["stop_policy"]),
        (
            "/changes/new/?cluster=east&object=VolcanoQueue/train",
            [
                *("weight", "priority", "state", f"capability:{GPU}", f"deserved:{GPU}", f"guarantee:{GPU}"),
                *("new_resource", "new_capability", "new_deserved", "new_guarantee"),
            ],
        ),
    ],
)
def test_every_editable_field_has_its_input(world: World, path: str, names: list[str]) -> None:
    text = page(world, path)
    assert [name for name in names if f'name="{name}"' not in text] == []
    assert [name for name in ("reason", "team", "starts_at", "ends_at") if f'name="{name}"' not in text] == []


def test_a_preview_tells_what_would_happen_and_saves_nothing(world: World) -> None:
    answer = post(world, do="preview", **{NOMINAL: "2"})
    text = html.unescape(answer.content.decode())
    assert answer.status_code == 200
    assert kept(answer)[0]["set"]["quotas"] == [{"flavor": "h100", "resource": GPU, "nominal": "2"}]
    assert "6 less" in text
    assert "red-cq holds 4 h100 nvidia.com/gpu and would have 2: 2 beyond it." in text
    assert "What would happen" in text
    assert not ChangeRequest.objects.exists()


def test_a_preview_tells_a_lead_of_no_other_team(world: World) -> None:
    for row in Workload.objects.all():
        row.pod_sets = [{"name": "main", "count": 1, "min_count": None, "requests": row.requests}]
        row.save()
    seen = {
        role: post(world, role=role, do="preview", **{NOMINAL: "0"}).content.decode().lower()
        for role in ("admin", "red_lead")
    }
    assert "what would happen to work, by team" in seen["admin"]
    assert '<th scope="row" class="name">blue</th>' in seen["admin"]
    assert '<th scope="row" class="name">all other teams</th>' in seen["red_lead"]
    assert "blue" not in seen["red_lead"]
    assert "nobodys" not in seen["red_lead"]


def test_policies_asked_for_say_what_they_mean(world: World) -> None:
    policies = {"within_cluster_queue": "LowerPriority", "stop_policy": "Hold"}
    text = html.unescape(post(world, do="preview", **policies).content.decode())
    assert "Work displaces work of lower priority in this queue." in text
    assert "Nothing new is admitted; what runs runs on." in text
    assert "Stopped: nothing new is admitted" not in text, "the warning says it already"


def test_what_breaks_a_rule_stands_beside_its_input(world: World) -> None:
    answer = post(world, do="preview", **{NOMINAL: "8", f"lending_limit:h100:{GPU}": "9"})
    assert "larger than the nominal quota 8" in beside(answer, f"lending_limit:h100:{GPU}")
    assert "red-cq, Lending limit, h100 nvidia.com/gpu:" in html.unescape(answer.content.decode())


@pytest.mark.parametrize("do", ["preview", "save"])
def test_nothing_that_was_typed_is_lost_on_a_fault(world: World, do: str) -> None:
    typed = {
        NOMINAL: "many",
        "fair_weight": "-1",
        "new_resource": GPU,
        "reason": "a new\nmodel",
        "starts_at": "2031-01-01T10:00",
        "ends_at": "tomorrow",
        "team": "blue",
        "next": "Cohort/al",
    }
    answer = post(world, do=do, **typed)
    assert answer.status_code == 200
    text = html.unescape(answer.content.decode())
    assert "not an amount" in beside(answer, NOMINAL)
    assert "negative" in beside(answer, "fair_weight")
    assert beside(answer, "new_flavor")
    assert beside(answer, "ends_at")
    assert [
        value for value in typed.values() if f'value="{value}"' not in text and f">{value}<" not in text
    ] == []
    assert '<option value="blue" selected>' in text
    assert not ChangeRequest.objects.exists()


def test_a_reason_and_an_end_after_the_start_are_wanted(world: World) -> None:
    times = {"starts_at": "2031-01-02T10:00", "ends_at": "2031-01-01T10:00"}
    answer = post(world, do="save", **{NOMINAL: "12"}, reason=" ", **times)
    assert beside(answer, "reason")
    assert "before it starts" in beside(answer, "ends_at")


@pytest.mark.parametrize("starts_at", ["", "tomorrow"])
def test_everything_that_is_in_the_way_of_saving_is_said_at_once(world: World, starts_at: str) -> None:
    answer = post(
        world, do="save", reason="", starts_at=starts_at, ends_at="2001-01-01T10:00", **{NOMINAL: "x"}
    )
    found = [name for name in ("reason", "starts_at", "ends_at", NOMINAL) if beside(answer, name)]
    assert found == (["reason", "ends_at", NOMINAL] if not starts_at else ["reason", "starts_at", NOMINAL])


def test_a_form_that_changes_nothing_says_so(world: World) -> None:
    assert "Nothing would be changed" in post(world, do="save", **{NOMINAL: "8"}, reason="x").content.decode()


def test_a_half_filled_row_of_volcano_is_a_fault(world: World) -> None:
    path = "/changes/new/?cluster=east&object=VolcanoQueue/train"
    answer = post(world, path, do="preview", weight="3", new_capability="4")
    assert beside(answer, "new_resource")
    assert 'value="4"' in answer.content.decode()


# ---- several objects ------------------------------------------------------------------------------------------------


def test_another_object_keeps_the_edits_so_far(world: World) -> None:
    first = post(world, do="next", next="LocalQueue/red-ns/red-lq", reason="why", **{NOMINAL: "12"})
    text = html.unescape(first.content.decode())
    assert kept(first) == [MORE]
    assert "red-cq: h100 nvidia.com/gpu nominal quota 12" in text
    assert 'action="/changes/new/?cluster=east&object=LocalQueue%2Fred-ns%2Fred-lq"' in text
    assert ">why</textarea>" in text
    path = "/changes/new/?cluster=east&object=LocalQueue/red-ns/red-lq"
    post(world, path, do="save", edits=json.dumps([MORE]), stop_policy="Hold", reason="why", team="red")
    assert only().edits == [MORE, STOP]


def test_an_edit_is_opened_again_and_taken_away(world: World) -> None:
    edits = json.dumps([MORE, STOP])
    opened = post(world, "/changes/new/?cluster=east", open="1", edits=edits)
    assert 'action="/changes/new/?cluster=east&object=LocalQueue%2Fred-ns%2Fred-lq"' in html.unescape(
        opened.content.decode()
    )
    assert kept(opened) == [MORE, STOP]
    assert kept(post(world, "/changes/new/?cluster=east", drop="0", edits=edits)) == [STOP]
    assert kept(post(world, RED, drop="1", edits=edits, **{NOMINAL: "8"})) == [STOP], (
        "numbers as they are shown"
    )


def test_an_object_that_is_not_there_is_a_fault_where_it_was_typed(world: World) -> None:
    answer = post(world, do="next", next="ClusterQueue/none", **{NOMINAL: "12"})
    assert beside(answer, "next")
    assert kept(answer) == [MORE]


@pytest.mark.parametrize("edits", ["{", "[1]", '"x"', '[{"kind": "Pod"}]'])
def test_edits_that_cannot_be_read_are_said_and_not_saved(world: World, edits: str) -> None:
    answer = post(world, "/changes/new/?cluster=east", do="save", edits=edits, reason="x", team="")
    assert answer.status_code == 200
    assert 'id="faults"' in answer.content.decode()
    assert not ChangeRequest.objects.exists()


def test_a_lead_learns_nothing_of_what_is_not_theirs_by_forged_edits(world: World) -> None:
    def tried(name: str, **more: str) -> str:
        edit = {"kind": "ClusterQueue", "name": name, "set": {"fair_weight": "2", **more}}
        answer = post(world, "/changes/new/?cluster=east", "red_lead", do="preview", edits=json.dumps([edit]))
        text = re.sub(r'name="(csrfmiddlewaretoken|key)" value="\w+"', "", answer.content.decode())
        return text.replace(name, "NAME")

    assert tried("blue-cq") == tried("none-cq")
    cluster_object(world, "Cohort", "secret", spec={"resource_groups": []}, status={})
    assert tried("red-cq", cohort="secret").replace("secret", "X") == tried(
        "red-cq", cohort="absent"
    ).replace("absent", "X")


# ---- from other pages -----------------------------------------------------------------------------------------------


def test_what_was_tried_is_carried_over_without_work(world: World) -> None:
    job = {"kind": "Workload", "action": "remove", "uid": "uid-red-runs"}
    text = page(world, "/changes/new/", cluster="east", change=json.dumps([MORE, job]))
    assert f'name="{NOMINAL}" id="{input_id(NOMINAL)}" value="12" ' in text
    assert "a request changes queues only" in text


@pytest.mark.parametrize(
    ("path", "link"),
    [
        ("/queues/east/ClusterQueue/red-cq/", "object=ClusterQueue%2Fred-cq"),
        ("/queues/east/LocalQueue/red-lq/?namespace=red-ns", "object=LocalQueue%2Fred-ns%2Fred-lq"),
        ("/teams/red/", "/changes/new/?"),
        ("/queues/what-if/?cluster=east&change=" + json.dumps([MORE]), "/changes/new/?cluster=east&change="),
    ],
)
def test_who_may_ask_finds_the_way_to_the_form(world: World, path: str, link: str) -> None:
    for role, found in (("admin", True), ("red_lead", True), ("viewer", False), ("finance", False)):
        assert (link in page(world, path, role=role)) == found, role


def test_a_row_of_a_local_queue_leads_to_its_form(world: World) -> None:
    path, link = "/queues/east/ClusterQueue/red-cq/", "object=LocalQueue%2Fred-ns%2Fred-lq"
    for role, found in (("admin", True), ("red_lead", True), ("viewer", False), ("finance", False)):
        assert (link in page(world, path, role=role)) == found, role


def test_a_request_that_waits_leads_to_one_in_its_place(world: World, draft: ChangeRequest) -> None:
    path, link = f"/changes/{draft.pk}/", f"/changes/new/?replaces={draft.pk}"
    assert link not in page(world, path, role="red_lead")
    ChangeRequest.objects.filter(pk=draft.pk).update(state="awaiting_approval", asked_at=world.now)
    for role, found in (("admin", True), ("red_lead", True), ("viewer", False)):
        assert (link in page(world, path, role=role)) == found, role


def test_a_volcano_queue_leads_to_its_form(world: World) -> None:
    text = page(world, "/queues/east/VolcanoQueue/train/")
    assert "object=VolcanoQueue%2Ftrain" in text


def test_a_cohort_that_only_queues_name_has_no_form(world: World) -> None:
    assert "/changes/new/" not in page(world, "/queues/east/Cohort/all/")
    assert world.client("admin").get("/changes/new/?cluster=east&object=Cohort/none").status_code == 404
