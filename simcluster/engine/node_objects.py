"""Nodes as bodies: labels of GPU feature discovery by sharing mode, capacity, conditions. Pure functions."""

from __future__ import annotations

from typing import Any

from simcluster.scenario import Model, Pool, Stack
from simcluster.timestamps import stamp

from .instances import name_uuid
from .model import Obj
from .world import World, condition

_USUAL = Stack(
    driver="570.124.06",
    cuda="12.8",
    kernel="6.8.0-1031-generic",
    os="Ubuntu 24.04.2 LTS",
    runtime="containerd://2.1.4",
    kubelet="v1.36.3",
)

_UNOFFERED = {
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.deploy.device-plugin": "false",
    "nvidia.com/gpu.deploy.gpu-feature-discovery": "false",
    "nvidia.com/gpu.deploy.dcgm-exporter": "true",
    "nvidia.com/gpu.deploy.driver": "true",
}
"""Of a node whose plugin somebody switched off: the operator still sees the PCI devices."""


def stack_of(given: Stack) -> Stack:
    """What the scenario says of a node, completed by what is usual."""
    return Stack(**{name: getattr(given, name) or getattr(_USUAL, name) for name in Stack.__struct_fields__})


def ready_conditions(obj: Obj, now: int) -> None:
    for kind, status, reason, message in (
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ):
        condition(obj, now, kind, status, reason, message)


def node_labels(name: str, pool: Pool, model: Model, number: int, stack: Stack) -> dict[str, str]:
    """All labels; `number` is the node's place in its pool, which deals out racks and cliques."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": model.instance,
        "topology.kubernetes.io/region": pool.zone[:-1],
        "topology.kubernetes.io/zone": pool.zone,
        "cloud.provider.com/topology-block": pool.block,
        "cloud.provider.com/topology-rack": pool.racks[number % len(pool.racks)],
        "karpenter.sh/capacity-type": pool.capacity_type,
        "node-pool": pool.pool,
        **model.labels,
        **pool.labels,
    }
    if pool.mode == "unoffered":
        labels |= _UNOFFERED
    elif model.vendor == "nvidia":
        labels |= _gfd(pool, model) | driver_labels(stack.driver) | _cuda_labels(stack.cuda)
    if pool.cliques:
        labels["nvidia.com/gpu.clique"] = pool.cliques[number % len(pool.cliques)]
    return labels


def driver_labels(version: str) -> dict[str, str]:
    """Labels of GPU feature discovery for a driver "570.124.06"."""
    parts = dict(zip(("major", "minor", "revision"), version.split("."), strict=True))
    return {
        f"nvidia.com/cuda.driver-version.{name}": text for name, text in {"full": version, **parts}.items()
    }


def _cuda_labels(version: str) -> dict[str, str]:
    major, minor = version.split(".")
    parts = {"full": version, "major": major, "minor": minor}
    return {f"nvidia.com/cuda.runtime-version.{name}": text for name, text in parts.items()}


def node_annotations(pool: Pool, model: Model, uuids: list[str]) -> dict[str, str]:
    """What HAMi's plugin registers: uuid, splits, MiB, cores, type, NUMA node, health of each card."""
    if pool.mode != "hami":
        return {}
    kind = f"NVIDIA-{model.model_name}"
    cards = [
        f"{uuid},{pool.replicas},{model.memory_mib},100,{kind},{index * 2 // len(uuids)},true:"
        for index, uuid in enumerate(uuids)
    ]
    return {"hami.io/node-nvidia-register": "".join(cards)}


def _gfd(pool: Pool, model: Model) -> dict[str, str]:
    """Labels of GPU feature discovery, by sharing mode."""
    sharing = {"time-slicing": "time-slicing", "renamed": "time-slicing", "mps": "mps"}.get(pool.mode, "none")
    product = model.product + ("-SHARED" if pool.mode in ("time-slicing", "mps") else "")
    strategy = {"mig-mixed": "mixed", "mig-single": "single", "mig-invalid": "single"}.get(pool.mode, "none")
    count, memory = pool.devices, model.memory_mib
    # HAMi's splits are its own: feature discovery knows of no sharing.
    replicas = 1 if pool.mode == "hami" else pool.replicas
    state = "success"
    extra: dict[str, str] = {}
    if pool.mode == "mig-single":
        profile = pool.mig[0]
        product, memory = f"{model.product}-MIG-{profile.name}", profile.memory_mib
        count = profile.per_card * profile.cards
        extra = {
            "nvidia.com/gpu.multiprocessors": str(profile.multiprocessors),
            "nvidia.com/gpu.slices.gi": str(profile.slices),
            "nvidia.com/gpu.slices.ci": str(profile.slices),
        }
    elif pool.mode == "mig-invalid":
        product, memory, count, replicas = f"{model.product}-MIG-INVALID", 0, 0, 0
        sharing, state = "", "failed"
    elif pool.mode == "mig-mixed":
        for profile in pool.mig:
            prefix = f"nvidia.com/mig-{profile.name}"
            extra |= {
                f"{prefix}.count": str(profile.per_card * profile.cards),
                f"{prefix}.product": f"{model.product}-MIG-{profile.name}",
                f"{prefix}.memory": str(profile.memory_mib),
                f"{prefix}.multiprocessors": str(profile.multiprocessors),
                f"{prefix}.slices.gi": str(profile.slices),
                f"{prefix}.slices.ci": str(profile.slices),
                f"{prefix}.replicas": "1",
                f"{prefix}.sharing-strategy": "none",
            }
    if strategy != "none":
        layout = f"all-{pool.mig[0].name}" if strategy == "single" else "custom-mixed"
        extra |= {"nvidia.com/mig.config": layout, "nvidia.com/mig.config.state": state}
    return {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.count": str(count),
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.memory": str(memory),
        "nvidia.com/gpu.family": model.family,
        "nvidia.com/gpu.compute.major": str(model.compute[0]),
        "nvidia.com/gpu.compute.minor": str(model.compute[1]),
        "nvidia.com/gpu.machine": model.instance,
        "nvidia.com/gpu.mode": "compute",
        "nvidia.com/gpu.replicas": str(replicas),
        "nvidia.com/gpu.sharing-strategy": sharing,
        "nvidia.com/mig.capable": "true" if model.family in ("hopper", "ampere", "blackwell") else "false",
        "nvidia.com/mig.strategy": strategy,
        "nvidia.com/mps.capable": "true" if pool.mode == "mps" else "false",
        "nvidia.com/vgpu.present": "false",
        "nvidia.com/gpu.deploy.device-plugin": "false" if pool.mode in ("dra", "dra-partitions") else "true",
        "nvidia.com/gpu.deploy.dcgm-exporter": "true",
        "nvidia.com/gpu.deploy.driver": "true",
        **extra,
    }


def node_object(
    world: World,
    name: str,
    pool: Pool,
    model: Model,
    labels: dict[str, str],
    devices: dict[str, str],
    stack: Stack,
) -> Obj:
    capacity = {
        "cpu": str(model.cpu),
        "ephemeral-storage": "1Ti",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": model.host_memory,
        "pods": "110",
        **devices,
    }
    spec: Obj = {"taints": [dict(taint) for taint in pool.taints]} if pool.taints else {}
    info: dict[str, Any] = {
        "architecture": labels["kubernetes.io/arch"],
        "bootID": name_uuid(f"boot{name}"),
        "containerRuntimeVersion": stack.runtime,
        "kernelVersion": stack.kernel,
        "kubeProxyVersion": "",
        "kubeletVersion": stack.kubelet,
        "machineID": name_uuid(name).replace("-", ""),
        "operatingSystem": "linux",
        "osImage": stack.os,
        "systemUUID": name_uuid(f"system{name}"),
    }
    obj: Obj = {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "uid": world.uid("node", name),
            "creationTimestamp": stamp(world.epoch - 86400 * 30),
            "labels": {**labels, "nvidia.com/gfd.timestamp": str(world.epoch)}
            if model.vendor == "nvidia"
            else labels,
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
        },
        "spec": spec,
        "status": {
            "capacity": capacity,
            "allocatable": {**capacity, "cpu": f"{model.cpu * 1000 - 500}m"},
            "conditions": [],
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": info,
        },
    }
    ready_conditions(obj, world.epoch - 86400 * 30)
    return obj
