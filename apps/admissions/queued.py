"""Waiting work in the order of its queues, with its position and what it lacks. Input: a `WaitingList` or Workloads,
and what the queues offer; output: `WaitingRow`s or `Standing`s.

Invariants: positions are asked once for all of the list, pod sets only of the slice that is shown; work that has its
quota and waits for checks or pods lacks none, has no position, and comes before what waits behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from apps.admissions.estimates import Estimate, History, Waiting
from apps.admissions.pending import Pending
from apps.admissions.selectors import WaitingList, WaitingRow
from apps.admissions.sizes import size_class
from apps.core.quantity import parse_quantity
from apps.fleet.registry import is_device
from apps.observations.models import Workload
from apps.quotas.gates import OPEN, Blocked, Gate, gates
from apps.quotas.lacking import Lack, Offer, lacking
from apps.quotas.positions import Position, positions
from apps.quotas.team_quota import Offers, QueueOfWork

PENDING = Workload.State.PENDING.value
POD_GROUP = Workload.Kind.POD_GROUP.value


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a piece of waiting work stands. `lacking` None: not known, () nothing. `blocked`: what else keeps it waiting,
    "" nothing that is known."""

    position: Position | None = None
    lacking: tuple[Lack, ...] | None = None
    blocked: Blocked = ""


SETTLED = Standing(lacking=())
"""Of work that does not wait for quota."""


def queue_key(cluster_id: int, kind: str, queue: str) -> QueueOfWork:
    return cluster_id, "VolcanoQueue" if kind == POD_GROUP else "ClusterQueue", queue


def lacks(
    kind: str,
    pod_sets: Sequence[Mapping[str, Any]],
    requests: Mapping[str, Any],
    offered: Mapping[str, list[Offer]] | None,
) -> tuple[Lack, ...] | None:
    """What a Workload or PodGroup lacks in its queue, by pod set, else (none is named) in all; None when nothing is known
    of the queue."""
    if offered is None:
        return None
    asked = [_total(pod_set) for pod_set in pod_sets] or [_total({"count": 1, "requests": requests})]
    return lacking(asked, offered, every_resource_needs_quota=kind != POD_GROUP)


def _total(pod_set: Mapping[str, Any]) -> dict[str, Decimal]:
    count = int(pod_set.get("count") or 0)
    return {name: parse_quantity(amount) * count for name, amount in (pod_set.get("requests") or {}).items()}


def standings(
    work: Collection[Workload], *, queues: Mapping[int, str], offers: Offers, now: datetime
) -> dict[int, Standing]:
    """By primary key, of those that wait for quota. `queues`: the queue each leads to, by primary key."""
    waiting = [item for item in work if item.state == PENDING and item.gone_at is None]
    keys = [item.pk for item in waiting]
    found, closed = positions(now=now, keys=keys), gates(keys)
    return {
        item.pk: _standing(
            found.get(item.pk),
            lacks(
                item.kind,
                item.pod_sets,
                item.requests,
                offers.get(queue_key(item.cluster_id, item.kind, queues.get(item.pk, ""))),
            ),
            closed.get(item.pk, OPEN),
        )
        for item in waiting
    }


def _standing(position: Position | None, short: tuple[Lack, ...] | None, gate: Gate) -> Standing:
    behind = position is not None and position.behind
    return Standing(position, short, gate.blocked(behind=behind, lacks=short is None or bool(short)))


def _fields(standing: Standing) -> dict[str, Any]:
    return {"position": standing.position, "lacking": standing.lacking, "blocked": standing.blocked}


def size_of(requests: Mapping[str, Any]) -> str:
    """The class of size of what a Workload or PodGroup asks for in all."""
    return size_class(parse_quantity(amount) for name, amount in requests.items() if is_device(name))


def can_fit(lacking: Sequence[Lack] | None) -> bool:
    """Whether the queue could ever hold it, as far as it is known."""
    return all(lack.offered and lack.beyond is None for lack in lacking or ())


class QueuedList(WaitingList):
    """A `WaitingList` by cluster, queue and position; its rows know `position`, `lacking` and, of what waits for quota,
    an `estimate` where a `history` of waits is given."""

    def __init__(
        self, waiting: WaitingList, *, now: datetime, offers: Offers, history: History | None = None
    ) -> None:
        self._offers, self._history = offers, history
        keys = [item.key for item in waiting.found if item.kind != "Pod" and item.state == PENDING]
        self._positions = positions(now=now, keys=keys)
        super().__init__(sorted(waiting.found, key=self._order), now=now)

    def _order(self, item: Pending) -> tuple[Any, ...]:
        found = self._position(item)
        # What waits for quota without a position (its LocalQueue is stopped) is in no queue: it comes last.
        queued = item.state == PENDING and item.kind != "Pod"
        return (
            item.cluster_id,
            item.queue,
            queued and not found,
            found.position if found else 0,
            item.waits_since,
            item.key,
        )

    def _position(self, item: Pending) -> Position | None:
        return self._positions.get(item.key) if item.kind != "Pod" else None

    def _rows(self, part: Sequence[Pending]) -> list[WaitingRow]:
        of = {(item.cluster_id, item.kind, item.namespace, item.name): item for item in part}
        wanted = [item.key for item in part if item.kind != "Pod" and item.state == PENDING]
        asked = {
            key: (pod_sets, requests)
            for key, pod_sets, requests in Workload.objects.filter(pk__in=wanted).values_list(
                "pk", "pod_sets", "requests"
            )
        }
        closed = gates(list(asked))
        made = []
        for row in super()._rows(part):  # fewer, where work has gone since
            item = of[row.cluster_id, row.kind, row.namespace, row.name]
            standing, estimate = Standing(self._position(item)), None
            if item.key in asked and item.kind != "Pod":
                queue = queue_key(row.cluster_id, row.kind, row.queue)
                short = lacks(row.kind, *asked[item.key], self._offers.get(queue))
                standing = _standing(standing.position, short, closed.get(item.key, OPEN))
                estimate = self._estimate(row, asked[item.key][1], short)
            made.append(replace(row, **_fields(standing), estimate=estimate))
        return made

    def _estimate(
        self, row: WaitingRow, requests: Mapping[str, Any], short: Sequence[Lack] | None
    ) -> Estimate | None:
        if self._history is None:
            return None
        return self._history.estimate(
            Waiting(
                cluster_id=row.cluster_id,
                queue=row.queue,
                size=size_of(requests),
                waited=row.wait_seconds,
                cause=row.cause,
                can_fit=can_fit(short),
            )
        )
