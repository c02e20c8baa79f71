"""What was never read reads "not collected" on pages, is empty in CSV and null in REST: never 0."""

from __future__ import annotations

import re

import pytest

from apps.api.tests.world import World
from apps.observations.models import Pod, Presence, SourceState

from .test_pages import download, text

ABSENT = '<span class="v v-absent">not collected</span>'


def words(page: str) -> str:
    """The page's text, tags left out, in one line."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


@pytest.fixture
def without_pods(world: World) -> World:
    SourceState.objects.filter(source="pods").delete()
    Pod.objects.all().delete()
    return world


@pytest.mark.parametrize("path", ["/", "/capacity/"])
def test_the_ladder_says_that_nobody_knows_what_is_held(without_pods: World, path: str) -> None:
    page = text(without_pods.client("admin"), path)
    assert f"Held by pods: {ABSENT}" in page
    assert "0 held by pods" not in words(page)
    assert "8 reserved as quota" in words(page)


def test_pool_and_node_tables_say_not_collected(without_pods: World) -> None:
    client = without_pods.client("admin")
    assert "0 held, " not in text(client, "/capacity/")
    for table, held in (("pools", "Held"), ("nodes", "Held")):
        head, *rows = download(client, f"/capacity/?format=csv&table={table}")
        assert rows
        assert {(row[head.index(held)], row[head.index("Free")]) for row in rows} == {("", "")}
    assert "No node matches." in text(client, "/capacity/?state=free")


def test_a_node_says_not_collected(without_pods: World) -> None:
    page = text(without_pods.client("admin"), "/capacity/nodes/gpu-1/")
    assert "8 cards, 8 of them usable. Pods were never read" in words(page).replace("  ", " ")
    assert page.count(ABSENT) >= 2
    assert "Pods of this cluster were never read: what runs here is not known." in page


def test_rest_says_null(without_pods: World) -> None:
    client = without_pods.client("admin")
    capacity = client.get("/api/v1/capacity/").json()
    for row in (
        *capacity["results"],
        *capacity["results"][0]["units"],
        *client.get("/api/v1/nodes/").json()["results"],
    ):
        assert (row["held_bound"], row["free"]) == (None, None)
    totals = capacity["totals"]
    assert (totals["held_bound_gpu_equivalents"], totals["free_gpu_equivalents"]) == (None, None)
    assert (totals["without_pods"], totals["without_quota"]) == (["east"], [])
    assert client.get("/api/v1/nodes/east/gpu-1/").json()["result"]["pods_of_others"] is None


def test_quota_that_was_never_read_reserves_nothing_known(world: World) -> None:
    SourceState.objects.filter(source="kueue").delete()
    client = world.client("admin")
    assert f"Reserved as quota: {ABSENT}" in text(client, "/capacity/")
    body = client.get("/api/v1/capacity/").json()
    assert [pool["held_reserved"] for pool in body["results"]] == [None]
    assert body["totals"]["without_quota"] == ["east"]
    head, *rows = download(client, "/capacity/?format=csv&table=pools")
    assert [row[head.index("Reserved")] for row in rows] == [""]


def test_volcano_that_is_not_installed_takes_nothing_away(world: World) -> None:
    SourceState.objects.filter(source="volcano").update(presence=Presence.ABSENT)
    body = world.client("admin").get("/api/v1/capacity/").json()
    assert [pool["held_reserved"] for pool in body["results"]] == ["8"]
    assert body["totals"]["without_quota"] == []
