"""Waiting work in the database, as the collectors leave it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from apps.accounts.models import Team
from apps.fleet.models import Cluster, TeamBinding
from apps.observations.models import ClusterObject, Event, Pod, StateSpan, Workload

T0 = datetime(2026, 12, 1, tzinfo=UTC)
LONG_AGO = T0 - timedelta(days=365)


def hours(count: float) -> datetime:
    return T0 + timedelta(hours=count)


def make_cluster(slug: str = "east", **fields: Any) -> Cluster:
    return Cluster.objects.create(slug=slug, name=slug.title(), kubeconfig_path="/nowhere", **fields)


def make_team(slug: str) -> Team:
    return Team.objects.create(slug=slug, name=slug.title())


def bind(team: Team, cluster: Cluster, name: str, kind: str = "cluster_queue", **fields: Any) -> TeamBinding:
    values = {"valid_from": LONG_AGO, **fields}
    return TeamBinding.objects.create(team=team, cluster=cluster, kind=kind, name=name, **values)


def make_object(cluster: Cluster, kind: str, name: str, **fields: Any) -> ClusterObject:
    values = {"first_seen_at": T0, "observed_at": T0, "namespace": "", **fields}
    uid = f"{kind}/{values['namespace']}/{name}"
    return ClusterObject.objects.create(cluster=cluster, kind=kind, name=name, uid=uid, **values)


def local_queue(cluster: Cluster, namespace: str, name: str, queue: str) -> ClusterObject:
    return make_object(cluster, "LocalQueue", name, namespace=namespace, spec={"cluster_queue": queue})


def make_work(cluster: Cluster, name: str, **fields: Any) -> Workload:
    """A Kueue Workload that waits with 8 GPUs, with its open span."""
    values = {
        "kind": "Workload",
        "uid": f"uid-{name}",
        "namespace": "ml",
        "state": "pending",
        "reason": "Pending",
        "message": "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in"
        " flavor h100, 8 more needed",
        "queue_name": "main",
        "requests": {"nvidia.com/gpu": "8", "cpu": "64"},
        "created_at": T0,
        "queued_at": T0,
        "first_seen_at": T0,
        "observed_at": T0,
        **fields,
    }
    work = Workload.objects.create(cluster=cluster, name=name, **values)
    if work.gone_at is None:
        make_span(work, start=work.observed_at)
    return work


def make_span(work: Workload, *, start: datetime, end: datetime | None = None, **fields: Any) -> StateSpan:
    values = {
        "queue": work.cluster_queue or (work.queue_name if work.kind == "PodGroup" else "team-a"),
        "state": work.state,
        "reason": work.reason,
        "message": work.message,
        "requests": work.requests,
        "usage": work.usage,
        **fields,
    }
    return StateSpan.objects.create(
        cluster=work.cluster,
        kind=work.kind,
        uid=work.uid,
        namespace=work.namespace,
        name=work.name,
        queue_name=work.queue_name,
        started_at=start,
        ended_at=end,
        **values,
    )


def make_pod(cluster: Cluster, name: str, **fields: Any) -> Pod:
    """A bare GPU pod that the scheduler could not place."""
    message = fields.pop("message", "0/4 nodes are available: 4 Insufficient nvidia.com/gpu.")
    values = {
        "uid": f"pod-{name}",
        "namespace": "ml",
        "phase": "Pending",
        "requests": {"nvidia.com/gpu": "1"},
        "devices": 1,
        "conditions": {"PodScheduled": {"status": "False", "reason": "Unschedulable", "message": message}},
        "created_at": T0,
        "first_seen_at": T0,
        "observed_at": T0,
        **fields,
    }
    return Pod.objects.create(cluster=cluster, name=name, **values)


def make_event(work: Workload, message: str, *, at: datetime, kind: str = "Normal") -> Event:
    return Event.objects.create(
        cluster=work.cluster,
        created_at=at,
        last_at=at,
        uid=f"event-{work.uid}-{message[:30]}-{at.isoformat()}",
        namespace=work.namespace,
        object_kind=work.kind,
        object_namespace=work.namespace,
        object_name=work.name,
        object_uid=work.uid,
        type=kind,
        reason="Unschedulable",
        message=message,
        observed_at=at,
    )
