"""Every page as an HTTP answer: what it shows to whom, its filters, its CSV, and how many queries it takes."""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.api.tests.world import World, cluster_object, quarantine, workload
from apps.changes.models import ChangeRequest
from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, Node, Pod, SourceState, Workload

PAGES = {
    "overview": "/",
    "teams": "/teams/",
    "team": "/teams/red/",
    "capacity": "/capacity/",
    "node": "/capacity/nodes/gpu-1/",
    "topology": "/capacity/topology/",
    "stack": "/capacity/stack/",
    "queues": "/queues/",
    "queue": "/queues/east/ClusterQueue/red-cq/",
    "change_new": "/changes/new/?cluster=east",
    "change_form": "/changes/new/?cluster=east&object=ClusterQueue/red-cq",
    "findings": "/findings/",
    "admissions": "/admissions/",
    "admissions_over_time": "/admissions/over-time/",
    "wait_times": "/admissions/wait-times/",
    "blocked_work": "/admissions/work/",
    "unknown_texts": "/admissions/unknown/",
    "audit": "/audit/",
    "chargeback": "/chargeback/",
    "statement": "/chargeback/2025-01/red/",
    "charges": "/chargeback/2025-01/red/charges/",
    "held_work": "/chargeback/work/?cluster=east",
    "idle": "/chargeback/idle/",
    "workload": "/workloads/uid-red-waits/",
    "changes": "/changes/",
    "changes_calendar": "/changes/calendar/",
    "sources": "/sources/",
    "glossary": "/glossary/",
    "tokens": "/account/tokens/",
    "chart": "/charts/reasons/",
}

OF_THE_PORTAL = {PAGES[name] for name in ("audit", "chargeback", "statement", "charges")}


def text(client: Client, path: str, status: int = 200) -> str:
    answer: Any = client.get(path)
    assert answer.status_code == status, path
    body: bytes = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return body.decode()


def download(client: Client, path: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text(client, path).removeprefix("\ufeff"))))


@pytest.mark.parametrize("path", PAGES.values(), ids=PAGES)
@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_a_page_says_how_old_it_is_and_keeps_the_strict_policy(
    world: World, path: str, language: str
) -> None:
    client = world.client("admin")
    client.cookies["django_language"] = language
    body = text(client, path)
    assert re.search(r'<main[^>]* data-as-of="[^"]*"', body)
    assert not re.findall(r"<[a-z][^>]*\sstyle=", body)
    assert not re.findall(r"<[a-z][^>]*\son[a-z]+=", body)
    assert not re.findall(r"<script(?![^>]*\ssrc=)", body)
    assert f'<html lang="{"zh-Hans" if language == "zh-hans" else "en"}"' in body


@pytest.mark.parametrize("path", PAGES.values(), ids=PAGES)
def test_a_page_works_before_anything_was_collected(world: World, path: str) -> None:
    SourceState.objects.all().delete()
    body = text(world.client("admin"), path)
    own = path in OF_THE_PORTAL  # not of the clusters, and so of now or of the last computation
    assert bool(re.search(r'data-as-of=""', body)) is not own
    assert not (own and "Nothing has been read from the clusters yet" in body)


@pytest.mark.parametrize("path", ["/", "/teams/", "/capacity/", "/queues/", "/admissions/", "/sources/"])
def test_a_page_works_without_any_cluster(world: World, path: str) -> None:
    Cluster.objects.update(enabled=False)
    body = text(world.client("admin"), path)
    assert "No cluster is set up yet" in body


def test_unknown_capacity_is_not_zero(world: World) -> None:
    SourceState.objects.all().delete()
    Node.objects.all().delete()
    body = text(world.client("admin"), "/")
    assert "capacity is not known" in body
    assert not re.search(r'class="num total">\s*0', body)


def test_a_stale_source_is_named_with_its_age(world: World) -> None:
    SourceState.objects.filter(source="nodes").update(last_ok_at=world.now - timedelta(minutes=22))
    body = text(world.client("viewer"), "/")
    assert "1 of 5 sources needs a look" in body
    assert "Nodes: stale, 22 m" in body


def test_the_demo_badge_stands_on_every_page_of_a_demo_cluster(world: World) -> None:
    Cluster.objects.update(is_demo=True)
    assert all(
        "demo data" in text(world.client("admin"), path) for name, path in PAGES.items() if name != "glossary"
    )


class TestWhoSeesWhat:
    def test_a_lead_sees_only_the_own_teams_rows(self, world: World) -> None:
        for path in ("/", "/teams/", "/queues/", "/admissions/", "/queues/east/ClusterQueue/red-cq/"):
            body = text(world.client("red_lead"), path)
            assert "blue-waits" not in body, path
            assert "/teams/blue/" not in body, path
            assert "blue-cq" not in body, path

    def test_a_filter_does_not_widen_what_is_seen(self, world: World) -> None:
        client = world.client("red_lead")
        assert client.get("/admissions/?team=blue").status_code == 404
        assert "blue-waits" not in text(client, "/admissions/?queue=blue-cq")
        assert client.get("/charts/reasons.json?team=blue").status_code == 404

    def test_work_of_nobody_is_for_those_who_see_everything(self, world: World) -> None:
        assert "nobodys" in text(world.client("admin"), "/admissions/?team=-")
        assert world.client("red_lead").get("/admissions/?team=-").status_code == 404

    def test_pods_of_other_teams_are_only_counted(self, world: World) -> None:
        body = text(world.client("red_lead"), "/capacity/nodes/gpu-1/")
        assert "red-pod" in body
        assert "blue-pod" not in body
        assert "1 pod of other teams holds 2 × GPU here" in body

    def test_raw_errors_and_names_are_for_platform_admins(self, world: World) -> None:
        quarantine(world)
        SourceState.objects.filter(source="pods").update(
            last_outcome="failed", error_kind="unreachable", error="dial tcp 10.1.2.3:6443", failures=3
        )
        shown, hidden = text(world.client("admin"), "/sources/"), text(world.client("red_lead"), "/sources/")
        assert "10.1.2.3" in shown
        assert "red-ns/broken" in shown
        assert "10.1.2.3" not in hidden
        assert "red-ns/broken" not in hidden
        assert "The address does not accept connections." in hidden
        assert "3 failures in a row" in hidden
        for name in ("sources", "quarantine", "runs"):
            assert "10.1.2.3" not in text(world.client("red_lead"), f"/sources/?format=csv&table={name}")


class TestNumbersLeadToRows:
    def test_the_overview_leads_to_the_nodes_behind_a_gap(self, world: World) -> None:
        Node.objects.filter(name="gpu-2").update(unschedulable=True)
        client = world.client("admin")
        assert 'href="/capacity/?bucket=cordoned#nodes"' in text(client, "/")
        rows = download(client, "/capacity/?bucket=cordoned&format=csv&table=nodes")
        assert [row[0] for row in rows[1:]] == ["gpu-2"]

    def test_a_reason_leads_to_its_workloads(self, world: World) -> None:
        body = text(world.client("admin"), "/admissions/")
        assert "/admissions/?reason=Pending" in body

    def test_the_counts_add_up_to_the_list(self, world: World) -> None:
        for query in ("", "?by=cause", "?team=red", "?q=blue"):
            body = text(world.client("admin"), f"/admissions/{query}")
            total = int(re.search(r"(\d+) workloads? waits? now", body)[1])  # type: ignore[index]
            assert f"{total} row" in body


class TestTables:
    def test_order_and_page_come_from_the_url(self, world: World) -> None:
        client = world.client("admin")
        for number in range(60):
            workload(world, f"more-{number:02}", queued_at=world.now - timedelta(minutes=number))
        first = text(client, "/admissions/?sort=-name")
        second = text(client, "/admissions/?sort=-name&page=2")
        assert first.index("nobodys") < first.index("more-59")
        assert 'aria-sort="descending"' in first
        assert "more-00" in second
        assert "more-59" not in second
        assert "Page 2 of 2" in second

    @pytest.mark.parametrize(
        "query", ["?sort=nothing", "?page=999", "?page=x", "?sort=-", "?n-sort=x&n-page=-1"]
    )
    def test_a_bad_order_or_page_shows_the_table_anyway(self, world: World, query: str) -> None:
        for path in ("/admissions/", "/capacity/", "/teams/red/", "/sources/"):
            text(world.client("admin"), path + query)

    def test_the_csv_has_the_filters_of_the_page_and_every_row(self, world: World) -> None:
        for number in range(60):
            workload(world, f"more-{number:02}")
        rows = download(world.client("admin"), "/admissions/?team=red&format=csv")
        assert len(rows) == 1 + 61
        head, first = rows[0], rows[1]
        assert first[head.index("Reason")] == "Pending"
        assert "4 more needed" in first[head.index("Message")]
        assert first[head.index("Needs")] == "nvidia.com/gpu=4"

    @pytest.mark.parametrize(
        "path",
        [
            "/?format=csv&table=teams",
            "/teams/?format=csv",
            "/teams/red/?format=csv&table=quota",
            "/teams/red/?format=csv&table=waiting",
            "/teams/red/?format=csv&table=running",
            "/teams/red/?format=csv&table=finished",
            "/capacity/?format=csv&table=pools",
            "/capacity/?format=csv&table=nodes",
            "/capacity/topology/?format=csv&table=fits",
            "/capacity/topology/?format=csv&table=domains",
            "/capacity/topology/?format=csv&table=nodes",
            "/capacity/nodes/gpu-1/?format=csv&table=pods",
            "/capacity/nodes/gpu-1/?format=csv&table=cards",
            "/capacity/nodes/gpu-1/?format=csv&table=objects",
            "/capacity/stack/?format=csv&table=versions",
            "/capacity/stack/?format=csv&table=nodes",
            "/charts/capacity-trend/?format=csv",
            "/queues/?format=csv",
            "/queues/east/ClusterQueue/red-cq/?format=csv&table=quota",
            "/queues/east/ClusterQueue/red-cq/?format=csv&table=waiting",
            "/sources/?format=csv&table=sources",
            "/sources/?format=csv&table=runs",
            "/charts/reasons/?format=csv",
        ],
    )
    def test_every_table_downloads(self, world: World, path: str) -> None:
        rows = download(world.client("admin"), path)
        assert len(rows[0]) > 1
        assert all(len(row) == len(rows[0]) for row in rows)
        assert not any("<" in cell for row in rows for cell in row)

    def test_quota_numbers_are_raw_in_the_csv(self, world: World) -> None:
        rows = download(world.client("red_lead"), "/queues/?format=csv")
        lines = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
        line = next(line for line in lines if line["Kind"] == "ClusterQueue")
        assert (line["Queue"], line["Reserved"], line["Nominal"], line["Ceiling"]) == (
            "red-cq",
            "4",
            "8",
            "16",
        )


class TestFrame:
    def test_the_theme_is_a_cookie_that_the_server_reads(self, world: World) -> None:
        client = world.client("admin")
        answer = client.post("/preferences/", {"theme": "dark", "next": "/teams/?sort=name"})
        assert answer.headers["Location"] == "/teams/?sort=name"
        assert 'data-bs-theme="dark"' in text(client, "/teams/")
        client.post("/preferences/", {"theme": "pink"})
        assert 'data-bs-theme="dark"' in text(client, "/teams/")

    def test_the_language_is_a_cookie(self, world: World) -> None:
        client = world.client("admin")
        client.post("/preferences/", {"language": "zh-hans"})
        assert '<html lang="zh-Hans"' in text(client, "/teams/")

    @pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "javascript:alert(1)", ""])
    def test_preferences_never_lead_elsewhere(self, world: World, target: str) -> None:
        answer = world.client("admin").post("/preferences/", {"theme": "dark", "next": target})
        assert answer.headers["Location"] == "/"

    def test_preferences_work_before_signing_in(self, world: World) -> None:
        assert world.client("anonymous").post("/preferences/", {"theme": "dark"}).status_code == 302

    def test_the_cluster_stays_in_the_address(self, world: World) -> None:
        Cluster.objects.update(enabled=True)
        body = text(world.client("admin"), "/capacity/?cluster=east&bucket=cordoned")
        assert 'href="/teams/?cluster=east"' in body
        assert '<input type="hidden" name="bucket" value="cordoned">' in body
        assert world.client("admin").get("/capacity/?cluster=nowhere").status_code == 404

    def test_signing_out_takes_a_post(self, world: World) -> None:
        client = world.client("admin")
        assert client.get("/logout/").status_code == 405
        assert client.post("/logout/").status_code == 302
        assert client.get("/").status_code == 302

    def test_a_wrong_password_says_so_without_saying_which(self, world: World) -> None:
        answer = world.client("anonymous").post("/login/", {"username": "admin", "password": "wrong"})
        assert answer.status_code == 200
        assert 'role="alert"' in answer.content.decode()

    def test_an_unknown_page_is_ours(self, world: World) -> None:
        body = text(world.client("admin"), "/nothing/here/", status=404)
        assert "There is no such page, or it is not yours to see." in body

    def test_names_from_a_cluster_are_escaped(self, world: World) -> None:
        workload(world, "odd", message="<script>alert(1)</script>", reason="<b>")
        Workload.objects.filter(name="odd").update(name="<i>odd</i>")
        for path in ("/admissions/", "/teams/red/", "/workloads/uid-odd/"):
            body = text(world.client("admin"), path)
            assert "<script>alert" not in body
            assert "<i>odd" not in body


def _more(world: World, number: int) -> None:
    workload(world, f"extra-{number}")
    workload(world, f"extra-run-{number}", state="admitted")
    workload(world, f"extra-done-{number}", state="finished", finished_at=world.now, cluster_queue="red-cq")
    cluster_object(
        world, "LocalQueue", f"lq-{number}", namespace="red-ns", spec={"cluster_queue": "red-cq"}, status={}
    )
    request = ChangeRequest.objects.create(
        cluster=world.east,
        team=world.red,
        state="applied",
        edits=[{"kind": "ClusterQueue", "name": "red-cq", "set": {"stop_policy": "Hold"}}],
        reason="maintenance",
        ends_at=world.now + timedelta(days=1),
        created_by=world.users["red_lead"],
        created_at=world.now,
    )
    before, after = {"stopPolicy": "None"}, {"stopPolicy": "Hold"}
    request.steps.create(position=0, kind="ClusterQueue", name="red-cq", body=[], before=before, after=after)
    source = ClusterObject.objects.get(kind="ClusterQueue", name="red-cq")
    cluster_object(world, "ClusterQueue", f"cq-{number}", spec=source.spec, status=source.status)
    for model, name in ((Node, f"gpu-x{number}"), (Pod, f"pod-x{number}")):
        row = model.objects.order_by("pk")[0]
        row.pk, row.uid, row.name = None, name, name
        row.save()


FOR_ADMINS = {"/admissions/unknown/", "/audit/"}
# The overview asks every layer at once, a node's page its cards, their telemetry and its software. Where findings stand,
# 14 are those of what goes wrong between layers, which a web process asks once in minutes; here it remembers nothing.
MOST_QUERIES = {
    "/": 105,
    "/capacity/nodes/gpu-1/": 65,
    "/queues/east/ClusterQueue/red-cq/": 80,
    "/findings/": 70,
    "/workloads/uid-red-waits/": 60,
}


@pytest.mark.parametrize("path", PAGES.values(), ids=PAGES)
@pytest.mark.parametrize("role", ["red_lead", "admin"])
def test_a_page_takes_as_many_queries_for_many_rows_as_for_few(world: World, path: str, role: str) -> None:
    """The pin: the cost of a page does not grow with its rows, and stays small."""
    client = world.client(role)
    if role == "red_lead" and path in FOR_ADMINS:
        text(client, path, status=404)
        return
    _more(world, 0)
    text(client, path)
    with CaptureQueriesContext(connection) as few:
        text(client, path)
    for number in range(1, 8):
        _more(world, number)
    with CaptureQueriesContext(connection) as many:
        text(client, path)
    assert len(many) == len(few), path
    assert len(many) <= MOST_QUERIES.get(path, 45), path
