"""Reserves in the admin site: previewed, made, replaced and ended, with their history; stored ones stay as they are."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.fleet.models import Cluster, Reserve
from apps.fleet.services import reserve_close, reserve_open
from apps.observations.models import Node, Outcome, Presence, Source, SourceState

pytestmark = pytest.mark.django_db
ADD = "/admin/fleet/reserve/add/"
GPU = "nvidia.com/gpu"
MODEL = "NVIDIA-H100-80GB-HBM3"


@pytest.fixture
def someone() -> User:
    return User.objects.create(username="ann", role="platform_admin", is_staff=True)


@pytest.fixture
def admin(client: Client, someone: User) -> Client:
    client.force_login(someone)
    return client


@pytest.fixture
def cluster() -> Cluster:
    """Three nodes of eight cards, two of them in the pool "infer", one of these with five usable cards."""
    made = Cluster.objects.create(slug="east", name="East", kubeconfig_path="/nowhere")
    now = timezone.now()
    SourceState.objects.create(
        cluster=made,
        source=Source.NODES,
        presence=Presence.INSTALLED,
        last_run_at=now,
        last_ok_at=now,
        last_outcome=Outcome.OK,
    )
    for name, pool, usable in (("a", "infer", "8"), ("b", "infer", "5"), ("c", "train", "8")):
        Node.objects.create(
            cluster=made,
            uid=name,
            name=name,
            labels={"pool": pool, "nvidia.com/gpu.product": MODEL, "nvidia.com/gpu.count": "8"},
            capacity={GPU: "8"},
            allocatable={GPU: usable},
            conditions={"Ready": {"status": "True"}},
            first_seen_at=now,
            observed_at=now,
        )
    return made


def values(cluster: Cluster, **changes: object) -> dict[str, object]:
    at = timezone.now() - timedelta(minutes=1)
    return {
        "cluster": cluster.pk,
        "selector": "pool=infer",
        "model": "",
        "sharing_mode": "",
        "devices": "",
        "reason": "spares",
        "valid_from_0": f"{at:%Y-%m-%d}",
        "valid_from_1": f"{at:%H:%M:%S}",
        "valid_to_0": "",
        "valid_to_1": "",
        "replaces": "",
        **changes,
    }


def errors(response: Any) -> dict[str, list[str]]:
    assert response.status_code == 200
    found: dict[str, list[str]] = response.context["adminform"].form.errors
    return found


def test_the_preview_says_what_it_would_take_and_stores_nothing(admin: Client, cluster: Cluster) -> None:
    response = admin.post(ADD, {**values(cluster), "_preview": "1"})
    assert "Takes 13 of 13 usable cards that it selects." in response.content.decode()
    response = admin.post(ADD, {**values(cluster, devices="20", selector=""), "_preview": "1"})
    assert "Takes 20 of 21 usable cards that it selects." in response.content.decode()
    assert not Reserve.objects.exists()
    # Beside another one of the same cards only the rest is left.
    admin.post(ADD, values(cluster, devices="10"))
    response = admin.post(ADD, {**values(cluster, devices="5"), "_preview": "1"})
    assert "Takes 3 of 13 usable cards that it selects." in response.content.decode()


def test_who_made_it_and_what_it_says_is_in_its_history(admin: Client, cluster: Cluster) -> None:
    assert admin.post(ADD, values(cluster, devices="4", model=MODEL)).status_code == 302
    reserve = Reserve.objects.get()
    assert (reserve.devices, reserve.model, reserve.selector) == (4, MODEL, "pool=infer")
    assert reserve.created_by is not None
    assert (reserve.created_by.username, reserve.ended_by) == ("ann", None)
    entry = LogEntry.objects.get()
    assert entry.user.username == "ann"
    for part in ("cluster=East", "selector=pool=infer", "devices=4", "reason=spares"):
        assert part in entry.get_change_message()
    page = admin.get(f"/admin/fleet/reserve/{reserve.pk}/history/").content.decode()
    assert "selector=pool=infer" in page


def test_a_selector_that_cannot_be_read_is_refused_in_words(admin: Client, cluster: Cluster) -> None:
    assert errors(admin.post(ADD, values(cluster, selector="pool in infer"))) == {
        "selector": ["This is no requirement: “in infer”. Write key, !key, key=value or key in (a,b)."]
    }
    assert errors(admin.post(ADD, values(cluster, devices="0"))).keys() == {"devices"}
    assert not Reserve.objects.exists()


def test_only_the_end_of_a_stored_reserve_moves(admin: Client, cluster: Cluster) -> None:
    admin.post(ADD, values(cluster))
    reserve = Reserve.objects.get()
    url = f"/admin/fleet/reserve/{reserve.pk}/change/"
    assert "Takes 13 of 13 usable cards" in admin.get(url).content.decode()
    end = timezone.now() + timedelta(days=2)
    posted = {"valid_to_0": f"{end:%Y-%m-%d}", "valid_to_1": "10:00:00", "devices": "1", "selector": ""}
    assert admin.post(url, posted).status_code == 302
    reserve.refresh_from_db()
    assert (reserve.devices, reserve.selector) == (None, "pool=infer")
    assert reserve.valid_to is not None
    assert reserve.ended_by is not None
    message = LogEntry.objects.order_by("-pk")[0].get_change_message()
    assert f"valid to: — → {end:%Y-%m-%d} 10:00:00+00:00" in message


def test_another_size_ends_the_old_and_starts_the_new(admin: Client, cluster: Cluster) -> None:
    admin.post(ADD, values(cluster, devices="4"))
    old = Reserve.objects.get()
    start = timezone.now() + timedelta(hours=1)
    posted = values(
        cluster,
        devices="6",
        replaces=old.pk,
        valid_from_0=f"{start:%Y-%m-%d}",
        valid_from_1=f"{start:%H:%M:%S}",
    )
    assert admin.post(ADD, posted).status_code == 302
    old.refresh_from_db()
    new = Reserve.objects.exclude(pk=old.pk).get()
    assert old.valid_to == new.valid_from
    assert old.ended_by is not None
    assert old.ended_by.username == "ann"
    assert any("valid to: — →" in entry.get_change_message() for entry in LogEntry.objects.all())


def test_reserves_are_ended_from_the_list_and_stay_ended(
    admin: Client, cluster: Cluster, someone: User
) -> None:
    admin.post(ADD, values(cluster))
    reserve = Reserve.objects.get()
    admin.post("/admin/fleet/reserve/", {"action": "end_now", "_selected_action": [reserve.pk]})
    reserve.refresh_from_db()
    assert reserve.valid_to is not None
    ended = reserve.valid_to
    assert (reserve.ended_by, LogEntry.objects.count()) == (someone, 2)
    later = timezone.now() + timedelta(days=1)
    url = f"/admin/fleet/reserve/{reserve.pk}/change/"
    assert errors(admin.post(url, {"valid_to_0": f"{later:%Y-%m-%d}", "valid_to_1": "10:00:00"}))
    reserve.refresh_from_db()
    assert reserve.valid_to == ended
    # It has begun: it cannot be deleted either.
    assert admin.post(f"/admin/fleet/reserve/{reserve.pk}/delete/", {"post": "yes"}).status_code == 403


def test_an_end_that_lies_ahead_can_be_taken_back(cluster: Cluster, someone: User) -> None:
    now = timezone.now()
    reserve = reserve_open(
        reserve=Reserve(cluster=cluster, reason="spares", valid_from=now - timedelta(hours=1)), by=someone
    )
    reserve_close(reserve=reserve, at=now + timedelta(days=1), by=someone)
    reserve_close(reserve=reserve, at=None, by=someone)
    reserve.refresh_from_db()
    assert (reserve.valid_to, reserve.ended_by) == (None, None)


def test_others_maintain_none(client: Client, cluster: Cluster) -> None:
    client.force_login(User.objects.create(username="b", role="viewer", is_staff=True))
    assert client.get(ADD).status_code == 403
    assert client.get("/admin/fleet/reserve/").status_code == 403
