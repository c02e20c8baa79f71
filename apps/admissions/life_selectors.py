"""Lives read from the database. Input: uids and the clock; output: `Life`s, and what is blocked by the same thing.

Every function that names other work takes `team_ids`: None sees all, a collection only the work of these teams; what is
hidden is counted, never named.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import Q, QuerySet

from apps.admissions.blocks import Block, block_of
from apps.admissions.classifier import Verdict
from apps.admissions.life import Eviction, Life, Stretch, life_of, preemption_in
from apps.admissions.life_relation import BLOCKING, LIFE, life_params
from apps.admissions.life_sources import JOBSET_UID
from apps.admissions.noting import Known, known_at, known_of
from apps.admissions.pending import Criteria
from apps.admissions.selectors import WaitingRow, waiting
from apps.admissions.surroundings import Surroundings
from apps.observations.models import Event, Pod, Workload

_EVER = datetime(2000, 1, 1, tzinfo=UTC)
_ONE = f"""SELECT phase, started_at, ended_at, until_at, state, queue, reason, message, evidence, attempt
FROM {LIFE} l WHERE uid = %(uid)s ORDER BY started_at"""  # noqa: S608 - constants
SIBLINGS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Siblings:
    """Other work that waits in the same queue for the same cause, rule, flavor and resource. `hidden`: of teams that the
    reader may not see."""

    shown: tuple[WaitingRow, ...]
    count: int
    hidden: int


def life_of_work(*, cluster_id: int, uid: str, now: datetime, counted_evictions: int = 0) -> Life:
    """The whole life of one Workload, PodGroup or plain GPU pod, copies and variants too."""
    params = life_params(
        [cluster_id], start=_EVER, end=now + timedelta(days=1), now=now, uids=[uid], copies=True
    )
    with connection.cursor() as cursor:
        cursor.execute(_ONE, {**params, "uid": uid})
        names = [column.name for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    reasons = Surroundings([cluster_id]).queue_reasons
    known = known_of(clusters=[cluster_id], uids=[uid])
    return life_of(
        [
            _stretch(
                row,
                reasons.get((cluster_id, row["queue"]), ""),
                known_at(known, cluster_id=cluster_id, uid=uid, until=row["until_at"]),
            )
            for row in rows
        ],
        evictions=_evictions(cluster_id, uid),
        counted_evictions=counted_evictions,
    )


def _stretch(row: dict[str, Any], queue_reason: str, known: Known) -> Stretch:
    block = Block("", "", "")
    if row["phase"] in BLOCKING:
        block = block_of(
            phase=row["phase"],
            state=row["state"],
            reason=row["reason"],
            message=row["message"],
            queue_reason=queue_reason,
            known=known,
        )
    return Stretch(**row, layer=block.layer, cause=block.cause, rule=block.rule)


def _evictions(cluster_id: int, uid: str) -> list[Eviction]:
    """From Kueue's events about the work itself; one that says "Preempted" beside them tells the same again."""
    found = Event.objects.filter(cluster=cluster_id, object_uid=uid, reason__startswith="EvictedDueTo")
    return [
        Eviction(
            event.first_at or event.created_at, event.reason, event.message, preemption_in(event.message)
        )
        for event in found.order_by("created_at", "id")
    ]


def plain_pods(uid: str) -> list[Pod]:
    """The GPU pods of this uid, the newest first (one, unless clusters gave the same uid)."""
    holding = Q(devices__gt=0) | ~Q(claims=[])
    return list(Pod.objects.filter(holding, uid=uid).select_related("cluster").order_by("-observed_at", "id"))


def work_uid_of_pod(pod: Pod) -> str:
    """The Workload or PodGroup whose pod this is, the newest if there are several; "" when none is known."""
    owners = [owner for owner in (pod.uid, pod.owner_uid, pod.labels.get(JOBSET_UID)) if owner]
    belongs = Q(owner_uid__in=owners)
    if pod.pod_group:
        belongs |= Q(name=pod.pod_group)
    found = Workload.objects.filter(belongs, cluster=pod.cluster_id, namespace=pod.namespace)
    return found.order_by("-created_at", "-id").values_list("uid", flat=True).first() or ""


def pods_of(work: Workload) -> QuerySet[Pod]:
    """Its GPU pods: those of its group and those of its owner."""
    holding = Q(devices__gt=0) | ~Q(claims=[])
    belongs = Q(pod_group=work.name)
    if work.owner_uid:
        belongs |= Q(owner_uid=work.owner_uid)
    return Pod.objects.filter(holding, belongs, cluster=work.cluster_id, namespace=work.namespace)


def siblings(
    *,
    uid: str,
    cluster_slug: str,
    queue: str,
    verdict: Verdict,
    now: datetime,
    team_ids: Collection[int] | None,
) -> Siblings:
    """What else waits in this queue for the same thing."""
    if not queue:
        return Siblings((), 0, 0)
    criteria = Criteria(cluster=cluster_slug, queue=queue, cause=verdict.cause)
    mine = _thing(verdict)
    everything = waiting(now=now, team_ids=None, criteria=criteria)
    same = [item for item in everything.found if _thing(item.verdict) == mine]
    visible = [item for item in same if team_ids is None or item.team_id in team_ids]
    hidden = len(same) - len(visible)
    everything.found = visible
    rows = tuple(row for row in everything[: SIBLINGS_SHOWN + 1] if row.uid != uid)[:SIBLINGS_SHOWN]
    return Siblings(rows, max(0, len(visible) - 1), hidden)


def _thing(verdict: Verdict) -> tuple[str, str, str, str]:
    part = verdict.primary
    return (verdict.cause, verdict.rule, part.flavor if part else "", part.resource if part else "")


def other_attempts(work: Workload) -> list[Workload]:
    """Workloads of the same owner: restarts and slices."""
    if not work.owner_uid:
        return []
    found = Workload.objects.filter(
        cluster=work.cluster_id, namespace=work.namespace, owner_uid=work.owner_uid
    )
    return list(found.exclude(pk=work.pk).order_by("-created_at", "-id")[:SIBLINGS_SHOWN])
