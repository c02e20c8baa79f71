"""Findings about devices, from the rows that capacity gives."""

from __future__ import annotations

from decimal import Decimal

import pytest

from apps.admissions.tests.builders import T0, make_cluster
from apps.capacity.rows import BucketReason, NodeRow, Note, Ref
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
    found = note_finding(Note("over_committed", east, "H100: 128 promised, 120 usable", ("H100", "mps")))
    assert (found.severity, found.text) == ("warn", "East: H100: 128 promised, 120 usable")
    assert found.key == "quota/nominal_over_allocatable/east/H100/mps"
    assert note_finding(Note("shared_flavor", east, "x", ())).severity == "note"
    jobs = note_finding(Note("spans_capacity_types", east, "x", ("ml/a", "ml/b")))
    assert (jobs.severity, jobs.target, jobs.args, jobs.count) == ("warn", "topology", {"cluster": "east"}, 2)


def test_findings_of_one_cluster_have_keys_of_their_own_that_last() -> None:
    """REST pages by them, and a finding stays the same one while the nodes or jobs that it lists come and go."""
    east = make_cluster("east")

    def found(code: str, *objects: str, refs: tuple[Ref, ...] = ()) -> tuple[str, int]:
        made = note_finding(Note(code, east, "x", objects, refs))
        return made.key.removeprefix("capacity/").removeprefix("quota/"), made.count

    assert found("over_committed", "H100", "exclusive") == ("nominal_over_allocatable/east/H100/exclusive", 1)
    assert found("over_committed", "H100", "mps") == ("nominal_over_allocatable/east/H100/mps", 1)
    assert found("unused_flavor", "h200", "nvidia.com/gpu") == (
        "flavor_without_nodes/east/h200/nvidia.com/gpu",
        1,
    )
    assert found("mixed_units", "Cohort", "all", "amd") == ("unit_mismatch/east/Cohort/all/amd", 1)
    assert found("no_flavor", "n1", "n2") == ("no_flavor/east", 2)
    assert found("no_flavor", "n2") == ("no_flavor/east", 1)
    assert found("claim_orphan", "ml/a") == ("claim_orphan/east", 1)
    assert found("pods_missing") == ("pods_missing/east", 1)
    two = (Ref("flavor", "a"), Ref("flavor", "b"), Ref("node", "n1"))
    assert found("two_flavors", "n1", refs=two) == ("two_flavors/east/a/b", 1)
