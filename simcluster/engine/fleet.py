"""The nodes: their objects, their devices, and who has which device. Placement is the scheduler's part.

Invariants: a unit is free or belongs to one pod; an unhealthy unit is never given away; what is free is handed out
lowest first, so that a run repeats exactly.
"""

from __future__ import annotations

from bisect import insort

from simcluster.kinds import KINDS
from simcluster.scenario import FleetFile, Model, Pool, Stack
from simcluster.telemetry import Card, Instance, Profile, User
from simcluster.timestamps import stamp

from .instances import card_name, device_instance, monitored
from .model import NodeState, Obj, PodState, Unit
from .node_objects import (
    driver_labels,
    node_annotations,
    node_labels,
    node_object,
    ready_conditions,
    stack_of,
)
from .world import World, condition

_NODE = KINDS["Node"]
GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
_RDMA = "rdma/hca_shared_devices_a"
_UNREACHABLE, _UNSCHEDULABLE = "node.kubernetes.io/unreachable", "node.kubernetes.io/unschedulable"
_DISRUPTED = "karpenter.sh/disrupted"
_UPGRADE = "nvidia.com/gpu-driver-upgrade-state"


class Fleet:
    """All nodes of the cluster."""

    def __init__(self, world: World, file: FleetFile) -> None:
        self.world = world
        self.nodes: dict[str, NodeState] = {}
        self._by_selector: dict[tuple[tuple[tuple[str, str], ...], str], list[NodeState]] = {}
        self._selected: dict[tuple[tuple[str, str], ...], frozenset[str]] = {}
        self._users: dict[int, list[tuple[PodState, Unit]]] = {}
        for pool in file.pools:
            model = file.models[pool.model]
            for number in range(pool.count):
                given = file.stacks.get(f"{pool.prefix}-{pool.first + number:02d}", Stack())
                node = self._node(pool, model, number, given)
                self.nodes[node.name] = node
                world.put(_NODE, node.obj)

    # ---- building -----------------------------------------------------------------------------------------
    def _node(self, pool: Pool, model: Model, number: int, given: Stack) -> NodeState:
        name = f"{pool.prefix}-{pool.first + number:02d}"
        stack = stack_of(given)
        cards = [Card(card_name(model.vendor, name, index)) for index in range(pool.devices)]
        units = self._units(name, pool, model, cards, stack.driver)
        labels = node_labels(name, pool, model, number, stack)
        capacity = {resource: str(len(found)) for resource, found in units.items()} | model.beside
        if pool.mode == "renamed":
            capacity[GPU] = "0"
        if pool.rdma:
            capacity[_RDMA] = str(pool.rdma)
        obj = node_object(self.world, name, pool, model, labels, capacity, stack)
        obj["metadata"]["annotations"] |= node_annotations(pool, model, [card.uuid for card in cards])
        free = {resource: list(range(len(found))) for resource, found in units.items()}
        taints = {taint["key"] for taint in pool.taints if taint["effect"] != "PreferNoSchedule"}
        return NodeState(name, pool, model, obj, units, free, cards, labels=labels, taints=taints)

    def _units(
        self, name: str, pool: Pool, model: Model, cards: list[Card], driver: str
    ) -> dict[str, list[Unit]]:
        if pool.mode in ("none", "dra-partitions"):
            return {}
        if pool.mode in ("mig-mixed", "mig-single", "mig-invalid"):
            return self._mig_units(name, pool, model, cards, driver)
        if pool.mode == "partitions":
            return self._partitions(name, pool, model, cards, driver)
        instances = [self._instance(name, pool, model, card, i, driver) for i, card in enumerate(cards)]
        if model.vendor == "neuron":  # a device is two cores to the exporter, one thing to the plugin
            for index, card in enumerate(cards):
                self._instance(name, pool, model, card, index, driver, {"neuroncore": str(2 * index + 1)})
        if pool.mode in ("dra", "unoffered"):
            return {}
        resource = SHARED if pool.mode == "renamed" else model.resource
        return {
            resource: [
                Unit(replica * len(cards) + index, index, instances[index])
                for replica in range(pool.replicas)
                for index in range(len(cards))
            ]
        }

    def _partitions(
        self, name: str, pool: Pool, model: Model, cards: list[Card], driver: str
    ) -> dict[str, list[Unit]]:
        """AMD's compute partitions, all of one kind: a card is cut into `replicas` equal parts."""
        memory = model.memory_mib // pool.replicas
        return {
            pool.resource: [
                Unit(
                    index * pool.replicas + slot,
                    index,
                    self._instance(
                        name, pool, model, card, index, driver, {"gpu_partition_id": str(slot)}, memory
                    ),
                )
                for index, card in enumerate(cards)
                for slot in range(pool.replicas)
            ]
        }

    def _mig_units(
        self, name: str, pool: Pool, model: Model, cards: list[Card], driver: str
    ) -> dict[str, list[Unit]]:
        units: dict[str, list[Unit]] = {}
        done = 0
        for profile in pool.mig:
            resource = f"nvidia.com/mig-{profile.name}" if pool.mode == "mig-mixed" else GPU
            found = units.setdefault(resource, [])
            for index in range(done, done + profile.cards):
                for slot in range(profile.per_card):
                    labels = {
                        "GPU_I_PROFILE": profile.name,
                        "GPU_I_ID": str(slot + (7 if profile.slices == 1 else 1)),
                    }
                    instance = self._instance(
                        name, pool, model, cards[index], index, driver, labels, profile.memory_mib
                    )
                    found.append(Unit(len(found), index, instance))
            done += profile.cards
        whole = [
            Unit(i - done, i, self._instance(name, pool, model, cards[i], i, driver))
            for i in range(done, len(cards))
        ]
        if pool.mode == "mig-mixed":
            units[GPU] = whole
        # A geometry that is not the same on all cards is refused: the plugin offers nothing.
        return {GPU: []} if pool.mode == "mig-invalid" else units

    def _instance(
        self,
        node: str,
        pool: Pool,
        model: Model,
        card: Card,
        index: int,
        driver: str,
        part: dict[str, str] | None = None,
        memory_mib: int = 0,
    ) -> Instance | None:
        if model.vendor == "neuron" and part is None:
            part = {"neuroncore": str(2 * index)}
        found = device_instance(node, pool, model, card, index, driver, part=part, memory_mib=memory_mib)
        if found is not None:
            self.world.telemetry.add(found)
            if pool.mode == "hami":
                self.world.telemetry.add(monitored(found, index))
        return found

    def add_instance(
        self,
        node: NodeState,
        card: Card,
        index: int,
        driver: str,
        part: dict[str, str] | None = None,
        memory_mib: int = 0,
    ) -> Instance | None:
        """Telemetry of a card, or of a part of it, that is offered by somebody else than the plugin."""
        return self._instance(node.name, node.pool, node.model, card, index, driver, part, memory_mib)

    # ---- placing ------------------------------------------------------------------------------------------
    def matching(self, selector: dict[str, str], resource: str) -> list[NodeState]:
        """Nodes that carry all these labels and have the resource at all."""
        key = (tuple(sorted(selector.items())), resource)
        found = self._by_selector.get(key)
        if found is None:
            found = self._by_selector[key] = [
                node
                for node in self.nodes.values()
                if resource in node.units and all(node.labels.get(k) == v for k, v in selector.items())
            ]
        return found

    def selected(self, selector: dict[str, str]) -> frozenset[str]:
        """Names of the nodes that carry all these labels."""
        key = tuple(sorted(selector.items()))
        found = self._selected.get(key)
        if found is None:
            nodes = self.nodes.values()
            wanted = selector.items()
            found = frozenset(node.name for node in nodes if wanted <= node.labels.items())
            self._selected[key] = found
        return found

    def place(self, pod: PodState, resource: str, count: int) -> bool:
        """Give a pod its devices on the fullest node that has room, or on the emptiest if its work spreads."""
        spread = pod.job.stream.spread
        best, best_room = None, 0
        for node in self.matching(pod.selector, resource):
            room = len(node.free[resource])
            if room < count or not node.takes(pod.job.stream):
                continue
            if best is None or (room > best_room if spread else room < best_room):
                best_room = room
                best = node
        if best is None:
            return False
        taken, best.free[resource] = best.free[resource][:count], best.free[resource][count:]
        pod.node = best
        pod.units = [best.units[resource][index] for index in taken]
        return True

    def release(self, pod: PodState, resource: str) -> None:
        """Take a pod's devices back."""
        node = pod.node
        if node is None:
            return
        for unit in pod.units:
            if unit.healthy:
                insort(node.free[resource], unit.index)
            self._stop_using(unit, pod)
        pod.node, pod.units = None, []

    def start_using(self, pod: PodState) -> None:
        """From now on the pod's profile shows on its devices."""
        for unit in pod.units:
            if unit.instance is not None:
                users = self._users.setdefault(id(unit.instance), [])
                users.append((pod, unit))
                self._show(unit.instance, users)

    def _stop_using(self, unit: Unit, pod: PodState) -> None:
        if unit.instance is None:
            return
        users = self._users.get(id(unit.instance), [])
        if (pod, unit) in users:
            users.remove((pod, unit))
            self._show(unit.instance, users)

    def _show(self, instance: Instance, users: list[tuple[PodState, Unit]]) -> None:
        """What the pods on a device do together. Who came last is named last."""
        if not users:
            self.world.telemetry.end(instance, self.world.now)
            return
        profiles = [pod.job.profile for pod, _unit in users]
        activity, memory = sum(one.mean for one in profiles), sum(one.memory for one in profiles)
        last = users[-1][0].job
        profile = last.profile
        if len(users) > 1:
            profile = Profile(
                profile.kind, min(0.97, activity * 0.6), profile.spread, min(0.96, memory * 0.3)
            )
        named = tuple(
            User(
                pod.job.namespace,
                pod.key.split("/")[1],
                pod.job.profile.mean / activity if activity else 1 / len(users),
                pod.job.profile.memory / memory if memory else 1 / len(users),
                self._share_labels(instance, pod, unit),
            )
            for pod, unit in users
        )
        salt = (instance.salt + last.number * 7919) & 0xFFFFFFF
        self.world.telemetry.begin(instance, self.world.now, named, profile, salt)

    @staticmethod
    def _share_labels(instance: Instance, pod: PodState, unit: Unit) -> tuple[tuple[str, str], ...]:
        """What the exporter adds for a pod with a part of a card: the replica, and for its own figures the pod."""
        if instance.sharing not in ("copies", "processes") or pod.node is None:
            return ()
        replica = ("vgpu", str(unit.index // len(pod.node.cards)))
        uid = ("pod_uid", pod.obj["metadata"]["uid"])
        return (uid, replica) if instance.sharing == "processes" else (replica,)

    # ---- what happens to nodes ----------------------------------------------------------------------------
    def cordon(self, node: NodeState, cordoned: bool) -> None:
        node.cordoned = cordoned
        if cordoned:
            node.obj["spec"]["unschedulable"] = True
            self._taint(node, {"key": _UNSCHEDULABLE, "effect": "NoSchedule"})
        else:
            node.obj["spec"].pop("unschedulable", None)
            self._untaint(node, _UNSCHEDULABLE)
        self.world.put(_NODE, node.obj)
        reason = "NodeNotSchedulable" if cordoned else "NodeSchedulable"
        self.world.event(node.obj, reason, f"Node {node.name} status is now: {reason}", "kubelet")

    def set_ready(self, node: NodeState, ready: bool) -> None:
        node.ready = ready
        now = self.world.now
        if ready:
            self.world.telemetry.recovery(node.name, now)
            self._untaint(node, _UNREACHABLE)
            ready_conditions(node.obj, now)
        else:
            self.world.telemetry.outage(node.name, now)
            self._taint(node, {"key": _UNREACHABLE, "effect": "NoSchedule", "timeAdded": stamp(now)})
            self._taint(node, {"key": _UNREACHABLE, "effect": "NoExecute", "timeAdded": stamp(now)})
            for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"):
                condition(
                    node.obj,
                    now,
                    kind,
                    "Unknown",
                    "NodeStatusUnknown",
                    "Kubelet stopped posting node status.",
                )
        self.world.put(_NODE, node.obj)
        reason = "NodeReady" if ready else "NodeNotReady"
        self.world.event(node.obj, reason, f"Node {node.name} status is now: {reason}", "node-controller")

    def set_device_health(self, node: NodeState, resource: str, device: int, healthy: bool, xid: int) -> None:
        """A device that the plugin takes out: allocatable shrinks, capacity does not."""
        for unit in node.units[resource]:
            if unit.device != device or unit.healthy == healthy:
                continue
            unit.healthy = healthy
            if healthy:
                insort(node.free[resource], unit.index)
            elif unit.index in node.free[resource]:
                node.free[resource].remove(unit.index)
        if not healthy:
            self.world.telemetry.xid(node.cards[device], self.world.now, xid)
        left = sum(unit.healthy for unit in node.units[resource])
        node.obj["status"]["allocatable"][resource] = str(left)
        self.world.put(_NODE, node.obj)

    def drop_device(self, node: NodeState, resource: str, device: int, xid: int) -> None:
        """A plugin that was started anew does not list a card any more; labels and telemetry still have it."""
        self.set_device_health(node, resource, device, False, xid)
        node.obj["status"]["capacity"][resource] = node.obj["status"]["allocatable"][resource]
        self.world.put(_NODE, node.obj)

    def set_plugin(self, node: NodeState, there: bool) -> None:
        """Without its plugin a node reports its resources as 0; what runs goes on, labels stay."""
        node.plugin = there
        for resource, units in node.units.items():
            for part in ("capacity", "allocatable"):
                healthy = sum(unit.healthy for unit in units)
                number = len(units) if part == "capacity" else healthy
                node.obj["status"][part][resource] = str(number if there else 0)
        self.world.put(_NODE, node.obj)

    def start_upgrade(self, node: NodeState, step: str) -> None:
        """The operator takes the node out to change its driver."""
        self._label(node, {_UPGRADE: step})
        self.cordon(node, True)

    def end_upgrade(self, node: NodeState, driver: str) -> None:
        self._label(node, {_UPGRADE: "upgrade-done"} | (driver_labels(driver) if driver else {}))
        for card in node.cards if driver else ():
            for instance in card.instances:
                self.world.telemetry.relabel(instance, self.world.now, {"DCGM_FI_DRIVER_VERSION": driver})
        self.cordon(node, False)

    def _label(self, node: NodeState, labels: dict[str, str]) -> None:
        node.labels |= labels
        node.obj["metadata"]["labels"] |= labels

    def remove_soon(self, node: NodeState) -> None:
        """The autoscaler wants to consolidate the node and waits for what must not be disrupted."""
        node.taints.add(_DISRUPTED)
        self._taint(node, {"key": _DISRUPTED, "effect": "NoSchedule"})
        self.world.put(_NODE, node.obj)
        words = "Cannot disrupt Node: PDB prevents pod evictions"
        self.world.event(node.obj, "DisruptionBlocked", words, "karpenter")

    def _taint(self, node: NodeState, taint: Obj) -> None:
        node.obj["spec"].setdefault("taints", []).append(taint)

    def _untaint(self, node: NodeState, key: str) -> None:
        left = [taint for taint in node.obj["spec"].get("taints", []) if taint["key"] != key]
        node.obj["spec"].pop("taints", None)
        if left:
            node.obj["spec"]["taints"] = left

    def heartbeat(self, node: NodeState) -> None:
        """A kubelet's periodic report; not part of the history."""
        if node.ready:
            for found in node.obj["status"]["conditions"]:
                found["lastHeartbeatTime"] = stamp(self.world.now)
            self.world.store.put(_NODE, node.obj, at=self.world.now, record=False)
