"""Work that waits, and why: rows now, and counts by reason or cause. The history is in history.py.

Input: current objects (Workload, PodGroup, GPU pods) and stored events. Output: frozen rows.
Every function takes `team_ids`: None sees all work, a collection only the work of these teams; it is applied
before any other filter, so that no row or count of another team leaves this module for a lead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, overload

from django.db import connection

from apps.accounts.models import Team
from apps.admissions.classifier import Verdict
from apps.admissions.estimates import Estimate
from apps.admissions.history import By, ReasonSeries, reason_series
from apps.admissions.labels import NO_REASON, cause_label, reason_label
from apps.admissions.pending import Criteria, Pending, pending_work
from apps.fleet.models import Cluster
from apps.fleet.registry import is_device
from apps.fleet.selectors import UNBOUND, BindingIndex
from apps.quotas.gates import Blocked
from apps.quotas.lacking import Lack
from apps.quotas.positions import Position

__all__ = [
    "NO_REASON",
    "By",
    "Criteria",
    "ReasonCount",
    "ReasonSeries",
    "WaitingRow",
    "oldest_wait",
    "reason_counts",
    "reason_series",
    "team_waiting",
    "waiting",
]

Kind = Literal["Workload", "PodGroup", "Pod"]


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """One piece of waiting work. `since` is when the portal first saw it in its present state and reason,
    `queued_at` the cluster's own start of the wait, `wait_seconds` counts from the latter when it is known.
    `reason` is the cluster's token to count by ("" when it gave none); `message` the full text;
    `message_source` where it was read. `asked`: {resource: amount}, of all its pods. `position`, `lacking` and `estimate` where the
    list is read in the order of queues (queued.py); None: not read, or not known."""

    cluster_id: int
    cluster_slug: str
    cluster_name: str
    kind: Kind
    uid: str
    namespace: str
    name: str
    team_id: int | None
    team_slug: str
    team_name: str
    queue_name: str
    queue: str
    state: str
    reason: str
    message: str
    message_source: Literal["condition", "check", "event", "pod", ""]
    verdict: Verdict
    asked: Mapping[str, Decimal]
    priority: int | None
    since: datetime
    queued_at: datetime | None
    wait_seconds: int
    position: Position | None = None
    lacking: tuple[Lack, ...] | None = None
    blocked: Blocked = ""
    estimate: Estimate | None = None

    @property
    def cause(self) -> str:
        return self.verdict.cause

    @property
    def layer(self) -> str:
        return self.verdict.layer

    @property
    def devices(self) -> dict[str, Decimal]:
        """What is asked of accelerators, each kind apart."""
        return {name: amount for name, amount in self.asked.items() if is_device(name)}


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """`key` is a reason token (NO_REASON for none) or a cause; `asked` adds up accelerator resources, each kind
    apart."""

    key: str
    label: str
    count: int
    asked: Mapping[str, Decimal]


class WaitingList(Sequence[WaitingRow]):
    """Waiting work as a sequence: its length is known, the wide rows are read for the slice that is shown.

    A kind of list whose rows know more overrides `_rows`.
    """

    def __init__(self, found: Sequence[Pending], *, now: datetime) -> None:
        self.found = found
        self._now = now

    def __len__(self) -> int:
        return len(self.found)

    @overload
    def __getitem__(self, index: int) -> WaitingRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[WaitingRow]: ...
    def __getitem__(self, index: int | slice) -> WaitingRow | list[WaitingRow]:
        if isinstance(index, slice):
            return self._rows(self.found[index])
        return self._rows([self.found[index]])[0]

    def __iter__(self) -> Iterator[WaitingRow]:
        """In blocks, for exports."""
        for start in range(0, len(self.found), 1000):
            yield from self[start : start + 1000]

    def _rows(self, part: Sequence[Pending]) -> list[WaitingRow]:
        """One row for each piece of work, in its order."""
        return _wide_rows(part, now=self._now)


def _found(
    *,
    now: datetime,
    team_ids: Collection[int] | None,
    criteria: Criteria | None,
    bindings: BindingIndex | None = None,
) -> list[Pending]:
    wanted = criteria or Criteria()
    team_id = None
    if wanted.team and wanted.team != UNBOUND:
        team_id = Team.objects.filter(slug=wanted.team).values_list("pk", flat=True).first()
        if team_id is None:
            return []
    return pending_work(now=now, team_ids=team_ids, criteria=wanted, team_id=team_id, bindings=bindings)


def waiting(
    *,
    now: datetime,
    team_ids: Collection[int] | None,
    criteria: Criteria | None = None,
    bindings: BindingIndex | None = None,
) -> WaitingList:
    """Waiting work, longest wait first. `bindings`: who owns what now, where the caller has read it."""
    found = _found(now=now, team_ids=team_ids, criteria=criteria, bindings=bindings)
    return WaitingList(found, now=now)


def reason_counts(
    *,
    now: datetime,
    team_ids: Collection[int] | None,
    criteria: Criteria | None = None,
    by: By = "reason",
) -> list[ReasonCount]:
    """How much work waits now per reason token or cause, most first. The sum is `len(waiting(...))`."""
    counts: dict[str, int] = {}
    asked: dict[str, dict[str, Decimal]] = {}
    for row in _found(now=now, team_ids=team_ids, criteria=criteria):
        key = row.verdict.cause if by == "cause" else row.reason or NO_REASON
        counts[key] = counts.get(key, 0) + 1
        sums = asked.setdefault(key, {})
        for resource, amount in row.asked.items():
            if is_device(resource):
                sums[resource] = sums.get(resource, Decimal(0)) + Decimal(amount)
    label = cause_label if by == "cause" else reason_label
    return [
        ReasonCount(key=key, label=label(key), count=count, asked=asked[key])
        for key, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


def team_waiting(*, now: datetime, team_id: int) -> WaitingList:
    """What of one team waits, longest first."""
    return waiting(now=now, team_ids=[team_id])


def oldest_wait(*, now: datetime, team_ids: Collection[int] | None) -> dict[int | None, WaitingRow]:
    """The longest-waiting piece of work of each team that has one (key None: work of no team)."""
    first: dict[int | None, Pending] = {}
    for row in _found(now=now, team_ids=team_ids, criteria=None):
        first.setdefault(row.team_id, row)
    wide = _wide_rows(list(first.values()), now=now)
    return dict(zip(first, wide, strict=True))


_WORK = """
SELECT w.id, w.uid, w.priority, w.queued_at, coalesce(s.started_at, w.observed_at)
FROM observations_workload w LEFT JOIN observations_statespan s
  ON s.cluster_id = w.cluster_id AND s.uid = w.uid AND s.ended_at IS NULL
WHERE w.id = ANY(%s)
"""
_PODS = "SELECT id, uid, NULL, NULL, first_seen_at FROM observations_pod WHERE id = ANY(%s)"


def _details(rows: Sequence[Pending]) -> dict[tuple[bool, int], tuple[Any, ...]]:
    """(is a pod, key) → uid, priority, queued_at, since."""
    found: dict[tuple[bool, int], tuple[Any, ...]] = {}
    with connection.cursor() as cursor:
        for is_pod, query in ((False, _WORK), (True, _PODS)):
            keys = [row.key for row in rows if (row.kind == "Pod") is is_pod]
            if keys:
                cursor.execute(query, [keys])
                found.update({(is_pod, row[0]): row[1:] for row in cursor.fetchall()})
    return found


def _wide_rows(rows: Sequence[Pending], *, now: datetime) -> list[WaitingRow]:
    if not rows:
        return []
    clusters = Cluster.objects.in_bulk({row.cluster_id for row in rows})
    teams = Team.objects.in_bulk({row.team_id for row in rows if row.team_id is not None})
    details = _details(rows)
    made = []
    for row in rows:
        detail = details.get((row.kind == "Pod", row.key))
        if detail is None:
            continue
        uid, priority, queued_at, since = detail
        cluster = clusters[row.cluster_id]
        team = teams.get(row.team_id or 0)
        made.append(
            WaitingRow(
                cluster_id=row.cluster_id,
                cluster_slug=cluster.slug,
                cluster_name=cluster.name,
                kind=row.kind,  # type: ignore[arg-type]
                uid=uid,
                namespace=row.namespace,
                name=row.name,
                team_id=row.team_id,
                team_slug=team.slug if team else "",
                team_name=team.name if team else "",
                queue_name=row.queue_name,
                queue=row.queue,
                state=row.state,
                reason=row.reason,
                message=row.message,
                message_source=row.message_source,  # type: ignore[arg-type]
                verdict=row.verdict,
                asked={name: Decimal(amount) for name, amount in row.asked.items()},
                priority=priority,
                since=since,
                queued_at=queued_at,
                wait_seconds=max(0, int((now - row.waits_since).total_seconds())),
            )
        )
    return made
