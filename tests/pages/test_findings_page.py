"""The page of findings, its filters, CSV and REST, for those who see all and for two teams."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.api.tests.world import World
from apps.findings.services import note_findings
from apps.fleet.models import TeamBinding
from apps.observations.models import ClusterObject

from .test_pages import download, text


@pytest.fixture
def troubled(world: World) -> World:
    """A LocalQueue of each team leads nowhere."""
    for team in ("red", "blue"):
        ClusterObject.objects.filter(kind="LocalQueue", name=f"{team}-lq").update(
            spec={"cluster_queue": f"{team}-gone"}
        )
        TeamBinding.objects.create(
            team=getattr(world, team),
            cluster=world.east,
            kind=TeamBinding.Kind.LOCAL_QUEUE,
            namespace=f"{team}-ns",
            name=f"{team}-lq",
            valid_from=world.now - timedelta(days=1),
        )
    return world


def results(world: World, role: str, query: str = "") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = world.client(role).get(f"/api/v1/findings/{query}").json()["results"]
    return rows


def test_the_page_says_what_why_and_what_to_do(troubled: World) -> None:
    body = text(troubled.client("admin"), "/findings/?code=local_queue_nowhere")
    for team in ("red", "blue"):
        assert (
            f"Local queue {team}-lq in namespace {team}-ns of East leads to a queue that does not exist"
            in body
        )
    assert "Work sent there is never looked at." in body
    assert "Create the queue, or make a new local queue" in body
    assert "/queues/east/LocalQueue/red-lq/?namespace=red-ns" in body


def test_each_team_is_told_of_its_own(troubled: World) -> None:
    for mine, other in (("red", "blue"), ("blue", "red")):
        client = troubled.client(f"{mine}_lead")
        for path in ("/findings/", "/", "/findings/?format=csv&table=findings"):
            body = text(client, path)
            assert f"{other}-lq" not in body, path
            assert f"{other}-gone" not in body, path
        assert f"{mine}-lq" in text(client, "/findings/")
    assert "-lq" not in text(troubled.client("guest"), "/findings/")


def test_filters_of_rest(troubled: World) -> None:
    code = "?code=local_queue_nowhere"
    assert [row["objects"] for row in results(troubled, "admin", f"{code}&team=red")] == [
        [{"kind": "LocalQueue", "namespace": "red-ns", "name": "red-lq"}]
    ]
    assert len(results(troubled, "admin", code)) == 2
    assert len(results(troubled, "admin", f"{code}&kind=LocalQueue&name=blue-lq")) == 1
    assert results(troubled, "admin", f"{code}&kind=ClusterQueue") == []
    assert results(troubled, "admin", f"{code}&severity=bad") == []
    assert len(results(troubled, "admin", f"{code}&severity=warn&q=RED-LQ")) == 1
    assert len(results(troubled, "admin", f"{code}&cluster=east")) == 2
    assert troubled.client("admin").get("/api/v1/findings/?cluster=none").status_code == 400
    assert troubled.client("admin").get("/api/v1/findings/?severity=loud").status_code == 400
    assert troubled.client("red_lead").get("/api/v1/findings/?team=blue").status_code == 400


def test_times_come_once_it_was_noted(troubled: World) -> None:
    query = "?code=local_queue_nowhere&team=red"
    (row,) = results(troubled, "admin", query)
    assert (row["first_seen"], row["last_seen"]) == (None, None)
    note_findings(now=troubled.now)
    (row,) = results(troubled, "red_lead", query)
    assert row["first_seen"] == row["last_seen"]
    assert row["first_seen"]
    assert row["why"]
    assert row["advice"]


def test_the_csv_has_what_the_page_and_rest_have(troubled: World) -> None:
    head, *lines = download(
        troubled.client("admin"), "/findings/?code=local_queue_nowhere&format=csv&table=findings"
    )
    rows = [dict(zip(head, line, strict=True)) for line in lines]
    said = results(troubled, "admin", "?code=local_queue_nowhere")
    assert len(rows) == 2
    assert sorted(row["Key"] for row in rows) == sorted(row["key"] for row in said)
    assert {row["Severity"] for row in rows} == {"warn"}
