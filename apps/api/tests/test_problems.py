"""Every error is a problem document: its media type, its stable words, its translated ones, the fields it names."""

import base64
from typing import Any

import pytest
from django.test import Client, RequestFactory

from apps.accounts.models import User
from apps.api.base import ListView, Reading
from apps.api.clusters import ClusterSerializer
from apps.api.pagination import Key, Page, encode_cursor
from apps.api.tests.world import World

V1 = "/api/v1"


def assert_problem(response: Any, status: int, kind: str) -> dict[str, Any]:
    assert response.status_code == status, response.content[:500]
    assert response.headers["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["type"] == f"urn:gpu-portal:problem:{kind}"
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]
    assert body["instance"] == response.wsgi_request.path
    return body


def faults(body: dict[str, Any]) -> set[tuple[str, str]]:
    return {(fault["parameter"], fault["code"]) for fault in body["errors"]}


def test_nobody_is_told_that_login_is_missing_and_is_not_redirected(world: World) -> None:
    response = world.client("anonymous").get(f"{V1}/teams/")
    assert_problem(response, 401, "not-authenticated")
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="gpu-portal", Basic realm="gpu-portal"'


def test_a_wrong_password_is_a_401(world: World) -> None:
    header = "Basic " + base64.b64encode(b"viewer:wrong").decode()
    assert_problem(Client().get(f"{V1}/teams/", headers={"Authorization": header}), 401, "not-authenticated")


def test_basic_authentication_lets_a_script_in(world: World) -> None:
    world.users["viewer"].set_password("right")
    world.users["viewer"].save()
    header = "Basic " + base64.b64encode(b"viewer:right").decode()
    response = Client().get(f"{V1}/teams/", headers={"Authorization": header})
    assert [team["slug"] for team in response.json()["results"]] == ["red"]


@pytest.mark.parametrize(
    "path", ["/api/", "/api/v1/", "/api/v1/nothing/", "/api/v2/teams/", "/api/v1/teams/%00/"]
)
def test_an_address_that_leads_nowhere_is_a_404(world: World, path: str) -> None:
    assert_problem(world.client("viewer").get(path), 404, "not-found")
    assert_problem(world.client("anonymous").get(path), 401, "not-authenticated")


def test_an_address_without_its_slash_says_so(world: World) -> None:
    body = assert_problem(world.client("viewer").get(f"{V1}/teams"), 404, "not-found")
    assert "/api/v1/teams/" in body["detail"]
    body = assert_problem(world.client("viewer").get(f"{V1}/nothing"), 404, "not-found")
    assert "slash" not in body["detail"]


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete", "options"])
def test_reads_take_no_other_method(world: World, method: str) -> None:
    response = getattr(world.client("viewer"), method)(f"{V1}/teams/")
    body = assert_problem(response, 405, "method-not-allowed")
    assert method.upper() in body["detail"]
    assert "GET" in response.headers["Allow"]


def test_session_writes_need_the_csrf_token(world: World) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.users["viewer"])
    assert_problem(client.post(f"{V1}/teams/"), 403, "not-allowed")


def test_only_json_is_served(world: World) -> None:
    response = world.client("viewer").get(f"{V1}/teams/", headers={"Accept": "text/csv"})
    assert_problem(response, 406, "not-acceptable")


@pytest.mark.parametrize(
    ("route", "query", "expected"),
    [
        ("teams", "colour=red", {("colour", "unknown")}),
        ("teams", "format=xml", {("format", "unknown")}),
        ("teams", "page_size=0", {("page_size", "min_value")}),
        ("teams", "page_size=501", {("page_size", "max_value")}),
        ("teams", "page_size=ten", {("page_size", "invalid")}),
        ("teams", "page_size=1&page_size=2", {("page_size", "repeated")}),
        ("teams", "cursor=hello", {("cursor", "cursor")}),
        ("teams", "cursor=%FF%00", {("cursor", "null_characters_not_allowed")}),
        ("workloads", "state=sleeping&kind=Job", {("state", "invalid_choice"), ("kind", "invalid_choice")}),
        ("workloads", "queue=a%00b", {("queue", "null_characters_not_allowed")}),
        ("workloads", "namespace=" + "n" * 64, {("namespace", "max_length")}),
        ("workloads", "cluster=nowhere", {("cluster", "not_found")}),
        ("workloads", "cluster=west", {("cluster", "not_found")}),
        ("workloads", "team=nobody", {("team", "not_found")}),
        ("admission-failures", "cause=bad-luck", {("cause", "invalid_choice")}),
        ("admission-failures", "window=soon", {("window", "invalid")}),
        ("usage", "from=yesterday", {("from", "invalid")}),
        ("usage", "from=2026-12-01T08:00:00", {("from", "invalid")}),
        ("usage", "group_by=team,moon&step=week", {("group_by", "unknown"), ("step", "invalid_choice")}),
        ("usage", "step=hour&window=63d", {("window", "invalid")}),
        ("usage", "format=csv&page_size=2", {("page_size", "unknown")}),
        ("charges", "basis=guess&currency=EUR", {("basis", "invalid_choice"), ("currency", "unknown")}),
        ("usage/hours", "", {("cluster", "required")}),
        ("usage/hours", "cluster=east&after_seq=-1", {("after_seq", "min_value")}),
        ("usage/hours", "cluster=east&after_seq=9223372036854775808", {("after_seq", "max_value")}),
        ("quotas", "team=-", {("team", "not_found")}),
    ],
)
def test_a_parameter_that_cannot_be_used_is_named(
    world: World, route: str, query: str, expected: Any
) -> None:
    body = assert_problem(world.client("admin").get(f"{V1}/{route}/?{query}"), 400, "invalid-parameters")
    assert faults(body) == expected
    assert all(fault["detail"] for fault in body["errors"])


def test_details_take_no_parameter_either(world: World) -> None:
    body = assert_problem(
        world.client("viewer").get(f"{V1}/teams/red/?page_size=1"), 400, "invalid-parameters"
    )
    assert faults(body) == {("page_size", "unknown")}


def test_a_foreign_team_in_a_filter_looks_like_none_at_all(world: World) -> None:
    client = world.client("red_lead")
    foreign = client.get(f"{V1}/workloads/?team=blue").json()
    assert foreign == client.get(f"{V1}/workloads/?team=no-such-team").json()
    assert faults(foreign) == {("team", "not_found")}
    assert faults(client.get(f"{V1}/workloads/?team=-").json()) == {("team", "not_found")}


@pytest.mark.parametrize(
    "cursor",
    [
        encode_cursor((1,), route="clusters"),
        encode_cursor(("1",), route="teams"),
        encode_cursor((1, 2), route="teams"),
        encode_cursor((2**63,), route="teams"),
        base64.urlsafe_b64encode(b'["teams"]').decode(),
        base64.urlsafe_b64encode(b'["teams",true]').decode(),
        base64.urlsafe_b64encode(b'["teams",1.5]').decode(),
        base64.urlsafe_b64encode(b'{"teams":1}').decode(),
        base64.urlsafe_b64encode(b"[" * 1400).decode(),
    ],
)
def test_a_cursor_that_this_list_did_not_make_is_refused(world: World, cursor: str) -> None:
    body = assert_problem(
        world.client("viewer").get(f"{V1}/teams/?cursor={cursor}"), 400, "invalid-parameters"
    )
    assert faults(body) == {("cursor", "cursor")}


def test_words_are_translated_and_codes_are_not(world: World) -> None:
    client = world.client("viewer")
    english = client.get(f"{V1}/teams/?page_size=x", headers={"Accept-Language": "en"}).json()
    answer = client.get(f"{V1}/teams/?page_size=x", headers={"Accept-Language": "zh-hans"})
    chinese = answer.json()
    assert (chinese["type"], faults(chinese)) == (english["type"], faults(english))
    assert chinese["errors"][0]["detail"] != english["errors"][0]["detail"]
    assert "Accept-Language" in answer.headers["Vary"]
    assert answer.headers["Content-Language"] == "zh-hans"


class Broken(ListView):
    """A view with a fault in it."""

    route = "broken"
    item = ClusterSerializer

    def page(self, reading: Reading, *, after: Key | None, size: int) -> Page[Any]:
        raise ZeroDivisionError("the secret of the house")


@pytest.mark.django_db
def test_a_fault_in_the_portal_is_a_500_that_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    request = RequestFactory().get("/api/v1/broken/")
    request.user = User.objects.create_user("somebody")
    response = Broken.as_view()(request)
    response.render()
    assert response.status_code == 500
    assert response.headers["Content-Type"] == "application/problem+json"
    assert response.data["type"] == "urn:gpu-portal:problem:internal"
    assert b"secret" not in response.content
    assert "ZeroDivisionError: the secret of the house" in caplog.text
