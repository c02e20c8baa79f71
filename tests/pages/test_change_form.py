"""The form of a change request: what may be chosen, how edits are read and kept, where faults stand, what is saved."""

from __future__ import annotations

import html
import json
import re
from datetime import timedelta
from typing import Any

import pytest

from apps.api.tests.world import GPU, World, cluster_object
from apps.changes.models import ChangeRequest
from apps.observations.models import ClusterObject, Workload
from apps.quotas.what_if_places import input_id

RED = "/changes/new/?cluster=east&object=ClusterQueue/red-cq"
NOMINAL = f"nominal:h100:{GPU}"
BORROWING = f"borrowing_limit:h100:{GPU}"
MORE = {
    "kind": "ClusterQueue",
    "name": "red-cq",
    "set": {"quotas": [{"flavor": "h100", "resource": GPU, "nominal": "12"}]},
}
STOP = {"kind": "LocalQueue", "namespace": "red-ns", "name": "red-lq", "set": {"stop_policy": "Hold"}}


def raw_queue(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": name, "uid": f"u-{name}", "resourceVersion": "7"},
        "spec": {
            "cohortName": "all",
            "resourceGroups": [
                {
                    "coveredResources": [GPU],
                    "flavors": [{"name": "h100", "resources": [{"name": GPU, "nominalQuota": "8"}]}],
                }
            ],
            "stopPolicy": "None",
            "namespaceSelector": {},
            "queueingStrategy": "BestEffortFIFO",
        },
    }


@pytest.fixture(autouse=True)
def _as_served(world: World) -> None:
    """Objects as a collector of today keeps them, and a cohort and a Volcano queue beside the two queues."""
    for name in ("red-cq", "blue-cq"):
        ClusterObject.objects.filter(kind="ClusterQueue", name=name).update(raw=raw_queue(name))
    ClusterObject.objects.filter(kind="LocalQueue", name="red-lq").update(
        raw={
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "metadata": {"name": "red-lq", "namespace": "red-ns", "uid": "u", "resourceVersion": "3"},
            "spec": {"clusterQueue": "red-cq", "stopPolicy": "None"},
        }
    )
    cluster_object(
        world,
        "VolcanoQueue",
        "train",
        spec={"weight": 2, "capability": {GPU: "8"}, "deserved": {GPU: "4"}, "guarantee": {}, "parent": ""},
        status={"state": "Open"},
        raw={
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "metadata": {"name": "train", "uid": "v", "resourceVersion": "5"},
            "spec": {"weight": 2, "capability": {GPU: "8"}, "deserved": {GPU: "4"}},
            "status": {"state": "Open"},
        },
    )


def page(world: World, path: str = RED, role: str = "admin", status: int = 200, **query: str) -> str:
    response = world.client(role).get(path, query) if query else world.client(role).get(path)
    assert response.status_code == status
    return html.unescape(response.content.decode())


def post(world: World, path: str = RED, role: str = "admin", **data: str) -> Any:
    return world.client(role).post(path, data)


def kept(response: Any) -> list[dict[str, Any]]:
    """The edits that travel with the form."""
    found = re.search(r'name="edits" value="([^"]*)"', response.content.decode())
    assert found is not None
    edits: list[dict[str, Any]] = json.loads(html.unescape(found[1]) or "[]")
    return edits


def beside(response: Any, name: str) -> str:
    """What is said at an input."""
    text = html.unescape(response.content.decode())
    found = re.search(rf'id="{re.escape(input_id(name))}-fault">(.*?)</span>', text)
    return found[1] if found else ""


def only() -> ChangeRequest:
    return ChangeRequest.objects.get()


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
