"""The devices of a node as its DRA drivers publish them. Input: a node's name; output: one row per device.

Invariant: a device is taken when an allocated claim holds it without admin access, once however many pods share the
claim. What is counted of them is inventory's matter: here a device stands as it was published, the same card also a
second time where a driver offers it in another form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.fleet.models import Cluster
from apps.observations.selectors import live_objects

DeviceKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim that holds a device, and the pods that it is reserved for."""

    namespace: str
    name: str
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeviceObject:
    """`kind` as the driver names it ("gpu", "mig", "vfio", …); `taints` "key=value:effect"; `claims` hold it."""

    driver: str
    pool: str
    name: str
    kind: str
    uuid: str
    parent: str
    model: str
    memory_bytes: int | None
    taints: tuple[str, ...]
    claims: tuple[Claim, ...]

    @property
    def is_taken(self) -> bool:
        return bool(self.claims)


def device_objects(*, cluster: Cluster, node: str) -> list[DeviceObject]:
    """The devices of the newest generation of each pool on this node, in the order of drivers and names."""
    slices = [
        spec
        for spec in live_objects(kind="ResourceSlice", clusters=[cluster]).values_list("spec", flat=True)
        if spec.get("node") == node or any(d.get("node") == node for d in spec.get("devices") or ())
    ]
    if not slices:
        return []
    newest: dict[tuple[str, str], int] = {}
    for spec in slices:
        key = spec["driver"], spec["pool"]
        newest[key] = max(newest.get(key, 0), spec.get("generation") or 0)
    claims = _claims(cluster)
    rows = [
        _row(spec, device, claims)
        for spec in slices
        if (spec.get("generation") or 0) == newest[spec["driver"], spec["pool"]]
        for device in spec.get("devices") or ()
        if node in (spec.get("node"), device.get("node"))
    ]
    return sorted(rows, key=lambda row: (row.driver, row.pool, row.name))


def _claims(cluster: Cluster) -> dict[DeviceKey, list[Claim]]:
    found: dict[DeviceKey, list[Claim]] = {}
    stored = live_objects(kind="ResourceClaim", clusters=[cluster]).values_list("namespace", "name", "status")
    for namespace, name, status in stored:
        pods = tuple(
            user["name"] for user in status.get("reserved_for") or () if user.get("kind") in ("Pod", "pods")
        )
        for result in status.get("results") or ():
            if not result.get("admin"):
                key = result["driver"], result["pool"], result["device"]
                found.setdefault(key, []).append(Claim(namespace, name, pods))
    return found


def _row(
    spec: Mapping[str, Any], device: Mapping[str, Any], claims: Mapping[DeviceKey, list[Claim]]
) -> DeviceObject:
    attributes, memory = device.get("attributes") or {}, (device.get("capacity") or {}).get("memory")
    return DeviceObject(
        driver=spec["driver"],
        pool=spec["pool"],
        name=device["name"],
        kind=str(attributes.get("type") or ""),
        uuid=str(attributes.get("uuid") or ""),
        parent=str(attributes.get("parentUUID") or ""),
        model=str(attributes.get("productName") or ""),
        memory_bytes=int(memory) if memory else None,
        taints=tuple(_taint(taint) for taint in device.get("taints") or ()),
        claims=tuple(claims.get((spec["driver"], spec["pool"], device["name"]), ())),
    )


def _taint(taint: Mapping[str, str]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint.get('effect') or ''}"
