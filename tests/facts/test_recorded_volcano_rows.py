"""Volcano's quota rows of the two recorded runs: which plugin is in force, what it makes of the same work, and devices
of DRA classes counted by claims. Numbers worked out by hand from the recordings' README and objects."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal as D

import pytest

from apps.fleet.models import Cluster
from apps.observations.models import ClusterObject, Pod, Workload
from apps.quotas.rows import QuotaRow
from apps.quotas.selectors import quota_rows

from .recorded import collected

AT = datetime(2026, 12, 2, 3, 5, tzinfo=UTC)
GPU = "nvidia.com/gpu"
pytestmark = pytest.mark.django_db


def run(name: str) -> Cluster:
    kinds = (("Node", "nodes"), ("VolcanoQueue", "queues"), ("PodGroup", "podgroups"), ("Pod", "pods"))
    return collected(name, [(kind, f"volcano-{name}/{file}.json") for kind, file in kinds], at=AT)


def gpus() -> dict[str, QuotaRow]:
    return {row.queue: row for row in quota_rows(now=AT) if row.resource == GPU}


def test_without_a_word_and_without_a_hierarchy_the_plugin_is_not_known() -> None:
    run("proportion")
    row = gpus()["production"]
    assert (row.plugin, row.deserved, row.real_capability, row.ceiling) == ("", D(16), None, D(40))


def test_proportion_goes_by_what_is_asked_for() -> None:
    """203 GPUs in all, 8 of them guaranteed to production: others may have 195 at most, production 203, but its
    capability is 40. Production asks for 24 and deserves them, 16 are written; research 12; scratch asks for 6 and may
    have 4; unlimited asks for 96 + 4."""
    cluster = run("proportion")
    Cluster.objects.filter(pk=cluster.pk).update(volcano_plugin="proportion")
    found = {
        name: (row.plugin, row.deserved, row.real_capability, row.reserved) for name, row in gpus().items()
    }
    assert found["production"] == ("proportion", D(24), D(40), D(28))
    assert found["research"] == ("proportion", D(12), D(24), D(12))
    assert found["scratch"] == ("proportion", D(4), D(4), D(4))
    assert found["unlimited"] == ("proportion", D(100), D(195), D(100))


def test_a_hierarchy_tells_of_capacity_and_deserved_is_as_written() -> None:
    run("capacity")
    found = {
        name: (row.plugin, row.deserved, row.real_capability, row.guarantee) for name, row in gpus().items()
    }
    assert found["production"] == ("capacity", D(24), D(40), D(8))
    assert found["research"] == ("capacity", D(16), D(24), D(4))
    assert found["eng"] == ("capacity", D(40), D(56), D(16))
    assert found["root"] == ("capacity", D(50), None, None)


def test_what_the_scheduler_is_configured_with_counts_before_any_guess() -> None:
    cluster = run("capacity")
    said = {"plugin": "proportion", "actions": ["enqueue", "allocate"]}
    ClusterObject.objects.create(
        cluster=cluster,
        uid="conf",
        kind="VolcanoScheduler",
        name="conf",
        spec=said,
        first_seen_at=AT,
        observed_at=AT,
    )
    assert {row.plugin for row in gpus().values()} == {"proportion"}


def test_devices_of_a_class_are_counted_by_claims_once_per_queue() -> None:
    """Two pods share one claim for 2 devices; a second claim is for 1, a third with admin access: 3 of 8 are held."""
    cluster = Cluster.objects.create(slug="dra", name="dra", kubeconfig_path="/nowhere")
    seen = {"cluster": cluster, "first_seen_at": AT, "observed_at": AT}
    key = "deviceclass/gpu.nvidia.com"
    spec = {"capability": {key: "8"}, "deserved": {key: "6"}, "guarantee": {}, "parent": "root", "weight": 1}
    ClusterObject.objects.create(
        uid="q",
        kind="VolcanoQueue",
        name="ml",
        spec=spec,
        status={"state": "Open", "allocated": {key: "3"}},
        **seen,
    )
    Workload.objects.create(
        uid="g", kind="PodGroup", namespace="ml", name="job", queue_name="ml", state="admitted", **seen
    )
    for name in ("a", "b"):
        Pod.objects.create(
            uid=name, namespace="ml", name=name, pod_group="job", phase="Running", node_name="n", **seen
        )
    for name, count, admin, pods in (
        ("shared", 2, False, "ab"),
        ("own", 1, False, "a"),
        ("watch", 4, True, "b"),
    ):
        ClusterObject.objects.create(
            uid=name,
            kind="ResourceClaim",
            namespace="ml",
            name=name,
            spec={
                "requests": [{"name": "r", "device_class": "gpu.nvidia.com", "count": count, "admin": admin}]
            },
            status={"allocated": True, "reserved_for": [{"kind": "Pod", "name": p, "uid": p} for p in pods]},
            **seen,
        )
    (row,) = (row for row in quota_rows(now=AT) if row.resource == key)
    assert (row.accelerator, row.unit, row.model_label) == (True, "device", "gpu.nvidia.com")
    assert (row.reserved, row.admitted, row.nominal, row.ceiling, row.available) == (
        D(3),
        D(3),
        D(6),
        D(8),
        D(5),
    )
    assert not row.mismatch
