"""Cards over REST: the world's node gpu-1, by hand."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

from apps.api.tests.world import World
from apps.observations.models import DeviceSample, Node, Pod


def get(world: World, role: str, query: str = "") -> dict[str, Any]:
    response = world.client(role).get(f"/api/v1/devices/{query}")
    assert response.status_code == 200, response.content[:1000]
    body: dict[str, Any] = response.json()
    return body


def sample(world: World, device: str, pod: Pod | None = None, **more: Any) -> None:
    named = {"namespace": pod.namespace, "pod": pod.name, "attribution": "whole"} if pod else {}
    DeviceSample.objects.create(
        cluster=world.east,
        sampled_at=world.now - timedelta(seconds=30),
        device=device,
        vendor="nvidia",
        utilisation_ratio=Decimal("0.2500"),
        **{"node_name": "gpu-1", **named, **more},
    )


def pods(world: World) -> list[Pod]:
    return list(
        Pod.objects.filter(cluster=world.east, gone_at=None, node_name="gpu-1", devices__gt=0).order_by(
            "name"
        )
    )


def test_as_many_rows_as_the_nodes_have_cards(world: World) -> None:
    nodes = world.client("admin").get("/api/v1/nodes/").json()["results"]
    rows = get(world, "admin")["results"]
    assert len(rows) == sum(node["physical_devices"] for node in nodes)
    for node in nodes:
        for bucket, count in node["device_buckets"].items():
            mine = [row for row in rows if (row["node"], row["bucket"]) == (node["name"], bucket)]
            assert len(mine) == count


def test_pages_go_on_where_the_last_one_ended(world: World) -> None:
    for n in range(3):
        Node.objects.create(
            cluster=world.east,
            uid=f"more-{n}",
            name=f"more-{n}",
            capacity={"nvidia.com/gpu": "2"},
            allocatable={"nvidia.com/gpu": "2"},
            conditions={"Ready": {"status": "True"}},
            first_seen_at=world.now,
            observed_at=world.now,
        )
    everything = [(row["node"], row["position"]) for row in get(world, "admin")["results"]]
    seen, url = [], "?page_size=3"
    while url:
        body = get(world, "admin", url)
        seen += [(row["node"], row["position"]) for row in body["results"]]
        url = (body["next"] or "").partition("/devices/")[2]
    assert seen == everything
    assert len(seen) == len(set(seen))


def test_whose_pod_is_on_a_card_is_for_its_team(world: World) -> None:
    holding = pods(world)[0]
    sample(world, "UUID-A", holding)
    (row,) = get(world, "admin", "?q=uuid-a")["results"]
    assert row["utilisation_ratio"] == "0.25"
    (holder,) = row["holders"]
    assert (holder["pod"], holder["how"]) == (holding.name, "telemetry")
    owner = holder["team"]
    other = "blue_lead" if owner == "red" else "red_lead"
    (hidden,) = get(world, other, "?q=uuid-a")["results"]
    assert hidden["holders"] == [{"namespace": "", "pod": "", "team": None, "how": "telemetry"}]
    assert hidden["utilisation_ratio"] == "0.25"


def test_filters(world: World) -> None:
    assert get(world, "admin", "?node=none")["results"] == []
    assert get(world, "admin", "?idle=yes")["results"] == []
    usable = get(world, "admin", "?bucket=usable")["results"]
    assert {row["bucket"] for row in usable} == {""}
    wrong = world.client("admin").get("/api/v1/devices/?bucket=none")
    assert (wrong.status_code, wrong.json()["errors"][0]["parameter"]) == (400, "bucket")


def with_prometheus(world: World) -> None:
    world.east.prometheus_url = "http://prometheus"
    world.east.save()


def test_coverage_stands_with_telemetry(world: World) -> None:
    with_prometheus(world)
    sample(world, "UUID-A")
    sample(world, "UUID-B", node_name="elsewhere")
    rows = world.client("guest").get("/api/v1/sources/").json()["results"]
    found = {row["source"]: row["coverage"] for row in rows if row["cluster"] == "east"}
    cards = len(get(world, "admin")["results"])
    said = found.pop("dcgm")
    assert (said["counted_cards"], said["seen_cards"], said["matched_cards"]) == (cards, 2, 1)
    assert (said["unseen_cards"], said["beyond_cards"], said["unplaced_cards"]) == (cards - 1, 1, 1)
    assert set(found.values()) == {None}


def test_coverage_is_on_the_page_and_in_its_csv(world: World) -> None:
    with_prometheus(world)
    sample(world, "UUID-A")
    page = world.client("admin").get("/sources/").content.decode()
    assert "Telemetry against the API" in page
    answer: Any = world.client("admin").get("/sources/?format=csv&table=coverage")
    head, line = b"".join(answer.streaming_content).decode().strip().splitlines()
    assert head.count(",") == line.count(",")
    assert line.startswith("East,")
