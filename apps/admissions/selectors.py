"""Work that waits, and why: rows now, counts by reason, and the history by time bucket.

Input: current objects (Workload, PodGroup, GPU pods), state spans, stored events. Output: frozen rows.
Every function takes `team_ids`: None sees all work, a collection only the work of these teams; it is applied
before any other filter, so that neither a row nor a count of another team is ever computed for a lead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal

from apps.admissions.classifier import Verdict
from apps.core.windows import Bucket, Window
from apps.fleet.models import Cluster

By = Literal["reason", "cause"]
Kind = Literal["Workload", "PodGroup", "Pod"]
# `Criteria.team` of work that no team owns.
UNBOUND = "-"


@dataclass(frozen=True, slots=True)
class Criteria:
    """What a list of waiting work is narrowed to; "" means any. `reason` is the cluster's own token."""

    cluster: str = ""
    team: str = ""
    queue: str = ""
    cause: str = ""
    reason: str = ""
    kind: str = ""
    q: str = ""
    held: bool = True


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """One piece of waiting work. `since` is when the portal first saw it in its present state and reason,
    `queued_at` the cluster's own start of the wait, `wait_seconds` counts from the latter when it is known.
    `reason` is the token to count by; `message` the full text; `message_source` where it was read."""

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

    @property
    def cause(self) -> str:
        return self.verdict.cause

    @property
    def layer(self) -> str:
        return self.verdict.layer


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """`key` is a reason token or a cause; `asked` adds up accelerator resources, each kind apart."""

    key: str
    label: str
    count: int
    asked: Mapping[str, Decimal]


@dataclass(frozen=True, slots=True)
class ReasonSeries:
    """Per bucket and key the mean number of waiting workloads (time-weighted over the observed part of the
    bucket). `values[key][i]` belongs to `buckets[i]`; None: nothing was observed in that bucket."""

    bucket: Bucket
    buckets: Sequence[Window]
    values: Mapping[str, Sequence[Decimal | None]]
    labels: Mapping[str, str]


def waiting(
    *,
    now: datetime,
    team_ids: Collection[int] | None,
    criteria: Criteria | None = None,
    clusters: Collection[Cluster] | None = None,
) -> Sequence[WaitingRow]:
    """Waiting work, longest wait first. The result knows its length cheaply; rows are read when sliced."""
    raise NotImplementedError


def reason_counts(
    *,
    now: datetime,
    team_ids: Collection[int] | None,
    criteria: Criteria | None = None,
    by: By = "reason",
) -> list[ReasonCount]:
    """How much work waits now per reason token or cause, most first. The sum is `len(waiting(...))`."""
    raise NotImplementedError


def reason_series(
    *,
    now: datetime,
    window: Window,
    bucket: Bucket,
    by: By = "reason",
    team_ids: Collection[int] | None,
    criteria: Criteria | None = None,
) -> ReasonSeries:
    """History from state spans."""
    raise NotImplementedError


def team_waiting(*, now: datetime, team_id: int) -> Sequence[WaitingRow]:
    """What of one team waits, longest first."""
    return waiting(now=now, team_ids=[team_id])


def oldest_wait(*, now: datetime, team_ids: Collection[int] | None) -> dict[int | None, WaitingRow]:
    """The longest-waiting piece of work of each team that has one (key None: work of no team)."""
    raise NotImplementedError
