"""The pages and the REST interface over a real cluster, as a browser would get them."""

from __future__ import annotations

import html
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from apps.accounts.models import Membership, Team, User
from apps.fleet.models import Cluster, TeamBinding
from apps.observations.models import ClusterObject, Node, Workload

from .access import require_cluster
from .conftest import Pull

require_cluster()
pytestmark = [pytest.mark.cluster, pytest.mark.django_db]
SOURCES = ("nodes", "pods", "events", "kueue", "volcano", "devices")


@pytest.fixture
def collected(cluster: Cluster, pull: Pull) -> Cluster:
    for source in SOURCES:
        assert pull(source).outcome == "ok"
    return cluster


def signed_in(name: str, **more: Any) -> Client:
    client = Client()
    client.force_login(User.objects.create_user(name, password=None, **more))
    return client


@pytest.fixture
def admin(collected: Cluster) -> Client:
    return signed_in("admin", role=User.Role.PLATFORM_ADMIN)


def body(client: Client, path: str, status: int = 200) -> str:
    answer: Any = client.get(path)
    assert answer.status_code == status, path
    return html.unescape(answer.content.decode())


def every(client: Client, path: str) -> list[dict[str, Any]]:
    """All rows of a REST list."""
    found: list[dict[str, Any]] = []
    while path:
        answer = client.get(path)
        assert answer.status_code == 200, path
        page = answer.json()
        found += page["results"]
        path = page.get("next") or ""
    return found


@pytest.mark.parametrize("path", ["/", "/capacity/", "/sources/"])
def test_pages_say_as_of_when(admin: Client, path: str) -> None:
    assert 'data-as-of="20' in body(admin, path)


@pytest.mark.parametrize("path", ["/teams/", "/queues/", "/admissions/"])
def test_pages_about_queues_say_as_of_when(admin: Client, kueue: str, path: str) -> None:
    assert 'data-as-of="20' in body(admin, path)


def test_nodes_are_on_the_capacity_page_and_have_their_own(admin: Client, collected: Cluster) -> None:
    names = list(Node.objects.filter(cluster=collected, gone_at=None).values_list("name", flat=True)[:5])
    assert names
    for name in names:
        text = body(admin, f"/capacity/nodes/{name}/")
        assert name in text
    listed = {row["name"] for row in every(admin, "/api/v1/nodes/")}
    assert set(names) <= listed


def test_cluster_queues_are_on_the_queues_page(admin: Client, collected: Cluster, kueue: str) -> None:
    names = list(
        ClusterObject.objects.filter(cluster=collected, kind="ClusterQueue", gone_at=None).values_list(
            "name", flat=True
        )
    )
    text = body(admin, "/queues/")
    assert names
    for name in names:
        assert name in text
        assert name in body(admin, f"/queues/{collected.slug}/ClusterQueue/{name}/")
    quotas = every(admin, "/api/v1/quotas/")
    assert {row["queue"] for row in quotas if row["system"] == "kueue"} <= set(names)


def test_waiting_work_says_kueues_own_words(admin: Client, collected: Cluster, kueue: str) -> None:
    waiting = Workload.objects.filter(cluster=collected, gone_at=None, state="pending").exclude(message="")[
        :8
    ]
    if not waiting:
        pytest.skip("nothing waits in this cluster")
    listed = {row["name"] for row in every(admin, "/api/v1/workloads/")}
    for row in waiting:
        text = body(admin, f"/workloads/{quote(row.uid)}/")
        assert row.message in text
        assert row.name in listed
    text = body(admin, "/admissions/")
    assert any(row.name in text for row in waiting)


def test_sources_are_fine(admin: Client) -> None:
    states = {row["source"]: row["state"] for row in every(admin, "/api/v1/sources/")}
    assert {states[source] for source in SOURCES} <= {"ok", "absent"}
    assert states["dcgm"] in ("absent", "never")


def test_a_lead_sees_the_own_namespace_only(collected: Cluster, kueue: str) -> None:
    spaces = list(
        Workload.objects.filter(cluster=collected, gone_at=None, state="pending")
        .order_by("namespace")
        .values_list("namespace", flat=True)
        .distinct()
    )
    if len(spaces) < 2:
        pytest.skip("work waits in fewer than two namespaces of this cluster")
    team = Team.objects.create(slug="first", name="First")
    TeamBinding.objects.create(team=team, cluster=collected, kind="namespace", name=spaces[0])
    lead = signed_in("lead")
    Membership.objects.create(user=User.objects.get(username="lead"), team=team, role=Membership.Role.LEAD)
    own = Workload.objects.filter(cluster=collected, namespace=spaces[0], state="pending", gone_at=None)
    other = Workload.objects.filter(cluster=collected, namespace=spaces[1], state="pending", gone_at=None)
    text = body(lead, "/teams/first/")
    assert all(row.name in text for row in own[:3])
    assert not any(row.name in text for row in other)
    assert body(lead, f"/workloads/{own[0].uid}/")
    body(lead, f"/workloads/{other[0].uid}/", status=404)
    assert lead.get(f"/api/v1/workloads/{other[0].uid}/").status_code == 404
