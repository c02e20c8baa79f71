"""Kueue: admission by quota, preemption, checks, and the objects' conditions and counters.

All quota numbers come from `apps.quotas.tree.QuotaTree`; nothing here adds or compares quota in another way.
Messages and reasons are Kueue's own (0.17, without granular reasons). Invariants: what a workload holds is added to the
tree once and taken off once; a queue's counters in its status are written a moment after the change, as Kueue does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from apps.core.quantity import parse_quantity
from apps.quotas.tree import Cell, QuotaNode, QuotaTree
from simcluster.kinds import KINDS
from simcluster.timestamps import stamp

from .amounts import amount_text
from .fleet import Fleet
from .model import Job, Obj, Phase
from .pods import OWNER_VERSIONS, Pods, requests_of
from .world import World, condition, drop_condition

_WL, _CQ, _LQ = KINDS["Workload"], KINDS["ClusterQueue"], KINDS["LocalQueue"]
_COMPONENT = "kueue-admission"
_SPOT_TAINT = "{spot true NoSchedule <nil>}"
_API = _WL.api_version()
_SAY_AGAIN_SECONDS, _FLUSH_SECONDS = 900, 8
_NUMBERS = re.compile(r"[0-9]+")
Held = dict[tuple[str, str], Decimal]


@dataclass(slots=True)
class Queue:
    """A ClusterQueue: its object, and the work in it."""

    name: str
    obj: Obj
    pending: dict[int, Job] = field(default_factory=dict)
    holding: dict[int, Job] = field(default_factory=dict)

    @property
    def spec(self) -> Obj:
        found: Obj = self.obj["spec"]
        return found

    @property
    def checks(self) -> list[str]:
        strategy = self.spec.get("admissionChecksStrategy") or {}
        return [check["name"] for check in strategy.get("admissionChecks", ())]


@dataclass(slots=True)
class Verdict:
    """What trying to admit came to."""

    flavors: dict[str, str] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    preempt: tuple[str, str] | None = None


class Kueue:
    """One instance per run."""

    def __init__(
        self,
        world: World,
        fleet: Fleet,
        pods: Pods,
        objects: dict[str, list[Obj]],
        check_minutes: tuple[int, int],
    ) -> None:
        self.world, self.fleet, self.pods = world, fleet, pods
        self.check_minutes = check_minutes
        self.flavors = {obj["metadata"]["name"]: obj for obj in objects["ResourceFlavor"]}
        self.cohorts = {obj["metadata"]["name"]: obj for obj in objects["Cohort"]}
        self.queues = {
            obj["metadata"]["name"]: Queue(obj["metadata"]["name"], obj) for obj in objects["ClusterQueue"]
        }
        self.local: dict[str, Obj] = {}
        self.strays: dict[int, Job] = {}
        self.jobs: dict[int, Job] = {}
        self.tree = self._tree()
        self._dirty: set[str] = set()
        self._cycle_planned = self._flush_planned = False
        self._changed: set[str] = set()

    # ---- set-up -------------------------------------------------------------------------------------------
    def _tree(self) -> QuotaTree:
        nodes = [
            QuotaNode(name, "Cohort", obj["spec"].get("parentName"), _cells(obj["spec"]))
            for name, obj in self.cohorts.items()
        ]
        nodes += [
            QuotaNode(
                name,
                "ClusterQueue",
                queue.spec.get("cohortName"),
                _cells(queue.spec),
                stopped=queue.spec.get("stopPolicy", "None") != "None",
            )
            for name, queue in self.queues.items()
        ]
        usage: dict[str, dict[tuple[str, str], Decimal]] = {}
        for name, queue in self.queues.items():
            held = usage.setdefault(name, {})
            for job in queue.holding.values():
                for fr, amount in job.held.items():
                    held[fr] = held.get(fr, Decimal(0)) + amount
        return QuotaTree(nodes, usage)

    def inactive(self, queue: Queue) -> tuple[str, str] | None:
        """(reason, message) of a queue that admits nothing."""
        said, reason = [], ""
        if queue.spec.get("stopPolicy", "None") != "None":
            said.append("is stopped")
            reason = "Stopped"
        missing = sorted(
            flavor["name"]
            for group in queue.spec.get("resourceGroups", ())
            for flavor in group["flavors"]
            if flavor["name"] not in self.flavors
        )
        if missing:
            said.append(f"references missing ResourceFlavor(s): {','.join(missing)}")
            reason = reason or "FlavorNotFound"
        return (reason, f"Can't admit new workloads: {', '.join(said)}.") if said else None

    def quota_changed(self) -> None:
        """A queue or cohort was edited: the tree is built again and everything is looked at again."""
        self.tree = self._tree()
        self._changed.update(self.queues)
        self._dirty.update(self.queues)
        self._plan()

    # ---- arriving -----------------------------------------------------------------------------------------
    def submit(self, job: Job) -> None:
        """A Job with a queue name was created: Kueue makes a Workload for it."""
        self.jobs[job.number] = job
        job.obj = self._workload(job)
        local = self.local.get(f"{job.namespace}/{job.stream.queue}")
        queue = self.queues.get(local["spec"]["clusterQueue"]) if local else None
        job.queue = queue.name if queue else ""
        said = self._inadmissible(job, local, queue)
        if said:
            condition(job.obj, self.world.now, "QuotaReserved", "False", "Inadmissible", said)
        self.world.put(_WL, job.obj)
        self.world.event(
            _owner_object(job),
            "CreatedWorkload",
            f"Created Workload: {job.key}",
            f"{OWNER_VERSIONS[job.stream.owner].split('/')[0]}/{job.stream.owner.lower()}-kueue-controller",
        )
        if queue is None:
            self.strays[job.number] = job
            return
        queue.pending[job.number] = job
        self.touch(queue.name)
        if not said:
            self._plan()

    def _inadmissible(self, job: Job, local: Obj | None, queue: Queue | None) -> str:
        if local is None:
            return f"LocalQueue {job.stream.queue} doesn't exist"
        if local["spec"].get("stopPolicy", "None") != "None":
            return f"LocalQueue {job.stream.queue} is inactive"
        if queue is None:
            return f"ClusterQueue {local['spec']['clusterQueue']} doesn't exist"
        if self.inactive(queue):
            return f"ClusterQueue {queue.name} is inactive"
        return ""

    def _workload(self, job: Job) -> Obj:
        stream = job.stream
        requests = requests_of(job)
        pod_set: Obj = {"count": job.pods, "name": "main", "template": self._template(job, requests)}
        if stream.topology:
            pod_set["topologyRequest"] = {
                "podIndexLabel": "batch.kubernetes.io/job-completion-index",
                "required": stream.topology,
            }
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
                "ownerReferences": [
                    {
                        "apiVersion": OWNER_VERSIONS[stream.owner],
                        "blockOwnerDeletion": True,
                        "controller": True,
                        "kind": stream.owner,
                        "name": job.name,
                        "uid": job.uid,
                    }
                ],
                "uid": self.world.uid("workload", job.number),
            },
            "spec": {
                "active": True,
                "podSets": [pod_set],
                "priority": job.priority,
                "priorityClassRef": {
                    "group": "kueue.x-k8s.io",
                    "kind": "WorkloadPriorityClass",
                    "name": stream.priority,
                },
                "queueName": stream.queue,
            },
            "status": {"resourceRequests": self._requests(job)},
        }

    def _template(self, job: Job, requests: dict[str, str]) -> Obj:
        stream = job.stream
        spot = [{"key": "spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}]
        return {
            "metadata": {"labels": {"app": stream.name, "batch.kubernetes.io/job-name": job.name}},
            "spec": {
                "containers": [
                    {
                        "image": f"registry.example.com/{job.team.slug}/{stream.name}:{1 + job.number % 40}",
                        "imagePullPolicy": "IfNotPresent",
                        "name": "main",
                        "resources": {
                            "limits": {stream.resource: requests[stream.resource]},
                            "requests": requests,
                        },
                        "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File",
                    }
                ],
                "dnsPolicy": "ClusterFirst",
                **({"nodeSelector": stream.selector} if stream.selector else {}),
                "restartPolicy": "Never",
                "schedulerName": "default-scheduler",
                "securityContext": {},
                "terminationGracePeriodSeconds": 30,
                **({"tolerations": spot} if stream.spot else {}),
            },
        }

    def _requests(self, job: Job) -> list[Obj]:
        return [{"name": "main", "resources": {r: amount_text(r, n) for r, n in sorted(job.totals.items())}}]

    # ---- the scheduling cycle -----------------------------------------------------------------------------
    def touch(self, queue: str) -> None:
        """A queue's counters changed, and what its whole cohort may admit with it."""
        self._changed.add(queue)
        if not self._flush_planned:
            self._flush_planned = True
            self.world.after(_FLUSH_SECONDS, self._flush)
        self._dirty.add(queue)

    def _plan(self) -> None:
        if not self._cycle_planned:
            self._cycle_planned = True
            self.world.after(1, self._cycle)

    def _cycle(self) -> None:
        """Look at what waits in every cohort where something changed: by priority, then by time."""
        self._cycle_planned = False
        roots = {self.tree.root_of("ClusterQueue", name) for name in self._dirty}
        self._dirty = set()
        candidates = [
            job
            for name, queue in self.queues.items()
            if queue.pending and self.tree.root_of("ClusterQueue", name) in roots and not self.inactive(queue)
            for job in queue.pending.values()
        ]
        # Who made others give way comes first: it is within its own quota, they borrowed or are less urgent.
        candidates.sort(key=lambda job: (not job.wanted, -job.priority, job.queued, job.number))
        blocked: set[str] = set()
        reserved: list[tuple[str, Held]] = []
        for job in candidates:
            if job.queue in blocked and not job.waiting_for:
                continue
            if not job.waiting_for and not self._consider(job) and self._strict(job.queue):
                blocked.add(job.queue)
            if job.waiting_for:  # its victims are going: what they leave is not for those behind it
                reserved.append((job.queue, job.wanted))
                self.tree.add_usage(job.queue, job.wanted)
        for name, wanted in reserved:
            self.tree.add_usage(name, _negated(wanted))

    def _strict(self, queue: str) -> bool:
        return bool(self.queues[queue].spec.get("queueingStrategy") == "StrictFIFO")

    def _consider(self, job: Job) -> bool:
        job.wanted = {}
        verdict = self._assign(job)
        if len(verdict.flavors) == len(job.totals):
            self._reserve(job, verdict.flavors)
            return True
        words = f"couldn't assign flavors to pod set main: {', '.join(sorted(verdict.reasons))}"
        if verdict.preempt is not None:
            flavor = verdict.preempt[0]
            wanted = {(flavor, r): Decimal(n) for r, n in job.totals.items()}
            victims = self._victims(job, verdict.preempt, wanted)
            if victims:
                words += f". Pending the preemption of {len(victims)} workload(s)"
                for victim, why in victims:
                    self._preempt(victim, job, why)
                job.waiting_for, job.wanted = len(victims), wanted
        self._say_pending(job, words)
        return False

    def _say_pending(self, job: Job, words: str) -> None:
        """Set the reason. When only its numbers moved, not more than once in a quarter of an hour: Kueue does not
        look again at work whose like has just failed."""
        shape = _NUMBERS.sub("", words)
        if shape == job.said and self.world.now - job.said_at < _SAY_AGAIN_SECONDS:
            return
        if condition(job.obj, self.world.now, "QuotaReserved", "False", "Pending", words):
            job.said, job.said_at = shape, self.world.now
            self.world.put(_WL, job.obj)
            self.world.event(job.obj, "Pending", words, _COMPONENT, warning=True)

    def _assign(self, job: Job) -> Verdict:
        """The first flavor of each resource group in which everything of the group fits."""
        verdict = Verdict()
        queue = self.queues[job.queue]
        covered: set[str] = set()
        for group in queue.spec.get("resourceGroups", ()):
            wanted = [r for r in group["coveredResources"] if r in job.totals]
            covered.update(wanted)
            if not wanted:
                continue
            for flavor in group["flavors"]:
                reasons = self._flavor_reasons(job, queue, flavor["name"], wanted, group, verdict)
                if not reasons:
                    verdict.flavors.update(dict.fromkeys(wanted, flavor["name"]))
                    break
                verdict.reasons += reasons
        missing = [r for r in job.totals if r not in covered]
        if missing:
            verdict.reasons = [f"resource {r} unavailable in ClusterQueue" for r in missing]
            verdict.preempt = None
        return verdict

    def _flavor_reasons(
        self, job: Job, queue: Queue, flavor: str, wanted: list[str], group: Obj, verdict: Verdict
    ) -> list[str]:
        spec = self.flavors[flavor]["spec"]
        if spec.get("nodeTaints") and not job.stream.spot:
            return [f"untolerated taint {_SPOT_TAINT} in flavor {flavor}"]
        known = {k for f in group["flavors"] for k in self.flavors[f["name"]]["spec"].get("nodeLabels", {})}
        labels = spec.get("nodeLabels", {})
        if any(k in known and labels.get(k) != v for k, v in job.stream.selector.items()):
            return [f"flavor {flavor} doesn't match node affinity"]
        reasons, needs_quota = [], []
        for resource in wanted:
            fr, asked = (flavor, resource), Decimal(job.totals[resource])
            most = self.tree.potential_available("ClusterQueue", queue.name, fr)
            if asked > most:
                reasons.append(
                    f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests "
                    f"(0) + current podset request ({amount_text(resource, job.totals[resource])}) > maximum "
                    f"capacity ({amount_text(resource, int(most))})"
                )
                continue
            short = asked - self.tree.available("ClusterQueue", queue.name, fr)
            if short > 0:
                more = amount_text(resource, int(min(short, asked)))
                reasons.append(
                    f"insufficient unused quota for {resource} in flavor {flavor}, {more} more needed"
                )
                needs_quota.append(fr)
        if not reasons and spec.get("topologyName"):
            reasons = self._topology_reasons(job, flavor)
        elif len(needs_quota) == len(reasons) and reasons and verdict.preempt is None:
            verdict.preempt = needs_quota[0]
        return reasons

    def _topology_reasons(self, job: Job, flavor: str) -> list[str]:
        """The pods have to fit into one domain of the level that is asked for."""
        level = job.stream.topology
        nodes = self.fleet.matching(self.flavors[flavor]["spec"]["nodeLabels"], job.stream.resource)
        domains: dict[str, int] = {}
        for node in nodes:
            if node.ready and not node.cordoned:
                fits = len(node.free[job.stream.resource]) // job.gpus
                domains[node.labels.get(level, "")] = domains.get(node.labels.get(level, ""), 0) + fits
        most = max(domains.values(), default=0)
        if most >= job.pods:
            return []
        if most == 0:
            return [f'topology "gpu-fabric" doesn\'t allow to fit any of {job.pods} pod(s)']
        return [f'topology "gpu-fabric" allows to fit only {most} out of {job.pods} pod(s)']

    # ---- preemption ---------------------------------------------------------------------------------------
    def _victims(self, job: Job, fr: tuple[str, str], wanted: Held) -> list[tuple[Job, str]]:
        """The least work that has to give way so that this can be admitted; [] when none helps."""
        queue = self.queues[job.queue]
        cell = self.tree.cell("ClusterQueue", queue.name, fr)
        policy = queue.spec.get("preemption") or {}
        within = (
            cell is not None and self.tree.usage("ClusterQueue", queue.name, fr) + wanted[fr] <= cell.nominal
        )
        chosen: list[tuple[Job, str]] = []
        enough = False
        for victim, why in self._candidates(job, queue, policy, fr, reclaim=within):
            chosen.append((victim, why))
            self.tree.add_usage(victim.queue, _negated(victim.held))
            enough = all(
                amount <= self.tree.available("ClusterQueue", queue.name, one)
                for one, amount in wanted.items()
            )
            if enough:
                break
        for victim, _why in chosen:
            self.tree.add_usage(victim.queue, victim.held)
        return chosen if enough else []

    def _candidates(
        self, job: Job, queue: Queue, policy: Obj, fr: tuple[str, str], *, reclaim: bool
    ) -> list[tuple[Job, str]]:
        found: list[tuple[Job, str]] = []
        root = self.tree.root_of("ClusterQueue", queue.name)
        cohort_policy = policy.get("reclaimWithinCohort", "Never")
        for other in self.queues.values():
            if other is queue:
                if policy.get("withinClusterQueue", "Never") == "Never":
                    continue
            elif (
                not reclaim
                or cohort_policy == "Never"
                or self.tree.root_of("ClusterQueue", other.name) != root
                or not self.tree.borrowed("ClusterQueue", other.name, fr)
            ):
                continue
            for victim in other.holding.values():
                lower = victim.priority < job.priority
                if fr not in victim.held or victim.phase is Phase.FINISHED:
                    continue
                if other is queue and lower:
                    found.append((victim, "InClusterQueue"))
                elif other is not queue and (cohort_policy == "Any" or lower):
                    found.append((victim, "InCohortReclamation"))
        found.sort(
            key=lambda pair: (
                pair[1] == "InClusterQueue",
                pair[0].priority,
                -pair[0].started,
                -pair[0].number,
            )
        )
        return found

    def _preempt(self, victim: Job, by: Job, why: str) -> None:
        words = {
            "InClusterQueue": "prioritization in the ClusterQueue",
            "InCohortReclamation": "reclamation within the cohort",
        }[why]
        said = (
            f"Preempted to accommodate a workload (UID: {by.obj['metadata']['uid']}, JobUID: {by.uid}) due to {words}; "
            f"preemptor path: {self._path(by.queue)}; preemptee path: {self._path(victim.queue)}"
        )
        now = self.world.now
        condition(victim.obj, now, "Evicted", "True", "Preempted", said)
        condition(victim.obj, now, "Preempted", "True", why, said)
        self.world.event(victim.obj, "Preempted", said, _COMPONENT)
        self.world.event(
            by.obj,
            "PreemptedWorkload",
            f"Preempted workload {victim.key} (UID: {victim.obj['metadata']['uid']}) in ClusterQueue {victim.queue}",
            _COMPONENT,
        )
        self._evicted(victim, "Preempted", said)
        self.world.after(3 + victim.number % 20, self._give_back, victim, victim.attempt, by)

    def _path(self, queue: str) -> str:
        names, key = [queue], ("ClusterQueue", queue)
        while parent := self.tree.parent(key[0], key[1]):  # type: ignore[arg-type]
            names.append(parent)
            key = ("Cohort", parent)
        return "/" + "/".join(reversed(names))

    def _evicted(self, job: Job, reason: str, said: str) -> None:
        """Pods go now; the quota follows when they are gone."""
        job.attempt += 1
        job.evictions += 1
        job.phase = Phase.EVICTED
        status = job.obj["status"]
        stats = status.setdefault("schedulingStats", {"evictions": []})["evictions"]
        for one in stats:
            if one["reason"] == reason:
                one["count"] += 1
                break
        else:
            stats.append({"count": 1, "reason": reason, "underlyingCause": ""})
        condition(
            job.obj,
            self.world.now,
            "PodsReady",
            "False",
            "WaitForStart",
            "Not all pods are ready or succeeded",
        )
        self.world.put(_WL, job.obj)
        self.world.event(job.obj, f"EvictedDueTo{reason}", said, _COMPONENT)
        self.pods.evict(job)

    def _give_back(self, victim: Job, attempt: int, by: Job) -> None:
        by.waiting_for = max(0, by.waiting_for - 1)
        if victim.attempt == attempt and victim.held:
            said = next(c["message"] for c in victim.obj["status"]["conditions"] if c["type"] == "Evicted")
            self._requeue(victim, "Preempted", said)
        self._dirty.add(by.queue)
        self._plan()

    def _requeue(self, job: Job, reason: str, said: str) -> None:
        now = self.world.now
        self._unhold(job)
        job.phase, job.queued, job.said = Phase.PENDING, now, ""
        status = job.obj["status"]
        status.pop("admission", None)
        status.pop("admissionChecks", None)
        status["resourceRequests"] = self._requests(job)
        condition(job.obj, now, "QuotaReserved", "False", "Pending", said)
        condition(job.obj, now, "Admitted", "False", "NoReservation", "The workload has no reservation")
        condition(job.obj, now, "Requeued", "True", reason, said)
        self.world.put(_WL, job.obj)
        self.queues[job.queue].pending[job.number] = job
        self.touch(job.queue)
        self._plan()

    # ---- reserving, admitting -----------------------------------------------------------------------------
    def _reserve(self, job: Job, flavors: dict[str, str]) -> None:
        queue, now = self.queues[job.queue], self.world.now
        job.flavors = flavors
        job.held = {(flavors[r], r): Decimal(n) for r, n in job.totals.items()}
        self.tree.add_usage(queue.name, job.held)
        del queue.pending[job.number]
        queue.holding[job.number] = job
        self.touch(queue.name)
        status = job.obj["status"]
        status.pop("resourceRequests", None)
        usage = {r: amount_text(r, n) for r, n in sorted(job.totals.items())}
        assigned = {
            "count": job.pods,
            "flavors": dict(sorted(flavors.items())),
            "name": "main",
            "resourceUsage": usage,
        }
        status["admission"] = {"clusterQueue": queue.name, "podSetAssignments": [assigned]}
        words = f"Quota reserved in ClusterQueue {queue.name}"
        condition(job.obj, now, "QuotaReserved", "True", "QuotaReserved", words)
        for kind in ("Evicted", "Preempted"):
            found = next((c for c in status["conditions"] if c["type"] == kind), None)
            if found and found["status"] == "True":
                condition(job.obj, now, kind, "False", "QuotaReserved", f"Previously: {found['message']}")
        self.world.event(
            job.obj, "QuotaReserved", f"{words}, wait time since queued was {now - job.queued}s", _COMPONENT
        )
        if queue.checks:
            self._ask_checks(job, queue)
        else:
            self._admit(job)

    def _ask_checks(self, job: Job, queue: Queue) -> None:
        now = self.world.now
        job.phase = Phase.CHECKING
        job.obj["status"]["admissionChecks"] = [
            {"lastTransitionTime": stamp(now), "message": "", "name": name, "state": "Pending"}
            for name in queue.checks
        ]
        self.world.put(_WL, job.obj)
        minutes = self.world.random("check", job.number, job.attempt).randint(*self.check_minutes)
        self.world.after(60 * minutes, self._checks_done, job, job.attempt)

    def _checks_done(self, job: Job, attempt: int) -> None:
        if job.attempt != attempt or job.phase is not Phase.CHECKING:
            return
        for check in job.obj["status"]["admissionChecks"]:
            check.update(state="Ready", message="budget approved", lastTransitionTime=stamp(self.world.now))
        self.world.event(
            job.obj,
            "AdmissionCheckUpdated",
            "Admission check budget-check updated state from Pending to Ready with message: budget approved",
            "kueue-workload-controller",
        )
        self._admit(job)

    def _admit(self, job: Job) -> None:
        now = self.world.now
        job.phase = Phase.STARTING
        condition(job.obj, now, "Admitted", "True", "Admitted", "The workload is admitted")
        condition(job.obj, now, "PodsReady", "False", "WaitForStart", "Not all pods are ready or succeeded")
        self.world.put(_WL, job.obj)
        self.world.event(
            job.obj,
            "Admitted",
            f"Admitted by ClusterQueue {job.queue}, wait time since reservation was 0s",
            _COMPONENT,
        )
        self.touch(job.queue)
        self.world.after(1, self._create_pods, job, job.attempt)

    def _create_pods(self, job: Job, attempt: int) -> None:
        if job.attempt != attempt or job.phase is not Phase.STARTING:
            return
        selector = dict(job.stream.selector)
        for flavor in dict.fromkeys(job.flavors.values()):
            selector |= self.flavors[flavor]["spec"].get("nodeLabels", {})
        labels = {
            "app": job.stream.name,
            "batch.kubernetes.io/job-name": job.name,
            "job-name": job.name,
            "kueue.x-k8s.io/cluster-queue-name": job.queue,
            "kueue.x-k8s.io/local-queue-name": job.stream.queue,
            "kueue.x-k8s.io/podset": "main",
            "team": job.team.slug,
        }
        self.pods.create(job, labels, {"kueue.x-k8s.io/workload": job.workload}, selector)

    # ---- running, ending ----------------------------------------------------------------------------------
    def running(self, job: Job) -> None:
        """All pods of the job run."""
        job.phase, job.started = Phase.RUNNING, self.world.now
        words = "All pods reached readiness and the workload is running"
        condition(job.obj, self.world.now, "PodsReady", "True", "Started", words)
        self.world.put(_WL, job.obj)
        self.world.after(job.duration, self._finish, job, job.attempt)

    def _finish(self, job: Job, attempt: int) -> None:
        if job.attempt != attempt or job.phase is not Phase.RUNNING:
            return
        job.phase = Phase.FINISHED
        self.pods.finish(job, failed=job.fails)
        if job.fails:
            reason, words = "Failed", "Job has reached the specified backoff limit"
        else:
            reason, words = "Succeeded", "Reached expected number of succeeded pods"
        condition(job.obj, self.world.now, "Finished", "True", reason, words)
        job.obj["metadata"].pop("finalizers", None)
        self.world.put(_WL, job.obj)
        owner = _owner_object(job)
        self.world.event(
            owner,
            "BackoffLimitExceeded" if job.fails else "Completed",
            words if job.fails else "Job completed",
            "job-controller",
            warning=job.fails,
        )
        self._unhold(job)
        self._plan()
        self.world.after(6 * 3600 + job.number % 7200, self._delete, job)

    def _unhold(self, job: Job) -> None:
        if job.held:
            self.tree.add_usage(job.queue, _negated(job.held))
            job.held = {}
            self.queues[job.queue].holding.pop(job.number, None)
            self.touch(job.queue)

    def _delete(self, job: Job) -> None:
        self.jobs.pop(job.number, None)
        self.world.remove(_WL, job.key)

    def take_back(self, job: Job) -> None:
        """Whoever asked for it gives up: the Job is deleted, and its Workload with it."""
        if job.phase is not Phase.PENDING or job.number not in self.jobs:
            return
        job.phase = Phase.FINISHED
        job.attempt += 1
        self.strays.pop(job.number, None)
        if job.queue:
            self.queues[job.queue].pending.pop(job.number, None)
            self.touch(job.queue)
            self._plan()
        self._delete(job)

    def node_lost(self, job: Job) -> None:
        """Pods on a node that does not come back are replaced; the work starts over."""
        job.attempt += 1
        job.phase = Phase.STARTING
        words = "At least one pod has failed, waiting for recovery"
        condition(job.obj, self.world.now, "PodsReady", "False", "WaitForRecovery", words)
        self.world.put(_WL, job.obj)
        self.pods.evict(job)
        self.world.after(2, self._create_pods, job, job.attempt)

    # ---- counters -----------------------------------------------------------------------------------------
    def _flush(self) -> None:
        """Write the status of the queues whose counters changed."""
        self._flush_planned = False
        for name in sorted(self._changed):
            queue = self.queues[name]
            self._queue_status(queue)
            self.world.put(_CQ, queue.obj)
            for local in self.local.values():
                if local["spec"]["clusterQueue"] == name:
                    before = local["status"]
                    self._local_status(local, queue)
                    if local["status"] != before:
                        self.world.put(_LQ, local)
        self._changed = set()

    def _queue_status(self, queue: Queue) -> None:
        held = [job for job in queue.holding.values() if job.held]
        admitted = [job for job in held if job.phase in (Phase.STARTING, Phase.RUNNING)]
        waiting = [job for job in held if job not in admitted]
        status = queue.obj["status"]
        status["admittedWorkloads"] = len(admitted)
        status["reservingWorkloads"] = len(held)
        status["pendingWorkloads"] = len(queue.pending)
        status["flavorsReservation"] = _usage(queue.spec, held, self._borrowed(queue, []))
        status["flavorsUsage"] = _usage(queue.spec, admitted, self._borrowed(queue, waiting))

    def _borrowed(self, queue: Queue, without: list[Job]) -> Callable[[tuple[str, str]], int]:
        """What the queue borrows, as the tree says it, less what is reserved and not admitted yet."""

        def borrowed(fr: tuple[str, str]) -> int:
            not_yet = sum(int(job.held.get(fr, 0)) for job in without)
            return max(0, int(self.tree.borrowed("ClusterQueue", queue.name, fr)) - not_yet)

        return borrowed

    def refresh_active(self, name: str) -> None:
        """The Active condition after an edit."""
        queue = self.queues[name]
        inactive = self.inactive(queue)
        reason, message = inactive or ("Ready", "Can admit new workloads")
        condition(queue.obj, self.world.now, "Active", "False" if inactive else "True", reason, message)

    def _local_status(self, local: Obj, queue: Queue) -> None:
        metadata = local["metadata"]
        mine = (metadata["namespace"], metadata["name"])
        held = [j for j in queue.holding.values() if j.held and (j.namespace, j.stream.queue) == mine]
        admitted = [job for job in held if job.phase in (Phase.STARTING, Phase.RUNNING)]
        local["status"] = {
            "admittedWorkloads": len(admitted),
            "conditions": local["status"]["conditions"],
            "flavorsReservation": _usage(queue.spec, held, None),
            "flavorsUsage": _usage(queue.spec, admitted, None),
            "pendingWorkloads": sum((j.namespace, j.stream.queue) == mine for j in queue.pending.values()),
            "reservingWorkloads": len(held),
        }


def _cells(spec: Obj) -> dict[tuple[str, str], Cell]:
    cells = {}
    for group in spec.get("resourceGroups", ()):
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                limits: list[Decimal | None] = [
                    parse_quantity(resource[name]) if resource.get(name) is not None else None
                    for name in ("borrowingLimit", "lendingLimit")
                ]
                nominal = parse_quantity(resource["nominalQuota"])
                cells[flavor["name"], resource["name"]] = Cell(nominal, *limits)
    return cells


def _negated(held: dict[tuple[str, str], Decimal]) -> dict[tuple[str, str], Decimal]:
    return {fr: -amount for fr, amount in held.items()}


def _usage(spec: Obj, jobs: list[Job], borrowed: Callable[[tuple[str, str]], int] | None) -> list[Obj]:
    """flavorsUsage or flavorsReservation: only flavors and resources that the spec lists now."""
    sums: dict[tuple[str, str], int] = {}
    for job in jobs:
        for fr, amount in job.held.items():
            sums[fr] = sums.get(fr, 0) + int(amount)
    found = []
    for group in spec.get("resourceGroups", ()):
        for flavor in group["flavors"]:
            resources = []
            for name in sorted(resource["name"] for resource in flavor["resources"]):
                fr = (flavor["name"], name)
                extra = {"borrowed": amount_text(name, borrowed(fr))} if borrowed else {}
                resources.append({**extra, "name": name, "total": amount_text(name, sums.get(fr, 0))})
            found.append({"name": flavor["name"], "resources": resources})
    return found


def _owner_object(job: Job) -> dict[str, Any]:
    return {
        "kind": job.stream.owner,
        "apiVersion": OWNER_VERSIONS[job.stream.owner],
        "metadata": {"name": job.name, "namespace": job.namespace, "uid": job.uid},
    }


__all__ = ["Kueue", "Queue", "drop_condition"]
