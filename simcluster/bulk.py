"""Many objects of realistic size for benchmarks: pods of about 8.6 KiB, workloads of about 3.5 KiB, queues.

Input: how many; output: a filled Store. Objects are encoded once from a template and filled in as bytes, so that
50,000 of them take seconds and their size in memory and nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from simcluster.kinds import KINDS, Kind
from simcluster.store import Store


@dataclass(frozen=True, slots=True)
class Bulk:
    """How many of what; a tenth of the workloads waits, the rest is admitted or finished."""

    pods: int = 0
    workloads: int = 0
    queues: int = 0
    nodes: int = 0
    teams: int = 50


_AT = "2026-12-01T08:15:30Z"
_FIELDS_V1 = {
    "f:metadata": {
        "f:generateName": {},
        "f:labels": {".": {}, "f:app": {}, "f:team": {}},
        "f:ownerReferences": {},
    },
    "f:spec": {
        "f:containers": {
            'k:{"name":"main"}': {".": {}, "f:image": {}, "f:resources": {".": {}, "f:limits": {}}}
        },
        "f:dnsPolicy": {},
        "f:restartPolicy": {},
        "f:schedulerName": {},
        "f:securityContext": {},
        "f:tolerations": {},
    },
}


def _managed(manager: str, repeat: int) -> dict[str, Any]:
    fields = {f"f:part{index}": _FIELDS_V1 for index in range(repeat)}
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": _AT,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


def _condition(kind: str, status: str, reason: str, message: str) -> dict[str, Any]:
    return {
        "lastTransitionTime": _AT,
        "message": message,
        "observedGeneration": 1,
        "reason": reason,
        "status": status,
        "type": kind,
    }


def _meta(kind: Kind, namespaced: bool = True) -> dict[str, Any]:
    where = {"namespace": "@NS@"} if namespaced else {}
    return {
        "name": "@NAME@",
        **where,
        "uid": "@UID@",
        "resourceVersion": "1",
        "creationTimestamp": _AT,
        "generation": 1,
        "labels": {"app": "trainer", "team": "@NS@", "bench.example.com/turn": "0000"},
    }


def _pod() -> bytes:
    kind = KINDS["Pod"]
    env = [
        {"name": f"SETTING_{index:02d}", "value": f"value-{index:04d}-of-the-training-run"}
        for index in range(34)
    ]
    mounts = [
        {"name": f"volume-{index}", "mountPath": f"/mnt/volume-{index}", "readOnly": True}
        for index in range(6)
    ]
    resources = {
        "limits": {"nvidia.com/gpu": "8"},
        "requests": {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8"},
    }
    container = {
        "name": "main",
        "image": "registry.example.com/research/trainer:2026.11.3",
        "command": ["/bin/sh", "-c"],
        "args": ["exec python -m trainer --config /configs/run.yaml --resume auto --log-level info"],
        "env": env,
        "resources": resources,
        "volumeMounts": mounts,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    obj = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            **_meta(kind),
            "annotations": {"kueue.x-k8s.io/workload": "job-@NAME@", "checksum/config": "a" * 64},
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": "job-@NAME@",
                    "uid": "@UID@",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [_managed("kube-controller-manager", 6), _managed("kubelet", 3)],
        },
        "spec": {
            "volumes": [
                {"name": f"volume-{index}", "persistentVolumeClaim": {"claimName": f"dataset-{index}"}}
                for index in range(6)
            ],
            "containers": [container],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
            "serviceAccountName": "default",
            "nodeName": "node-@NUMBER@",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": "node.kubernetes.io/not-ready",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
            ],
            "priority": 0,
            "enableServiceLinks": True,
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": name, "status": "True", "lastProbeTime": None, "lastTransitionTime": _AT}
                for name in (
                    "PodReadyToStartContainers",
                    "Initialized",
                    "Ready",
                    "ContainersReady",
                    "PodScheduled",
                )
            ],
            "hostIP": "10.1.2.3",
            "podIP": "10.42.1.2",
            "startTime": _AT,
            "containerStatuses": [
                {
                    "name": "main",
                    "state": {"running": {"startedAt": _AT}},
                    "lastState": {},
                    "ready": True,
                    "restartCount": 0,
                    "image": "registry.example.com/research/trainer:2026.11.3",
                    "imageID": "registry.example.com/research/trainer@sha256:" + "b" * 64,
                    "containerID": "containerd://" + "c" * 64,
                    "started": True,
                }
            ],
            "qosClass": "Burstable",
        },
    }
    return msgspec.json.encode(obj)


def _workload(state: str) -> bytes:
    kind = KINDS["Workload"]
    usage = {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8"}
    container = {
        "name": "main",
        "image": "registry.example.com/research/trainer:2026.11.3",
        "env": [{"name": f"SETTING_{index:02d}", "value": f"value-{index}"} for index in range(12)],
        "resources": {"limits": {"nvidia.com/gpu": "8"}, "requests": usage},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    reserved = state != "pending"
    conditions = [
        _condition("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue cq-@QUEUE@")
    ]
    conditions.append(_condition("Admitted", "True", "Admitted", "The workload is admitted"))
    words = "All pods reached readiness and the workload is running"
    conditions.append(_condition("PodsReady", "True", "Started", words))
    if state == "finished":
        conditions.append(
            _condition("Finished", "True", "Succeeded", "Reached expected number of succeeded pods")
        )
    waiting = (
        "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, "
        "8 more needed"
    )
    flavors = dict.fromkeys(usage, "h100")
    assigned = {"count": 1, "flavors": flavors, "name": "main", "resourceUsage": usage}
    admission = {"clusterQueue": "cq-@QUEUE@", "podSetAssignments": [assigned]}
    status: dict[str, Any] = {"admission": admission, "conditions": conditions}
    if not reserved:
        requests = [{"name": "main", "resources": usage}]
        status = {
            "conditions": [_condition("QuotaReserved", "False", "Pending", waiting)],
            "resourceRequests": requests,
        }
    obj = {
        "kind": "Workload",
        "apiVersion": kind.api_version(),
        "metadata": {
            **_meta(kind),
            "finalizers": ["kueue.x-k8s.io/resource-in-use"],
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "j-@NAME@", "uid": "@UID@"}
            ],
            "managedFields": [_managed("kueue", 2)],
        },
        "spec": {
            "active": True,
            "podSets": [
                {
                    "count": 1,
                    "name": "main",
                    "template": {
                        "metadata": {
                            "labels": {"app": "trainer", "batch.kubernetes.io/job-name": "j-@NAME@"}
                        },
                        "spec": {
                            "containers": [container],
                            "dnsPolicy": "ClusterFirst",
                            "restartPolicy": "Never",
                            "schedulerName": "default-scheduler",
                            "securityContext": {},
                            "terminationGracePeriodSeconds": 30,
                        },
                    },
                }
            ],
            "priority": 100,
            "priorityClassRef": {
                "group": "kueue.x-k8s.io",
                "kind": "WorkloadPriorityClass",
                "name": "normal",
            },
            "queueName": "lq-@QUEUE@",
        },
        "status": status,
    }
    return msgspec.json.encode(obj)


def _filled(
    kind: Kind, templates: list[bytes], count: int, bulk: Bulk, queues: int
) -> Iterator[tuple[str, bytes]]:
    for number in range(count):
        queue = number % max(1, queues)
        namespace = f"team-{(queue if queues else number) % max(1, bulk.teams):03d}"
        name = f"{kind.plural[:-1]}-{number:06d}"
        values = {
            b"@NAME@": name.encode(),
            b"@NS@": namespace.encode(),
            b"@UID@": f"{kind.plural[:4]:0<8}-0000-4000-a000-{number:012d}".encode(),
            b"@NUMBER@": f"{number // 8:05d}".encode(),
            b"@QUEUE@": f"{queue:04d}".encode(),
        }
        raw = templates[number % len(templates)]
        for mark, text in values.items():
            raw = raw.replace(mark, text)
        yield f"{namespace}/{name}", raw


def fill_bulk(store: Store, bulk: Bulk) -> None:
    """Fill the store."""
    workloads = [_workload("admitted")] * 6 + [_workload("finished")] * 3 + [_workload("pending")]
    for name, templates, count in (
        ("Pod", [_pod()], bulk.pods),
        ("Workload", workloads, bulk.workloads),
    ):
        if count:
            store.fill(KINDS[name], _filled(KINDS[name], templates, count, bulk, bulk.queues))
    if bulk.queues:
        _fill_queues(store, bulk)


def _fill_queues(store: Store, bulk: Bulk) -> None:
    names = ("cpu", "memory", "nvidia.com/gpu")
    for number in range(bulk.queues):
        quota = [{"name": r, "nominalQuota": q} for r, q in zip(names, ("1000", "10Ti", "64"), strict=True)]
        flavor = {"name": "h100", "resources": quota}
        used = [{"borrowed": "0", "name": r, "total": "0"} for r in names]
        usage = [{"name": "h100", "resources": used}]
        active = _condition("Active", "True", "Ready", "Can admit new workloads")
        status = {
            "admittedWorkloads": 0,
            "conditions": [active],
            "flavorsReservation": usage,
            "flavorsUsage": usage,
            "pendingWorkloads": 0,
            "reservingWorkloads": 0,
        }
        queue = {
            "metadata": {"name": f"cq-{number:04d}", "uid": f"cq-{number:08d}", "creationTimestamp": _AT},
            "spec": {
                "cohortName": f"cohort-{number % 20:02d}",
                "namespaceSelector": {},
                "resourceGroups": [{"coveredResources": list(names), "flavors": [flavor]}],
            },
            "status": status,
        }
        store.put(KINDS["ClusterQueue"], queue, record=False)
        team = f"team-{number % max(1, bulk.teams):03d}"
        local = {
            "metadata": {
                "name": f"lq-{number:04d}",
                "namespace": team,
                "uid": f"lq-{number:08d}",
                "creationTimestamp": _AT,
            },
            "spec": {"clusterQueue": f"cq-{number:04d}"},
            "status": {"conditions": [active]},
        }
        store.put(KINDS["LocalQueue"], local, record=False)


def mutate(store: Store, kind: Kind, percent: float) -> int:
    """Change a label of this share of the objects, spread evenly over the list; gives how many."""
    page = store.page(kind)
    wanted = max(1, round(len(page.items) * percent / 100)) if page.items else 0
    step = len(page.items) / wanted if wanted else 1
    for index in range(wanted):
        raw = page.items[int(index * step)]
        meta = msgspec.json.decode(raw)["metadata"]
        old = b'"bench.example.com/turn":"%b"' % meta["labels"]["bench.example.com/turn"].encode()
        new = b'"bench.example.com/turn":"%04d"' % (
            (int(meta["labels"]["bench.example.com/turn"]) + 1) % 10_000
        )
        key = f"{meta.get('namespace', '')}/{meta['name']}"
        store.put_raw(kind, key, raw.replace(old, new, 1), notify=index == wanted - 1)
    return wanted
