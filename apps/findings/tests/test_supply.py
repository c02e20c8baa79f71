"""Findings about devices, from the rows that capacity gives."""

from __future__ import annotations

from decimal import Decimal

import pytest

from apps.admissions.tests.builders import T0, make_cluster
from apps.capacity.rows import BucketReason, NodeRow, Note
from apps.findings.supply import bucket_findings, note_finding
from apps.fleet.models import Cluster

pytestmark = pytest.mark.django_db


def row(cluster: Cluster, node: str, *reasons: tuple[str, int]) -> NodeRow:
    return NodeRow(
        cluster=cluster,
        node=node,
        uid=node,
        vendor="nvidia",
        model="H100",
        model_label="H100 80GB",
        sharing_mode="exclusive",
        unit="card",
        physical_devices=8,
        buckets={},
        allocatable_devices=8,
        physical_units=Decimal(8),
        allocatable=Decimal(8),
        held_bound=Decimal(0),
        free=Decimal(8),
        units=(),
        reasons=tuple(BucketReason(bucket, bucket.replace("_", " "), count, "") for bucket, count in reasons),
        flavors=(),
        estimated=False,
        notes=(),
        observed_at=T0,
    )


def test_one_finding_per_cluster_and_bucket() -> None:
    east, west = make_cluster("east"), make_cluster("west")
    rows = [
        row(east, "n1", ("node_not_ready", 8)),
        row(east, "n2", ("cordoned", 8), ("device_unhealthy", 1)),
        *(row(west, f"w{i}", ("node_not_ready", 8)) for i in range(5)),
        row(west, "reserved", ("platform_reserve", 2)),
    ]
    found = {item.key: item for item in bucket_findings(rows)}
    assert {key: (item.severity, item.text) for key, item in found.items()} == {
        "bucket/east/node_not_ready": ("bad", "8 devices in East are out of use (node not ready): n1"),
        "bucket/east/cordoned": ("note", "8 devices in East are out of use (cordoned): n2"),
        "bucket/east/device_unhealthy": ("bad", "1 device in East is out of use (device unhealthy): n2"),
        "bucket/west/node_not_ready": (
            "bad",
            "40 devices in West are out of use (node not ready): w0, w1, w2 and 2 more",
        ),
    }
    assert found["bucket/east/cordoned"].target == "node"
    assert found["bucket/east/cordoned"].args == {"cluster": "east", "name": "n2"}
    assert (found["bucket/west/node_not_ready"].target, found["bucket/west/node_not_ready"].count) == (
        "capacity",
        40,
    )


def test_notes_of_capacity_become_findings() -> None:
    east = make_cluster("east")
    found = note_finding(Note("over_committed", east, "H100: 128 promised, 120 usable", ("H100",)))
    assert (found.severity, found.text) == ("warn", "East: H100: 128 promised, 120 usable")
    assert found.key == "capacity/over_committed/east/H100"
    assert note_finding(Note("shared_flavor", east, "x", ())).severity == "note"
    cycle = note_finding(Note("cohort_cycle", east, "a → b → a", ("a", "b")))
    assert (cycle.severity, cycle.target) == ("bad", "capacity")
    jobs = note_finding(Note("spans_capacity_types", east, "x", ("ml/a", "ml/b")))
    assert (jobs.severity, jobs.target, jobs.args, jobs.count) == ("warn", "topology", {"cluster": "east"}, 2)
