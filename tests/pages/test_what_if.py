"""The what-if page: from the form to an address, from the address to a result, and what is said at the form."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from apps.api.tests.world import GPU, World
from apps.observations.models import Workload

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
