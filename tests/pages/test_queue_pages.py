"""`/queues/` and the pages below it: sums that add up, filters, what who may see, every fact on page and in REST."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from apps.api.tests.world import GPU, World, cluster_object, queue, workload
from apps.fleet.models import Cluster, TeamBinding
from apps.observations.models import ClusterObject, Event
from apps.quotas.filters import flat
from apps.quotas.history import note_quotas
from apps.quotas.selectors import queue_forest

from .test_pages import download, text
from .test_same_lists import answered, listed


def cells(body: str) -> list[list[str]]:
    """The texts of the tree's rows."""
    rows = re.findall(r"<tr(?: class=\"[^\"]*\")?>(.*?)</tr>", body, re.S)
    return [
        [
            re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", cell)).strip()
            for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)
        ]
        for row in rows
    ]


def quota(nominal: str, **limits: str | None) -> dict[str, Any]:
    return {"name": GPU, "nominal": nominal, "borrowing_limit": None, "lending_limit": None, **limits}


def groups(nominal: str) -> list[dict[str, Any]]:
    return [{"covered": [GPU], "flavors": [{"name": "h100", "resources": [quota(nominal)]}]}]


@pytest.fixture
def tree(world: World) -> World:
    """all (own quota 4) → red-cq 8, blue-cq 8, inner → deep-cq 2; red runs 4, blue runs 2."""
    cluster_object(world, "Cohort", "all", spec={"parent": "", "resource_groups": groups("4")})
    cluster_object(world, "Cohort", "inner", spec={"parent": "all", "resource_groups": []})
    queue(world, "deep", nominal="2")
    ClusterObject.objects.filter(kind="ClusterQueue", name="deep-cq").update(
        spec={"cohort": "inner", "resource_groups": groups("2"), "stop_policy": "Hold"},
        raw={"kind": "ClusterQueue", "metadata": {"name": "deep-cq", "annotations": {"note": "<b>"}}},
    )
    return world


class TestTree:
    def test_an_opened_cohort_shows_what_adds_up_to_it(self, tree: World) -> None:
        rows = cells(text(tree.client("admin"), "/queues/"))
        named = {row[0].split(" ")[0] if row[0] else "": row for row in rows if len(row) == 10}
        own = next(row for row in rows if row[0] == "the cohort&#x27;s own quota")
        assert named["all"][4] == "22"
        parts = [Decimal(named[name][4]) for name in ("red-cq", "blue-cq", "inner")] + [Decimal(own[4])]
        assert parts == [8, 8, 2, 4]
        assert sum(parts) == 22

    def test_what_others_have_is_one_line_for_a_lead(self, tree: World) -> None:
        body = text(tree.client("red_lead"), "/queues/")
        others = next(row for row in cells(body) if row[0] == "queues of other teams")
        assert others[4] == "10"  # blue 8, deep 2
        assert "blue-cq" not in body
        assert "deep-cq" not in body

    @pytest.mark.parametrize("role", ["admin", "red_lead"])
    def test_every_part_is_the_part_that_the_whole_page_shows(self, tree: World, role: str) -> None:
        client = tree.client(role)
        whole = cells(text(client, "/queues/?open=east/Cohort/all&open=east/Cohort/inner"))
        part = cells(text(client, "/queues/?part=east/Cohort/all&open=east/Cohort/inner"))
        start = whole.index(part[0])
        assert whole[start : start + len(part)] == part

    def test_a_closed_page_shows_roots_with_their_sums_only(self, tree: World) -> None:
        body = text(tree.client("admin"), "/queues/?open=-")
        assert "red-cq" not in body
        assert 'aria-expanded="false"' in body
        assert "open=east/Cohort/all" in body

    def test_a_part_of_what_is_not_there_is_not_found(self, tree: World) -> None:
        assert tree.client("admin").get("/queues/?part=east/Cohort/none").status_code == 404
        assert tree.client("blue_lead").get("/queues/?part=east/Cohort/inner").status_code == 404

    def test_totals_never_add_parents_to_children(self, tree: World) -> None:
        total = next(row for row in cells(text(tree.client("admin"), "/queues/")) if row[0] == "Together")
        assert (total[3], total[4]) == ("8", "22")  # as the only root says; red and blue hold 4 each
        body = text(tree.client("admin"), "/queues/?flavor=h100")
        total = next(row for row in cells(body) if row[0] == "Queues that match, together")
        assert (total[3], total[4]) == ("8", "18")  # the queues' own; the cohort's 4 stand in its line

    def test_over_is_said_in_words_and_nothing_is_negative(self, tree: World) -> None:
        ClusterObject.objects.filter(kind="ClusterQueue").update(
            spec={"cohort": "", "resource_groups": groups("1")}
        )
        for path in ("/queues/", "/queues/east/ClusterQueue/red-cq/"):
            body = text(tree.client("admin"), path)
            assert "over by 3" in body, path
            assert not re.search(r">-\d", body), path


FILTERS = [
    "state=stopped",
    "state=inactive",
    "state=borrowing",
    "state=lending",
    "state=over",
    "state=waiting",
    "system=kueue",
    "system=volcano",
    "flavor=h100",
    "flavor=none",
    f"resource={GPU}",
    "under=Cohort/inner",
    "under=Cohort/all&q=cq",
    "under=Cohort/all&state=waiting&team=red",
]


class TestFilters:
    @pytest.mark.parametrize("query", FILTERS)
    def test_page_csv_and_rest_leave_the_same(self, tree: World, query: str) -> None:
        page = listed(tree, f"/queues/?format=csv&{query}")
        rows = sorted((row["Queue"], row["Flavor"], row["Resource"]) for row in page)
        nested = [row for node in answered(tree, f"queues/?{query}") for row in node["quotas"]]
        assert sorted((row["queue"], row["flavor"], row["resource"]) for row in nested) == rows
        flat_rows = sorted(
            (row["queue"], row["flavor"], row["resource"]) for row in answered(tree, f"quotas/?{query}")
        )
        assert flat_rows == sorted(
            row for row, cell in zip(rows, rows, strict=True) if cell[0] not in ("all", "inner")
        )
        shown = text(tree.client("admin"), f"/queues/?{query}&open=east/Cohort/all&open=east/Cohort/inner")
        main = shown[shown.index("<tbody>") : shown.index("</tbody>")] if "<tbody>" in shown else ""
        for name in ("red-cq", "blue-cq", "deep-cq"):
            assert (f">{name}</a>" in main) is (name in {row[0] for row in rows}), (name, query)

    @pytest.mark.parametrize(
        ("query", "names"),
        [
            ("state=stopped", {"deep-cq"}),
            ("state=waiting", {"red-cq", "blue-cq"}),
            ("state=borrowing", set()),
            ("under=Cohort/inner", {"deep-cq"}),
            ("under=Cohort/none", set()),
            ("q=RED", {"red-cq"}),
        ],
    )
    def test_what_each_filter_leaves(self, tree: World, query: str, names: set[str]) -> None:
        assert {row["queue"] for row in answered(tree, f"quotas/?{query}")} == names

    def test_a_lead_filters_only_among_the_own(self, tree: World) -> None:
        body = text(tree.client("red_lead"), "/queues/?under=Cohort/all")
        assert "red-cq" in body
        assert "blue-cq" not in body
        assert "deep-cq" not in body

    def test_a_place_that_cannot_be_is_an_error(self, tree: World) -> None:
        assert "Name a cohort" in text(tree.client("admin"), "/queues/?under=Pod/x")
        assert tree.client("admin").get("/api/v1/queues/?under=Pod/x").status_code == 400

    def test_a_circle_above_ends_the_search_below(self, tree: World) -> None:
        ClusterObject.objects.filter(kind="Cohort", name="all").update(
            spec={"parent": "inner", "resource_groups": []}
        )
        names = {row["queue"] for row in answered(tree, "quotas/?under=Cohort/inner")}
        assert names == {"red-cq", "blue-cq", "deep-cq"}


class TestQueuePage:
    def test_it_says_policy_place_work_and_command(self, tree: World) -> None:
        Cluster.objects.filter(pk=tree.east.pk).update(kube_context="east admin")
        body = text(tree.client("admin"), "/queues/east/ClusterQueue/deep-cq/")
        for said in (
            "Stopped: nothing new is admitted",
            "No namespace: the selector is not set",
            "kubectl --context &#x27;east admin&#x27; get clusterqueue deep-cq -o yaml",
            "note: &lt;b&gt;",
            "deep-lq",
        ):
            assert said in body, said
        assert "<b>\n" not in body
        assert body.index(">all</a>") < body.index(">inner</a>") < body.index("<b>deep-cq</b>")

    def test_the_work_adds_up_to_what_the_queue_holds(self, tree: World) -> None:
        for role in ("admin", "red_lead"):
            client = tree.client(role)
            held = download(client, "/queues/east/ClusterQueue/red-cq/?format=csv&table=held")
            assert len(held) == 2
            answer = client.get("/api/v1/queues/east/ClusterQueue/red-cq/").json()["result"]
            assert [row["reserved"] for row in answer["quotas"]] == ["4"]

    def test_work_of_others_in_a_shared_queue_is_only_counted(self, tree: World) -> None:
        start = tree.now
        TeamBinding.objects.create(
            team=tree.red,
            cluster=tree.east,
            kind="local_queue",
            namespace="blue-ns",
            name="second",
            valid_from=start,
        )
        cluster_object(tree, "LocalQueue", "second", namespace="blue-ns", spec={"cluster_queue": "blue-cq"})
        body = text(tree.client("red_lead"), "/queues/east/ClusterQueue/blue-cq/")
        assert "blue-runs" not in body
        assert "blue-waits" not in body
        assert "Work that is not listed here holds 4 × GPU" in body
        assert "1 more workload waits that is not yours to see" in body
        assert "1 more leads here from other teams" in body
        assert "blue-lq" not in body

    def test_a_queue_of_the_same_name_in_volcano_has_none_of_the_work(self, tree: World) -> None:
        cluster_object(tree, "VolcanoQueue", "red-cq", spec={"weight": 2}, status={"state": "Open"})
        rows = download(tree.client("admin"), "/queues/east/VolcanoQueue/red-cq/?format=csv&table=waiting")
        assert len(rows) == 1
        assert "Which plugin decides" in text(tree.client("admin"), "/queues/east/VolcanoQueue/red-cq/")

    def test_a_local_queue_has_a_page(self, tree: World) -> None:
        path = "/queues/east/LocalQueue/red-lq/?namespace=red-ns"
        body = text(tree.client("red_lead"), path)
        assert "Quota of red-cq, where it leads" in body
        assert "kubectl get -n red-ns localqueue red-lq -o yaml" in body
        assert len(download(tree.client("red_lead"), f"{path}&format=csv&table=waiting")) == 2

    def test_causes_are_listed_one_by_one(self, tree: World) -> None:
        message = "Can't admit new workloads: is stopped, references missing ResourceFlavor(s): a,b."
        ClusterObject.objects.filter(kind="ClusterQueue", name="red-cq").update(
            status={
                "conditions": {
                    "Active": {"status": "False", "reason": "Stopped", "message": message, "since": None}
                }
            }
        )
        ClusterObject.objects.filter(kind="Cohort", name="all").update(
            spec={"parent": "inner", "resource_groups": []}
        )
        body = text(tree.client("red_lead"), "/queues/east/ClusterQueue/red-cq/")
        assert "<li>is stopped</li>" in body
        assert "<li>references missing ResourceFlavor(s): a,b</li>" in body
        assert "all → inner → all form a circle" in body
        answer = tree.client("red_lead").get("/api/v1/queues/east/ClusterQueue/red-cq/").json()["result"]
        assert [cause["code"] for cause in answer["causes"]] == ["stopped", "flavor_missing", "cohort_cycle"]

    def test_a_lead_sees_of_the_cohort_above_its_sums_only(self, tree: World) -> None:
        ClusterObject.objects.filter(kind="Cohort", name="all").update(raw={"secret": "words"})
        body = text(tree.client("red_lead"), "/queues/east/Cohort/all/")
        assert "sums only" in body
        assert "kubectl" not in body
        assert "blue-cq" not in body
        for path in ("?raw=on", ""):
            answer = tree.client("red_lead").get(f"/api/v1/queues/east/Cohort/all/{path}").json()["result"]
            assert answer["is_whole"] is False
            assert (answer["raw"], answer["policy"], answer["command"]) == (None, [], "")
            assert [child["name"] for child in answer["children"]] == ["red-cq"]
        admin = tree.client("admin").get("/api/v1/queues/east/Cohort/all/?raw=on").json()["result"]
        assert admin["raw"] == {"secret": "words"}

    def test_events_of_the_object_are_shown_and_of_another_not(self, tree: World) -> None:
        common = {"cluster": tree.east, "created_at": tree.now, "observed_at": tree.now, "type": "Warning"}
        for uid, name in (("e1", "red-cq"), ("e2", "blue-cq")):
            Event.objects.create(
                **common,
                uid=uid,
                object_kind="ClusterQueue",
                object_name=name,
                reason="Odd",
                message=f"about {name}",
            )
        body = text(tree.client("red_lead"), "/queues/east/ClusterQueue/red-cq/")
        assert "about red-cq" in body
        assert "about blue-cq" not in body

    def test_unknown_parameters_of_rest_are_refused(self, tree: World) -> None:
        client = tree.client("admin")
        assert client.get("/api/v1/queues/east/ClusterQueue/red-cq/?q=x").status_code == 400


class TestAttention:
    def test_the_page_asks_for_what_does_not_fit_together(self, tree: World) -> None:
        assert 'hx-get="/queues/?attention=1"' in text(tree.client("admin"), "/queues/")
        whole = text(tree.client("admin"), "/queues/?attention=1")
        assert "deep-cq" in whole
        assert "<main" not in whole
        own = text(tree.client("red_lead"), "/queues/?attention=1")
        assert "deep-cq" not in own
        assert "blue-cq" not in own

    def test_a_queues_page_says_what_is_wrong_with_it(self, tree: World) -> None:
        assert "Needs attention" in text(tree.client("admin"), "/queues/east/ClusterQueue/deep-cq/")


class TestHistory:
    def test_the_chart_shows_what_was_noted_and_a_gap_before(self, tree: World) -> None:
        note_quotas(cluster=tree.east, now=tree.now - timedelta(minutes=4))
        note_quotas(cluster=tree.east, now=tree.now)
        path = "cluster=east&kind=ClusterQueue&queue=red-cq&flavor=h100&resource=nvidia.com/gpu&window=hour"
        figure = tree.client("red_lead").get(f"/charts/queue-quota.json?{path}").json()
        lines = {line["name"]: line["y"] for line in figure["data"]}
        assert set(lines) == {"held", "nominal", "ceiling", "waiting"}
        assert (lines["held"][-2], lines["nominal"][-2]) == (4, 8)
        assert lines["held"][0] is None
        rows = download(tree.client("red_lead"), f"/charts/queue-quota/?{path}&format=csv")
        assert rows[0][1:] == ["held", "nominal", "ceiling", "waiting"]
        assert rows[2][1:3] == ["4", "8"]

    def test_its_window_and_flavor_stand_in_the_address(self, tree: World) -> None:
        body = text(tree.client("red_lead"), "/queues/east/ClusterQueue/red-cq/?window=year")
        assert "window=year" in body[body.index('data-src="/charts/queue-quota.json') :][:300]
        assert "?window=hour#history" in body
        body = text(tree.client("red_lead"), "/queues/east/ClusterQueue/red-cq/?window=never&of=none")
        assert "window=day" in body[body.index('data-src="/charts/queue-quota.json') :][:300]


def test_each_number_of_the_page_stands_in_rest(tree: World) -> None:
    workload(tree, "red-more", team="red", state="admitted")
    forest = queue_forest(now=tree.now)
    for _depth, node in flat(forest):
        answer = tree.client("admin").get(f"/api/v1/queues/east/{node.kind}/{node.name}/").json()["result"]
        assert [row["reserved"] for row in answer["quotas"]] == [str(row.reserved) for row in node.rows]
        assert answer["waiting_workloads"] == node.waiting
