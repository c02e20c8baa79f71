"""Kueue's objects and the simulation's work as the admission engine takes them (apps/quotas/engine/model.py).

Input: bodies of ClusterQueues, Cohorts and ResourceFlavors as they are served, and jobs; output: the engine's frozen data.
Pure. Invariants: quota is exact; jobs of one kind share one pod set, so that the engine remembers what suits it.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from apps.quotas.engine.model import Assigned, Flavor, Group, PodSet, Policy, Queue, Refused, Work
from apps.quotas.tree import QuotaNode

from .kueue_objects import cells
from .model import Job, Obj, Phase
from .pods import tolerations_of

POD_SET = "main"


def engine_queue(name: str, spec: Obj, inactive: str) -> Queue:
    """A ClusterQueue; `inactive`: why it admits nothing, "" when it does."""
    stop = spec.get("stopPolicy", "None")
    checks = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks", ())
    return Queue(
        node=QuotaNode(name, "ClusterQueue", spec.get("cohortName"), cells(spec), stopped=stop != "None"),
        groups=tuple(
            Group(tuple(group["coveredResources"]), tuple(flavor["name"] for flavor in group["flavors"]))
            for group in spec.get("resourceGroups", ())
        ),
        policy=_policy(spec),
        inactive=inactive,
        drains=stop == "HoldAndDrain",
        checks=tuple(check["name"] for check in checks),
    )


def _policy(spec: Obj) -> Policy:
    preemption, fungibility = spec.get("preemption") or {}, spec.get("flavorFungibility") or {}
    borrow = preemption.get("borrowWithinCohort") or {}
    usual = Policy()
    return Policy(
        strategy=spec.get("queueingStrategy", usual.strategy),
        within_cluster_queue=preemption.get("withinClusterQueue", usual.within_cluster_queue),
        reclaim_within_cohort=preemption.get("reclaimWithinCohort", usual.reclaim_within_cohort),
        borrow_within_cohort=borrow.get("policy", usual.borrow_within_cohort),
        max_priority_threshold=borrow.get("maxPriorityThreshold"),
        when_can_borrow=fungibility.get("whenCanBorrow", usual.when_can_borrow),
        when_can_preempt=fungibility.get("whenCanPreempt", usual.when_can_preempt),
        preference=fungibility.get("preference", usual.preference),
    )


def engine_cohort(name: str, spec: Obj) -> QuotaNode:
    return QuotaNode(name, "Cohort", spec.get("parentName"), cells(spec))


def engine_flavor(name: str, spec: Obj) -> Flavor:
    return Flavor(
        name=name,
        node_labels=spec.get("nodeLabels", {}),
        taints=tuple(
            (taint["key"], taint.get("value", ""), taint["effect"]) for taint in spec.get("nodeTaints", ())
        ),
        tolerations=tuple(spec.get("tolerations", ())),
        topology=spec.get("topologyName", ""),
    )


class WorkReader:
    """Jobs → Work."""

    def __init__(self) -> None:
        self._pod_sets: dict[tuple[str, str, int, int], PodSet] = {}

    def read(self, job: Job, *, blocked: Refused | None = None) -> Work:
        """`blocked`: why it stands in no line."""
        return Work(
            uid=job.obj["metadata"]["uid"],
            name=job.workload,
            namespace=job.namespace,
            queue=job.queue,
            priority=job.priority,
            created=job.created,
            queued=job.created,
            pod_sets=(self._pod_set(job),),
            holds=self._holds(job) if job.held else None,
            reserved_at=job.reserved,
            blocked=blocked,
            local_queue=job.stream.queue,
            admitted=job.phase is not Phase.CHECKING,
        )

    def _pod_set(self, job: Job) -> PodSet:
        stream = job.stream
        key = (job.team.slug, stream.name, job.pods, job.gpus)
        found = self._pod_sets.get(key)
        if found is None:
            each = {resource: Decimal(total) / job.pods for resource, total in job.totals.items()}
            tolerations = tuple(tolerations_of(stream))
            found = PodSet(
                POD_SET,
                job.pods,
                each,
                node_selector=stream.selector,
                tolerations=tolerations,
                topology=bool(stream.topology),
            )
            self._pod_sets[key] = found
        return found

    @staticmethod
    def _holds(job: Job) -> Mapping[str, Assigned]:
        amounts = {resource: amount for (_flavor, resource), amount in job.held.items()}
        return {POD_SET: Assigned(job.pods, job.flavors, amounts)}
