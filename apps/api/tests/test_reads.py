"""What each route answers: rows of the right teams, decimals as text, times with Z, absent told from zero."""

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils.translation import override

from apps.accounts.models import Membership
from apps.api.fields import DecimalText
from apps.api.tests.world import MODEL, ROLES, World, held_hour, quarantine, usage_hour, workload
from apps.chargeback.rate_cards import draft, publish
from apps.core.windows import HOUR, floor_hour
from apps.fleet.models import TeamBinding
from apps.observations.models import ClusterObject, Node, Outcome, Source, SourceState
from apps.usage.models import UsageHour

V1 = "/api/v1"
LISTS = [
    "clusters",
    "teams",
    "capacity",
    "nodes",
    "stack",
    "devices",
    "topology",
    "topology/nodes",
    "gpu-weights",
    "queues",
    "quotas",
    "workloads",
    "admission-failures",
    "usage",
    "findings",
    "rates",
    "billing-periods",
    "charges",
    "sources",
]
# Findings ask every layer at once.
MOST_QUERIES = {"findings": 70}
TEAM_SCOPED = ("teams", "workloads", "admission-failures", "usage", "charges", "quotas", "queues")


def get(world: World, role: str, path: str, **headers: str) -> dict[str, Any]:
    response = world.client(role).get(f"{V1}/{path}", headers=headers)
    assert response.status_code == 200, response.content[:1000]
    body: dict[str, Any] = response.json()
    return body


def results(world: World, role: str, path: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = get(world, role, path)["results"]
    return rows


@pytest.mark.parametrize("route", LISTS)
def test_every_list_says_how_old_and_how_complete_it_is(world: World, route: str) -> None:
    body = get(world, "admin", f"{route}/")
    assert list(body)[:5] == ["as_of", "state", "state_label", "sources", "missing"]
    assert body["as_of"].endswith("Z")
    assert body["state"] == "ok", body["sources"]
    assert body["missing"] == []
    assert body["results"] or route == "findings"
    assert body["next"] is None


@pytest.mark.parametrize("route", LISTS)
@pytest.mark.parametrize("role", ROLES[1:])
def test_no_number_is_a_float_and_every_time_is_utc(world: World, route: str, role: str) -> None:
    response = world.client(role).get(f"{V1}/{route}/")
    assert response.status_code == 200
    text = response.content.decode()
    floats: list[str] = []
    json.loads(text, parse_float=floats.append)
    assert floats == []
    assert "+00:00" not in text
    for time in re.findall(r'"(\d{4}-\d\d-\d\dT[^"]*)"', text):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", time)


@pytest.mark.parametrize("route", TEAM_SCOPED)
@pytest.mark.parametrize(
    ("role", "sees", "not_sees"),
    [
        ("guest", (), ("red", "blue", "nobody")),
        ("viewer", ("red",), ("blue", "nobody")),
        ("red_lead", ("red",), ("blue", "nobody")),
        ("blue_lead", ("blue",), ("red", "nobody")),
        ("finance", ("red", "blue"), ()),
        ("admin", ("red", "blue"), ()),
    ],
)
def test_a_list_holds_the_readers_teams_and_no_trace_of_others(
    world: World, route: str, role: str, sees: tuple[str, ...], not_sees: tuple[str, ...]
) -> None:
    rows = json.dumps(results(world, role, f"{route}/"))
    for team in sees:
        assert re.search(rf'"{team}[-"]', rows)
    for team in not_sees:
        assert not re.search(rf'"{team}[-"s]', rows)


@pytest.mark.parametrize("route", ["workloads", "admission-failures", "usage", "charges"])
def test_readers_of_all_teams_also_see_what_nobody_owns(world: World, route: str) -> None:
    assert None in {row["team"] for row in results(world, "finance", f"{route}/")}
    assert {row["team"] for row in results(world, "finance", f"{route}/?team=-")} == {None}
    assert {row["team"] for row in results(world, "finance", f"{route}/?team=red")} == {"red"}


@pytest.mark.parametrize("role", ["guest", "viewer", "finance", "admin"])
def test_every_role_reads_the_fleet(world: World, role: str) -> None:
    for route in ("clusters", "capacity", "nodes", "gpu-weights", "rates", "sources"):
        assert results(world, role, f"{route}/")


def test_clusters_show_no_credentials_and_only_what_is_collected(world: World) -> None:
    text = world.client("admin").get(f"{V1}/clusters/").content.decode()
    assert "kubeconfig" not in text
    (row,) = json.loads(text)["results"]
    assert (row["slug"], row["name"], row["is_demo"]) == ("east", "East", False)
    assert [source["source"] for source in row["sources"]] == list(Source.values)
    assert get(world, "viewer", "clusters/east/")["result"]["slug"] == "east"
    assert world.client("admin").get(f"{V1}/clusters/west/").status_code == 404


def test_a_team_names_what_it_owns_now_and_the_readers_role(world: World) -> None:
    old = world.now - timedelta(days=9)
    TeamBinding.objects.create(
        team=world.red,
        cluster=world.east,
        kind="namespace",
        name="gone",
        valid_from=old,
        valid_to=world.now - HOUR,
    )
    result = get(world, "red_lead", "teams/red/")["result"]
    assert (result["slug"], result["cost_centre"], result["your_role"]) == ("red", "CC-1", "lead")
    assert [(b["kind"], b["namespace"], b["name"], b["valid_to"]) for b in result["bindings"]] == [
        ("cluster_queue", "", "red-cq", None)
    ]
    assert get(world, "viewer", "teams/red/")["result"]["your_role"] == "member"
    assert get(world, "finance", "teams/red/")["result"]["your_role"] == ""


def test_a_member_of_two_teams_sees_both_once(world: World) -> None:
    Membership.objects.create(user=world.users["viewer"], team=world.blue)
    assert [row["slug"] for row in results(world, "viewer", "teams/")] == ["red", "blue"]


def test_a_workload_tells_what_it_asks_and_what_it_holds(world: World) -> None:
    waits, runs = (get(world, "viewer", f"workloads/uid-red-{name}/")["result"] for name in ("waits", "runs"))
    assert (waits["state"], waits["queue"], waits["team"], waits["held"]) == ("pending", "red-cq", "red", [])
    assert waits["asked"] == {"nvidia.com/gpu": "4"}
    assert "insufficient unused quota" in waits["message"]
    assert (waits["admitted_at"], waits["priority"]) == (None, None)
    assert runs["held"] == [{"flavor": "h100", "resource": "nvidia.com/gpu", "quantity": "4"}]


def test_workloads_are_narrowed_by_each_parameter(world: World) -> None:
    def names(query: str) -> set[str]:
        return {row["name"] for row in results(world, "finance", f"workloads/?{query}")}

    assert names("state=admitted") == {"red-runs", "blue-runs"}
    assert names("team=red") == {"red-waits", "red-runs"}
    assert names("queue=red-lq") == names("queue=red-cq") == {"red-waits", "red-runs"}
    assert names("namespace=blue-ns&state=pending") == {"blue-waits"}
    assert names("kind=PodGroup") == set()
    assert names("team=red&queue=blue-cq") == set()


def test_a_local_queue_binding_takes_work_out_of_its_cluster_queues_team(world: World) -> None:
    TeamBinding.objects.create(
        team=world.blue,
        cluster=world.east,
        kind="local_queue",
        namespace="red-ns",
        name="red-lq",
        valid_from=world.now - HOUR,
    )
    assert {row["name"] for row in results(world, "viewer", "workloads/")} == set()
    assert "red-waits" in {row["name"] for row in results(world, "blue_lead", "workloads/")}
    assert world.client("viewer").get(f"{V1}/workloads/uid-red-waits/").status_code == 404


def test_a_pod_group_belongs_to_the_owner_of_its_volcano_queue(world: World) -> None:
    TeamBinding.objects.create(
        team=world.blue, cluster=world.east, kind="volcano_queue", name="batch", valid_from=world.now - HOUR
    )
    group = workload(world, "group", namespace="anywhere", queue_name="batch")
    group.kind = "PodGroup"
    group.save()
    (row,) = results(world, "blue_lead", "workloads/?kind=PodGroup")
    assert (row["name"], row["queue"], row["team"]) == ("group", "batch", "blue")
    assert results(world, "viewer", "workloads/?kind=PodGroup") == []


def test_waiting_work_says_why_in_stable_words_and_in_the_clusters_own(world: World) -> None:
    body = get(world, "viewer", "admission-failures/")
    (row,) = body["results"]
    assert body["count"] == 1
    assert (row["cause"], row["layer"], row["reason"]) == ("quota", "admission", "Pending")
    assert row["message"].startswith("couldn't assign flavors")
    assert 3590 <= row["wait_seconds"] <= 3700
    chinese = get(world, "viewer", "admission-failures/", **{"Accept-Language": "zh-hans"})["results"][0]
    assert {key: chinese[key] for key in ("cause", "reason", "message")} == {
        key: row[key] for key in ("cause", "reason", "message")
    }


def test_counts_are_of_the_readers_work_only(world: World) -> None:
    assert get(world, "admin", "admission-failures/?page_size=1")["count"] == 3
    assert get(world, "blue_lead", "admission-failures/?page_size=1")["count"] == 1
    assert get(world, "guest", "admission-failures/")["count"] == 0


def test_usage_is_summed_over_whole_hours_as_exact_text(world: World) -> None:
    start = floor_hour(world.now) - 2 * HOUR
    query = (
        f"from={start + timedelta(minutes=10):%Y-%m-%dT%H:%M:%SZ}&to={start + 2 * HOUR:%Y-%m-%dT%H:%M:%SZ}"
    )
    body = get(world, "viewer", f"usage/?{query}")
    assert body["window"] == {
        "start": f"{start:%Y-%m-%dT%H:%M:%SZ}",
        "end": f"{start + 2 * HOUR:%Y-%m-%dT%H:%M:%SZ}",
    }
    (row,) = body["results"]
    assert (row["team"], row["cluster"], row["cards_per_unit"]) == ("red", None, "1")
    # Two cards for two hours, which no pod was bound to and nobody measured.
    assert (row["reserved_unit_seconds"], row["reserved_gpu_hours"], row["bound_unit_seconds"]) == (
        "14400",
        "4",
        "0",
    )
    assert (row["measured_seconds"], row["held_idle_gpu_hours"], row["nominal_unit_seconds"]) == (None,) * 3


def test_finished_hours_come_once_in_order_and_never_twice(world: World) -> None:
    path = "usage/hours/?cluster=east"
    body = get(world, "finance", path)
    this_hour = floor_hour(world.now)
    assert body["finished_until"] == f"{this_hour:%Y-%m-%dT%H:%M:%SZ}"
    seqs = [row["seq"] for row in body["results"]]
    assert len(seqs) == 6
    assert seqs == sorted(seqs)
    assert get(world, "finance", f"{path}&after_seq={seqs[-1]}")["results"] == []
    assert [row["seq"] for row in results(world, "finance", f"{path}&after_seq={seqs[1]}")] == seqs[2:]
    assert {row["team"] for row in results(world, "red_lead", path)} == {"red"}
    assert {row["team"] for row in body["results"]} == {"red", "blue", None}


def test_hours_of_a_cluster_that_was_never_rolled_up_are_not_zero_but_unknown(world: World) -> None:
    usage_hour(world, world.red, floor_hour(world.now) - HOUR, cluster=world.west)
    body = get(world, "finance", "usage/hours/?cluster=west")
    assert (body["finished_until"], body["results"]) == (None, [])
    assert UsageHour.objects.filter(cluster=world.west).exists()


def test_weights_are_whole_slices_of_whole_slices(world: World) -> None:
    rows = {
        (row["vendor"], row["model"], row["profile"]): row
        for row in results(world, "guest", "gpu-weights/?page_size=500")
    }
    # the same profile name is an eighth of one card's memory and a quarter of the other's
    assert rows["nvidia", "A100/H100/H800 80GB", "1g.10gb"] == {
        "vendor": "nvidia",
        "model": "A100/H100/H800 80GB",
        "profile": "1g.10gb",
        "per_card": 7,
        "compute_slices": 1,
        "card_compute_slices": 7,
        "memory_slices": 1,
        "card_memory_slices": 8,
    }
    small = rows["nvidia", "A100 40GB", "1g.10gb"]
    assert (small["per_card"], small["memory_slices"], small["card_memory_slices"]) == (4, 2, 8)
    partition = rows["amd", None, "cpx_nps4"]
    assert (partition["compute_slices"], partition["card_compute_slices"]) == (1, 8)
    assert (partition["memory_slices"], partition["card_memory_slices"]) == (None, None)


def test_rates_say_where_they_hold(world: World) -> None:
    (card,) = results(world, "guest", "rates/")
    assert (card["currency"], card["valid_from"], card["borrowed_factor"]) == (
        "USD",
        "2025-01-01T00:00:00Z",
        "1",
    )
    assert card["prices"] == [
        {
            "id": card["prices"][0]["id"],
            "basis": "reserved",
            "cluster": None,
            "group": None,
            "model": MODEL,
            "sharing_mode": None,
            "profile": None,
            "per": "unit",
            "price_per_hour": "2.5",
        }
    ]
    assert card["groups"] == []


def test_rates_say_which_clusters_a_groups_price_is_of(world: World) -> None:
    made = draft(
        valid_from=datetime(2027, 1, 1, tzinfo=UTC),
        currency="USD",
        groups={"training": [world.east]},
        prices=[{"model": MODEL, "group": "training", "amount": Decimal(2)}],
    )
    publish(made.pk, by=None, now=world.now)
    card = next(card for card in results(world, "guest", "rates/") if card["id"] == made.pk)
    assert card["groups"] == [{"group": "training", "cluster": "east"}]
    (price,) = card["prices"]
    assert (price["cluster"], price["group"], price["price_per_hour"]) == (None, "training", "2")


def test_a_failed_source_is_told_to_all_and_its_raw_error_to_platform_admins(world: World) -> None:
    SourceState.objects.filter(source="kueue").update(
        last_outcome=Outcome.FAILED,
        error_kind="unauthorized",
        error="401 from https://10.0.0.1:6443",
        failures=3,
    )
    quarantine(world)
    rows = {row["source"]: row for row in results(world, "viewer", "sources/")}
    assert (rows["kueue"]["state"], rows["kueue"]["error_kind"]) == ("failed", "unauthorized")
    assert rows["kueue"]["sentence"]
    assert rows["kueue"]["action"]
    assert (rows["kueue"]["failures_in_a_row"], rows["kueue"]["quarantined_objects"]) == (3, 1)
    assert rows["kueue"]["error"] is None
    assert rows["nodes"]["sentence"] == rows["nodes"]["action"] == ""
    admins = {row["source"]: row for row in results(world, "admin", "sources/")}
    assert admins["kueue"]["error"] == "401 from https://10.0.0.1:6443"


def test_a_source_that_was_never_read_is_missing_and_has_no_age(world: World) -> None:
    SourceState.objects.filter(source="kueue").delete()
    body = get(world, "admin", "workloads/")
    assert body["state"] == "partial"
    (missing,) = body["missing"]
    assert (missing["cluster"], missing["source"], missing["state"]) == ("east", "kueue", "never")
    assert (missing["observed_at"], missing["age_seconds"]) == (None, None)
    SourceState.objects.all().delete()
    body = get(world, "admin", "workloads/")
    assert (body["as_of"], body["state"]) == (None, "never")


def test_old_numbers_are_called_stale_with_their_age(world: World) -> None:
    SourceState.objects.filter(source="kueue").update(
        last_ok_at=world.now - HOUR, last_run_at=world.now - HOUR
    )
    body = get(world, "admin", "quotas/")
    assert body["state"] == "stale"
    ages = {row["source"]: row["age_seconds"] for row in body["sources"]}
    assert ages["kueue"] >= 3600
    assert ages["volcano"] < 60


def test_findings_are_worst_first_and_of_the_readers_teams(world: World) -> None:
    quarantine(world)
    inactive = {
        "Active": {"status": "False", "reason": "FlavorNotFound", "message": "no flavor", "since": None}
    }
    for team in ("red", "blue"):
        ClusterObject.objects.filter(kind="ClusterQueue", name=f"{team}-cq").update(
            status={"conditions": inactive}
        )
    seen = {role: get(world, role, "findings/")["results"] for role in ("guest", "red_lead", "admin")}
    ranks = [{"bad": 0, "warn": 1, "note": 2}[row["severity"]] for row in seen["admin"]]
    assert ranks == sorted(ranks)
    queues = {
        role: {row["target"]["args"].get("name") for row in rows if row["target"]["kind"] == "queue"}
        for role, rows in seen.items()
    }
    assert queues == {"guest": set(), "red_lead": {"red-cq"}, "admin": {"red-cq", "blue-cq"}}
    assert any(row["target"]["kind"] == "sources" for row in seen["guest"])
    assert all(row["text"] and row["key"] and row["cluster"] == "east" for row in seen["admin"])


def test_quota_rows_are_the_queues_numbers(world: World) -> None:
    (row,) = [r for r in results(world, "viewer", "quotas/") if r["resource"] == "nvidia.com/gpu"]
    assert (row["queue"], row["flavor"], row["cohort"], row["system"]) == ("red-cq", "h100", "all", "kueue")
    assert (row["nominal"], row["reserved"], row["pending"], row["waiting_workloads"]) == ("8", "4", "4", 1)
    assert row["borrowing_limit"] is None
    assert row["teams"] == ["red"]


def test_queues_come_flat_with_their_parent(world: World) -> None:
    rows = {row["name"]: row for row in results(world, "admin", "queues/")}
    assert (rows["red-cq"]["kind"], rows["red-cq"]["parent"]) == ("ClusterQueue", "all")
    assert (rows["all"]["kind"], rows["all"]["is_implicit"]) == ("Cohort", True)
    assert rows["red-cq"]["quotas"][0]["nominal"] == "8"


def test_capacity_adds_up(world: World) -> None:
    body = get(world, "viewer", "capacity/")
    (pool,) = body["results"]
    assert (
        pool["physical_devices"] == 16 == sum(pool["device_buckets"].values()) + pool["allocatable_devices"]
    )
    assert (pool["nominal"], pool["held_bound"], pool["nodes"]) == ("16", "4", 2)
    assert body["totals"]["physical_devices"] == 16
    assert body["left_out_clusters"] == []


def test_a_node_lists_the_readers_pods_and_counts_the_others(world: World) -> None:
    assert [row["name"] for row in results(world, "guest", "nodes/")] == ["gpu-1", "gpu-2"]
    seen = {role: get(world, role, "nodes/east/gpu-1/")["result"] for role in ("guest", "viewer", "admin")}
    assert {role: [pod["name"] for pod in node["pods"]] for role, node in seen.items()} == {
        "guest": [],
        "viewer": ["red-pod"],
        "admin": ["blue-pod", "red-pod"],
    }
    assert {role: node["pods_of_others"] for role, node in seen.items()} == {
        "guest": 2,
        "viewer": 1,
        "admin": 0,
    }
    for path in ("nodes/east/nothing/", "nodes/west/gpu-1/", "nodes/nowhere/gpu-1/"):
        assert world.client("admin").get(f"{V1}/{path}").status_code == 404


def test_times_are_utc_whatever_zone_the_pages_are_in(world: World, settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Shanghai"
    assert get(world, "admin", "workloads/")["results"][0]["queued_at"].endswith("Z")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("8.000", "8"),
        ("0.500", "0.5"),
        ("-0.0", "0"),
        ("1E+3", "1000"),
        ("1E-7", "0.0000001"),
        ("100", "100"),
        ("Infinity", "Infinity"),
    ],
)
def test_decimals_are_plain_digits(value: str, text: str) -> None:
    assert DecimalText().to_representation(Decimal(value)) == text


def test_money_keeps_its_cents() -> None:
    with override("de"):
        assert DecimalText(keep_scale=True).to_representation(Decimal("1234.50")) == "1234.50"


@pytest.mark.parametrize("route", LISTS)
def test_the_number_of_queries_does_not_grow_with_the_rows(
    world: World, route: str, django_assert_max_num_queries: Any, django_assert_num_queries: Any
) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client = world.client("admin")
    client.get(f"{V1}/{route}/")
    with CaptureQueriesContext(connection) as few:
        client.get(f"{V1}/{route}/")
    for number in range(12):
        workload(
            world,
            f"more-{number}",
            team=("red", "blue")[number % 2],
            state=("pending", "admitted")[number % 2],
        )
        usage_hour(world, world.red, floor_hour(world.now) - HOUR, queue=f"q{number}")
        held_hour(world, world.red, floor_hour(world.now) - HOUR, queue=f"q{number}")
    with CaptureQueriesContext(connection) as many:
        client.get(f"{V1}/{route}/")
    assert len(many) == len(few), [query["sql"][:200] for query in many]
    assert len(many) <= MOST_QUERIES.get(route, 25)


def test_rows_are_told_in_every_measure(world: World) -> None:
    labels = {"nvidia.com/gpu.memory": "81920", "karpenter.sh/capacity-type": "spot"}
    for node in Node.objects.filter(name="gpu-1"):
        node.labels |= labels
        node.save()
    row = results(world, "viewer", "nodes/")[0]
    assert (row["capacity_type"], row["origin"], row["stranded"]) == ("spot", "plugin", "0")
    assert row["uncovered_slices"] == {"compute": 0, "memory": 0}
    assert row["mode_sentence"]
    told = {
        name: (found["unit"], found["physical"], found["held_bound"])
        for name, found in row["amounts"].items()
    }
    assert told == {
        "units": ("card", "8", "4"),
        "equivalents": ("gpu_equivalent", "8", "4"),
        "memory": ("byte", str(8 * 80 * 2**30), str(4 * 80 * 2**30)),
    }
    pool = results(world, "viewer", "capacity/")[0]
    assert pool["amounts"]["equivalents"]["nominal"] == pool["nominal"] == "16"
    assert (pool["guarantee"], pool["held_admitted"] is None) == (
        None,
        pool["amounts"]["units"]["held_admitted"] is None,
    )


def test_a_node_names_its_software(world: World) -> None:
    Node.objects.filter(name="gpu-1").update(info={"kubelet": "v1.32.4", "kernel": "6.8.0"})
    found = get(world, "viewer", "nodes/east/gpu-1/")["result"]["software"]
    assert found == [
        {"component": "kernel", "version": "6.8.0", "said_by": "node"},
        {"component": "kubelet", "version": "v1.32.4", "said_by": "node"},
    ]
    rows = {row["component"]: row for row in results(world, "guest", "stack/") if row["version"]}
    assert rows["kubelet"]["nodes"] == ["gpu-1"]
    assert (rows["kubelet"]["of_nodes"], rows["kubelet"]["outliers"]) == (2, [])
