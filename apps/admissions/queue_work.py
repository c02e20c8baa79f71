"""Work of one queue: what waits in it and what holds its quota. Input: clock, queue and the reader's teams.

Invariants: exactly the queue's own work (another queue or LocalQueue of the same name has none of it); only work of the
reader's teams leaves this module.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from apps.admissions.selectors import Criteria, WaitingList, waiting
from apps.admissions.work import WorkRow, work_row
from apps.admissions.workloads import Owners, WorkloadCriteria, workloads
from apps.fleet.models import Cluster
from apps.observations.models import Workload


@dataclass(frozen=True, slots=True)
class QueueName:
    """A ClusterQueue, a VolcanoQueue, or (with `namespace`) a LocalQueue. Cohorts hold no work of their own."""

    cluster: Cluster
    kind: str
    name: str
    namespace: str = ""

    @property
    def work_kind(self) -> str:
        return Workload.Kind.POD_GROUP if self.kind == "VolcanoQueue" else Workload.Kind.WORKLOAD


def waiting_in(*, now: datetime, queue: QueueName, team_ids: Collection[int] | None) -> WaitingList:
    """What waits for quota in the queue, longest first; what has it and waits for checks or pods holds it."""
    criteria = Criteria(cluster=queue.cluster.slug, queue=queue.name, kind=queue.work_kind)
    found = waiting(now=now, team_ids=team_ids, criteria=criteria).found
    pending = [row for row in found if row.state == Workload.State.PENDING]
    if queue.kind == "LocalQueue":
        own = [row for row in pending if (row.namespace, row.queue_name) == (queue.namespace, queue.name)]
    else:
        own = [row for row in pending if row.queue == queue.name]
    return WaitingList(own, now=now)


def holding_in(*, now: datetime, queue: QueueName, team_ids: Collection[int] | None) -> list[WorkRow]:
    """Reserved and admitted work of the queue, longest first."""
    owners = Owners(now=now, clusters=[queue.cluster])
    criteria = WorkloadCriteria(kind=queue.work_kind, queue=queue.name, namespace=queue.namespace)
    found = workloads(team_ids=team_ids, criteria=criteria, clusters=[queue.cluster], owners=owners)
    states = (Workload.State.RESERVED, Workload.State.ADMITTED)
    rows = found.filter(state__in=states).order_by("reserved_at", "id")
    mine = "queue_name" if queue.kind == "LocalQueue" else None
    return [
        work_row(work, queue=owners.queue_of(work), now=now)
        for work in rows.iterator(chunk_size=500)
        if (getattr(work, mine) if mine else owners.queue_of(work)) == queue.name
    ]
