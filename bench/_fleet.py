"""A large made-up fleet, written straight into the database: what capacity is measured on.

Every kind of node that pools are made of, whole cards, time slices and MIG instances, some of them out of use; pods
with and without cards on every node; flavors, queues and a reserve.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

GPU = "nvidia.com/gpu"
CARDS = 8
GIB = 2**30
MODELS = ("NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L4")
POOLS = ("train", "infer", "lab")


@dataclass(frozen=True)
class Size:
    nodes: int = 5_000
    pods: int = 60_000

    @property
    def cards(self) -> int:
        return self.nodes * CARDS


def node_values(number: int) -> dict[str, Any]:
    """Labels, capacity and state of one node: seven in ten whole cards, two sliced, one MIG."""
    kind = number % 10
    model = MODELS[2] if kind in (7, 8) else MODELS[number % 2]
    labels = {
        "kubernetes.io/hostname": f"node-{number:05d}",
        "topology.kubernetes.io/zone": f"z{number % 3}",
        "pool": POOLS[number % 3],
        "karpenter.sh/capacity-type": "spot" if number % 20 == 3 else "on-demand",
        "nvidia.com/gpu.product": model,
        "nvidia.com/gpu.count": str(CARDS),
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/gpu.replicas": "4" if kind in (7, 8) else "1",
        "nvidia.com/gpu.sharing-strategy": "time-slicing" if kind in (7, 8) else "none",
        "nvidia.com/mig.strategy": "mixed" if kind == 9 else "none",
    }
    devices = {GPU: str(CARDS * 4 if kind in (7, 8) else CARDS)}
    if kind == 9:
        devices = {GPU: "4", "nvidia.com/mig-1g.10gb": "14", "nvidia.com/mig-3g.40gb": "4"}
    room = {"cpu": "192", "memory": str(2048 * GIB), "pods": "110"}
    usable = dict(devices)
    if number % 97 == 5:
        usable[GPU] = str(int(usable[GPU]) - 1)
    return {
        "labels": labels,
        "capacity": room | devices,
        "allocatable": room | usable,
        "conditions": {"Ready": {"status": "False" if number % 89 == 7 else "True", "reason": "Kubelet"}},
        "unschedulable": number % 53 == 11,
        "taints": [{"key": "spot", "value": "", "effect": "NoSchedule"}] if number % 20 == 3 else [],
    }


def pod_values(number: int, nodes: int) -> dict[str, Any]:
    """Every other pod holds one card, the rest none."""
    holds = number // nodes % 2 == 0
    requests = {"cpu": "4", "memory": str(16 * GIB)} | ({GPU: "1"} if holds else {})
    return {
        "namespace": f"team-{number % 40}",
        "name": f"pod-{number:06d}",
        "node_name": f"node-{number % nodes:05d}",
        "phase": "Running",
        "requests": requests,
        "devices": 1 if holds else 0,
    }


def objects() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Kind, name and spec of flavors, queues and a cohort."""
    for model, pool in ((model, pool) for model in MODELS for pool in POOLS):
        name = f"{model.split('-')[1].lower()}-{pool}"
        labels = {"nvidia.com/gpu.product": model, "pool": pool}
        yield (
            "ResourceFlavor",
            name,
            {
                "node_labels": labels,
                "node_taints": [],
                "tolerations": [{"key": "spot", "operator": "Exists"}],
                "topology_name": "",
            },
        )
        for number in range(10):
            quota = {"name": GPU, "nominal": "1200", "borrowing_limit": None, "lending_limit": None}
            yield (
                "ClusterQueue",
                f"{name}-{number}",
                {
                    "cohort": "all",
                    "resource_groups": [
                        {"covered": [GPU], "flavors": [{"name": name, "resources": [quota]}]}
                    ],
                },
            )
    yield "Cohort", "all", {"parent": "", "resource_groups": []}


def write_fleet(slug: str, size: Size, *, now: datetime) -> Any:
    """The cluster, as if it had been pulled at `now` and had not changed for an hour."""
    from apps.fleet.models import Cluster, Reserve
    from apps.observations import models as observed

    cluster = Cluster.objects.create(slug=slug, name="Bench", kubeconfig_path="/nowhere")
    seen = {
        "cluster": cluster,
        "first_seen_at": now - timedelta(hours=1),
        "observed_at": now - timedelta(hours=1),
    }
    observed.Node.objects.bulk_create(
        (
            observed.Node(uid=f"{slug}-n{n}", name=f"node-{n:05d}", **node_values(n), **seen)
            for n in range(size.nodes)
        ),
        batch_size=2000,
    )
    observed.Pod.objects.bulk_create(
        (observed.Pod(uid=f"{slug}-p{n}", **pod_values(n, size.nodes), **seen) for n in range(size.pods)),
        batch_size=5000,
    )
    observed.ClusterObject.objects.bulk_create(
        observed.ClusterObject(uid=f"{slug}-{kind}-{name}", kind=kind, name=name, spec=spec, **seen)
        for kind, name, spec in objects()
    )
    for source in observed.Source.values:
        installed = source not in (observed.Source.VOLCANO, observed.Source.DEVICES)
        observed.SourceState.objects.create(
            cluster=cluster,
            source=source,
            presence=observed.Presence.INSTALLED if installed else observed.Presence.ABSENT,
            last_run_at=now,
            last_ok_at=now,
            last_outcome=observed.Outcome.OK,
        )
    Reserve.objects.create(
        cluster=cluster, selector="pool=lab", devices=40, reason="spares", valid_from=now - timedelta(hours=1)
    )
    return cluster


def remove_fleet(cluster: Any) -> None:
    from apps.fleet.models import Reserve
    from apps.observations import models as observed

    Reserve.objects.filter(cluster=cluster).delete()
    observed.DeviceSample.objects.filter(cluster=cluster).delete()
    cluster.delete()


def change_node(cluster: Any, number: int, *, at: datetime) -> None:
    """As a pull does it: one node differs, and the source was read."""
    from apps.observations import models as observed

    rows = observed.Node.objects.filter(cluster=cluster, name=f"node-{number:05d}")
    node = rows.get()
    rows.update(unschedulable=not node.unschedulable, observed_at=at)
    observed.SourceState.objects.filter(cluster=cluster, source=observed.Source.NODES).update(
        last_run_at=at, last_ok_at=at
    )


def add_pod(cluster: Any, size: Size, number: int, *, at: datetime) -> None:
    """As a pull does it: one more pod with a card on a node, and the source was read."""
    from apps.observations import models as observed

    values = pod_values(number % size.nodes, size.nodes)
    observed.Pod.objects.create(
        cluster=cluster, uid=f"{cluster.slug}-new-{number}", first_seen_at=at, observed_at=at, **values
    )
    observed.SourceState.objects.filter(cluster=cluster, source=observed.Source.PODS).update(
        last_run_at=at, last_ok_at=at
    )


SAMPLE_COLUMNS = (
    "cluster_id, sampled_at, device, instance, node_name, model, namespace, pod, utilisation_ratio,"
    " utilisation_source, memory_used_bytes, memory_total_bytes, power_watts, vendor, profile, driver, attribution,"
    " shares"
)


def sampled_devices(number: int, nodes: int) -> Iterator[tuple[str, str, str, str, str]]:
    """(device, instance, profile, namespace, pod) of one node: its first cards are held by its pods; a MIG node's
    last four cards are seven and two instances each."""
    kind = number % 10
    for card in range(CARDS):
        device = f"GPU-{number:05d}-{card}"
        if kind == 9 and card >= 4:
            parts, profile = (7, "1g.10gb") if card < 6 else (2, "3g.40gb")
            for part in range(parts):
                yield device, str(part + 1), profile, "", ""
            continue
        pod = pod_values(number + 2 * card * nodes, nodes) if card < 6 else None
        yield device, "", "", pod["namespace"] if pod else "", pod["name"] if pod else ""


def write_samples(cluster: Any, size: Size, *, now: datetime, minutes: int = 30) -> None:
    """A sample per device and minute, by COPY; held cards and instances work, but one in twenty, free ones do not."""
    from django.db import connection

    into = f"COPY observations_devicesample ({SAMPLE_COLUMNS}) FROM STDIN"
    with connection.cursor() as cursor, cursor.copy(into) as copy:
        for minute in reversed(range(minutes)):
            at = (now - timedelta(minutes=minute, seconds=20)).isoformat()
            for number in range(size.nodes):
                for row in _node_samples(number, size.nodes, minute):
                    copy.write_row((cluster.pk, at, *row))


def _node_samples(number: int, nodes: int, minute: int) -> Iterator[tuple[object, ...]]:
    model = node_values(number)["labels"]["nvidia.com/gpu.product"]
    for index, (device, instance, profile, namespace, pod) in enumerate(sampled_devices(number, nodes)):
        works = bool(pod or instance) and (number * 7 + index) % 20 != 0
        ratio = f"0.{2000 + (number * 37 + minute * 101) % 7000}" if works else "0.0000"
        used = 60 * GIB if works else 2 * GIB
        yield (
            *(
                device,
                instance,
                f"node-{number:05d}",
                model,
                namespace,
                pod,
                ratio,
                "sm_active",
                used,
                80 * GIB,
            ),
            *("350.00", "nvidia", profile, "580.95.05", "whole" if pod else "", "[]"),
        )
