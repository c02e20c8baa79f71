"""What a team's page and the REST routes beside it say: positions, what is lacking, loans, and to whom.

World: red-cq and blue-cq of cohort "all" with 8 H100 each. Blue's work is let to hold 12, so 4 of them are red's.
"""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.api.tests.world import GPU, World, cluster_object, queue, workload
from apps.fleet.models import Cluster, TeamBinding
from apps.observations.models import ClusterObject, QueuePosition, Workload
from apps.quotas.models import QuotaPoint


@pytest.fixture
def lending(world: World) -> World:
    """Blue holds 4 + 8 = 12 of its 8: 4 are red's, which has 8 and uses 4."""
    usage = [{"flavor": "h100", "resource": GPU, "quantity": "8"}]
    workload(world, "blue-big", team="blue", state="admitted", requests={GPU: "8"}, usage=usage)
    return world


def rows(world: World, role: str, path: str) -> list[dict[str, str]]:
    response = world.client(role).get(path)
    assert response.status_code == 200
    return list(csv.DictReader(io.StringIO(b"".join(response).decode("utf-8-sig"))))


def results(world: World, role: str, path: str) -> list[dict[str, Any]]:
    response = world.client(role).get(path)
    assert response.status_code == 200
    found: list[dict[str, Any]] = json.loads(response.content)["results"]
    return found


def page(world: World, role: str, path: str = "/teams/red/") -> str:
    response = world.client(role).get(path)
    assert response.status_code == 200
    return str(response.content.decode())


# ---- loans ------------------------------------------------------------------------------------------------------


def test_the_lender_sees_who_holds_its_quota_and_how_it_comes_back(lending: World) -> None:
    (row,) = rows(lending, "red_lead", "/teams/red/?format=csv&table=lent")
    assert (row["Lender"], row["Borrower"], row["Flavor"], row["Amount"]) == (
        "red-cq",
        "blue-cq",
        "h100",
        "4",
    )
    assert row["How it comes back"] == (
        "When the borrower's work ends: the lender preempts nothing to get it back."
    )
    assert rows(lending, "red_lead", "/teams/red/?format=csv&table=borrowed") == []
    (row,) = rows(lending, "blue_lead", "/teams/blue/?format=csv&table=borrowed")
    assert (row["Lender"], row["Borrower"], row["Amount"]) == ("red-cq", "blue-cq", "4")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("Never", "When the borrower's work ends: the lender preempts nothing to get it back."),
        (
            "LowerPriority",
            "When the lender's work needs it: by preempting the borrower's work of lower priority.",
        ),
        ("Any", "When the lender's work needs it: by preempting the borrower's work, whatever its priority."),
    ],
)
def test_reclaim_policy_in_words(lending: World, policy: str, expected: str) -> None:
    red = ClusterObject.objects.get(kind="ClusterQueue", name="red-cq")
    red.spec["preemption"] = {"reclaim_within_cohort": policy}
    red.save()
    (row,) = results(lending, "red_lead", "/api/v1/quotas/loans/")
    assert (row["reclaim_within_cohort"], row["comes_back"]) == (policy, expected)


def test_a_cohorts_own_quota_is_lent_by_the_cohort(lending: World) -> None:
    groups = [
        {
            "covered": [GPU],
            "flavors": [
                {
                    "name": "h100",
                    "resources": [
                        {"name": GPU, "nominal": "3", "borrowing_limit": None, "lending_limit": None}
                    ],
                }
            ],
        }
    ]
    cluster_object(lending, "Cohort", "all", spec={"parent": "", "resource_groups": groups}, status={})
    found = results(lending, "blue_lead", "/api/v1/quotas/loans/?direction=borrowed")
    # 4 borrowed: the cohort's 3 first, 1 of red.
    assert [(row["lender_kind"], row["lender"], row["amount"]) for row in found] == [
        ("ClusterQueue", "red-cq", "1"),
        ("Cohort", "all", "3"),
    ]
    assert found[1]["comes_back"] == "The cohort's own quota: free again when the borrower's work ends."
    # The lender of the other loan is not party to this one.
    own = results(lending, "red_lead", "/api/v1/quotas/loans/")
    assert [(row["lender"], row["amount"]) for row in own] == [("red-cq", "1")]


def test_since_is_the_later_of_both_and_nothing_until_both_are_noted(lending: World) -> None:
    def note(queue: str, **values: int) -> None:
        at = lending.now - timedelta(hours=values.pop("hours"))
        QuotaPoint.objects.create(
            cluster=lending.east,
            at=at,
            kind="ClusterQueue",
            queue=queue,
            flavor="h100",
            resource=GPU,
            **values,
        )

    note("red-cq", hours=5, lent=4)
    (row,) = results(lending, "red_lead", "/api/v1/quotas/loans/")
    assert row["since"] is None
    note("blue-cq", hours=3, borrowed=4)
    (row,) = results(lending, "red_lead", "/api/v1/quotas/loans/")
    assert row["since"].startswith((lending.now - timedelta(hours=3)).strftime("%Y-%m-%dT%H:%M:%S"))


def test_the_other_party_is_a_name_without_a_link_or_a_team(lending: World) -> None:
    text = page(lending, "red_lead")
    assert "4 of its own are lent to blue-cq." in text
    assert "ClusterQueue/blue-cq" not in text
    assert "blue-big" not in text
    assert "ClusterQueue/blue-cq" in page(lending, "admin")
    (row,) = results(lending, "red_lead", "/api/v1/quotas/loans/")
    assert (row["lender_teams"], row["borrower_teams"]) == (["red"], [])
    (row,) = results(lending, "admin", "/api/v1/quotas/loans/")
    assert (row["lender_teams"], row["borrower_teams"]) == (["red"], ["blue"])


def test_who_is_no_party_gets_no_loan(lending: World) -> None:
    # green-cq leaves 8 unused, red-cq 4. Of the 4 that blue borrows ⌊4 · 8 ÷ 12⌋ = 2 are green's, the rest red's.
    queue(lending, "green")

    def loans(role: str, query: str = "") -> list[tuple[str, str, str]]:
        found = results(lending, role, f"/api/v1/quotas/loans/{query}")
        return [(row["lender"], row["borrower"], row["amount"]) for row in found]

    both = [("green-cq", "blue-cq", "2"), ("red-cq", "blue-cq", "2")]
    assert loans("guest") == []
    assert loans("red_lead") == [("red-cq", "blue-cq", "2")]
    assert loans("red_lead", "?direction=borrowed") == []
    assert loans("blue_lead") == loans("admin") == both
    assert loans("finance", "?team=blue&direction=borrowed") == both
    assert loans("finance", "?team=blue&direction=lent") == []


# ---- positions and what is lacking --------------------------------------------------------------------------------


def positions(world: World, role: str = "red_lead") -> list[tuple[str, Any, Any]]:
    found = results(world, role, "/api/v1/workloads/?state=pending")
    return [(row["name"], row["position"], row["position_source"]) for row in found if row["team"] == "red"]


def test_order_is_priority_then_creation_then_uid(world: World) -> None:
    earlier = world.now - timedelta(hours=2)
    workload(world, "first", priority=5)
    workload(world, "older", created_at=earlier)
    workload(world, "low", priority=-1, created_at=earlier)
    # Priority 5; then 0 by creation: older before red-waits; then −1. A missing priority is 0.
    assert positions(world) == [
        ("red-waits", 3, "computed"),
        ("first", 1, "computed"),
        ("older", 2, "computed"),
        ("low", 4, "computed"),
    ]
    found = rows(world, "red_lead", "/teams/red/?format=csv&table=waiting")
    assert [row["Workload"] for row in found] == ["first", "older", "red-waits", "low"]


@pytest.mark.parametrize(
    ("reason", "status", "place"),
    [
        ("AdmissionCheck", "True", 2),
        ("PodsReadyTimeout", "True", 2),
        ("Preempted", "True", 1),
        ("AdmissionCheck", "False", 1),
    ],
)
def test_a_preemption_costs_no_place_and_a_failed_check_does(
    world: World, reason: str, status: str, place: int
) -> None:
    # Made two hours ago and evicted half an hour ago; red-waits was made an hour ago.
    since = world.now - timedelta(minutes=30)
    workload(
        world,
        "back",
        created_at=world.now - timedelta(hours=2),
        queued_at=since,
        conditions={
            "Evicted": {"status": status, "reason": reason, "message": "", "since": since.isoformat()}
        },
    )
    assert sorted(positions(world)) == [("back", place, "computed"), ("red-waits", 3 - place, "computed")]
    waits = {row["name"]: row for row in results(world, "red_lead", "/api/v1/workloads/?state=pending")}
    assert waits["back"]["queued_at"].startswith(since.strftime("%Y-%m-%dT%H:%M:%S"))


@pytest.mark.parametrize(("age", "expected"), [(9, (7, "kueue")), (11, (1, "computed"))])
def test_kueues_word_counts_while_it_is_fresh(world: World, age: int, expected: tuple[int, str]) -> None:
    QueuePosition.objects.create(
        cluster=world.east,
        cluster_queue="red-cq",
        namespace="red-ns",
        name="red-waits",
        position=6,
        local_position=2,
        observed_at=world.now - timedelta(minutes=age),
    )
    assert positions(world) == [("red-waits", *expected)]
    assert ("said by Kueue" in page(world, "red_lead")) is (expected[1] == "kueue")


def test_work_of_others_in_the_same_queue_counts_and_is_not_shown(world: World) -> None:
    workload(world, "ahead", team="blue", queue_name="shared", priority=9)
    cluster_object(
        world, "LocalQueue", "shared", namespace="blue-ns", spec={"cluster_queue": "red-cq"}, status={}
    )
    assert positions(world, "admin")[0][1] == 2
    row = next(
        r for r in results(world, "admin", "/api/v1/workloads/?state=pending") if r["name"] == "red-waits"
    )
    assert (row["position"], row["local_position"]) == (2, 1)


def test_each_queue_counts_for_itself_and_kueues_word_stands_beside_computed_ones(world: World) -> None:
    """red-cq: high (5), then red-waits (0). blue-cq: ahead (9), blue-waits (0). Kueue says blue's two the other way
    round; it says nothing of red's, which are computed."""
    workload(world, "high", priority=5)
    workload(world, "ahead", team="blue", priority=9)
    for name, position in (("blue-waits", 0), ("ahead", 1)):
        QueuePosition.objects.create(
            cluster=world.east,
            cluster_queue="blue-cq",
            namespace="blue-ns",
            name=name,
            position=position,
            local_position=position,
            observed_at=world.now,
        )
    found = {
        row["name"]: (row["position"], row["local_position"], row["position_source"])
        for row in results(world, "admin", "/api/v1/workloads/?state=pending")
    }
    assert {name: found[name] for name in ("high", "red-waits", "blue-waits", "ahead")} == {
        "high": (1, 1, "computed"),
        "red-waits": (2, 2, "computed"),
        "blue-waits": (1, 1, "kueue"),
        "ahead": (2, 2, "kueue"),
    }


def test_a_queue_of_which_kueue_names_only_some_is_computed_whole(world: World) -> None:
    """Two orders in one queue would give a place twice: red-waits is said to be first, `high` is not said at all."""
    workload(world, "high", priority=5)
    QueuePosition.objects.create(
        cluster=world.east,
        cluster_queue="red-cq",
        namespace="red-ns",
        name="red-waits",
        position=0,
        local_position=0,
        observed_at=world.now,
    )
    assert sorted(positions(world)) == [("high", 1, "computed"), ("red-waits", 2, "computed")]


def test_what_has_its_quota_or_no_queue_has_no_position(world: World) -> None:
    workload(world, "nowhere", queue_name="gone-lq")
    found = {row["name"]: row for row in results(world, "admin", "/api/v1/workloads/")}
    assert (found["red-runs"]["position"], found["red-runs"]["lacking"]) == (None, [])
    assert (found["nowhere"]["position"], found["nowhere"]["lacking"]) == (None, None)


def test_what_is_lacking_by_pod_set(lending: World) -> None:
    # Of 16 in the cohort 4 + 12 are held: nothing is free, red may ever hold 16.
    pod_sets = [
        {"name": "a", "count": 2, "min_count": None, "requests": {GPU: "4"}},
        {"name": "b", "count": 1, "min_count": None, "requests": {GPU: "2", "cpu": "3"}},
    ]
    workload(lending, "gang", requests={GPU: "10", "cpu": "3"}, pod_sets=pod_sets)
    workload(lending, "huge", requests={GPU: "20"})
    found = {
        row["name"]: row["lacking"]
        for row in results(lending, "red_lead", "/api/v1/workloads/?state=pending")
    }
    none = {"beyond_ceiling": None, "is_offered": True}
    assert found["gang"] == [
        {
            "resource": "cpu",
            "asked": "3",
            "missing": "3",
            "flavor": "",
            "beyond_ceiling": None,
            "is_offered": False,
        },
        {"resource": GPU, "asked": "10", "missing": "10", "flavor": "h100", **none},
    ]
    assert found["huge"] == [
        {
            "resource": GPU,
            "asked": "20",
            "missing": "20",
            "flavor": "h100",
            "beyond_ceiling": "4",
            "is_offered": True,
        }
    ]
    text = {
        row["Workload"]: row["Lacks"]
        for row in rows(lending, "red_lead", "/teams/red/?format=csv&table=waiting")
    }
    assert text == {
        "red-waits": "4 GPU in h100",
        "gang": "cpu: the queue has no quota of it; 10 GPU in h100",
        "huge": "exceeds the ceiling by 4 GPU",
    }


FREE = "quota is free, but "
BEHIND = FREE + "it waits behind the head of its queue (StrictFIFO)"
INACTIVE = {"status": "False", "reason": "AdmissionCheckInactive", "message": "", "since": None}


def change(kind: str, name: str, **spec: Any) -> None:
    found = ClusterObject.objects.get(kind=kind, name=name)
    found.spec = {**found.spec, **spec}
    found.save()


def said(world: World) -> dict[str, tuple[Any, Any, str]]:
    """Of red's waiting work: position and what blocks it over REST, and the text of the page's table."""
    text = {
        row["Workload"]: row["Lacks"]
        for row in rows(world, "red_lead", "/teams/red/?format=csv&table=waiting")
    }
    found = results(world, "red_lead", "/api/v1/workloads/?state=pending")
    html = page(world, "red_lead")
    assert all(words in html for words in text.values())
    return {row["name"]: (row["position"], row["blocked_by"], text[row["name"]]) for row in found}


@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        ("ClusterQueue", "red-cq", (1, "cluster_queue_stopped", FREE + "its queue is stopped")),
        # Kueue takes work of a stopped LocalQueue out of the queue: it has no position.
        ("LocalQueue", "red-lq", (None, "local_queue_stopped", FREE + "its LocalQueue is stopped")),
    ],
)
def test_free_quota_behind_a_stopped_queue(
    world: World, kind: str, name: str, expected: tuple[Any, Any, str], policy: str
) -> None:
    # 4 of red's 8 are held, red-waits asks for 4.
    assert said(world) == {"red-waits": (1, None, "nothing: quota is free")}
    change(kind, name, stop_policy=policy)
    assert said(world) == {"red-waits": expected}


def test_free_quota_behind_a_queue_that_is_not_active(world: World) -> None:
    ClusterObject.objects.filter(name="red-cq").update(status={"conditions": {"Active": INACTIVE}})
    assert said(world) == {"red-waits": (1, "cluster_queue_inactive", FREE + "its queue is not active")}


def test_free_quota_behind_the_head_of_a_strict_queue(world: World) -> None:
    # 4 are free in red-cq and 4 more in the cohort. "big" asks for 16 and blocks the others, which would fit.
    workload(world, "big", priority=5, requests={GPU: "16"})
    workload(world, "small", priority=-1, requests={GPU: "1"})
    free = "nothing: quota is free"
    loose = said(world)
    assert {name: row[1:] for name, row in loose.items() if name != "big"} == {
        "red-waits": (None, free),
        "small": (None, free),
    }
    change("ClusterQueue", "red-cq", strategy="StrictFIFO")
    strict = said(world)
    assert strict == {
        "big": loose["big"],
        "red-waits": (2, "behind_head", BEHIND),
        "small": (3, "behind_head", BEHIND),
    }
    assert strict["big"][:2] == (1, None)
    # The head of a stopped LocalQueue is in nobody's way.
    cluster_object(
        world,
        "LocalQueue",
        "held",
        namespace="red-ns",
        spec={"cluster_queue": "red-cq", "stop_policy": "Hold"},
        status={},
    )
    Workload.objects.filter(name="big").update(queue_name="held")
    found = said(world)
    assert (found["big"][:2], found["red-waits"], found["small"]) == (
        (None, "local_queue_stopped"),
        (1, None, free),
        (2, "behind_head", BEHIND),
    )
    assert [row["Workload"] for row in rows(world, "red_lead", "/teams/red/?format=csv&table=waiting")] == [
        "red-waits",
        "small",
        "big",
    ]


@pytest.mark.parametrize("told_by_kueue", [False, True])
def test_a_head_in_backoff_is_in_nobodys_way(world: World, told_by_kueue: bool) -> None:
    """Kueue keeps work out of the line until its backoff is over, and names it in the line all the same."""
    later = world.now + timedelta(hours=1)
    workload(world, "big", priority=5, requests={GPU: "16"}, requeue_at=later)
    workload(world, "small", priority=-1, requests={GPU: "1"})
    change("ClusterQueue", "red-cq", strategy="StrictFIFO")
    if told_by_kueue:
        for place, name in enumerate(("big", "red-waits", "small")):
            QueuePosition.objects.create(
                cluster=world.east, cluster_queue="red-cq", namespace="red-ns", name=name, position=place,
                local_position=place, observed_at=world.now,
            )  # fmt: skip
    found = said(world)
    assert found["red-waits"] == (2, None, "nothing: quota is free")
    assert found["small"] == (3, "behind_head", BEHIND)
    Workload.objects.filter(name="big").update(requeue_at=world.now - timedelta(hours=1))
    assert said(world)["red-waits"] == (2, "behind_head", BEHIND)


@pytest.mark.parametrize("ring", [("all",), ("all", "above"), ("all", "above", "beyond")])
def test_free_quota_below_a_circle_of_cohorts(world: World, ring: tuple[str, ...]) -> None:
    """Kueue calls such a queue active, and skips it."""
    ClusterObject.objects.filter(kind="Cohort", name__in=ring).delete()
    for place, name in enumerate(ring):
        parent = ring[(place + 1) % len(ring)]
        cluster_object(world, "Cohort", name, spec={"parent": parent, "quotas": []}, status={})
    circle = FREE + "the cohorts above its queue form a circle: Kueue skips it"
    assert said(world)["red-waits"][1:] == ("cohort_cycle", circle)
    change("Cohort", ring[-1], parent="")
    assert said(world)["red-waits"][1] is None


@pytest.mark.parametrize(("state", "expected"), [("Open", None), ("Closing", "cluster_queue_stopped")])
def test_a_closed_queue_of_volcano(world: World, state: str, expected: str | None) -> None:
    spec = {"weight": 1, "capability": {}, "deserved": {}, "guarantee": {}, "parent": ""}
    cluster_object(world, "VolcanoQueue", "vq", spec=spec, status={"state": state, "allocated": {}})
    group = workload(world, "group", queue_name="vq")
    Workload.objects.filter(pk=group.pk).update(kind="PodGroup")
    found = {row["name"]: row for row in results(world, "admin", "/api/v1/workloads/?kind=PodGroup")}
    assert found["group"]["blocked_by"] == expected


def test_work_with_its_quota_or_in_no_queue_is_not_blocked(world: World) -> None:
    workload(world, "nowhere", queue_name="gone-lq")
    change("ClusterQueue", "red-cq", stop_policy="Hold")
    found = {row["name"]: row["blocked_by"] for row in results(world, "admin", "/api/v1/workloads/")}
    assert (found["red-runs"], found["nowhere"]) == (None, None)


# ---- Volcano's plugin -------------------------------------------------------------------------------------------

READ = (
    "The capacity plugin is in force: what the queue deserves is as configured. Read from the scheduler's ConfigMap "
    "volcano-system/volcano-scheduler-configmap, volcano-scheduler.conf."
)
SET = (
    "The proportion plugin is in force: what the queue deserves follows weights and moves with demand. It is no "
    "entitlement. This is set for the cluster in the admin site."
)
UNKNOWN = (
    "Which plugin decides what queues deserve is not known for this cluster. The scheduler's configuration has not been "
    "read; the page of sources says why."
)


@pytest.mark.parametrize(
    ("read", "admin", "words", "plugin", "where"),
    [
        (True, "", READ, "capacity", "volcano-system/volcano-scheduler-configmap, volcano-scheduler.conf"),
        (True, "proportion", SET, "proportion", "admin"),
        (False, "", UNKNOWN, "", ""),
    ],
)
def test_the_page_says_which_plugin_of_volcano_decides_and_where_that_was_read(
    world: World, read: bool, admin: str, words: str, plugin: str, where: str
) -> None:
    spec = {"weight": 1, "capability": {}, "deserved": {GPU: "4"}, "guarantee": {}, "parent": ""}
    cluster_object(world, "VolcanoQueue", "vq", spec=spec, status={"state": "Open", "allocated": {}})
    start = world.now - timedelta(days=1)
    TeamBinding.objects.create(
        team=world.red, cluster=world.east, kind="volcano_queue", name="vq", valid_from=start
    )
    if read:
        conf = {"key": "volcano-scheduler.conf", "plugin": "capacity", "plugins": ["capacity"]}
        name = "volcano-scheduler-configmap"
        cluster_object(world, "VolcanoScheduler", name, namespace="volcano-system", spec=conf, status={})
    Cluster.objects.filter(pk=world.east.pk).update(volcano_plugin=admin)
    line = f'<p class="soft mb-0">{world.east.name}: {words}</p>'
    assert unescape(page(world, "red_lead")).count(line) == 1
    alone = unescape(page(world, "red_lead", "/teams/red/?cluster=east"))
    assert alone.count(f'<p class="soft mb-0">{words}</p>') == 1
    (row,) = results(world, "red_lead", "/api/v1/quotas/?system=volcano")
    assert (row["plugin"], row["plugin_from"]) == (plugin, where)
    # Blue has no queue of Volcano, so that nothing decides there.
    assert "plugin" not in page(world, "blue_lead", "/teams/blue/")


# ---- cost -------------------------------------------------------------------------------------------------------


def test_queries_do_not_grow_with_queues_loans_or_work(lending: World) -> None:
    client = lending.client("red_lead")

    def cost() -> int:
        with CaptureQueriesContext(
            connection,
        ) as found:
            assert client.get("/teams/red/").status_code == 200
        return len(found)

    client.get("/teams/red/")
    before = cost()
    for number in range(6):
        queue(lending, f"more{number}")
        workload(lending, f"more-{number}")
        workload(lending, f"blue-more-{number}", team="blue")
    usage = [{"flavor": "h100", "resource": GPU, "quantity": "9"}]
    workload(lending, "other", team="more1", state="admitted", usage=usage)
    assert cost() == before
    assert Workload.objects.filter(state="pending").count() > 12
