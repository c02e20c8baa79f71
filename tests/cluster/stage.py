"""A stage in a real cluster on which outcomes are provoked: namespaces, fake nodes, queues and work of one prefix.

Input: a client with the right to create them; output: objects in the cluster, and what it says of them. The nodes are
played by kwok where it runs; where it does not, they never become ready and the caller skips.

Invariants: every name begins with the prefix of this run; `clear` takes everything away and waits until it is gone.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from kubernetes.client import ApiClient, BatchV1Api, CoreV1Api, CustomObjectsApi
from kubernetes.client.exceptions import ApiException

GROUP = "kueue.x-k8s.io"
VOLCANO = ("scheduling.volcano.sh", "v1beta1")
GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
RACK = "portal-test/rack"
GATED_BY = f"{GROUP}/admission-gated-by"
T = TypeVar("T")
FAKE = "kwok.x-k8s.io/node"
_PLURALS = {
    "Topology": "topologies",
    "ResourceFlavor": "resourceflavors",
    "WorkloadPriorityClass": "workloadpriorityclasses",
    "AdmissionCheck": "admissionchecks",
    "Cohort": "cohorts",
    "ClusterQueue": "clusterqueues",
    "LocalQueue": "localqueues",
}


def until(ask: Callable[[], T | None], what: str, seconds: float = 30) -> T:
    """The first answer that is neither None nor False; a failure that says what did not happen in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = ask()
        if answer is not None and answer is not False:
            return answer
        time.sleep(0.3)
    raise AssertionError(f"not within {seconds:.0f} s: {what}")


def conditions(item: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    found = (item.get("status") or {}).get("conditions") or []
    return {condition["type"]: condition for condition in found}


class Stage:
    def __init__(self, writer: ApiClient, version: str, purpose: str = "portal-test") -> None:
        self.core: Any = CoreV1Api(writer)
        self.batch: Any = BatchV1Api(writer)
        self.custom: Any = CustomObjectsApi(writer)
        self.version = version
        self.prefix = f"{purpose}-{uuid.uuid4().hex[:6]}"
        self.namespace = self.prefix
        self._made: list[tuple[str, str, str, str]] = []
        self._nodes: list[str] = []

    def name(self, short: str) -> str:
        return f"{self.prefix}-{short}"

    def open(self) -> None:
        self.core.create_namespace({"metadata": {"name": self.namespace, "labels": {"portal-test": "own"}}})
        until(lambda: self._account(), "the namespace's service account")

    def _account(self) -> bool:
        try:
            return bool(self.core.read_namespaced_service_account("default", self.namespace))
        except ApiException as error:
            if error.status != 404:
                raise
            return False

    def node(self, short: str, *, model: str, gpus: int, rack: str) -> None:
        """A node that kwok keeps alive, with cards of a model."""
        room = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)}
        name = self.name(short)
        labels = {"kubernetes.io/hostname": name, PRODUCT: self.name(model), RACK: self.name(rack)}
        self._nodes.append(name)
        self.core.create_node(
            {
                "metadata": {"name": name, "labels": labels, "annotations": {FAKE: "fake"}},
                "status": {"capacity": room, "allocatable": room},
            }
        )

    def nodes_are_ready(self, seconds: float = 20) -> bool:
        def ready() -> bool:
            nodes: Any = [self.core.read_node(name) for name in self._nodes]
            return all(
                not node.spec.taints
                and any(c.type == "Ready" and c.status == "True" for c in node.status.conditions or ())
                for node in nodes
            )

        try:
            return until(ready, "nodes are ready", seconds)
        except AssertionError:
            return False

    def make(self, kind: str, short: str, spec: Mapping[str, Any] | None = None, **more: Any) -> str:
        """An object of Kueue's; LocalQueues are of the stage's namespace."""
        name = self.name(short)
        body = {
            "apiVersion": f"{GROUP}/{self.version}",
            "kind": kind,
            "metadata": {"name": name},
            **({} if spec is None else {"spec": spec}),
            **more,
        }
        if kind == "LocalQueue":
            self.custom.create_namespaced_custom_object(
                GROUP, self.version, self.namespace, _PLURALS[kind], body
            )
        else:
            self.custom.create_cluster_custom_object(GROUP, self.version, _PLURALS[kind], body)
            self._made.append((GROUP, self.version, _PLURALS[kind], name))
        return name

    def volcano_queue(self, short: str, spec: Mapping[str, Any], state: str = "") -> str:
        """A Queue of Volcano, whose controller need not run."""
        name, where = self.name(short), (*VOLCANO, "queues")
        body = {
            "apiVersion": "/".join(VOLCANO),
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": dict(spec),
        }
        self.custom.create_cluster_custom_object(*where, body)
        self._made.append((*where, name))
        if state:
            self.custom.patch_cluster_custom_object_status(*where, name, {"status": {"state": state}})
        return name

    def queue(self, short: str, *, flavor: str, gpus: int, **spec: Any) -> None:
        """A ClusterQueue with one flavor and a LocalQueue of the same name."""
        quota = {"name": GPU, "nominalQuota": str(gpus)}
        group = {
            "coveredResources": [GPU],
            "flavors": [{"name": self.name(flavor), "resources": [quota]}],
        }
        self.make("ClusterQueue", short, {"namespaceSelector": {}, "resourceGroups": [group], **spec})
        self.make("LocalQueue", short, {"clusterQueue": self.name(short)})

    def pod_spec(
        self, *, gpus: int = 1, resource: str = GPU, model: str = "", gates: Sequence[str] = ()
    ) -> dict[str, Any]:
        amounts = {resource: str(gpus)}
        return {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {"name": "main", "image": "pause", "resources": {"requests": amounts, "limits": amounts}}
            ],
            **({"nodeSelector": {PRODUCT: self.name(model)}} if model else {}),
            **({"schedulingGates": [{"name": gate} for gate in gates]} if gates else {}),
        }

    def pod(self, short: str, **spec: Any) -> str:
        """A pod that no queue knows, and its uid."""
        made: Any = self.core.create_namespaced_pod(
            self.namespace, {"metadata": {"name": short}, "spec": self.pod_spec(**spec)}
        )
        return str(made.metadata.uid)

    def job(
        self,
        short: str,
        *,
        queue: str,
        pods: int = 1,
        priority: str = "",
        annotations: Mapping[str, str] | None = None,
        manager: str = "",
        gate: str = "",
        **spec: Any,
    ) -> str:
        """A suspended Job in a queue of the stage, and its uid. `annotations`: of its pods; `manager`: who makes them, if
        not the cluster; `gate`: who has to let it in before Kueue looks at it."""
        labels = {f"{GROUP}/queue-name": self.name(queue)}
        if priority:
            labels[f"{GROUP}/priority-class"] = self.name(priority)
        made: Any = self.batch.create_namespaced_job(
            self.namespace,
            {
                "metadata": {
                    "name": short,
                    "labels": labels,
                    **({"annotations": {GATED_BY: gate}} if gate else {}),
                },
                "spec": {
                    "suspend": True,
                    "parallelism": pods,
                    "completions": pods,
                    **({"managedBy": manager} if manager else {}),
                    "template": {
                        "metadata": {"annotations": dict(annotations or {})},
                        "spec": self.pod_spec(**spec),
                    },
                },
            },
        )
        return str(made.metadata.uid)

    def workload(self, owner: str) -> dict[str, Any] | None:
        """The Workload of a job or pod of this name."""
        listed = self.custom.list_namespaced_custom_object(GROUP, self.version, self.namespace, "workloads")
        for item in listed["items"]:
            owners = item["metadata"].get("ownerReferences") or []
            if any(reference["name"] == owner for reference in owners):
                found: dict[str, Any] = item
                return found
        return None

    def open_gate(self, job: str) -> None:
        """As whoever holds the job back would, once it may go on."""
        self.batch.patch_namespaced_job(job, self.namespace, {"metadata": {"annotations": {GATED_BY: None}}})

    def patch_workload(self, name: str, body: Mapping[str, Any], *, status: bool = False) -> None:
        patch = (
            self.custom.patch_namespaced_custom_object_status
            if status
            else self.custom.patch_namespaced_custom_object
        )
        patch(GROUP, self.version, self.namespace, "workloads", name, body)

    def answer_check(self, owner: str, state: str, message: str) -> None:
        """As the controller of the work's admission check would, which says it again when it was overwritten: Kueue
        writes the list of checks as well."""
        work = until(lambda: self._with_checks(owner), f"{owner} has its admission checks")
        checks = work["status"]["admissionChecks"]
        if checks[0].get("state") == state:
            return
        checks[0].update(state=state, message=message, lastTransitionTime=_stamp())
        self.patch_workload(work["metadata"]["name"], {"status": {"admissionChecks": checks}}, status=True)

    def _with_checks(self, owner: str) -> dict[str, Any] | None:
        work = self.workload(owner)
        return work if work and (work.get("status") or {}).get("admissionChecks") else None

    def activate_check(self, short: str) -> None:
        ready = {
            "type": "Active", "status": "True", "reason": "Active", "message": "answered by a test",
            "lastTransitionTime": _stamp(),
        }  # fmt: skip
        self.custom.patch_cluster_custom_object_status(
            GROUP,
            self.version,
            "admissionchecks",
            self.name(short),
            {"status": {"conditions": [ready]}},
        )

    def events_about(self, uid: str) -> list[Any]:
        found: Any = self.core.list_namespaced_event(
            self.namespace, field_selector=f"involvedObject.uid={uid}"
        )
        return list(found.items)

    def stays_active(self, job: str) -> None:
        """Let a job of another manager say that its pod runs, and go on saying so whatever happens to it."""
        status = {"active": 1, "ready": 1, "startTime": _stamp()}
        self.batch.patch_namespaced_job_status(job, self.namespace, {"status": status})

    def clear(self) -> None:
        _quietly(lambda: self.core.delete_namespace(self.namespace))
        for made in reversed(self._made):
            _quietly(lambda m=made: self.custom.delete_cluster_custom_object(*m))  # type: ignore[misc]
        until(self._is_gone, "the namespace is gone", 60)
        for name in self._nodes:
            _quietly(lambda n=name: self.core.delete_node(n))  # type: ignore[misc]

    def _is_gone(self) -> bool:
        try:
            self.core.read_namespace(self.namespace)
        except ApiException as error:
            return bool(error.status == 404)
        return False


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _quietly(act: Callable[[], Any]) -> None:
    """What is gone already need not be deleted."""
    try:
        act()
    except ApiException as error:
        if error.status != 404:
            raise
