"""Nodes, pods and events: expected values were read by hand from the recorded objects."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from worker.parsers.base import ParseError
from worker.parsers.core import Event, Node, Pod, event_row, node_row, pod_row
from worker.parsers.resources import PodResources, as_text, devices_in, effective_requests

from .recorded import as_dict, rows

GI = 1024**3


@pytest.fixture(scope="module")
def nodes() -> dict[str, dict[str, Any]]:
    return rows("kueue/nodes.json", "Node")


@pytest.fixture(scope="module")
def pods() -> dict[str, dict[str, Any]]:
    return rows("kueue/pods.json", "Pod")


@pytest.fixture(scope="module")
def events() -> list[dict[str, Any]]:
    return list(rows("kueue/events-core.json", "Event").values())


def _meta(**more: Any) -> dict[str, Any]:
    return {"name": "x", "namespace": "n", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", **more}


# ------------------------------------------------------------------ nodes
@pytest.mark.parametrize(
    ("name", "capacity", "allocatable"),
    [
        ("h100-01", {"nvidia.com/gpu": "8"}, {"nvidia.com/gpu": "8"}),
        ("h100-08", {"nvidia.com/gpu": "8"}, {"nvidia.com/gpu": "7"}),  # one card is unhealthy
        ("h100-05", {"nvidia.com/gpu": "56"}, {"nvidia.com/gpu": "56"}),  # MIG, single strategy
        (
            "h100-06",
            {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "14", "nvidia.com/mig-3g.40gb": "4"},
            {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "14", "nvidia.com/mig-3g.40gb": "4"},
        ),
        (
            "l4-02",
            {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "16"},
            {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "16"},
        ),
        ("ascend-01", {"huawei.com/Ascend910": "8"}, {"huawei.com/Ascend910": "8"}),
        ("dra-01", {}, {}),
    ],
)
def test_devices_of_nodes(
    nodes: dict[str, dict[str, Any]], name: str, capacity: dict[str, str], allocatable: dict[str, str]
) -> None:
    row = nodes[name]
    assert {k: v for k, v in row["capacity"].items() if "/" in k} == capacity
    assert {k: v for k, v in row["allocatable"].items() if "/" in k} == allocatable


def test_host_resources_are_plain_digits(nodes: dict[str, dict[str, Any]]) -> None:
    row = nodes["a100-01"]
    assert row["allocatable"]["cpu"] == "95.5"  # 95500m
    assert row["capacity"]["memory"] == str(1152 * GI)
    assert row["labels"]["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-80GB"
    assert row["annotations"] == {}


def test_software_of_nodes(nodes: dict[str, dict[str, Any]]) -> None:
    assert nodes["h100-01"]["info"] == {
        "kernel": "6.8.0-1031-aws",
        "os": "Ubuntu 24.04.2 LTS",
        "runtime": "containerd://2.1.4",
        "kubelet": "v1.36.3",
        "architecture": "amd64",
    }
    raw = {"metadata": _meta(), "status": {"nodeInfo": {"kubeletVersion": "v1.34.0", "osImage": ""}}}
    row = as_dict("Node", node_row(msgspec.json.decode(msgspec.json.encode(raw), type=Node)))
    assert row["info"] == {"kubelet": "v1.34.0"}


def test_states_of_nodes(nodes: dict[str, dict[str, Any]]) -> None:
    assert len(nodes) == 23
    assert [name for name, row in nodes.items() if row["unschedulable"]] == ["a100-03"]
    ready = Counter(row["conditions"]["Ready"]["status"] for row in nodes.values())
    assert ready == {"True": 22, "Unknown": 1}
    assert nodes["a100-04"]["conditions"]["Ready"]["status"] == "Unknown"
    assert nodes["h100-04"]["taints"] == [{"key": "spot", "value": "true", "effect": "NoSchedule"}]
    assert [t["effect"] for t in nodes["a100-04"]["taints"]] == ["NoSchedule", "NoExecute"]


def test_heartbeats_make_no_difference() -> None:
    def row(beat: str) -> dict[str, Any]:
        ready = {
            "type": "Ready",
            "status": "True",
            "lastHeartbeatTime": beat,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        raw = {"metadata": _meta(), "status": {"conditions": [ready]}}
        return as_dict("Node", node_row(msgspec.json.decode(msgspec.json.encode(raw), type=Node)))

    assert row("2026-01-01T00:00:00Z") == row("2026-01-01T00:05:00Z")


def test_only_annotations_of_the_registry_stay() -> None:
    kept = {"volcano.sh/node-vgpu-register": "GPU-1,10,…", "hami.io/node-nvidia-register": "[]"}
    raw = {"metadata": _meta(annotations={**kept, "kubectl.kubernetes.io/last-applied-configuration": "{}"})}
    row = as_dict("Node", node_row(msgspec.json.decode(msgspec.json.encode(raw), type=Node)))
    assert row["annotations"] == kept


def test_a_bad_capacity_names_its_place() -> None:
    node = msgspec.json.decode(
        msgspec.json.encode(
            {"metadata": _meta(), "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "8 GPUs"}}}
        ),
        type=Node,
    )
    with pytest.raises(
        ParseError, match=r"status.allocatable\[nvidia.com/gpu\]: '8 GPUs' is not a Kubernetes"
    ):
        node_row(node)


# ------------------------------------------------------------------ pods
def test_phases(pods: dict[str, dict[str, Any]]) -> None:
    assert Counter(row["phase"] for row in pods.values()) == {
        "Running": 59,
        "Pending": 15,
        "Succeeded": 8,
        "Failed": 6,
    }


def test_a_running_pod(pods: dict[str, dict[str, Any]]) -> None:
    row = pods["infer/infer-a-xhv46"]
    assert row["requests"] == {"nvidia.com/gpu": "4", "cpu": "4", "memory": str(32 * GI)}
    assert (row["devices"], row["node_name"], row["queue_name"]) == ("4", "l4-01", "main")
    assert (row["owner_kind"], row["owner_name"], row["scheduler"]) == ("Job", "infer-a", "default-scheduler")
    assert row["bound_at"] == datetime(2026, 12, 2, 3, 0, 5, tzinfo=UTC)
    assert row["started_at"] == datetime(2026, 12, 2, 3, 0, 6, tzinfo=UTC)
    assert row["finished_at"] is None
    assert (row["reason"], row["message"]) == ("", "")


@pytest.mark.parametrize(
    ("name", "devices"),
    [
        ("lab/p-too-many-gpus", "64"),
        ("lab/p-ascend-ok", "8"),
        ("lab/p-gaudi-ok", "4"),
        ("lab/p-shared-ok", "1"),
        ("lab/lab-mig-small-lmwrb", "2"),
        ("lab/lab-amd-d2l5n", "8"),
        ("lab/p-cpu-full", "0"),
        ("lab/dra-two", "0"),  # its devices are claims, not requests
    ],
)
def test_devices_of_pods(pods: dict[str, dict[str, Any]], name: str, devices: str) -> None:
    assert pods[name]["devices"] == devices


def test_why_pods_wait(pods: dict[str, dict[str, Any]]) -> None:
    waiting = pods["lab/p-ascend-wait"]
    assert waiting["reason"] == "Unschedulable"
    assert waiting["message"].startswith("0/23 nodes are available: ")
    assert "Insufficient huawei.com/Ascend910" in waiting["message"]
    assert waiting["bound_at"] is None
    gated = pods["lab/p-gated"]
    assert gated["scheduling_gates"] == ["rig.test/wait"]
    assert gated["reason"] == "SchedulingGated"


def test_where_a_waiting_pod_may_run(pods: dict[str, dict[str, Any]]) -> None:
    asked = pods["lab/p-no-such-label"]["placement"]
    assert list(asked) == ["node_selector", "tolerations"]
    assert len(asked["node_selector"]) == 1
    assert pods["lab/p-ascend-ok"]["placement"] == {}  # it has its node


def test_how_pods_ended(pods: dict[str, dict[str, Any]]) -> None:
    failed = pods["lab/p-failed"]
    assert (failed["phase"], failed["reason"]) == ("Failed", "Error")
    assert failed["finished_at"] > failed["started_at"]
    done = pods["lab/p-done"]
    assert (done["phase"], done["reason"]) == ("Succeeded", "")
    assert done["finished_at"] is not None


def test_volcano_pods_name_queue_and_group() -> None:
    row = rows("volcano-capacity/pods.json", "Pod")["batch/always-fails-t-0"]
    assert row["queue_name"] == "scratch"
    assert row["pod_group"] == "always-fails-e3310a53-d63c-4d36-a098-c135e1398c91"
    assert row["scheduler"] == "volcano"


def _pod(spec: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    raw = {"metadata": _meta(), "spec": spec, "status": status}
    return as_dict("Pod", pod_row(msgspec.json.decode(msgspec.json.encode(raw), type=Pod)))


def test_a_container_that_cannot_start_is_the_reason() -> None:
    status = {
        "phase": "Pending",
        "containerStatuses": [
            {"state": {"waiting": {"reason": "ContainerCreating"}}},
            {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}},
        ],
    }
    row = _pod({}, status)
    assert (row["reason"], row["message"]) == ("ImagePullBackOff", "Back-off pulling image")


def test_a_pod_that_kubelet_refused_says_so_itself() -> None:
    status = {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": "Allocate failed due to no healthy devices present",
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:09Z"}],
    }
    row = _pod({}, status)
    assert row["reason"] == "UnexpectedAdmissionError"
    assert row["finished_at"] == datetime(2026, 1, 1, 0, 0, 9, tzinfo=UTC)


def test_claims_of_recorded_pods(pods: dict[str, dict[str, Any]]) -> None:
    held = {name: row["claims"] for name, row in pods.items() if row["claims"]}
    assert {name: [claim["claim"] for claim in claims] for name, claims in held.items()} == {
        "lab/dra-mig-1": ["dra-mig-1-g-m9zdj"],
        "lab/dra-mig-2": ["dra-mig-2-g-r8wc9"],
        "lab/dra-mig-3": ["dra-mig-3-g-kdpvz"],
        "lab/dra-nine": ["nine-gpus"],
        "lab/dra-two": ["two-gpus"],
    }
    assert all(claim["resources"] == [] for claims in held.values() for claim in claims)
    assert pods["lab/dra-two"]["devices"] == "0"


def test_a_claim_that_serves_extended_resources_names_them() -> None:
    mappings = [
        {"containerName": name, "resourceName": "nvidia.com/gpu", "requestName": f"{name}-0"} for name in "ab"
    ]
    raw = {
        "metadata": _meta(),
        "spec": {"resourceClaims": [{"name": "made", "resourceClaimTemplateName": "t"}, {"name": "not-yet"}]},
        "status": {
            "resourceClaimStatuses": [{"name": "made", "resourceClaimName": "x-made-1"}, {"name": "not-yet"}],
            "extendedResourceClaimStatus": {"resourceClaimName": "x-extended", "requestMappings": mappings},
        },
    }
    row = as_dict("Pod", pod_row(msgspec.json.decode(msgspec.json.encode(raw), type=Pod)))
    assert row["claims"] == [
        {"claim": "x-made-1", "resources": []},
        {"claim": "x-extended", "resources": ["nvidia.com/gpu"]},
    ]


def test_a_bad_request_costs_only_its_pod() -> None:
    with pytest.raises(ParseError, match=r"resources\[nvidia.com/gpu\]: '1O' is not"):
        _pod({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1O"}}}]}, {})


# ------------------------------------------------------------------ effective requests
def _container(restart: str | None = None, **requests: str) -> dict[str, Any]:
    made: dict[str, Any] = {"resources": {"requests": requests}}
    return {**made, "restartPolicy": restart} if restart else made


def _effective(spec: dict[str, Any]) -> dict[str, str]:
    return as_text(effective_requests(msgspec.convert(spec, PodResources)))


def test_containers_add_up_and_overhead_comes_on_top() -> None:
    spec = {
        "containers": [_container(cpu="500m"), _container(cpu="1", memory="1Gi")],
        "overhead": {"cpu": "250m"},
    }
    assert _effective(spec) == {"cpu": "1.75", "memory": str(GI)}


def test_a_limit_without_a_request_is_one() -> None:
    spec = {
        "containers": [
            {"resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "4"}, "requests": {"cpu": "1"}}}
        ]
    }
    assert _effective(spec) == {"nvidia.com/gpu": "2", "cpu": "1"}


def test_the_largest_init_container_counts_only_when_larger() -> None:
    spec = {"containers": [_container(cpu="2")], "initContainers": [_container(cpu="3"), _container(cpu="1")]}
    assert _effective(spec) == {"cpu": "3"}


def test_sidecars_run_beside_the_containers_and_later_init_containers() -> None:
    spec = {
        "containers": [_container(cpu="2")],
        "initContainers": [_container(cpu="1"), _container("Always", cpu="1"), _container(cpu="4")],
    }
    # running: 2 + 1; starting: 4 beside the sidecar of 1 that came before it
    assert _effective(spec) == {"cpu": "5"}
    spec["initContainers"].reverse()
    assert _effective(spec) == {"cpu": "4"}


def test_a_pod_level_request_replaces_the_sum() -> None:
    spec = {"containers": [_container(cpu="2", memory="1")], "resources": {"requests": {"cpu": "8"}}}
    assert _effective(spec) == {"cpu": "8", "memory": "1"}


def test_nothing_asked() -> None:
    assert _effective({}) == {}
    assert _effective({"containers": [{}]}) == {}
    assert effective_requests(None) == {}


def test_devices_leave_out_what_is_no_device() -> None:
    spec = {"containers": [_container(**{"nvidia.com/gpu": "2", "nvidia.com/gpumem": "4000", "cpu": "8"})]}
    assert devices_in(effective_requests(msgspec.convert(spec, PodResources))) == 2


# ------------------------------------------------------------------ events
def test_both_event_apis(events: list[dict[str, Any]]) -> None:
    assert len(events) == 479
    failed = [e for e in events if e["object_name"] == "dra-mig-3" and e["reason"] == "FailedScheduling"]
    assert failed[0]["component"] == "default-scheduler"
    assert failed[0]["first_at"] == datetime(2026, 12, 2, 3, 0, 22, 677835, tzinfo=UTC)
    assert (failed[0]["object_kind"], failed[0]["type"], failed[0]["count"]) == ("Pod", "Warning", 1)
    waited = next(e for e in events if e["uid"] == "83d132cc-c47c-409d-9eac-f00a1cda3fc1")
    assert (waited["count"], waited["last_at"].microsecond) == (2, 231515)
    suspended = next(e for e in events if e["uid"] == "01b6b885-0b91-4b59-a371-369f949fd960")
    assert (suspended["component"], suspended["message"]) == ("job-controller", "Job suspended")


def test_what_only_events_say(events: list[dict[str, Any]]) -> None:
    (found,) = [e for e in events if e["reason"] == "ErrWorkloadCompose"]
    assert (found["object_kind"], found["object_namespace"], found["object_name"]) == (
        "Pod",
        "team-a",
        "a-group-0",
    )
    assert found["message"] == "'a-group' group has fewer runnable pods than expected"


def test_an_event_without_any_time_is_bad() -> None:
    event = msgspec.json.decode(b'{"metadata":{"name":"e","uid":"u"}}', type=Event)
    with pytest.raises(ParseError, match="no time"):
        event_row(event)
