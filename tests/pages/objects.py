"""DRA objects in the shape in which the parsers leave them, for tests of pages."""

from __future__ import annotations

from typing import Any

from apps.api.tests.world import World, cluster_object

DRIVER = "gpu.nvidia.com"


def device(name: str, *, taints: tuple[dict[str, str], ...] = (), **attributes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "node": "",
        "all_nodes": False,
        "node_selector": None,
        "attributes": {"type": "gpu", "productName": "NVIDIA H100 80GB HBM3", **attributes},
        "capacity": {"memory": str(80 * 2**30)},
        "consumes": [],
        "taints": list(taints),
        "multiple": False,
    }


def resource_slice(
    world: World, name: str, *, node: str, devices: list[Any], generation: int = 1, slices: int = 1
) -> None:
    """`slices`: how many the pool has in this generation."""
    spec = {
        "driver": DRIVER,
        "pool": node,
        "generation": generation,
        "slices": slices,
        "node": node,
        "all_nodes": False,
        "node_selector": None,
        "per_device_nodes": False,
        "counters": {},
        "devices": devices,
    }
    cluster_object(world, "ResourceSlice", name, spec=spec, status={})


def taint_rule(world: World, name: str, *, taint: dict[str, str], **selected: str) -> None:
    """A rule that taints every device, or those of this `driver`, `pool` and `device`."""
    spec: dict[str, Any] = {"driver": "", "pool": "", "device": "", "device_class": "", "selectors": []}
    cluster_object(
        world, "DeviceTaintRule", name, spec={**spec, **selected, "selects": True, "taint": taint}, status={}
    )


def resource_claim(
    world: World,
    name: str,
    *,
    namespace: str,
    node: str,
    device: str,
    pods: tuple[str, ...] = (),
    admin: bool = False,
) -> None:
    """A claim that was given one device, and the pods that share it."""
    result = {
        "request": "r",
        "driver": DRIVER,
        "pool": node,
        "device": device,
        "admin": admin,
        "share_id": "",
        "consumed": {},
    }
    status = {
        "allocated": True,
        "node": node,
        "results": [result],
        "reserved_for": [{"kind": "Pod", "name": pod, "uid": f"uid-{pod}"} for pod in pods],
        "allocated_at": None,
    }
    spec = {"requests": [], "extended": False, "pod_claim_name": ""}
    cluster_object(world, "ResourceClaim", name, namespace=namespace, spec=spec, status=status)
