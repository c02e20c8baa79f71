"""Rows as the parsers give them, for tests of the writers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction

from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, Event, Node, Pod, SourceState, Workload
from apps.observations.services import Row, Target, all_silent, write_samples

T0 = datetime(2026, 11, 2, 8, 0, tzinfo=UTC)
OURS = {"id", "cluster", "first_seen_at", "observed_at", "gone_at"}


def columns_of(model: Any) -> tuple[str, ...]:
    return tuple(field.name for field in model._meta.concrete_fields if field.name not in OURS)


WORKLOADS = Target(Workload, "Workload", columns_of(Workload))
POD_GROUPS = Target(Workload, "PodGroup", columns_of(Workload))
NODES = Target(Node, "Node", columns_of(Node))
PODS = Target(Pod, "Pod", columns_of(Pod))
EVENTS = Target(Event, "Event", columns_of(Event))


def objects(kind: str) -> Target:
    return Target(ClusterObject, kind, columns_of(ClusterObject))


def make_cluster(slug: str = "c1", **fields: Any) -> Cluster:
    return Cluster.objects.create(slug=slug, name=slug.upper(), kubeconfig_path="/nowhere", **fields)


def see(cluster: Cluster, at: datetime, nodes: Mapping[str, Mapping[str, str]]) -> None:
    """Samples of one pull at `at`, as it writes them: {node: {device: model}}; a device "GPU-1/2" is an instance."""
    rows = [
        (at, *device.partition("/")[::2], node, model)
        for node, cards in nodes.items()
        for device, model in cards.items()
    ]
    columns = ("sampled_at", "device", "instance", "node_name", "model")
    with transaction.atomic():
        if rows:
            write_samples(cluster_id=cluster.pk, columns=columns, rows=rows)
        else:
            all_silent(cluster_id=cluster.pk, at=at)
        SourceState.objects.update_or_create(
            cluster=cluster,
            source="dcgm",
            defaults={"last_ok_at": at, "last_run_at": at, "last_outcome": "ok"},
        )


def minutes(count: float) -> datetime:
    return T0 + timedelta(minutes=count)


def row(target: Target, uid: str = "u1", version: int | str = 1, **fields: Any) -> Row:
    """A row of `target` with the model's defaults for everything not named."""
    given: dict[str, Any] = {
        "uid": uid,
        "name": uid,
        "namespace": "ns",
        "resource_version": str(version),
        "kind": target.kind,
        "state": "pending",
        "created_at": T0,
        **fields,
    }
    made = []
    for column in target.columns:
        field: Any = target.model._meta.get_field(column)
        value = given[column] if column in given else field.get_default()
        if field.get_internal_type() == "JSONField":
            value = json.dumps(value)
        made.append(value)
    return tuple(made)


def workload(uid: str = "w1", version: int | str = 1, state: str = "pending", **fields: Any) -> Row:
    return row(WORKLOADS, uid, version, state=state, **fields)
