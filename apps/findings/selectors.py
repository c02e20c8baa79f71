"""What needs attention now, across all layers. Input: the other apps' selectors; output: `Finding` rows.

Findings are computed when asked for, from set-based queries; stored is only how long each has been found (services.py).
A reader restricted to teams sees findings about these teams' work, queues and idle cards, and about sources (old
numbers concern everybody), none about nodes or other teams."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime

from apps.capacity.rows import NodeRow
from apps.findings.between import WITHOUT_PLUGIN, between_findings, unregistered_findings
from apps.findings.demand import queue_findings, waiting_findings
from apps.findings.idle import coverage_findings, idle_findings
from apps.findings.models import FindingSpan
from apps.findings.quota import SAID_BY_QUEUE, quota_findings
from apps.findings.rows import Finding, Ref, Severity, Target
from apps.findings.sources import source_findings
from apps.findings.supply import supply_findings
from apps.findings.words import words
from apps.fleet.models import Cluster
from apps.fleet.selectors import enabled_clusters

__all__ = [
    "Finding",
    "Ref",
    "Severity",
    "Target",
    "findings",
    "findings_about",
    "findings_about_node",
    "findings_about_work",
    "worst_of_queues",
]

_RANK: dict[Severity, int] = {"bad": 0, "warn": 1, "note": 2}
_NO_TIME = datetime.max.replace(tzinfo=UTC)


def findings(
    *,
    now: datetime,
    clusters: Collection[Cluster] | None = None,
    team_ids: Collection[int] | None = None,
) -> list[Finding]:
    """Worst first, then oldest first (those without a known start last), then by key."""
    chosen = list(enabled_clusters() if clusters is None else clusters)
    found = [
        *source_findings(now=now, clusters=chosen),
        *_of_queues(now=now, clusters=chosen, team_ids=team_ids),
        *waiting_findings(now=now, clusters=chosen, team_ids=team_ids),
        *idle_findings(now=now, clusters=chosen, team_ids=team_ids),
        *between_findings(now=now, clusters=chosen, team_ids=team_ids),
    ]
    if team_ids is None:
        found += supply_findings(now=now, clusters=chosen)
        found += coverage_findings(now=now, clusters=chosen)
    return _finished(found)


def findings_about(
    *,
    now: datetime,
    cluster: Cluster,
    kind: str,
    name: str,
    namespace: str = "",
    team_ids: Collection[int] | None = None,
) -> list[Finding]:
    """What concerns one queue, cohort, LocalQueue or other object that findings of quota and capacity name."""
    found = _of_queues(now=now, clusters=[cluster], team_ids=team_ids)
    found += between_findings(now=now, clusters=[cluster], team_ids=team_ids)
    if team_ids is None:
        found += supply_findings(now=now, clusters=[cluster])
    ref = Ref(kind, namespace, name)
    return _finished(item for item in found if ref in item.objects)


def findings_about_work(
    *, now: datetime, cluster: Cluster, uid: str, team_ids: Collection[int] | None
) -> list[Finding]:
    """What goes wrong between layers with one piece of work."""
    return _finished(between_findings(now=now, clusters=[cluster], team_ids=team_ids, uid=uid))


def findings_about_node(
    *,
    now: datetime,
    cluster: Cluster,
    name: str,
    rows: Collection[NodeRow],
    team_ids: Collection[int] | None,
) -> list[Finding]:
    """Faults of one node that show between layers; `rows` are its own. Nodes belong to no team."""
    if team_ids is not None:
        return []
    found = [
        *between_findings(now=now, clusters=[cluster], team_ids=None, node=name),
        *unregistered_findings(now=now, rows=rows, notes=()),
    ]
    return _finished(found)


def worst_of_queues(
    *, now: datetime, clusters: Collection[Cluster], team_ids: Collection[int] | None, limit: int
) -> list[Finding]:
    """The worst of what concerns queues and their quota, at most `limit`, without what rests on nodes."""
    found = _of_queues(now=now, clusters=clusters, team_ids=team_ids)
    found.sort(key=lambda item: (_RANK[item.severity], item.since or _NO_TIME, item.key))
    return _finished(found[:limit])


def _of_queues(
    *, now: datetime, clusters: Collection[Cluster], team_ids: Collection[int] | None
) -> list[Finding]:
    """What lint finds, and what queues say themselves where lint does not say it already."""
    linted = list(quota_findings(now=now, clusters=clusters, team_ids=team_ids))
    said = {
        (item.cluster_id, item.objects[0]): item
        for item in queue_findings(now=now, clusters=clusters, team_ids=team_ids)
    }
    found = []
    for item in linted:
        of_both = item.code == "never_admits" and item.key.rpartition("/")[2] in SAID_BY_QUEUE
        known = said.pop((item.cluster_id, item.objects[0]), None) if of_both else None
        found.append(replace(item, since=known.since) if known else item)
    return [*found, *said.values()]


def _without_echoes(found: list[Finding]) -> list[Finding]:
    """A flavor that does not exist is carried by no node: told once, of the queue that names it. Nodes that came
    without their devices are told once, as that."""
    missing = {
        (item.cluster_id, ref)
        for item in found
        if item.key.endswith("/flavor_missing")
        for ref in item.objects
        if ref.kind == "flavor"
    }
    came = {
        (item.cluster_id, ref) for item in found if item.code == "device_unregistered" for ref in item.objects
    }
    return [
        item
        for item in found
        if not (
            item.code == "flavor_without_nodes"
            and any((item.cluster_id, ref) in missing for ref in item.objects)
        )
        and not (_is_of_unregistered(item) and all((item.cluster_id, ref) in came for ref in item.objects))
    ]


def _is_of_unregistered(item: Finding) -> bool:
    return item.code == "present_without_devices" or (
        item.code == "bucket" and item.key.rpartition("/")[2] in WITHOUT_PLUGIN
    )


def _finished(found: Iterable[Finding]) -> list[Finding]:
    """With why, advice and how long it has been found, in order."""
    rows = _without_echoes(list(found))
    seen = {
        key: (first, last)
        for key, first, last in FindingSpan.objects.filter(
            ended_at__isnull=True, key__in=[item.key for item in rows]
        ).values_list("key", "first_seen_at", "last_seen_at")
    }
    done = []
    for item in rows:
        why, advice = words(item)
        first, last = seen.get(item.key, (None, None))
        done.append(replace(item, why=why, advice=advice, first_seen=first, last_seen=last))
    return sorted(done, key=lambda item: (_RANK[item.severity], item.started or _NO_TIME, item.key))
