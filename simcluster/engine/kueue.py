"""Kueue: work is submitted, looked at, given quota, checked, admitted, preempted, finished; its objects say so.

What is decided comes from the engine (quota.py); here it takes its time and is written down. Messages and reasons are Kueue's own (0.17, without granular reasons). Invariants: work that is refused because its queue is inactive keeps no
resourceRequests, work behind the head of a strict queue has no reason at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from apps.quotas.engine.model import Admitted, Assigned, Pending, Preempted
from simcluster.kinds import KINDS
from simcluster.timestamps import stamp

from . import kueue_objects
from .kueue_objects import owner_object, resource_requests
from .kueue_words import WHY, pending_words
from .model import Job, Obj, Phase
from .pods import OWNER_VERSIONS, Pods
from .queue_status import QueueStatus
from .quota import Queue, Quota
from .world import World, condition

_WL = KINDS["Workload"]
_ADMISSION, _CONTROLLER = "kueue-admission", "kueue-workload-controller"
_SAY_AGAIN_SECONDS, _KEPT_SECONDS, _NOTICED_SECONDS = 900, 6 * 3600, 4 * 3600
_CYCLES_A_SECOND = 200
"""Of Kueue's scheduler; what is left over goes on in the next second."""
_DEACTIVATED = "The workload is deactivated"
_NUMBERS = re.compile(r"[0-9]+")


class Kueue:
    """One instance per run."""

    def __init__(self, world: World, quota: Quota, pods: Pods, check_minutes: tuple[int, int]) -> None:
        self.world, self.quota, self.pods = world, quota, pods
        self.check_minutes = check_minutes
        self.status = QueueStatus(world, quota)
        self.jobs: dict[int, Job] = {}
        self.strays: dict[int, Job] = {}
        """Work that stands in no line: its LocalQueue is missing or stopped, or it is deactivated."""
        self._cycle_planned = False

    # ---- arriving -----------------------------------------------------------------------------------------
    def submit(self, job: Job) -> None:
        """A Job with a queue name was created: Kueue makes a Workload for it."""
        self.jobs[job.number] = job
        job.obj = kueue_objects.workload(job, self.world.uid("workload", job.number))
        said = self._stand(job)
        if said:
            condition(job.obj, self.world.now, "QuotaReserved", "False", "Inadmissible", said)
        self._write(job)
        group = OWNER_VERSIONS[job.stream.owner].split("/")[0]
        controller = f"{group}/{job.stream.owner.lower()}-kueue-controller"
        self.world.event(owner_object(job), "CreatedWorkload", f"Created Workload: {job.key}", controller)

    def _stand(self, job: Job) -> str:
        """Put it into the line of its queue, or beside all lines. Gives why it cannot be admitted there now, "" when it
        can."""
        local, queue = self._target(job)
        job.queue = queue.name if queue else ""
        if queue is None or self._no_line(job, local):
            self.strays[job.number] = job
        else:
            self.strays.pop(job.number, None)
            self.quota.add(job)
            self.touch(queue.name)
            self.plan()
        return self._inadmissible(job, local, queue)

    def _target(self, job: Job) -> tuple[Obj | None, Queue | None]:
        local = self.status.local.get(f"{job.namespace}/{job.stream.queue}")
        return local, self.quota.queues.get(local["spec"]["clusterQueue"]) if local else None

    @staticmethod
    def _no_line(job: Job, local: Obj | None) -> bool:
        stopped = local is None or local["spec"].get("stopPolicy", "None") != "None"
        return stopped or not job.obj["spec"]["active"]

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
        """Counters of queues changed."""
        self.status.changed(*queues)

    def plan(self) -> None:
        """A cycle runs a second later."""
        if not self._cycle_planned:
            self._cycle_planned = True
            self.world.after(1, self._cycle)

    def look_again(self) -> None:
        """Nodes changed: what found no place is looked at again."""
        self.quota.nodes_changed()
        self.plan()

    def _cycle(self) -> None:
        """Let the scheduler decide until all is at rest, and do what it decides. Of several reasons in one second only
        the last is said."""
        self._cycle_planned = False
        pending: dict[str, Pending] = {}
        for _ in range(_CYCLES_A_SECOND):
            if self.quota.scheduler.at_rest:
                break
            for decision in self.quota.cycle(self.world.now):
                pending.pop(decision.uid, None)
                match decision:
                    case Admitted():
                        self._reserve(self.quota.by_uid[decision.uid], decision.assigned)
                    case Preempted():
                        by_uid = self.quota.by_uid
                        self._preempt(by_uid[decision.uid], by_uid[decision.by], decision)
                    case Pending():
                        pending[decision.uid] = decision
        else:
            self.plan()
        topologies = self.quota.topologies if pending else {}
        for uid, said in pending.items():
            job = self.quota.by_uid[uid]
            self._say_pending(job, pending_words(said, job, topologies))

    def _say_pending(self, job: Job, words: str) -> None:
        """Set the reason. When only its numbers moved, not more than once in a quarter of an hour: Kueue does not
        look again at work whose like has just failed."""
        shape, due = _NUMBERS.sub("", words), job.said_at + _SAY_AGAIN_SECONDS
        if not words or (shape == job.said and self.world.now < due):
            if words and not job.unsaid:
                self.world.at(due, self._say_late, job)
            job.unsaid = words
            return
        job.unsaid = ""
        if condition(job.obj, self.world.now, "QuotaReserved", "False", "Pending", words):
            job.said, job.said_at = shape, self.world.now
            job.obj["status"]["resourceRequests"] = resource_requests(job)
            self._write(job)
            self.world.event(job.obj, "Pending", words, _ADMISSION, warning=True)

    def _say_late(self, job: Job) -> None:
        """The numbers as they are by now, when it still waits for the same reason."""
        words, job.unsaid = job.unsaid, ""
        if words and job.said == _NUMBERS.sub("", words) and job.phase is Phase.PENDING:
            self._say_pending(job, words)

    # ---- preemption ---------------------------------------------------------------------------------------
    def _preempt(self, victim: Job, by: Job, decision: Preempted) -> None:
        why = decision.why
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
        self.world.after(3 + victim.number % 20, self._gone, victim, victim.attempt, said)

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

    def _gone(self, victim: Job, attempt: int, said: str) -> None:
        """The victim's pods are gone: it waits again, and the other may have its quota."""
        if victim.attempt == attempt and victim.held:
            self._requeue(victim, "Preempted", said)

    def _requeue(self, job: Job, reason: str, said: str) -> None:
        """What it held is free, and it waits again: in line, unless its LocalQueue is stopped or it is deactivated."""
        now, status = self.world.now, job.obj["status"]
        job.phase, job.queued, job.said, job.unsaid = Phase.PENDING, now, "", ""
        self.touch(job.queue)
        local, _queue = self._target(job)
        if self._no_line(job, local):
            self.quota.remove(job)
            self.strays[job.number] = job
        else:
            self.quota.release(job)
        self.plan()
        status.pop("admission", None)
        status.pop("admissionChecks", None)
        status["resourceRequests"] = resource_requests(job)
        condition(job.obj, now, "QuotaReserved", "False", "Pending", said)
        condition(job.obj, now, "Admitted", "False", "NoReservation", "The workload has no reservation")
        if job.obj["spec"]["active"]:
            condition(job.obj, now, "Requeued", "True", reason, said)
        else:
            condition(job.obj, now, "Requeued", "False", "Deactivated", _DEACTIVATED)
        self._write(job)

    # ---- reserving, admitting -----------------------------------------------------------------------------
    def _reserve(self, job: Job, assigned: Mapping[str, Assigned]) -> None:
        now, status = self.world.now, job.obj["status"]
        self.quota.hold(job, assigned, now)
        job.unsaid = ""
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
        self.quota.remove(job)
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
            self.quota.remove(job)
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
        self.quota.remove(job)
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
        """A queue, cohort or flavor was edited: the scheduler is told, and everything is looked at again."""
        self.quota.rebuild()
        for queue in self.quota.queues.values():
            self.status.activity(queue)
            for job in list(queue.holding.values()):
                self._send_away(job, queue)
            for job in list(queue.pending.values()):
                self._stand_again(job)
        for job in list(self.strays.values()):
            if job.obj["spec"]["active"]:
                self._stand_again(job)
        self.touch(*self.quota.queues)
        self.plan()

    def _stand_again(self, job: Job) -> None:
        """Whether it stands in line may have changed, and what keeps it from being admitted."""
        local, queue = self._target(job)
        in_line = queue is not None and not self._no_line(job, local)
        said = self._inadmissible(job, local, queue)
        if in_line != (job.number not in self.strays) or (
            not said and _reason(job, "QuotaReserved") == "Inadmissible"
        ):
            self.quota.remove(job)
            self._stand(job)
        if said:
            self._say_inadmissible(job, said)

    def _say_inadmissible(self, job: Job, words: str) -> None:
        job.said = job.unsaid = ""
        if condition(job.obj, self.world.now, "QuotaReserved", "False", "Inadmissible", words):
            job.obj["status"].pop("resourceRequests", None)
            self._write(job)
            self.world.event(job.obj, "Inadmissible", words, _CONTROLLER, warning=True)

    def _send_away(self, job: Job, queue: Queue) -> None:
        """A stop takes back what is reserved and not admitted yet, HoldAndDrain also what runs: of the ClusterQueue, or of
        the LocalQueue."""
        local, _queue = self._target(job)
        policy = (local["spec"].get("stopPolicy") or "None") if local else "Hold"
        for name, stopped, drains in (
            ("ClusterQueue", queue.stopped, queue.drains),
            ("LocalQueue", policy != "None", policy == "HoldAndDrain"),
        ):
            said, reason = f"The {name} is stopped", f"{name}Stopped"
            if stopped and job.phase is Phase.CHECKING:
                job.attempt += 1
                self.quota.evict(job)
                self._requeue(job, reason, said)
                self._stand_again(job)
            elif drains and job.phase in (Phase.STARTING, Phase.RUNNING):
                condition(job.obj, self.world.now, "Evicted", "True", reason, said)
                self.quota.evict(job)
                self._evict(job, reason, said)
                self.world.after(5, self._drained, job, job.attempt, reason, said)

    def _drained(self, job: Job, attempt: int, reason: str, said: str) -> None:
        if job.attempt == attempt and job.held:
            self._requeue(job, reason, said)
            if job.obj["spec"]["active"]:
                self._stand_again(job)

    def activity(self, job: Job) -> None:
        """spec.active was edited. Work that is deactivated gives back what it holds and waits for nobody; work that is
        active again takes its old place in line."""
        active = job.obj["spec"]["active"]
        deactivated = _reason(job, "Requeued") == "Deactivated"
        if active and deactivated and job.phase is Phase.PENDING:
            words = "The workload was reactivated"
            condition(job.obj, self.world.now, "Requeued", "True", "Reactivated", words)
            said = self._stand(job)
            if said:
                self._say_inadmissible(job, said)
            self._write(job)
        elif not active and not deactivated and job.phase not in (Phase.FINISHED, Phase.EVICTED):
            self._deactivate(job)

    def _deactivate(self, job: Job) -> None:
        said, now = _DEACTIVATED, self.world.now
        condition(job.obj, now, "Evicted", "True", "Deactivated", said)
        condition(job.obj, now, "Requeued", "False", "Deactivated", said)
        if job.phase is not Phase.PENDING:
            self.quota.evict(job)
            self._evict(job, "Deactivated", said)
            self.world.after(5, self._drained, job, job.attempt, "Deactivated", said)
            return
        if job.queue:
            self.touch(job.queue)
        self.quota.remove(job)
        self.strays[job.number] = job
        job.unsaid = ""
        self.plan()
        self._write(job)


def _reason(job: Job, kind: str) -> str:
    """Of a condition; "" without it."""
    conditions = job.obj["status"].get("conditions", ())
    return next((found["reason"] for found in conditions if found["type"] == kind), "")
