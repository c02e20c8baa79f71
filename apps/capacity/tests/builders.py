"""Nodes, flavors, queues and pods in the database as the collectors leave them, for tests of capacity."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, Node, Outcome, Pod, Presence, Source, SourceState

AT = datetime(2026, 12, 1, 12, tzinfo=UTC)
GPU = "nvidia.com/gpu"
H100 = "NVIDIA-H100-80GB-HBM3"
READY = {"Ready": {"status": "True", "reason": "KubeletReady", "message": "", "since": None}}
_SEEN = {"first_seen_at": AT, "observed_at": AT, "created_at": AT}


def make_cluster(slug: str = "east", *, installed: bool = True) -> Cluster:
    """A cluster whose sources were all read just now; `installed` False: without Kueue and Volcano."""
    cluster = Cluster.objects.create(slug=slug, name=slug.title(), kubeconfig_path="/nowhere")
    for source in Source.values:
        absent = not installed and source in (Source.KUEUE, Source.VOLCANO)
        SourceState.objects.create(
            cluster=cluster,
            source=source,
            presence=Presence.ABSENT if absent else Presence.INSTALLED,
            last_run_at=AT,
            last_ok_at=AT,
            last_outcome=Outcome.OK,
        )
    return cluster


def make_node(
    cluster: Cluster,
    name: str,
    labels: dict[str, str] | None = None,
    *,
    gpus: int = 8,
    model: str = H100,
    offers: dict[str, str] | None = None,
    **fields: Any,
) -> Node:
    """A node of `gpus` whole cards, or with exactly what `offers` says."""
    found = {GPU: str(gpus)} if offers is None else offers
    said = {"nvidia.com/gpu.product": model, "nvidia.com/gpu.count": str(gpus)} if model else {}
    values = {"capacity": found, "allocatable": found, "conditions": READY, **fields}
    return Node.objects.create(
        cluster=cluster, uid=f"node-{name}", name=name, labels={**said, **(labels or {})}, **_SEEN, **values
    )


def make_object(cluster: Cluster, kind: str, name: str, spec: dict[str, Any]) -> ClusterObject:
    return ClusterObject.objects.create(
        cluster=cluster, kind=kind, uid=f"{kind}-{name}", name=name, spec=spec, status={}, **_SEEN
    )


def make_flavor(cluster: Cluster, name: str, **labels: str) -> ClusterObject:
    spec = {"node_labels": labels, "node_taints": [], "tolerations": [], "topology": ""}
    return make_object(cluster, "ResourceFlavor", name, spec)


def quota(**flavors: dict[str, int]) -> list[dict[str, Any]]:
    """Resource groups from {flavor: {resource: nominal}}."""
    return [
        {
            "covered": sorted(resources),
            "flavors": [
                {
                    "name": flavor,
                    "resources": [
                        {"name": name, "nominal": str(n), "borrowing_limit": None, "lending_limit": None}
                        for name, n in resources.items()
                    ],
                }
            ],
        }
        for flavor, resources in flavors.items()
    ]


def make_queue(cluster: Cluster, name: str, cohort: str = "", **flavors: dict[str, int]) -> ClusterObject:
    spec = {"cohort": cohort, "resource_groups": quota(**flavors), "stop_policy": "None", "fair_weight": None}
    return make_object(cluster, "ClusterQueue", name, spec)


def make_cohort(cluster: Cluster, name: str, parent: str = "", **flavors: dict[str, int]) -> ClusterObject:
    return make_object(cluster, "Cohort", name, {"parent": parent, "resource_groups": quota(**flavors)})


def make_pod(
    cluster: Cluster, name: str, node: str, gpus: int = 8, *, namespace: str = "ml", **fields: Any
) -> Pod:
    """A running pod; of the Job `owner_name`, unless said otherwise."""
    values = {
        "phase": "Running",
        "owner_kind": "Job",
        "owner_name": "train",
        "requests": {GPU: str(gpus)} if gpus else {},
        "devices": Decimal(gpus),
        "bound_at": AT,
        **fields,
    }
    return Pod.objects.create(
        cluster=cluster,
        uid=f"pod-{namespace}-{name}",
        namespace=namespace,
        name=name,
        node_name=node,
        **_SEEN,
        **values,
    )


DRIVER = "gpu.nvidia.com"


def make_slice(cluster: Cluster, node: str, *, cards: int, **fields: Any) -> ClusterObject:
    """A driver's pool of whole cards on a node, gpu-0 and so on; with `node` "" that every node reaches."""
    devices: list[dict[str, Any]] = [
        {
            "name": f"gpu-{number}", "node": "", "all_nodes": False, "node_selector": None, "consumes": [],
            "attributes": {"type": "gpu", "uuid": f"GPU-{node}-{number}", "productName": "NVIDIA H100 80GB HBM3"},
            "capacity": {}, "taints": [], "multiple": False,
        }
        for number in range(cards)
    ]  # fmt: skip
    spec = {
        "driver": DRIVER, "pool": node or "everywhere", "generation": 1, "slices": 1, "node": node,
        "all_nodes": not node, "node_selector": None, "per_device_nodes": False, "counters": {}, "devices": devices,
        **fields,
    }  # fmt: skip
    return make_object(cluster, "ResourceSlice", f"slice-{node}", spec)


def make_claim(cluster: Cluster, name: str, pool: str, *, cards: int, namespace: str = "ml") -> ClusterObject:
    """A claim that was given the first cards of a pool, and that a pod reserves."""
    results = [
        {
            "request": "r", "driver": DRIVER, "pool": pool, "device": f"gpu-{number}", "admin": False,
            "share_id": "", "consumed": {},
        }
        for number in range(cards)
    ]  # fmt: skip
    user = {"kind": "Pod", "name": name, "uid": f"uid-{name}"}
    made = make_object(
        cluster, "ResourceClaim", name, {"requests": [], "extended": False, "pod_claim_name": ""}
    )
    made.namespace = namespace
    made.status = {
        "allocated": True, "node": pool, "results": results, "reserved_for": [user], "allocated_at": None,
    }  # fmt: skip
    made.save()
    return made
