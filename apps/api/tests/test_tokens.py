"""Tokens by REST: what lets in and what does not, what each scope reads of what its owner may read, and that nothing else
changed: sessions and passwords work as before. tests/access/test_roles.py asks every address with every role's tokens."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import URLPattern
from rest_framework.views import APIView

from apps.accounts.models import ApiToken, User
from apps.accounts.tokens import make_token
from apps.api.authentication import is_finance
from apps.api.base import GuardedView
from apps.api.tests.test_problems import assert_problem
from apps.api.tests.world import World
from apps.api.urls import urlpatterns

V1 = "/api/v1"
INVALID = 'Bearer realm="gpu-portal", error="invalid_token"'
NARROW = 'Bearer realm="gpu-portal", error="insufficient_scope"'


def bearer(user: User, scope: str = "read", **more: Any) -> dict[str, str]:
    """The header of a new token."""
    number = ApiToken.objects.count()
    values: dict[str, Any] = {"name": f"token {number}", "days": 1, "now": more.pop("now", None)}
    text = make_token(user, scope=scope, **(values | more))[1]
    return {"Authorization": f"Bearer {text}"}


def get(path: str, header: dict[str, str], client: Client | None = None) -> Any:
    return (client or Client(raise_request_exception=False)).get(f"{V1}/{path}", headers=header)


# ---- what lets in ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_a_token_lets_its_owner_in(world: World, scheme: str) -> None:
    header = bearer(world.users["viewer"], now=world.now)
    answer = get("teams/", {"Authorization": header["Authorization"].replace("Bearer", scheme)})
    assert answer.status_code == 200
    assert [team["slug"] for team in answer.json()["results"]] == ["red"]
    assert "Set-Cookie" not in answer.headers


def refused(answer: Any, challenge: str = INVALID) -> str:
    body = assert_problem(answer, 401, "not-authenticated")
    assert answer.headers["WWW-Authenticate"] == challenge
    return str(body["detail"])


@pytest.mark.parametrize(
    "text",
    ["", "gpup_", "gpup_0123456789_" + "A" * 43, "a b", "x" * 5000, "\xff\xfe", "eyJhbGciOiJub25lIn0.e30."],
)
def test_what_is_no_token_is_a_401(world: World, text: str) -> None:
    refused(get("teams/", {"Authorization": f"Bearer {text}"}))


def test_wrong_expired_and_revoked_ones_and_those_of_the_deactivated_are_answered_alike(world: World) -> None:
    good = bearer(world.users["viewer"], now=world.now)
    expired = bearer(world.users["viewer"], now=world.now - timedelta(days=1))
    revoked = bearer(world.users["viewer"], now=world.now)
    ApiToken.objects.order_by("pk").last().delete()  # type: ignore[union-attr]
    gone = bearer(world.users["red_lead"], now=world.now)
    world.users["red_lead"].is_active = False
    world.users["red_lead"].save()
    wrong = {"Authorization": good["Authorization"][:-1] + ("A" if good["Authorization"][-1] != "A" else "B")}
    texts = {refused(get("teams/", header)) for header in (expired, revoked, gone, wrong)}
    assert len(texts) == 1
    assert get("teams/", good).status_code == 200


def test_it_expires_at_its_moment(world: World) -> None:
    day = timedelta(days=1)
    assert get("teams/", bearer(world.users["viewer"], now=world.now - day)).status_code == 401
    lasting = bearer(world.users["viewer"], now=world.now - day + timedelta(minutes=5))
    assert get("teams/", lasting).status_code == 200


def test_a_token_that_does_not_hold_is_not_mended_by_a_session(world: World) -> None:
    refused(get("teams/", {"Authorization": "Bearer gpup_none"}, world.client("admin")))


def test_a_token_decides_over_the_session_beside_it(world: World) -> None:
    answer = get("teams/", bearer(world.users["viewer"], now=world.now), world.client("admin"))
    assert [team["slug"] for team in answer.json()["results"]] == ["red"]


@pytest.mark.parametrize("scheme", ["Token", "Digest", "Basicx"])
def test_another_scheme_is_as_none(world: World, scheme: str) -> None:
    text = bearer(world.users["viewer"], now=world.now)["Authorization"].removeprefix("Bearer ")
    both = 'Bearer realm="gpu-portal", Basic realm="gpu-portal"'
    refused(get("teams/", {"Authorization": f"{scheme} {text}"}), both)


def test_a_role_that_was_taken_away_is_taken_from_the_token_too(world: World) -> None:
    header = bearer(world.users["admin"], now=world.now)
    assert get("audit/", header).status_code == 200
    world.users["admin"].role = "viewer"
    world.users["admin"].save()
    assert get("audit/", header).status_code == 404


def test_its_last_use_is_kept(world: World) -> None:
    header = bearer(world.users["viewer"], now=world.now)
    assert ApiToken.objects.get().last_used_at is None
    get("teams/", header)
    first = ApiToken.objects.get().last_used_at
    assert first is not None
    assert abs(first - world.now) < timedelta(minutes=5)
    get("teams/", header)
    assert ApiToken.objects.get().last_used_at == first


@pytest.mark.parametrize("path", ["/teams/?format=csv", "/account/tokens/", "/api/docs/", "/admin/"])
def test_pages_take_no_token(world: World, path: str) -> None:
    answer = Client().get(path, headers=bearer(world.users["admin"], now=world.now))
    assert answer.status_code == 302
    assert "/login/" in answer.headers["Location"]


# ---- what a scope reads ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["guest", "viewer", "red_lead", "blue_lead", "finance", "admin"])
@pytest.mark.parametrize("path", ["rates/", "charges/", "usage/", "usage/hours/?cluster=east"])
@pytest.mark.parametrize("scope", ["finance:read", "read"])
def test_the_answer_is_that_of_the_session(world: World, role: str, path: str, scope: str) -> None:
    by_token = get(path, bearer(world.users[role], scope, now=world.now))
    by_session = world.client(role).get(f"{V1}/{path}")
    assert by_token.status_code == by_session.status_code == 200
    assert timeless(by_token.json()) == timeless(by_session.json())


def timeless(body: dict[str, Any]) -> dict[str, Any]:
    """Without what goes on from one answer to the next."""
    return {name: value for name, value in body.items() if name not in ("as_of", "sources", "window")}


def test_finance_reads_of_other_teams_only_what_its_owner_may(world: World) -> None:
    seen = {
        role: {
            row["team"]
            for row in get(
                "usage/hours/?cluster=east", bearer(world.users[role], "finance:read", now=world.now)
            ).json()["results"]
        }
        for role in ("guest", "red_lead", "finance")
    }
    assert seen == {"guest": set(), "red_lead": {"red"}, "finance": {"red", "blue", None}}


@pytest.mark.parametrize(
    "path", ["teams/", "audit/", "workloads/uid-red-waits/", "quota-changes/", "none/", "teams", ""]
)
def test_finance_reads_nothing_else_and_is_told_why(world: World, path: str) -> None:
    answer = get(path, bearer(world.users["admin"], "finance:read", now=world.now))
    body = assert_problem(answer, 403, "not-allowed")
    assert "finance:read" in body["detail"]
    assert answer.headers["WWW-Authenticate"] == NARROW


WRITES = [
    ("post", "quotas/what-if/"),
    ("post", "quota-changes/"),
    ("put", "quota-changes/1/"),
    ("patch", "quota-changes/1/"),
    ("post", "quota-changes/1/approve/"),
    ("post", "charges/"),
    ("delete", "usage/"),
    ("post", "none/"),
]


@pytest.mark.parametrize(("method", "path"), WRITES)
@pytest.mark.parametrize("scope", ["finance:read", "read"])
def test_a_token_writes_nothing_and_is_told_why(world: World, method: str, path: str, scope: str) -> None:
    header = bearer(world.users["admin"], scope, now=world.now)
    client = Client(enforce_csrf_checks=True)
    answer = getattr(client, method)(f"{V1}/{path}", {}, content_type="application/json", headers=header)
    body = assert_problem(answer, 403, "not-allowed")
    assert "only reads" in body["detail"]
    assert answer.headers["WWW-Authenticate"] == NARROW


def test_head_is_a_read(world: World) -> None:
    header = bearer(world.users["viewer"], "finance:read", now=world.now)
    assert Client().head(f"{V1}/charges/", headers=header).status_code == 200
    assert Client().options(f"{V1}/charges/", headers=header).status_code == 405


@pytest.mark.parametrize(
    ("path", "finance"),
    [
        ("/api/v1/rates/", True),
        ("/api/v1/charges/", True),
        ("/api/v1/usage/", True),
        ("/api/v1/usage/hours/", True),
        ("/api/v1/billing-periods/2026-11/", True),
        ("/api/v1/statements/2026-11/red/", True),
        ("/api/v1/focus/2026-11/", True),
        ("/api/schema/", True),
        ("/api/v1/teams/", False),
        ("/api/v1/charges", False),
        ("/api/v1/usages/", False),
        ("/api/v2/charges/", False),
        ("/api/v1/teams/charges/", False),
        ("/api/v1//charges/", False),
        ("/api/schema/more/", False),
        ("/charges/", False),
        ("/api/", False),
        ("", False),
    ],
)
def test_the_families_of_finance(path: str, finance: bool) -> None:
    assert is_finance(path) is finance


# ---- nothing goes past it --------------------------------------------------------------------------------------------


def views() -> Iterator[type[APIView]]:
    for pattern in urlpatterns:
        assert isinstance(pattern, URLPattern)
        view: Any = getattr(pattern.callback, "view_class", None) or getattr(pattern.callback, "cls", None)
        if view is not None:
            yield view


def test_every_view_asks_who_and_what_for_and_counts() -> None:
    found = list(views())
    assert len(found) > 30
    for view in found:
        assert issubclass(view, GuardedView), view
        assert view.authentication_classes == APIView.authentication_classes, view
        assert list(view.permission_classes) == list(APIView.permission_classes), view
        assert view.throttle_classes == APIView.throttle_classes, view


def test_other_suites_are_not_counted() -> None:
    assert settings.PROCESS_NAME == "test"
    assert settings.API_RATE is None
    assert settings.API_FAILED_RATE is None


@pytest.mark.parametrize(("role", "status"), [("anonymous", 401), ("guest", 403)])
def test_problems_of_the_description_are_json(world: World, role: str, status: int) -> None:
    if role == "anonymous":
        answer: Any = Client().get("/api/schema/")
    else:
        header = bearer(world.users[role], now=world.now)
        answer = Client().post("/api/schema/", headers=header)
    kind = {401: "not-authenticated", 403: "not-allowed"}[status]
    assert_problem(answer, status, kind)
