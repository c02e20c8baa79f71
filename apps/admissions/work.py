"""Work of one team that holds quota now, and that ended lately. Input: team, clock; output: frozen rows.

Ownership is `BindingIndex`'s, as for waiting work: the team's bindings narrow the query (reach.py), the index decides,
once for each place. Rows are read for what is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import overload

from django.db.models import Count, QuerySet

from apps.accounts.models import Team
from apps.admissions.reach import PLACE, Place, Reach
from apps.admissions.workloads import in_places, place_of
from apps.core.quantity import parse_quantity
from apps.fleet.models import Cluster
from apps.fleet.registry import is_device
from apps.fleet.selectors import BindingIndex
from apps.observations.models import Workload
from apps.observations.selectors import live_workloads

State = Workload.State
FINISHED_WITHIN = timedelta(days=7)
FINISHED_SHOWN = 200


@dataclass(frozen=True, slots=True)
class WorkRow:
    """`devices`: accelerators of the reservation, `asked` those of the request. `held_seconds`: since quota was
    reserved, up to its end; None when the cluster does not say when it was."""

    cluster_id: int
    cluster_name: str
    kind: str
    uid: str
    namespace: str
    name: str
    queue: str
    state: str
    state_label: str
    outcome: str
    devices: Mapping[str, Decimal]
    asked: Mapping[str, Decimal]
    flavors: str
    held_since: datetime | None
    held_seconds: int | None
    finished_at: datetime | None


class WorkList(Sequence[WorkRow]):
    """Work of a team as a sequence: its length is counted, rows are read for the slice that is shown. `found`: candidates;
    `places` of them are the team's, with the queue and the number of each."""

    def __init__(
        self,
        found: QuerySet[Workload],
        places: Mapping[Place, tuple[str, int]],
        *,
        now: datetime,
        most: int | None,
    ) -> None:
        self._now, self._most = now, most
        self._queues = {place: queue for place, (queue, _count) in places.items()}
        self._count = sum(count for _queue, count in places.values())
        self._found = in_places(found, list(places)).select_related("cluster").defer("pod_sets", "checks")

    def __len__(self) -> int:
        return self._count if self._most is None else min(self._count, self._most)

    @overload
    def __getitem__(self, index: int) -> WorkRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[WorkRow]: ...
    def __getitem__(self, index: int | slice) -> WorkRow | list[WorkRow]:
        if isinstance(index, slice):
            start, stop, _step = index.indices(len(self))
            return [self._row(work) for work in self._found[start:stop]] if start < stop else []
        return self[index : index + 1][0]

    def __iter__(self) -> Iterator[WorkRow]:
        """Read as a stream, for exports and other orders."""
        if self._count:
            found = self._found if self._most is None else self._found[: self._most]
            yield from (self._row(work) for work in found.iterator(chunk_size=500))

    def _row(self, work: Workload) -> WorkRow:
        return work_row(work, queue=self._queues[place_of(work)], now=self._now)


class Places:
    """What leads to a team's work in some clusters, read once for all the lists of a page. `queue`: only work of this queue,
    "" of all."""

    def __init__(
        self,
        *,
        now: datetime,
        team: Team,
        clusters: Collection[Cluster],
        bindings: BindingIndex,
        queue: str = "",
    ) -> None:
        self.now, self.team, self.clusters, self.queue = now, team, clusters, queue
        self.reach = Reach(bindings, [team.pk])


def running(places: Places) -> WorkList:
    """Reserved and admitted work, longest first."""
    states = (State.RESERVED, State.ADMITTED)
    found = live_workloads(clusters=places.clusters).filter(state__in=states).order_by("reserved_at", "id")
    return _owned(found, places)


def recently_finished(places: Places) -> WorkList:
    """What ended in the last seven days, newest first, at most FINISHED_SHOWN; also what the cluster has removed."""
    found = Workload.objects.filter(
        cluster__in=list(places.clusters),
        state=State.FINISHED,
        finished_at__gte=places.now - FINISHED_WITHIN,
    ).order_by("-finished_at", "-id")
    return _owned(found, places, most=FINISHED_SHOWN)


def _owned(found: QuerySet[Workload], places: Places, *, most: int | None = None) -> WorkList:
    reach, own = places.reach, {}
    if reach.things:
        numbers = found.filter(reach.work).order_by().values_list(*PLACE).annotate(count=Count("id"))
        for *place, count in numbers:
            at: Place = tuple(place)
            # What leads to no known queue shows the name that it carries.
            queue = reach.queue_of(at) or at[3]
            if reach.team_of(at) == places.team.pk and places.queue in ("", queue):
                own[at] = queue, count
    return WorkList(found, own, now=places.now, most=most)


def held_devices(usage: Sequence[Mapping[str, str]]) -> dict[str, Decimal]:
    """Accelerators of a reservation by resource, over its flavors."""
    held: dict[str, Decimal] = {}
    for cell in usage:
        if is_device(cell["resource"]):
            held[cell["resource"]] = held.get(cell["resource"], Decimal(0)) + parse_quantity(cell["quantity"])
    return held


def asked_devices(requests: Mapping[str, str]) -> dict[str, Decimal]:
    return {name: parse_quantity(amount) for name, amount in requests.items() if is_device(name)}


def work_row(work: Workload, *, queue: str, now: datetime) -> WorkRow:
    since = work.reserved_at or work.admitted_at
    end = work.finished_at or now
    usage = [cell for cell in work.usage if is_device(cell["resource"])]
    finished = (work.conditions or {}).get("Finished") or {}
    return WorkRow(
        cluster_id=work.cluster_id,
        cluster_name=work.cluster.name,
        kind=work.kind,
        uid=work.uid,
        namespace=work.namespace,
        name=work.name,
        queue=queue or work.queue_name,
        state=work.state,
        state_label=str(State(work.state).label),
        outcome=str(finished.get("message") or work.message or work.reason),
        devices=held_devices(work.usage) or asked_devices(work.requests),
        asked=asked_devices(work.requests),
        flavors=", ".join(sorted({cell["flavor"] for cell in usage if cell["flavor"]})),
        held_since=since,
        held_seconds=None if since is None else max(0, int((end - since).total_seconds())),
        finished_at=work.finished_at,
    )
