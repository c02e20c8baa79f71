"""Waiting work by what it asks for, now. Input: the clock, criteria and the reader's teams; output: `Shape`s.

Kueue evaluates one of many identical requests and leaves the others' messages as they were; so work that asks the same
of the same queue is one shape, with the texts of all of it. Invariant: every piece of waiting work is in one shape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from apps.accounts.models import Team
from apps.admissions.pending import Criteria, Pending, pending_work
from apps.admissions.queued import lacks, queue_key
from apps.core.quantity import parse_quantity
from apps.fleet.models import Cluster
from apps.fleet.registry import is_device
from apps.observations.models import Workload
from apps.quotas.lacking import Lack
from apps.quotas.team_quota import Offers, offers_in
from apps.usage.admission_reading import AdmissionCriteria


@dataclass(frozen=True, slots=True)
class Shape:
    """`count` pieces of work that each ask for `devices` (all device kinds, by name) of the same queue. `causes`: how many
    wait for which primary cause. `beyond`: what no quota could ever give, by resource; () when it could fit one day."""

    cluster_id: int
    cluster: str
    kind: str
    queue: str
    devices: Mapping[str, Decimal]
    count: int
    oldest_at: datetime
    waited_seconds: int
    causes: Sequence[tuple[str, int]]
    layers: Sequence[str]
    beyond: Sequence[Lack]
    query: Mapping[str, str]


def blocked_shapes(
    *,
    now: datetime,
    team_ids: Collection[int] | None,
    criteria: AdmissionCriteria | None = None,
) -> list[Shape]:
    """What waits now, the shape with the longest waits in all first."""
    wanted = criteria or AdmissionCriteria()
    narrowed = Criteria(
        cluster=wanted.cluster,
        team=wanted.team,
        queue=wanted.queue,
        cause=wanted.cause,
        reason=wanted.reason,
    )
    team = Team.objects.filter(slug=wanted.team).values_list("pk", flat=True).first()
    waiting = pending_work(now=now, team_ids=team_ids, criteria=narrowed, team_id=team)
    groups: dict[tuple[int, str, str, tuple[tuple[str, Decimal], ...]], list[Pending]] = {}
    for item in waiting:
        asked = sorted((name, parse_quantity(amount)) for name, amount in item.asked.items())
        if wanted.layer in ("", item.verdict.layer):
            groups.setdefault((item.cluster_id, item.kind, item.queue, tuple(asked)), []).append(item)
    clusters = {cluster.pk: cluster for cluster in Cluster.objects.filter(enabled=True)}
    offers = offers_in(
        now=now,
        clusters=[clusters[pk] for pk in sorted({key[0] for key in groups})],
        queues={queue_key(*key[:3]) for key in groups if key[1] != "Pod" and key[2]},
    )
    work = _of_groups([items[0] for items in groups.values() if items[0].kind != "Pod"])
    shapes = [_shape(key, items, clusters, offers, work, now) for key, items in groups.items()]
    return sorted(
        shapes,
        key=lambda shape: (-shape.waited_seconds, shape.cluster, shape.queue, sorted(shape.devices.items())),
    )


def never_fitting(shapes: Sequence[Shape]) -> list[Shape]:
    """Those that ask for more than any quota of their queue could ever give."""
    return [shape for shape in shapes if shape.beyond]


def _of_groups(items: Sequence[Pending]) -> dict[int, Workload]:
    found = Workload.objects.filter(pk__in=[item.key for item in items]).only("pod_sets", "requests", "uid")
    return {work.pk: work for work in found}


def _shape(
    key: tuple[int, str, str, tuple[tuple[str, Decimal], ...]],
    items: Sequence[Pending],
    clusters: Mapping[int, Cluster],
    offers: Offers,
    work: Mapping[int, Workload],
    now: datetime,
) -> Shape:
    cluster_id, kind, queue, asked = key
    one = work.get(items[0].key) if kind != "Pod" else None
    offered = offers.get(queue_key(cluster_id, kind, queue))
    short = lacks(kind, one.pod_sets, one.requests, offered) if one is not None else None
    verdicts = [item.verdict for item in items]
    causes = Counter(verdict.cause for verdict in verdicts)
    waited = sum(max(0, int((now - item.waits_since).total_seconds())) for item in items)
    slug = clusters[cluster_id].slug
    return Shape(
        cluster_id=cluster_id,
        cluster=slug,
        kind=kind,
        queue=queue,
        devices={name: amount for name, amount in asked if is_device(name) and amount},
        count=len(items),
        oldest_at=min(item.waits_since for item in items),
        waited_seconds=waited,
        causes=sorted(causes.items(), key=lambda pair: (-pair[1], pair[0])),
        layers=sorted({verdict.layer for verdict in verdicts}),
        beyond=tuple(lack for lack in short or () if lack.beyond is not None or not lack.offered),
        query={name: value for name, value in (("cluster", slug), ("queue", queue), ("kind", kind)) if value},
    )
