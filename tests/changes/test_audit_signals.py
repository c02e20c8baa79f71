"""What people maintain lands in the trail: what differs, by whom and from where; each way of writing, each column."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.options import InlineModelAdmin
from django.core import serializers
from django.db import transaction
from django.db.models import Model
from django.test import Client

from apps.accounts.models import ApiToken, Membership, Team, User
from apps.accounts.tokens import make_token, note_use
from apps.changes import audit
from apps.changes.acting import _command
from apps.changes.audit_signals import WATCHED, masked
from apps.changes.models import AuditEntry
from apps.fleet.models import Cluster, Reserve, TeamBinding
from apps.fleet.services import binding_open

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[2]
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
# Registered in the admin site and no deed of anybody: messages, which the portal writes.
NO_DEED: frozenset[type[Model]] = frozenset({apps.get_model("chargeback", "BudgetNotice")})
Card: Any = apps.get_model("chargeback", "RateVersion")
Budget: Any = apps.get_model("chargeback", "Budget")
Price: Any = apps.get_model("chargeback", "RatePrice")
Grouped: Any = apps.get_model("chargeback", "RateGroupCluster")


def entries() -> list[Any]:
    """`before` and `after` are None where there is nothing: a test that looks into them says which it is."""
    return list(AuditEntry.objects.order_by("sequence"))


def entry_of(**wanted: Any) -> Any:
    return AuditEntry.objects.get(**wanted)


def seen() -> list[tuple[str, Any, Any]]:
    return [(entry.action, entry.before, entry.after) for entry in entries()]


def cluster(**more: Any) -> Cluster:
    return Cluster.objects.create(**{"slug": "east", "name": "East", "kubeconfig_path": "/k"} | more)


def team(slug: str = "red") -> Team:
    return Team.objects.create(slug=slug, name=slug.title())


def token() -> tuple[ApiToken, str]:
    owner = User.objects.create_user("ledger")
    return make_token(owner, name="sap", scope="finance:read", days=30, now=NOON)


# ---- nothing goes past it ------------------------------------------------------------------------------------------


def test_everything_that_the_admin_site_edits_is_watched() -> None:
    edited: set[type[Model]] = set()
    for model, site in admin.site._registry.items():
        edited.add(model)
        inlines: list[type[InlineModelAdmin[Any, Any]]] = list(site.inlines)
        edited |= {inline.model for inline in inlines}
    assert edited - WATCHED.keys() - NO_DEED == set(), "watch it, or say why it is no deed"


BULK = frozenset({"update", "bulk_create", "bulk_update", "update_or_create_bulk", "_raw_delete", "_update"})


def bulk_writes(text: str) -> Iterator[str]:
    """`Team.objects.….update(…)` and its like, over any number of lines."""
    names = {model.__name__ for model in WATCHED}
    for node in ast.walk(ast.parse(text)):
        if not (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in BULK
        ):
            continue
        inner: ast.AST = node.func.value
        while isinstance(inner, ast.Call | ast.Attribute):
            owner = inner.value if isinstance(inner, ast.Attribute) else None
            if isinstance(owner, ast.Name) and owner.id in names:
                yield f"{owner.id}: line {node.lineno}"
            inner = inner.func if isinstance(inner, ast.Call) else inner.value


def test_nothing_in_the_project_writes_them_in_bulk() -> None:
    found = []
    for folder in ("apps", "worker", "gpuportal"):
        for path in (ROOT / folder).rglob("*.py"):
            if "tests" not in path.parts and "migrations" not in path.parts:
                found += [f"{path.relative_to(ROOT)} {where}" for where in bulk_writes(path.read_text())]
    assert found == []


def test_a_bulk_write_would_be_found() -> None:
    text = "x = 1\nTeam.objects.filter(\n    pk=1,\n).exclude(pk=2).update(name='a')\nPod.objects.update(name='a')\n"
    assert list(bulk_writes(text)) == ["Team: line 2"]


# ---- what an entry holds ---------------------------------------------------------------------------------------------


def test_a_team_from_made_to_deleted() -> None:
    made = team()
    made.name, made.cost_centre = "Crimson", "C-1"
    made.save()
    made.save()  # nothing differs
    pk = made.pk
    made.delete()
    whole = {"slug": "red", "name": "Crimson", "cost_centre": "C-1"}
    assert seen() == [
        ("team.create", None, {"slug": "red", "name": "Red", "cost_centre": ""}),
        ("team.edit", {"name": "Red", "cost_centre": ""}, {"name": "Crimson", "cost_centre": "C-1"}),
        ("team.delete", whole, None),
    ]
    assert {(e.subject_kind, e.subject_id, e.subject_label, e.team_slug) for e in entries()} == {
        ("Team", str(pk), "red", "red")
    }
    assert audit.verify() is None


MAKERS: dict[type[Model], Callable[[], Any]] = {
    Team: lambda: team(),
    Cluster: lambda: cluster(),
    User: lambda: User.objects.create_user("zhang", password="a"),
    ApiToken: lambda: token()[0],
    Membership: lambda: Membership.objects.create(user=User.objects.create_user("zhang"), team=team()),
    TeamBinding: lambda: binding_open(
        team=team(), cluster=cluster(), kind="cluster_queue", name="red-cq", valid_from=NOON
    ),
    Reserve: lambda: Reserve.objects.create(cluster=cluster(), reason="spares", valid_from=NOON),
    Card: lambda: Card.objects.create(valid_from=NOON),
    Price: lambda: Price.objects.create(version=MAKERS[Card](), model="H100", amount=Decimal("3.60")),
    Grouped: lambda: Grouped.objects.create(version=MAKERS[Card](), group="training", cluster=cluster()),
    Budget: lambda: Budget.objects.create(team=team(), from_month="2026-03", amount=Decimal("12000")),
}
OTHERS: dict[Any, Callable[[], Any]] = {
    Team: lambda: team("other"),
    Cluster: lambda: cluster(slug="other"),
    User: lambda: User.objects.create_user("other"),
    Card: lambda: MAKERS[Card](),
}


ANOTHER: dict[str, Any] = {
    "CharField": "another", "SlugField": "another", "URLField": "https://another/", "EmailField": "a@example.com",
    "BooleanField": None, "DateTimeField": NOON + timedelta(hours=5), "PositiveIntegerField": 3,
    "DecimalField": Decimal("9.125"), "JSONField": {"urgent": "2"}, "TextField": "another",
    "ArrayField": [60, 90], "PositiveSmallIntegerField": 90,
}  # fmt: skip
CHOSEN: dict[tuple[str, str], Any] = {
    ("TeamBinding", "kind"): "volcano_queue",
    ("RateVersion", "currency"): "EUR",
    ("Budget", "currency"): "EUR",
    ("Budget", "from_month"): "2026-02",
    ("Budget", "until_month"): "2026-12",
    ("RatePrice", "basis"): "pod",
    ("RatePrice", "per"): "card",
    ("Membership", "role"): "lead",
    ("ApiToken", "scope"): "read",
    ("User", "role"): "finance",
}
COLUMNS = [(model, name) for model, watched in WATCHED.items() for name in watched.columns()]


@pytest.mark.parametrize(("model", "name"), COLUMNS, ids=[f"{m.__name__}.{n}" for m, n in COLUMNS])
def test_every_column_that_differs_is_recorded_and_nothing_else(model: type[Model], name: str) -> None:
    row = MAKERS[model]()
    field = WATCHED[model].columns()[name]
    before = getattr(row, name)
    if field.is_relation:
        setattr(row, name, OTHERS[field.related_model]())
    else:
        kind = field.get_internal_type()
        value = not before if kind == "BooleanField" else ANOTHER.get(kind)
        setattr(row, name, CHOSEN.get((model.__name__, name), value))
    count = AuditEntry.objects.count()
    row.save()
    entry = entry_of(sequence=count + 1)
    assert AuditEntry.objects.count() == count + 1
    assert (entry.action, set(entry.before), set(entry.after)) == (
        f"{WATCHED[model].name}.edit",
        {name},
        {name},
    )
    assert entry.before[name] != entry.after[name]
    assert entry.subject_label


def test_relations_read_as_names_and_amounts_as_text() -> None:
    priced = MAKERS[Price]()
    Price.objects.create(version=priced.version, cluster=cluster(), model="H100", amount=Decimal("3.60"))
    priced.delete()
    sample_binding = binding_open(
        team=team(),
        cluster=Cluster.objects.get(),
        kind="local_queue",
        namespace="ns",
        name="lq",
        valid_from=NOON,
    )
    rate = entry_of(action="price.create", cluster_slug="east")
    binding = entry_of(action="binding.create")
    assert rate.after["cluster"] == "east"
    assert rate.after["amount"] == "3.600000000"
    assert (binding.after["team"], binding.after["cluster"]) == ("red", "east")
    assert (binding.subject_id, binding.subject_label) == (str(sample_binding.pk), "local_queue ns lq")
    assert (binding.team_slug, binding.cluster_slug) == ("red", "east")


def test_a_take_over_is_two_entries_of_one_deed() -> None:
    first: dict[str, Any] = {"cluster": cluster(), "kind": "cluster_queue", "name": "cq"}
    binding_open(team=team("red"), valid_from=NOON, **first)
    binding_open(team=team("blue"), valid_from=NOON + timedelta(days=1), take_over=True, **first)
    found = [(e.action, e.team_slug) for e in entries() if e.subject_kind == "TeamBinding"]
    assert found == [("binding.create", "red"), ("binding.edit", "red"), ("binding.create", "blue")]


# ---- secrets ---------------------------------------------------------------------------------------------------------


def everything() -> str:
    return str(serializers.serialize("json", AuditEntry.objects.all()))


def test_a_password_is_only_said_to_have_changed() -> None:
    user = User.objects.create_user("zhang", password="first-secret")
    old = user.password
    user.set_password("second-secret")
    user.save()
    assert seen()[1] == ("user.edit", {"password": "***"}, {"password": "changed"})
    for secret in ("first-secret", "second-secret", old, user.password):
        assert secret not in everything()


def test_a_token_is_recorded_when_it_is_made_and_revoked_without_its_secret() -> None:
    made, text = token()
    note_use(made, now=NOON)  # no deed
    digest, pk = made.secret_digest, made.pk
    made.delete()
    whole = {
        "user": "ledger",
        "name": "sap",
        "scope": "finance:read",
        "key": made.key,
        "secret_digest": "***",
        "created_at": "2026-12-01T12:00:00+00:00",
        "expires_at": "2026-12-31T12:00:00+00:00",
    }
    assert seen()[1:] == [("token.create", None, whole), ("token.delete", whole, None)]
    assert {(e.subject_kind, e.subject_id, e.subject_label) for e in entries()[1:]} == {
        ("ApiToken", str(pk), "ledger sap")
    }
    for secret in (text, text[16:], digest):
        assert secret not in everything()


def test_credentials_of_an_address_are_masked_and_their_change_is_not_lost() -> None:
    made = cluster(prometheus_url="https://ann:hunter2@prom:9090/p?token=t0ps3cret&x=")
    made.prometheus_url = "https://ann:hunter3@prom:9090/p?token=t0ps3cret&x="
    made.save()
    was = "https://***@prom:9090/p?token=***&x=***"
    assert entries()[0].after["prometheus_url"] == was
    assert seen()[1][1:] == ({"prometheus_url": was}, {"prometheus_url": f"{was} (other credentials)"})
    for secret in ("hunter2", "hunter3", "t0ps3cret", "ann"):
        assert secret not in everything()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("", ""),
        (None, None),
        ("https://prom:9090/a", "https://prom:9090/a"),
        ("http://token@prom", "http://***@prom"),
        ("http://a:b@c@prom/", "http://***@prom/"),
        ("https://prom/#secret", "https://prom/"),
        ("https://[broken", "***"),
    ],
)
def test_masked(url: str | None, shown: str | None) -> None:
    assert masked(url) == shown


# ---- no deeds, and deeds by other ways ---------------------------------------------------------------------------------


def test_a_login_is_no_deed() -> None:
    User.objects.create_user("zhang", password="a")
    client = Client()
    assert client.login(username="zhang", password="a")
    user = User.objects.get()
    user.last_login = NOON
    user.save()
    assert [entry.action for entry in entries()] == ["user.create"]


def test_what_is_taken_back_leaves_nothing() -> None:
    with transaction.atomic():
        team()
        transaction.set_rollback(True)
    assert entries() == []


def test_members_that_are_added_taken_out_and_lost_with_their_team() -> None:
    red, (one, two) = team(), (User.objects.create_user(name) for name in ("one", "two"))
    red.members.add(one, two)
    two.teams.remove(red)
    red.delete()
    found = [(e.action, e.subject_label) for e in entries()[3:]]
    assert found == [
        ("membership.create", "one red"),
        ("membership.create", "two red"),
        ("membership.delete", "two red"),
        ("membership.delete", "one red"),
        ("team.delete", "red"),
    ]


def test_rows_that_are_deleted_together_are_as_many_entries() -> None:
    for slug in ("a", "b", "c"):
        team(slug)
    Team.objects.filter(slug__in=["a", "c"]).delete()
    assert sorted(e.subject_label for e in entries() if e.action == "team.delete") == ["a", "c"]


def test_rows_of_a_fixture_count_too() -> None:
    text = (
        '[{"model": "accounts.team", "pk": 71, "fields": {"slug": "red", "name": "Red", "cost_centre": ""}}]'
    )
    for loaded in serializers.deserialize("json", text):
        loaded.save()
    assert [(e.action, e.subject_id) for e in entries()] == [("team.create", "71")]


# ---- who, and from where -----------------------------------------------------------------------------------------------


@pytest.fixture
def site() -> tuple[User, Client]:
    user = User.objects.create_user("root", role="platform_admin", is_staff=True, is_superuser=True)
    client = Client(REMOTE_ADDR="10.1.2.3")
    client.force_login(user)
    return user, client


def test_the_admin_site_names_who_and_from_where(site: tuple[User, Client]) -> None:
    user, client = site
    client.post("/admin/accounts/team/add/", {
        "slug": "red", "name": "Red", "cost_centre": "",
        "memberships-TOTAL_FORMS": 1, "memberships-INITIAL_FORMS": 0,
        "memberships-0-user": user.pk, "memberships-0-role": "lead",
    })  # fmt: skip
    made, member = entries()[1:]
    assert (made.action, member.action) == ("team.create", "membership.create")
    for entry in (made, member):
        assert (entry.actor_id, entry.actor_name, entry.address) == (user.pk, "root", "10.1.2.3")
    assert member.after == {"user": "root", "team": "red", "role": "lead"}


def test_the_admin_sites_bulk_delete_is_an_entry_per_row(site: tuple[User, Client]) -> None:
    ids = [team(slug).pk for slug in ("a", "b")]
    site[1].post(
        "/admin/accounts/team/", {"action": "delete_selected", "_selected_action": ids, "post": "yes"}
    )
    assert not Team.objects.exists()
    found = [(e.action, e.actor_name) for e in entries()[3:]]
    assert found == [("team.delete", "root")] * 2


def test_outside_of_a_request_it_is_the_portal() -> None:
    team()
    assert (entries()[0].actor_id, entries()[0].actor_name, entries()[0].address) == (None, "portal", "")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["manage.py", "set_cluster", "--kubeconfig", "/secret"], "manage.py set_cluster"),
        (["/srv/portal/manage.py", "shell"], "manage.py shell"),
        (["manage.py"], ""),
        (["/venv/bin/celery", "worker"], ""),
        ([], ""),
    ],
)
def test_a_command_is_named_without_its_arguments(arguments: list[str], named: str) -> None:
    assert _command(arguments) == named
