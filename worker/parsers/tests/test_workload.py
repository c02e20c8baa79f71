"""Expected values were read by hand from the recorded objects (tests/data/kueue/workloads.json)."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from worker.parsers.base import Condition, ParseError
from worker.parsers.kinds import KINDS
from worker.parsers.workload import (
    Workload,
    WorkloadSpec,
    WorkloadStatus,
    remaining_usage,
    workload_row,
    workload_state,
)

from .recorded import as_dict, rows

GI = 1024**3


@pytest.fixture(scope="module")
def workloads() -> dict[str, dict[str, Any]]:
    return rows("kueue/workloads.json", "Workload")


def at(clock: str) -> datetime:
    return datetime.fromisoformat(f"2026-12-02T{clock}+00:00")


def test_how_many_are_in_which_state(workloads: dict[str, dict[str, Any]]) -> None:
    assert Counter(row["state"] for row in workloads.values()) == {
        "admitted": 18,
        "pending": 24,
        "reserved": 2,
        "finished": 4,
        "deactivated": 3,
    }


@pytest.mark.parametrize(
    ("name", "state", "reason", "message"),
    [
        ("team-a/job-a-train-llm-68edf", "admitted", "Admitted", "The workload is admitted"),
        (
            "team-a/job-a-too-big-c1aa2",
            "pending",
            "Pending",
            "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor a100, previously "
            "considered podsets requests (0) + current podset request (64) > maximum capacity (24), insufficient quota "
            "for nvidia.com/gpu in flavor h100, previously considered podsets requests (0) + current podset request "
            "(64) > maximum capacity (16)",
        ),
        (
            "team-b/job-b-pend-1-1371c",
            "pending",
            "Pending",
            "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, 16 "
            "more needed, untolerated taint {spot true NoSchedule <nil>} in flavor h100-spot",
        ),
        (
            "team-a/job-a-no-queue-fc374",
            "pending",
            "Inadmissible",
            "LocalQueue does-not-exist doesn't exist",
        ),
        ("team-a/job-a-broken-cq-9ebab", "pending", "Inadmissible", "ClusterQueue broken-cq is inactive"),
        ("infer/job-infer-stopped-lq-e4809", "pending", "Inadmissible", "LocalQueue stopped is inactive"),
        ("infer/job-infer-behind-strict-cd46c", "pending", "", ""),
        (
            "team-b/job-b-urgent-7f355",
            "pending",
            "Pending",
            "Exceeded the PodsReady timeout team-b/job-b-urgent-7f355",
        ),
        ("team-a/job-chk-wait-4c566", "reserved", "UnsatisfiedAdmissionChecks", "budget-check: Pending"),
        (
            "team-a/job-chk-retry-714bc",
            "reserved",
            "UnsatisfiedAdmissionChecks",
            "budget-check: Retry (budget service says try later)",
        ),
        (
            "team-a/job-chk-reject-33f0e",
            "deactivated",
            "DeactivatedDueToAdmissionCheck",
            "The workload is deactivated due to Admission check(s): budget-check, were rejected",
        ),
        (
            "team-a/job-a-max-exec-86a7e",
            "deactivated",
            "DeactivatedDueToMaximumExecutionTimeExceeded",
            "The workload is deactivated due to exceeding the maximum execution time",
        ),
        ("team-b/job-b-spot-49abd", "deactivated", "Deactivated", "The workload is deactivated"),
        (
            "team-a/job-a-eval-done-2d89f",
            "finished",
            "Succeeded",
            "Reached expected number of succeeded pods",
        ),
        (
            "team-b/job-b-crash-94c1c",
            "finished",
            "Failed",
            "Job has reached the specified backoff limit",
        ),
    ],
)
def test_state_and_words(
    workloads: dict[str, dict[str, Any]], name: str, state: str, reason: str, message: str
) -> None:
    row = workloads[name]
    assert (row["state"], row["reason"], row["message"]) == (state, reason, message)


@pytest.mark.parametrize(
    ("name", "requests"),
    [
        # 8 pods × (8 GPUs, 4 cores, 32 GiB), said by status.resourceRequests
        ("team-a/job-a-too-big-c1aa2", {"nvidia.com/gpu": "64", "cpu": "32", "memory": str(256 * GI)}),
        ("team-b/job-b-pend-1-1371c", {"nvidia.com/gpu": "16", "cpu": "16", "memory": str(128 * GI)}),
        # from the template: 3 × (4 GPUs, 4 cores, 32 GiB)
        ("infer/job-infer-a-2c4f5", {"nvidia.com/gpu": "12", "cpu": "12", "memory": str(96 * GI)}),
        # asked for 40 pods although 22 were admitted
        ("lab/job-lab-partial-c7d7b", {"nvidia.com/mig-1g.10gb": "40", "cpu": "40", "memory": str(80 * GI)}),
        # neither a condition nor resourceRequests: the template says it
        ("infer/job-infer-behind-strict-cd46c", {"nvidia.com/gpu": "1", "cpu": "4", "memory": str(32 * GI)}),
    ],
)
def test_requests(workloads: dict[str, dict[str, Any]], name: str, requests: dict[str, str]) -> None:
    assert workloads[name]["requests"] == requests


@pytest.mark.parametrize(
    ("name", "queue", "flavor", "usage"),
    [
        (
            "infer/job-infer-a-2c4f5",
            "infer-cq",
            "l4-shared",
            {"cpu": 12, "memory": 96 * GI, "nvidia.com/gpu": 12},
        ),
        (
            "lab/job-lab-partial-c7d7b",
            "mig-cq",
            "mig-mixed",
            {"cpu": 22, "memory": 44 * GI, "nvidia.com/mig-1g.10gb": 22},
        ),
        ("lab/job-lab-amd-261a5", "amd-cq", "mi300x", {"cpu": 4, "memory": 32 * GI, "amd.com/gpu": 8}),
        (
            "team-a/job-chk-wait-4c566",
            "checked-cq",
            "a100",
            {"cpu": 4, "memory": 32 * GI, "nvidia.com/gpu": 1},
        ),
    ],
)
def test_usage_of_what_holds_quota(
    workloads: dict[str, dict[str, Any]], name: str, queue: str, flavor: str, usage: dict[str, int]
) -> None:
    row = workloads[name]
    assert row["cluster_queue"] == queue
    assert {(u["flavor"], u["resource"]): u["quantity"] for u in row["usage"]} == {
        (flavor, resource): str(quantity) for resource, quantity in usage.items()
    }


@pytest.mark.parametrize(
    "name",
    ["team-a/job-a-eval-done-2d89f", "team-b/job-b-spot-49abd", "team-b/job-b-pend-1-1371c"],
)
def test_nothing_is_used_when_over_off_or_waiting(workloads: dict[str, dict[str, Any]], name: str) -> None:
    assert workloads[name]["usage"] == []


def test_times_and_counts(workloads: dict[str, dict[str, Any]]) -> None:
    row = workloads["team-b/job-b-pretrain-2e7da"]
    assert row["created_at"] == at("02:59:59")
    # preempted: it queues since its Requeued condition turned True
    assert row["queued_at"] == at("03:00:39")
    assert row["reserved_at"] == row["admitted_at"] == at("03:01:41")
    assert (row["evictions"], row["priority"], row["priority_class"]) == (1, 100, "batch-default")
    assert row["finished_at"] is None

    urgent = workloads["team-b/job-b-urgent-7f355"]
    assert urgent["requeue_at"] == at("03:01:59")
    # Requeued is False there, and counts by Kueue's rule all the same
    assert urgent["queued_at"] == at("03:01:40")
    assert (urgent["reserved_at"], urgent["admitted_at"]) == (None, None)

    done = workloads["team-a/job-a-eval-done-2d89f"]
    assert (done["reserved_at"], done["finished_at"]) == (at("03:00:01"), at("03:00:19"))
    assert done["cluster_queue"] == "team-a-cq"


def test_identity_owner_and_pod_sets(workloads: dict[str, dict[str, Any]]) -> None:
    row = workloads["infer/job-infer-a-2c4f5"]
    assert row["uid"] == "b65c74d9-04da-4024-9e37-c7b266b4793a"
    assert (row["owner_kind"], row["owner_name"]) == ("Job", "infer-a")
    assert row["owner_uid"] == "514941d3-3566-4a82-ae5e-1b36dc10c8b6"
    assert (row["queue_name"], row["resource_version"], row["active"]) == ("main", "1439", True)
    assert row["pod_sets"] == [
        {
            "name": "main",
            "count": 3,
            "min_count": None,
            "requests": {"nvidia.com/gpu": "4", "cpu": "4", "memory": str(32 * GI)},
        }
    ]
    assert workloads["lab/job-lab-partial-c7d7b"]["pod_sets"][0]["min_count"] == 4
    assert not workloads["team-b/job-b-spot-49abd"]["active"]


def test_conditions_and_checks(workloads: dict[str, dict[str, Any]]) -> None:
    row = workloads["team-a/job-chk-retry-714bc"]
    assert row["conditions"]["QuotaReserved"] == {
        "status": "True",
        "reason": "QuotaReserved",
        "message": "Quota reserved in ClusterQueue checked-cq",
        "since": "2026-12-02T03:00:09Z",
    }
    assert row["checks"] == [
        {
            "name": "budget-check",
            "state": "Retry",
            "message": "budget service says try later",
            "since": "2026-12-02T03:00:21Z",
            "retry_after_seconds": 600,
        }
    ]
    assert row["requeue_at"] == at("03:10:21")


# ------------------------------------------------------------------ rules that the recordings do not reach
def workload(spec: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    raw = {
        "metadata": {"name": "w", "namespace": "n", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": spec,
        "status": status,
    }
    found = msgspec.json.decode(msgspec.json.encode(raw), type=Workload)
    return as_dict("Workload", workload_row(found))


def true(*types: str) -> list[dict[str, str]]:
    return [
        {
            "type": t,
            "status": "True",
            "reason": f"R{t}",
            "message": t,
            "lastTransitionTime": "2026-01-01T00:00:01Z",
        }
        for t in types
    ]


ASSIGNED: dict[str, Any] = {
    "clusterQueue": "cq",
    "podSetAssignments": [
        {
            "name": "main",
            "count": 5,
            "flavors": {"cpu": "f", "nvidia.com/gpu": "f"},
            "resourceUsage": {"cpu": "2501m", "nvidia.com/gpu": "10"},
        }
    ],
}
POD_SETS = [{"name": "main", "count": 5}]


def test_reclaimed_pods_give_their_share_back() -> None:
    row = workload(
        {"podSets": POD_SETS},
        {
            "conditions": true("QuotaReserved", "Admitted"),
            "admission": ASSIGNED,
            "reclaimablePods": [{"name": "main", "count": 2}],
        },
    )
    # 2501m / 5 = 500m in whole milli-cores, × 3; 10 / 5 = 2, × 3
    assert {u["resource"]: u["quantity"] for u in row["usage"]} == {"cpu": "1.5", "nvidia.com/gpu": "6"}


def test_reclaimed_pods_of_a_partial_admission_count_against_the_specified_pods() -> None:
    row = workload(
        {"podSets": [{"name": "main", "count": 8}]},
        {
            "conditions": true("QuotaReserved"),
            "admission": ASSIGNED,
            "reclaimablePods": [{"name": "main", "count": 2}],
        },
    )
    # 8 − 2 = 6 pods may still run, more than the 5 assigned: nothing is given back
    assert {u["resource"]: u["quantity"] for u in row["usage"]}["nvidia.com/gpu"] == "10"


def test_more_reclaimed_than_there_are_uses_nothing() -> None:
    row = workload(
        {"podSets": POD_SETS},
        {
            "conditions": true("QuotaReserved"),
            "admission": ASSIGNED,
            "reclaimablePods": [{"name": "main", "count": 99}],
        },
    )
    assert {u["quantity"] for u in row["usage"]} == {"0"}


def test_remaining_usage_counts_memory_in_bytes() -> None:
    assert remaining_usage("memory", Decimal(10), 3, 2) == 6
    assert remaining_usage("cpu", Decimal(1), 3, 2) == Decimal("0.666")


def test_pod_sets_in_one_flavor_add_up() -> None:
    assignment = ASSIGNED["podSetAssignments"][0]
    row = workload(
        {"podSets": [{"name": "a", "count": 5}, {"name": "b", "count": 5}]},
        {
            "conditions": true("QuotaReserved"),
            "admission": {
                "clusterQueue": "cq",
                "podSetAssignments": [{**assignment, "name": "a"}, {**assignment, "name": "b"}],
            },
        },
    )
    assert {u["resource"]: u["quantity"] for u in row["usage"]} == {"cpu": "5.002", "nvidia.com/gpu": "20"}


@pytest.mark.parametrize(
    ("active", "types", "state"),
    [
        (True, [], "pending"),
        (True, ["QuotaReserved"], "reserved"),
        (True, ["QuotaReserved", "Admitted"], "admitted"),
        (False, ["QuotaReserved", "Admitted"], "deactivated"),
        (False, ["QuotaReserved", "Admitted", "Finished"], "finished"),
        (None, ["QuotaReserved", "Admitted", "Finished"], "finished"),
    ],
)
def test_precedence_of_states(active: bool | None, types: list[str], state: str) -> None:
    conditions = {t: Condition(type=t, status="True") for t in types}
    assert workload_state(WorkloadSpec(active=active), conditions) == state


def test_worst_open_check_comes_first() -> None:
    checks = [
        {"name": "a", "state": "Pending", "message": "soon"},
        {"name": "b", "state": "Ready"},
        {"name": "c", "state": "Rejected", "message": "no budget"},
    ]
    row = workload({}, {"conditions": true("QuotaReserved"), "admissionChecks": checks})
    assert row["message"] == "c: Rejected (no budget); a: Pending (soon)"


def test_kueues_own_reason_wins_over_ours() -> None:
    said = [
        *true("QuotaReserved"),
        {"type": "Admitted", "status": "False", "reason": "PendingDelayedTopologyRequests", "message": "m"},
    ]
    row = workload({}, {"conditions": said})
    assert (row["state"], row["reason"], row["message"]) == (
        "reserved",
        "PendingDelayedTopologyRequests",
        "m",
    )


def test_an_unknown_reason_passes_through() -> None:
    said = [
        {"type": "QuotaReserved", "status": "False", "reason": "FromTheFuture", "message": "日本語 ünknown"}
    ]
    row = workload({}, {"conditions": said})
    assert (row["reason"], row["message"]) == ("FromTheFuture", "日本語 ünknown")
    assert row["conditions"]["QuotaReserved"]["since"] is None


def test_a_bad_quantity_names_its_place() -> None:
    bad = {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "resourceUsage": {"cpu": "four"}}]}
    with pytest.raises(ParseError, match=r"status.admission\[main\]\[cpu\]: 'four'") as caught:
        workload({}, {"conditions": true("QuotaReserved"), "admission": bad})
    assert caught.value.kind == "bad_values"


def test_an_empty_workload_is_waiting_work() -> None:
    row = workload({}, {})
    assert row["state"] == "pending"
    assert row["queued_at"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert WorkloadStatus() == WorkloadStatus(conditions=None)
    assert len(row) == len(KINDS["Workload"].columns)


def test_where_pods_may_run_is_kept_where_it_is_said() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec = {
        "nodeSelector": {"gpu": "h100"},
        "affinity": {"nodeAffinity": required},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "containers": [],
    }
    pod_sets = [
        {"name": "a", "count": 1, "template": {"spec": spec}, "topologyRequest": {"required": "rack"}},
        {"name": "b", "count": 1, "template": {"spec": {}}, "topologyRequest": {"podIndexLabel": "index"}},
    ]
    raw = {"metadata": {"name": "x", "namespace": "n", "uid": "u"}, "spec": {"podSets": pod_sets}}
    found = KINDS["Workload"]
    struct = msgspec.json.decode(msgspec.json.encode(raw), type=found.struct)
    first, second = as_dict("Workload", found.row(struct))["pod_sets"]
    assert first["node_selector"] == {"gpu": "h100"}
    assert first["affinity"] == terms
    assert first["tolerations"] == [{"key": "spot", "operator": "Exists"}]
    assert first["topology"] is True
    assert second.keys() == {"name", "count", "min_count", "requests"}


JOB, SLICE = "kueue.x-k8s.io/elastic-job", "kueue.x-k8s.io/workload-slice-name"
REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"


def pod_sets_of(meta: dict[str, Any], *specs: dict[str, Any]) -> list[dict[str, Any]]:
    sets = [{"name": f"s{place}", "count": 1, "template": {"spec": spec}} for place, spec in enumerate(specs)]
    raw = {"metadata": {"name": "x", "namespace": "n", "uid": "u", **meta}, "spec": {"podSets": sets}}
    found = KINDS["Workload"]
    struct = msgspec.json.decode(msgspec.json.encode(raw), type=found.struct)
    column: list[dict[str, Any]] = as_dict("Workload", found.row(struct))["pod_sets"]
    return column


@pytest.mark.parametrize(
    ("meta", "elastic"),
    [
        ({}, None),
        ({"annotations": None, "labels": None}, None),
        ({"annotations": {"other": "x"}, "labels": {"other": "x"}}, None),
        ({"annotations": {JOB: "false"}}, None),
        ({"annotations": {JOB: "true"}}, True),
        ({"labels": {JOB: "true"}}, True),
        ({"annotations": {SLICE: "job-x-1"}}, True),
        ({"annotations": {REPLACES: "n/job-x-1"}}, True),
        ({"labels": {SLICE: "job-x-1"}, "annotations": {"other": "x"}}, True),
    ],
)
def test_elastic_work_is_marked_on_every_pod_set(meta: dict[str, Any], elastic: bool | None) -> None:
    assert [one.get("elastic") for one in pod_sets_of(meta, {}, {})] == [elastic, elastic]
    assert pod_sets_of(meta, {})[0].get("elastic") is elastic


@pytest.mark.parametrize(
    ("meta", "name"),
    [
        ({}, ""),
        ({"annotations": {SLICE: "job-x-1"}}, "job-x-1"),
        ({"labels": {SLICE: "job-x-1"}}, "job-x-1"),
        ({"annotations": {SLICE: "job-x-1"}, "labels": {SLICE: "older"}}, "job-x-1"),
        ({"annotations": {JOB: "true"}, "labels": {SLICE: "job-x-1"}}, "job-x-1"),
    ],
)
def test_the_name_that_slices_have_in_common(meta: dict[str, Any], name: str) -> None:
    body = {"metadata": {"name": "x", "namespace": "n", "uid": "u", **meta}}
    row = as_dict("Workload", workload_row(msgspec.convert(body, Workload, strict=False)))
    assert row["slice_name"] == name


def test_pod_sets_that_claim_devices_are_marked() -> None:
    claim = {"name": "gpu", "resourceClaimTemplateName": "half"}
    found = pod_sets_of({}, {"resourceClaims": [claim]}, {"resourceClaims": []}, {})
    assert [one.get("claims") for one in found] == [True, None, None]


@pytest.mark.parametrize(
    ("status", "seconds"),
    [
        ({}, None),
        ({"accumulatedPastExecutionTimeSeconds": 41}, 41),
        ({"accumulatedPastExexcutionTimeSeconds": 41}, 41),
        ({"accumulatedPastExecutionTimeSeconds": 0}, 0),
    ],
)
def test_how_long_it_ran_before_by_either_spelling(status: dict[str, int], seconds: int | None) -> None:
    body = {"metadata": {"name": "w", "uid": "u"}, "status": status}
    row = as_dict("Workload", workload_row(msgspec.convert(body, Workload, strict=False)))
    assert row["past_run_seconds"] == seconds


def test_how_long_recorded_work_ran_before(workloads: dict[str, dict[str, Any]]) -> None:
    assert {31, 39, 40, 41, 61} <= {row["past_run_seconds"] for row in workloads.values()}
