"""Large situations for the admission engine. Input: how many queues and how much waiting work; output: a Situation.

The same numbers give the same situation. Ten queues make a cohort, and nobody holds anything at first.
"""

from __future__ import annotations

from decimal import Decimal

from apps.quotas.engine.model import Flavor, Group, PodSet, Queue, Situation, Work
from apps.quotas.tree import Cell, QuotaNode

_GPU = "nvidia.com/gpu"
_CELL = ("h100", _GPU)
_QUEUES_OF_A_COHORT = 10


def waiting_situation(queues: int, waiting: int) -> Situation:
    """`waiting` workloads of 1 to 8 GPUs and five priorities, spread evenly over queues of 16 GPUs each."""
    return Situation(
        queues=tuple(_queue(number) for number in range(queues)),
        cohorts=(),
        flavors={_CELL[0]: Flavor(_CELL[0])},
        work=tuple(_work(number, queues) for number in range(waiting)),
    )


def _queue(number: int) -> Queue:
    cohort = f"cohort-{number // _QUEUES_OF_A_COHORT:04}"
    node = QuotaNode(f"queue-{number:05}", "ClusterQueue", cohort, {_CELL: Cell(Decimal(16))})
    return Queue(node, (Group((_GPU,), (_CELL[0],)),))


def _work(number: int, queues: int) -> Work:
    return Work(
        uid=f"work-{number:07}",
        name=f"work-{number}",
        namespace="bench",
        queue=f"queue-{number % queues:05}",
        priority=number % 5,
        created=float(number),
        queued=float(number),
        pod_sets=(PodSet("main", 1, {_GPU: Decimal(1 + number % 8)}),),
    )
