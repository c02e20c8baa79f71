"""Nodes, pods and device samples in the database as the collectors leave them, for tests of cards."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from apps.accounts.models import Team
from apps.fleet.models import Cluster, TeamBinding
from apps.observations.models import ClusterObject, DeviceSample, Node, Pod, SourceState

T0 = datetime(2026, 12, 1, tzinfo=UTC)
D = Decimal
H100 = "NVIDIA-H100-80GB-HBM3"


def make_cluster(slug: str = "east", **fields: Any) -> Cluster:
    return Cluster.objects.create(slug=slug, name=slug.title(), kubeconfig_path="/nowhere", **fields)


def make_object(cluster: Cluster, kind: str, name: str, namespace: str = "", **fields: Any) -> ClusterObject:
    return ClusterObject.objects.create(
        cluster=cluster,
        kind=kind,
        name=name,
        namespace=namespace,
        uid=f"{kind}/{namespace}/{name}",
        first_seen_at=T0,
        observed_at=T0,
        **fields,
    )


def team_of(cluster: Cluster, slug: str, namespace: str) -> Team:
    """A team whose queue the LocalQueue `lq` of this namespace leads to."""
    team = Team.objects.create(slug=slug, name=slug.title())
    make_object(cluster, "LocalQueue", "lq", namespace, spec={"cluster_queue": f"{slug}-cq"})
    TeamBinding.objects.create(
        team=team,
        cluster=cluster,
        kind="cluster_queue",
        name=f"{slug}-cq",
        valid_from=T0 - timedelta(days=365),
    )
    return team


def read(cluster: Cluster, *sources: str) -> None:
    for source in sources:
        SourceState.objects.create(
            cluster=cluster,
            source=source,
            presence="installed",
            last_run_at=T0,
            last_ok_at=T0,
            last_outcome="ok",
        )


def node(cluster: Cluster, name: str, capacity: dict[str, str], **more: Any) -> Node:
    labels = {"nvidia.com/gpu.product": H100, "nvidia.com/gpu.memory": "81559", **more.pop("labels", {})}
    return Node.objects.create(
        cluster=cluster,
        uid=name,
        name=name,
        labels=labels,
        capacity=capacity,
        allocatable={**capacity, **more.pop("allocatable", {})},
        conditions={"Ready": {"status": "True"}},
        first_seen_at=T0,
        observed_at=T0,
        **more,
    )


def pod(cluster: Cluster, name: str, where: str, requests: dict[str, str], **more: Any) -> Pod:
    values: dict[str, Any] = {
        "namespace": "ml",
        "phase": "Running",
        "bound_at": T0 - timedelta(hours=2),
        **more,
    }
    return Pod.objects.create(
        cluster=cluster,
        uid=f"{values['namespace']}/{name}",
        name=name,
        node_name=where,
        requests=requests,
        devices=sum((D(amount) for amount in requests.values()), D(0)),
        first_seen_at=T0,
        observed_at=T0,
        **values,
    )


def sample(cluster: Cluster, device: str, where: str, ratio: str | None = None, **more: Any) -> None:
    DeviceSample.objects.create(
        cluster=cluster,
        sampled_at=T0 - timedelta(seconds=more.pop("ago", 20)),
        device=device,
        node_name=where,
        utilisation_ratio=None if ratio is None else D(ratio),
        **{"vendor": "nvidia", "model": "NVIDIA H100 80GB HBM3", **more},
    )
