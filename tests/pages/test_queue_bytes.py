"""What `/queues/` transfers for a thousand queues: 8 flavors × 3 resources each, in three shapes of tree.

The bytes are those of the answers as gzip packs them: they do not depend on the machine.
"""

from __future__ import annotations

import gzip
import re

from django.test import Client

from apps.api.tests.world import GPU, World
from apps.observations.models import ClusterObject

FLAVORS = [f"flavor-{n}" for n in range(8)]
RESOURCES = {GPU: "8", "cpu": "64", "memory": str(512 * 2**30)}
FIRST_SCREEN, EVERYTHING = 40_000, 150_000


def resource_groups(number: int) -> list[dict[str, object]]:
    flavors = [
        {
            "name": flavor,
            "resources": [
                {
                    "name": name,
                    "nominal": str(int(amount) * (1 + (number + place) % 7)),
                    "borrowing_limit": None if number % 3 else "4",
                    "lending_limit": None,
                }
                for name, amount in RESOURCES.items()
            ],
        }
        for place, flavor in enumerate(FLAVORS)
    ]
    return [{"covered": list(RESOURCES), "flavors": flavors}]


def cohort_of(shape: str, number: int) -> str:
    return {"deep": f"team-{number // 10:03d}", "flat": "everything", "lone": ""}[shape]


def plant(world: World, shape: str, queues: int = 1000) -> None:
    ClusterObject.objects.filter(kind__in=("ClusterQueue", "LocalQueue")).delete()
    common = {"cluster": world.east, "first_seen_at": world.now, "observed_at": world.now}
    active = {"conditions": {"Active": {"status": "True", "reason": "Ready", "message": "", "since": None}}}
    rows = [
        ClusterObject(
            **common,
            uid=f"cq-{n}",
            kind="ClusterQueue",
            name=f"research-queue-{n:04d}",
            spec={
                "cohort": cohort_of(shape, n),
                "resource_groups": resource_groups(n),
                "stop_policy": "None",
            },
            status=active,
        )
        for n in range(queues)
    ]
    if shape == "deep":
        rows += [
            ClusterObject(
                **common,
                uid=f"cohort-{n}",
                kind="Cohort",
                name=f"team-{n:03d}",
                spec={"parent": f"department-{n // 10}", "resource_groups": []},
            )
            for n in range(queues // 10)
        ]
    ClusterObject.objects.bulk_create(rows)


def packed(client: Client, path: str) -> tuple[str, int]:
    answer = client.get(path, headers={"accept-encoding": "gzip"})
    assert answer.status_code == 200, path
    assert answer.headers["Content-Encoding"] == "gzip"
    return gzip.decompress(answer.content).decode(), len(answer.content)


def closed(body: str) -> list[str]:
    return re.findall(r'aria-expanded="false"[^>]*data-key="([^"]+)"', body)


def children(client: Client, keys: list[str]) -> tuple[list[str], int]:
    """(what can be opened below, bytes) of the parts below these nodes."""
    left, total = [], 0
    for key in keys:
        part, size = packed(client, f"/queues/?part={key}")
        total += size
        left += closed(part)
    return left, total


def test_a_deep_tree_fits_the_wire(world: World) -> None:
    """Ten departments of ten teams of ten queues, all of the same shape: one department is opened to the bottom."""
    plant(world, "deep")
    client = world.client("admin")
    body, first = packed(client, "/queues/")
    assert first <= FIRST_SCREEN
    departments = closed(body)
    assert len(departments) == 10
    teams, below = children(client, departments[:1])
    assert len(teams) == 10
    none, queues = children(client, teams)
    assert none == []
    assert first + 10 * (below + queues) <= EVERYTHING


def test_one_cohort_of_a_thousand_queues_fits_the_wire(world: World) -> None:
    plant(world, "flat")
    client = world.client("admin")
    body, first = packed(client, "/queues/")
    assert first <= FIRST_SCREEN
    part, size = packed(client, f"/queues/?part={closed(body)[0]}")
    assert len(set(re.findall(r"research-queue-\d{4}(?=<)", part))) == 1000
    assert first + size <= EVERYTHING


def test_a_thousand_queues_without_cohort_fit_the_wire(world: World) -> None:
    """They come in pages of sixty: seventeen of the same shape."""
    plant(world, "lone")
    client = world.client("admin")
    _body, first = packed(client, "/queues/")
    assert first <= FIRST_SCREEN
    last, size = packed(client, "/queues/?page=17")
    assert 'rel="next"' not in last
    assert len(set(re.findall(r"research-queue-\d{4}(?=<)", last))) == 1000 - 16 * 60
    assert 16 * first + size <= EVERYTHING


def test_a_filtered_list_fits_the_wire(world: World) -> None:
    plant(world, "deep")
    _body, size = packed(world.client("admin"), "/queues/?q=queue&lines=flavors")
    assert size <= FIRST_SCREEN
