"""Devices of a DRA driver: slices of the nodes that it serves, claims, and the pods that hold them.

Input: the scenario's holdings; output: ResourceSlices, ResourceClaims and Pods, and what they do in telemetry.
Invariants: a slice names cards by the UUIDs that telemetry has; a device that can be cut is offered whole and in
every placement at once, tied by counters; devices of claims that live at once never need more than the counters have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from simcluster.kinds import KINDS
from simcluster.scenario import Holding
from simcluster.telemetry import Instance, User
from simcluster.timestamps import stamp

from .fleet import Fleet
from .instances import name_uuid
from .model import NodeState, Obj
from .world import World

DRIVER, DOMAIN_DRIVER = "gpu.nvidia.com", "compute-domain.nvidia.com"
_SLICE, _CLAIM, _POD = KINDS["ResourceSlice"], KINDS["ResourceClaim"], KINDS["Pod"]
_MODES = ("dra", "dra-partitions", "dual")
_DAY = 86400


@dataclass(frozen=True, slots=True)
class Placement:
    """A MIG profile of an 80 GB Hopper or Ampere card: its id, where it may start, and what it takes."""

    profile: str
    number: int
    starts: tuple[int, ...]
    slices: int
    memory_mib: int
    multiprocessors: int

    def device(self, card: int, start: int) -> str:
        return f"gpu-{card}-mig-{self.profile.replace('.', '')}-{self.number}-{start}"


PLACEMENTS = (
    Placement("1g.10gb", 19, (0, 1, 2, 3, 4, 5, 6), 1, 9728, 16),
    Placement("1g.20gb", 15, (0, 2, 4, 6), 2, 19968, 26),
    Placement("2g.20gb", 14, (0, 2, 4), 2, 19968, 32),
    Placement("3g.40gb", 9, (0, 4), 4, 40320, 60),
    Placement("4g.40gb", 5, (0,), 4, 40320, 64),
    Placement("7g.80gb", 0, (0,), 8, 80896, 132),
)
_MEMORY_SLICES, _MULTIPROCESSORS = 8, 132
_BY_DEVICE = {
    placement.device(card, start): (placement, card, start)
    for placement in PLACEMENTS
    for card in range(8)
    for start in placement.starts
}


class Dra:
    """One instance per run."""

    def __init__(self, world: World, fleet: Fleet, holdings: tuple[Holding, ...]) -> None:
        self.world, self.fleet = world, fleet
        self._slices: dict[tuple[str, int], Obj] = {}
        self._instances: dict[tuple[str, str], Instance] = {}
        for node in fleet.nodes.values():
            if node.pool.mode in _MODES:
                self._serve(node, holdings)
            elif node.pool.cliques:
                self._domain(node)
        for holding in holdings:
            world.at(world.epoch + _DAY * holding.at, self._hold, holding)

    # ---- slices -------------------------------------------------------------------------------------------
    def _serve(self, node: NodeState, holdings: tuple[Holding, ...]) -> None:
        if node.pool.mode != "dra-partitions":
            devices = [self._card(node, index) for index in range(len(node.cards))]
            self._put_slices(node, [{"devices": devices}])
            for index, card in enumerate(node.cards):
                self._instances[node.name, f"gpu-{index}"] = card.instances[0]
            return
        bodies: list[Obj] = [
            {"sharedCounters": [_counter_set(node, index) for index in range(len(node.cards))]}
        ]
        bodies += [{"devices": self._placements(node, index)} for index in range(len(node.cards))]
        self._put_slices(node, bodies)
        self._cut(node, [name for one in holdings if one.node == node.name for name in one.devices])

    def _put_slices(self, node: NodeState, bodies: list[Obj], driver: str = DRIVER) -> None:
        for number, body in enumerate(bodies):
            pool = {"name": node.name, "generation": 1, "resourceSliceCount": len(bodies)}
            name = f"{node.name}-{driver}-{self.world.suffix(5, 'slice', node.name, driver, number)}"
            metadata = self._metadata(_SLICE.name, name)
            metadata["creationTimestamp"] = node.obj["metadata"]["creationTimestamp"]
            metadata["ownerReferences"] = [_owner("v1", "Node", node.obj)]
            spec = {"driver": driver, "pool": pool, "nodeName": node.name, **body}
            obj: Obj = {**_head(_SLICE), "metadata": metadata, "spec": spec}
            self.world.put(_SLICE, obj)
            if driver == DRIVER:
                self._slices[node.name, number] = obj

    def _metadata(self, kind: str, name: str, namespace: str = "") -> Obj:
        where = {"namespace": namespace} if namespace else {}
        uid = self.world.uid(kind, namespace, name)
        return {"name": name, **where, "uid": uid, "creationTimestamp": stamp(self.world.now)}

    def _card(self, node: NodeState, index: int) -> Obj:
        model, labels = node.model, node.labels
        texts = {
            "architecture": model.family.capitalize(),
            "brand": "Nvidia",
            "productName": model.model_name,
            "type": "gpu",
            "uuid": node.cards[index].uuid,
            "resource.kubernetes.io/pcieRoot": f"pci0000:{0x10 * (index + 1):02x}",
            "resource.kubernetes.io/pciBusID": f"0000:{0x0F + 16 * index:02x}:00.0",
        }
        major, minor, revision = labels["nvidia.com/cuda.driver-version.full"].split(".")
        versions = {
            "cudaComputeCapability": f"{model.compute[0]}.{model.compute[1]}.0",
            "cudaDriverVersion": f"{labels['nvidia.com/cuda.runtime-version.full']}.0",
            "driverVersion": f"{major}.{int(minor)}.{int(revision)}",
        }
        return {
            "name": f"gpu-{index}",
            "attributes": {
                **{name: {"string": text} for name, text in texts.items()},
                **{name: {"version": text} for name, text in versions.items()},
                "resource.kubernetes.io/numaNode": {"int": index * 2 // len(node.cards)},
            },
            "capacity": {"memory": {"value": f"{model.memory_mib}Mi"}},
        }

    def _placements(self, node: NodeState, index: int) -> list[Obj]:
        """A card as a whole and every instance that could be cut from it."""
        whole = self._card(node, index)
        everything = _counters(node.model.memory_mib, _MULTIPROCESSORS, range(_MEMORY_SLICES))
        shared = whole["attributes"]
        found = [{**whole, "consumesCounters": [{"counterSet": _set(index), "counters": everything}]}]
        for placement in PLACEMENTS:
            for start in placement.starts:
                taken = _counters(
                    placement.memory_mib,
                    placement.multiprocessors,
                    range(start, min(_MEMORY_SLICES, start + placement.slices)),
                )
                attributes = {name: value for name, value in shared.items() if name != "uuid"}
                attributes |= {
                    "type": {"string": "mig"},
                    "parentUUID": {"string": node.cards[index].uuid},
                    "profile": {"string": placement.profile},
                }
                found.append(
                    {
                        "name": placement.device(index, start),
                        "attributes": attributes,
                        "capacity": {
                            "memory": {"value": f"{placement.memory_mib}Mi"},
                            "multiprocessors": {"value": str(placement.multiprocessors)},
                        },
                        "consumesCounters": [{"counterSet": _set(index), "counters": taken}],
                    }
                )
        return found

    def _domain(self, node: NodeState) -> None:
        """Channels of an NVLink domain, from the same vendor's other driver: no devices to count."""
        devices = [
            {"name": f"{kind}-0", "attributes": {"type": {"string": kind}, "id": {"int": 0}}}
            for kind in ("channel", "daemon")
        ]
        self._put_slices(node, [{"devices": devices}], DOMAIN_DRIVER)

    def _cut(self, node: NodeState, held: list[str]) -> None:
        """The instances that exist: those of the claims, and the cards that nobody has cut."""
        driver = node.labels["nvidia.com/cuda.driver-version.full"]
        for index, card in enumerate(node.cards):
            mine = [(name, *_BY_DEVICE[name]) for name in held if _card_of(name) == index and "-mig-" in name]
            for position, (name, placement, _card, _start) in enumerate(mine):
                labels = {"GPU_I_PROFILE": placement.profile, "GPU_I_ID": str(position + 1)}
                found = self.fleet.add_instance(node, card, index, driver, labels, placement.memory_mib)
                if found is not None:
                    self._instances[node.name, name] = found
            if not mine:
                whole = self.fleet.add_instance(node, card, index, driver)
                if whole is not None:
                    self._instances[node.name, f"gpu-{index}"] = whole

    def set_device_health(self, node: NodeState, device: int, healthy: bool, xid: int) -> None:
        """The driver taints a device that is broken, and takes the taint away again."""
        body = self._slices[node.name, 0 if node.pool.mode != "dra-partitions" else device + 1]
        for found in body["spec"]["devices"]:
            if _card_of(found["name"]) == device:
                found.pop("taints", None)
                if not healthy:
                    taint = {"key": f"{DRIVER}/xid", "value": str(xid), "effect": "NoSchedule"}
                    found["taints"] = [{**taint, "timeAdded": stamp(self.world.now)}]
        if not healthy:
            self.world.telemetry.xid(node.cards[device], self.world.now, xid)
        self.world.put(_SLICE, body)

    # ---- claims -------------------------------------------------------------------------------------------
    def _hold(self, holding: Holding) -> None:
        names = [
            f"{holding.name}-{self.world.suffix(5, 'holder', holding.name, n)}" for n in range(holding.pods)
        ]
        claim = None if holding.claim == "none" else self._claim(holding, names)
        pods = [self._pod(holding, name, claim) for name in names]
        if claim is not None:
            self._reserve(holding, claim, pods)
        for pod in pods:
            self.world.put(_POD, pod)
            words = f"Successfully assigned {holding.namespace}/{pod['metadata']['name']} to {holding.node}"
            self.world.event(pod, "Scheduled", words, "default-scheduler")
        if claim is not None and holding.claim != "admin":
            self._use(holding, claim, names)

    def _reserve(self, holding: Holding, claim: Obj, pods: list[Obj]) -> None:
        for pod in pods:
            meta = pod["metadata"]
            reserved = claim["status"].setdefault("reservedFor", [])
            reserved.append({"resource": "pods", "name": meta["name"], "uid": meta["uid"]})
        if pods and holding.claim in ("template", "extended"):
            claim["metadata"]["ownerReferences"] = [_owner("v1", "Pod", pods[0])]
        self.world.put(_CLAIM, claim)

    def _claim(self, holding: Holding, pods: list[str]) -> Obj:
        name, annotations = holding.name, {}
        if holding.claim == "template":
            name = f"{pods[0]}-gpu-{self.world.suffix(5, 'claim', holding.name)}"
            annotations = {"resource.kubernetes.io/pod-claim-name": "gpu"}
        elif holding.claim == "extended":
            name = f"{pods[0]}-extended-resources-{self.world.suffix(5, 'claim', holding.name)}"
            annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
        request = "container-0-request-0" if holding.claim == "extended" else "gpu"
        admin: Obj = {"adminAccess": True} if holding.claim == "admin" else {}
        metadata = self._metadata(_CLAIM.name, name, holding.namespace)
        results = [
            {"request": request, "driver": DRIVER, "pool": holding.node, "device": device, **admin}
            for device in holding.devices
        ]
        term = {"key": "metadata.name", "operator": "In", "values": [holding.node]}
        return {
            **_head(_CLAIM),
            "metadata": {
                **metadata,
                "finalizers": ["resource.kubernetes.io/delete-protection"],
                **({"annotations": annotations} if annotations else {}),
            },
            "spec": {"devices": {"requests": [{"name": request, "exactly": _asked(holding) | admin}]}},
            "status": {
                "allocation": {
                    "devices": {"results": results},
                    "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [term]}]},
                    "allocationTimestamp": stamp(self.world.now),
                }
            },
        }

    def _pod(self, holding: Holding, name: str, claim: Obj | None) -> Obj:
        now = stamp(self.world.now)
        claimed = claim["metadata"]["name"] if claim else ""
        requests = {"cpu": str(holding.cpu), "memory": f"{holding.memory_gib}Gi"}
        resources: Obj = {"requests": requests}
        spec: Obj = {"nodeName": holding.node, "schedulerName": "default-scheduler"}
        status: Obj = {"phase": "Running", "startTime": now, "qosClass": "Burstable"}
        if holding.claim == "extended":
            count = {"nvidia.com/gpu": str(len(holding.devices))}
            resources = {"requests": requests | count, "limits": count}
            mapping = {"containerName": "main", "resourceName": "nvidia.com/gpu"}
            mapping["requestName"] = "container-0-request-0"
            status["extendedResourceClaimStatus"] = {
                "resourceClaimName": claimed,
                "requestMappings": [mapping],
            }
        elif claim is not None:
            template = {"resourceClaimTemplateName": f"{holding.name}-gpu"}
            source = template if holding.claim == "template" else {"resourceClaimName": claimed}
            spec["resourceClaims"] = [{"name": "gpu", **source}]
            resources["claims"] = [{"name": "gpu"}]
            if holding.claim == "template":
                status["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": claimed}]
        image = f"registry.example.com/{holding.namespace}/{holding.name}:1"
        container = {"name": "main", "image": image, "resources": resources}
        conditions = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        running = {"name": "main", "image": image, "imageID": "", "ready": True, "started": True}
        running |= {"restartCount": 0, "lastState": {}, "state": {"running": {"startedAt": now}}}
        metadata = self._metadata(_POD.name, name, holding.namespace)
        owner = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": f"{holding.name}-{self.world.suffix(9, 'set', holding.name)}",
            "uid": self.world.uid("replicaset", holding.namespace, holding.name),
            "controller": True,
            "blockOwnerDeletion": True,
        }
        return {
            **_head(_POD),
            "metadata": {**metadata, "labels": {"app": holding.name}, "ownerReferences": [owner]},
            "spec": {**spec, "containers": [container], "restartPolicy": "Always"},
            "status": {
                **status,
                "conditions": [
                    {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
                    for kind in conditions
                ],
                "containerStatuses": [running],
            },
        }

    def _use(self, holding: Holding, claim: Obj, pods: list[str]) -> None:
        """The exporter's DRA mapping: a copy of each series per pod, with the claim and the device."""
        for index, device in enumerate(holding.devices if pods else ()):
            instance = self._instances[holding.node, device]
            labels = {
                "dra_claim_name": claim["metadata"]["name"],
                "dra_claim_namespace": holding.namespace,
                "dra_device_name": device,
                "dra_driver_name": DRIVER,
                "dra_pool_name": holding.node,
            }
            if instance.part:
                labels["dra_mig_profile"] = _BY_DEVICE[device][0].profile
                labels["dra_mig_device_uuid"] = f"MIG-{name_uuid(f'{holding.node}/{device}')}"
            share = 1 / len(pods)
            users = tuple(
                User(holding.namespace, pod, share, share, tuple(sorted(labels.items()))) for pod in pods
            )
            salt = (instance.salt + 104_729 * (index + 1)) & 0xFFFFFFF
            self.world.telemetry.begin(instance, self.world.now, users, holding.profile, salt)


def _head(kind: Any) -> Obj:
    return {"kind": kind.api_kind, "apiVersion": kind.api_version()}


def _owner(version: str, kind: str, obj: Obj) -> Obj:
    metadata = obj["metadata"]
    found = {"apiVersion": version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"]}
    return {**found, "controller": True}


def _card_of(device: str) -> int:
    return int(device.split("-")[1])


def _set(index: int) -> str:
    return f"gpu-{index}-counter-set"


def _counters(memory_mib: int, multiprocessors: int, slices: range) -> Obj:
    return {
        "memory": {"value": f"{memory_mib}Mi"},
        "multiprocessors": {"value": str(multiprocessors)},
        **{f"memory-slice-{number}": {"value": "1"} for number in slices},
    }


def _counter_set(node: NodeState, index: int) -> Obj:
    whole = _counters(node.model.memory_mib, _MULTIPROCESSORS, range(_MEMORY_SLICES))
    return {"name": _set(index), "counters": whole}


def _asked(holding: Holding) -> Obj:
    """The request of a claim."""
    if holding.claim == "admin":
        return {"deviceClassName": DRIVER, "allocationMode": "All"}
    asked: Obj = {"allocationMode": "ExactCount", "count": len(holding.devices)}
    if found := _BY_DEVICE.get(holding.devices[0]):
        text = f"device.attributes['{DRIVER}'].profile == '{found[0].profile}'"
        return {"deviceClassName": "mig.nvidia.com", "selectors": [{"cel": {"expression": text}}], **asked}
    return {"deviceClassName": DRIVER, **asked}
