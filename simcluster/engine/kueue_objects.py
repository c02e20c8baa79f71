"""Kueue's objects as bodies: Workloads, usage lists, quota cells. Pure functions of jobs and specs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal

from apps.core.quantity import parse_quantity
from apps.quotas.tree import Cell
from simcluster.kinds import KINDS
from simcluster.timestamps import stamp

from .amounts import amount_text
from .model import Job, Obj
from .pods import OWNER_VERSIONS, requests_of, tolerations_of

_API = KINDS["Workload"].api_version()


def workload(job: Job, uid: str) -> Obj:
    """The Workload of a job that has just been created."""
    stream = job.stream
    pod_set: Obj = {"count": job.pods, "name": "main", "template": _template(job)}
    if stream.topology:
        level = {"podIndexLabel": "batch.kubernetes.io/job-completion-index", "required": stream.topology}
        pod_set["topologyRequest"] = level
    owner = {"apiVersion": OWNER_VERSIONS[stream.owner], "blockOwnerDeletion": True, "controller": True}
    owner |= {"kind": stream.owner, "name": job.name, "uid": job.uid}
    priority = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": stream.priority}
    return {
        "kind": "Workload",
        "apiVersion": _API,
        "metadata": {
            "creationTimestamp": stamp(job.created),
            "finalizers": ["kueue.x-k8s.io/resource-in-use"],
            "generation": 1,
            "labels": {"kueue.x-k8s.io/job-uid": job.uid},
            "name": job.workload,
            "namespace": job.namespace,
            "ownerReferences": [owner],
            "uid": uid,
        },
        "spec": {
            "active": True,
            "podSets": [pod_set],
            "priority": job.priority,
            "priorityClassRef": priority,
            "queueName": stream.queue,
        },
        "status": {},
    }


def _template(job: Job) -> Obj:
    stream, requests = job.stream, requests_of(job)
    tolerations = tolerations_of(stream)
    container = {
        "image": f"registry.example.com/{job.team.slug}/{stream.name}:{1 + job.number % 40}",
        "imagePullPolicy": "IfNotPresent",
        "name": "main",
        "resources": {"limits": {stream.resource: requests[stream.resource]}, "requests": requests},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    return {
        "metadata": {"labels": {"app": stream.name, "batch.kubernetes.io/job-name": job.name}},
        "spec": {
            "containers": [container],
            "dnsPolicy": "ClusterFirst",
            **({"nodeSelector": stream.selector} if stream.selector else {}),
            "restartPolicy": "Never",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "terminationGracePeriodSeconds": 30,
            **({"tolerations": tolerations} if tolerations else {}),
        },
    }


def resource_texts(job: Job) -> dict[str, str]:
    """What all pods of the job ask for together."""
    return {resource: amount_text(resource, amount) for resource, amount in sorted(job.totals.items())}


def resource_requests(job: Job) -> list[Obj]:
    """status.resourceRequests of work that was looked at and waits."""
    return [{"name": "main", "resources": resource_texts(job)}]


def admission(job: Job, queue: str) -> Obj:
    """status.admission."""
    usage = {resource: amount_text(resource, int(amount)) for (_flavor, resource), amount in job.held.items()}
    assigned = {"count": job.pods, "flavors": dict(sorted(job.flavors.items())), "name": "main"}
    return {
        "clusterQueue": queue,
        "podSetAssignments": [{**assigned, "resourceUsage": dict(sorted(usage.items()))}],
    }


def count_eviction(status: Obj, reason: str) -> None:
    """One more in status.schedulingStats."""
    evictions = status.setdefault("schedulingStats", {"evictions": []})["evictions"]
    for one in evictions:
        if one["reason"] == reason:
            one["count"] += 1
            return
    evictions.append({"count": 1, "reason": reason, "underlyingCause": ""})


def owner_object(job: Job) -> Obj:
    """The job itself, as far as events about it need it."""
    return {
        "kind": job.stream.owner,
        "apiVersion": OWNER_VERSIONS[job.stream.owner],
        "metadata": {"name": job.name, "namespace": job.namespace, "uid": job.uid},
    }


def flavors_usage(
    spec: Obj, jobs: Iterable[Job], borrowed: Callable[[tuple[str, str]], int] | None
) -> list[Obj]:
    """flavorsUsage or flavorsReservation: only flavors and resources that the spec lists now."""
    sums: dict[tuple[str, str], int] = {}
    for job in jobs:
        for fr, amount in job.held.items():
            sums[fr] = sums.get(fr, 0) + int(amount)
    found = []
    for group in spec.get("resourceGroups", ()):
        for flavor in group["flavors"]:
            resources = []
            for name in sorted([resource["name"] for resource in flavor["resources"]]):
                fr = (flavor["name"], name)
                total = sums.get(fr, 0)
                one = {"name": name, "total": amount_text(name, total)}
                if borrowed:
                    one = {"borrowed": amount_text(name, borrowed(fr)) if total else "0", **one}
                resources.append(one)
            found.append({"name": flavor["name"], "resources": resources})
    return found


def cells(spec: Obj) -> dict[tuple[str, str], Cell]:
    """The quota of a ClusterQueue's or Cohort's spec for the tree."""
    found = {}
    for group in spec.get("resourceGroups", ()):
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                nominal = parse_quantity(resource["nominalQuota"])
                borrowing, lending = (
                    _limit(resource.get(name)) for name in ("borrowingLimit", "lendingLimit")
                )
                found[flavor["name"], resource["name"]] = Cell(nominal, borrowing, lending)
    return found


def _limit(text: str | int | None) -> Decimal | None:
    return None if text is None else parse_quantity(text)
