"""The admin site: who gets in, what a platform admin without superuser rights may do there, and no inline code."""

import re
from datetime import UTC, datetime

import pytest
from django.test import Client

from apps.accounts.models import ApiToken, Membership, Team, User
from apps.accounts.tokens import make_token

pytestmark = pytest.mark.django_db
INLINE = re.compile(r"<script(?![^>]*\b(?:src=|type=\"application/json\"))|<style|\son[a-z]+=\"|\sstyle=\"")


def person(name: str, role: str = "viewer", **extra: bool) -> User:
    user = User(username=name, role=role, **extra)
    user.set_password("a long old password")
    user.save()
    return user


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def platform_admin() -> User:
    return person("padmin", "platform_admin", is_staff=True)


MODELS = ("accounts/user", "accounts/team", "fleet/cluster", "fleet/teambinding", "fleet/reserve")


@pytest.mark.parametrize("path", ["/admin/", *(f"/admin/{model}/" for model in MODELS)])
@pytest.mark.parametrize("role", ["viewer", "finance", "platform_admin"])
def test_only_staff_gets_in_whatever_the_role(path: str, role: str) -> None:
    response = signed_in(person("p", role)).get(path)
    assert response.status_code == 302
    assert response.headers["Location"].startswith("/admin/login/")


@pytest.mark.parametrize("role", ["viewer", "finance"])
@pytest.mark.parametrize("model", MODELS)
def test_staff_of_another_role_maintains_nothing_here(role: str, model: str) -> None:
    assert signed_in(person("p", role, is_staff=True)).get(f"/admin/{model}/").status_code == 403
    assert signed_in(person("q", role, is_staff=True)).get(f"/admin/{model}/add/").status_code == 403


@pytest.mark.parametrize("model", MODELS)
def test_a_platform_admin_maintains_the_fleet_without_inline_code(platform_admin: User, model: str) -> None:
    client = signed_in(platform_admin)
    for path in ("/admin/", f"/admin/{model}/", f"/admin/{model}/add/"):
        response = client.get(path)
        assert response.status_code == 200
        assert not INLINE.search(response.content.decode()), path
        assert "unsafe" not in response.headers["Content-Security-Policy"]


def test_the_login_page_of_the_site_has_no_inline_code() -> None:
    assert not INLINE.search(Client().get("/admin/login/").content.decode())


def form_of(user: User, **changes: object) -> dict[str, object]:
    values = {
        "username": user.username,
        "role": user.role,
        "is_active": "on",
        "date_joined_0": "2026-12-01",
        "date_joined_1": "00:00:00",
        "memberships-TOTAL_FORMS": "0",
        "memberships-INITIAL_FORMS": "0",
        **changes,
    }
    return {name: value for name, value in values.items() if value is not None}


def test_a_platform_admin_gives_a_role_and_a_team(platform_admin: User) -> None:
    user, team = person("new"), Team.objects.create(slug="red", name="Red")
    client = signed_in(platform_admin)
    changes = {
        "role": "finance",
        "memberships-TOTAL_FORMS": "1",
        "memberships-0-team": team.pk,
        "memberships-0-role": "lead",
        "memberships-0-user": user.pk,
    }
    response = client.post(f"/admin/accounts/user/{user.pk}/change/", form_of(user, **changes))
    assert response.status_code == 302, response.context["errors"]
    user.refresh_from_db()
    assert user.role == "finance"
    assert Membership.objects.get(user=user).role == "lead"


def test_a_platform_admin_cannot_make_a_superuser(platform_admin: User) -> None:
    client = signed_in(platform_admin)
    for user in (person("new"), platform_admin):
        path = f"/admin/accounts/user/{user.pk}/change/"
        assert client.post(path, form_of(user, is_superuser="on", is_staff="on")).status_code == 302
        user.refresh_from_db()
        assert not user.is_superuser


def test_a_platform_admin_cannot_take_over_a_superuser(platform_admin: User) -> None:
    root = person("root", is_superuser=True, is_staff=True)
    client = signed_in(platform_admin)
    new = {
        "password1": "another long password",
        "password2": "another long password",
        "usable_password": "true",
    }
    assert client.post(f"/admin/accounts/user/{root.pk}/password/", new).status_code == 403
    assert (
        client.post(f"/admin/accounts/user/{root.pk}/change/", form_of(root, username="x")).status_code == 403
    )
    assert client.post(f"/admin/accounts/user/{root.pk}/delete/", {"post": "yes"}).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": [root.pk], "post": "yes"}
    client.post("/admin/accounts/user/", chosen)
    root.refresh_from_db()
    assert root.check_password("a long old password")


def test_a_superuser_can_make_another_one() -> None:
    user = person("new")
    client = signed_in(person("root", is_superuser=True, is_staff=True))
    client.post(f"/admin/accounts/user/{user.pk}/change/", form_of(user, is_superuser="on"))
    user.refresh_from_db()
    assert user.is_superuser


def test_a_new_user_is_a_viewer_without_staff_rights(platform_admin: User) -> None:
    values = {
        "username": "new",
        "usable_password": "true",
        "password1": "a long new password",
        "password2": "a long new password",
        "role": "viewer",
    }
    assert signed_in(platform_admin).post("/admin/accounts/user/add/", values).status_code == 302
    user = User.objects.get(username="new")
    assert (user.role, user.is_staff, user.is_superuser) == ("viewer", False, False)


# ---- tokens ----------------------------------------------------------------------------------------------------------

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


def test_a_platform_admin_sees_all_tokens_and_revokes_them(platform_admin: User) -> None:
    token, text = make_token(person("ledger"), name="sap", scope="finance:read", days=30, now=NOON)
    client, page = signed_in(platform_admin), f"/admin/accounts/apitoken/{token.pk}"
    for path in ("/admin/accounts/apitoken/", f"{page}/change/"):
        body = client.get(path).content.decode()
        assert token.key in body
        assert "sap" in body
        assert token.secret_digest not in body
        assert text[16:] not in body
        assert not INLINE.search(body)
    assert client.post(f"{page}/delete/", {"post": "yes"}).status_code == 302
    assert not ApiToken.objects.exists()


def test_nobody_makes_or_changes_a_token_there(platform_admin: User) -> None:
    token, _text = make_token(person("ledger"), name="sap", scope="finance:read", days=30, now=NOON)
    for user in (platform_admin, person("root", is_superuser=True, is_staff=True)):
        client = signed_in(user)
        assert client.get("/admin/accounts/apitoken/add/").status_code == 403
        wider = {"name": "sap", "scope": "read"}
        assert client.post(f"/admin/accounts/apitoken/{token.pk}/change/", wider).status_code == 403
    token.refresh_from_db()
    assert token.scope == "finance:read"


@pytest.mark.parametrize("role", ["viewer", "finance"])
def test_staff_of_another_role_sees_no_token_of_others(role: str) -> None:
    token, _text = make_token(person("ledger"), name="sap", scope="finance:read", days=30, now=NOON)
    client = signed_in(person("p", role, is_staff=True))
    assert client.get("/admin/accounts/apitoken/").status_code == 403
    assert client.post(f"/admin/accounts/apitoken/{token.pk}/delete/", {"post": "yes"}).status_code == 403
    assert ApiToken.objects.exists()
