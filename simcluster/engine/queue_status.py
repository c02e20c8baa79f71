"""The status of ClusterQueues and LocalQueues: counters, usage, and whether they are active.

Invariant: what is written follows from the jobs that hold quota and from the specs; it is written once for all changes
of the last seconds, as Kueue does.
"""

from __future__ import annotations

from collections.abc import Callable

from simcluster.kinds import KINDS

from .kueue_objects import flavors_usage
from .model import Job, Obj, Phase
from .quota import Queue, Quota
from .world import World, condition

_CQ, _LQ = KINDS["ClusterQueue"], KINDS["LocalQueue"]
_FLUSH_SECONDS = 15


class QueueStatus:
    """Writes what changed, a moment later."""

    def __init__(self, world: World, quota: Quota) -> None:
        self.world, self.quota = world, quota
        self.local: dict[str, Obj] = {}
        self._changed: set[str] = set()
        self._flush_planned = False

    def changed(self, *queues: str) -> None:
        self._changed.update(queues)
        if not self._flush_planned:
            self._flush_planned = True
            self.world.after(_FLUSH_SECONDS, self._flush)

    def _flush(self) -> None:
        self._flush_planned = False
        for name in sorted(self._changed):
            queue = self.quota.queues[name]
            self.fill(queue)
            self.world.put(_CQ, queue.obj)
            for local in self.local.values():
                if local["spec"]["clusterQueue"] == name:
                    before = local["status"]
                    self.fill_local(local, queue)
                    if local["status"] != before:
                        self.world.put(_LQ, local)
        self._changed = set()

    def activity(self, queue: Queue) -> None:
        """The Active condition of a queue and of the LocalQueues that point to it."""
        now = self.world.now
        inactive = self.quota.inactive(queue)
        reason, message = inactive or ("Ready", "Can admit new workloads")
        condition(queue.obj, now, "Active", "False" if inactive else "True", reason, message)
        for local in self.local.values():
            if local["spec"]["clusterQueue"] != queue.name:
                continue
            local["status"] = {
                **local["status"],
                "conditions": [dict(c) for c in local["status"]["conditions"]],
            }
            if local["spec"].get("stopPolicy", "None") != "None":
                condition(local, now, "Active", "False", "Stopped", "LocalQueue is stopped")
            elif inactive:
                words = "Can't submit new workloads to clusterQueue"
                condition(local, now, "Active", "False", "ClusterQueueIsInactive", words)
            else:
                condition(local, now, "Active", "True", "Ready", "Can submit new workloads to localQueue")
            self.world.put(_LQ, local)

    def fill(self, queue: Queue) -> None:
        """Counters and usage of a ClusterQueue, into its object."""
        held = list(queue.holding.values())
        waiting = [job for job in held if job.phase not in (Phase.STARTING, Phase.RUNNING)]
        admitted = [job for job in held if job not in waiting]
        reserved = flavors_usage(queue.spec, held, self._borrowed(queue, []))
        used = flavors_usage(queue.spec, admitted, self._borrowed(queue, waiting)) if waiting else reserved
        queue.obj["status"] |= {
            "admittedWorkloads": len(admitted),
            "reservingWorkloads": len(held),
            "pendingWorkloads": len(queue.pending),
            "flavorsReservation": reserved,
            "flavorsUsage": used,
        }

    def _borrowed(self, queue: Queue, without: list[Job]) -> Callable[[tuple[str, str]], int]:
        """What the queue borrows, as the tree says it, less what is reserved and not admitted yet."""

        def borrowed(fr: tuple[str, str]) -> int:
            not_yet = sum(int(job.held.get(fr, 0)) for job in without)
            return max(0, int(self.quota.tree.borrowed("ClusterQueue", queue.name, fr)) - not_yet)

        return borrowed

    def fill_local(self, local: Obj, queue: Queue) -> None:
        """Counters and usage of a LocalQueue. A stopped one says that nothing is pending, as Kueue does."""
        mine = (local["metadata"]["namespace"], local["metadata"]["name"])
        held = [job for job in queue.holding.values() if (job.namespace, job.stream.queue) == mine]
        admitted = [job for job in held if job.phase in (Phase.STARTING, Phase.RUNNING)]
        stopped = local["spec"].get("stopPolicy", "None") != "None"
        reserved = flavors_usage(queue.spec, held, None)
        used = reserved if len(admitted) == len(held) else flavors_usage(queue.spec, admitted, None)
        pending = [job for job in queue.pending.values() if (job.namespace, job.stream.queue) == mine]
        local["status"] = {
            "admittedWorkloads": len(admitted),
            "conditions": local["status"]["conditions"],
            "flavorsReservation": reserved,
            "flavorsUsage": used,
            "pendingWorkloads": 0 if stopped else len(pending),
            "reservingWorkloads": len(held),
        }
