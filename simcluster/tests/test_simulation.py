"""The simulation itself: it repeats exactly, gives away nothing twice, keeps to the quota, and says true things."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from apps.core.quantity import parse_quantity
from simcluster.engine.simulation import Simulation
from simcluster.kinds import KINDS
from simcluster.scenario import load
from simcluster.simapi import line
from simcluster.store import Store
from simcluster.telemetry import Telemetry
from simcluster.testing import running

EPOCH = 1_795_500_000
DAY = 86400


def simulation(seed: int = 5, epoch: int = EPOCH) -> Simulation:
    return Simulation(load(), Store(now=epoch), Telemetry(epoch), seed=seed, epoch=epoch)


def history(sim: Simulation) -> bytes:
    return b"".join(line(change) for change in sim.world.store.history)


@pytest.fixture(scope="module")
def stepped() -> tuple[Simulation, list[dict[str, Any]]]:
    """A run of four days, looked at every two hours."""
    sim = simulation()
    looks = []
    for hour in range(2, 97, 2):
        sim.run_until(EPOCH + 3600 * hour)
        looks.append(look(sim))
    return sim, looks


def look(sim: Simulation) -> dict[str, Any]:
    """What has to hold at any time, read from the objects as a client sees them where possible."""
    owners: Counter[tuple[str, str, int]] = Counter()
    for side in (sim.kueue, sim.volcano):
        for job in side.jobs.values():
            for pod in job.pod_states:
                for unit in pod.units:
                    assert pod.node is not None
                    owners[pod.node.name, job.stream.resource, unit.index] += 1
    tree = sim.quota.tree
    over = [
        (name, fr)
        for kind, name in tree
        if kind == "ClusterQueue"
        for fr in tree.node(kind, name).cells
        if tree.over(kind, name, fr) > 0
    ]
    roots = [root for root in tree.roots for fr in tree.flavor_resources if tree.available(*root, fr) < 0]
    return {"twice": [key for key, n in owners.items() if n > 1], "over": over, "roots": roots}


# ---- it repeats -------------------------------------------------------------------------------------------------
def test_the_same_seed_gives_the_same_bytes_however_it_is_stepped(
    stepped: tuple[Simulation, list[dict[str, Any]]],
) -> None:
    at_once = simulation()
    at_once.run_until(EPOCH + 96 * 3600)
    assert history(at_once) == history(stepped[0])


def test_another_seed_gives_another_history() -> None:
    one, other = simulation(1), simulation(2)
    for sim in (one, other):
        sim.run_until(EPOCH + DAY // 2)
    assert history(one) != history(other)


def test_history_replayed_is_the_present(stepped: tuple[Simulation, list[dict[str, Any]]]) -> None:
    store = stepped[0].world.store
    replayed: dict[str, dict[str, bytes]] = {}
    for change in store.history:
        meta = json.loads(change.raw)["metadata"]
        kept = replayed.setdefault(change.kind.name, {})
        if change.type == "DELETED":
            del kept[meta["uid"]]
        else:
            assert (meta["uid"] in kept) == (change.type == "MODIFIED")
            kept[meta["uid"]] = change.raw
    for kind in KINDS.values():
        present = {json.loads(raw)["metadata"]["uid"]: raw for raw in store.raws(kind)}
        if kind.name == "Event":  # the cluster forgets them after an hour, the history does not
            assert present.items() <= replayed["Event"].items()
        elif kind.name != "Namespace":
            assert present == replayed.get(kind.name, {})


def test_versions_and_times_only_grow(stepped: tuple[Simulation, list[dict[str, Any]]]) -> None:
    changes = stepped[0].world.store.history
    assert all(a.version < b.version and a.at <= b.at for a, b in pairwise(changes))


# ---- it gives away nothing twice --------------------------------------------------------------------------------
def test_no_device_is_given_to_two_pods(stepped: tuple[Simulation, list[dict[str, Any]]]) -> None:
    assert all(not found["twice"] for found in stepped[1])


def test_free_and_taken_devices_add_up(stepped: tuple[Simulation, list[dict[str, Any]]]) -> None:
    sim = stepped[0]
    taken: Counter[tuple[str, str]] = Counter()
    for side in (sim.kueue, sim.volcano):
        for job in side.jobs.values():
            for pod in job.pod_states:
                if pod.node:
                    taken[pod.node.name, job.stream.resource] += len(pod.units)
    for node in sim.fleet.nodes.values():
        for resource, units in node.units.items():
            free = node.free[resource]
            assert free == sorted(set(free))
            assert len(free) + taken[node.name, resource] <= len(units)
            assert all(units[index].healthy for index in free)


def test_pods_of_a_node_fit_into_what_it_can_allocate(
    stepped: tuple[Simulation, list[dict[str, Any]]],
) -> None:
    store = stepped[0].world.store
    nodes = {node["metadata"]["name"]: node for node in store.objects(KINDS["Node"])}
    asked: Counter[tuple[str, str]] = Counter()
    for pod in store.objects(KINDS["Pod"]):
        if pod["status"]["phase"] in ("Succeeded", "Failed") or "nodeName" not in pod["spec"]:
            continue
        served = pod["status"].get("extendedResourceClaimStatus", {}).get("requestMappings", ())
        by_claim = {mapping["resourceName"] for mapping in served}
        for resource, amount in pod["spec"]["containers"][0]["resources"]["requests"].items():
            if resource in by_claim:
                continue
            asked[pod["spec"]["nodeName"], resource] += int(parse_quantity(amount))
    assert asked
    for (node, resource), amount in asked.items():
        assert amount <= parse_quantity(nodes[node]["status"]["allocatable"][resource]), (node, resource)


# ---- it keeps to the quota --------------------------------------------------------------------------------------
def test_usage_stays_within_the_tree(stepped: tuple[Simulation, list[dict[str, Any]]]) -> None:
    assert all(not found["over"] and not found["roots"] for found in stepped[1])


def test_the_tree_counts_what_the_workloads_say(stepped: tuple[Simulation, list[dict[str, Any]]]) -> None:
    """What is reserved by the objects' own words is what the tree holds."""
    sim = stepped[0]
    sums: Counter[tuple[str, str, str]] = Counter()
    for work in sim.world.store.objects(KINDS["Workload"]):
        conditions = {c["type"]: c["status"] for c in work["status"].get("conditions", ())}
        if conditions.get("QuotaReserved") != "True" or conditions.get("Finished") == "True":
            continue
        admission = work["status"]["admission"]
        for one in admission["podSetAssignments"]:
            for resource, amount in one["resourceUsage"].items():
                key = (admission["clusterQueue"], one["flavors"][resource], resource)
                sums[key] += int(parse_quantity(amount))
    tree = sim.quota.tree
    held = {
        (name, *fr): int(tree.usage(kind, name, fr))
        for kind, name in tree
        if kind == "ClusterQueue"
        for fr in tree.flavor_resources
        if tree.usage(kind, name, fr)
    }
    assert dict(sums) == held


def test_queue_counters_follow_a_moment_later(stepped: tuple[Simulation, list[dict[str, Any]]]) -> None:
    sim = stepped[0]
    sim.kueue.status._flush()
    for queue in sim.world.store.objects(KINDS["ClusterQueue"]):
        mine = sim.quota.queues[queue["metadata"]["name"]]
        assert queue["status"]["pendingWorkloads"] == len(mine.pending)
        assert queue["status"]["reservingWorkloads"] == len(mine.holding)
        for flavor in queue["status"]["flavorsReservation"]:
            for resource in flavor["resources"]:
                fr = (flavor["name"], resource["name"])
                assert parse_quantity(resource["total"]) == sim.quota.tree.usage(
                    "ClusterQueue", mine.name, fr
                )
                borrowed = sim.quota.tree.borrowed("ClusterQueue", mine.name, fr)
                assert parse_quantity(resource["borrowed"]) == borrowed


def test_a_volcano_queue_stays_below_its_capability(stepped: tuple[Simulation, list[dict[str, Any]]]) -> None:
    for queue in stepped[0].world.store.objects(KINDS["VolcanoQueue"]):
        for resource, most in queue["spec"].get("capability", {}).items():
            used = parse_quantity(queue["status"]["allocated"].get(resource, "0"))
            assert used <= parse_quantity(most)


# ---- it is worth looking at -------------------------------------------------------------------------------------
CAUSES = {
    "quota in use": "insufficient unused quota for nvidia.com/gpu in flavor",
    "over the ceiling": "> maximum capacity",
    "taint": "untolerated taint {spot true NoSchedule <nil>} in flavor h100-spot",
    "affinity": "doesn't match node affinity",
    "not covered": "resource nvidia.com/mig-7g.80gb unavailable in ClusterQueue",
    "topology": 'topology "gpu-fabric"',
    "inactive": "ClusterQueue next-generation-cq is inactive",
    "held": "ClusterQueue archive-cq is inactive",
    "no queue": "LocalQueue genomics doesn't exist",
    "preemption": "Pending the preemption of",
    "preempted": "Preempted to accommodate a workload (UID: ",
}


@pytest.fixture(scope="module")
def fortnight() -> Simulation:
    sim = simulation(seed=1)
    sim.run_until(EPOCH + 14 * DAY)
    return sim


def test_every_kind_of_waiting_happens(fortnight: Simulation) -> None:
    text = b"".join(c.raw for c in fortnight.world.store.history if c.kind.name == "Workload").decode()
    assert {name for name, words in CAUSES.items() if json.dumps(words)[1:-1] not in text} == set()
    checks = json.dumps({"name": "budget-check", "state": "Pending"}).replace(" ", "")[1:-1]
    assert checks in text
    events = b"".join(c.raw for c in fortnight.world.store.history if c.kind.name == "Event").decode()
    for words in (
        "queue resource quota insufficient: insufficient nvidia.com/gpu",
        "nodes are available: ",
        "nodes are unavailable: ",
        "tasks in gang unschedulable: pod group is not ready",
        '"reason":"PreemptedWorkload"',
        '"reason":"NodeNotReady"',
        "Failed to pull image",
        '"reason":"BackoffLimitExceeded"',
    ):
        assert words in events, words


def test_the_size_of_a_fortnight(fortnight: Simulation) -> None:
    changes = Counter((c.kind.name, c.type) for c in fortnight.world.store.history)
    assert 1500 <= changes["Workload", "ADDED"] <= 2800
    assert 200 <= changes["PodGroup", "ADDED"] <= 700
    assert len(fortnight.world.store.history) < 90_000


def test_what_is_broken_is_broken_now(fortnight: Simulation) -> None:
    nodes = {node["metadata"]["name"]: node for node in fortnight.world.store.objects(KINDS["Node"])}
    assert nodes["a100-05"]["spec"]["unschedulable"] is True
    ready = {c["type"]: c for c in nodes["a100-06"]["status"]["conditions"]}["Ready"]
    assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
    taints = {(taint["key"], taint["effect"]) for taint in nodes["a100-06"]["spec"]["taints"]}
    assert taints >= {("node.kubernetes.io/unreachable", "NoExecute")}
    assert nodes["h100-09"]["status"]["allocatable"]["nvidia.com/gpu"] == "7"
    assert nodes["h100-09"]["status"]["capacity"]["nvidia.com/gpu"] == "8"
    assert nodes["l4-renamed-01"]["status"]["capacity"]["nvidia.com/gpu.shared"] == "16"
    assert nodes["l4-renamed-01"]["status"]["capacity"]["nvidia.com/gpu"] == "0"


def test_a_flavor_reaches_real_nodes(fortnight: Simulation) -> None:
    """Every flavor but the missing one selects at least one node of the fleet."""
    nodes = [node["metadata"]["labels"] for node in fortnight.world.store.objects(KINDS["Node"])]
    for flavor in fortnight.world.store.objects(KINDS["ResourceFlavor"]):
        wanted = flavor["spec"]["nodeLabels"].items()
        assert any(wanted <= labels.items() for labels in nodes), flavor["metadata"]["name"]


def test_events_are_forgotten_after_an_hour(fortnight: Simulation) -> None:
    oldest = fortnight.now - 3600 - 1
    for event in fortnight.world.store.objects(KINDS["Event"]):
        last = event["lastTimestamp"] or event.get("series", {}).get("lastObservedTime") or event["eventTime"]
        assert last >= time_text(oldest)


def time_text(at: float) -> str:
    from simcluster.timestamps import stamp

    return stamp(at)


# ---- in real time -----------------------------------------------------------------------------------------------
def test_a_restart_continues_where_it_was(tmp_path: Path) -> None:
    clock = [float(EPOCH + 2 * DAY)]

    def now() -> float:
        return clock[0]

    with running(scenario=True, days=2, folder=tmp_path, clock=now) as first:
        assert first.driver is not None
        clock[0] += 1800
        first.driver.step()
        ended = {kind: first.store.objects(kind) for kind in ("Pod", "Workload", "ClusterQueue")}
        version = first.store.store.version
    with running(scenario=True, days=2 + 1800 / DAY, folder=tmp_path, clock=now) as again:
        assert {kind: again.store.objects(kind) for kind in ended} == ended
        assert again.store.store.version >= version


def test_something_changes_at_least_every_half_minute() -> None:
    clock = [float(EPOCH + DAY)]
    with running(scenario=True, days=1, clock=lambda: clock[0]) as sim:
        assert sim.driver is not None
        for _ in range(20):
            before = sim.store.store.version
            clock[0] += 30
            sim.driver.step()
            assert sim.store.store.version > before


def test_quantities_in_workloads_are_exact(fortnight: Simulation) -> None:
    for work in fortnight.world.store.objects(KINDS["Workload"])[:50]:
        for one in work["status"].get("admission", {}).get("podSetAssignments", ()):
            template = work["spec"]["podSets"][0]["template"]["spec"]["containers"][0]
            for resource, total in one["resourceUsage"].items():
                each = parse_quantity(template["resources"]["requests"][resource])
                assert parse_quantity(total) == each * Decimal(one["count"])
