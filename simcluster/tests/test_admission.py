"""How the simulated Kueue admits: written by hand in small clusters, and the demo against the engine at rest.

Each test has queues of its own over the demo's fleet; amounts are cards of flavor "a100" unless said otherwise.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from apps.quotas.engine.settle import settle
from simcluster.engine.model import Job, Phase
from simcluster.engine.simulation import Simulation
from simcluster.kinds import KINDS
from simcluster.scenario import load
from simcluster.store import Store
from simcluster.telemetry import Telemetry

from .test_simulation import DAY, EPOCH, simulation

GPU = "nvidia.com/gpu"
LABELS = {
    "a100": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "node-pool": "gpu"},
    "h100": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "node-pool": "gpu"},
    "h100-fabric": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "node-pool": "fabric"},
}
SCENARIO = load()
LOWER = {"withinClusterQueue": "LowerPriority"}


def cluster_queue(name: str, quotas: dict[str, int], cohort: str = "", **spec: Any) -> dict[str, Any]:
    def resources(cards: int) -> list[dict[str, str]]:
        return [
            {"name": resource, "nominalQuota": amount}
            for resource, amount in (("cpu", "9000"), ("memory", "90Ti"), (GPU, str(cards)))
        ]

    flavors = [{"name": flavor, "resources": resources(cards)} for flavor, cards in quotas.items()]
    group = {"coveredResources": ["cpu", "memory", GPU], "flavors": flavors}
    placed = {"cohortName": cohort} if cohort else {}
    return {"metadata": {"name": name}, "spec": {"resourceGroups": [group], **placed, **spec}}


class Small:
    """A cluster with these ClusterQueues, each with a LocalQueue of its own name, and nothing that arrives by itself."""

    def __init__(self, *queues: dict[str, Any]) -> None:
        flavors: list[dict[str, Any]] = [
            {"metadata": {"name": name}, "spec": {"nodeLabels": labels}} for name, labels in LABELS.items()
        ]
        flavors[-1]["spec"]["topologyName"] = "gpu-fabric"
        checks = [{"metadata": {"name": "budget-check"}, "spec": {"controllerName": "x"}}]
        objects = {"ResourceFlavor": flavors, "ClusterQueue": list(queues), "AdmissionCheck": checks}
        names = {queue["metadata"]["name"]: queue["metadata"]["name"] for queue in queues}
        usual = next(team for team in SCENARIO.teams if not team.volcano_queues)
        team = replace(usual, local_queues=names, streams=())
        scenario = replace(
            SCENARIO,
            teams=(team,),
            fleet=replace(SCENARIO.fleet, incidents=()),
            queues=replace(SCENARIO.queues, objects=objects),
        )
        self.team, self.stream = team, usual.streams[0]
        self.sim = Simulation(scenario, Store(now=EPOCH), Telemetry(EPOCH), seed=1, epoch=EPOCH)
        self.count = 0

    def submit(
        self, queue: str, cards: int, *, pods: int = 1, priority: int = 100, rack: bool = False
    ) -> Job:
        """Work of `pods` pods with `cards` cards each, that runs for a day."""
        self.count += 1
        level = "cloud.provider.com/topology-rack" if rack else ""
        stream = replace(
            self.stream,
            name=f"s{cards}-{pods}{level}",
            queue=queue,
            topology=level,
            selector={},
            resource=GPU,
            image_pull_failing=0.0,
        )
        job = Job(
            number=self.count,
            team=self.team,
            stream=stream,
            name=f"job-{self.count}",
            uid=f"job-uid-{self.count}",
            workload=f"work-{self.count}",
            created=self.sim.now,
            pods=pods,
            gpus=cards,
            duration=DAY,
            fails=False,
            profile=stream.profile,
            patience=9 * DAY,
            priority=priority,
            totals={"cpu": cards * pods, "memory": (cards * pods) << 30, GPU: cards * pods},
            obj={},
            queued=self.sim.now,
        )
        self.sim.kueue.submit(job)
        return job

    def wait(self, seconds: int = 40) -> None:
        self.sim.run_until(self.sim.now + seconds)

    def edit(self, kind: str, name: str, namespace: str = "", **spec: Any) -> None:
        obj = self.sim.world.store.get(KINDS[kind], f"{namespace}/{name}")
        assert obj is not None
        self.sim.edited(KINDS[kind], {**obj, "spec": {**obj["spec"], **spec}})

    def activate(self, job: Job, *, active: bool) -> None:
        self.edit("Workload", job.workload, job.namespace, active=active)


def holds(job: Job) -> bool:
    return bool(job.held)


def said(job: Job, kind: str = "QuotaReserved") -> str:
    conditions = {c["type"]: c for c in job.obj["status"].get("conditions", ())}
    return str(conditions[kind]["message"]) if kind in conditions else ""


# ---- order ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("strategy", "starts"), [("StrictFIFO", False), ("BestEffortFIFO", True)])
def test_a_strict_head_blocks_and_what_is_behind_it_has_no_reason(strategy: str, *, starts: bool) -> None:
    """8 cards, 4 taken: 6 do not fit; 2 would."""
    here = Small(cluster_queue("q", {"a100": 8}, queueingStrategy=strategy))
    here.submit("q", 4)
    here.wait()
    big, small = here.submit("q", 6), here.submit("q", 2)
    here.wait()
    assert said(big).endswith("insufficient unused quota for nvidia.com/gpu in flavor a100, 2 more needed")
    assert (holds(small), said(small) == "") == (starts, not starts)
    assert here.sim.quota.waiting_order("q") == ([big] if starts else [big, small])


# ---- victims ------------------------------------------------------------------------------------------------------------
def test_a_victim_that_takes_time_keeps_its_quota_from_those_behind() -> None:
    here = Small(cluster_queue("q", {"a100": 4}, preemption=LOWER))
    low = here.submit("q", 4)
    here.wait()
    high = here.submit("q", 4, priority=500)
    here.wait(2)
    assert said(high).endswith("4 more needed. Pending the preemption of 1 workload(s)")
    assert (low.phase, holds(low), holds(high)) == (Phase.EVICTED, True, False)
    late = here.submit("q", 1)
    here.wait(1)
    assert here.sim.quota.waiting_order("q") == [high, late]
    here.wait()
    assert (holds(high), holds(low), holds(late)) == (True, False, False)
    # its creation counts, not when it was preempted
    assert here.sim.quota.waiting_order("q") == [low, late]


def test_what_was_lent_is_reclaimed() -> None:
    reclaim = {"reclaimWithinCohort": "Any"}
    here = Small(
        cluster_queue("a", {"a100": 4}, "c", preemption=reclaim), cluster_queue("b", {"a100": 4}, "c")
    )
    first, second = here.submit("b", 4), here.submit("b", 4)
    here.wait()
    owner = here.submit("a", 4, priority=-10)
    here.wait()
    # b may keep its own 4; of two equals the one that was reserved last goes
    assert sum(holds(job) for job in (first, second)) == 1
    assert holds(owner)
    gone = first if not holds(first) else second
    assert "due to reclamation within the cohort; preemptor path: /c/a; preemptee path: /c/b" in said(
        gone, "Preempted"
    )


@pytest.mark.parametrize(("threshold", "goes"), [(100, True), (50, False)])
def test_who_borrows_may_preempt_only_as_borrow_within_cohort_says(threshold: int, *, goes: bool) -> None:
    """a has 2, b has 2, c lends 4. b holds all 8, 6 of them borrowed; a asks for 4, that is 2 beyond its own."""
    borrow = {"policy": "LowerPriority", "maxPriorityThreshold": threshold}
    here = Small(
        cluster_queue(
            "a", {"a100": 2}, "c", preemption={"reclaimWithinCohort": "Any", "borrowWithinCohort": borrow}
        ),
        cluster_queue("b", {"a100": 2}, "c"),
        cluster_queue("lends", {"a100": 4}, "c"),
    )
    first, second = here.submit("b", 4, priority=100), here.submit("b", 4, priority=100)
    here.wait()
    assert holds(first)
    assert holds(second)
    mine = here.submit("a", 4, priority=500)
    here.wait()
    assert holds(mine) is goes
    victims = [job for job in (first, second) if not holds(job)]
    assert [
        "due to reclamation within the cohort while borrowing;" in said(v, "Preempted") for v in victims
    ] == [True] * goes


# ---- flavors and places ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("when", "flavor"), [("MayStopSearch", "a100"), ("TryNextFlavor", "h100")])
def test_fungibility_says_whether_the_next_flavor_comes_before_borrowing(when: str, flavor: str) -> None:
    here = Small(
        cluster_queue("q", {"a100": 2, "h100": 8}, "c", flavorFungibility={"whenCanBorrow": when}),
        cluster_queue("lends", {"a100": 8}, "c"),
    )
    job = here.submit("q", 4)
    here.wait()
    assert job.flavors[GPU] == flavor


def test_pods_that_do_not_fit_into_one_rack_wait_though_there_is_quota() -> None:
    here = Small(cluster_queue("q", {"h100-fabric": 90}))
    racks: dict[str, int] = {}
    for node in here.sim.fleet.matching(LABELS["h100-fabric"], GPU):
        rack = node.labels["cloud.provider.com/topology-rack"]
        racks[rack] = racks.get(rack, 0) + len(node.free[GPU]) // 8
    most = max(racks.values())
    wide = here.submit("q", 8, pods=most + 1, rack=True)
    here.wait()
    topology = 'couldn\'t assign flavors to pod set main: topology "gpu-fabric"'
    assert said(wide) == f"{topology} allows to fit only {most} out of {most + 1} pod(s)"
    for node in here.sim.fleet.matching(LABELS["h100-fabric"], GPU):
        here.sim.fleet.cordon(node, True)
    none = here.submit("q", 8, pods=1, rack=True)
    here.wait()
    assert said(none) == f"{topology} doesn't allow to fit any of 1 pod(s)"
    for node in here.sim.fleet.matching(LABELS["h100-fabric"], GPU):
        here.sim.fleet.cordon(node, False)
    here.sim._room()
    here.wait()
    assert (holds(none), holds(wide)) == (True, False)


# ---- edits ------------------------------------------------------------------------------------------------------------------
def test_an_edit_reaches_work_that_waits() -> None:
    here = Small(cluster_queue("q", {"a100": 4}))
    job = here.submit("q", 6)
    here.wait()
    assert said(job).endswith("current podset request (6) > maximum capacity (4)")
    here.edit("ClusterQueue", "q", **cluster_queue("q", {"a100": 6})["spec"])
    here.wait()
    assert holds(job)


def test_a_queue_that_is_stopped_and_started_at_once_says_why_work_waits() -> None:
    here = Small(cluster_queue("q", {"a100": 4}))
    job = here.submit("q", 6)
    here.wait()
    before = said(job)
    here.edit("ClusterQueue", "q", stopPolicy="Hold")
    assert said(job) == "ClusterQueue q is inactive"
    here.edit("ClusterQueue", "q", stopPolicy="None")
    here.wait()
    assert said(job) == before


def test_hold_takes_back_what_waits_for_its_checks_and_leaves_what_runs() -> None:
    checks = {"admissionChecks": [{"name": "budget-check"}]}
    checked = cluster_queue("checked", {"a100": 4}, admissionChecksStrategy=checks)
    here = Small(checked, cluster_queue("plain", {"a100": 4}))
    asked, runs = here.submit("checked", 4), here.submit("plain", 4)
    here.wait()
    assert (asked.phase, runs.phase) == (Phase.CHECKING, Phase.RUNNING)
    for name in ("checked", "plain"):
        here.edit("ClusterQueue", name, stopPolicy="Hold")
    here.wait()
    assert (holds(asked), holds(runs)) == (False, True)
    assert said(asked) == "ClusterQueue checked is inactive"


def test_a_local_queue_that_is_stopped_after_submission_lets_others_past() -> None:
    here = Small(cluster_queue("q", {"a100": 4}, queueingStrategy="StrictFIFO"))
    runs = here.submit("q", 4)
    here.wait()
    waits = here.submit("q", 4)
    here.wait()
    here.edit("LocalQueue", "q", here.team.namespace, stopPolicy="HoldAndDrain")
    here.wait()
    assert not holds(runs)
    assert said(runs, "Evicted") == "The LocalQueue is stopped"
    assert {said(job) for job in (runs, waits)} == {"LocalQueue q is inactive"}
    assert here.sim.quota.waiting_order("q") == []
    here.edit("LocalQueue", "q", here.team.namespace, stopPolicy="None")
    here.wait()
    assert (holds(runs), holds(waits)) == (True, False)


def test_deactivated_work_makes_room_and_takes_its_old_place_once_it_is_active_again() -> None:
    here = Small(cluster_queue("q", {"a100": 4}))
    jobs = []
    for _ in range(3):
        jobs.append(here.submit("q", 4))
        here.wait()
    first, second, third = jobs
    assert holds(first)
    here.activate(first, active=False)
    here.activate(third, active=False)
    here.wait()
    assert [holds(job) for job in (first, second, third)] == [False, True, False]
    assert here.sim.quota.waiting_order("q") == []
    here.activate(third, active=True)
    here.activate(first, active=True)
    here.wait()
    assert said(first, "Requeued") == "The workload was reactivated"
    order = here.sim.quota.waiting_order("q")
    assert order == [first, third]


# ---- against the engine at rest ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", [1, 5])
def test_where_the_demo_rests_the_engine_rests_too(seed: int) -> None:
    """Nothing was forgotten: what waits would not start if everything were looked at anew. Places are not the engine's."""
    sim, looked = simulation(seed), 0
    for hour in range(3, 24 * 4, 3):
        sim.run_until(EPOCH + 3600 * hour + 30)
        going = [job for job in sim.quota.by_uid.values() if job.phase is Phase.EVICTED]
        if going or not sim.quota.scheduler.at_rest or sim.kueue._cycle_planned:
            continue
        looked += 1
        found = settle(sim.quota.present())
        placed = {job.obj["metadata"]["uid"] for job in sim.quota.by_uid.values() if "topology" in said(job)}
        assert (set(found.admitted) - placed, found.preempted) == (set(), ())
        assert {u for u, job in sim.quota.by_uid.items() if job.held} == found.kept
        for name in sim.quota.queues:
            held = {fr: n for fr in sim.quota.tree.flavor_resources if (n := usage(sim, name, fr))}
            if not placed:
                assert held == found.usage[name]
    assert looked >= 15


def usage(sim: Simulation, queue: str, fr: tuple[str, str]) -> Any:
    return sim.quota.tree.usage("ClusterQueue", queue, fr)


def burst(seed: int, **policy: Any) -> Small:
    """Sixty pieces of work at once, in a cohort with a strict queue and two flavors."""
    here = Small(
        cluster_queue("a", {"a100": 9, "h100": 6}, "c", preemption=policy),
        cluster_queue("b", {"a100": 12, "h100": 0}, "c", queueingStrategy="StrictFIFO", preemption=policy),
        cluster_queue("d", {"h100": 16, "a100": 3}, "c", preemption=policy),
    )
    chance = here.sim.world.random("burst", seed)
    for _ in range(60):
        priority = chance.choice([-10, 100, 500])
        here.submit(chance.choice("abd"), chance.choice([1, 2, 4, 8]), priority=priority)
    return here


def flavors(here: Small) -> dict[str, str]:
    return {uid: job.flavors[GPU] for uid, job in here.sim.quota.by_uid.items() if job.held}


@pytest.mark.parametrize("seed", range(8))
def test_a_burst_comes_to_rest_where_the_engine_does(seed: int) -> None:
    here = burst(seed)
    expected = settle(here.sim.quota.present())
    here.wait(300)
    assert expected.settled
    assert flavors(here) == {uid: one.assigned["main"].flavors[GPU] for uid, one in expected.admitted.items()}
    shown = {work["metadata"]["uid"]: work for work in here.sim.world.store.objects(KINDS["Workload"])}
    for uid, one in expected.pending.items():
        waits = said(here.sim.quota.by_uid[uid])
        assert (waits == "") == (one.refused == "BehindHead")
        found = {c["type"]: c["message"] for c in shown[uid]["status"].get("conditions", ())}
        assert found.get("QuotaReserved", "") == waits


@pytest.mark.parametrize("seed", range(8))
def test_with_victims_that_take_time_a_burst_rests_where_the_engine_would_change_nothing(seed: int) -> None:
    here = burst(seed, reclaimWithinCohort="Any", **LOWER)
    for _ in range(20):
        here.wait(60)
        if not any(job.phase is Phase.EVICTED for job in here.sim.quota.by_uid.values()):
            break
    found = settle(here.sim.quota.present())
    assert (set(found.admitted), found.preempted) == (set(), ())
    assert found.kept == flavors(here).keys()
