"""Volcano: queues with capability, PodGroups, vcjobs, gangs placed whole.

Invariants: what a queue has let in (allocated and inqueue) never exceeds its capability in a resource that the work
asks for; a gang gets all of its devices or none; refusal by a queue is a Normal event and no condition, refusal by
the nodes is a condition, as in Volcano itself.
"""

from __future__ import annotations

from apps.core.quantity import parse_quantity
from simcluster.kinds import KINDS
from simcluster.timestamps import stamp

from .amounts import amount_text
from .fleet import Fleet
from .model import Job, Obj, Phase, PodState
from .pods import Pods, requests_of
from .queue_controller import QueueController
from .world import World, condition, drop_condition

_PG, _VCJOB, _QUEUE = KINDS["PodGroup"], KINDS["VolcanoJob"], KINDS["VolcanoQueue"]
_SCHEDULER = "volcano"
_SAY_AGAIN_SECONDS = 900


class Volcano:
    """One instance per run."""

    def __init__(self, world: World, fleet: Fleet, pods: Pods, queues: list[Obj]) -> None:
        self.world, self.fleet, self.pods = world, fleet, pods
        self.queues = {obj["metadata"]["name"]: obj for obj in queues}
        self.jobs: dict[int, Job] = {}
        self.pending: dict[int, Job] = {}
        self.inqueue: dict[int, Job] = {}
        self.holding: dict[int, Job] = {}
        self._vcjobs: dict[int, Obj] = {}
        self._session_planned = False
        self._said_at: dict[int, int] = {}
        self.controller = QueueController(world, self.queues, self._left)

    # ---- arriving -----------------------------------------------------------------------------------------
    def submit(self, job: Job) -> None:
        """A vcjob is to be created: its controller makes a PodGroup for it. A queue that is not open takes nothing:
        Volcano's webhook denies the vcjob ("can only submit job to queue with state `Open`"), so that only the submitter
        hears of it and no object tells of it."""
        job.queue = job.stream.queue
        if self.queues[job.queue]["status"].get("state") != "Open":
            job.phase = Phase.FINISHED
            return
        self.jobs[job.number] = job
        job.workload = f"{job.name}-{job.uid}"
        self._vcjobs[job.number] = self._vcjob(job)
        job.obj = self._pod_group(job)
        self.world.put(_VCJOB, self._vcjobs[job.number])
        self.world.put(_PG, job.obj)
        self.pending[job.number] = job
        self.plan()

    def _vcjob(self, job: Job) -> Obj:
        requests = requests_of(job)
        container = {
            "image": f"registry.example.com/{job.team.slug}/{job.stream.name}:{1 + job.number % 40}",
            "name": "main",
            "resources": {"limits": requests, "requests": requests},
        }
        task = {
            "maxRetry": 3,
            "minAvailable": job.pods,
            "name": "worker",
            "replicas": job.pods,
            "template": {"metadata": {}, "spec": {"containers": [container], "restartPolicy": "Never"}},
        }
        return {
            "kind": "Job",
            "apiVersion": _VCJOB.api_version(),
            "metadata": {
                "creationTimestamp": stamp(job.created),
                "generation": 1,
                "name": job.name,
                "namespace": job.namespace,
                "uid": job.uid,
            },
            "spec": {
                "maxRetry": 3,
                "minAvailable": job.pods,
                "priorityClassName": "normal",
                "queue": job.queue,
                "schedulerName": "volcano",
                "tasks": [task],
            },
            "status": {
                "conditions": [{"lastTransitionTime": stamp(job.created), "status": "Pending"}],
                "minAvailable": job.pods,
                "state": {"lastTransitionTime": stamp(job.created), "phase": "Pending"},
            },
        }

    def _pod_group(self, job: Job) -> Obj:
        plain = {r: amount_text(r, n) for r, n in job.totals.items()}
        least = {"count/pods": str(job.pods), "pods": str(job.pods), **plain}
        least |= {f"requests.{r}": text for r, text in plain.items()}
        least |= {f"limits.{r}": plain[r] for r in ("cpu", "memory")}
        return {
            "kind": "PodGroup",
            "apiVersion": _PG.api_version(),
            "metadata": {
                "creationTimestamp": stamp(job.created),
                "generation": 1,
                "name": job.workload,
                "namespace": job.namespace,
                "ownerReferences": [
                    {
                        "apiVersion": _VCJOB.api_version(),
                        "blockOwnerDeletion": True,
                        "controller": True,
                        "kind": "Job",
                        "name": job.name,
                        "uid": job.uid,
                    }
                ],
                "uid": self.world.uid("podgroup", job.number),
            },
            "spec": {
                "minMember": job.pods,
                "minResources": dict(sorted(least.items())),
                "minTaskMember": {"worker": job.pods},
                "priorityClassName": "normal",
                "queue": job.queue,
            },
            "status": {"phase": "Pending"},
        }

    # ---- a scheduling session -----------------------------------------------------------------------------
    def plan(self) -> None:
        """Something changed: a session runs a second later."""
        if not self._session_planned:
            self._session_planned = True
            self.world.after(1, self._session)

    def _session(self) -> None:
        self._session_planned = False
        for job in sorted(self.pending.values(), key=lambda one: (one.queued, one.number)):
            self._enqueue(job)
        for job in sorted(self.inqueue.values(), key=lambda one: (one.queued, one.number)):
            self._allocate(job)

    def _used(self, queue: str) -> dict[str, int]:
        sums: dict[str, int] = {}
        for job in (*self.inqueue.values(), *self.holding.values()):
            if job.queue == queue:
                for resource, amount in job.totals.items():
                    sums[resource] = sums.get(resource, 0) + amount
        return sums

    def _enqueue(self, job: Job) -> None:
        """Let the group in when its queue's capability has room for it."""
        capability = self.queues[job.queue]["spec"].get("capability", {})
        used = self._used(job.queue)
        short = [
            resource
            for resource, amount in job.totals.items()
            if resource in capability
            and used.get(resource, 0) + amount > parse_quantity(capability[resource])
        ]
        if short:
            said = (
                f"queue resource quota insufficient: {', '.join(f'insufficient {r}' for r in sorted(short))}"
            )
            self._say(job, said)
            return
        del self.pending[job.number]
        self.inqueue[job.number] = job
        job.phase = Phase.CHECKING
        job.obj["status"]["phase"] = "Inqueue"
        self.world.put(_PG, job.obj)

    def _say(self, job: Job, said: str) -> None:
        """The scheduler says it every second; here often enough that the event stays alive."""
        last = self._said_at.get(job.number)
        if last is not None and self.world.now - last < _SAY_AGAIN_SECONDS:
            return
        self._said_at[job.number] = self.world.now
        self.world.event(job.obj, "Unschedulable", said, _SCHEDULER)
        self.world.after(_SAY_AGAIN_SECONDS, self._again, job)

    def _again(self, job: Job) -> None:
        if job.number in self.pending:
            self._enqueue(job)

    def _allocate(self, job: Job) -> None:
        """All pods of the gang, or none."""
        selector = {**job.stream.selector, "node-pool": "hpc"}
        probes = [PodState("", {}, job, selector) for _ in range(job.pods)]
        placed = [probe for probe in probes if self.fleet.place(probe, job.stream.resource, job.gpus)]
        for probe in placed:
            self.fleet.release(probe, job.stream.resource)
        if len(placed) < job.pods:
            self._cannot_place(job, selector, len(placed))
            return
        self.inqueue.pop(job.number)
        self.holding[job.number] = job
        job.phase = Phase.STARTING
        self._create_pods(job, selector)
        drop_condition(job.obj, "Unschedulable")
        condition(job.obj, self.world.now, "Scheduled", "True", "tasks in gang are ready to be scheduled", "")
        job.obj["status"]["phase"] = "Running"
        self.world.put(_PG, job.obj)
        self.world.event(job.obj, "Scheduled", "pod group is ready", _SCHEDULER)
        self._queue_status(job.queue)

    def _create_pods(self, job: Job, selector: dict[str, str]) -> None:
        labels = {
            "volcano.sh/job-name": job.name,
            "volcano.sh/job-namespace": job.namespace,
            "volcano.sh/queue-name": job.queue,
            "volcano.sh/task-spec": "worker",
        }
        annotations = {
            "scheduling.k8s.io/group-name": job.workload,
            "volcano.sh/job-name": job.name,
            "volcano.sh/queue-name": job.queue,
            "volcano.sh/task-spec": "worker",
        }
        self.pods.create(job, labels, annotations, selector)

    def _cannot_place(self, job: Job, selector: dict[str, str], fits: int) -> None:
        probe = PodState(f"{job.namespace}/{job.name}-worker-0", {}, job, selector)
        states = f"{job.pods} Pending, {job.pods} minAvailable; Pending: {job.pods - fits} Unschedulable"
        if fits:
            states += f", {fits} Schedulable"
        origin = f"Origin reason is {job.name}-worker-0: {self.pods.why_not(probe)}"
        fit = f"pod group is not ready, {states}. {origin}"
        said = f"{job.pods - fits}/{job.pods} tasks in gang unschedulable: {fit}"
        if condition(job.obj, self.world.now, "Unschedulable", "True", "NotEnoughResources", said):
            self.world.put(_PG, job.obj)
            self.world.event(job.obj, "Unschedulable", said, _SCHEDULER, warning=True)
            words = f"PodGroup {job.namespace}:{job.name} unschedulable, reason: {said}"
            self.world.event(
                self._vcjobs[job.number], "PodGroupPending", words, "vc-controller-manager", warning=True
            )

    # ---- running, ending ----------------------------------------------------------------------------------
    def running(self, job: Job) -> None:
        job.phase, job.started = Phase.RUNNING, self.world.now
        job.obj["status"]["running"] = job.pods
        self.world.put(_PG, job.obj)
        self._job_phase(job, "Running", running=job.pods)
        self.world.after(job.duration, self._finish, job, job.attempt)

    def _job_phase(self, job: Job, phase: str, **counts: int) -> None:
        vcjob = self._vcjobs[job.number]
        now = stamp(self.world.now)
        vcjob["status"] = {
            "conditions": [*vcjob["status"]["conditions"], {"lastTransitionTime": now, "status": phase}],
            "minAvailable": job.pods,
            **counts,
            "state": {"lastTransitionTime": now, "phase": phase},
        }
        self.world.put(_VCJOB, vcjob)

    def _finish(self, job: Job, attempt: int) -> None:
        if job.attempt != attempt or job.phase is not Phase.RUNNING:
            return
        job.phase = Phase.FINISHED
        self.holding.pop(job.number)
        self.pods.finish(job, failed=job.fails)
        status = job.obj["status"]
        status.pop("running", None)
        status["phase"] = "Completed"
        status["failed" if job.fails else "succeeded"] = job.pods
        self.world.put(_PG, job.obj)
        if job.fails:
            self._job_phase(job, "Failed", failed=job.pods)
        else:
            self._job_phase(job, "Completed", succeeded=job.pods)
        self._queue_status(job.queue)
        self.plan()
        self.world.after(6 * 3600 + job.number % 7200, self._delete, job)

    def _delete(self, job: Job) -> None:
        self.jobs.pop(job.number, None)
        self._said_at.pop(job.number, None)
        vcjob = self._vcjobs.pop(job.number)
        self.world.remove(_PG, job.key)
        self.world.remove(_VCJOB, f"{job.namespace}/{vcjob['metadata']['name']}")
        self.controller.settle(job.queue)

    def take_back(self, job: Job) -> None:
        if job.number in self.pending or job.number in self.inqueue:
            self.pending.pop(job.number, None)
            self.inqueue.pop(job.number, None)
            job.phase = Phase.FINISHED
            self._delete(job)
            self.plan()

    def node_lost(self, job: Job) -> None:
        """The gang is restarted as a whole."""
        job.attempt += 1
        self.holding.pop(job.number, None)
        self.pods.evict(job)
        job.phase, job.queued = Phase.CHECKING, self.world.now
        drop_condition(job.obj, "Scheduled")
        job.obj["status"] = {"phase": "Inqueue", "conditions": job.obj["status"]["conditions"]}
        self.world.put(_PG, job.obj)
        self.inqueue[job.number] = job
        self._queue_status(job.queue)
        self.plan()

    def _left(self, queue: str) -> bool:
        """Whether the queue has PodGroups, finished ones included."""
        return any(job.queue == queue for job in self.jobs.values())

    # ---- the queues' status -------------------------------------------------------------------------------
    def _queue_status(self, name: str) -> None:
        for queue in (name, self.queues[name]["spec"].get("parent", "")):
            if queue not in self.queues:
                continue
            sums = {"cpu": 0, "memory": 0}
            pods = 0
            for job in self.holding.values():
                if queue in (job.queue, "root"):
                    pods += job.pods
                    for resource, amount in job.totals.items():
                        sums[resource] = sums.get(resource, 0) + amount
            allocated = {r: amount_text(r, n) for r, n in sums.items()}
            obj = self.queues[queue]
            obj["status"]["allocated"] = {**allocated, "pods": str(pods)} if pods else allocated
            self.world.put(_QUEUE, obj)
