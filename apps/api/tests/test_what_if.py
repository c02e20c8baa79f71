"""POST /api/v1/quotas/what-if/: its answer, its faults with their fields, and that only it is a POST."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from apps.api.tests.world import GPU, World
from apps.observations.models import Workload

PATH = "/api/v1/quotas/what-if/"
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _pod_sets(world: World) -> None:
    for row in Workload.objects.all():
        row.pod_sets = [{"name": "main", "count": 1, "min_count": None, "requests": row.requests}]
        row.save()


def post(world: World, body: Any, role: str = "admin") -> tuple[int, dict[str, Any]]:
    response = world.client(role).post(PATH, json.dumps(body), content_type="application/json")
    return response.status_code, response.json()


def lower(nominal: object, **more: Any) -> dict[str, Any]:
    quota = {"flavor": "h100", "resource": GPU, "nominal": nominal, **more}
    return {"kind": "ClusterQueue", "name": "red-cq", "set": {"quotas": [quota]}}


def test_an_answer(world: World) -> None:
    """Red 8 → 4: of red's and blue's waiting 4 each only blue's still fits into the 12."""
    status, body = post(world, {"cluster": "east", "changes": [lower("4")]})
    result = body["result"]
    assert status == 200
    assert body["state"] == "ok"
    assert result["summary"] == "1 would no longer start. red loses 4 h100."
    assert [
        (found["effect"], found["work"]["name"], found["work"]["team"]) for found in result["effects"]
    ] == [("misses", "red-waits", "red")]
    assert result["effects"][0]["before"] == [{"flavor": "h100", "resource": GPU, "amount": "4"}]
    assert result["teams"] == [
        {"team": "red", "flavor": "h100", "resource": GPU, "before": "8", "after": "4"}
    ]
    assert {
        found["name"]: (found["before"]["nominal"], found["after"]["nominal"]) for found in result["quotas"]
    } == {
        "red-cq": ("8", "4"),
        "blue-cq": ("8", "8"),
        "all": ("16", "12"),
    }
    assert result["waiting"][0]["reason_after"] == "WaitingForQuota"
    assert (result["is_settled"], result["starts_anyway"]) == (True, 2)
    assert "time" in {gap["code"] for gap in result["not_modelled"]}


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        ([], 400, [("", "shape")]),
        ({}, 400, [("cluster", "required"), ("changes", "required")]),
        ({"cluster": "east", "changes": [], "why": 1}, 400, [("why", "unknown_field")]),
        ({"cluster": "none", "changes": []}, 404, [("cluster", "unknown")]),
        ({"cluster": ["east"], "changes": []}, 404, [("cluster", "unknown")]),
        ({"cluster": "east", "changes": []}, 400, [("changes", "nothing")]),
        (
            {"cluster": "east", "changes": [lower("-1")]},
            400,
            [("changes.0.set.quotas.0.nominal", "negative")],
        ),
        (
            {"cluster": "east", "changes": [lower("4", lending_limit="5")]},
            400,
            [("changes.0.set.quotas.0.lending_limit", "above_nominal")],
        ),
        (
            {"cluster": "east", "changes": [{**lower("1"), "name": "none"}]},
            404,
            [("changes.0.name", "unknown")],
        ),
    ],
)
def test_faults_name_their_field(
    world: World, body: Any, status: int, expected: list[tuple[str, str]]
) -> None:
    got, problem = post(world, body)
    assert got == problem["status"] == status
    assert [(fault["parameter"], fault["code"]) for fault in problem["errors"]] == expected
    assert all(fault["detail"] for fault in problem["errors"])


def test_parameters_in_the_address_are_refused(world: World) -> None:
    response = world.client("admin").post(f"{PATH}?team=red", "{}", content_type="application/json")
    assert [fault["code"] for fault in response.json()["errors"]] == ["unknown"]


@pytest.mark.parametrize("body", ["{", "[" * 5000])
def test_what_is_no_json_is_refused(world: World, body: str) -> None:
    response = world.client("admin").post(PATH, body, content_type="application/json")
    assert (response.status_code, response.json()["type"]) == (400, "urn:gpu-portal:problem:malformed-body")


def test_too_much_work_is_refused_with_the_number(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.quotas.what_if.MOST_WORK", 3)
    status, problem = post(world, {"cluster": "east", "changes": [lower("4")]})
    assert status == 400
    assert [(fault["parameter"], fault["code"]) for fault in problem["errors"]] == [("cluster", "too_much")]


def test_a_run_that_is_cut_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.quotas.what_if.MOST_CYCLES", 1)
    assert post(world, {"cluster": "east", "changes": [lower("4")]})[1]["result"]["is_settled"] is False


def test_a_session_needs_its_token(world: World) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.users["admin"])
    assert client.post(PATH, "{}", content_type="application/json").status_code == 403


def test_it_is_not_read(world: World) -> None:
    response = world.client("admin").get(PATH)
    assert (response.status_code, response.json()["type"]) == (
        405,
        "urn:gpu-portal:problem:method-not-allowed",
    )
