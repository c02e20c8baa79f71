"""Texts that no rule knows: which of them would be worth a rule. Input: stored spans, events and pods of a window;
output: `UnknownText`s, the one that blocks longest first.

Only distinct texts are classified: they are few, however much work says them. For the unknown ones a second read adds
up time and work per group of texts that differ in numbers and names alone. Invariants: a piece of work counts once per
group; time is what state spans and waiting pods lasted within the window; an event alone has no length (None).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from django.db import connection

from apps.admissions.classifier import classify
from apps.admissions.normalise import normalised
from apps.core.windows import Window
from apps.fleet.models import Cluster

Origin = Literal["condition", "event", "pod"]
ORIGINS: tuple[Origin, ...] = ("condition", "event", "pod")

# Kinds of objects whose events say why work does not start.
_ABOUT = [
    "Workload", "PodGroup", "Pod", "Job", "JobSet", "RayCluster", "RayJob", "PyTorchJob", "MPIJob", "TrainJob",
    "LeaderWorkerSet", "StatefulSet", "ReplicaSet", "ProvisioningRequest", "NodeClaim", "NodePool", "ConfigMap",
]  # fmt: skip

# Who said what, and from when to when it kept work from running; an event has no length.
_SAID = """
said AS (
  SELECT 'condition' AS origin, s.cluster_id, s.uid, s.state, s.reason, s.message,
    greatest(s.started_at, %(start)s) AS low, least(coalesce(s.ended_at, %(end)s), %(end)s) AS high
  FROM observations_statespan s
  WHERE s.cluster_id = ANY(%(clusters)s) AND s.state IN ('pending', 'reserved', 'deactivated') AND s.message <> ''
    AND s.started_at < %(end)s AND (s.ended_at IS NULL OR s.ended_at > %(start)s)
  UNION ALL
  SELECT 'event', e.cluster_id, e.object_uid, '', e.reason, e.message, NULL,
    least(coalesce(e.last_at, e.created_at), %(end)s)
  FROM observations_event e
  WHERE e.cluster_id = ANY(%(clusters)s) AND e.created_at >= %(start)s AND e.created_at < %(end)s
    AND e.message <> '' AND e.object_kind = ANY(%(about)s)
    AND (e.type <> 'Normal' OR e.reason IN ('Unschedulable', 'NotTriggerScaleUp', ''))
  UNION ALL
  SELECT 'pod', p.cluster_id, p.uid, '', c.reason, c.message,
    CASE WHEN c.waits THEN greatest(coalesce(p.created_at, p.first_seen_at), %(start)s) END,
    least(coalesce(p.bound_at, p.gone_at, %(end)s), %(end)s)
  FROM observations_pod p
  CROSS JOIN LATERAL (VALUES
    (true, coalesce(p.conditions->'PodScheduled'->>'reason', ''), coalesce(p.conditions->'PodScheduled'->>'message', '')),
    (false, p.reason::text, p.message)) AS c(waits, reason, message)
  WHERE p.cluster_id = ANY(%(clusters)s) AND (p.devices > 0 OR p.claims <> '[]') AND c.message <> ''
    AND coalesce(p.created_at, p.first_seen_at) < %(end)s AND coalesce(p.gone_at, 'infinity') > %(start)s
)"""

_DISTINCT = f"""
WITH {_SAID}
SELECT DISTINCT state, reason, message FROM said
WHERE (%(origin)s = '' OR origin = %(origin)s)
"""  # noqa: S608 - constants of this module only

_SUMS = f"""
WITH {_SAID}
SELECT u.place, array_agg(DISTINCT s.origin) AS origins, count(DISTINCT s.uid) AS works,
  count(DISTINCT s.message) AS texts, sum(extract(epoch FROM s.high - s.low)) AS seconds, max(s.high) AS last_at,
  array_agg(DISTINCT s.cluster_id) AS clusters,
  (array_agg(s.message ORDER BY s.high DESC, s.message))[1] AS sample,
  (array_agg(s.reason ORDER BY s.high DESC, s.message))[1] AS reason,
  (array_agg(DISTINCT s.uid) FILTER (WHERE s.origin = 'condition'))[1:3] AS uids
FROM said s JOIN unnest(%(states)s::text[], %(reasons)s::text[], %(messages)s::text[], %(places)s::int[])
  AS u(state, reason, message, place) ON u.state = s.state AND u.reason = s.reason AND u.message = s.message
WHERE (%(origin)s = '' OR s.origin = %(origin)s)
GROUP BY u.place
"""  # noqa: S608 - constants of this module only


@dataclass(frozen=True, slots=True)
class UnknownText:
    """Texts that read the same but for numbers and names. `group`: the normalised text; `decides`: the whole message
    is unknown, so that its cause is; else only a part of it. `seconds`: how long it kept work waiting in the window,
    None when only events say it; `works`: pieces of work; `texts`: different wordings; `uids`: up to three waiting
    pieces of work."""

    group: str
    decides: bool
    sample: str
    reason: str
    origins: Sequence[str]
    seconds: Decimal | None
    works: int
    texts: int
    clusters: Sequence[str]
    uids: Sequence[str]
    last_at: datetime


def unknown_texts(
    *, clusters: Sequence[Cluster], window: Window, now: datetime, origin: str = ""
) -> list[UnknownText]:
    """Groups of unknown texts; those that decide a cause come first, of these the longest blocking."""
    params: dict[str, Any] = {
        "clusters": [cluster.pk for cluster in clusters],
        "start": window.start,
        "end": min(window.end, now),
        "about": _ABOUT,
        "origin": origin,
    }
    with connection.cursor() as cursor:
        cursor.execute(_DISTINCT, params)
        groups: dict[tuple[str, bool], int] = {}
        wanted: list[tuple[str, str, str, int]] = []
        for state, reason, message in cursor.fetchall():
            for group in sorted(_groups(state, reason, message)):
                wanted.append((state, reason, message, groups.setdefault(group, len(groups))))
        if not wanted:
            return []
        names = ("states", "reasons", "messages", "places")
        cursor.execute(
            _SUMS, {**params, **dict(zip(names, map(list, zip(*wanted, strict=True)), strict=True))}
        )
        rows = cursor.fetchall()
    keys = list(groups)
    slugs = {cluster.pk: cluster.slug for cluster in clusters}
    found = [
        UnknownText(
            group=keys[place][0],
            decides=keys[place][1],
            sample=sample,
            reason=reason,
            origins=origins,
            seconds=seconds,
            works=works,
            texts=texts,
            clusters=sorted(slugs[pk] for pk in pks),
            uids=uids or (),
            last_at=last_at,
        )
        for place, origins, works, texts, seconds, last_at, pks, sample, reason, uids in rows
    ]
    return sorted(found, key=lambda row: (not row.decides, -(row.seconds or 0), -row.works, row.group))


def _groups(state: str, reason: str, message: str) -> set[tuple[str, bool]]:
    """The unknown statements of one message, each with whether it leaves the cause unknown. Where reason or state
    gives the cause (an admission check writes what it likes), the text is not looked at."""
    verdict = classify(state=state, reason=reason, message=message)
    unknown = [part.text for part in verdict.parts if part.rule == "unknown"]
    if verdict.cause == "unknown":
        return {(normalised(text), True) for text in unknown or [message]}
    by_text = state != "reserved" and any(part.rule == verdict.rule for part in verdict.parts)
    return {(normalised(text), False) for text in unknown} if by_text else set()
