"""The what-if page: from the form to an address, from the address to a result, and what is said at the form."""

from __future__ import annotations

import html
import json
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from apps.api.tests.world import GPU, World
from apps.observations.models import Workload
from apps.quotas.what_if_places import input_id

PATH = "/queues/what-if/?cluster=east"
NOMINAL = f"nominal:h100:{GPU}"


@pytest.fixture(autouse=True)
def _pod_sets(world: World) -> None:
    for row in Workload.objects.all():
        row.pod_sets = [{"name": "main", "count": 1, "min_count": None, "requests": row.requests}]
        row.save()


def post(world: World, role: str = "admin", **data: str) -> Any:
    return world.client(role).post(PATH, data)


def changes(response: Any) -> list[dict[str, Any]]:
    """What the address of a result says."""
    assert response.status_code == 303
    query = parse_qs(urlsplit(response.headers["Location"]).query)
    found: list[dict[str, Any]] = json.loads(query.get("change", ["[]"])[0])
    return found


def edit(**more: str) -> dict[str, str]:
    return {"queue": "ClusterQueue/red-cq", "edit": "1", NOMINAL: "8", **more}


LESS = {
    "kind": "ClusterQueue",
    "name": "red-cq",
    "set": {"quotas": [{"flavor": "h100", "resource": GPU, "nominal": "4"}]},
}

OTHER = {"kind": "ClusterQueue", "name": "blue-cq", "set": {"fair_weight": "2"}}


def test_only_what_differs_is_in_the_address(world: World) -> None:
    same = edit(parent="all", fair_weight="1.0", stop_policy="None", strategy="BestEffortFIFO")
    assert changes(post(world, **same)) == []
    assert changes(post(world, **edit(**{NOMINAL: "4"}))) == [LESS]


def test_policy_cohort_and_flavors_are_read(world: World) -> None:
    found = changes(
        post(
            world,
            **edit(
                parent="ml",
                stop_policy="Hold",
                reclaim_within_cohort="Any",
                borrow_within_cohort="LowerPriority",
                max_priority_threshold="5",
                new_flavor="a100",
                new_resource=GPU,
                new_nominal="2",
            ),
        )
    )
    assert found[0]["set"] == {
        "cohort": "ml",
        "stop_policy": "Hold",
        "preemption": {
            "reclaim_within_cohort": "Any",
            "borrow_within_cohort": {"policy": "LowerPriority", "max_priority_threshold": "5"},
        },
        "quotas": [{"flavor": "a100", "resource": GPU, "nominal": "2"}],
    }


def test_a_job_and_existing_work_are_added_to_what_is_tried(world: World) -> None:
    found = changes(
        post(
            world,
            change=json.dumps([LESS]),
            job_queue="red-ns/red-lq",
            job_pods="2",
            job_resource=GPU,
            job_amount="1",
            job_also="cpu=16, memory=64Gi",
            job_priority="5",
            work="blue-ns/blue-waits",
            work_priority="9",
        )
    )
    assert found == [
        LESS,
        {
            "kind": "Workload",
            "action": "add",
            "priority": "5",
            "pod_sets": [{"count": "2", "requests": {GPU: "1", "cpu": "16", "memory": "64Gi"}}],
            "local_queue": "red-ns/red-lq",
        },
        {"kind": "Workload", "action": "priority", "uid": "uid-blue-waits", "priority": "9"},
    ]


def test_a_second_edit_of_a_queue_takes_the_place_of_the_first(world: World) -> None:
    found = changes(post(world, change=json.dumps([LESS]), **edit(**{NOMINAL: "6"})))
    assert [change["set"]["quotas"][0]["nominal"] for change in found] == ["6"]
    assert changes(post(world, change=json.dumps([LESS]), drop="0")) == []


def test_the_result_says_first_what_happens(world: World) -> None:
    client = world.client("admin")
    text = client.get(PATH, {"cluster": "east", "change": json.dumps([LESS])}).content.decode()
    assert "1 would no longer start. Red loses 4 h100." in text
    assert text.index("1 would no longer start") < text.index("red-waits")
    assert "2 workloads would start anyway" in text
    assert "nothing finishes" in text


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("effects", ["red-waits", "would have started"]),
        ("holders", ["Red", "8", "4"]),
        ("numbers", ["red-cq", "Nominal before"]),
        ("still_waiting", ["red-waits", "not enough free quota"]),
    ],
)
def test_every_table_is_a_download(world: World, table: str, words: list[str]) -> None:
    query = {"cluster": "east", "change": json.dumps([LESS]), "format": "csv", "table": table}
    text = b"".join(world.client("admin").get("/queues/what-if/", query)).decode()
    assert [word for word in words if word not in text] == []


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({NOMINAL: "-1"}, "red-cq, h100 nvidia.com/gpu, nominal: This must not be negative."),
        ({NOMINAL: "many"}, "This is not an amount."),
        ({f"lending_limit:h100:{GPU}": "9"}, "would be larger than the nominal quota"),
        ({"parent": "", f"borrowing_limit:h100:{GPU}": "1"}, "needs a cohort above"),
        ({"borrow_within_cohort": "LowerPriority"}, "Kueue does not allow this together with"),
    ],
)
def test_what_cannot_be_tried_is_said_with_the_form_as_it_was_filled_in(
    world: World, data: dict[str, str], said: str
) -> None:
    response = post(world, **edit(**data))
    text = response.content.decode()
    assert response.status_code == 200
    assert said in text.replace("&#x27;", "'")
    assert all(f'value="{value}"' in text for value in data.values() if value)


def tag(text: str, name: str) -> str:
    """The input of this name as it stands in the page."""
    (found,) = re.findall(rf'<(?:input|select)[^>]*name="{re.escape(name)}"[^>]*>', text)
    return str(found)


@pytest.mark.parametrize(
    ("data", "name", "said"),
    [
        ({NOMINAL: "-1"}, NOMINAL, "This must not be negative."),
        (
            {"parent": "", f"lending_limit:h100:{GPU}": "1"},
            f"lending_limit:h100:{GPU}",
            "needs a cohort above",
        ),
        ({"fair_weight": "heavy"}, "fair_weight", "This is not an amount."),
        ({"borrow_within_cohort": "LowerPriority"}, "borrow_within_cohort", "does not allow this together"),
        ({"new_resource": GPU}, "new_flavor", "This is needed."),
        (
            {"job_amount": "1", "job_queue": "red-cq", "job_resource": GPU, "job_pods": "0"},
            "job_pods",
            "range",
        ),
        ({"job_amount": "?", "job_queue": "red-cq", "job_resource": GPU}, "job_amount", "not an amount"),
        (
            {"job_amount": "1", "job_queue": "red-cq", "job_resource": GPU, "job_also": "cpu"},
            "job_also",
            "not an",
        ),
        ({"job_amount": "1", "job_queue": "gone", "job_resource": GPU}, "job_queue", "nothing of this name"),
        ({"work": "red-ns/gone"}, "work", "nothing of this name"),
        ({"work": "red-ns/red-waits", "work_priority": "high"}, "work_priority", "range"),
    ],
)
def test_a_fault_stands_beside_its_input_and_in_the_list(
    world: World, data: dict[str, str], name: str, said: str
) -> None:
    text = post(world, **edit(**data)).content.decode().replace("&#x27;", "'")
    own = input_id(name)
    assert f'aria-invalid="true" aria-describedby="{own}-fault"' in tag(text, name)
    (beside,) = re.findall(rf'<span class="fault" id="{re.escape(own)}-fault">(.*?)</span>', text)
    assert said in beside
    (listed,) = re.findall(rf'<li><a href="#{re.escape(own)}">(.*?)</a></li>', text)
    assert said in listed
    assert text.count("aria-invalid") == 1
    assert 'id="faults" tabindex="-1" autofocus' in text


def test_each_fault_of_a_row_stands_at_its_own_input(world: World) -> None:
    data = {"new_flavor": "a100", "new_nominal": "-3"}
    text = post(world, **edit(**data)).content.decode()
    assert set(re.findall(r'href="#(i-[^"]*)"', text)) == {"i-new_resource", "i-new_nominal"}
    assert "2 things stand in the way" in text


def test_what_was_filled_in_is_tried_once_when_it_is_sent_again(world: World) -> None:
    job = {"job_amount": "?", "job_queue": "red-cq", "job_resource": GPU, "work": "red-ns/red-waits"}
    new = {"new_flavor": "a100", "new_resource": GPU, "new_nominal": "2"}
    text = post(world, change=json.dumps([OTHER]), **edit(**job, **new)).content.decode()
    (kept,) = {html.unescape(found) for found in re.findall(r'name="change" value="([^"]*)"', text)}
    assert json.loads(kept) == [OTHER]
    # The flavor has a row of its own now; the last row is free again.
    assert 'value="2"' in tag(text, f"nominal:a100:{GPU}")
    assert 'value=""' in tag(text, "new_flavor")
    again = edit(**{**job, "job_amount": "1"}, **{f"nominal:a100:{GPU}": "2"})
    assert [change.get("action") for change in changes(post(world, change=kept, **again))] == [
        None,
        None,
        "add",
        "remove",
    ]


def test_a_flavor_that_is_taken_away_stays_ticked(world: World) -> None:
    (found,) = changes(post(world, **edit(**{"remove:h100": "1"})))
    assert found["set"] == {"remove": [{"flavor": "h100"}]}
    query = {"cluster": "east", "queue": "ClusterQueue/red-cq", "change": json.dumps([found])}
    assert " checked" in tag(world.client("admin").get(PATH, query).content.decode(), "remove:h100")


def test_a_fault_of_the_address_leads_to_its_line(world: World) -> None:
    bad = {"kind": "Workload", "action": "add", "queue": "red-cq", "pod_sets": [{"requests": {GPU: "x"}}]}
    text = (
        world.client("admin")
        .get(PATH, {"cluster": "east", "change": json.dumps([LESS, bad])})
        .content.decode()
    )
    assert '<a href="#tried-1">nvidia.com/gpu: This is not an amount.' in text
    assert 'id="tried-1"' in text
    assert "aria-invalid" not in text


def test_a_foreign_piece_of_work_is_not_named_by_the_list(world: World) -> None:
    foreign = {"kind": "Workload", "action": "remove", "uid": "uid-blue-waits"}
    response = post(world, "red_lead", change=json.dumps([foreign]), **edit(**{NOMINAL: "-1"}))
    assert response.status_code == 200
    assert "blue-ns" not in response.content.decode()
    response = post(world, "red_lead", change=json.dumps([foreign]), job_amount="?", job_queue="red-cq")
    assert "blue-ns" not in response.content.decode()


@pytest.mark.parametrize(
    "change", ["[", "{}", "[1]", '"x"', "[" * 5000, '[{"kind":"x"}]', '[{"set":{"quotas":3}}]']
)
def test_an_address_that_cannot_be_read_says_so(world: World, change: str) -> None:
    response = world.client("admin").get("/queues/what-if/", {"cluster": "east", "change": change})
    assert response.status_code == 200
    assert "errorlist" in response.content.decode()


def test_a_lead_is_offered_own_queues_and_cohorts_only(world: World) -> None:
    text = world.client("red_lead").get(PATH).content.decode()
    assert "red-cq" in text
    assert "blue" not in text.lower()
    assert post(world, "red_lead", queue="ClusterQueue/blue-cq", edit="1").status_code == 404


def test_a_queues_page_leads_here(world: World) -> None:
    text = world.client("red_lead").get("/queues/east/ClusterQueue/red-cq/").content.decode()
    (query,) = {part.split('"')[0] for part in text.split("/queues/what-if/")[1:]}
    assert query == "?cluster=east&amp;queue=ClusterQueue/red-cq"
    assert "red-cq" in world.client("red_lead").get(PATH + "&queue=ClusterQueue/red-cq").content.decode()
    # The cohort above is a reader's of all teams to try.
    assert "/queues/what-if/" not in world.client("red_lead").get("/queues/east/Cohort/all/").content.decode()
    assert "/queues/what-if/" in world.client("admin").get("/queues/east/Cohort/all/").content.decode()


def test_the_queue_list_leads_here(world: World) -> None:
    assert "/queues/what-if/" in world.client("red_lead").get("/queues/").content.decode()
