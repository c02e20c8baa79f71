"""The devices of a node as its DRA drivers list them. Input: clock and a node; output: one row per device.

Invariants: which slices count, what a device is and what taints it says fleet/dra, as for every count; a device is
taken when an allocated claim holds it without admin access, once however many pods share the claim. A card that a
driver lists in several forms stands here in each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from apps.capacity.reading import read_devices
from apps.core.gpu import model_label
from apps.fleet.dra import ClaimObject, DraDevice
from apps.fleet.models import Cluster
from apps.observations.models import Node


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim that holds a device, and the pods that it is reserved for."""

    namespace: str
    name: str
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeviceObject:
    """`kind` as the driver names it ("gpu", "mig", "vfio", …); `taints` that keep work away, as text; `claims` hold
    it; `incomplete`, `down`: what is shown is what was last known, see fleet.dra.pools."""

    driver: str
    pool: str
    name: str
    kind: str
    uuid: str
    parent: str
    model: str
    memory_bytes: int | None
    taints: str
    claims: tuple[Claim, ...]
    incomplete: bool
    down: bool

    @property
    def is_taken(self) -> bool:
        return bool(self.claims)


def device_objects(*, now: datetime, cluster: Cluster, node: Node) -> list[DeviceObject]:
    """The devices that only this node has, in the order of drivers, pools and names."""
    nodes = {cluster.pk: {node.name: node.labels}}
    view = read_devices(cluster_ids=[cluster.pk], nodes=nodes, now=now).get(cluster.pk)
    if view is None:
        return []
    return [
        _row(device, [_claim(claim) for claim in view.claims.get(key, ())])
        for key, device in sorted(view.devices.items())
        if device.node == node.name
    ]


def _claim(claim: ClaimObject) -> Claim:
    pods = tuple(user["name"] for user in claim.status["reserved_for"] if user["kind"] == "Pod")
    return Claim(claim.namespace, claim.name, pods)


def _row(device: DraDevice, claims: list[Claim]) -> DeviceObject:
    driver, pool, name = device.key
    return DeviceObject(
        driver=driver,
        pool=pool,
        name=name,
        kind=device.type or device.kind,
        uuid=device.uuid,
        parent=device.parent,
        model=model_label(device.model),
        memory_bytes=device.memory_bytes,
        taints=device.tainted,
        claims=tuple(claims),
        incomplete=device.incomplete,
        down=device.down,
    )
