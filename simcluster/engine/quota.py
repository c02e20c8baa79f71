"""ClusterQueues, cohorts and flavors, the work in them, and the scheduler that decides over it.

Who is admitted, with which flavors and at whose cost, and every quota number come from the portal's admission engine
(`apps.quotas.engine`); nothing here decides or compares quota. What is here: objects and jobs told to the engine, what it
decided kept with the jobs, and whether pods find a place where a flavor has a topology.

Invariants: `pending` is what stands in the engine's line of the queue, `holding` what it counts in the tree.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from apps.quotas.engine.model import Assigned, PodSet, Reason, Situation, Work
from apps.quotas.engine.scheduler import Decision, Scheduler
from apps.quotas.tree import QuotaTree

from .fleet import Fleet
from .model import Job, Obj
from .situation import POD_SET, WorkReader, engine_cohort, engine_flavor, engine_queue


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
    def stopped(self) -> bool:
        return bool(self.spec.get("stopPolicy", "None") != "None")

    @property
    def drains(self) -> bool:
        return bool(self.spec.get("stopPolicy") == "HoldAndDrain")

    @property
    def checks(self) -> list[str]:
        strategy = self.spec.get("admissionChecksStrategy") or {}
        return [check["name"] for check in strategy.get("admissionChecks", ())]

    @property
    def flavors(self) -> list[str]:
        return [
            flavor["name"] for group in self.spec.get("resourceGroups", ()) for flavor in group["flavors"]
        ]


class Quota:
    """The quota side of Kueue."""

    def __init__(self, fleet: Fleet, objects: dict[str, list[Obj]]) -> None:
        self.fleet = fleet
        self.flavors = {obj["metadata"]["name"]: obj for obj in objects["ResourceFlavor"]}
        self.cohorts = {obj["metadata"]["name"]: obj for obj in objects["Cohort"]}
        named = ((obj["metadata"]["name"], obj) for obj in objects["ClusterQueue"])
        self.queues = {name: Queue(name, obj) for name, obj in named}
        self.by_uid: dict[str, Job] = {}
        self._works = WorkReader()
        self.scheduler = Scheduler(self.situation(), placement=self._place)

    # ---- specs ----------------------------------------------------------------------------------------------
    def situation(self, work: Collection[Work] = ()) -> Situation:
        """Everything as the engine takes it, with this work in it."""
        return Situation(
            queues=tuple(
                engine_queue(name, queue.spec, self._inactive(queue)[0])
                for name, queue in self.queues.items()
            ),
            cohorts=tuple(engine_cohort(name, obj["spec"]) for name, obj in self.cohorts.items()),
            flavors={name: engine_flavor(name, obj["spec"]) for name, obj in self.flavors.items()},
            work=tuple(work),
        )

    def present(self) -> Situation:
        """With all work that holds quota or stands in line now."""
        return self.situation([self._works.read(job) for job in self.by_uid.values()])

    def rebuild(self) -> None:
        """After an edit of a spec."""
        self.scheduler.respecify(self.situation())

    @property
    def tree(self) -> QuotaTree:
        return self.scheduler.books.tree

    @property
    def topologies(self) -> dict[str, str]:
        """Of each flavor, "" for one without."""
        return {name: obj["spec"].get("topologyName", "") for name, obj in self.flavors.items()}

    def _inactive(self, queue: Queue) -> tuple[str, list[str]]:
        said, reason = [], ""
        if queue.stopped:
            said, reason = ["is stopped"], "Stopped"
        missing = sorted(name for name in queue.flavors if name not in self.flavors)
        if missing:
            said.append(f"references missing ResourceFlavor(s): {','.join(missing)}")
            reason = reason or "FlavorNotFound"
        return reason, said

    def inactive(self, queue: Queue) -> tuple[str, str] | None:
        """(reason, message) of a queue that admits nothing."""
        reason, said = self._inactive(queue)
        return (reason, f"Can't admit new workloads: {', '.join(said)}.") if said else None

    def path(self, queue: str) -> str:
        """/root/…/queue, as Kueue names who preempts whom."""
        names = [queue]
        kind: Literal["ClusterQueue", "Cohort"] = "ClusterQueue"
        while parent := self.tree.parent(kind, names[-1]):
            names.append(parent)
            kind = "Cohort"
        return "/" + "/".join(reversed(names))

    def waiting_order(self, queue: str) -> list[Job]:
        """The work that waits in a ClusterQueue, heads first: who made others give way, then more urgent, then queued
        earlier. Work whose LocalQueue is missing or stopped stands in no queue."""
        line = self.scheduler.lines[queue]
        waiters = sorted(line, key=lambda waiter: (waiter.work.uid != line.sticky, waiter.rank))
        return [self.by_uid[waiter.work.uid] for waiter in waiters]

    # ---- work -----------------------------------------------------------------------------------------------
    def cycle(self, now: int) -> list[Decision]:
        """One cycle of every tree where something may happen; [] once all are at rest."""
        self.scheduler.now = now
        return self.scheduler.cycle()

    def add(self, job: Job) -> None:
        """Into the line of its queue."""
        work = self._works.read(job)
        self.by_uid[work.uid] = job
        self.queues[job.queue].pending[job.number] = job
        self.scheduler.add(work)

    def hold(self, job: Job, assigned: Mapping[str, Assigned], now: int) -> None:
        """The engine gave it quota."""
        given = assigned[POD_SET]
        job.flavors = dict(given.flavors)
        job.held = {(flavor, resource): given.amounts[resource] for resource, flavor in given.flavors.items()}
        job.reserved = now
        queue = self.queues[job.queue]
        del queue.pending[job.number]
        queue.holding[job.number] = job

    def evict(self, job: Job) -> None:
        """It is told to go, and keeps its quota until it is gone."""
        self.scheduler.evict(job.obj["metadata"]["uid"])

    def release(self, job: Job) -> None:
        """It is gone from where it ran, and waits again."""
        self.scheduler.release(job.obj["metadata"]["uid"])
        queue = self.queues[job.queue]
        del queue.holding[job.number]
        queue.pending[job.number] = job
        job.held = {}

    def remove(self, job: Job) -> None:
        """It neither holds quota nor stands in line any more."""
        uid = job.obj["metadata"]["uid"]
        if self.by_uid.pop(uid, None) is None:
            return
        self.scheduler.remove(uid)
        self.queues[job.queue].holding.pop(job.number, None)
        self.queues[job.queue].pending.pop(job.number, None)
        job.held = {}

    def nodes_changed(self) -> None:
        """Only where places count may this help anybody."""
        topologies = self.topologies
        placed = [
            name
            for name, queue in self.queues.items()
            if queue.pending and any(topologies.get(flavor) for flavor in queue.flavors)
        ]
        self.scheduler.look_again(placed)

    # ---- places ---------------------------------------------------------------------------------------------
    def _place(self, work: Work, pod_set: PodSet, count: int, flavors: Collection[str]) -> Reason | None:
        """The pods have to fit into one domain of the level that is asked for."""
        job = self.by_uid[work.uid]
        for flavor in flavors:
            spec = self.flavors[flavor]["spec"]
            if spec.get("topologyName"):
                most = self._most_together(job, spec.get("nodeLabels", {}))
                if most < count:
                    return Reason("NoPlacement", pod_set.name, flavor, most=Decimal(most))
        return None

    def _most_together(self, job: Job, labels: dict[str, str]) -> int:
        level, resource = job.stream.topology, job.stream.resource
        domains: dict[str, int] = {}
        for node in self.fleet.matching(labels, resource):
            if node.takes(job.stream):
                domain = node.labels.get(level, "")
                domains[domain] = domains.get(domain, 0) + len(node.free[resource]) // job.gpus
        return max(domains.values(), default=0)
