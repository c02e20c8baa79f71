"""A fleet in which everything that could name a team's work does: no reader of other teams is told, on no route.

Red and blue have the same of everything; whoever sees every team is told of both, which proves that it is there.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from apps.api.tests.world import GPU, World, change_requests, cluster_object, quarantine
from apps.changes.models import ChangeRequest
from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, DeviceSample, Node, Pod
from apps.observations.retention import keep_observation_partitions
from tests.pages.objects import device, resource_claim, resource_slice

from .test_roles import ROUTES

DOWNLOADS = [
    *(f"/capacity/?format=csv&table={table}" for table in ("pools", "nodes")),
    *(f"/capacity/nodes/{node}/?format=csv&table={table}" for node in ("gpu-1", "gpu-2")
      for table in ("cards", "pods", "objects")),
    *(f"/capacity/topology/?format=csv&table={table}" for table in ("fits", "domains", "nodes")),
    *(f"/capacity/stack/?format=csv&table={table}" for table in ("versions", "nodes")),
    "/sources/?format=csv&table=sources",
]  # fmt: skip
PATHS = [path for cases in ROUTES.values() for path, _expected in cases] + [
    "/capacity/nodes/gpu-2/",
    "/api/v1/nodes/east/gpu-2/",
    "/?all=1",
    *DOWNLOADS,
]


def work_of(world: World, team: str, number: int) -> None:
    """What a team has on the fleet: a card that its exporter names, one that it shares, claims that nobody uses or
    that lost their device, a job over spot and other nodes, cohorts in a circle, too much quota, odd resources."""
    namespace = f"{team}-ns"
    named: list[dict[str, Any]] = [
        {"namespace": namespace, "pod": f"{team}-pod"},
        {"shares": [{"namespace": namespace, "pod": f"{team}-pod", "ratio": "0.3"}]},
    ]
    for place, fields in enumerate(named):
        DeviceSample.objects.create(
            cluster=world.east,
            sampled_at=world.now,
            device=f"GPU-{number}-{place}",
            node_name="gpu-1",
            vendor="nvidia",
            model="NVIDIA H100 80GB HBM3",
            utilisation_ratio=Decimal("0.5"),
            utilisation_source="sm_active",
            **fields,
        )
    for name, found, pods in (
        ("left", f"dev-{team}", ()),
        ("orphan", "gone", (f"{team}-claimer",)),
        ("shared", "both", (f"{team}-claimer",)),
    ):
        resource_claim(world, f"{team}-{name}", namespace=namespace, node="gpu-2", device=found, pods=pods)
    for node in ("gpu-1", "gpu-2"):
        Pod.objects.create(
            cluster=world.east, uid=f"{team}-train-{node}", namespace=namespace, name=f"{team}-train-{node}",
            node_name=node, phase="Running", queue_name=f"{team}-lq", requests={GPU: "4"}, devices=Decimal(4),
            owner_kind="Job", owner_name=f"{team}-train", bound_at=world.now, created_at=world.now,
            first_seen_at=world.now, observed_at=world.now,
        )  # fmt: skip
    for one, other in (("a", "b"), ("b", "a")):
        spec = {"parent": f"{team}-{other}", "resource_groups": []}
        cluster_object(world, "Cohort", f"{team}-{one}", spec=spec, status={})
    shares: dict[str, Any] = {
        "capability": {"acme.example/npu": "2"},
        "deserved": {GPU: "90"},
        "guarantee": {},
    }
    cluster_object(world, "VolcanoQueue", f"{team}-vq", spec={**shares, "parent": ""}, status={})
    queue = ClusterObject.objects.get(kind="ClusterQueue", name=f"{team}-cq")
    queue.spec["cohort"] = f"{team}-a"
    queue.spec["resource_groups"][0]["flavors"][0]["resources"][0]["nominal"] = "24"
    queue.save()


@pytest.fixture
def busy(world: World) -> World:
    make_busy(world)
    return world


def make_busy(world: World) -> None:
    keep_observation_partitions(now=world.now)
    Cluster.objects.update(prometheus_url="http://prometheus.example")
    spot = Node.objects.get(name="gpu-2")
    spot.labels = {**spot.labels, "karpenter.sh/capacity-type": "spot"}
    spot.save()
    devices = [device("both", uuid="GPU-both"), *(device(f"dev-{team}") for team in ("red", "blue"))]
    resource_slice(world, "slice", node="gpu-2", devices=devices)
    for number, team in enumerate(("red", "blue")):
        work_of(world, team, number)
    change_requests(world)


def answer(world: World, role: str, path: str) -> str:
    """The body where the role may see it; of a page only what is its own."""
    names = ("red_change", "blue_change", "platform_change")
    numbers = ChangeRequest.objects.order_by("pk").values_list("pk", flat=True)
    response = world.client(role).get(path.format(quarantine=1, **dict(zip(names, numbers, strict=True))))
    if response.status_code != 200:
        return ""
    content = b"".join(response) if response.streaming else response.content
    text: str = content.decode()
    return text[text.index("<main") :] if "<main" in text else text


@pytest.mark.parametrize(
    ("role", "hidden"),
    [
        ("guest", ("red-", "blue-", "nobodys")),
        ("viewer", ("blue-", "nobodys")),
        ("red_lead", ("blue-", "nobodys")),
        ("blue_lead", ("red-", "nobodys")),
    ],
)
def test_no_route_names_work_of_another_team(busy: World, role: str, hidden: tuple[str, ...]) -> None:
    quarantine(busy)
    told = [
        (path, text[max(0, at - 80) : at + 40])
        for path in PATHS
        for text in [answer(busy, role, path)]
        for word in hidden
        if (at := text.find(word)) >= 0
    ]
    assert told == []


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/api/v1/devices/", ("blue-ns", "blue-pod", "0.3")),
        ("/api/v1/capacity/", ("blue-a", "blue-cq", "blue-vq", "blue-left", "blue-orphan")),
        ("/api/v1/topology/", ("blue-train",)),
        ("/api/v1/findings/", ("blue-a", "blue-left", "blue-train")),
        ("/capacity/", ("blue-a", "blue-cq", "blue-vq", "blue-left", "blue-orphan")),
        ("/capacity/topology/", ("blue-train",)),
        ("/capacity/nodes/gpu-1/", ("blue-pod", "blue-train-gpu-1")),
        ("/capacity/nodes/gpu-2/", ("blue-shared", "blue-claimer")),
        ("/?all=1", ("blue-a", "blue-left", "blue-train")),
    ],
)
def test_who_sees_every_team_is_told(busy: World, path: str, words: tuple[str, ...]) -> None:
    text = answer(busy, "admin", path)
    assert [word for word in words if word not in text] == []


def test_every_download_is_one(busy: World) -> None:
    pages = [
        path
        for path in DOWNLOADS
        if "<main" in answer(busy, "admin", path) or not answer(busy, "admin", path)
    ]
    assert pages == []
