"""Pods: made when work is admitted, bound to nodes by a scheduler, started, ended, deleted.

Input: admitted jobs; output: Pod objects, scheduling events, and a call back when all pods of a job run or ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from simcluster.kinds import KINDS
from simcluster.scenario import Stream
from simcluster.timestamps import stamp

from .fleet import Fleet
from .model import Job, Obj, PodState
from .world import World

_POD = KINDS["Pod"]
_IMAGE = "registry.example.com"
_SPOT_TOLERATION = {"key": "spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
_TOLERATIONS = [
    {
        "key": f"node.kubernetes.io/{why}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for why in ("not-ready", "unreachable")
]
_VOLUMES = [
    {
        "name": "kube-api-access",
        "projected": {
            "defaultMode": 420,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            ],
        },
    },
    {"name": "scratch", "emptyDir": {"medium": "Memory"}},
]
_MOUNTS = [
    {
        "name": "kube-api-access",
        "readOnly": True,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    },
    {"name": "scratch", "mountPath": "/scratch"},
]


def tolerations_of(stream: Stream) -> list[Obj]:
    """What its pods tolerate, besides what every pod does."""
    found: list[Obj] = [dict(_SPOT_TOLERATION)] if stream.spot else []
    return found + [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in stream.tolerates]


def requests_of(job: Job) -> dict[str, str]:
    """What one pod asks for."""
    stream = job.stream
    return {
        "cpu": str(stream.cpu_per_gpu * job.gpus),
        "memory": f"{stream.memory_gib_per_gpu * job.gpus}Gi",
        stream.resource: str(job.gpus),
    }


class Pods:
    """All pods of the cluster and who waits for a node."""

    def __init__(self, world: World, fleet: Fleet) -> None:
        self.world, self.fleet = world, fleet
        self.waiting: list[PodState] = []
        self.all_running: Callable[[Job], None] = lambda _job: None
        self.never_starts: Callable[[Job], None] = lambda _job: None
        self._retry_planned = False

    # ---- making -------------------------------------------------------------------------------------------
    def create(
        self, job: Job, labels: dict[str, str], annotations: dict[str, str], selector: dict[str, str]
    ) -> None:
        """Make a job's pods and try to place each."""
        job.pod_states = []
        spec = self._spec(job, selector)
        for index in range(job.pods):
            pod = self._pod(job, index, labels, annotations, spec, selector)
            job.pod_states.append(pod)
            pod.bad_image = self._unlucky(job)
            self._schedule(pod, first=True)

    def _unlucky(self, job: Job) -> bool:
        share = job.stream.image_pull_failing
        return bool(share) and self.world.random("image", job.number).random() < share

    def _pod(
        self,
        job: Job,
        index: int,
        labels: dict[str, str],
        annotations: dict[str, str],
        spec: Obj,
        selector: dict[str, str],
    ) -> PodState:
        volcano = bool(job.team.volcano_queues)
        suffix = f"worker-{index}" if volcano else self.world.suffix(5, job.number, job.attempt, index)
        name = f"{job.name}-{suffix}"
        owner = job.stream.owner
        obj: Obj = {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                "name": name,
                "generateName": f"{job.name}-",
                "namespace": job.namespace,
                "uid": self.world.uid("pod", job.number, job.attempt, index),
                "generation": 1,
                "creationTimestamp": stamp(self.world.now),
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [
                    {
                        "apiVersion": "batch.volcano.sh/v1alpha1" if volcano else OWNER_VERSIONS[owner],
                        "kind": "Job" if volcano else owner,
                        "name": job.name,
                        "uid": job.uid,
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": spec,
            "status": {"phase": "Pending", "qosClass": "Burstable"},
        }
        return PodState(f"{job.namespace}/{name}", obj, job, selector)

    def _spec(self, job: Job, selector: dict[str, str]) -> Obj:
        requests = requests_of(job)
        limits = {job.stream.resource: requests[job.stream.resource]}
        container = {
            "name": "main",
            "image": f"{_IMAGE}/{job.team.slug}/{job.stream.name}:{1 + job.number % 40}",
            "args": ["--config", f"/configs/{job.stream.name}.yaml", "--run", job.name],
            "env": [{"name": "NCCL_DEBUG", "value": "WARN"}, {"name": "OMP_NUM_THREADS", "value": "8"}],
            "resources": {"limits": limits, "requests": requests},
            "volumeMounts": _MOUNTS,
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
        }
        return {
            "volumes": _VOLUMES,
            "containers": [container],
            "restartPolicy": "Always" if job.stream.owner == "StatefulSet" else "Never",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            **({"nodeSelector": selector} if selector else {}),
            "serviceAccountName": "default",
            "schedulerName": "volcano" if job.team.volcano_queues else "default-scheduler",
            "securityContext": {},
            "tolerations": _TOLERATIONS + tolerations_of(job.stream),
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        }

    # ---- scheduling ---------------------------------------------------------------------------------------
    def _schedule(self, pod: PodState, *, first: bool = False) -> bool:
        """Bind the pod, or say why not. The gang of a Volcano job was placed before."""
        job = pod.job
        placed = pod.node is not None or self.fleet.place(pod, job.stream.resource, job.gpus)
        if placed:
            self._bound(pod)
            return True
        if first:
            self.waiting.append(pod)
        self._unschedulable(pod)
        return False

    def _bound(self, pod: PodState) -> None:
        now, node = stamp(self.world.now), pod.node
        if node is None:
            return
        pod.obj["spec"] = {**pod.obj["spec"], "nodeName": node.name}
        pod.obj["status"] = {
            "phase": "Pending",
            "conditions": [_condition("PodScheduled", "True", now)],
            "startTime": now,
            "qosClass": "Burstable",
        }
        self.world.put(_POD, pod.obj)
        scheduler = pod.obj["spec"]["schedulerName"]
        words = f"Successfully assigned {pod.key} to {node.name}"
        self.world.event(pod.obj, "Scheduled", words, scheduler)
        wait = 4 + self.world.random("pull", pod.key).randrange(40)
        self.world.after(wait, self._start, pod, pod.job.attempt)

    def _unschedulable(self, pod: PodState) -> None:
        message = self.why_not(pod)
        if message == pod.said:
            return
        pod.said = message
        old = pod.obj["status"].get("conditions")
        since = old[0]["lastTransitionTime"] if old else stamp(self.world.now)
        failed = {**_condition("PodScheduled", "False", since), "reason": "Unschedulable", "message": message}
        pod.obj["status"] = {"phase": "Pending", "conditions": [failed], "qosClass": "Burstable"}
        self.world.put(_POD, pod.obj)
        scheduler = pod.obj["spec"]["schedulerName"]
        self.world.event(pod.obj, "FailedScheduling", message, scheduler, warning=True)

    def why_not(self, pod: PodState) -> str:
        """The scheduler's words: each node with its first reason."""
        reasons: Counter[str] = Counter()
        helpful = 0
        job = pod.job
        resource, tolerated = job.stream.resource, job.stream.tolerated
        selected = self.fleet.selected(pod.selector)
        for node in self.fleet.nodes.values():
            if node.cordoned:
                reasons["node(s) were unschedulable"] += 1
            elif not node.ready or not node.taints <= tolerated:
                reasons["node(s) had untolerated taint(s)"] += 1
            elif node.name not in selected:
                reasons["node(s) didn't match Pod's node affinity/selector"] += 1
            else:
                reasons[f"Insufficient {resource}"] += 1
                helpful += resource in node.units
        total = len(self.fleet.nodes)
        said = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
        if job.team.volcano_queues:
            return f"0/{total} nodes are unavailable: {said}."
        victims = f"{helpful} No preemption victims found for incoming pod, " if helpful else ""
        return (
            f"0/{total} nodes are available: {said}. no new claims to deallocate, preemption: 0/{total} nodes are "
            f"available: {victims}{total - helpful} Preemption is not helpful for scheduling."
        )

    def retry(self) -> None:
        """Something became free: try those that wait, a second later."""
        if self.waiting and not self._retry_planned:
            self._retry_planned = True
            self.world.after(1, self._retry_now)

    def _retry_now(self) -> None:
        self._retry_planned = False
        self.waiting = [pod for pod in self.waiting if not self._schedule(pod)]

    # ---- running ------------------------------------------------------------------------------------------
    def _start(self, pod: PodState, attempt: int) -> None:
        job = pod.job
        if job.attempt != attempt or pod.node is None or pod.running:
            return
        if not pod.node.ready:
            return
        now = stamp(self.world.now)
        if pod.bad_image:
            self._image_pull_fails(pod, now)
            self.never_starts(job)
            return
        pod.running = True
        since = pod.obj["status"]["conditions"][-1]["lastTransitionTime"]
        pod.obj["status"] = {
            "phase": "Running",
            "conditions": [
                *(_condition(kind, "True", now) for kind in ("Initialized", "Ready", "ContainersReady")),
                _condition("PodScheduled", "True", since),
            ],
            "hostIP": "10.1.0.1",
            "podIP": f"10.42.{job.number % 250}.{len(pod.key) % 250}",
            "startTime": since,
            "containerStatuses": [self._container(pod, {"running": {"startedAt": now}}, ready=True)],
            "qosClass": "Burstable",
        }
        self.world.put(_POD, pod.obj)
        self.fleet.start_using(pod)
        if all(one.running for one in job.pod_states):
            self.all_running(job)

    def _image_pull_fails(self, pod: PodState, now: str) -> None:
        image = pod.obj["spec"]["containers"][0]["image"]
        waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}"'}
        pod.obj["status"]["conditions"].append(
            {**_condition("Ready", "False", now), "reason": "ContainersNotReady"}
        )
        pod.obj["status"]["containerStatuses"] = [self._container(pod, {"waiting": waiting}, ready=False)]
        self.world.put(_POD, pod.obj)
        words = f'Failed to pull image "{image}": not found'
        self.world.event(pod.obj, "Failed", words, "kubelet", warning=True)

    def _container(self, pod: PodState, state: dict[str, Any], *, ready: bool) -> Obj:
        return {
            "name": "main",
            "state": state,
            "lastState": {},
            "ready": ready,
            "restartCount": 0,
            "image": pod.obj["spec"]["containers"][0]["image"],
            "imageID": "",
            "started": ready,
        }

    def finish(self, job: Job, *, failed: bool) -> None:
        """All pods end; they stay for a while so that their logs can be read."""
        now = stamp(self.world.now)
        oom = failed and job.number % 3 == 0
        for pod in job.pod_states:
            self._end(pod, now, failed, oom)
            self.world.after(300 + job.number % 900, self._delete, pod.key)
        self._forget(job)

    def _end(self, pod: PodState, now: str, failed: bool, oom: bool) -> None:
        why = ("OOMKilled" if oom else "Error") if failed else "Completed"
        code = (137 if oom else 1) if failed else 0
        status = pod.obj["status"]
        started = next(
            (
                c["state"]["running"]["startedAt"]
                for c in status.get("containerStatuses", ())
                if "running" in c["state"]
            ),
            now,
        )
        over = "PodFailed" if failed else "PodCompleted"
        ended = {"exitCode": code, "reason": why, "startedAt": started, "finishedAt": now}
        pod.obj["status"] = {
            **status,
            "phase": "Failed" if failed else "Succeeded",
            "conditions": [
                _condition("Initialized", "True", started),
                *({**_condition(k, "False", now), "reason": over} for k in ("Ready", "ContainersReady")),
                status["conditions"][-1],
            ],
            "containerStatuses": [self._container(pod, {"terminated": ended}, ready=False)],
        }
        self.world.put(_POD, pod.obj)

    def evict(self, job: Job) -> None:
        """All pods go at once: the work was preempted, stopped or taken back."""
        for pod in job.pod_states:
            self._delete(pod.key)
        self._forget(job)

    def _forget(self, job: Job) -> None:
        for pod in job.pod_states:
            self.fleet.release(pod, job.stream.resource)
        if any(pod.job is job for pod in self.waiting):
            self.waiting = [pod for pod in self.waiting if pod.job is not job]
        job.pod_states = []
        self.retry()

    def _delete(self, key: str) -> None:
        self.world.remove(_POD, key)


OWNER_VERSIONS = {
    "Job": "batch/v1",
    "StatefulSet": "apps/v1",
    "RayJob": "ray.io/v1",
    "PyTorchJob": "kubeflow.org/v1",
}


def _condition(kind: str, status: str, at: str) -> Obj:
    return {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": at}
