"""Kueue's queues and Volcano's objects: expected values were read by hand from the recorded objects."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from worker.parsers.base import ParseError
from worker.parsers.kinds import KINDS, decode_list, decode_watch, kinds_of, page_rows, watch_row
from worker.parsers.kueue import ClusterQueue, Cohort, cluster_queue_row, cohort_row
from worker.parsers.volcano import PodGroup, pod_group_row, strip_prefixes

from .recorded import as_dict, rows

GI = 1024**3
META = {"name": "x", "namespace": "n", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}


def _decode(kind: str, raw: dict[str, Any]) -> dict[str, Any]:
    found = KINDS[kind]
    struct = msgspec.json.decode(msgspec.json.encode({"metadata": META, **raw}), type=found.struct)
    row = found.row(struct)
    return as_dict(kind, (*row, "{}") if found.keeps_raw else row)


# ------------------------------------------------------------------ as served
def test_kinds_with_pages_keep_what_was_served() -> None:
    kept = {name for name, kind in KINDS.items() if kind.keeps_raw}
    assert kept == {
        "ClusterQueue",
        "Cohort",
        "LocalQueue",
        "ResourceFlavor",
        "AdmissionCheck",
        "VolcanoQueue",
    }
    assert all((kind.columns[-1] == "raw") == kind.keeps_raw for kind in KINDS.values())


def test_served_objects_lose_only_bookkeeping() -> None:
    meta = {
        **META,
        "resourceVersion": "7",
        "managedFields": [{"manager": "kubectl"}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "kept"},
    }
    served = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": meta, "spec": {"x": [1]}}
    kept = {**served, "metadata": {**META, "annotations": {"note": "kept"}}}
    listed = msgspec.json.encode({"kind": "CohortList", "metadata": {}, "items": [served]})
    kind = KINDS["Cohort"]
    made, bad = page_rows(kind, decode_list(kind, "v1beta2", listed))
    assert bad == []
    assert as_dict("Cohort", made[0])["raw"] == kept
    event = msgspec.json.encode({"type": "MODIFIED", "object": served})
    row = watch_row(kind, decode_watch(kind, "v1beta2", event))
    assert isinstance(row, tuple)
    assert as_dict("Cohort", row)["raw"] == kept


def test_a_namespace_is_its_labels() -> None:
    row = rows("kueue/namespaces.json", "Namespace")["team-a"]
    assert row["labels"]["kubernetes.io/metadata.name"] == "team-a"
    assert (row["kind"], row["spec"], row["status"]) == ("Namespace", {}, {"phase": "Active"})


# ------------------------------------------------------------------ Kueue
def test_a_cluster_queue() -> None:
    row = rows("kueue/clusterqueues.json", "ClusterQueue")["team-a-cq"]
    spec, status = row["spec"], row["status"]
    assert row["labels"] == {"cost-center": "cc-1001"}
    assert (spec["cohort"], spec["strategy"], spec["stop_policy"]) == ("research", "BestEffortFIFO", "None")
    (group,) = spec["resource_groups"]
    assert group["covered"] == ["cpu", "memory", "nvidia.com/gpu"]
    assert [f["name"] for f in group["flavors"]] == ["h100", "a100"]
    assert group["flavors"][0]["resources"][1:] == [
        {"name": "memory", "nominal": str(4 * 1024 * GI), "borrowing_limit": None, "lending_limit": None},
        {"name": "nvidia.com/gpu", "nominal": "8", "borrowing_limit": "8", "lending_limit": "4"},
    ]
    assert spec["preemption"] == {
        "within_cluster_queue": "LowerPriority",
        "reclaim_within_cohort": "Any",
        "borrow_within_cohort": {"policy": "LowerPriority", "max_priority_threshold": 100},
    }
    assert spec["fungibility"]["when_can_borrow"] == "MayStopSearch"
    assert spec["namespace_selector"] == {
        "matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]
    }
    assert (status["pending"], status["reserving"], status["admitted"]) == (3, 6, 6)
    assert {"flavor": "h100", "resource": "nvidia.com/gpu", "total": "12", "borrowed": "4"} in status["usage"]
    assert status["conditions"]["Active"]["reason"] == "Ready"
    assert status["weighted_share"] is None


def test_inactive_queues_say_why() -> None:
    queues = rows("kueue/clusterqueues.json", "ClusterQueue")
    reasons = {
        name: row["status"]["conditions"]["Active"]["reason"]
        for name, row in queues.items()
        if row["status"]["conditions"]["Active"]["status"] != "True"
    }
    assert reasons == {
        "broken-cq": "FlavorNotFound",
        "checked-dead-cq": "AdmissionCheckInactive",
        "drain-cq": "Stopped",
        "hold-cq": "Stopped",
    }
    assert queues["checked-cq"]["spec"]["checks"] == [{"name": "budget-check", "flavors": []}]
    assert (queues["hold-cq"]["spec"]["stop_policy"], queues["drain-cq"]["spec"]["stop_policy"]) == (
        "Hold",
        "HoldAndDrain",
    )
    assert queues["infer-cq"]["spec"]["strategy"] == "StrictFIFO"


def test_cohorts_local_queues_and_the_small_kinds() -> None:
    cohorts = rows("kueue/fair-cohorts.json", "Cohort")
    assert cohorts["research"]["spec"]["parent"] == "org"
    assert cohorts["org"]["status"] == {"weighted_share": "0"}
    queue = rows("kueue/localqueues.json", "LocalQueue")["infer/main"]
    assert queue["spec"] == {"cluster_queue": "infer-cq", "stop_policy": "None", "fair_weight": None}
    assert queue["status"]["usage"][2] == {
        "flavor": "l4-shared",
        "resource": "nvidia.com/gpu",
        "total": "12",
        "borrowed": None,
    }
    flavors = rows("kueue/resourceflavors.json", "ResourceFlavor")
    assert flavors["a100"]["spec"]["node_labels"] == {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    assert flavors["h100-tas"]["spec"]["topology"] == "gpu-topo"
    assert flavors["h100-spot"]["spec"]["node_taints"] == [
        {"key": "spot", "value": "true", "effect": "NoSchedule"}
    ]
    assert rows("kueue/topologies.json", "Topology")["gpu-topo"]["spec"]["levels"] == [
        "cloud.provider.com/topology-block",
        "cloud.provider.com/topology-rack",
        "kubernetes.io/hostname",
    ]
    checks = rows("kueue/admissionchecks.json", "AdmissionCheck")
    assert checks["budget-check"]["spec"] == {"controller": "rig.test/budget", "parameters": None}
    assert checks["budget-check"]["status"]["conditions"]["Active"]["status"] == "True"
    classes = rows("kueue/workloadpriorityclasses.json", "WorkloadPriorityClass")
    assert {name: row["spec"]["value"] for name, row in classes.items()} == {
        "batch-default": 100,
        "prod-high": 1000,
        "scavenger": -10,
    }


def test_the_older_version_reads_the_same() -> None:
    cell = {"name": "nvidia.com/gpu", "nominalQuota": "8"}
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "f", "resources": [cell]}]}]
    old = {
        "cohort": "c",
        "resourceGroups": groups,
        "admissionChecks": ["budget"],
        "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"},
    }
    new = {
        "cohortName": "c",
        "resourceGroups": groups,
        "admissionChecksStrategy": {"admissionChecks": [{"name": "budget"}]},
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"},
    }
    assert _decode("ClusterQueue", {"spec": old}) == _decode("ClusterQueue", {"spec": new})
    assert _decode("Cohort", {"spec": {"parent": "p"}}) == _decode("Cohort", {"spec": {"parentName": "p"}})
    usage = [{"name": "f", "resources": [{"name": "cpu", "total": "1500m"}]}]
    assert _decode("LocalQueue", {"status": {"flavorUsage": usage}}) == _decode(
        "LocalQueue", {"status": {"flavorsUsage": usage}}
    )


def test_selectors_none_and_all_stay_apart() -> None:
    assert _decode("ClusterQueue", {"spec": {}})["spec"]["namespace_selector"] is None
    assert _decode("ClusterQueue", {"spec": {"namespaceSelector": {}}})["spec"]["namespace_selector"] == {}


def test_infinite_share_and_small_weight_stay_exact() -> None:
    fair = {"weight": "500m", "weightedShare": 9223372036854775807}
    row = _decode("ClusterQueue", {"spec": {"fairSharing": fair}, "status": {"fairSharing": fair}})
    assert (row["spec"]["fair_weight"], row["status"]["weighted_share"]) == ("0.5", "9223372036854775807")


def test_a_bad_quota_names_its_place() -> None:
    cell = {"name": "cpu", "nominalQuota": "8", "lendingLimit": "half"}
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [cell]}]}]
    raw = msgspec.json.encode({"metadata": META, "spec": {"resourceGroups": groups}})
    with pytest.raises(ParseError, match=r"resourceGroups\[f\]\[cpu\].lendingLimit: 'half'"):
        cluster_queue_row(msgspec.json.decode(raw, type=ClusterQueue))
    with pytest.raises(ParseError):
        cohort_row(msgspec.json.decode(raw, type=Cohort))


# ------------------------------------------------------------------ Volcano
@pytest.fixture(scope="module")
def groups() -> dict[str, dict[str, Any]]:
    """PodGroups by the job they belong to, the ones that Volcano made for single pods left out."""
    found = rows("volcano-capacity/podgroups.json", "PodGroup")
    return {row["owner_name"] or row["name"]: row for row in found.values()}


def test_states_of_pod_groups() -> None:
    found = rows("volcano-capacity/podgroups.json", "PodGroup")
    assert Counter(row["state"] for row in found.values()) == {"admitted": 7, "pending": 6, "reserved": 3}


def test_a_group_over_its_queues_ceiling(groups: dict[str, dict[str, Any]]) -> None:
    row = groups["llm-pretrain"]
    assert (row["kind"], row["state"], row["queue_name"], row["cluster_queue"]) == (
        "PodGroup",
        "pending",
        "production",
        "",
    )
    # no condition and no pods: the refusal is only in an event
    assert (row["reason"], row["message"], row["conditions"]) == ("", "", {})
    assert row["requests"] == {
        "cpu": "36",
        "memory": str(144 * GI),
        "nvidia.com/gpu": "72",
        "pods": "9",
    }
    assert (row["usage"], row["priority_class"], row["priority"]) == ([], "normal", None)
    assert row["pod_sets"] == [{"name": "worker", "count": 9, "min_count": 9, "requests": {}}]


def test_a_group_that_no_node_fits(groups: dict[str, dict[str, Any]]) -> None:
    row = groups["wrong-model"]
    assert (row["state"], row["reason"]) == ("reserved", "NotEnoughResources")
    assert row["message"].startswith("1/1 tasks in gang unschedulable: pod group is not ready, 1 Pending")
    assert row["cluster_queue"] == "research"
    assert {"flavor": "", "resource": "nvidia.com/gpu", "quantity": "1"} in row["usage"]


def test_a_running_group(groups: dict[str, dict[str, Any]]) -> None:
    row = groups["llm-finetune"]
    assert (row["state"], row["reason"]) == ("admitted", "tasks in gang are ready to be scheduled")
    assert row["queued_at"] == datetime(2026, 12, 2, 2, 9, 46, tzinfo=UTC)
    assert row["admitted_at"] == datetime(2026, 12, 2, 2, 9, 50, tzinfo=UTC)
    assert {u["resource"]: u["quantity"] for u in row["usage"]}["nvidia.com/gpu"] == "24"
    assert [p["name"] for p in row["pod_sets"]] == ["master", "worker"]


def test_prefixed_resources_are_found(groups: dict[str, dict[str, Any]]) -> None:
    assert groups["orphan-group"]["requests"] == {"cpu": "8", "nvidia.com/gpu": "4"}
    assert groups["vgpu-share"]["requests"]["volcano.sh/vgpu-memory"] == "16384"
    assert strip_prefixes({"limits.cpu": "4", "requests.cpu": "2"}) == {"cpu": "2"}
    assert strip_prefixes({"limits.cpu": "4"}) == {"cpu": "4"}
    assert strip_prefixes(None) == {}


def _group(phase: str, *conditions: tuple[str, str, str]) -> dict[str, Any]:
    made = [
        {"type": t, "status": "True", "reason": reason, "message": t, "lastTransitionTime": since}
        for t, reason, since in conditions
    ]
    raw = msgspec.json.encode({"metadata": META, "status": {"phase": phase, "conditions": made}})
    return as_dict("PodGroup", pod_group_row(msgspec.json.decode(raw, type=PodGroup)))


def test_a_stale_unschedulable_is_not_believed() -> None:
    early, late = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
    row = _group("Running", ("Unschedulable", "NotEnoughResources", late), ("Scheduled", "ready", early))
    assert (row["state"], row["reason"]) == ("admitted", "")
    row = _group("Unknown", ("Scheduled", "ready", early), ("Unschedulable", "NotEnoughResources", late))
    assert (row["state"], row["reason"]) == ("admitted", "NotEnoughResources")
    row = _group("Inqueue", ("Unschedulable", "NotEnoughResources", late), ("Scheduled", "ready", early))
    assert (row["state"], row["reason"]) == ("reserved", "NotEnoughResources")


@pytest.mark.parametrize(
    ("phase", "state"),
    [("", "pending"), ("Pending", "pending"), ("Completed", "finished"), ("Odd", "pending")],
)
def test_phases_without_conditions(phase: str, state: str) -> None:
    row = _group(phase)
    assert (row["state"], row["reason"], row["usage"], row["queue_name"]) == (state, "", [], "default")


def test_volcano_queues() -> None:
    queues = rows("volcano-capacity/queues.json", "VolcanoQueue")
    production = queues["production"]
    assert production["kind"] == "VolcanoQueue"
    assert production["spec"] == {
        "weight": 1,
        "capability": {"nvidia.com/gpu": "40"},
        "deserved": {"cpu": "200", "nvidia.com/gpu": "24"},
        "guarantee": {"nvidia.com/gpu": "8"},
        "reclaimable": True,
        "parent": "eng",
        "priority": 100,
        "dequeue": "traverse",
        "type": "",
    }
    assert production["status"] == {
        "state": "Closing",
        "allocated": {"cpu": "12", "memory": str(48 * GI), "nvidia.com/gpu": "24", "pods": "3"},
    }
    assert queues["root"]["spec"]["parent"] == ""
    assert queues["dormant"]["status"]["state"] == "Closed"


def test_volcano_jobs() -> None:
    job = rows("volcano-capacity/vcjobs.json", "VolcanoJob")["batch/always-fails"]
    assert job["spec"]["tasks"] == [
        {
            "name": "t",
            "replicas": 1,
            "min_available": 1,
            "requests": {"cpu": "4", "memory": str(16 * GI), "nvidia.com/gpu": "1"},
        }
    ]
    assert (job["spec"]["queue"], job["spec"]["max_retry"]) == ("scratch", 2)
    assert (job["status"]["phase"], job["status"]["retry_count"], job["status"]["version"]) == (
        "Failed",
        2,
        3,
    )


# ------------------------------------------------------------------ registry
def test_kinds_know_where_they_are_served() -> None:
    assert KINDS["Pod"].path("v1") == "/api/v1/pods"
    assert KINDS["Workload"].path("v1beta2") == "/apis/kueue.x-k8s.io/v1beta2/workloads"
    assert KINDS["VolcanoJob"].path("v1alpha1") == "/apis/batch.volcano.sh/v1alpha1/jobs"
    assert [kind.name for kind in kinds_of("kueue")][-2:] == ["LocalQueue", "Workload"]
    assert [kind.name for kind in kinds_of("volcano")] == [
        "VolcanoQueue",
        "PodGroup",
        "VolcanoJob",
        "HyperNode",
    ]


def test_hyper_nodes_keep_how_members_are_chosen() -> None:
    members = [
        {"type": "Node", "selector": {"exactMatch": {"name": "n1"}}},
        {"type": "HyperNode", "selector": {"regexMatch": {"pattern": "^rack-1-"}}},
        {
            "type": "Node",
            "selector": {"labelMatch": {"matchExpressions": [{"key": "r", "operator": "Exists"}]}},
        },
    ]
    spec = {"tier": 2, "tierName": "block", "members": members}
    row = _decode("HyperNode", {"spec": spec, "status": {"nodeCount": 4}})
    none: dict[str, Any] = {"match_labels": {}, "match_expressions": []}
    rule = [{"key": "r", "operator": "Exists", "values": []}]
    assert row["spec"] == {
        "tier": 2,
        "tier_name": "block",
        "members": [
            {"kind": "Node", "exact": ["n1"], "regex": "", "labels": none},
            {"kind": "HyperNode", "exact": [], "regex": "^rack-1-", "labels": none},
            {
                "kind": "Node",
                "exact": [],
                "regex": "",
                "labels": {"match_labels": {}, "match_expressions": rule},
            },
        ],
    }
    assert row["status"] == {"node_count": 4}
    assert _decode("HyperNode", {"spec": {"tier": 1}})["status"] == {"node_count": None}
