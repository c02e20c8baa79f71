"""Work of which no Workload was made: the owner's events say why. Input: events; output: frozen rows.

A webhook that refuses, a missing WorkloadPriorityClass, a full ResourceQuota or a refused pod leave nothing but events
on the Job (JobSet, RayCluster, Volcano Job …). Kueue up to 0.17 says of a missing WorkloadPriorityClass nothing but in
its own log: there a Job that is suspended and stays without a Workload is all that can be seen. Access is by the owner's namespace, as no queue is known.

Invariants: an owner that has a Workload, a PodGroup or a pod is none of these; what was not said again within
STILL_SAID is over (the cluster repeats it, more and more seldom); `team_ids` is applied before anything is returned.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.utils.translation import gettext

from apps.accounts.models import Team
from apps.admissions.classifier import Verdict, classify
from apps.admissions.parts import part_of
from apps.admissions.pending import Criteria, chosen_clusters
from apps.admissions.rulebook import rule_book
from apps.fleet.models import Cluster
from apps.fleet.selectors import UNBOUND, BindingIndex

STILL_SAID = timedelta(hours=1)
OWNER_KINDS = (
    *("Job", "JobSet", "RayCluster", "RayJob", "RayService", "LeaderWorkerSet", "AppWrapper", "TrainJob"),
    *("MPIJob", "PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "SparkApplication"),
)

# By reason, because events are found by it: those of whoever tried to make the Workload, the job or its pods.
REASONS = (
    *("FailedCreate", "WorkloadPriorityClassNotFound", "ErrWorkloadCompose", "JobCreationFailed"),
    *("FailedToCreateHeadPod", "FailedToCreateWorkerPod", "FailedCreatePod", "PodGroupError"),
)
KEPT = timedelta(days=7)
# A job begins suspended; its Workload follows within seconds and is read with the next pull.
SETTLED = timedelta(minutes=3)

_UNMADE = """
SELECT DISTINCT ON (e.cluster_id, e.object_uid) e.cluster_id, e.object_kind, e.object_uid, e.namespace, e.object_name,
  e.reason, e.message, min(coalesce(e.first_at, e.created_at)) OVER same, max(coalesce(e.last_at, e.created_at)) OVER same,
  sum(e.count) OVER same
FROM observations_event e
WHERE e.cluster_id = ANY(%(clusters)s) AND e.object_kind = ANY(%(kinds)s) AND e.object_uid <> ''
  AND (e.reason = ANY(%(reasons)s) AND e.type = 'Warning' OR e.reason = 'Suspended' AND e.object_kind = 'Job'
    AND e.created_at > %(still)s AND coalesce(e.last_at, e.created_at) <= %(settled)s)
  AND e.created_at > %(oldest)s AND e.created_at <= %(now)s
  AND NOT EXISTS (SELECT FROM observations_workload w WHERE w.cluster_id = e.cluster_id
    AND w.namespace = e.namespace AND w.owner_uid = e.object_uid)
  AND NOT EXISTS (SELECT FROM observations_pod p WHERE p.cluster_id = e.cluster_id
    AND p.namespace = e.namespace AND p.owner_uid = e.object_uid)
WINDOW same AS (PARTITION BY e.cluster_id, e.object_uid)
ORDER BY e.cluster_id, e.object_uid, e.type = 'Warning' DESC, coalesce(e.last_at, e.created_at) DESC, e.id DESC
"""


@dataclass(frozen=True, slots=True)
class UnmadeRow:
    """`since`: the first event about it that is kept; `times`: how often anything was said."""

    cluster_id: int
    cluster_slug: str
    cluster_name: str
    kind: str
    uid: str
    namespace: str
    name: str
    team_id: int | None
    team_slug: str
    team_name: str
    reason: str
    message: str
    verdict: Verdict
    since: datetime
    last_at: datetime
    times: int

    @property
    def cause(self) -> str:
        return self.verdict.cause


def unmade(
    *, now: datetime, team_ids: Collection[int] | None, criteria: Criteria | None = None
) -> list[UnmadeRow]:
    """What could not even be queued, the oldest first. Of the criteria, those of queues take everything away: this work
    has none."""
    wanted = criteria or Criteria()
    if wanted.queue or wanted.kind:
        return []
    ids = chosen_clusters(wanted)
    params: dict[str, Any] = {
        "clusters": ids,
        "reasons": list(REASONS),
        "kinds": list(OWNER_KINDS),
        "now": now,
        "oldest": now - KEPT,
        "still": now - STILL_SAID,
        "settled": now - SETTLED,
    }
    with connection.cursor() as cursor:
        cursor.execute(_UNMADE, params)
        found = [row for row in cursor.fetchall() if row[8] > now - STILL_SAID]
    if not found:
        return []
    owners, teams, clusters = (
        BindingIndex.load(now, clusters=ids),
        Team.objects.in_bulk(),
        Cluster.objects.in_bulk(ids),
    )
    rows = []
    for cluster_id, kind, uid, namespace, name, reason, message, since, last_at, times in found:
        team_id = owners.team_id_for(cluster_id, namespace=namespace, queue_name="", queue="", volcano=False)
        team = teams.get(team_id or 0)
        if team_ids is not None and team_id not in team_ids:
            continue
        row = UnmadeRow(
            cluster_id=cluster_id,
            cluster_slug=clusters[cluster_id].slug,
            cluster_name=clusters[cluster_id].name,
            kind=kind,
            uid=uid,
            namespace=namespace,
            name=name,
            team_id=team_id,
            team_slug=team.slug if team else "",
            team_name=team.name if team else "",
            reason=reason,
            message=message,
            verdict=_verdict(reason, message),
            since=since,
            last_at=last_at,
            times=int(times),
        )
        if _matches(row, wanted):
            rows.append(row)
    return sorted(rows, key=lambda row: (row.since, row.cluster_id, row.namespace, row.name))


def _verdict(reason: str, message: str) -> Verdict:
    if reason != "Suspended":
        return classify(reason=reason, message=message)
    text = gettext(
        "The job is suspended and no queue took it: it names no queue, or a WorkloadPriorityClass that does not exist,"
        " or it was suspended on purpose."
    )
    part = part_of(rule_book().rules["misconfigured"], text)
    return Verdict(part.layer, part.cause, part.rule, part.severity, part.next_step, part, (part,))


def _matches(row: UnmadeRow, wanted: Criteria) -> bool:
    if wanted.team and (row.team_slug or UNBOUND) != wanted.team:
        return False
    if wanted.cause and row.cause != wanted.cause:
        return False
    if wanted.reason and row.reason != wanted.reason:
        return False
    text = f"{row.namespace}/{row.name} {row.message}".lower()
    return wanted.q.strip().lower() in text
