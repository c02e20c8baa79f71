"""Findings between layers on the pages of what they are about, over REST, and for whom."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.api.tests.world import GPU, World, workload
from apps.observations.models import Node, Pod, Workload

from .test_pages import text

SAYS = "holds quota and has no pods"
QUEUE = "/queues/east/ClusterQueue/{}-cq/"


@pytest.fixture
def troubled(world: World) -> World:
    """Pods have been read for a day; work of each team has had none for an hour, and gpu-2 refused three pods of blue."""
    Workload.objects.filter(name__endswith="-runs").delete()
    Pod.objects.update(first_seen_at=world.now - timedelta(days=1))
    for team in ("red", "blue"):
        workload(
            world, f"{team}-empty", team=team, state="admitted", owner_kind="Job", owner_uid=f"job-{team}",
            reserved_at=world.now - timedelta(hours=1), admitted_at=world.now - timedelta(hours=1),
        )  # fmt: skip
    for number in range(3):
        Pod.objects.create(
            cluster=world.east,
            uid=f"refused-{number}",
            namespace="blue-ns",
            name=f"blue-refused-{number}",
            node_name="gpu-2",
            phase="Failed",
            reason="UnexpectedAdmissionError",
            requests={GPU: "2"},
            devices=2,
            finished_at=world.now - timedelta(minutes=5),
            created_at=world.now - timedelta(minutes=5),
            first_seen_at=world.now - timedelta(minutes=5),
            observed_at=world.now - timedelta(minutes=5),
        )
    return world


def rest(client: Client, query: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = client.get(f"/api/v1/findings/{query}").json()["results"]
    return rows


def test_each_object_says_it_on_its_page(troubled: World) -> None:
    admin = troubled.client("admin")
    for path in ("/findings/?code=no_pods", "/workloads/uid-red-empty/", QUEUE.format("red")):
        assert SAYS in text(admin, path), path
    assert SAYS not in text(admin, "/workloads/uid-red-waits/")
    refuses = "Node gpu-2 of East refused 3 pods within an hour"
    assert refuses in text(admin, "/capacity/nodes/gpu-2/")
    assert refuses not in text(admin, "/capacity/nodes/gpu-1/")
    assert refuses in text(admin, "/")


def test_rest_has_the_same(troubled: World) -> None:
    admin = troubled.client("admin")
    (row,) = rest(admin, "?code=no_pods&kind=Workload&name=red-empty")
    assert row["key"] == "between/no_pods/east/ClusterQueue/red-cq/red"
    assert {"kind": "Workload", "namespace": "red-ns", "name": "red-empty"} in row["objects"]
    assert row["why"]
    assert row["advice"]
    (fault,) = rest(admin, "?code=node_refuses")
    assert "blue" not in str(fault)


@pytest.mark.parametrize(("mine", "other"), [("red", "blue"), ("blue", "red")])
def test_a_lead_is_told_of_the_own_work_only(troubled: World, mine: str, other: str) -> None:
    lead = troubled.client(f"{mine}_lead")
    assert SAYS in text(lead, f"/workloads/uid-{mine}-empty/")
    assert SAYS in text(lead, QUEUE.format(mine))
    assert lead.get(f"/workloads/uid-{other}-empty/").status_code == 404
    for path in ("/findings/", "/findings/?format=csv&table=findings", "/", "/capacity/nodes/gpu-2/"):
        body = text(lead, path)
        assert f"{other}-empty" not in body, path
        assert "refused 3 pods" not in body, path
    assert [row["code"] for row in rest(lead, "?area=work") if row["key"].startswith("between/")] == [
        "no_pods"
    ]
    assert SAYS not in text(troubled.client("guest"), "/findings/")


def test_a_node_that_came_without_its_devices_is_told_once(troubled: World) -> None:
    ready = {"status": "True", "since": (troubled.now - timedelta(minutes=11)).isoformat()}
    Node.objects.filter(name="gpu-1").update(capacity={}, allocatable={}, conditions={"Ready": ready})
    admin = troubled.client("admin")
    said = "1 node of East has been ready for more than 10 minutes and offers no devices: gpu-1. 8 devices are missing."
    assert said in text(admin, "/capacity/nodes/gpu-1/")
    rows = rest(admin, "?kind=node&name=gpu-1")
    assert [row["code"] for row in rows if row["severity"] == "bad"] == ["device_unregistered"]
    ready["since"] = (troubled.now - timedelta(minutes=9)).isoformat()
    Node.objects.filter(name="gpu-1").update(conditions={"Ready": ready})
    assert [row["code"] for row in rest(admin, "?kind=node&name=gpu-1") if row["severity"] == "bad"] == [
        "bucket"
    ]
