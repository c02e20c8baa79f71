"""Beat → broker → worker → API → tables, with every part real and each hurt in turn."""

from __future__ import annotations

import copy
import time

import pytest

from simcluster.testing import Running

from .plant import INTERVAL, Plant, happens

pytestmark = [pytest.mark.pipeline, pytest.mark.xdist_group("pipeline"), pytest.mark.timeout(240)]
SOURCES = ["nodes", "pods", "events", "kueue", "volcano", "devices", "dcgm"]
KUBERNETES = SOURCES[:-1]
LIVE = {
    "observations_node": ["Node"],
    "observations_pod": ["Pod"],
    "observations_workload": ["Workload", "PodGroup"],
}


def live_rows(plant: Plant, table: str) -> int:
    return plant.number(f"SELECT count(*) FROM {table} WHERE gone_at IS NULL")  # noqa: S608


def everything_is_known(plant: Plant, sim: Running) -> bool:
    return all(
        live_rows(plant, table) == sum(sim.store.count(kind) for kind in kinds)
        for table, kinds in LIVE.items()
    )


@pytest.fixture
def collected(plant: Plant, sim: Running) -> Plant:
    """The pipeline with everything read at least once."""
    assert happens(lambda: all(plant.good_pulls(source) for source in SOURCES), 60), plant.log("worker")
    assert happens(lambda: everything_is_known(plant, sim), 4 * INTERVAL)
    return plant


def test_every_source_reaches_its_tables(collected: Plant, sim: Running) -> None:
    held = collected.ask(
        "SELECT kind, count(*) AS n FROM observations_clusterobject WHERE gone_at IS NULL GROUP BY kind"
    )
    counts = {row["kind"]: row["n"] for row in held}
    kueue = ("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor", "AdmissionCheck", "Topology")
    devices = ("DeviceClass", "ResourceSlice", "ResourceClaim", "ClusterPolicy")
    for kind in (*kueue, *devices, "VolcanoQueue", "HyperNode"):
        assert counts[kind] == sim.store.count(kind), kind
    assert collected.number("SELECT count(*) FROM observations_event") >= sim.store.count("Event") > 0
    assert collected.number("SELECT count(DISTINCT device) FROM observations_devicesample") > 100
    open_spans = collected.number("SELECT count(*) FROM observations_statespan WHERE ended_at IS NULL")
    assert open_spans == live_rows(collected, "observations_workload")


def test_a_quiet_cluster_costs_no_rows(collected: Plant) -> None:
    assert collected.pulls_well_again(KUBERNETES)
    newest = collected.ask(
        "SELECT DISTINCT ON (source) source, mode, rows_written, rows_gone FROM observations_collectionrun"
        " WHERE source <> 'dcgm' ORDER BY source, started_at DESC"
    )
    assert {row["source"] for row in newest} == set(KUBERNETES)
    for row in newest:
        assert (row["mode"], row["rows_written"], row["rows_gone"]) == ("watch", 0, 0), row


def test_a_change_and_a_delete_are_seen_by_the_next_tick(collected: Plant, sim: Running) -> None:
    workload = sim.store.objects("Workload")[0]
    meta = workload["metadata"]
    node = copy.deepcopy(sim.store.objects("Node")[0])
    node["spec"]["unschedulable"] = True
    sim.store.upsert("Node", node)
    assert sim.store.delete("Workload", meta["name"], meta["namespace"])
    assert happens(
        lambda: (
            collected.ask(
                "SELECT 1 FROM observations_workload WHERE uid = %s AND gone_at IS NOT NULL", meta["uid"]
            )
            != []
        ),
        3 * INTERVAL,
    )
    assert happens(
        lambda: (
            collected.ask(
                "SELECT 1 FROM observations_node WHERE name = %s AND unschedulable", node["metadata"]["name"]
            )
            != []
        ),
        3 * INTERVAL,
    )
    ended = collected.number(
        "SELECT count(*) FROM observations_statespan WHERE uid = %s AND ended_at IS NULL", meta["uid"]
    )
    assert ended == 0


def test_a_refusing_api_shows_and_heals(collected: Plant, sim: Running) -> None:
    before = live_rows(collected, "observations_pod")
    sim.faults.add("Pod", status=403)
    assert happens(
        lambda: (
            collected.ask(
                "SELECT 1 FROM observations_sourcestate WHERE source = 'pods' AND error_kind = 'forbidden'"
            )
            != []
        ),
        3 * INTERVAL,
    )
    assert live_rows(collected, "observations_pod") == before
    sim.faults.clear()
    assert collected.pulls_well_again(["pods"])
    assert collected.ask(
        "SELECT error_kind, failures FROM observations_sourcestate WHERE source = 'pods'"
    ) == [{"error_kind": "", "failures": 0}]


def test_redis_restarted_in_the_middle_of_a_pull(collected: Plant, sim: Running) -> None:
    before = {table: live_rows(collected, table) for table in LIVE}
    sim.faults.add("*", on="watch", delay=1.5)
    assert happens(lambda: pull_is_under_way(collected), 3 * INTERVAL)
    collected.kill("redis")
    time.sleep(1)
    collected.start_redis()
    sim.faults.clear()
    assert collected.pulls_well_again(SOURCES, 6 * INTERVAL), collected.log("worker")[-3000:]
    assert {table: live_rows(collected, table) for table in LIVE} == before


def test_postgres_restarted_in_the_middle_of_a_pull(collected: Plant, sim: Running) -> None:
    before = {table: live_rows(collected, table) for table in LIVE}
    sim.faults.add("*", on="watch", delay=1.5)
    assert happens(lambda: pull_is_under_way(collected), 3 * INTERVAL)
    collected.kill("postgres")
    time.sleep(1)
    collected.start_postgres()
    sim.faults.clear()
    assert collected.pulls_well_again(SOURCES, 6 * INTERVAL), collected.log("worker")[-3000:]
    assert {table: live_rows(collected, table) for table in LIVE} == before
    failing = collected.ask(
        "SELECT source, error FROM observations_sourcestate WHERE last_outcome = 'failed'"
    )
    assert failing == []


def test_a_killed_worker_loses_nothing_and_its_lease_ends(collected: Plant, sim: Running) -> None:
    sim.faults.add("*", on="watch", delay=1.5)
    assert happens(lambda: pull_is_under_way(collected), 3 * INTERVAL)
    collected.kill("worker")
    sim.faults.clear()
    collected.start_worker()
    assert collected.pulls_well_again(SOURCES, 6 * INTERVAL), collected.log("worker")[-3000:]
    assert everything_is_known(collected, sim)


def test_two_workers_never_pull_one_source_at_once(collected: Plant) -> None:
    overlaps = collected.ask(
        "SELECT a.source, a.started_at, b.started_at AS other FROM observations_collectionrun a"
        " JOIN observations_collectionrun b ON a.cluster_id = b.cluster_id AND a.source = b.source"
        " AND a.id < b.id AND a.started_at < b.ended_at AND b.started_at < a.ended_at"
        " WHERE a.outcome <> 'skipped' AND b.outcome <> 'skipped'"
    )
    assert overlaps == []


def pull_is_under_way(plant: Plant) -> bool:
    return plant.number("SELECT count(*) FROM observations_sourcestate WHERE lease_until > now()") > 0
