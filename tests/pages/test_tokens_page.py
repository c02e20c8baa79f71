"""The page of the own tokens: made and shown once, revoked, nobody else's; words for whoever does not see the screen."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client

from apps.accounts.models import ApiToken
from apps.accounts.tokens import make_token, token_of
from apps.api.tests.world import World
from apps.changes.models import AuditEntry

from .test_pages import text

PATH = "/account/tokens/"
SAP = {"name": "sap", "scope": "finance:read", "days": "30"}
ROLES = ["guest", "viewer", "red_lead", "finance", "admin"]


def shown(answer: Any) -> str:
    """The secret that the page shows; "" when it shows none."""
    match = re.search(r'<pre class="raw mono" id="secret">([^<]+)</pre>', answer.content.decode())
    return match[1] if match else ""


@pytest.mark.parametrize("role", ROLES)
def test_everybody_makes_tokens_that_are_shown_once(world: World, role: str) -> None:
    client = world.client(role)
    answer = client.post(PATH, SAP)
    assert answer.status_code == 200
    assert "no-store" in answer.headers["Cache-Control"]
    secret = shown(answer)
    token = token_of(secret, now=world.now)
    assert token is not None
    assert (token.user, token.name, token.scope) == (world.users[role], "sap", "finance:read")
    assert token.expires_at - token.created_at == timedelta(days=30)
    body = text(client, PATH)
    assert token.key in body
    assert secret[16:] not in body
    assert secret[16:] not in str(list(Session.objects.values_list("session_data", flat=True)))
    rates = Client().get("/api/v1/rates/", headers={"Authorization": f"Bearer {secret}"})
    assert rates.status_code == 200


def test_a_form_sent_twice_makes_one_token(world: World) -> None:
    client = world.client("viewer")
    client.post(PATH, SAP)
    again = client.post(PATH, SAP)
    assert again.status_code == 400
    assert shown(again) == ""
    assert "There is a token of this name already." in again.content.decode()
    assert ApiToken.objects.count() == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("days", "0"),
        ("days", "366"),
        ("days", "1.5"),
        ("days", ""),
        ("name", ""),
        ("name", "n" * 81),
        ("name", "a\x00b"),
        ("scope", "write"),
        ("scope", ""),
    ],
)
def test_what_cannot_be_made_is_said_at_its_field(world: World, field: str, value: str) -> None:
    answer = world.client("viewer").post(PATH, SAP | {field: value})
    assert answer.status_code == 400
    assert not ApiToken.objects.exists()
    body = answer.content.decode()
    assert f'id="id_{field}_error"' in body
    tag = re.search(rf'<(?:input|select)[^>]*id="id_{field}"[^>]*>', body)
    assert tag is not None
    assert 'aria-invalid="true"' in tag[0]
    assert f'aria-describedby="id_{field}_error"' in tag[0]


def test_a_year_is_the_longest(world: World) -> None:
    assert shown(world.client("viewer").post(PATH, SAP | {"days": "365"}))


def test_a_revoked_token_is_gone_and_holds_no_longer(world: World) -> None:
    client = world.client("viewer")
    secret = shown(client.post(PATH, SAP))
    answer = client.post(PATH, {"revoke": ApiToken.objects.get().pk})
    assert (answer.status_code, answer.headers["Location"]) == (303, PATH)
    assert "You have no tokens." in text(client, PATH)
    assert Client().get("/api/v1/rates/", headers={"Authorization": f"Bearer {secret}"}).status_code == 401


@pytest.mark.parametrize("role", ["red_lead", "admin"])
def test_tokens_of_others_do_not_exist_here(world: World, role: str) -> None:
    token, _secret = make_token(
        world.users["viewer"], name="viewers-own", scope="read", days=1, now=world.now
    )
    client = world.client(role)
    assert "viewers-own" not in text(client, PATH)
    foreign, absent = (client.post(PATH, {"revoke": pk}) for pk in (token.pk, token.pk + 1))
    assert foreign.status_code == absent.status_code == 404
    assert ApiToken.objects.filter(pk=token.pk).exists()


@pytest.mark.parametrize("pk", ["", "x", "-1", "9" * 19, "9" * 40, "²"])
def test_a_number_that_is_none_is_a_404(world: World, pk: str) -> None:
    assert world.client("viewer").post(PATH, {"revoke": pk}).status_code == 404


def test_both_deeds_are_in_the_trail_by_whom_and_from_where(world: World) -> None:
    client = world.client("viewer")
    secret = shown(client.post(PATH, SAP, REMOTE_ADDR="10.9.8.7"))
    client.post(PATH, {"revoke": ApiToken.objects.get().pk}, REMOTE_ADDR="10.9.8.7")
    found = AuditEntry.objects.filter(subject_kind="ApiToken").order_by("sequence")
    assert [(e.action, e.actor_name, e.address, e.subject_label) for e in found] == [
        ("token.create", "viewer", "10.9.8.7", "viewer sap"),
        ("token.delete", "viewer", "10.9.8.7", "viewer sap"),
    ]
    assert secret[16:] not in str(list(found.values_list("before", "after")))
    assert "API token viewer sap" in re.sub(r"<[^>]+>", "", text(world.client("admin"), "/audit/"))


def test_a_form_of_another_site_does_nothing(world: World) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.users["viewer"])
    assert client.post(PATH, SAP).status_code == 403
    assert not ApiToken.objects.exists()


@pytest.mark.parametrize("method", ["put", "patch", "delete"])
def test_it_is_looked_at_and_posted_to_only(world: World, method: str) -> None:
    assert getattr(world.client("viewer"), method)(PATH).status_code == 405


def test_each_button_says_what_it_is_for_and_each_field_has_its_label(world: World) -> None:
    client = world.client("viewer")
    for name in ("sap", "<b>bi</b>"):
        client.post(PATH, SAP | {"name": name})
    body = text(client, PATH)
    for name in ("sap", "&lt;b&gt;bi&lt;/b&gt;"):
        hidden = f'<span class="visually-hidden"> {name}</span>'
        assert f"<summary>Revoke{hidden}</summary>" in body
        assert f">Revoke for good{hidden}</button>" in body
    for field in ("name", "scope", "days"):
        assert f'<label for="id_{field}">' in body
        assert re.search(rf'<(?:input|select)[^>]*id="id_{field}"', body)
    assert "<b>bi</b>" not in body


def test_when_it_was_used_and_that_it_has_expired_is_said(world: World) -> None:
    user = world.users["viewer"]
    make_token(user, name="old", scope="read", days=1, now=world.now - timedelta(days=2))
    _token, secret = make_token(user, name="new", scope="read", days=1, now=world.now)
    body = text(world.client("viewer"), PATH)
    assert (body.count(">expired<"), body.count(">never<")) == (1, 2)
    Client().get("/api/v1/rates/", headers={"Authorization": f"Bearer {secret}"})
    assert text(world.client("viewer"), PATH).count(">never<") == 1


def test_the_menu_of_the_user_leads_there(world: World) -> None:
    assert f'href="{PATH}"' in text(world.client("guest"), "/")
    assert PATH not in text(Client(), "/login/")


def test_the_page_is_not_read_anew_by_itself(world: World) -> None:
    """What was shown once would be gone from it."""
    assert "portal:refresh" not in text(world.client("viewer"), PATH)
