"""The OpenAPI document: free of warnings, as committed, and true: real answers are checked against it."""

import re
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from django.conf import settings
from django.core.management import call_command
from django.test import Client
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.validation import validate_schema

from apps.api.openapi import document, document_yaml
from apps.api.tests.test_reads import LISTS
from apps.api.tests.world import OPEN_MONTH, World, change_requests
from apps.api.urls import urlpatterns

CHANGE = "/api/v1/quota-changes/{id}/"
METHODS = {
    "/api/v1/billing-periods/{month}/close/": {"post"},
    "/api/v1/quotas/what-if/": {"post"},
    "/api/v1/quota-changes/": {"get", "post"},
    CHANGE: {"get", "put", "patch"},
    f"{CHANGE}{{deed}}/": {"post"},
}
BEYOND_200 = {
    ("/api/v1/focus/", "get"): {"200", "304"},
    ("/api/v1/billing-periods/{month}/close/", "post"): {"200", "403", "409"},
    ("/api/v1/quota-changes/", "post"): {"201", "403", "422"},
    (CHANGE, "put"): {"200", "403", "409", "422", "428"},
    (CHANGE, "patch"): {"200", "403", "409", "422", "428"},
    (f"{CHANGE}{{deed}}/", "post"): {"200", "201", "403", "409", "422", "428"},
}


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return document()


def test_the_document_is_valid_and_made_without_a_warning() -> None:
    with GENERATOR_STATS.silence():
        GENERATOR_STATS.reset()
        validate_schema(document())  # type: ignore[no-untyped-call]
        found = {**GENERATOR_STATS._warn_cache, **GENERATOR_STATS._error_cache}
    assert found == {}


def test_the_committed_document_is_up_to_date(tmp_path: Path) -> None:
    call_command("write_openapi", str(tmp_path / "openapi.yaml"), verbosity=0)
    made = (tmp_path / "openapi.yaml").read_text()
    assert made == (settings.BASE_DIR / "docs" / "openapi.yaml").read_text(), "run: manage.py write_openapi"


def test_the_document_is_the_same_in_every_language() -> None:
    from django.utils.translation import override

    with override("zh-hans"):
        assert document_yaml() == document_yaml()
        chinese = document_yaml()
    assert chinese == document_yaml()


def test_every_route_is_documented(schema: dict[str, Any]) -> None:
    routes = {
        str(pattern.pattern) for pattern in urlpatterns if str(pattern.pattern).startswith(("v1/", "^v1/"))
    }
    assert len(schema["paths"]) == len(routes)
    for path, operations in schema["paths"].items():
        assert set(operations) == METHODS.get(path, {"get"}), path
        for method, operation in operations.items():
            assert operation["summary"]
            more = BEYOND_200.get((path, method), {"200"})
            assert set(operation["responses"]) == {"400", "401", "403", "404", "429"} | more, path


def test_what_a_what_if_takes_and_answers_is_described(world: World, schema: dict[str, Any]) -> None:
    path, body = (
        "/api/v1/quotas/what-if/",
        {
            "cluster": "east",
            "changes": [{"kind": "ClusterQueue", "name": "red-cq", "set": {"stop_policy": "Hold"}}],
        },
    )
    operation = schema["paths"][path]["post"]
    assert set(operation["requestBody"]["content"]) == {"application/json"}
    response = world.client("admin").post(path, body, content_type="application/json")
    check(schema, path, response, method="post")


@pytest.mark.parametrize(
    "path",
    [
        *(f"{route}/" for route in LISTS),
        *("usage/hours/?cluster=east", "idle/?from=2025-01-01&to=2025-01-02", "supply/"),
        "usage/work/?cluster=east",
    ],
)
def test_a_list_answers_what_the_document_promises(world: World, schema: dict[str, Any], path: str) -> None:
    check(schema, f"/api/v1/{path.partition('?')[0]}", world.client("admin").get(f"/api/v1/{path}"))


@pytest.mark.parametrize(
    ("route", "path"),
    [
        ("clusters/{slug}/", "clusters/east/"),
        ("teams/{slug}/", "teams/red/"),
        ("nodes/{cluster}/{name}/", "nodes/east/gpu-1/"),
        ("billing-periods/{month}/", "billing-periods/2025-01/"),
        ("billing-periods/{month}/", "billing-periods/2025-02/"),
        ("statements/", "statements/?period=2025-01"),
        ("statements/{month}/{team}/", "statements/2025-02/red/"),
        ("workloads/{uid}/", "workloads/uid-red-waits/"),
    ],
)
def test_a_detail_answers_what_the_document_promises(
    world: World, schema: dict[str, Any], route: str, path: str
) -> None:
    check(schema, f"/api/v1/{route}", world.client("admin").get(f"/api/v1/{path}"))


def test_change_requests_answer_what_the_document_promises(world: World, schema: dict[str, Any]) -> None:
    pk = change_requests(world)["red"].pk
    lead, viewer = world.client("red_lead"), world.client("viewer")
    check(schema, "/api/v1/quota-changes/", lead.get("/api/v1/quota-changes/"))
    check(schema, "/api/v1/quota-changes/calendar/", lead.get("/api/v1/quota-changes/calendar/"))
    check(schema, CHANGE, lead.get(f"/api/v1/quota-changes/{pk}/"))
    calls: tuple[Any, ...] = (
        (lead, "patch", "", {"reason": "more", "version": 1}, 200),
        (lead, "patch", "", {"reason": "more", "version": 1}, 409),
        (lead, "put", "", {"reason": "more"}, 428),
        (viewer, "patch", "", {"reason": "more", "version": 2}, 403),
        (lead, "post", "submit/", {"version": 2}, 409),
        (lead, "post", "cancel/", {}, 200),
    )
    for client, method, deed, body, status in calls:
        response = getattr(client, method)(
            f"/api/v1/quota-changes/{pk}/{deed}", body, content_type="application/json"
        )
        assert response.status_code == status, response.content
        media = "application/json" if status < 300 else "application/problem+json"
        check(schema, f"{CHANGE}{{deed}}/" if deed else CHANGE, response, media=media, method=method)


@pytest.mark.parametrize(
    ("path", "method"),
    [(path, method) for path, methods in METHODS.items() for method in sorted(methods - {"get"})],
)
def test_a_write_without_its_csrf_token_is_refused_as_the_document_promises(
    world: World, schema: dict[str, Any], path: str, method: str
) -> None:
    """The view is not reached: what is told is no refusal of its own, with a code."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.users["admin"])
    address = path.format(id=change_requests(world)["red"].pk, month=OPEN_MONTH, deed="submit")
    response = getattr(client, method)(address, {}, content_type="application/json")
    assert response.status_code == 403
    assert "code" not in response.json()
    check(schema, path, response, media="application/problem+json", method=method)


@pytest.mark.parametrize(("path", "status"), [("teams/?x=1", 400), ("teams/none/", 404)])
def test_an_error_answers_what_the_document_promises(
    world: World, schema: dict[str, Any], path: str, status: int
) -> None:
    response = world.client("admin").get(f"/api/v1/{path}")
    assert response.status_code == status
    check(schema, "/api/v1/teams/", response, media="application/problem+json")


def test_every_parameter_of_the_shared_filters_is_documented(schema: dict[str, Any]) -> None:
    parameters = {p["name"]: p for p in schema["paths"]["/api/v1/admission-failures/"]["get"]["parameters"]}
    assert {"window", "from", "to", "cluster", "team", "cause", "cursor", "page_size"} <= set(parameters)
    assert "quota" in parameters["cause"]["schema"]["enum"]
    assert parameters["page_size"]["schema"]["maximum"] == 500


def check(
    schema: dict[str, Any], route: str, response: Any, media: str = "application/json", method: str = "get"
) -> None:
    promised = schema["paths"][route][method]["responses"][str(response.status_code)]["content"][media][
        "schema"
    ]
    whole = {**promised, "components": closed(schema["components"])}
    jsonschema.Draft202012Validator(whole).validate(response.json())


def closed(node: Any) -> Any:
    """Every object with named properties takes no other ones: an undocumented field is a fault, too."""
    if isinstance(node, dict):
        made = {key: closed(value) for key, value in node.items()}
        if isinstance(made.get("properties"), dict) and made.get("type") == "object":
            made.setdefault("additionalProperties", False)
        return made
    return [closed(value) for value in node] if isinstance(node, list) else node


@pytest.mark.parametrize("suffix", ["", "?format=json"])
def test_the_document_is_served_to_whoever_is_signed_in(world: World, suffix: str) -> None:
    assert world.client("anonymous").get("/api/schema/").status_code == 401
    response = world.client("guest").get("/api/schema/")
    assert response.status_code == 200
    assert yaml.safe_load(response.content)["info"]["title"] == "GPU Portal API"


def test_the_reading_page_needs_no_other_host_and_no_inline_code(world: World) -> None:
    assert world.client("anonymous").get("/api/docs/").status_code == 302
    response = world.client("guest").get("/api/docs/")
    text = response.content.decode()
    assert response.status_code == 200
    assert re.findall(r"<script(?![^>]*\bsrc=)", text) == []
    assert "<style" not in text
    assert not re.search(r"\son[a-z]+=|\sstyle=", text)
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", text)
    policy = response.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    for path in re.findall(r'(?:src|href)="(/static/[^"]+)"', text):
        assert world.client("guest").get(path).status_code == 200, path
