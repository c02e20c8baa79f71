"""Kueue: work is submitted, looked at, given quota, checked, admitted, preempted, finished; its objects say so.

Messages and reasons are Kueue's own (0.17, without granular reasons). Invariants: work that is refused because its queue is inactive keeps no
resourceRequests, work behind the head of a strict queue has no reason at all.
"""

from __future__ import annotations

import re
from decimal import Decimal

from simcluster.kinds import KINDS
from simcluster.timestamps import stamp

from . import kueue_objects
from .kueue_objects import negated, owner_object, resource_requests
from .model import Held, Job, Obj, Phase
from .pods import OWNER_VERSIONS, Pods
from .queue_status import QueueStatus
from .quota import WHY, Queue, Quota
from .world import World, condition

_WL = KINDS["Workload"]
_ADMISSION, _CONTROLLER = "kueue-admission", "kueue-workload-controller"
_SAY_AGAIN_SECONDS, _KEPT_SECONDS, _NOTICED_SECONDS = 900, 6 * 3600, 4 * 3600
_NUMBERS = re.compile(r"[0-9]+")


class Kueue:
    """One instance per run."""

    def __init__(self, world: World, quota: Quota, pods: Pods, check_minutes: tuple[int, int]) -> None:
        self.world, self.quota, self.pods = world, quota, pods
        self.check_minutes = check_minutes
        self.status = QueueStatus(world, quota)
        self.jobs: dict[int, Job] = {}
        self.strays: dict[int, Job] = {}
        """Work whose LocalQueue does not exist."""
        self._dirty: set[str] = set()
        self._cycle_planned = False

    # ---- arriving -----------------------------------------------------------------------------------------
    def submit(self, job: Job) -> None:
        """A Job with a queue name was created: Kueue makes a Workload for it."""
        self.jobs[job.number] = job
        job.obj = kueue_objects.workload(job, self.world.uid("workload", job.number))
        local = self.status.local.get(f"{job.namespace}/{job.stream.queue}")
        queue = self.quota.queues.get(local["spec"]["clusterQueue"]) if local else None
        job.queue = queue.name if queue else ""
        said = self._inadmissible(job, local, queue)
        if said:
            condition(job.obj, self.world.now, "QuotaReserved", "False", "Inadmissible", said)
        self._write(job)
        group = OWNER_VERSIONS[job.stream.owner].split("/")[0]
        controller = f"{group}/{job.stream.owner.lower()}-kueue-controller"
        self.world.event(owner_object(job), "CreatedWorkload", f"Created Workload: {job.key}", controller)
        if queue is None:
            self.strays[job.number] = job
            return
        queue.pending[job.number] = job
        self.touch(queue.name)
        if not said:
            self.plan()

    def _inadmissible(self, job: Job, local: Obj | None, queue: Queue | None) -> str:
        if local is None:
            return f"LocalQueue {job.stream.queue} doesn't exist"
        if local["spec"].get("stopPolicy", "None") != "None":
            return f"LocalQueue {job.stream.queue} is inactive"
        if queue is None:
            return f"ClusterQueue {local['spec']['clusterQueue']} doesn't exist"
        return f"ClusterQueue {queue.name} is inactive" if self.quota.inactive(queue) else ""

    def _write(self, job: Job) -> None:
        self.world.put(_WL, job.obj)

    # ---- the scheduling cycle -----------------------------------------------------------------------------
    def touch(self, *queues: str) -> None:
        """A queue's counters changed, and with them what its whole cohort may admit."""
        self.status.changed(*queues)
        self._dirty.update(queues)

    def plan(self) -> None:
        """A cycle runs a second later."""
        if not self._cycle_planned:
            self._cycle_planned = True
            self.world.after(1, self._cycle)

    def look_again(self) -> None:
        """Something outside of quota changed: everything that waits is looked at."""
        self._dirty.update(self.quota.queues)
        self.plan()

    def _cycle(self) -> None:
        """Look at what waits in every cohort where something changed: by priority, then by time."""
        self._cycle_planned = False
        tree = self.quota.tree
        roots = {tree.root_of("ClusterQueue", name) for name in self._dirty}
        self._dirty = set()
        candidates = [
            job
            for name, queue in self.quota.queues.items()
            if queue.pending
            and tree.root_of("ClusterQueue", name) in roots
            and not self.quota.inactive(queue)
            for job in queue.pending.values()
        ]
        # Who made others give way comes first: it is within its own quota, they borrowed or are less urgent.
        candidates.sort(key=lambda job: (not job.wanted, -job.priority, job.queued, job.number))
        blocked: set[str] = set()
        reserved: list[tuple[str, Held]] = []
        for job in candidates:
            if job.queue in blocked and not job.waiting_for:
                continue
            if not job.waiting_for and not self._consider(job) and self.quota.queues[job.queue].strict:
                blocked.add(job.queue)
            if job.waiting_for:  # its victims are going: what they leave is not for those behind it
                reserved.append((job.queue, job.wanted))
                tree.add_usage(job.queue, job.wanted)
        for name, wanted in reserved:
            tree.add_usage(name, negated(wanted))

    def _consider(self, job: Job) -> bool:
        """Reserve quota for the job, or say why not and make others give way where that helps."""
        job.wanted = {}
        verdict = self.quota.assign(job)
        if len(verdict.flavors) == len(job.totals):
            self._reserve(job, verdict.flavors)
            return True
        words = f"couldn't assign flavors to pod set main: {', '.join(sorted(verdict.reasons))}"
        if verdict.preempt is not None:
            wanted = {(verdict.preempt[0], r): Decimal(n) for r, n in job.totals.items()}
            victims = self.quota.victims(job, verdict.preempt, wanted)
            if victims:
                words += f". Pending the preemption of {len(victims)} workload(s)"
                job.waiting_for, job.wanted = len(victims), wanted
                for victim, why in victims:
                    self._preempt(victim, job, why)
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
            job.obj["status"]["resourceRequests"] = resource_requests(job)
            self._write(job)
            self.world.event(job.obj, "Pending", words, _ADMISSION, warning=True)

    # ---- preemption ---------------------------------------------------------------------------------------
    def _preempt(self, victim: Job, by: Job, why: str) -> None:
        uid = by.obj["metadata"]["uid"]
        said = (
            f"Preempted to accommodate a workload (UID: {uid}, JobUID: {by.uid}) due to {WHY[why]}; "
            f"preemptor path: {self.quota.path(by.queue)}; preemptee path: {self.quota.path(victim.queue)}"
        )
        condition(victim.obj, self.world.now, "Evicted", "True", "Preempted", said)
        condition(victim.obj, self.world.now, "Preempted", "True", why, said)
        self._evict(victim, "Preempted", said)
        ranks = f"effective priority: {by.priority} (base: {by.priority}, boost: 0); preemptee effective priority: "
        ranks = f"preemptor {ranks}{victim.priority} (base: {victim.priority}, boost: 0)"
        self.world.event(victim.obj, "Preempted", f"{said}; {ranks}", _ADMISSION)
        about = f"{victim.key} (UID: {victim.obj['metadata']['uid']}) in ClusterQueue {victim.queue}"
        self.world.event(by.obj, "PreemptedWorkload", f"Preempted workload {about}; {ranks}", _ADMISSION)
        self.world.after(3 + victim.number % 20, self._gone, victim, victim.attempt, said, by)

    def _evict(self, job: Job, reason: str, said: str) -> None:
        """Pods go now; the quota follows when they are gone."""
        job.attempt += 1
        job.phase = Phase.EVICTED
        kueue_objects.count_eviction(job.obj["status"], reason)
        self._not_ready(job, "WaitForStart", "Not all pods are ready or succeeded")
        self._write(job)
        self.world.event(job.obj, f"EvictedDueTo{reason}", said, _ADMISSION)
        self.pods.evict(job)

    def _not_ready(self, job: Job, reason: str, words: str) -> None:
        condition(job.obj, self.world.now, "PodsReady", "False", reason, words)

    def _gone(self, victim: Job, attempt: int, said: str, by: Job) -> None:
        """The victim's pods are gone: it waits again, and the other may have its quota."""
        by.waiting_for = max(0, by.waiting_for - 1)
        if victim.attempt == attempt and victim.held:
            self._requeue(victim, "Preempted", said)
        if by.queue:
            self.touch(by.queue)
        self.plan()

    def _requeue(self, job: Job, reason: str, said: str) -> None:
        now = self.world.now
        self.quota.unhold(job)
        job.phase, job.queued, job.said = Phase.PENDING, now, ""
        status = job.obj["status"]
        status.pop("admission", None)
        status.pop("admissionChecks", None)
        status["resourceRequests"] = resource_requests(job)
        condition(job.obj, now, "QuotaReserved", "False", "Pending", said)
        condition(job.obj, now, "Admitted", "False", "NoReservation", "The workload has no reservation")
        condition(job.obj, now, "Requeued", "True", reason, said)
        self._write(job)
        self.quota.queues[job.queue].pending[job.number] = job
        self.touch(job.queue)
        self.plan()

    # ---- reserving, admitting -----------------------------------------------------------------------------
    def _reserve(self, job: Job, flavors: dict[str, str]) -> None:
        now, status = self.world.now, job.obj["status"]
        self.quota.hold(job, flavors)
        self.touch(job.queue)
        status.pop("resourceRequests", None)
        status["admission"] = kueue_objects.admission(job, job.queue)
        words = f"Quota reserved in ClusterQueue {job.queue}"
        condition(job.obj, now, "QuotaReserved", "True", "QuotaReserved", words)
        for found in status["conditions"]:
            if found["type"] in ("Evicted", "Preempted") and found["status"] == "True":
                condition(
                    job.obj, now, found["type"], "False", "QuotaReserved", f"Previously: {found['message']}"
                )
        waited = f"{words}, wait time since queued was {now - job.queued}s"
        self.world.event(job.obj, "QuotaReserved", waited, _ADMISSION)
        checks = self.quota.queues[job.queue].checks
        if checks:
            self._ask_checks(job, checks)
        else:
            self._admit(job)

    def _ask_checks(self, job: Job, checks: list[str]) -> None:
        at = stamp(self.world.now)
        job.phase = Phase.CHECKING
        asked = [
            {"lastTransitionTime": at, "message": "", "name": name, "state": "Pending"} for name in checks
        ]
        job.obj["status"]["admissionChecks"] = asked
        self._write(job)
        minutes = self.world.random("check", job.number, job.attempt).randint(*self.check_minutes)
        self.world.after(60 * minutes, self._checks_done, job, job.attempt)

    def _checks_done(self, job: Job, attempt: int) -> None:
        if job.attempt != attempt or job.phase is not Phase.CHECKING:
            return
        for check in job.obj["status"]["admissionChecks"]:
            check.update(state="Ready", message="budget approved", lastTransitionTime=stamp(self.world.now))
            words = f"Admission check {check['name']} updated state from Pending to Ready with message budget approved"
            self.world.event(job.obj, "AdmissionCheckUpdated", words, _CONTROLLER)
        self._admit(job)

    def _admit(self, job: Job) -> None:
        job.phase = Phase.STARTING
        condition(job.obj, self.world.now, "Admitted", "True", "Admitted", "The workload is admitted")
        self._not_ready(job, "WaitForStart", "Not all pods are ready or succeeded")
        self._write(job)
        words = f"Admitted by ClusterQueue {job.queue}, wait time since reservation was 0s"
        self.world.event(job.obj, "Admitted", words, _ADMISSION)
        self.touch(job.queue)
        self.world.after(1, self._create_pods, job, job.attempt)

    def _create_pods(self, job: Job, attempt: int) -> None:
        if job.attempt != attempt or job.phase is not Phase.STARTING:
            return
        selector = dict(job.stream.selector)
        for flavor in dict.fromkeys(job.flavors.values()):
            selector |= self.quota.flavors[flavor]["spec"].get("nodeLabels", {})
        labels = {
            "app": job.stream.name,
            "batch.kubernetes.io/job-name": job.name,
            "job-name": job.name,
            "kueue.x-k8s.io/cluster-queue-name": job.queue,
            "kueue.x-k8s.io/local-queue-name": job.stream.queue,
            "kueue.x-k8s.io/podset": "main",
            "team": job.team.slug,
        }
        if job.stream.owner == "PyTorchJob":
            labels |= {
                "training.kubeflow.org/job-name": job.name,
                "training.kubeflow.org/replica-type": "worker",
            }
        self.pods.create(job, labels, {"kueue.x-k8s.io/workload": job.workload}, selector)

    # ---- running, ending ----------------------------------------------------------------------------------
    def running(self, job: Job) -> None:
        """All pods of the job run."""
        job.phase, job.started = Phase.RUNNING, self.world.now
        words = "All pods reached readiness and the workload is running"
        condition(job.obj, self.world.now, "PodsReady", "True", "Started", words)
        self._write(job)
        self.world.after(job.duration, self._finish, job, job.attempt)

    def _finish(self, job: Job, attempt: int) -> None:
        if job.attempt != attempt or job.phase is not Phase.RUNNING:
            return
        job.phase = Phase.FINISHED
        self.pods.finish(job, failed=job.fails)
        reason, words = "Succeeded", "Reached expected number of succeeded pods"
        said, event = "Completed", "Job completed"
        if job.fails:
            reason, words = "Failed", "Job has reached the specified backoff limit"
            said, event = "BackoffLimitExceeded", words
        condition(job.obj, self.world.now, "Finished", "True", reason, words)
        job.obj["metadata"].pop("finalizers", None)
        self._write(job)
        self.world.event(owner_object(job), said, event, "job-controller", warning=job.fails)
        self.quota.unhold(job)
        self.touch(job.queue)
        self.plan()
        self.world.after(_KEPT_SECONDS + job.number % 7200, self._delete, job)

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
            self.quota.queues[job.queue].pending.pop(job.number, None)
            self.touch(job.queue)
            self.plan()
        self._delete(job)

    def never_starts(self, job: Job) -> None:
        """An image that is not there: somebody notices after a while and deletes the job."""
        if job.started == 0 and job.phase is Phase.STARTING:
            self.world.after(min(job.patience, _NOTICED_SECONDS), self._abandon, job, job.attempt)

    def _abandon(self, job: Job, attempt: int) -> None:
        if job.attempt != attempt or job.phase is not Phase.STARTING:
            return
        job.phase = Phase.FINISHED
        self.pods.evict(job)
        self.quota.unhold(job)
        self.touch(job.queue)
        self.plan()
        self._delete(job)

    def node_lost(self, job: Job) -> None:
        """Pods on a node that does not come back are replaced; the work starts over."""
        job.attempt += 1
        job.phase = Phase.STARTING
        self._not_ready(job, "WaitForRecovery", "At least one pod has failed, waiting for recovery")
        self._write(job)
        self.pods.evict(job)
        self.world.after(2, self._create_pods, job, job.attempt)

    # ---- edits --------------------------------------------------------------------------------------------
    def edited(self) -> None:
        """A queue, cohort or flavor was edited: the tree is built again and everything is looked at again."""
        self.quota.rebuild()
        for queue in self.quota.queues.values():
            self.status.activity(queue)
            if self.quota.inactive(queue):
                for job in queue.pending.values():
                    self._say_inactive(job)
            if queue.spec.get("stopPolicy") == "HoldAndDrain":
                self._drain(queue)
        self.touch(*self.quota.queues)
        self.plan()

    def _say_inactive(self, job: Job) -> None:
        words = f"ClusterQueue {job.queue} is inactive"
        if condition(job.obj, self.world.now, "QuotaReserved", "False", "Inadmissible", words):
            job.said = ""
            job.obj["status"].pop("resourceRequests", None)
            self._write(job)
            self.world.event(job.obj, "Inadmissible", words, _CONTROLLER, warning=True)

    def _drain(self, queue: Queue) -> None:
        for job in list(queue.holding.values()):
            if job.phase in (Phase.STARTING, Phase.RUNNING):
                said = "The ClusterQueue is stopped"
                condition(job.obj, self.world.now, "Evicted", "True", "ClusterQueueStopped", said)
                self._evict(job, "ClusterQueueStopped", said)
                self.world.after(5, self._drained, job, job.attempt, said)

    def _drained(self, job: Job, attempt: int, said: str) -> None:
        if job.attempt == attempt and job.held:
            self._requeue(job, "ClusterQueueStopped", said)
            if self.quota.inactive(self.quota.queues[job.queue]):
                self._say_inactive(job)

    def deactivate(self, job: Job) -> None:
        """spec.active was set to false: the work gives back what it holds and waits for nobody."""
        said, now = "The workload is deactivated", self.world.now
        condition(job.obj, now, "Evicted", "True", "Deactivated", said)
        condition(job.obj, now, "Requeued", "False", "Deactivated", said)
        if job.phase in (Phase.CHECKING, Phase.STARTING, Phase.RUNNING):
            self._evict(job, "Deactivated", said)
            self.world.after(5, self._deactivated, job, job.attempt, said)
        elif job.phase is Phase.PENDING and job.queue:
            self.quota.queues[job.queue].pending.pop(job.number, None)
            self.touch(job.queue)
            self._write(job)

    def _deactivated(self, job: Job, attempt: int, said: str) -> None:
        if job.attempt == attempt and job.held:
            self._requeue(job, "Deactivated", said)
            self.quota.queues[job.queue].pending.pop(job.number, None)
            condition(job.obj, self.world.now, "Requeued", "False", "Deactivated", said)
            self._write(job)
