"""A page of capacity and its REST twin are as old as the same sources: both name all that their numbers rest on."""

from __future__ import annotations

import pytest

from apps.api.tests.world import World
from apps.observations.models import SourceState

CAPACITY = {"nodes", "pods", "devices", "kueue", "volcano"}
TWINS = [
    ("/capacity/", "/api/v1/capacity/", CAPACITY),
    ("/capacity/topology/", "/api/v1/topology/", CAPACITY),
    ("/capacity/topology/", "/api/v1/topology/nodes/", CAPACITY),
    ("/capacity/nodes/gpu-1/", "/api/v1/nodes/east/gpu-1/", {"nodes", "pods", "devices", "dcgm"}),
    ("/capacity/nodes/gpu-1/", "/api/v1/devices/", {"nodes", "pods", "devices", "dcgm"}),
    ("/capacity/stack/", "/api/v1/stack/", {"nodes", "devices"}),
]


@pytest.mark.parametrize(("page", "route", "sources"), TWINS)
def test_page_and_rest_name_the_sources_of_their_numbers(
    world: World, page: str, route: str, sources: set[str]
) -> None:
    client = world.client("admin")
    assert {found["source"] for found in client.get(route).json()["sources"]} == sources
    shown = client.get(page).context["page"].as_of.statuses
    assert {status.source for status in shown} == sources


@pytest.mark.parametrize("page", ["/", "/capacity/", "/capacity/topology/", "/capacity/nodes/gpu-1/"])
def test_device_objects_that_failed_make_capacity_doubtful(world: World, page: str) -> None:
    """Cards of DRA drivers come from them alone."""
    SourceState.objects.filter(source="devices").update(last_outcome="failed", last_ok_at=None)
    statuses = {status.source: status for status in world.client("admin").get(page).context["page"].troubled}
    assert "devices" in statuses
