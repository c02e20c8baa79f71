"""Maintaining bindings in the admin site: taken periods, taking over, ending, and what stays as it was."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.fleet.models import Cluster, TeamBinding
from apps.fleet.tests.builders import HOUR, NOON, bound, cluster, team

pytestmark = pytest.mark.django_db
ADD = "/admin/fleet/teambinding/add/"


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(User.objects.create(username="a", role="platform_admin", is_staff=True))
    return client


def values(owner: str, **changes: object) -> dict[str, object]:
    return {
        "cluster": cluster().pk,
        "kind": "cluster_queue",
        "namespace": "",
        "name": "q",
        "team": team(owner).pk,
        "valid_from_0": "2026-12-01",
        "valid_from_1": "13:00:00",
        "valid_to_0": "",
        "valid_to_1": "",
        **changes,
    }


def errors(response: Any) -> dict[str, list[str]]:
    assert response.status_code == 200
    found: dict[str, list[str]] = response.context["adminform"].form.errors
    return found


def test_a_binding_is_added(admin: Client) -> None:
    assert admin.post(ADD, values("red")).status_code == 302
    binding = TeamBinding.objects.get()
    assert (binding.team.slug, binding.valid_from, binding.valid_to) == ("red", NOON + HOUR, None)


def test_a_taken_period_is_refused_with_who_has_it_and_since_when(admin: Client) -> None:
    bound("blue", "q", NOON)
    found = errors(admin.post(ADD, values("red")))
    assert found == {
        "valid_from": ["Team Blue owns this from 2026-12-01 12:00 UTC on: end that binding first."]
    }


def test_taking_over_ends_the_present_binding_and_starts_the_next(admin: Client) -> None:
    old = bound("blue", "q", NOON)
    assert admin.post(ADD, values("red", take_over="on")).status_code == 302
    old.refresh_from_db()
    assert old.valid_to == NOON + HOUR == TeamBinding.objects.get(team=team("red")).valid_from


def test_taking_over_stops_at_a_binding_that_starts_later(admin: Client) -> None:
    old = bound("blue", "q", NOON, NOON + 2 * HOUR)
    bound("green", "q", NOON + 2 * HOUR, NOON + 3 * HOUR)
    found = errors(admin.post(ADD, values("red", take_over="on")))
    assert "Team Green owns this from 2026-12-01 14:00 UTC to 2026-12-01 15:00 UTC" in found["valid_from"][0]
    old.refresh_from_db()
    assert old.valid_to == NOON + 2 * HOUR


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"valid_to_0": "2026-12-01", "valid_to_1": "13:00:00"}, "__all__"),
        ({"kind": "local_queue"}, "namespace"),
        ({"kind": "namespace", "namespace": "lab"}, "namespace"),
        ({"cluster": ""}, "cluster"),
        ({"kind": "pod"}, "kind"),
        ({"name": ""}, "name"),
        ({"valid_from_0": "soon"}, "valid_from"),
    ],
)
def test_a_form_that_makes_no_sense_says_which_field(
    admin: Client, changes: dict[str, Any], field: str
) -> None:
    assert field in errors(admin.post(ADD, values("red", **changes)))
    assert not TeamBinding.objects.exists()


def test_of_an_existing_binding_only_the_end_can_change(admin: Client) -> None:
    binding = bound("red", "q", NOON)
    path = f"/admin/fleet/teambinding/{binding.pk}/change/"
    changes = values("blue", name="other", valid_to_0="2026-12-02", valid_to_1="00:00:00")
    assert admin.post(path, changes).status_code == 302
    binding.refresh_from_db()
    assert (binding.team.slug, binding.name, binding.valid_from) == ("red", "q", NOON)
    assert binding.valid_to == NOON + 12 * HOUR


def test_an_end_that_reaches_into_the_next_binding_is_refused(admin: Client) -> None:
    binding = bound("red", "q", NOON, NOON + HOUR)
    bound("blue", "q", NOON + HOUR)
    response = admin.post(
        f"/admin/fleet/teambinding/{binding.pk}/change/", {"valid_to_0": "", "valid_to_1": ""}
    )
    assert "Team Blue owns this" in response.content.decode()
    binding.refresh_from_db()
    assert binding.valid_to == NOON + HOUR


def test_the_chosen_bindings_end_now_and_ended_or_future_ones_are_left_alone(admin: Client) -> None:
    now = timezone.now()
    running = bound("red", "q", now - HOUR)
    ended = bound("red", "q2", NOON - HOUR, NOON)
    future = bound("red", "q3", now + timedelta(days=1))
    chosen = [running.pk, ended.pk, future.pk]
    response = admin.post(
        "/admin/fleet/teambinding/", {"action": "end_now", "_selected_action": chosen}, follow=True
    )
    for row in (running, ended, future):
        row.refresh_from_db()
    assert running.valid_to is not None
    assert abs(running.valid_to - now) < timedelta(minutes=1)
    assert (ended.valid_to, future.valid_to) == (NOON, None)
    text = response.content.decode()
    assert "1 binding ended." in text
    assert "The period ends before it starts." in text


def test_a_binding_that_has_begun_is_not_deleted_and_a_future_one_is(admin: Client) -> None:
    begun, future = bound("red", "q", NOON - HOUR), bound("red", "q2", timezone.now() + HOUR)
    for binding, status in ((begun, 403), (future, 302)):
        response = admin.post(f"/admin/fleet/teambinding/{binding.pk}/delete/", {"post": "yes"})
        assert response.status_code == status
    assert [row.pk for row in TeamBinding.objects.all()] == [begun.pk]


def test_a_cluster_is_switched_off_and_never_deleted(admin: Client) -> None:
    row = cluster()
    assert admin.post(f"/admin/fleet/cluster/{row.pk}/delete/", {"post": "yes"}).status_code == 403
    assert (
        admin.post(
            f"/admin/fleet/cluster/{row.pk}/change/",
            {"slug": row.slug, "name": row.name, "kubeconfig_path": "/k"},
        ).status_code
        == 302
    )
    assert not Cluster.objects.get().enabled
