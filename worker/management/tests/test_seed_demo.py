"""The demo's rows: complete, once, and careful with what somebody changed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client

from apps.accounts.models import Membership, Team, User
from apps.fleet.models import Cluster, Reserve, TeamBinding

pytestmark = pytest.mark.django_db
EPOCH = 1_795_500_000
API = "http://127.0.0.1:18080"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    body = {"seed": 1, "epoch": EPOCH, "admin_token": "a", "viewer_token": "v"}
    (tmp_path / "state.json").write_text(json.dumps(body))
    return tmp_path


BUDGETS: Any = apps.get_model("chargeback", "Budget")


def seed(state: Path, api: str = API) -> None:
    call_command("seed_demo", state=str(state), api=api)


def counts() -> list[int]:
    models = (
        Cluster,
        Team,
        TeamBinding,
        User,
        Membership,
        Reserve,
        apps.get_model("chargeback", "RatePrice"),
        BUDGETS,
    )
    return [model._default_manager.count() for model in models]


def test_a_second_run_changes_nothing_but_the_address(state: Path) -> None:
    seed(state)
    before = counts()
    assert before[:2] == [1, 10]
    assert min(before) > 0
    seed(state, "http://127.0.0.1:19090/")
    assert counts() == before
    cluster = Cluster.objects.get()
    assert (cluster.slug, cluster.is_demo, cluster.enabled) == ("demo", True, True)
    assert cluster.prometheus_url == "http://127.0.0.1:19090"
    assert cluster.kubeconfig_path == str(state / "kubeconfig.yaml")


def test_teams_own_their_things_from_the_first_simulated_day(state: Path) -> None:
    seed(state)
    start = datetime.fromtimestamp(EPOCH, tz=UTC)
    assert set(TeamBinding.objects.values_list("valid_from", flat=True)) == {start}
    vision = TeamBinding.objects.filter(team__slug="vision").values_list("kind", "namespace", "name")
    assert set(vision) == {
        ("namespace", "", "vision"),
        ("local_queue", "vision", "train"),
        ("local_queue", "vision", "notebooks"),
        ("cluster_queue", "", "vision-cq"),
    }
    volcano = TeamBinding.objects.filter(kind="volcano_queue").values_list("name", flat=True)
    assert sorted(volcano) == ["climate", "robotics"]


def test_the_users(state: Path) -> None:
    """Two platform admins, so that one can approve what the other asks for; nobody else may do what they may."""
    seed(state)
    for name in ("lead", "admin", "approver", "finance", "viewer"):
        assert Client().login(username=name, password="demo")
    admins = [user.username for user in User.objects.order_by("username") if user.is_platform_admin]
    assert admins == ["admin", "approver"]
    staff = User.objects.filter(is_staff=True).order_by("username").values_list("username", flat=True)
    assert list(staff) == ["admin", "approver", "finance"]
    assert User.objects.get(username="finance").is_finance
    lead = Membership.objects.filter(user__username="lead").values_list("team__slug", "role")
    assert set(lead) == {("vision", "lead"), ("speech", "member")}
    assert not User.objects.get(username="viewer").is_staff


def test_what_people_changed_stays(state: Path) -> None:
    seed(state)
    closed = TeamBinding.objects.get(kind="cluster_queue", name="vision-cq")
    closed.valid_to = closed.valid_from + timedelta(days=3)
    closed.save()
    user = User.objects.get(username="viewer")
    user.set_password("another")
    user.save()
    Membership.objects.filter(user=user).delete()
    seed(state)
    assert TeamBinding.objects.filter(name="vision-cq").count() == 1
    assert Client().login(username="viewer", password="another")
    assert not Membership.objects.filter(user=user).exists()


def test_the_reserves_start_with_the_demo_and_stay_ended(state: Path) -> None:
    seed(state)
    kept = Reserve.objects.order_by("selector").values_list("selector", "devices", "valid_from", "valid_to")
    start = datetime.fromtimestamp(EPOCH, tz=UTC)
    assert list(kept) == [
        ("kubernetes.io/hostname=h100-fabric-03", 4, start, None),
        ("node-pool=media", None, start, None),
    ]
    Reserve.objects.update(valid_to=start + timedelta(days=1))
    seed(state)
    assert Reserve.objects.filter(valid_to=None).count() == 0


def test_three_teams_have_budgets_and_one_that_is_deleted_stays_so(state: Path) -> None:
    seed(state)
    kept = BUDGETS.objects.order_by("team__slug").values_list("team__slug", "from_month", "currency")
    assert [*kept] == [
        ("biology", "2026-11", "USD"),
        ("foundation-models", "2026-11", "USD"),
        ("vision", "2026-11", "USD"),
    ]
    BUDGETS.objects.get(team__slug="vision").delete()
    seed(state)
    assert BUDGETS.objects.count() == 2


def test_a_missing_or_broken_state_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"state\.json: No such file"):
        seed(tmp_path)
    (tmp_path / "state.json").write_text("{}")
    with pytest.raises(CommandError, match="missing required field"):
        seed(tmp_path)
    assert Cluster.objects.count() == 0
