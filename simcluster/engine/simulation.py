"""The whole simulation put together: world, fleet, pods, DRA, Kueue, Volcano, arrivals, incidents.

Input: a scenario, a store, a telemetry, a seed and an epoch; output: `run_until(now)` brings everything to a time.
Edits that came through the API are handed in with `edited` and take effect at the present simulated time.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from simcluster.kinds import KINDS, Kind
from simcluster.scenario import Incident, Scenario
from simcluster.store import Store
from simcluster.telemetry import Telemetry
from simcluster.timestamps import stamp

from .arrivals import Arrivals
from .dra import Dra
from .fleet import Fleet
from .kueue import Kueue
from .model import Job, NodeState, Obj, Phase
from .pods import Pods
from .quota import Quota
from .volcano import Volcano
from .world import World

_HEARTBEAT_SECONDS = 300
_LOST_SECONDS = 300
_DEFAULTS: Obj = {
    "queueingStrategy": "BestEffortFIFO",
    "stopPolicy": "None",
    "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
}


class Simulation:
    """One simulated cluster."""

    def __init__(
        self, scenario: Scenario, store: Store, telemetry: Telemetry, *, seed: int, epoch: int
    ) -> None:
        self.scenario = scenario
        self.world = World(store, telemetry, seed, epoch)
        telemetry.epoch = epoch
        self._static(scenario)
        self.fleet = Fleet(self.world, scenario.fleet)
        self.pods = Pods(self.world, self.fleet)
        self.pods.all_running = self._all_running
        self.dra = Dra(self.world, self.fleet, scenario.holdings)
        objects = self._kueue_objects(scenario)
        self.quota = Quota(self.fleet, objects)
        self.kueue = Kueue(self.world, self.quota, self.pods, scenario.queues.check_minutes)
        self.pods.never_starts = self.kueue.never_starts
        self._queue_states()
        self.volcano = Volcano(self.world, self.fleet, self.pods, objects["VolcanoQueue"])
        self.arrivals = Arrivals(self.world, scenario.teams, self._submit)
        for incident in scenario.fleet.incidents:
            self.world.at(epoch + 86400 * incident.day, self._incident, incident)
        self._churn = self.world.random("churn")
        self._plan_churn()

    @property
    def now(self) -> int:
        return self.world.now

    def run_until(self, when: float) -> int:
        """Everything up to a time; gives the number of steps."""
        return self.world.run_until(when)

    # ---- objects that are there from the start ------------------------------------------------------------
    def _static(self, scenario: Scenario) -> None:
        created = stamp(self.world.epoch - 86400 * 40)
        names = ("default", "kube-system", "gpu-operator", "kueue-system", "volcano-system")
        labels: dict[str, dict[str, str]] = {name: {} for name in names}
        labels["gpu-operator"] = {"resource.kubernetes.io/admin-access": "true"}
        labels |= {team.namespace: {"team": team.slug} for team in scenario.teams}
        for name, extra in labels.items():
            obj = {
                "kind": "Namespace",
                "apiVersion": "v1",
                "metadata": {
                    "name": name,
                    "uid": self.world.uid("namespace", name),
                    "creationTimestamp": created,
                    "labels": {"kubernetes.io/metadata.name": name, **extra},
                },
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            }
            self.world.store.put(KINDS["Namespace"], obj, at=self.world.now, record=False)

    def _kueue_objects(self, scenario: Scenario) -> dict[str, list[Obj]]:
        """Objects of the scenario file, with what the API server and controllers add."""
        found: dict[str, list[Obj]] = {}
        for name, items in scenario.queues.objects.items():
            kind = KINDS[name]
            found[name] = [self._completed(kind, copy.deepcopy(item)) for item in items]
            for obj in found[name]:
                if name not in ("ClusterQueue",):
                    self.world.put(kind, obj)
        for name in ("ResourceFlavor", "Cohort", "ClusterQueue", "VolcanoQueue"):
            found.setdefault(name, [])
        return found

    def _completed(self, kind: Kind, item: Obj) -> Obj:
        created = stamp(self.world.epoch - 86400 * 35)
        metadata = {
            "creationTimestamp": created,
            "generation": 1,
            **item["metadata"],
            "uid": self.world.uid(kind.name, item["metadata"]["name"]),
        }
        obj: Obj = {"kind": kind.api_kind, "apiVersion": kind.api_version(), **item, "metadata": metadata}
        if kind.name == "ClusterQueue":
            obj["spec"] = {**copy.deepcopy(_DEFAULTS), **obj["spec"]}
            preemption = obj["spec"].get("preemption", {})
            defaults = {"borrowWithinCohort": {"policy": "Never"}, "reclaimWithinCohort": "Never"}
            obj["spec"]["preemption"] = {**defaults, "withinClusterQueue": "Never", **preemption}
            obj["status"] = {"conditions": []}
        elif kind.name == "AdmissionCheck":
            message = "The admission check is active"
            obj["status"] = {"conditions": [_active("True", "Active", message, created)]}
        elif kind.name == "Cohort":
            obj["status"] = {}
        elif kind.name == "VolcanoQueue":
            state = "Closed" if metadata["name"] == "retired" else "Open"
            obj["status"] = {"allocated": {"cpu": "0", "memory": "0"}, "reservation": {}, "state": state}
        return obj

    def _queue_states(self) -> None:
        """Conditions of queues, and the LocalQueues of the teams."""
        created = stamp(self.world.epoch - 86400 * 35)
        for queue in self.quota.queues.values():
            inactive = self.quota.inactive(queue)
            reason, message = inactive or ("Ready", "Can admit new workloads")
            status = "False" if inactive else "True"
            queue.obj["status"] = {"conditions": [_active(status, reason, message, created)]}
            self.kueue.status.fill(queue)
            self.world.put(KINDS["ClusterQueue"], queue.obj)
        for team in self.scenario.teams:
            for name, target in team.local_queues.items():
                self._local_queue(team.namespace, name, target, created)

    def _local_queue(self, namespace: str, name: str, target: str, created: str) -> None:
        queue = self.quota.queues[target]
        if self.quota.inactive(queue):
            condition = _active(
                "False", "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue", created
            )
        else:
            condition = _active("True", "Ready", "Can submit new workloads to localQueue", created)
        obj = {
            "kind": "LocalQueue",
            "apiVersion": KINDS["LocalQueue"].api_version(),
            "metadata": {
                "creationTimestamp": created,
                "generation": 1,
                "name": name,
                "namespace": namespace,
                "uid": self.world.uid("localqueue", namespace, name),
            },
            "spec": {"clusterQueue": target, "stopPolicy": "None"},
            "status": {"conditions": [condition]},
        }
        self.kueue.status.local[f"{namespace}/{name}"] = obj
        self.kueue.status.fill_local(obj, queue)
        self.world.put(KINDS["LocalQueue"], obj)

    # ---- work ---------------------------------------------------------------------------------------------
    def _submit(self, job: Job) -> None:
        side = self.volcano if job.team.volcano_queues else self.kueue
        side.submit(job)
        self.world.after(job.patience, side.take_back, job)

    def _all_running(self, job: Job) -> None:
        (self.volcano if job.team.volcano_queues else self.kueue).running(job)

    # ---- nodes --------------------------------------------------------------------------------------------
    def _incident(self, incident: Incident) -> None:
        node = self.fleet.nodes[incident.node]
        end = None if incident.hours is None else self.world.now + 3600 * incident.hours
        resource, device = node.pool.resource or node.model.resource, node.pool.devices - 1
        undo: tuple[Any, ...] = ()
        match incident.kind:
            case "cordon":
                self.fleet.cordon(node, True)
                undo = (self.fleet.cordon, node, False)
            case "not_ready":
                self._fail_node(node, end)
            case "device" if node.pool.mode.startswith("dra"):
                self.dra.set_device_health(node, device, False, incident.xid)
                undo = (self.dra.set_device_health, node, device, True, 0)
            case "device":
                self.fleet.set_device_health(node, resource, device, False, incident.xid)
                undo = (self.fleet.set_device_health, node, resource, device, True, 0)
            case "dropped":
                self.fleet.drop_device(node, resource, device, incident.xid)
            case "plugin":
                self.fleet.set_plugin(node, False)
                undo = (self.fleet.set_plugin, node, True)
            case "upgrade":
                self.fleet.start_upgrade(node, incident.step)
                undo = (self.fleet.end_upgrade, node, incident.driver)
            case "removing":
                self.fleet.remove_soon(node)
            case "exporter":
                self.world.telemetry.outage(node.name, self.world.now)
                undo = (self.world.telemetry.recovery, node.name, end)
        if end and undo:
            self.world.at(end, self._over, *undo)

    def _over(self, undo: Callable[..., None], *args: Any) -> None:
        """An incident ends: what waits may find room."""
        undo(*args)
        self._room()

    def _fail_node(self, node: NodeState, end: float | None) -> None:
        if not node.ready:
            return
        self.fleet.set_ready(node, False)
        self.world.after(_LOST_SECONDS, self._evict_from, node)
        if end:
            self.world.at(end, self._recover_node, node)

    def _recover_node(self, node: NodeState) -> None:
        self.fleet.set_ready(node, True)
        self._room()

    def _evict_from(self, node: NodeState) -> None:
        """The taint manager deletes the pods of a node that stays away."""
        if node.ready:
            return
        for side in (self.kueue, self.volcano):
            hit = [
                job
                for job in side.jobs.values()
                if job.phase in (Phase.STARTING, Phase.RUNNING)
                and any(pod.node is node for pod in job.pod_states)
            ]
            for job in hit:
                side.node_lost(job)

    def _room(self) -> None:
        self.pods.retry()
        self.volcano.plan()
        self.kueue.look_again()

    def _plan_churn(self) -> None:
        churn = self.scenario.fleet.churn
        if churn.prefixes:
            self.world.after(self._churn.expovariate(1 / (3600 * churn.every_hours)), self._random_outage)

    def _random_outage(self) -> None:
        churn = self.scenario.fleet.churn
        names = [name for name in sorted(self.fleet.nodes) if name.startswith(churn.prefixes)]
        node = self.fleet.nodes[self._churn.choice(names)]
        minutes = self._churn.randint(*churn.minutes)
        if not node.cordoned:
            self._fail_node(node, self.world.now + 60 * minutes)
        self._plan_churn()

    # ---- the present --------------------------------------------------------------------------------------
    def go_live(self) -> None:
        """From now on kubelets report every five minutes, one after the other."""
        self.world.live = True
        nodes = list(self.fleet.nodes.values())
        for index, node in enumerate(nodes):
            self.world.aside(1 + index * _HEARTBEAT_SECONDS // len(nodes), self._heartbeat, node)

    def _heartbeat(self, node: NodeState) -> None:
        self.fleet.heartbeat(node)
        self.world.aside(_HEARTBEAT_SECONDS, self._heartbeat, node)

    # ---- edits --------------------------------------------------------------------------------------------
    def edited(self, kind: Kind, after: Obj) -> Obj:
        """An edit through the API: write it, and let it have its effect. Gives the object as written."""
        name = after["metadata"]["name"]
        key = f"{after['metadata'].get('namespace', '')}/{name}"
        mine = self._live_object(kind, key, name)
        if mine is not None:
            for part in ("metadata", "spec"):
                mine[part] = after[part] if part in after else mine.get(part, {})
        self.world.put(kind, mine if mine is not None else after)
        self._react(kind, name, after, mine)
        return copy.deepcopy(mine if mine is not None else after)

    def _live_object(self, kind: Kind, key: str, name: str) -> Obj | None:
        if kind.name == "ClusterQueue":
            return self.quota.queues[name].obj
        owners: dict[str, dict[str, Any]] = {
            "Cohort": self.quota.cohorts,
            "VolcanoQueue": self.volcano.queues,
            "ResourceFlavor": self.quota.flavors,
        }
        if kind.name in owners:
            return owners[kind.name].get(name)
        if kind.name == "LocalQueue":
            return self.kueue.status.local.get(key)
        if kind.name == "Node":
            return self.fleet.nodes[name].obj
        if kind.name in ("Workload", "PodGroup"):
            jobs = {**self.kueue.jobs, **self.volcano.jobs}.values()
            return next((job.obj for job in jobs if job.key == key), None)
        return None

    def _react(self, kind: Kind, name: str, after: Obj, mine: Obj | None) -> None:
        if kind.name in ("ClusterQueue", "Cohort", "ResourceFlavor", "LocalQueue"):
            self.kueue.edited()
        elif kind.name == "VolcanoQueue":
            self.volcano.controller.moved(name)
            self.volcano.plan()
        elif kind.name == "Command":
            self.volcano.controller.commanded(after)
        elif kind.name == "Node" and mine is not None:
            node = self.fleet.nodes[name]
            cordoned = bool(mine["spec"].get("unschedulable"))
            if cordoned != node.cordoned:
                self.fleet.cordon(node, cordoned)
            self._room()
        elif kind.name == "Workload" and mine is not None:
            job = next((job for job in self.kueue.jobs.values() if job.obj is mine), None)
            if job is not None:
                self.kueue.activity(job)


def _active(status: str, reason: str, message: str, at: str) -> Obj:
    return {
        "lastTransitionTime": at,
        "message": message,
        "observedGeneration": 1,
        "reason": reason,
        "status": status,
        "type": "Active",
    }
