"""How long work waits for quota, from the rollups and from what waits now. Input: a window, criteria and the reader's
teams; output: `WaitRow`s with exact percentiles.

Invariants: a wait belongs to the window in which it began; what gave up and what still waits is cut off ("censored"), not
left out; a percentile that was not reached is None; first waits and waits after an eviction are never one sample. A flavor
is known only of what was reserved: by flavor, what gave up or still waits stands under "".
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Literal

from django.db import connection
from django.db.models import Sum

from apps.accounts.models import Team
from apps.admissions.life_relation import life_params, waits_of
from apps.admissions.sizes import SIZES, size_class
from apps.admissions.statistics import Seconds, Survival
from apps.core.quantity import parse_quantity
from apps.core.windows import Window
from apps.fleet.models import Cluster
from apps.fleet.registry import is_device
from apps.fleet.selectors import UNBOUND, ownership_pieces
from apps.observations.models import Workload
from apps.usage.admission_reading import AdmissionCriteria, Reading, condition, reading
from apps.usage.blocked import block_labels, query_of
from apps.usage.models import WaitHour
from apps.usage.rounding import rounded_seconds

WaitBy = Literal["queue", "team", "flavor", "size", "cluster", ""]
Which = Literal["first", "again"]
P50, P90, P99 = Fraction(1, 2), Fraction(9, 10), Fraction(99, 100)
_EVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class WaitRow:
    """Waits of one key. `p50` … seconds, None when not reached: more than `longest`, for `censored` of `count`."""

    key: str
    label: str
    which: Which
    p50: Seconds | None
    p90: Seconds | None
    p99: Seconds | None
    longest: Seconds | None
    reserved: int
    gave_up: int
    still_waiting: int
    survival: Survival
    query: Mapping[str, str]

    @property
    def censored(self) -> int:
        return self.gave_up + self.still_waiting

    @property
    def count(self) -> int:
        return self.reserved + self.censored


@dataclass(frozen=True, slots=True)
class OpenWait:
    """A wait that lasts: `seconds` so far, without backoff and being held."""

    cluster_id: int
    team_id: int | None
    queue: str
    size: str
    which: Which
    began_at: datetime
    seconds: int
    uid: str


_OPEN = f"""
SELECT w.cluster_id, w.kind, w.uid, w.namespace, w.queue_name, w.queue, w.which, w.began_at, w.seconds, w.requests
FROM {waits_of()} w WHERE w.ended = 'open'
"""  # noqa: S608 - constants


def open_waits(
    *, now: datetime, team_ids: Collection[int] | None, criteria: AdmissionCriteria | None = None
) -> list[OpenWait]:
    """Read live: what waits for quota now."""
    wanted = criteria or AdmissionCriteria()
    clusters = Cluster.objects.filter(enabled=True)
    if wanted.cluster:
        clusters = clusters.filter(slug=wanted.cluster)
    ids = list(clusters.values_list("pk", flat=True))
    waiting = Workload.objects.filter(cluster__in=ids, gone_at=None, state=Workload.State.PENDING)
    uids = list(waiting.values_list("uid", flat=True))
    if not uids:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_OPEN, life_params(ids, start=_EVER, end=now, now=now, uids=uids))
        rows = cursor.fetchall()
    index = _Owners(ids, rows, now)
    slugs = dict(Team.objects.values_list("pk", "slug"))
    found = []
    for row in rows:
        cluster_id, _kind, uid, _namespace, _queue_name, queue, which, began_at, seconds, requests = row
        team_id = index.team(row)
        size = size_class(parse_quantity(n) for name, n in json.loads(requests).items() if is_device(name))
        if team_ids is not None and team_id not in team_ids:
            continue
        slug = UNBOUND if team_id is None else slugs[team_id]
        if wanted.team not in ("", slug) or wanted.queue not in ("", queue) or wanted.size not in ("", size):
            continue
        length = rounded_seconds(seconds)
        found.append(OpenWait(cluster_id, team_id, queue, size, which, began_at, length, uid))
    return found


class _Owners:
    """Whose a wait was when it began, as in the rollups."""

    def __init__(self, clusters: Collection[int], rows: Collection[Any], now: datetime) -> None:
        start = min((row[7] for row in rows), default=now)
        self._pieces = ownership_pieces(start=start, end=now, clusters=clusters) if start < now else []

    def team(self, row: Any) -> int | None:
        cluster_id, kind, _uid, namespace, queue_name, queue, _which, began_at, *_rest = row
        for piece in self._pieces:
            if piece.start <= began_at < piece.end:
                return piece.index.team_id_for(
                    cluster_id,
                    namespace=namespace,
                    queue_name=queue_name,
                    queue=queue,
                    volcano=kind == Workload.Kind.POD_GROUP,
                )
        return None


def wait_table(
    *,
    now: datetime,
    window: Window,
    by: WaitBy = "queue",
    team_ids: Collection[int] | None,
    criteria: AdmissionCriteria | None = None,
) -> list[WaitRow]:
    """Percentiles per key, first waits before waits again; by size in its order, else by key."""
    wanted, read = criteria or AdmissionCriteria(), reading(window)
    samples: dict[tuple[str, Which], _Sample] = {}
    for key, which, ended, seconds, count in _rolled(read, by, team_ids, wanted):
        samples.setdefault((key, which), _Sample()).add(ended, seconds, count)
    if not wanted.flavor:
        slugs = dict(Team.objects.values_list("pk", "slug"))
        names = dict(Cluster.objects.values_list("pk", "slug"))
        for wait in open_waits(now=now, team_ids=team_ids, criteria=wanted):
            if wait.began_at in read.covered:
                key = _open_key(wait, by, slugs, names)
                samples.setdefault((key, wait.which), _Sample()).add("open", wait.seconds, 1)
    keys = {key for key, _which in samples}
    labels = {key: key for key in keys} if by in ("", "size") else block_labels(by, keys)
    order = sorted(samples, key=lambda k: (SIZES.index(k[0]) if by == "size" else 0, k[0], k[1] == "again"))
    return [_row(key, labels[key], which, samples[key, which], by, read, wanted) for key, which in order]


class _Sample:
    def __init__(self) -> None:
        self.counts = {"reserved": 0, "gave_up": 0, "open": 0}
        self.ended: dict[int, int] = {}
        self.cut: dict[int, int] = {}

    def add(self, ended: str, seconds: int, count: int) -> None:
        self.counts[ended] += count
        lengths = self.ended if ended == "reserved" else self.cut
        lengths[seconds] = lengths.get(seconds, 0) + count


def _rolled(
    read: Reading, by: WaitBy, team_ids: Collection[int] | None, criteria: AdmissionCriteria
) -> Iterator[tuple[str, Which, str, int, int]]:
    rows = WaitHour.objects.filter(
        condition(read, team_ids=team_ids, criteria=criteria, fields=("flavor", "size"))
    )
    fields = ("which", "ended", "seconds")
    key_field = {"team": "team__slug", "cluster": "cluster__slug"}.get(by, by)
    for *key, which, ended, seconds, count in rows.values_list(
        *([key_field] if by else []), *fields
    ).annotate(Sum("count")):
        yield (key[0] or (UNBOUND if by == "team" else "")) if key else "", which, ended, seconds, count


def _open_key(wait: OpenWait, by: WaitBy, teams: Mapping[int, str], clusters: Mapping[int, str]) -> str:
    if by == "team":
        return UNBOUND if wait.team_id is None else teams[wait.team_id]
    if by == "cluster":
        return clusters[wait.cluster_id]
    return {"queue": wait.queue, "size": wait.size}.get(by, "")


def _row(
    key: str,
    label: str,
    which: Which,
    sample: _Sample,
    by: WaitBy,
    read: Reading,
    criteria: AdmissionCriteria,
) -> WaitRow:
    survival = Survival.of(sample.ended, sample.cut)
    p50, p90, p99 = survival.quantiles([P50, P90, P99])
    return WaitRow(
        key=key,
        label=label,
        which=which,
        p50=p50,
        p90=p90,
        p99=p99,
        longest=survival.longest,
        reserved=sample.counts["reserved"],
        gave_up=sample.counts["gave_up"],
        still_waiting=sample.counts["open"],
        survival=survival,
        query=query_of(criteria, read.covered, **({by: key} if by else {})),
    )
